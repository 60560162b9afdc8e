//! The fitted form: what a recorded machine's services do, as distributions, for other loads.
//!
//! The exact form repeats demands in their order and ends with them, so it cannot say what more
//! requests would do. This form keeps only what a request is:
//!
//! ```text
//! threads ─► classes: those of one process, name and attributes are the workers of a service
//! jobs    ─► the work between a wakeup and the next sleep; its waker decides what it is
//!
//!  a job woken by          is
//!  a timer, a device       a request of an arrival process
//!  another class           a request that the other class sends, if that wakes most of its jobs
//!  a class that it sends   the rest of the request that waited for the answer: `call`
//!  its own class           a part of the same request
//! ```
//!
//! 1. A class is *sent to* by the class that wakes at least 80 % of its jobs. It gets so many
//!    requests per request of its sender as it had, rounded; its demand makes up for the rounding.
//! 2. Two classes that wake each other are a server and its client, and nothing in the trace says
//!    which. The one whose thread is older is the server. The client is *closed*, since answers
//!    wake it: tasks that compute and `call` the server, in turn, so that fewer requests come where
//!    a limit delays answers. (An open loop in its place has a queue that grows for the whole run
//!    under each limit that is lower than the recorded one: p50 of Redis 386 ms for 1.25.)
//! 3. Every other class has an arrival process: the distances between its requests. A class with
//!    few jobs gets their times.
//!
//! A class whose processes talk with each other more than with others is several: a server
//! and its client can be programs of one interpreter.
//!
//! Demands and distances are kept as up to 32 means of equally many samples, so their mean is exact
//! and their tail is the mean of the last part. Differs from the machine: distances and demands are
//! drawn independently, so bursts that follow a rhythm lose it, and a thread that handles several
//! requests in one job counts as one request.
//!
//! Where a class has [messages](super::requests), they say what a request is, when it arrives and
//! what it demands, and a sequence keeps the recorded order of both: drawn independently, demands
//! queue up where the recorded ones did not. Its client is another service, whose workers are the
//! threads that send. The server sends it each answer:
//!
//! ```text
//!  open     arrivals ─► server ─► client                 at the recorded times, whatever the answers
//!  closed   client ─► server ─► client ─► server ...     as many in this circle as were under way
//! ```

use super::Options;
use super::extract::{ImportedTask, RecordedJob, Step};
use super::groups::ImportedGroups;
use super::requests::{self, RecordedClient, Served, TalkingClass};
use super::write::{attributes, cpu_of, head, is_kernels, quoted, time, write_groups};
use core::cmp::Reverse;
use core::fmt::Write;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use zerolag_model::{Duration, Instant, KernelVersion, TaskId};
use zerolag_trace::Trace;

/// Threads that do the same.
#[derive(Debug)]
struct ThreadClass<'a> {
    /// The name of its service.
    name: String,
    process: Option<&'a str>,
    tasks: Vec<&'a ImportedTask>,
    /// The lowest thread id: the oldest thread.
    oldest: u32,
    /// All jobs in order of time, with the classes of their wakers.
    jobs: Vec<(&'a RecordedJob, Option<usize>)>,
    /// The class that sends its requests, and how many per request of it.
    sender: Option<(usize, u32)>,
    /// A class that it waits for within a request.
    calls: Option<usize>,
    /// It is a closed client: it sends to this class, only after an answer.
    closed: Option<usize>,
    /// The requests that it received, if its messages tell.
    served: Option<Served>,
    /// The class whose requests it sends, if the messages of that one tell, and what is known of
    /// it.
    asks: Option<(usize, RecordedClient)>,
}

impl ThreadClass<'_> {
    /// Returns when each request began, and what it demanded: those of its messages, else the jobs
    /// that begin a request.
    fn requests(&self, own: usize) -> Vec<(Instant, Duration)> {
        if let Some(served) = &self.served {
            return served.requests.iter().map(|request| (request.arrived, request.demand)).collect();
        }
        let is_first = |by: Option<usize>| by != Some(own) && (by.is_none() || by != self.calls);
        let jobs = self.jobs.iter().filter(|(_, by)| is_first(*by));
        jobs.map(|(job, _)| (job.at, job.demand)).collect()
    }

    /// Returns its client, if it was recorded, and what is known of it.
    fn client(&self) -> Option<RecordedClient> {
        self.served.as_ref()?.client
    }

    /// Returns how many requests of a closed client are under way at most: as many as threads that
    /// answers have woken, or as jobs of its server at one time.
    fn users(&self, own: usize, server: &Self) -> usize {
        let answers: BTreeSet<TaskId> = server.tasks.iter().map(|task| task.id).collect();
        let is_answered = |job: &RecordedJob| job.by.is_some_and(|by| answers.contains(&by));
        let threads = self.tasks.iter().filter(|task| task.jobs.iter().any(is_answered)).count();
        let mut ends = BinaryHeap::new();
        let mut most = 0;
        for (job, _) in server.jobs.iter().filter(|(_, by)| *by == Some(own)) {
            while ends.peek().is_some_and(|Reverse(end)| *end <= job.at) {
                ends.pop();
            }
            ends.extend(job.done.map(Reverse));
            most = most.max(ends.len());
        }
        threads.max(most).max(1)
    }

    /// Returns the share of the jobs that a class wakes.
    fn share_of(&self, waker: usize) -> f64 {
        self.jobs.iter().filter(|(_, by)| *by == Some(waker)).count() as f64 / self.jobs.len().max(1) as f64
    }
}

/// A service of the scenario, or a closed client.
pub(super) struct Service {
    pub(super) name: String,
    /// The recorded threads.
    pub(super) tasks: Vec<TaskId>,
    /// How many threads it has in the scenario.
    pub(super) threads: usize,
}

/// What the messages of a service tell of its requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ServedService {
    pub(super) name: String,
    /// How long requests took, until the answer was sent, in order of length.
    pub(super) latencies: Vec<Duration>,
}

/// Returns the scenario, its services in their order, and the requests of those that have messages.
pub(super) fn scenario(
    trace: &Trace,
    tasks: &[ImportedTask],
    kernel: Option<KernelVersion>,
    origin: &str,
    groups: &ImportedGroups,
    options: &Options,
) -> (String, Vec<Service>, Vec<ServedService>) {
    let mut classes = classes(trace, tasks, groups);
    serve(trace, &mut classes);
    link(&mut classes);
    ask(&mut classes);
    let mut out = String::new();
    write(&mut out, trace, &classes, (kernel, origin), groups, options)
        .expect("invariant: writing to a String cannot fail");
    let service = |at: usize| {
        let class = &classes[at];
        let threads = match (class.closed, class.asks) {
            (Some(server), _) => class.users(at, &classes[server]),
            (None, Some((_, client))) => client.threads,
            (None, None) => class.tasks.len(),
        };
        Service { name: class.name.clone(), tasks: class.tasks.iter().map(|task| task.id).collect(), threads }
    };
    // The tasks of a scenario come before the threads of its services.
    let (clients, services): (Vec<usize>, Vec<usize>) =
        (0..classes.len()).partition(|at| classes[*at].closed.is_some());
    let served = classes.iter().filter_map(|class| {
        Some(ServedService { name: class.name.clone(), latencies: class.served.as_ref()?.latencies() })
    });
    (out, clients.into_iter().chain(services).map(service).collect(), served.collect())
}

/// Returns the requests of the classes that have messages, with the names of these and of their
/// clients.
pub(super) fn recorded(
    trace: &Trace,
    tasks: &[ImportedTask],
    groups: &ImportedGroups,
) -> Vec<(String, Option<String>, Served)> {
    let mut classes = classes(trace, tasks, groups);
    serve(trace, &mut classes);
    let names: Vec<String> = classes.iter().map(|class| class.name.clone()).collect();
    let served = classes.into_iter().filter_map(|class| Some((class.name, class.served?)));
    served.map(|(name, served)| (name, served.client.map(|client| names[client.class].clone()), served)).collect()
}

/// Finds the requests of classes that have messages.
fn serve(trace: &Trace, classes: &mut [ThreadClass<'_>]) {
    let of: Vec<_> = classes.iter().map(|class| (class.tasks.clone(), class.oldest)).collect();
    let of: Vec<TalkingClass<'_>> = of.iter().map(|(tasks, oldest)| TalkingClass { tasks, oldest: *oldest }).collect();
    for (at, served) in requests::served(trace, &of).into_iter().enumerate() {
        classes[at].served = served;
    }
}

/// Joins classes whose messages tell the requests to their clients, whatever their wakeups say.
fn ask(classes: &mut [ThreadClass<'_>]) {
    for at in 0..classes.len() {
        let Some(client) = classes[at].client() else { continue };
        // A client of two servers sends in turn to the one with the most requests.
        let count = |of: usize| classes[of].served.as_ref().map_or(0, |served| served.requests.len());
        if classes[client.class].asks.is_some_and(|(other, _)| count(other) >= count(at)) {
            continue;
        }
        classes[client.class].asks = Some((at, client));
    }
    for at in 0..classes.len() {
        if let Some(client) = classes[at].client()
            && classes[client.class].asks.is_none_or(|(server, _)| server != at)
            && let Some(served) = &mut classes[at].served
        {
            // Its requests come at the recorded times.
            served.client = None;
        }
        let is_joined = classes[at].asks.is_some() || classes[at].client().is_some();
        let is_asked_by = |other: usize| classes[other].asks.is_some_and(|(server, _)| server == at);
        if is_joined {
            let called = classes[at].calls.filter(|other| classes[at].asks.is_none() && !is_asked_by(*other));
            (classes[at].sender, classes[at].closed, classes[at].calls) = (None, None, called);
        }
    }
    // What a client was said to send to is its server.
    for at in 0..classes.len() {
        let sends = classes[at].sender.map(|(sender, _)| sender);
        if sends.is_some_and(|sender| classes[sender].asks.is_some_and(|(server, _)| server == at)) {
            classes[at].sender = None;
        }
    }
}

/// What the tasks of a class share: process, name, attributes as text (they have no order), group.
type ClassKey<'a> = (Option<&'a str>, &'a str, String, Option<&'a String>);

fn classes<'a>(trace: &'a Trace, tasks: &'a [ImportedTask], groups: &ImportedGroups) -> Vec<ThreadClass<'a>> {
    let process_of = |task: &ImportedTask| trace.meta.recorded.thread(task.id)?.process.as_deref();
    let key = |task: &'a ImportedTask| -> ClassKey<'_> {
        (process_of(task), &task.name, format!("{:?}", task.attr), groups.of.get(&task.id))
    };
    let keys: Vec<ClassKey<'_>> = tasks.iter().map(key).collect();
    let apart = apart(trace, tasks, &keys);
    let mut places: BTreeMap<(&ClassKey<'_>, Option<u32>), usize> = BTreeMap::new();
    let mut of: BTreeMap<TaskId, usize> = BTreeMap::new();
    let mut classes: Vec<ThreadClass<'a>> = Vec::new();
    for (task, key) in tasks.iter().zip(&keys) {
        let thread = trace.meta.recorded.thread(task.id);
        let process = process_of(task);
        let tid = thread.map_or(task.id.0, |thread| thread.tid);
        let pid = thread.and_then(|thread| thread.pid).filter(|_| apart.contains(key));
        let place = *places.entry((key, pid)).or_insert_with(|| {
            let name = task.name.to_string();
            let known = classes.iter().filter(|class| class.tasks[0].name == task.name).count();
            let name = if known == 0 { name } else { format!("{name}:{}", known + 1) };
            classes.push(ThreadClass {
                name,
                process,
                tasks: Vec::new(),
                oldest: tid,
                jobs: Vec::new(),
                sender: None,
                calls: None,
                closed: None,
                served: None,
                asks: None,
            });
            classes.len() - 1
        });
        classes[place].tasks.push(task);
        classes[place].oldest = classes[place].oldest.min(tid);
        of.insert(task.id, place);
    }
    for class in &mut classes {
        let jobs = class.tasks.iter().flat_map(|task| &task.jobs);
        class.jobs = jobs.map(|job| (job, job.by.and_then(|waker| of.get(&waker).copied()))).collect();
        class.jobs.sort_by_key(|(job, _)| job.at);
    }
    classes
}

/// Returns the keys of which different processes talk with each other more than with others.
fn apart<'k, 'a>(trace: &Trace, tasks: &[ImportedTask], keys: &'k [ClassKey<'a>]) -> BTreeSet<&'k ClassKey<'a>> {
    let recorded = &trace.meta.recorded;
    let of: BTreeMap<TaskId, &ClassKey<'_>> = tasks.iter().map(|task| task.id).zip(keys).collect();
    let mut users: BTreeMap<u32, TaskId> = BTreeMap::new();
    for message in &recorded.messages {
        users.entry(message.socket).or_insert(message.task);
    }
    let pid = |task: TaskId| recorded.thread(task).and_then(|thread| thread.pid);
    let peer = |socket: u32| users.get(&recorded.peers.get(socket as usize).copied().flatten()?).copied();
    // Of all messages, those between processes.
    let mut counts: BTreeMap<&ClassKey<'_>, (usize, usize)> = BTreeMap::new();
    for message in &recorded.messages {
        let Some(own) = of.get(&message.task) else { continue };
        let is_between = |peer: TaskId| of.get(&peer) == Some(own) && pid(peer) != pid(message.task);
        let (all, between) = counts.entry(own).or_default();
        *all += 1;
        *between += usize::from(peer(message.socket).is_some_and(is_between));
    }
    counts.into_iter().filter(|(_, (all, between))| between * 2 > *all).map(|(key, _)| key).collect()
}

/// Decides which class sends the requests of which.
fn link(classes: &mut [ThreadClass<'_>]) {
    let most = |at: usize| {
        let class = &classes[at];
        let sender = (0..classes.len()).filter(|other| *other != at && classes[*other].jobs.len() >= FEW);
        let best =
            sender.map(|other| (class.share_of(other), other)).max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        best.filter(|(share, _)| *share >= MOSTLY && class.jobs.len() >= FEW).map(|(_, other)| other)
    };
    let mut senders: Vec<Option<usize>> = (0..classes.len()).map(most).collect();
    // The oldest of a circle is fed from outside: by the class that would send to it.
    let mut fed_by: Vec<Option<usize>> = vec![None; classes.len()];
    for start in 0..classes.len() {
        let mut path = vec![start];
        while let Some(next) = senders[*path.last().expect("invariant: it has a start")] {
            if let Some(at) = path.iter().position(|known| *known == next) {
                let oldest = path[at..].iter().copied().min_by_key(|class| (classes[*class].oldest, *class));
                let root = oldest.expect("invariant: a circle has a class");
                (fed_by[root], senders[root]) = (senders[root], None);
                break;
            }
            path.push(next);
        }
    }
    for at in 0..classes.len() {
        classes[at].closed = senders[at].filter(|server| fed_by[*server] == Some(at));
    }
    for at in 0..classes.len() {
        let answers = |other: usize| senders[other] == Some(at) && fed_by[at] != Some(other);
        let called = (0..classes.len()).filter(|other| answers(*other)).find(|other| {
            let woken = classes[at].jobs.iter().filter(|(_, by)| *by == Some(*other)).count();
            woken as f64 >= MOSTLY * classes[*other].jobs.len() as f64
        });
        classes[at].calls = called;
    }
    for at in 0..classes.len() {
        let Some(sender) = senders[at].filter(|_| classes[at].closed.is_none()) else { continue };
        let ratio = classes[at].requests(at).len() as f64 / classes[sender].requests(sender).len().max(1) as f64;
        // A request that is sent with less than every other one has times of its own.
        if ratio >= 0.5 {
            classes[at].sender = Some((sender, (ratio.round() as u32).clamp(1, SENT_MAX)));
        } else {
            for class in classes.iter_mut().filter(|class| class.calls == Some(at)) {
                class.calls = None;
            }
        }
    }
}

fn write(
    out: &mut String,
    trace: &Trace,
    classes: &[ThreadClass<'_>],
    (kernel, origin): (Option<KernelVersion>, &str),
    groups: &ImportedGroups,
    options: &Options,
) -> core::fmt::Result {
    head(out, trace, kernel, origin, "fitted: demands and distances are drawn from the recorded ones")?;
    let is_scaled =
        |at: usize, class: &ThreadClass<'_>| is_scaled(classes, class, options) && has_arrivals(classes, at);
    // A parameter that is used nowhere is refused.
    let has_load =
        classes.iter().enumerate().any(|(at, class)| is_scaled(at, class) && class.requests(at).len() >= FEW);
    let closed = classes.iter().enumerate().filter_map(|(at, class)| {
        let asks = class.asks.filter(|(_, client)| !client.is_open).map(|(server, _)| server);
        Some((at, class.closed.or(asks)?))
    });
    let closed: Vec<(usize, usize)> = closed.collect();
    if has_load || !closed.is_empty() {
        writeln!(out, "\n[parameters]")?;
    }
    if has_load {
        writeln!(out, "# How many times as often requests arrive: --set load=1.5\nload = 1")?;
    }
    for (number, (at, server)) in closed.iter().enumerate() {
        let users = classes[*at]
            .asks
            .map_or_else(|| classes[*at].users(*at, &classes[*server]), |(_, client)| client.under_way);
        let parameter = clients(number);
        let name = quoted(&classes[*at].name);
        writeln!(out, "# So many requests of {name} are under way: --set {parameter}=4\n{parameter} = {users}")?;
    }
    writeln!(out, "\n[machine]\ncpus = {}", trace.meta.machine.nr_cpus())?;
    write_groups(out, groups)?;
    let place = |out: &mut String, task: &ImportedTask| -> core::fmt::Result {
        attributes(out, task.attr)?;
        if let Some(cpu) = cpu_of(&task.name).filter(|cpu| (*cpu as usize) < trace.meta.machine.nr_cpus()) {
            writeln!(out, "cpus = \"{cpu}\"")?;
        }
        groups.of.get(&task.id).map_or(Ok(()), |path| writeln!(out, "group = {}", quoted(path)))
    };
    for (number, (at, server)) in closed.iter().copied().enumerate().filter(|(_, (at, _))| classes[*at].asks.is_none())
    {
        writeln!(out, "\n[task.{}]", quoted(&classes[at].name))?;
        place(out, classes[at].tasks[0])?;
        client(out, classes, (at, server), &clients(number), trace.meta.start)?;
    }
    for (at, class) in classes.iter().enumerate().filter(|(_, class)| class.closed.is_none()) {
        let requests = class.requests(at);
        writeln!(out, "\n[service.{}]", quoted(&class.name))?;
        place(out, class.tasks[0])?;
        if let Some((server, client)) = class.asks {
            let number = closed.iter().position(|(closed, _)| *closed == at);
            asking(out, classes, (at, server), client, number.map(clients).as_deref(), trace.meta.start)?;
            continue;
        }
        writeln!(out, "workers = {}", class.tasks.len())?;
        if has_arrivals(classes, at) {
            arrivals(out, classes, class, &requests, trace.meta.start, options)?;
        }
        steps(out, classes, at, &requests)?;
    }
    Ok(())
}

/// Returns what a closed client computed from one request to the next. Without the first and the
/// last of them, in which it starts and ends: redis-benchmark computes for 130 ms before it sends
/// the second request, and as a part of its loop that is a tenth more of each round.
fn between_requests(class: &ThreadClass<'_>, server: &ThreadClass<'_>) -> Vec<Duration> {
    let servers: BTreeSet<TaskId> = server.tasks.iter().map(|task| task.id).collect();
    let mut all = Vec::new();
    for task in &class.tasks {
        let mut ran = Duration::ZERO;
        let mut demands = Vec::new();
        for step in &task.steps {
            match step {
                Step::Run(demand) => ran = ran.saturating_add(*demand),
                Step::Wake(woken) if servers.contains(woken) => demands.push(core::mem::take(&mut ran)),
                _ => {}
            }
        }
        let ends = demands.len() / ENDS;
        all.extend_from_slice(&demands[ends..demands.len() - ends]);
    }
    all
}

/// Returns the parameter of the number of instances of a closed client.
fn clients(number: usize) -> String {
    if number == 0 { "clients".to_owned() } else { format!("clients_{}", number + 1) }
}

/// Writes a closed client: each of its threads has one request under way, and computes between an
/// answer and the next request what the recorded one did per request.
fn client(
    out: &mut String,
    classes: &[ThreadClass<'_>],
    (at, server): (usize, usize),
    parameter: &str,
    start: Instant,
) -> core::fmt::Result {
    let class = &classes[at];
    writeln!(out, "# A closed client: it sends after an answer.\ninstances = \"${{{parameter}}}\"")?;
    let first = class.jobs.first().map_or(Duration::ZERO, |(job, _)| job.at.since(start));
    if !first.is_zero() {
        writeln!(out, "delay = {}", time(first))?;
    }
    writeln!(out, "loop = \"forever\"\nsteps = [")?;
    writeln!(out, "  {{ run = {} }},", distribution(between_requests(class, &classes[server]), 1.0))?;
    writeln!(out, "  {{ call = {} }},", quoted(&classes[server].name))?;
    for receiver in classes.iter() {
        for _ in 0..receiver.sender.filter(|(sender, _)| *sender == at).map_or(0, |(_, count)| count) {
            writeln!(out, "  {{ send = {} }},", quoted(&receiver.name))?;
        }
    }
    writeln!(out, "]")
}

/// Writes the client of a service that has messages: its threads take the answers, compute, and if
/// it is closed send the next request.
fn asking(
    out: &mut String,
    classes: &[ThreadClass<'_>],
    (at, server): (usize, usize),
    client: RecordedClient,
    parameter: Option<&str>,
    start: Instant,
) -> core::fmt::Result {
    writeln!(out, "workers = {}", client.threads)?;
    if let Some(parameter) = parameter {
        let first = classes[server].requests(server).first().map_or(start, |(at, _)| *at).since(start);
        let first = time(first.max(Duration::from_nanos(1)));
        writeln!(out, "# A closed client: it sends after an answer. So many requests are on their way at the start.")?;
        writeln!(out, "arrivals = {{ bursts = {{ size = \"${{{parameter}}}\", every = {first} }} }}")?;
        writeln!(out, "requests = \"${{{parameter}}}\"")?;
    } else {
        writeln!(out, "# It sends at its own times, whatever the answers, and takes them.")?;
    }
    writeln!(out, "steps = [\n  {{ run = {} }},", time(client.demand.max(Duration::from_nanos(1))))?;
    if parameter.is_some() {
        writeln!(out, "  {{ send = {} }},", quoted(&classes[server].name))?;
    }
    for receiver in classes.iter() {
        for _ in 0..receiver.sender.filter(|(sender, _)| *sender == at).map_or(0, |(_, count)| count) {
            writeln!(out, "  {{ send = {} }},", quoted(&receiver.name))?;
        }
    }
    writeln!(out, "]")
}

/// Returns whether requests come to a service from outside: no other one sends them.
fn has_arrivals(classes: &[ThreadClass<'_>], at: usize) -> bool {
    let class = &classes[at];
    let is_asked = class.client().is_some_and(|client| !client.is_open);
    class.closed.is_none()
        && class.sender.is_none()
        && class.asks.is_none()
        && !is_asked
        && !classes.iter().any(|client| client.closed == Some(at))
}

/// Returns whether a load multiplies the arrivals of a service: it is named, or its client.
fn is_scaled(classes: &[ThreadClass<'_>], class: &ThreadClass<'_>, options: &Options) -> bool {
    let client = class.client().map(|client| &classes[client.class]);
    let is_named = |name: &String| {
        let is_of = |class: &ThreadClass<'_>| *class.tasks[0].name == **name || class.process == Some(name.as_str());
        is_of(class) || client.is_some_and(is_of)
    };
    match options.services.is_empty() {
        true => !is_kernels(&class.tasks[0].name),
        false => options.services.iter().any(is_named),
    }
}

fn arrivals(
    out: &mut String,
    classes: &[ThreadClass<'_>],
    class: &ThreadClass<'_>,
    requests: &[(Instant, Duration)],
    start: Instant,
    options: &Options,
) -> core::fmt::Result {
    if is_scaled(classes, class, options) && requests.len() >= FEW {
        writeln!(out, "load = \"${{load}}\"")?;
    }
    if requests.len() < FEW {
        let times: Vec<String> = requests.iter().map(|(at, _)| time(at.since(start))).collect();
        return writeln!(out, "arrivals = {{ times = [{}] }}", times.join(", "));
    }
    let first = requests[0].0.since(start);
    let distances = requests.windows(2).map(|pair| pair[1].0.since(pair[0].0));
    if is_sequence(class) {
        // One distance per demand: with any seed both begin at the same place.
        let distances: Vec<Duration> = core::iter::once(first).chain(distances).collect();
        return writeln!(out, "arrivals = {{ every = {} }}", sequence(&distances, 1.0));
    }
    if !first.is_zero() {
        writeln!(out, "delay = {}", time(first))?;
    }
    writeln!(out, "arrivals = {{ every = {} }}", distribution(distances.collect(), 1.0))
}

/// Writes the work of one request.
fn steps(
    out: &mut String,
    classes: &[ThreadClass<'_>],
    at: usize,
    requests: &[(Instant, Duration)],
) -> core::fmt::Result {
    let class = &classes[at];
    // Requests that the sender sends too few or too many of do more or less work each.
    let sent = class.sender.map_or(requests.len() as f64, |(sender, count)| {
        classes[sender].requests(sender).len() as f64 * f64::from(count)
    });
    let demand_of = |is_answer: bool| {
        let jobs = class.jobs.iter().filter(|(_, by)| (by.is_some() && *by == class.calls) == is_answer);
        jobs.fold(0.0, |sum, (job, _)| sum + job.demand.as_nanos() as f64)
    };
    let drawn = |demands: Vec<Duration>, whole: f64, is_sequence: bool| {
        let mean = demands.iter().fold(0.0, |sum, demand| sum + demand.as_nanos() as f64) / demands.len().max(1) as f64;
        let scale = if mean > 0.0 && sent > 0.0 { whole / sent / mean } else { 1.0 };
        if is_sequence { sequence(&demands, scale) } else { distribution(demands, scale) }
    };
    writeln!(out, "steps = [")?;
    let demands = requests.iter().map(|(_, demand)| *demand).collect();
    writeln!(out, "  {{ run = {} }},", drawn(demands, demand_of(false), is_sequence(class)))?;
    if let Some(called) = class.calls {
        let count = classes[called].sender.map_or(1, |(_, count)| count);
        for _ in 0..count {
            writeln!(out, "  {{ call = {} }},", quoted(&classes[called].name))?;
        }
        let answers = class.jobs.iter().filter(|(_, by)| *by == Some(called)).map(|(job, _)| job.demand).collect();
        writeln!(out, "  {{ run = {} }},", drawn(answers, demand_of(true), false))?;
    }
    for (other, receiver) in classes.iter().enumerate() {
        if let Some((sender, count)) = receiver.sender
            && sender == at
            && class.calls != Some(other)
        {
            for _ in 0..count {
                writeln!(out, "  {{ send = {} }},", quoted(&receiver.name))?;
            }
        }
    }
    if let Some(client) = class.client() {
        writeln!(out, "  {{ send = {} }},", quoted(&classes[client.class].name))?;
    }
    writeln!(out, "]")
}

/// Returns whether the requests of a class keep their order.
fn is_sequence(class: &ThreadClass<'_>) -> bool {
    class.served.as_ref().is_some_and(|served| served.requests.len() <= SEQUENCE_MAX)
}

/// Returns the samples in their order, times a factor.
fn sequence(samples: &[Duration], factor: f64) -> String {
    let scaled = |sample: &Duration| time(Duration::from_nanos((sample.as_nanos() as f64 * factor).round() as u64));
    let times: Vec<String> = samples.iter().map(scaled).collect();
    format!("{{ sequence = [{}] }}", times.join(","))
}

/// Returns a distribution of at most [`PARTS`] values with the mean of the samples, times a factor.
fn distribution(mut samples: Vec<Duration>, factor: f64) -> String {
    samples.sort_unstable();
    let parts = samples.len().min(PARTS);
    let part = |at: usize| {
        let range = at * samples.len() / parts..(at + 1) * samples.len() / parts;
        let sum: f64 = samples[range.clone()].iter().map(|sample| sample.as_nanos() as f64).sum();
        (Duration::from_nanos((sum * factor / range.len() as f64).round() as u64), range.len())
    };
    match parts {
        0 => time(Duration::ZERO),
        1 => time(part(0).0),
        _ => {
            let values: Vec<String> = (0..parts)
                .map(part)
                .map(|(value, weight)| format!("{{ time = {}, weight = {weight} }}", time(value)))
                .collect();
            format!("{{ choice = [{}] }}", values.join(", "))
        }
    }
}

/// Fewer jobs say nothing about a distribution.
const FEW: usize = 16;
/// The share that is most.
const MOSTLY: f64 = 0.8;
/// The most requests that one sends.
const SENT_MAX: u32 = 16;
/// One of so many requests belongs to the start of a client, and one to its end.
const ENDS: usize = 50;
/// The most values of a distribution.
const PARTS: usize = 32;
/// Of more requests the order is not kept: a scenario has a largest size.
const SEQUENCE_MAX: usize = 200_000;

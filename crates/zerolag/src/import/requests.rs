//! [`Served`]: the requests of a recording, as the messages of its sockets tell them.
//!
//! A wakeup is no request: a server that is busy answers several connections in one, and a client
//! reads answers for which nothing wakes it. With messages a request is what a server receives, and
//! its answer what it sends next on the same socket:
//!
//! ```text
//!  client   sends a, sends b ......................... receives a, receives b
//!  server           woken, receives a, sends a, receives b, sends b, sleeps
//!                   |------ demand of a ------|---- demand of b ----|
//! ```
//!
//! * Of two classes at the ends of connections the client is the one that mostly says the first
//!   word; if both do, the younger one.
//! * A request arrives when its client sends it; if a timer woke an open client for that, at this
//!   wakeup. Without a client in the recording it arrives when the server was woken for it, or
//!   receives it.
//! * Its demand is the CPU time of the thread that receives it, up to the next request that this
//!   one receives. The time before the first of a job belongs to what the thread is at, or to that
//!   first request. What no request has is divided among all, in [`fitted`](super::fitted).
//! * An *open* client sends whatever the answers: at least half of its sends follow neither an
//!   answer nor a wakeup by a task, or more than one of twenty goes out while the answer before is
//!   due on its connection. What it has sent and a server has received at once are several requests
//!   of equal demand. All other clients are *closed*: what they send up to an answer is one.
//!
//! Bytes that were sent before the recording and received in it are taken off: so many as a server
//! has received more than its client sent.

use super::extract::ImportedTask;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use zerolag_model::{Duration, Instant, TaskId, TraceEvent};
use zerolag_trace::{Message, Trace};

/// The requests that a class of threads has received.
#[derive(Debug)]
pub(super) struct Served {
    /// In order of arrival.
    pub(super) requests: Vec<Request>,
    /// The class that sent them, if it was recorded.
    pub(super) client: Option<RecordedClient>,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) arrived: Instant,
    pub(super) demand: Duration,
    /// When the answer was sent.
    pub(super) done: Option<Instant>,
    /// When its client had it, or if that is not known, when it was sent.
    pub(super) answered: Option<Instant>,
}

/// The class that sends requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedClient {
    pub(super) class: usize,
    pub(super) is_open: bool,
    /// The most requests that were under way.
    pub(super) under_way: usize,
    /// How many of its threads send.
    pub(super) threads: usize,
    /// Its CPU time per request.
    pub(super) demand: Duration,
}

impl Served {
    /// Returns how long requests took, from the arrival until the answer was sent, in order of
    /// length.
    pub(super) fn latencies(&self) -> Vec<Duration> {
        let took = |request: &Request| Some(request.done?.since(request.arrived));
        let mut latencies: Vec<Duration> = self.requests.iter().filter_map(took).collect();
        latencies.sort_unstable();
        latencies
    }
}

/// Returns the smallest that so many of a hundred do not exceed, as of the quantiles of a
/// simulation; none of nothing.
pub(super) fn quantile(sorted: &[Duration], share: usize) -> Option<Duration> {
    sorted.get((sorted.len() * share).div_ceil(100).max(1) - 1).copied()
}

/// A class of threads, as far as it matters here.
pub(super) struct TalkingClass<'a> {
    pub(super) tasks: &'a [&'a ImportedTask],
    /// The lowest thread id.
    pub(super) oldest: u32,
}

/// Fewer requests say nothing.
const REQUESTS_MIN: usize = 16;
/// One send of so many can be ahead of an answer and the client be closed.
const AHEAD: usize = 20;

/// Returns of each class the requests that it received. O((messages + jobs) log(switches)).
pub(super) fn served(trace: &Trace, classes: &[TalkingClass<'_>]) -> Vec<Option<Served>> {
    let recorded = &trace.meta.recorded;
    if recorded.messages.is_empty() {
        return classes.iter().map(|_| None).collect();
    }
    let talk = Talk::new(trace, classes);
    let clocks = clocks(trace, &talk.of);
    let mut exchanges: Vec<Vec<Exchange>> = classes.iter().map(|_| Vec::new()).collect();
    for socket in 0..talk.by_socket.len() {
        if let Some(class) = talk.owners[socket].filter(|_| talk.is_server(socket)) {
            exchanges[class].extend(talk.exchanges(socket));
        }
    }
    let mut all = Vec::with_capacity(classes.len());
    for (at, mut exchanges) in exchanges.into_iter().enumerate() {
        exchanges.sort_by_key(|exchange| exchange.received);
        let answered = exchanges.iter().filter(|exchange| exchange.sent().is_some()).count();
        all.push(match answered >= REQUESTS_MIN && answered * 2 >= exchanges.len() {
            true => Some(talk.of_class(classes, at, &exchanges, &clocks)),
            false => None,
        });
    }
    // A class with clients of its own asks others within its requests.
    let is_server: Vec<bool> = all.iter().map(Option::is_some).collect();
    for served in all.iter_mut().flatten() {
        served.client = served.client.filter(|client| !is_server[client.class]);
    }
    all
}

/// What is received on a socket after a send, up to the last send before the next receive.
struct Exchange {
    socket: usize,
    /// The places of the first message, and of the last one that was received.
    received: usize,
    received_last: usize,
    /// Those of the answer.
    sends: Vec<usize>,
    /// The bytes of the answer.
    bytes: u64,
    /// How many it has received with the request.
    got: u64,
}

impl Exchange {
    /// Returns the place of the last answer.
    fn sent(&self) -> Option<usize> {
        self.sends.last().copied()
    }

    /// Returns when so many bytes of the answer were sent.
    fn sent_until(&self, messages: &[Message], bytes: u64) -> Option<Instant> {
        let mut sum = 0;
        let is_enough = |place: &&usize| {
            sum += u64::from(messages[**place].bytes);
            sum >= bytes
        };
        self.sends.iter().find(is_enough).map(|place| messages[*place].at)
    }
}

/// The messages, by socket and class.
struct Talk<'a> {
    messages: &'a [Message],
    peers: &'a [Option<u32>],
    /// The class of each task.
    of: BTreeMap<TaskId, usize>,
    tasks: BTreeMap<TaskId, &'a ImportedTask>,
    /// By socket, the places of its messages.
    by_socket: Vec<Vec<usize>>,
    /// By socket, the class that uses it.
    owners: Vec<Option<usize>>,
    /// Pairs of classes, the client first.
    clients: BTreeSet<(usize, usize)>,
}

impl<'a> Talk<'a> {
    fn new(trace: &'a Trace, classes: &[TalkingClass<'a>]) -> Self {
        let (messages, peers) = (&trace.meta.recorded.messages[..], &trace.meta.recorded.peers[..]);
        let (mut of, mut tasks) = (BTreeMap::new(), BTreeMap::new());
        for (at, class) in classes.iter().enumerate() {
            of.extend(class.tasks.iter().map(|task| (task.id, at)));
            tasks.extend(class.tasks.iter().map(|task| (task.id, *task)));
        }
        let count = messages.iter().map(|message| message.socket as usize + 1).max().unwrap_or(0);
        let mut by_socket: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (place, message) in messages.iter().enumerate() {
            by_socket[message.socket as usize].push(place);
        }
        let owner = |places: &Vec<usize>| places.iter().find_map(|place| of.get(&messages[*place].task).copied());
        let owners: Vec<Option<usize>> = by_socket.iter().map(owner).collect();
        let mut talk = Self { messages, peers, of, tasks, by_socket, owners, clients: BTreeSet::new() };
        talk.clients = talk.clients(classes);
        talk
    }

    fn peer(&self, socket: usize) -> Option<usize> {
        let peer = self.peers.get(socket).copied().flatten()? as usize;
        (peer < self.by_socket.len() && !self.by_socket[peer].is_empty()).then_some(peer)
    }

    /// Returns the pairs of classes of which the first asks the second.
    fn clients(&self, classes: &[TalkingClass<'_>]) -> BTreeSet<(usize, usize)> {
        let mut first: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for socket in 0..self.by_socket.len() {
            let Some(peer) = self.peer(socket) else { continue };
            let (Some(own), Some(other)) = (self.owners[socket], self.owners[peer]) else { continue };
            let begins = self.by_socket[socket].first() < self.by_socket[peer].first();
            if own != other && begins && self.messages[self.by_socket[socket][0]].is_sent {
                *first.entry((own, other)).or_default() += 1;
            }
        }
        let mut clients = BTreeSet::new();
        for (&(own, other), &count) in &first {
            let back = first.get(&(other, own)).copied().unwrap_or(0);
            let is_younger = classes[own].oldest > classes[other].oldest;
            // Less than twice as often is none.
            if count >= back * 2 || (back < count * 2 && is_younger) {
                clients.insert((own, other));
            }
        }
        clients
    }

    /// Returns whether a socket receives requests.
    fn is_server(&self, socket: usize) -> bool {
        let peer = self.peer(socket).and_then(|peer| self.owners[peer]);
        match (self.owners[socket], peer) {
            (Some(own), Some(peer)) => own != peer && self.clients.contains(&(peer, own)),
            _ => self.by_socket[socket].first().is_some_and(|first| !self.messages[*first].is_sent),
        }
    }

    fn exchanges(&self, socket: usize) -> Vec<Exchange> {
        let mut all: Vec<Exchange> = Vec::new();
        let mut got = 0;
        for &place in &self.by_socket[socket] {
            let message = &self.messages[place];
            let bytes = u64::from(message.bytes);
            if message.is_sent {
                if let Some(last) = all.last_mut() {
                    last.sends.push(place);
                    last.bytes += bytes;
                }
                continue;
            }
            got += bytes;
            match all.last_mut().filter(|last| last.sends.is_empty()) {
                Some(last) => (last.received_last, last.got) = (place, got),
                None => all.push(Exchange {
                    socket,
                    received: place,
                    received_last: place,
                    sends: Vec::new(),
                    bytes: 0,
                    got,
                }),
            }
        }
        all
    }

    /// Returns how many bytes a socket has received that its peer had sent before the recording.
    fn sent_before(&self, to: usize, from: usize) -> u64 {
        let sum = |socket: usize, is_sent: bool| {
            let of = self.by_socket[socket].iter().map(|place| &self.messages[*place]);
            of.filter(|message| message.is_sent == is_sent).map(|message| u64::from(message.bytes)).sum::<u64>()
        };
        sum(to, false).saturating_sub(sum(from, true))
    }

    /// Returns the job of a task in which a message was.
    fn job(&self, message: &Message) -> Option<&super::extract::RecordedJob> {
        let jobs = &self.tasks.get(&message.task)?.jobs;
        jobs[..jobs.partition_point(|job| job.at <= message.at)].last()
    }

    /// Returns the requests of a class.
    fn of_class(
        &self,
        classes: &[TalkingClass<'_>],
        at: usize,
        exchanges: &[Exchange],
        clocks: &BTreeMap<TaskId, Clock>,
    ) -> Served {
        let demands = self.demands(classes[at].tasks, exchanges, clocks);
        // The class that most requests come from.
        let mut from: BTreeMap<usize, usize> = BTreeMap::new();
        let class_of = |exchange: &Exchange| self.peer(exchange.socket).and_then(|peer| self.owners[peer]);
        for class in exchanges.iter().filter_map(class_of) {
            *from.entry(class).or_default() += 1;
        }
        let client = from.into_iter().max_by_key(|(class, count)| (*count, core::cmp::Reverse(*class)));
        let client = client.filter(|(_, count)| count * 2 > exchanges.len()).map(|(class, _)| class);
        let spontaneous = client.map(|client| self.spontaneous(client, at)).unwrap_or_default();
        let is_open = client.is_none_or(|client| self.is_open(client, at, &spontaneous));
        let mut requests = Vec::new();
        let mut of_sockets: BTreeMap<usize, Connection> = BTreeMap::new();
        let mut next_on_socket: Vec<Option<usize>> = vec![None; exchanges.len()];
        let mut following: BTreeMap<usize, usize> = BTreeMap::new();
        for (at, exchange) in exchanges.iter().enumerate().rev() {
            next_on_socket[at] = following.insert(exchange.socket, at);
        }
        for (at, (exchange, demand)) in exchanges.iter().zip(demands).enumerate() {
            let connection =
                of_sockets.entry(exchange.socket).or_insert_with(|| Connection::new(self, exchange.socket));
            let asked = connection.asks_until(exchange.got);
            let count = if is_open { asked.len().max(1) } else { 1 };
            // A closed client has its answer before it sends the next request.
            let next = next_on_socket[at].map(|next| self.messages[exchanges[next].received].at);
            let before = next.filter(|_| !is_open).unwrap_or(Instant::FAR_FUTURE);
            for nth in 0..count {
                let arrived = match asked.get(nth) {
                    Some(place) => {
                        spontaneous.get(place).copied().filter(|_| is_open).unwrap_or(self.messages[*place].at)
                    }
                    None => self.unseen(exchange.received),
                };
                let part = |nth: usize| exchange.bytes * nth as u64 / count as u64;
                let sent = exchange.sent_until(self.messages, part(nth + 1));
                let bytes = part(nth + 1) - part(nth);
                let after = self.messages[exchange.received].at;
                let answered = sent.and_then(|sent| connection.answer(bytes, (after, before), sent));
                requests.push(Request { arrived, demand: demand / count as u64, done: sent, answered });
            }
        }
        requests.sort_by_key(|request| request.arrived);
        let client = client.map(|class| self.client(classes, (class, at), is_open, &requests, clocks));
        Served { requests, client }
    }

    /// Returns when a request arrived whose send was not recorded: when the job began of which it
    /// is the first message, else when it was received.
    fn unseen(&self, place: usize) -> Instant {
        let message = &self.messages[place];
        let Some(job) = self.job(message) else { return message.at };
        let mut before = self.messages[..place].iter().rev().take_while(|other| other.at >= job.at);
        if before.any(|other| other.task == message.task) { message.at } else { job.at }
    }

    /// Returns the sends of a client to a server that follow neither an answer nor a wakeup by a
    /// task, each with the wakeup.
    fn spontaneous(&self, client: usize, server: usize) -> BTreeMap<usize, Instant> {
        let mut received: BTreeMap<TaskId, Instant> = BTreeMap::new();
        let mut all = BTreeMap::new();
        // Only the first send of a job is at its wakeup.
        let mut sent: BTreeMap<TaskId, Instant> = BTreeMap::new();
        for (place, message) in self.messages.iter().enumerate() {
            if self.of.get(&message.task) != Some(&client) {
                continue;
            }
            if !message.is_sent {
                received.insert(message.task, message.at);
                continue;
            }
            let is_after = |of: Option<&Instant>, at: Instant| of.is_some_and(|of| *of >= at);
            if self.is_between(message.socket as usize, client, server)
                && let Some(job) = self.job(message)
                && job.by.is_none()
                && !is_after(received.get(&message.task), job.at)
            {
                let is_first = !is_after(sent.get(&message.task), job.at);
                all.insert(place, if is_first { job.at } else { message.at });
            }
            sent.insert(message.task, message.at);
        }
        all
    }

    /// Returns whether a socket of the first class is connected to one of the second.
    fn is_between(&self, socket: usize, own: usize, other: usize) -> bool {
        self.owners[socket] == Some(own) && self.peer(socket).is_some_and(|peer| self.owners[peer] == Some(other))
    }

    fn is_open(&self, client: usize, server: usize, spontaneous: &BTreeMap<usize, Instant>) -> bool {
        // How many sends there are up to an answer: as many each time if a request is several.
        let mut runs: BTreeMap<usize, usize> = BTreeMap::new();
        let mut sends = 0;
        for socket in (0..self.by_socket.len()).filter(|socket| self.is_between(*socket, client, server)) {
            let mut run = 0;
            for place in &self.by_socket[socket] {
                if self.messages[*place].is_sent {
                    (run, sends) = (run + 1, sends + 1);
                } else if run > 0 {
                    *runs.entry(core::mem::take(&mut run)).or_default() += 1;
                }
            }
        }
        let all: usize = runs.values().sum();
        let usual = runs.values().max().copied().unwrap_or(0);
        spontaneous.len() * 2 >= sends.max(1) || (all - usual) * AHEAD > all
    }

    /// Returns what is known of a client.
    fn client(
        &self,
        classes: &[TalkingClass<'_>],
        (class, server): (usize, usize),
        is_open: bool,
        requests: &[Request],
        clocks: &BTreeMap<TaskId, Clock>,
    ) -> RecordedClient {
        // One that is never answered says nothing: the last word on a connection.
        let spans = requests.iter().filter_map(|request| Some((request.arrived, request.answered?)));
        let mut changes: Vec<(Instant, i32)> = spans.flat_map(|(from, until)| [(from, 1), (until, -1)]).collect();
        changes.sort_unstable();
        let (mut now, mut most) = (0_i32, 0);
        for (_, change) in changes {
            now += change;
            most = most.max(now);
        }
        let theirs = self.messages.iter().filter(|message| {
            self.of.get(&message.task) == Some(&class) && self.is_between(message.socket as usize, class, server)
        });
        let (mut threads, mut span) = (BTreeSet::new(), None);
        for message in theirs {
            threads.insert(message.task);
            let (first, _) = span.unwrap_or((message.at, message.at));
            span = Some((first, message.at));
        }
        let demand = |task: &&ImportedTask| {
            let ((first, last), clock) = (span?, clocks.get(&task.id)?);
            Some((clock.ran(last) - clock.ran(first)) as f64 * clock.charged_share(task))
        };
        let demand: f64 = classes[class].tasks.iter().filter_map(demand).sum();
        RecordedClient {
            class,
            is_open,
            under_way: usize::try_from(most).unwrap_or(0).max(1),
            threads: threads.len().max(1),
            demand: Duration::from_nanos((demand / requests.len().max(1) as f64) as u64),
        }
    }

    /// Returns the CPU time of each exchange.
    fn demands(
        &self,
        tasks: &[&ImportedTask],
        exchanges: &[Exchange],
        clocks: &BTreeMap<TaskId, Clock>,
    ) -> Vec<Duration> {
        // By task, its messages that belong to exchanges: the place, the exchange, whether it
        // begins there.
        let mut marks: BTreeMap<TaskId, Vec<(usize, usize, bool)>> = BTreeMap::new();
        let mut of_sockets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, exchange) in exchanges.iter().enumerate() {
            of_sockets.entry(exchange.socket).or_default().push(at);
        }
        for (socket, own) in of_sockets {
            let mut rest = own.into_iter().peekable();
            let mut current = None;
            for &place in &self.by_socket[socket] {
                let begun = rest.next_if(|at| exchanges[*at].received == place);
                current = begun.or(current);
                if let Some(at) = current {
                    marks.entry(self.messages[place].task).or_default().push((place, at, begun.is_some()));
                }
            }
        }
        let mut demands = vec![0.0; exchanges.len()];
        for task in tasks {
            if let (Some(marks), Some(clock)) = (marks.get_mut(&task.id), clocks.get(&task.id)) {
                marks.sort_unstable();
                self.charge(task, marks, exchanges, clock, &mut demands);
            }
        }
        demands.into_iter().map(|demand: f64| Duration::from_nanos(demand.round() as u64)).collect()
    }

    /// Divides the CPU time of a task among its exchanges.
    fn charge(
        &self,
        task: &ImportedTask,
        marks: &[(usize, usize, bool)],
        exchanges: &[Exchange],
        clock: &Clock,
        demands: &mut [f64],
    ) {
        let mut rest = marks.iter().peekable();
        let mut current: Option<usize> = None;
        for (nth, job) in task.jobs.iter().enumerate() {
            let end = task.jobs.get(nth + 1).map_or(Instant::FAR_FUTURE, |next| next.at);
            let (mut from, until) = (clock.ran(job.at), clock.ran(end));
            let share = if until > from { job.demand.as_nanos() as f64 / (until - from) as f64 } else { 0.0 };
            let is_due = |at: &usize| exchanges[*at].sent().is_none_or(|sent| self.messages[sent].at > job.at);
            let mut owner = current.filter(is_due);
            while let Some((place, at, begins)) = rest.next_if(|(place, _, _)| self.messages[*place].at < end) {
                if let Some(before) = owner.filter(|_| *begins) {
                    let ran = clock.ran(self.messages[*place].at);
                    demands[before] += (ran - from) as f64 * share;
                    from = ran;
                }
                if *begins || owner.is_none() {
                    owner = Some(*at);
                }
            }
            if let Some(owner) = owner {
                demands[owner] += (until - from) as f64 * share;
            }
            current = owner.or(current);
        }
    }
}

/// What a client has sent on a connection, and received.
struct Connection {
    /// The places of sends, and how many bytes were sent with each.
    asks: Vec<(usize, u64)>,
    next: usize,
    /// When answers were received, and how many bytes each time that no request has got; `None` if
    /// that is not known.
    answers: Option<VecDeque<(Instant, u64)>>,
}

impl Connection {
    fn new(talk: &Talk<'_>, socket: usize) -> Self {
        let Some(peer) = talk.peer(socket) else { return Self { asks: Vec::new(), next: 0, answers: None } };
        let (mut asks, mut answers) = (Vec::new(), VecDeque::new());
        let mut sent = talk.sent_before(socket, peer);
        for &place in &talk.by_socket[peer] {
            let message = &talk.messages[place];
            if message.is_sent {
                sent += u64::from(message.bytes);
                asks.push((place, sent));
            } else {
                answers.push_back((message.at, u64::from(message.bytes)));
            }
        }
        Self { asks, next: 0, answers: Some(answers) }
    }

    /// Returns the sends that a server has got with so many bytes, and had not before.
    fn asks_until(&mut self, got: u64) -> Vec<usize> {
        let end = self.next + self.asks[self.next..].partition_point(|(_, bytes)| *bytes <= got);
        let asks = self.asks[self.next..end].iter().map(|(place, _)| *place).collect();
        self.next = end;
        asks
    }

    /// Returns when the client had the next so many bytes of an answer to what was received then,
    /// before another instant; if that is not known, when they were sent. What it had before was no
    /// part of it.
    fn answer(&mut self, bytes: u64, (after, before): (Instant, Instant), sent: Instant) -> Option<Instant> {
        let Some(answers) = &mut self.answers else { return Some(sent) };
        while answers.front().is_some_and(|(at, _)| *at < after) {
            answers.pop_front();
        }
        let mut sum = 0;
        let last = answers.iter().take_while(|(at, _)| *at <= before).position(|(_, got)| {
            sum += got;
            sum >= bytes
        })?;
        answers.drain(..last);
        let (at, rest) = answers.front_mut()?;
        *rest = sum - bytes;
        Some(*at)
    }
}

/// The CPU time of a task, as a function of time.
#[derive(Default)]
struct Clock {
    /// From when to when it ran, and its CPU time before.
    runs: Vec<(Instant, Instant, u64)>,
}

impl Clock {
    /// Returns its CPU time until then, in nanoseconds.
    fn ran(&self, at: Instant) -> u64 {
        match self.runs[..self.runs.partition_point(|(start, _, _)| *start <= at)].last() {
            Some((start, end, before)) => before + at.min(*end).since(*start).as_nanos(),
            None => 0,
        }
    }

    fn push(&mut self, start: Instant, end: Instant) {
        let before = self.ran(Instant::FAR_FUTURE);
        self.runs.push((start, end, before));
    }

    /// Returns what the task was charged as a share of its CPU time.
    fn charged_share(&self, task: &ImportedTask) -> f64 {
        let demands: f64 = task.jobs.iter().map(|job| job.demand.as_nanos() as f64).sum();
        demands / (self.ran(Instant::FAR_FUTURE) as f64).max(1.0)
    }
}

fn clocks(trace: &Trace, of: &BTreeMap<TaskId, usize>) -> BTreeMap<TaskId, Clock> {
    let talking: BTreeSet<usize> =
        trace.meta.recorded.messages.iter().filter_map(|message| of.get(&message.task).copied()).collect();
    let is_used = |task: &TaskId| of.get(task).is_some_and(|class| talking.contains(class));
    let mut clocks: BTreeMap<TaskId, Clock> =
        of.keys().filter(|task| is_used(task)).map(|task| (*task, Clock::default())).collect();
    let mut since: BTreeMap<TaskId, Instant> = BTreeMap::new();
    for record in &trace.records {
        let TraceEvent::Switch { prev, next, .. } = &record.event else { continue };
        if let Some(prev) = prev
            && let Some(clock) = clocks.get_mut(prev)
        {
            let is_first = clock.runs.is_empty();
            if let Some(start) = since.remove(prev).or(is_first.then_some(trace.meta.start)) {
                clock.push(start, record.at);
            }
        }
        if let Some(next) = next.filter(|next| clocks.contains_key(next)) {
            since.insert(next, record.at);
        }
    }
    for (task, start) in since {
        if let Some(clock) = clocks.get_mut(&task) {
            clock.push(start, trace.meta.end.max(start));
        }
    }
    clocks
}

#[cfg(test)]
mod tests;

//! Answers that no wakeup shows.
//!
//! A closed client sends only after an answer. While it is awake it reads answers without being
//! woken for them, and sends what follows:
//!
//! ```text
//!  client   sends 1 ............ sends 2 ............ sends 3, sleeps
//!  server            answers 1,            answers 2,            answers 3: wakes the client
//!                    sleeps                sleeps
//! ```
//!
//! A replay of the wakeups alone sends 1, 2 and 3 at once while a limit keeps the server from
//! answering, so the client computes and the server's group is throttled for longer than it really
//! is. But the server was woken for 2 only because it was done with 1, and for 3 because it was
//! done with 2. A client that goes on after it has sent has a second request on its way, for which
//! it needs no wakeup if the server is late. So a task wakes the other one for the third time after
//! that one was done with what it was woken for the first time, and so on: a semaphore says so. In
//! the order of the recording each step comes after those that it waits for, so this blocks no
//! replay.
//!
//! Rejected: to wait for the wakeup just before. A client that a switch of the recording interrupts
//! then sleeps where it really goes on: of Redis in virtual time the median wakeup latency was 78 %
//! off, instead of 10. Without any of it the throttled time was 52 % too long, with it 3 too short.
//!
//! It holds between processes that wake each other, neither of which is *open*: one that sends at
//! times of its own sends whatever the answers ([`OpenClients`](super::open::OpenClients)). Threads
//! of one process hand work over and do not wait for its end.

use super::extract::{ImportedTask, Step, TIMER_MIN};
use super::write::{cpu_of, is_kernels};
use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::TaskId;
use zerolag_trace::Trace;

/// So many wakings of a task can be ahead of the answer.
const AHEAD: usize = 1;

/// A process, by its id.
type Process = u32;
/// A task that wakes another.
type Waking = (TaskId, TaskId);

/// Makes tasks of processes that wake each other wait for the answers. O(steps * log(pairs)).
pub(super) fn await_answers(trace: &Trace, tasks: &mut [ImportedTask]) {
    let processes = processes(trace, tasks);
    let closed = closed(tasks, &processes);
    if closed.is_empty() {
        return;
    }
    let is_closed = |(waker, woken): Waking| match (processes.get(&waker), processes.get(&woken)) {
        (Some(waker), Some(woken)) => closed.contains(&(*waker, *woken)),
        _ => false,
    };
    let awaited = awaited(tasks, is_closed);
    for task in tasks {
        let own = task.id;
        // How many jobs each has woken it for, and how often it has woken each.
        let (mut jobs, mut wakings) = (BTreeMap::new(), BTreeMap::new());
        let is_awaited = |waking: Waking, at: usize| awaited.get(&waking).is_some_and(|jobs| jobs.contains(&at));
        let mut job: Option<(TaskId, usize)> = None;
        let mut steps = Vec::with_capacity(task.steps.len());
        for step in task.steps.drain(..) {
            match step {
                Step::Wake(woken) => {
                    let at = next(&mut wakings, woken);
                    steps.extend(answered(at).filter(|at| is_awaited((own, woken), *at)).map(|_| Step::After(woken)));
                }
                Step::Wait(..) | Step::Sleep(_) | Step::Arrival { .. } | Step::Timer(_) => {
                    let done = job.take().filter(|(waker, at)| is_awaited((*waker, own), *at));
                    steps.extend(done.map(|(waker, _)| Step::Done(waker)));
                    if let Step::Wait(waker, _) = step {
                        job = Some((waker, next(&mut jobs, waker)));
                    }
                }
                _ => {}
            }
            steps.push(step);
        }
        task.steps = steps;
    }
}

/// Returns which jobs of a pair, each begun by a waking, are waited for. One whose answer the waker
/// was woken with is not: it waits for that wakeup.
fn awaited(tasks: &[ImportedTask], is_closed: impl Fn(Waking) -> bool) -> BTreeMap<Waking, BTreeSet<usize>> {
    let mut awaited: BTreeMap<Waking, BTreeSet<usize>> = BTreeMap::new();
    for task in tasks {
        let mut wakings = BTreeMap::new();
        let mut woken_by = BTreeSet::new();
        for step in &task.steps {
            match step {
                Step::Wait(waker, _) => drop(woken_by.insert(*waker)),
                Step::Wake(woken) if is_closed((task.id, *woken)) => {
                    let at = next(&mut wakings, *woken);
                    if !woken_by.remove(woken) {
                        awaited.entry((task.id, *woken)).or_default().extend(answered(at));
                    }
                }
                _ => {}
            }
        }
    }
    awaited
}

/// Returns which waking is answered before this one, both counted from 0.
fn answered(at: usize) -> Option<usize> {
    at.checked_sub(1 + AHEAD)
}

/// Counts, and returns the count before.
fn next(counts: &mut BTreeMap<TaskId, usize>, of: TaskId) -> usize {
    let count = counts.entry(of).or_default();
    *count += 1;
    *count - 1
}

/// Returns the processes of the tasks that can ask and answer: not those of the kernel.
fn processes(trace: &Trace, tasks: &[ImportedTask]) -> BTreeMap<TaskId, Process> {
    let is_kernels = |task: &ImportedTask| cpu_of(&task.name).is_some() || is_kernels(&task.name);
    let users = tasks.iter().filter(|task| task.is_used() && !is_kernels(task));
    users.map(|task| (task.id, process(trace, task.id))).collect()
}

/// Returns the process of a task, by its id; a thread whose process is not known is one of its own.
pub(super) fn process(trace: &Trace, task: TaskId) -> Process {
    trace.meta.recorded.thread(task).map_or(task.0, |thread| thread.pid.unwrap_or(thread.tid))
}

/// Returns whether a client sends at times of its own: it has at least half as many wakeups by
/// timers and devices (`own`) as by answers. A closed one has timers too, for a timeout or for what
/// it prints; one that thinks has as many as answers.
pub(super) const fn is_open(own: usize, answers: usize) -> bool {
    own * 2 >= answers
}

/// Returns the pairs of processes that wake each other, in both orders, neither of which is open.
fn closed(tasks: &[ImportedTask], processes: &BTreeMap<TaskId, Process>) -> BTreeSet<(Process, Process)> {
    let mut wakeups: BTreeMap<(Process, Process), usize> = BTreeMap::new();
    let mut counts: BTreeMap<Process, (usize, usize)> = BTreeMap::new();
    for task in tasks {
        let Some(woken) = processes.get(&task.id) else { continue };
        let (own, answered) = counts.entry(*woken).or_default();
        *own += task.expiries.len();
        let wakers = task.steps.iter().filter_map(|step| match step {
            Step::Wait(waker, _) => processes.get(waker).filter(|waker| *waker != woken),
            _ => None,
        });
        for waker in wakers {
            *answered += 1;
            *wakeups.entry((*waker, *woken)).or_default() += 1;
        }
    }
    let is_open = |process: Process| counts.get(&process).is_none_or(|(own, answers)| is_open(*own, *answers));
    let often = |pair: (Process, Process)| wakeups.get(&pair).is_some_and(|count| *count >= TIMER_MIN);
    let pairs = wakeups.keys().copied();
    pairs.filter(|(a, b)| often((*a, *b)) && often((*b, *a)) && !is_open(*a) && !is_open(*b)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Options, import, simulate};
    use zerolag_model::{Duration, TaskId};
    use zerolag_trace::script::Script;
    use zerolag_trace::{Source, Thread, Trace};

    const SERVER: TaskId = TaskId(0);
    const CLIENT: TaskId = TaskId(1);

    /// 320 requests of 200 us. The client computes for 150 us per request; it sleeps after every
    /// 32nd, is preempted by the server after the others, and goes on when that one sleeps. An open
    /// client is woken by a timer after its sleep.
    fn recording(is_open: bool) -> Trace {
        let mut script = Script::new(1);
        let (server, client) = (script.fair("server"), script.fair("client"));
        script.meta.source = Source::Text;
        script.run(0, 0, None, Some(client));
        for turn in 0..320 {
            let at = turn * 1000;
            script.wake(at + 100, 0, server);
            if turn % 32 == 31 {
                script.run(at + 150, 0, Some(client), Some(server));
                if !is_open {
                    script.wake(at + 340, 0, client);
                }
                script.run(at + 350, 0, Some(server), None);
                if is_open {
                    script.wake(at + 900 + turn % 7 * 10, 0, client);
                }
                script.run(at + 1000, 0, None, Some(client));
            } else {
                script.preempt(at + 150, 0, client, server).run(at + 350, 0, Some(server), Some(client));
            }
        }
        script.end(321_000)
    }

    /// The import under a limit of 1 %.
    fn imported(trace: &Trace) -> String {
        let groups = vec![("server".to_owned(), "/s".to_owned())];
        let limits = vec![("/s".to_owned(), "1000 100000".to_owned())];
        import(trace, "x", &Options { groups, limits, work: Some("/s".to_owned()), ..Options::default() }).scenario
    }

    #[test]
    fn a_client_that_is_awake_sends_no_more_than_two_requests_ahead() {
        let scenario = imported(&recording(false));
        let summary = simulate(&scenario).expect("a scenario");
        let run = |task| summary.task(task).expect("it ran").run.as_nanos() / 1000;
        let (answers, client) = (run(SERVER) / 200, run(CLIENT));
        // 1 ms in 100, and what a tick is late: some six answers in each of four periods.
        assert!((15..=30).contains(&answers), "{answers}");
        assert!(client <= (answers + 3) * 1000, "{client} us for {answers} answers");
        assert!(scenario.contains("sem_wait=\"server:0 for client:1\""), "{scenario}");
    }

    #[test]
    fn an_open_client_and_threads_of_one_process_wait_for_no_answers() {
        assert!(!imported(&recording(true)).contains(" for client"));
        let mut trace = recording(false);
        let thread =
            |tid| Thread { tid, pid: Some(7), process: None, group: None, groups_v1: Vec::new(), charged: None };
        trace.meta.recorded.threads = vec![thread(8), thread(9)];
        assert!(!imported(&trace).contains(" for client"));
    }

    /// Under the recorded settings nothing waits for an answer that is not there.
    #[test]
    fn a_replay_without_a_limit_takes_as_long_as_the_recording() {
        let scenario = imported(&recording(false)).replace("1000 100000", "max 100000");
        let summary = simulate(&scenario).expect("a scenario");
        let run = summary.task(SERVER).expect("it ran").run;
        // With the costs of the switches.
        assert!((Duration::from_millis(64)..Duration::from_millis(65)).contains(&run), "{run}");
    }
}

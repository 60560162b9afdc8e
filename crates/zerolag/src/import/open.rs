//! [`OpenClients`]: what a recording of a server and its clients leaves open.
//!
//! A client is *closed* if it sends only after an answer, and *open* if it sends at times of its
//! own. The threads of an open client wait for answers as well. In a replay a late answer then
//! delays what this thread would have sent meanwhile; really another thread sends it, or the same
//! one before it reads. Replays in which they wait come out below what is measured, those in which
//! they do not come out above (docs/lab/predictions.md). So the waits have semaphores of their own,
//! and each seed says whether they are waited for.

use super::answers;
use super::extract::{ImportedTask, Step, TIMER_MIN};
use super::groups::ImportedGroups;
use super::wakings;
use super::write::{cpu_of, is_kernels, names, quoted};
use core::fmt::Write;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::TaskId;
use zerolag_trace::Trace;
use zerolag_workload::program::is_below;

/// The clients of the work that send at times of their own, and how much the work's demands differ.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct OpenClients {
    /// The tasks of the work, each with a thread of a client that it wakes with an answer.
    answers: BTreeSet<(TaskId, TaskId)>,
    /// The semaphores of answers.
    semaphores: Vec<String>,
    /// By which share demands of a quarter of the recording are apart from those of another.
    demand: f64,
    work: String,
}

/// Parts of the recording whose demands are compared, and the jobs that each needs.
const PARTS: usize = 4;
const JOBS_MIN: usize = 16;
/// What differs more is other work (the scenario refuses more).
const DEMAND_MAX: f64 = 0.5;

impl OpenClients {
    /// Looks for them in the tasks of a trace: threads outside of the work. O(steps).
    pub(super) fn new(trace: &Trace, tasks: &[ImportedTask], groups: &ImportedGroups, work: Option<&str>) -> Self {
        let Some(work) = work else { return Self::default() };
        let is_work = |task: &TaskId| groups.of.get(task).is_some_and(|path| is_below(path, work));
        let pipes = wakings::pipes(trace);
        let answers_of = |task: &ImportedTask| {
            let from = |step: &Step| match step {
                Step::Wait(waker, _) if is_work(waker) && !pipes.contains(&(*waker, task.id)) => Some(*waker),
                _ => None,
            };
            task.steps.iter().filter_map(from).collect::<Vec<_>>()
        };
        // By process: a timer of it wakes one of its threads, an answer another.
        let process = |task: &ImportedTask| answers::process(trace, task.id);
        let mut counts: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        let clients: Vec<_> =
            tasks.iter().filter(|task| !is_work(&task.id)).map(|task| (task, answers_of(task))).collect();
        for (task, answers) in &clients {
            let (own, answered) = counts.entry(process(task)).or_default();
            (*own, *answered) = (*own + task.expiries.len(), *answered + answers.len());
        }
        // Threads of the kernel send nothing of their own.
        let is_open = |of: &ImportedTask| {
            let (own, answered) = counts.get(&process(of)).copied().unwrap_or_default();
            let is_kernels = cpu_of(&of.name).is_some() || is_kernels(&of.name);
            answered >= TIMER_MIN && answers::is_open(own, answered) && !is_kernels
        };
        let names = names(trace, tasks);
        let mut open = Self { demand: spread(trace, tasks, is_work), work: work.to_owned(), ..Self::default() };
        for (task, answers) in clients.iter().filter(|(task, answers)| is_open(task) && !answers.is_empty()) {
            open.answers.extend(answers.iter().map(|waker| (*waker, task.id)));
            open.semaphores.push(of_answers(&names[&task.id]));
        }
        open
    }

    /// Returns the semaphore by which a task wakes another, which has this name.
    pub(super) fn semaphore<'a>(&self, waker: TaskId, woken: TaskId, name: &'a str) -> Cow<'a, str> {
        match self.answers.contains(&(waker, woken)) {
            true => of_answers(name).into(),
            false => name.into(),
        }
    }

    /// Returns the keys of `[origin]`.
    pub(super) fn keys(&self) -> String {
        let mut keys = String::new();
        let mut key = |text: core::fmt::Arguments<'_>| {
            keys.write_fmt(text).expect("invariant: writing to a String cannot fail");
        };
        if !self.semaphores.is_empty() {
            let names: Vec<String> = self.semaphores.iter().map(|name| quoted(name)).collect();
            key(format_args!("# With odd seeds these are not waited for: an open client sends without answers.\n"));
            key(format_args!("answers = [{}]\n", names.join(", ")));
        }
        if self.demand > 0.0 {
            key(format_args!(
                "# Seeds draw the demands of the work: so far apart are those of parts of the recording.\n"
            ));
            key(format_args!("demand = \"{:.1}%\"\nwork = {}\n", self.demand * 100.0, quoted(&self.work)));
        }
        keys
    }
}

fn of_answers(name: &str) -> String {
    format!("{name} answers")
}

/// Returns how far the demand per job of a part of the recording is from that of another, as a
/// share of the whole: half of it above, half below. 0 if a part has too few jobs.
///
/// Each job counts against the mean of its task: a part in which another task has more of the jobs
/// does not differ for that. (One mean of all jobs called the start of a client, 72 jobs of 13 ms
/// beside 2128 of 0.3 ms of its server, a difference of 22 % where that of each task was 3 %.)
fn spread(trace: &Trace, tasks: &[ImportedTask], is_work: impl Fn(&TaskId) -> bool) -> f64 {
    let length = trace.meta.end.since(trace.meta.start).as_nanos().max(1);
    let mut parts = [PartDemand::default(); PARTS];
    for task in tasks.iter().filter(|task| is_work(&task.id) && !task.jobs.is_empty()) {
        let whole: f64 = task.jobs.iter().map(|job| job.demand.as_nanos() as f64).sum();
        let mean = whole / task.jobs.len() as f64;
        for job in &task.jobs {
            let at = u128::from(job.at.since(trace.meta.start).as_nanos()) * PARTS as u128 / u128::from(length);
            let part = &mut parts[(at as usize).min(PARTS - 1)];
            part.seen += job.demand.as_nanos() as f64;
            part.expected += mean;
            part.jobs += 1;
        }
    }
    let jobs: usize = parts.iter().map(|part| part.jobs).sum();
    // A part before the load began, or after its end, has other jobs.
    let loaded =
        parts.iter().filter(|part| part.jobs >= JOBS_MIN && part.jobs * PARTS * 2 >= jobs && part.expected > 0.0);
    let shares = loaded.map(|part| part.seen / part.expected);
    let (least, most) = shares.fold((f64::MAX, 0.0_f64), |(low, high), of| (low.min(of), high.max(of)));
    ((most - least).max(0.0) / 2.0).min(DEMAND_MAX)
}

/// The demands of a part of the recording, in ns.
#[derive(Clone, Copy, Default)]
struct PartDemand {
    /// What its jobs demanded.
    seen: f64,
    /// What they would demand if each were the mean of its task.
    expected: f64,
    jobs: usize,
}

#[cfg(test)]
mod tests {
    use super::super::{Options, import, simulate};
    use zerolag_model::{Duration, TaskId};
    use zerolag_trace::script::Script;
    use zerolag_trace::{Source, Trace};

    const SERVER: TaskId = TaskId(0);
    const CLIENT: TaskId = TaskId(1);

    /// 80 requests of 2 ms, in the second half of 4 ms; a client that a timer wakes sends each, one
    /// that none wakes sends after each answer.
    fn recording(is_open: bool) -> Trace {
        recorded(is_open, "client")
    }

    fn recorded(is_open: bool, client: &str) -> Trace {
        let mut script = Script::new(1);
        let (server, client) = (script.fair("server"), script.fair(client));
        script.meta.source = Source::Text;
        for turn in 0..80 {
            let at = turn * 10_000 + turn * turn % 7 * 300;
            let answered = at + 100 + if turn < 40 { 2_000 } else { 4_000 };
            if is_open || turn == 0 {
                script.wake(at, 0, client).run(at, 0, None, Some(client));
            }
            script.wake(at + 100, 0, server).run(at + 100, 0, Some(client), Some(server));
            script.wake(answered, 0, client).run(answered, 0, Some(server), Some(client));
            if is_open {
                script.run(answered + 50, 0, Some(client), None);
            }
        }
        script.end(800_000)
    }

    /// The import under a limit of a tenth of a CPU, with the keys of `[origin]`.
    fn imported(trace: &Trace) -> String {
        let groups = vec![("server".to_owned(), "/s".to_owned())];
        let limits = vec![("/s".to_owned(), "10000 100000".to_owned())];
        let options = Options { groups, limits, work: Some("/s".to_owned()), ..Options::default() };
        let mut imported = import(trace, "x", &options);
        let base = super::super::base_error(trace, &imported).expect("a scenario");
        imported.note_base_error("x", &base);
        imported.scenario
    }

    /// With an even seed the client waits for answers that a limit delays, with an odd one it sends
    /// at its times: so the seeds contain what would be measured.
    #[test]
    fn an_open_client_sends_with_odd_seeds_whatever_the_answers() {
        let scenario = imported(&recording(true));
        assert!(scenario.contains("\nanswers = [\"client:1 answers\"]\n"), "{}", &scenario[..900]);
        let client_runs = |seed: u64| {
            let summary = simulate(&format!("seed = {seed}\n{scenario}")).expect("a scenario");
            summary.task(CLIENT).expect("the client").run
        };
        let (waits, sends) = (client_runs(2), client_runs(3));
        assert!(sends > Duration::from_micros(11_900) && waits * 2 < sends, "{waits} {sends}");
    }

    /// The work of the kernel makes `rcu_preempt` wait for a grace period, and its timer expires.
    #[test]
    fn a_thread_of_the_kernel_is_no_client() {
        for name in ["rcu_preempt", "kworker/u4:1", "ksoftirqd/0"] {
            assert!(!imported(&recorded(true, name)).contains("answers"), "{name}");
        }
    }

    /// Requests of the halves differ by a third of their mean in both directions.
    #[test]
    fn seeds_draw_demands_as_far_apart_as_parts_of_the_recording() {
        let scenario = imported(&recording(true));
        assert!(scenario.contains("\ndemand = \"33.3%\"\nwork = \"/s\"\n"), "{}", &scenario[..900]);
        let free = scenario.replace("10000 100000", "max 100000");
        let server_runs = |seed: u64| {
            let summary = simulate(&format!("seed = {seed}\n{free}")).expect("a scenario");
            summary.task(SERVER).expect("the server").run.as_nanos() as f64 / 240e6
        };
        assert!((server_runs(0) - 1.0).abs() < 0.01, "seed 0 repeats the recording: {}", server_runs(0));
        let drawn: Vec<f64> = (0..12).map(server_runs).collect();
        let within = |low: f64, high: f64| drawn.iter().filter(|factor| (low..high).contains(factor)).count();
        assert_eq!((within(0.66, 1.34), within(0.66, 1.0) >= 4, within(1.0, 1.34) >= 4), (12, true, true), "{drawn:?}");
        assert!(drawn.iter().any(|factor| *factor < 0.75) && drawn.iter().any(|factor| *factor > 1.25), "{drawn:?}");
    }

    #[test]
    fn a_closed_client_waits_for_answers_with_every_seed() {
        let scenario = imported(&recording(false));
        assert!(!scenario.contains("answers"), "{}", &scenario[..900]);
        let client_runs = |seed: u64| {
            let summary = simulate(&format!("seed = {seed}\n{scenario}")).expect("a scenario");
            summary.task(CLIENT).expect("the client").run
        };
        // It computes for 560 ms between its requests, if no limit delays answers.
        assert!(client_runs(3) < Duration::from_millis(400), "{}", client_runs(3));
    }
}

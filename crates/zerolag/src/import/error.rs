//! How far a simulation of an imported workload is from the recording, under the same settings.

use super::Throttling;
use core::fmt;
use zerolag_model::{Duration, TaskId};
use zerolag_report::human::{Human, Percent};
use zerolag_report::{Summary, TaskSummary};
use zerolag_workload::origin::{BaseErrors, UNKNOWN};

/// The distance between recorded and simulated figures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BaseError {
    /// The tasks that the sums are of, those with the most recorded CPU time first: those of the
    /// work, if an import names one, else all.
    pub tasks: Vec<TaskError>,
    /// The group of the work, if an import names one.
    pub work: Option<String>,
    /// The other tasks, in the same order.
    pub others: Vec<TaskError>,
    /// The groups whose counters were saved before and after the recording, by path: of the work,
    /// if an import names a group, those in it.
    pub groups: Vec<GroupError>,
    /// The services of the fitted form whose messages tell their requests.
    pub requests: Vec<RequestError>,
}

/// How long the requests of a service took, until the answer was sent: recorded and simulated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestError {
    /// The name of the service.
    pub service: String,
    /// How many were answered.
    pub count: (usize, usize),
    /// The median.
    pub p50: Pair,
    /// One in a hundred is longer.
    pub p99: Pair,
}

/// How much a group was throttled, recorded and simulated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupError {
    /// Its path.
    pub path: String,
    /// As its counters say.
    pub recorded: Throttling,
    /// As simulated.
    pub simulated: Throttling,
}

/// A figure, recorded and simulated.
pub type Pair = (Duration, Duration);

/// The figures of one task, recorded and simulated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskError {
    /// Its name, with its thread id if another has the same.
    pub name: String,
    /// CPU time.
    pub run: Pair,
    /// Time for which it was runnable and did not run.
    pub wait: Pair,
    /// Median time from a wakeup until it ran, if both have wakeups; the number of recorded ones.
    pub latency: Option<(Pair, u64)>,
}

/// What a task or a service of the scenario stands for.
#[derive(Clone, Copy)]
pub(super) struct SimulatedTask<'a> {
    /// Its name, if it is a service.
    pub(super) service: Option<&'a str>,
    /// The recorded tasks.
    pub(super) ids: &'a [TaskId],
    /// How many simulated tasks it has.
    pub(super) threads: usize,
}

impl BaseError {
    /// Compares the recorded figures of tasks with the simulated ones, whose tasks have this order,
    /// each with the tasks that it stands for.
    #[must_use]
    pub fn of(recorded: &Summary, simulated: &Summary, tasks: &[Vec<TaskId>]) -> Self {
        let tasks = tasks.iter().map(|ids| SimulatedTask { service: None, ids, threads: ids.len() });
        let tasks: Vec<SimulatedTask<'_>> = tasks.collect();
        Self::of_work(recorded, simulated, &tasks, None)
    }

    /// As [`of`](Self::of), with the group of the work, and whether each simulated task is in it: a
    /// question is about these tasks, and the rest of a machine has its own, often larger errors.
    pub(super) fn of_work(
        recorded: &Summary,
        simulated: &Summary,
        tasks: &[SimulatedTask<'_>],
        work: Option<(&str, &[bool])>,
    ) -> Self {
        let label = |of: &SimulatedTask<'_>| match of.service {
            Some(name) => name.to_owned(),
            None => of.ids.first().map_or_else(String::new, |id| recorded.label(*id)),
        };
        // The threads of a service are simulated tasks, one after the other.
        let mut first = 0;
        let mut pairs = Vec::new();
        for (at, of) in tasks.iter().enumerate() {
            let ours = (first..first + of.threads).filter_map(|index| simulated.task(TaskId::from_index(index)));
            let theirs = of.ids.iter().filter_map(|id| recorded.task(*id));
            let is_work = work.is_none_or(|(_, is_work)| is_work.get(at).copied().unwrap_or(false));
            pairs.push((is_work, error(label(of), &theirs.collect::<Vec<_>>(), &ours.collect::<Vec<_>>())));
            first += of.threads;
        }
        pairs.sort_by_key(|(_, task)| core::cmp::Reverse(task.run.0));
        let (tasks, others): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(is_work, _)| *is_work);
        let errors = |pairs: Vec<(bool, TaskError)>| pairs.into_iter().map(|(_, task)| task).collect();
        let work = work.map(|(work, _)| work.to_owned());
        Self { tasks: errors(tasks), work, others: errors(others), groups: Vec::new(), requests: Vec::new() }
    }

    /// Returns the error of the whole machine.
    #[must_use]
    pub fn machine(&self) -> Self {
        let tasks = self.tasks.iter().chain(&self.others).cloned().collect();
        Self { tasks, work: None, others: Vec::new(), groups: self.groups.clone(), requests: self.requests.clone() }
    }

    /// Returns the recorded CPU time of these tasks, and the sum of the differences.
    #[must_use]
    pub fn run(&self) -> Pair {
        sums(self.tasks.iter().map(|task| task.run))
    }

    /// Returns the recorded waits of these tasks, and the sum of the differences.
    #[must_use]
    pub fn wait(&self) -> Pair {
        sums(self.tasks.iter().map(|task| task.wait))
    }

    /// Returns the sum of the differences of waits as a share of the recorded waits; infinity if
    /// none was recorded, so that it is not known.
    #[must_use]
    pub fn wait_share(&self) -> f64 {
        self.percents().wait_percent.map_or(f64::INFINITY, |percent| percent / 100.0)
    }

    /// Returns the sums of the differences: as percent of the recorded sums, unknown of a sum of
    /// nothing; of throttling as it is counted.
    #[must_use]
    pub fn percents(&self) -> BaseErrors {
        let percent =
            |(all, apart): Pair| (!all.is_zero()).then(|| 100.0 * apart.as_nanos() as f64 / all.as_nanos() as f64);
        BaseErrors {
            run_percent: percent(self.run()),
            wait_percent: percent(self.wait()),
            latency_percent: percent(self.latency()),
            nr_throttled: self.throttled_apart(|of| of.periods),
            throttled: self.throttled_apart(|of| of.time.as_nanos()).map(Duration::from_nanos),
        }
    }

    /// Returns the sum of the differences of a counter of the groups; `None` if no group's was
    /// recorded.
    fn throttled_apart(&self, counter: impl Fn(Throttling) -> u64) -> Option<u64> {
        let apart = self.groups.iter().map(|group| counter(group.recorded).abs_diff(counter(group.simulated)));
        (!self.groups.is_empty()).then(|| apart.sum())
    }

    /// Returns the groups that were throttled otherwise than they are in a simulation of the same
    /// settings, as half a sentence: in periods by more than 2 and a fifth, in time by more than 20
    /// ms and a half. What such a simulation says of these settings is no promise.
    #[must_use]
    pub fn unlike_throttled(&self) -> Option<String> {
        let is_unlike = |group: &&GroupError| {
            let (recorded, simulated) = (group.recorded, group.simulated);
            let periods = recorded.periods.abs_diff(simulated.periods);
            let time = distance(recorded.time, simulated.time);
            periods > (recorded.periods.max(simulated.periods) / 5).max(2)
                || time > Duration::from_millis(20) && time > recorded.time.max(simulated.time) / 2
        };
        let groups = self.groups.iter().filter(is_unlike).map(|GroupError { path, recorded, simulated }| {
            let path = zerolag_model::text::name(path);
            let (was, is) = (recorded, simulated);
            let times = (Human(was.time), Human(is.time));
            format!(
                "{path} was throttled in {} periods of the recording for {}, and is in {} for {} simulated",
                was.periods, times.0, is.periods, times.1
            )
        });
        groups.reduce(|all, group| format!("{all}; {group}"))
    }

    /// Returns the recorded waits and the simulated ones of all tasks together.
    #[must_use]
    pub fn wait_totals(&self) -> Pair {
        self.tasks.iter().fold((Duration::ZERO, Duration::ZERO), |sum, task| {
            (sum.0.saturating_add(task.wait.0), sum.1.saturating_add(task.wait.1))
        })
    }

    /// Returns the recorded median wakeup latencies and their differences, each by its number of
    /// wakeups.
    #[must_use]
    pub fn latency(&self) -> Pair {
        let weighted = |time: Duration, count| Duration::from_nanos(time.as_nanos().saturating_mul(count));
        let pairs = self.tasks.iter().filter_map(|task| task.latency);
        sums(pairs.map(|((a, b), count)| (weighted(a, count), weighted(b, count))))
    }
}

fn sums(pairs: impl Iterator<Item = Pair>) -> Pair {
    pairs.fold((Duration::ZERO, Duration::ZERO), |(all, apart), (recorded, simulated)| {
        (all.saturating_add(recorded), apart.saturating_add(distance(recorded, simulated)))
    })
}

fn distance(a: Duration, b: Duration) -> Duration {
    a.saturating_sub(b).max(b.saturating_sub(a))
}

fn error(name: String, recorded: &[&TaskSummary], simulated: &[&TaskSummary]) -> TaskError {
    let sum = |tasks: &[&TaskSummary], time: fn(&TaskSummary) -> Duration| {
        tasks.iter().fold(Duration::ZERO, |sum, task| sum.saturating_add(time(task)))
    };
    let of = |time: fn(&TaskSummary) -> Duration| (sum(recorded, time), sum(simulated, time));
    // Of several threads the mean of their medians, by number of wakeups.
    let median = |tasks: &[&TaskSummary]| {
        let (mut whole, mut count) = (0_u128, 0_u64);
        for latency in tasks.iter().filter_map(|task| task.latency.as_ref()) {
            whole += u128::from(latency.p50.as_nanos()) * u128::from(latency.count);
            count += latency.count;
        }
        let mean = whole.checked_div(u128::from(count)).and_then(|mean| u64::try_from(mean).ok());
        mean.map(|mean| (Duration::from_nanos(mean), count))
    };
    let latencies = median(recorded).zip(median(simulated));
    TaskError {
        name,
        run: of(|task| task.run),
        wait: of(|task| task.wait),
        latency: latencies.map(|((recorded, count), (simulated, _))| ((recorded, simulated), count)),
    }
}

impl BaseError {
    fn write_requests(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for RequestError { service, count, p50, p99 } in self.requests.iter().take(SHOWN) {
            let service = zerolag_model::text::name(service);
            writeln!(
                f,
                "  requests of {service}: {} recorded, {} simulated; p50 {}, {} simulated; p99 {}, {} simulated",
                count.0,
                count.1,
                Human(p50.0),
                Human(p50.1),
                Human(p99.0),
                Human(p99.1)
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for BaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |(whole, part): Pair| match whole.is_zero() {
            true => UNKNOWN.to_owned(),
            false => Percent { part, whole }.to_string(),
        };
        let of = self.work.as_ref().map_or_else(String::new, |work| format!(" of {}", zerolag_model::text::name(work)));
        writeln!(f, "base error{of}, simulated under the same settings (sum of the differences per task):")?;
        writeln!(f, "  CPU time          {:>7} of {}", percent(self.run()), Human(self.run().0))?;
        let (recorded, simulated) = self.wait_totals();
        writeln!(
            f,
            "  wait time         {:>7} of {}; all tasks together {} recorded, {} simulated",
            percent(self.wait()),
            Human(self.wait().0),
            Human(recorded),
            Human(simulated)
        )?;
        writeln!(f, "  wakeup latency    {:>7} (medians per task, by number of wakeups)", percent(self.latency()))?;
        for GroupError { path, recorded, simulated } in self.groups.iter().take(SHOWN) {
            let path = zerolag_model::text::name(path);
            let (periods, time) =
                ((recorded.periods, simulated.periods), (Human(recorded.time), Human(simulated.time)));
            writeln!(
                f,
                "  {path} was throttled in {} periods, {} simulated; for {}, {} simulated",
                periods.0, periods.1, time.0, time.1
            )?;
        }
        self.write_requests(f)?;
        if self.work.is_some() {
            let machine = self.machine();
            let (run, wait, latency) = (percent(machine.run()), percent(machine.wait()), percent(machine.latency()));
            writeln!(f, "  the whole machine: CPU time {run}, wait time {wait}, wakeup latency {latency}")?;
        }
        writeln!(
            f,
            "{:<28} {:>9} {:>9}  {:>9} {:>9}  {:>9} {:>9}",
            "task", "run", "sim", "wait", "sim", "latency", "sim"
        )?;
        for task in self.tasks.iter().take(SHOWN) {
            let human = |time: Duration| Human(time).to_string();
            let latency = task.latency.map_or_else(
                || ("-".to_owned(), "-".to_owned()),
                |((recorded, simulated), _)| (human(recorded), human(simulated)),
            );
            writeln!(
                f,
                "{:<28} {:>9} {:>9}  {:>9} {:>9}  {:>9} {:>9}",
                task.name,
                human(task.run.0),
                human(task.run.1),
                human(task.wait.0),
                human(task.wait.1),
                latency.0,
                latency.1
            )?;
        }
        match self.tasks.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "({more} more tasks that ran less)"),
        }
    }
}

const SHOWN: usize = 10;

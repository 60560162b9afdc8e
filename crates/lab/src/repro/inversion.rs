//! Experiment 4: the effect of a task that is throttled in the kernel on others, and the benefit of
//! sparing it (2012).
//!
//! Two groups on a CPU each read the same file of 1 GB. The first may use 10 % of a CPU and runs
//! busy loops next to its reader. "The read time was the same for both groups": a reader that waits
//! for a page which the throttled reader has been given waits until that reader's group gets quota
//! again. The set-up is the scenario `inversion.toml` next to this file, which names the fitted
//! values: disk and copying, on 8.42 s alone. So 40.03 s is a prediction, reported unchanged, with
//! its sensitivity to the assumptions.
//!
//! The mechanism is that of the page cache of that time ([`zerolag_sim`], its module `cache`): the
//! end of a read wakes *one* waiter of the page's lock, and that one wakes the next. If the first
//! is the limited reader and its group is throttled, the other waits with it.
//!
//! Source: Davydov 2012, "sched: boost throttled entities on wakeups" (RFC).

use super::in_order;
use core::fmt;
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::ControlFlow;
use zerolag::results::{self as document, Document};
use zerolag::simulation::Plan;
use zerolag_model::settings::{IdleGovernor, Preempt, Throttle};
use zerolag_model::{Duration, Instant, Record, TraceEvent};
use zerolag_report::plot::{Axis, Mark, Plot, Unit};
use zerolag_report::table::{Align, Table, Titled};
use zerolag_sim::costs::IdleState;
use zerolag_sim::{Sink, Tracing};
use zerolag_workload::{LoadOptions, load};

/// The set-up.
pub const SCENARIO: &str = include_str!("inversion.toml");
/// The case that the patch of 2012 does not solve where kernel mode is preempted.
pub const PREEMPTED: &str = include_str!("inversion-preempted.toml");

/// Published read times in milliseconds, mean and deviation: without the patch, with it.
pub const PUBLISHED: [(u64, u64); 2] = [(40_030, 7_040), (8_420, 480)];

/// The time after which a reader counts as never finished.
const LIMIT: Duration = Duration::from_secs(400);

/// The experiment.
#[derive(Clone, Debug)]
pub struct Inversion2012 {
    /// Seeds per row: 0, 1, ...
    pub seeds: u64,
    /// Number of worker threads.
    pub threads: usize,
    /// Models of preemption to run.
    pub preempts: Vec<Preempt>,
    /// Parameters that are changed, one at a time, for `immediate` under voluntary preemption: key
    /// and value; a setting if the scenario has no such parameter. A random disk is run with
    /// `boost_on_wakeup` too.
    pub sensitivity: Vec<(&'static str, &'static str)>,
}

impl Default for Inversion2012 {
    fn default() -> Self {
        Self {
            seeds: 10,
            threads: 1,
            preempts: vec![Preempt::Voluntary, Preempt::None, Preempt::Full, Preempt::Lazy, Preempt::Rt],
            sensitivity: vec![
                ("loops", "1"),
                ("loops", "3"),
                ("spread", "1us"),
                ("spread", "8us"),
                ("copy", "10us"),
                ("copy", "40us"),
                ("setup", "5us"),
                ("setup", "80us"),
                ("bandwidth", "100000000"),
                ("bandwidth", "160000000"),
                ("hz", "100"),
                ("hz", "1000"),
                ("idle_exit", "20us"),
                ("idle_exit", "40us"),
                ("idle_states", "nehalem"),
                ("idle_states", "sandy_bridge"),
                ("cpusets", "partitions"),
                ("disk", "random"),
            ],
        }
    }
}

/// One row: a throttling mode under a preemption model, with at most one change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// The throttling mode.
    pub throttle: Throttle,
    /// The preemption model.
    pub preempt: Preempt,
    /// A further difference from the scenario.
    pub change: Option<(&'static str, &'static str)>,
}

/// Read times of the two readers in one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadTimes {
    /// Time of the limited group's reader; `None` if it had not finished at the limit.
    pub limited: Option<Duration>,
    /// Time of the other group's reader.
    pub free: Option<Duration>,
}

/// The results of a row: a run per seed.
#[derive(Clone, Debug)]
pub struct SeedResults {
    /// The row.
    pub case: Case,
    /// By seed.
    pub runs: Vec<ReadTimes>,
}

/// The results.
#[derive(Clone, Debug)]
pub struct Results {
    /// All rows: first the modes, then the changes.
    pub rows: Vec<SeedResults>,
}

/// Mean and deviation (of a sample) in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    /// The mean.
    pub mean: u64,
    /// The deviation.
    pub deviation: u64,
}

impl Inversion2012 {
    /// Returns the rows in their order.
    #[must_use]
    pub fn cases(&self) -> Vec<Case> {
        let modes = self.preempts.iter().flat_map(|preempt| {
            let ways = [
                Throttle::Immediate,
                Throttle::BoostOnWakeup,
                Throttle::BoostGroups,
                Throttle::BoostInKernel,
                Throttle::AtUserReturn,
            ];
            ways.map(|throttle| Case { throttle, preempt: *preempt, change: None })
        });
        let proxies = self.preempts.iter().map(|preempt| Case {
            throttle: Throttle::Immediate,
            preempt: *preempt,
            change: Some(("proxy_exec", "on")),
        });
        let changes = self.sensitivity.iter().flat_map(|change| {
            let cured = (change.0 == "disk").then_some(Throttle::BoostOnWakeup);
            let ways = [Throttle::Immediate].into_iter().chain(cured);
            ways.map(|throttle| Case { throttle, preempt: Preempt::Voluntary, change: Some(*change) })
        });
        modes.chain(proxies).chain(changes).chain(self.preempted()).collect()
    }

    /// Returns the rows of tasks that compute with a lock, under the two models of preemption that
    /// the text names.
    fn preempted(&self) -> Vec<Case> {
        let named = [Preempt::Voluntary, Preempt::Full].into_iter().filter(|preempt| self.preempts.contains(preempt));
        let ways = [Throttle::Immediate, Throttle::BoostOnWakeup, Throttle::BoostInKernel, Throttle::AtUserReturn];
        let case = |preempt, throttle| Case { throttle, preempt, change: Some(("calls", "preempted")) };
        named.flat_map(|preempt| ways.map(|throttle| case(preempt, throttle))).collect()
    }

    /// Runs all rows; `progress` is called with the index of each starting run, and can stop the
    /// rest.
    #[must_use]
    pub fn run(&self, progress: impl Fn(u64) -> ControlFlow<()> + Sync) -> Option<Results> {
        let cases = self.cases();
        let count = cases.len() as u64 * self.seeds;
        let work = |index: u64| {
            let place = usize::try_from(index / self.seeds.max(1)).expect("invariant: few rows");
            cases[place].run(index % self.seeds.max(1))
        };
        let done = in_order(count, self.threads, work, progress);
        if done.len() as u64 != count {
            return None;
        }
        let mut runs = done.into_iter().map(|(_, times)| times);
        let rows = cases.into_iter().map(|case| SeedResults {
            case,
            runs: runs.by_ref().take(usize::try_from(self.seeds).unwrap_or(usize::MAX)).collect(),
        });
        Some(Results { rows: rows.collect() })
    }
}

impl Case {
    /// Returns the plan of one run.
    ///
    /// # Panics
    /// If the change is neither a parameter nor a setting.
    #[must_use]
    pub fn plan(&self, seed: u64) -> Plan {
        self.plan_with(seed, "")
    }

    /// The same, with the interrupts of the disk elsewhere: lines of its section.
    fn plan_with(&self, seed: u64, irq: &str) -> Plan {
        let parameters: Vec<(String, String)> =
            self.change.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let options = LoadOptions { parameters, ..LoadOptions::default() };
        let text = self.scenario().replace("[disk.sda]\n", &format!("[disk.sda]\n{irq}"));
        let scenario = load("inversion.toml", text.as_bytes(), &options).expect("invariant: the scenario is right");
        let known = scenario.parameters.clone();
        let mut plan =
            Plan::new(scenario).expect("invariant: its settings are known").with_seed(seed).for_duration(LIMIT);
        let settings = &mut plan.config.settings;
        settings.throttle = self.throttle;
        settings.preempt = self.preempt;
        match self.change {
            Some(("idle_exit", value)) => {
                plan.config.costs.idle_exit = value.parse().expect("invariant: a time");
            }
            Some(("cpusets" | "disk" | "calls", _)) => {}
            Some(("idle_states", name)) => plan.config.costs.idle_states = idle_states(name),
            Some(("menu", name)) => {
                plan.config.costs.idle_states = idle_states(name);
                settings.idle_governor = IdleGovernor::Menu;
            }
            Some((key, value)) if !known.iter().any(|known| known == key) => {
                settings.set(key, value).expect("invariant: a parameter, a cost or a setting");
            }
            Some(_) | None => {}
        }
        plan
    }

    /// Returns the text of its scenario: that of the experiment, or one with another disk or with
    /// cpusets.
    fn scenario(&self) -> Cow<'static, str> {
        match self.change {
            Some(("cpusets", _)) => Cow::Owned(rewritten(&CPUSETS)),
            Some(("disk", _)) => Cow::Owned(rewritten(&RANDOM_DISK)),
            Some(("calls", _)) => Cow::Borrowed(PREEMPTED),
            Some(_) | None => Cow::Borrowed(SCENARIO),
        }
    }

    /// Returns the number of tasks that end.
    fn readers(&self) -> u32 {
        if self.is_preempted() { 1 } else { 2 }
    }

    /// Returns whether its tasks compute with a lock, instead of reading a file.
    fn is_preempted(&self) -> bool {
        self.change.is_some_and(|(key, _)| key == "calls")
    }

    /// Returns its name in tables: the throttling mode, or the change.
    fn name(&self) -> String {
        match (self.change, self.throttle) {
            (None, throttle) => throttle.to_string(),
            (Some(("calls", _)), throttle) => format!("calls, {throttle}"),
            (Some((key, value)), Throttle::Immediate) => format!("{key}={value}"),
            (Some((key, value)), throttle) => format!("{key}={value}, {throttle}"),
        }
    }

    /// Runs once.
    #[must_use]
    pub fn run(&self, seed: u64) -> ReadTimes {
        self.run_with(seed, "")
    }

    fn run_with(&self, seed: u64, irq: &str) -> ReadTimes {
        let mut machine =
            self.plan_with(seed, irq).build(Tracing::On).expect("invariant: the scenario fits its machine");
        let done = Cell::new(0_u32);
        let mut watch = PageLockWatch { times: ReadTimes::default(), limited: None, free: None, done: &done };
        machine.run_with(&mut watch, |_, _| {
            if done.get() == self.readers() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        watch.times
    }
}

/// Where the interrupt of the disk arrives, and how long a CPU takes to leave idle: what the text
/// does not say of its machine, and what decides.
#[derive(Clone, Debug)]
pub struct Placements {
    /// Seeds per row: 0, 1, ...
    pub seeds: u64,
    /// Number of worker threads.
    pub threads: usize,
    /// Exits from idle: a key and a value as in [`Inversion2012::sensitivity`]; `None` is the
    /// profile's.
    pub idle: Vec<Option<(&'static str, &'static str)>>,
    /// Placements of the interrupt: a name, and lines of the disk's section.
    pub irqs: Vec<(&'static str, &'static str)>,
}

impl Default for Placements {
    fn default() -> Self {
        let exits = ["24us", "26us", "28us", "32us"].map(|exit| Some(("idle_exit", exit)));
        let generations = ["nehalem", "sandy_bridge"];
        let tables = ["idle_states", "menu"].into_iter().flat_map(|key| generations.map(|name| Some((key, name))));
        Self {
            seeds: 10,
            threads: 1,
            idle: [None].into_iter().chain(tables).chain(exits).collect(),
            irqs: vec![
                ("the sender", ""),
                ("CPU 0 (limited)", "irq_cpus = \"0\"\n"),
                ("CPU 2 (free)", "irq_cpus = \"2\"\n"),
                ("CPU 4 (another core)", "irq_cpus = \"4\"\n"),
                ("all in turn", "irq_cpus = \"0-7\"\n"),
                ("moved every 10 s", "irq_cpus = \"0-7\"\nirq_moves = \"10s\"\n"),
            ],
        }
    }
}

/// A name and its value.
type Words = (&'static str, &'static str);

/// The read times of each placement: without a cure, and boosted.
#[derive(Clone, Debug)]
pub struct Placed {
    rows: Vec<(String, &'static str, [SeedResults; 2])>,
}

impl Placements {
    fn rows(&self) -> Vec<(Option<Words>, Words)> {
        self.idle.iter().flat_map(|idle| self.irqs.iter().map(|irq| (*idle, *irq))).collect()
    }

    /// Returns the number of runs.
    #[must_use]
    pub fn nr_runs(&self) -> u64 {
        self.rows().len() as u64 * 2 * self.seeds
    }

    /// Runs all; `progress` is called with the index of each starting run, and can stop the rest.
    #[must_use]
    pub fn run(&self, progress: impl Fn(u64) -> ControlFlow<()> + Sync) -> Option<Placed> {
        let rows = self.rows();
        let case = |idle, throttle| Case { throttle, preempt: Preempt::Voluntary, change: idle };
        let ways = [Throttle::Immediate, Throttle::BoostOnWakeup];
        let work = |index: u64| {
            let (row, run) = (index / (2 * self.seeds), index % (2 * self.seeds));
            let (idle, irq) = rows[usize::try_from(row).expect("invariant: few rows")];
            let throttle = ways[usize::from(run >= self.seeds)];
            case(idle, throttle).run_with(run % self.seeds, irq.1)
        };
        let count = self.nr_runs();
        let done = in_order(count, self.threads, work, progress);
        if done.len() as u64 != count {
            return None;
        }
        let mut runs = done.into_iter().map(|(_, times)| times);
        let rows = rows.into_iter().map(|(idle, irq)| {
            let name = idle.map_or_else(|| "idle_exit=1.5us".to_owned(), |(key, value)| format!("{key}={value}"));
            let results = ways.map(|throttle| SeedResults {
                case: case(idle, throttle),
                runs: runs.by_ref().take(usize::try_from(self.seeds).unwrap_or(usize::MAX)).collect(),
            });
            (name, irq.0, results)
        });
        Some(Placed { rows: rows.collect() })
    }
}

impl Placed {
    /// Returns the mean read times of a row in seconds: without a cure, and boosted; `None` if a
    /// run had not finished.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn seconds(&self, row: usize) -> [Option<f64>; 2] {
        let mean = |results: &SeedResults| Some(results.spread(|times| times.free)?.mean as f64 / 1e3);
        let [without, boosted] = &self.rows[row].2;
        [mean(without), mean(boosted)]
    }

    /// Returns the table: mean, deviation, shortest and longest read time, and the boosted one.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("leaving idle", Align::Left),
            ("interrupt on", Align::Left),
            ("immediate (s)", Align::Right),
            ("shortest", Align::Right),
            ("longest", Align::Right),
            ("boost_on_wakeup (s)", Align::Right),
        ]);
        let seconds = |time: Duration| format!("{:.2}", time.as_nanos() as f64 / 1e9);
        let mean = |results: &SeedResults| {
            let of = results.spread(|times| times.free);
            of.map_or_else(
                || "over 400".to_owned(),
                |Spread { mean, deviation }| format!("{:.2} +- {:.2}", mean as f64 / 1e3, deviation as f64 / 1e3),
            )
        };
        for (idle, irq, [without, boosted]) in &self.rows {
            let times = || without.runs.iter().filter_map(|times| times.free);
            table.push([
                idle.clone(),
                (*irq).to_owned(),
                mean(without),
                times().min().map_or_else(String::new, seconds),
                times().max().map_or_else(String::new, seconds),
                mean(boosted),
            ]);
        }
        table
    }

    /// Returns the table with its title.
    #[must_use]
    pub fn titled(&self) -> Titled {
        let text = "Read time of the free reader by the CPU of the disk's interrupt; published: 40.03 +- 7.04 s, boosted 8.42 +- 0.48 s.";
        Titled::new("The disk's interrupt and the exit from idle", text, self.table())
    }

    /// Returns, for each way to leave idle, mean and deviation in seconds over all runs of all
    /// fixed places of the interrupt: its name, the runs without a cure, and the boosted ones. The
    /// text's machine had one place, or one after another.
    #[must_use]
    pub fn over_places(&self) -> Vec<(String, [(f64, f64); 2])> {
        let mut names: Vec<&String> = self.rows.iter().map(|(idle, ..)| idle).collect();
        names.dedup();
        let of = |name: &String, way: usize| {
            let is_one = |row: &&(String, &str, [SeedResults; 2])| row.0 == *name && !row.1.starts_with("moved");
            let runs = self.rows.iter().filter(is_one).flat_map(|row| row.2[way].runs.iter());
            let times: Vec<f64> = runs.filter_map(|run| run.free).map(|time| time.as_nanos() as f64 / 1e9).collect();
            let count = times.len() as f64;
            let mean = times.iter().sum::<f64>() / count.max(1.0);
            let squares = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
            (mean, (squares / (count - 1.0).max(1.0)).sqrt())
        };
        names.into_iter().map(|name| (name.clone(), [of(name, 0), of(name, 1)])).collect()
    }
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text =
            "read time of the free reader by the CPU of the disk's interrupt, and by how long it takes to leave idle";
        writeln!(f, "{text}\n\n{}\n\nover the fixed places", self.table())?;
        for (name, [(mean, deviation), (boosted, spread)]) in self.over_places() {
            writeln!(f, "  {name}: {mean:.2} +- {deviation:.2} s, boosted {boosted:.2} +- {spread:.2} s")?;
        }
        writeln!(f, "  published: 40.03 +- 7.04 s, boosted 8.42 +- 0.48 s")
    }
}

/// A partition of one CPU for each group, in place of the affinity of its tasks.
const CPUSETS: [(&str, &str); 3] = [
    ("cpus = \"0\"", "cpuset = \"limited\""),
    ("cpus = \"2\"", "cpuset = \"free\""),
    (
        "[disk.sda]",
        "[cpuset.limited]\ncpus = \"0\"\npartition = \"root\"\n\n\
         [cpuset.free]\ncpus = \"2\"\npartition = \"root\"\n\n[disk.sda]",
    ),
];

/// A random disk, as slow on average: half of the 1.028 ms of a window are transfer, the other half
/// has an exponential distribution.
const RANDOM_DISK: [(&str, &str); 2] = [
    ("latency = \"0us\"", "latency = { exponential = { mean = \"514us\" } }"),
    ("bandwidth = 127_700_000", "bandwidth = 255_400_000"),
];

/// Returns the scenario with other parts: what no parameter can say.
///
/// # Panics
/// If the scenario has no such part any more: the row would repeat the one without a change.
fn rewritten(parts: &[(&str, &str)]) -> String {
    parts.iter().fold(SCENARIO.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "invariant: inversion.toml has `{from}`");
        text.replace(from, to)
    })
}

/// Returns the idle states of two CPU generations: target residency and exit latency of Linux v3.6
/// `drivers/idle/intel_idle.c`, `nehalem_cstates` and `snb_cstates`.
fn idle_states(name: &str) -> Vec<IdleState> {
    let us: [(u64, u64); 3] = match name {
        "nehalem" => [(6, 3), (80, 20), (800, 200)],
        "sandy_bridge" => [(1, 1), (211, 80), (345, 104)],
        other => unreachable!("idle states of {other}"),
    };
    let states = us.map(|(residency, exit)| IdleState {
        residency: Duration::from_micros(residency),
        exit: Duration::from_micros(exit),
        polling: false,
        ipi_latency: None,
    });
    states.to_vec()
}

/// Records the end of each reader.
struct PageLockWatch<'c> {
    times: ReadTimes,
    limited: Option<zerolag_model::TaskId>,
    free: Option<zerolag_model::TaskId>,
    done: &'c Cell<u32>,
}

impl Sink for PageLockWatch<'_> {
    fn record(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::TaskNew { task, name, .. } if &**name == "limited-0" => self.limited = Some(*task),
            TraceEvent::TaskNew { task, name, .. } if &**name == "free-0" => self.free = Some(*task),
            TraceEvent::TaskExit { task } => {
                let took = Some(record.at.since(Instant::ZERO));
                if self.limited == Some(*task) {
                    self.times.limited = took;
                } else if self.free == Some(*task) {
                    self.times.free = took;
                }
                self.done.set(self.done.get() + 1);
            }
            // No other event is measured.
            _ => {}
        }
    }
}

impl SeedResults {
    /// Returns mean and deviation of the read times of one reader; `None` if a run had not finished
    /// at the limit.
    #[must_use]
    pub fn spread(&self, of: impl Fn(&ReadTimes) -> Option<Duration>) -> Option<Spread> {
        let times: Option<Vec<f64>> =
            self.runs.iter().map(|run| of(run).map(|time| time.as_nanos() as f64 / 1e6)).collect();
        let times = times.filter(|times| !times.is_empty())?;
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let squares: f64 = times.iter().map(|time| (time - mean) * (time - mean)).sum();
        let deviation = (squares / (times.len() as f64 - 1.0).max(1.0)).sqrt();
        Some(Spread { mean: mean.round() as u64, deviation: deviation.round() as u64 })
    }

    fn both(&self) -> [Option<Spread>; 2] {
        [self.spread(|run| run.limited), self.spread(|run| run.free)]
    }

    fn texts(&self) -> [String; 2] {
        let [limited, free] =
            self.both().map(|spread| spread.map_or_else(|| "not done".to_owned(), |spread| spread.to_string()));
        if self.case.is_preempted() { ["endless".to_owned(), free] } else { [limited, free] }
    }

    /// Returns the published time of this row, if there is one.
    fn published(&self) -> Option<Spread> {
        let (mean, deviation) = match (self.case.preempt, self.case.throttle, self.case.change) {
            (Preempt::Voluntary, Throttle::Immediate, None) => PUBLISHED[0],
            (Preempt::Voluntary, Throttle::BoostOnWakeup, None) => PUBLISHED[1],
            _ => return None,
        };
        Some(Spread { mean, deviation })
    }
}

/// The file of `zerolag repro inversion`.
pub(crate) const DOCUMENT: Document = Document::of::<InversionRows>(SCHEMA, "repro inversion");
const SCHEMA: &str = "zerolag.repro.inversion.v1";

/// Tasks throttled while they hold what others wait for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct InversionRows {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The published results: without and with the published cure.
    published: Vec<PublishedTime>,
    /// The simulated results.
    rows: Vec<InversionRow>,
}

/// A published mean and its deviation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct PublishedTime {
    /// The mean.
    mean_ms: u64,
    /// The standard deviation.
    deviation_ms: u64,
}

/// The runs under one way to throttle.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct InversionRow {
    /// The setting `throttle`.
    throttle: String,
    /// The setting `preempt`.
    preempt: String,
    /// A further setting, as `KEY=VALUE`.
    change: Option<String>,
    /// The runs, a seed each.
    runs: Vec<InversionRun>,
}

/// The times of a run; null if it did not end.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct InversionRun {
    /// The time of the limited tasks.
    limited_ns: Option<u64>,
    /// The time of the tasks without a limit.
    free_ns: Option<u64>,
}

impl Results {
    /// Returns the row of a throttling mode under a preemption model.
    #[must_use]
    pub fn of(&self, throttle: Throttle, preempt: Preempt) -> Option<&SeedResults> {
        let wanted = Case { throttle, preempt, change: None };
        self.rows.iter().find(|row| row.case == wanted)
    }

    /// Returns all rows as JSON, schema `zerolag.repro.inversion.v1`: times in nanoseconds.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let nanos = |time: Option<Duration>| time.map(Duration::as_nanos);
        let rows = self.rows.iter().map(|row| InversionRow {
            throttle: row.case.throttle.to_string(),
            preempt: row.case.preempt.to_string(),
            change: row.case.change.map(|(key, value)| format!("{key}={value}")),
            runs: row
                .runs
                .iter()
                .map(|run| InversionRun { limited_ns: nanos(run.limited), free_ns: nanos(run.free) })
                .collect(),
        });
        let published = PUBLISHED.map(|(mean_ms, deviation_ms)| PublishedTime { mean_ms, deviation_ms });
        document::value(&InversionRows { schema: SCHEMA, published: published.into(), rows: rows.collect() })
    }
}

impl Results {
    /// Returns the answer in one sentence.
    #[must_use]
    pub fn answer(&self) -> String {
        let of = |throttle| {
            let row = self.of(throttle, Preempt::Voluntary)?;
            Some(format!("{} s (published {})", row.texts()[0], row.published()?))
        };
        let text = |throttle| of(throttle).unwrap_or_else(|| "not run".to_owned());
        format!(
            "The limited reader takes {} if it is throttled at once, {} if it is spared.",
            text(Throttle::Immediate),
            text(Throttle::BoostOnWakeup)
        )
    }

    /// Returns plots of both readers' times: by throttling mode and preemption model.
    #[must_use]
    pub fn plots(&self) -> Vec<Plot> {
        let is_mode = |row: &&SeedResults| row.case.change.is_none_or(|(key, _)| key == "proxy_exec");
        let rows: Vec<&SeedResults> = self.rows.iter().filter(is_mode).collect();
        let mut names: Vec<String> = Vec::new();
        let mut preempts: Vec<Preempt> = Vec::new();
        for row in &rows {
            if !names.contains(&row.case.name()) {
                names.push(row.case.name());
            }
            if !preempts.contains(&row.case.preempt) {
                preempts.push(row.case.preempt);
            }
        }
        // The full names, which the table has, leave no room for each other.
        let shorter =
            |name: &String| name.replace("boost_", "").replace("_user_", "_").replace("_exec=on", "").replace('_', " ");
        let shown: Vec<String> = names.iter().map(shorter).collect();
        let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        let seconds = |ms: u64| ms as f64 * 1e6;
        let titles = [("Reader of the limited group", 0), ("Reader of the free group", 1)];
        let plot = |(title, which): (&str, usize)| {
            let mut plot =
                Plot::new(title, Axis::categories("throttling", &shown), Axis::linear("read time", Unit::Nanos));
            for preempt in &preempts {
                let of = rows.iter().filter(|row| row.case.preempt == *preempt);
                let found = of.filter_map(|row| {
                    let place = names.iter().position(|name| *name == row.case.name())? as f64;
                    let Spread { mean, deviation } = row.both()[which]?;
                    let range = (seconds(mean.saturating_sub(deviation)), seconds(mean + deviation));
                    Some(((place, seconds(mean)), range))
                });
                let (points, spread): (Vec<_>, Vec<_>) = found.unzip();
                plot = plot.with_spread(&preempt.to_string(), Mark::Bars, points, spread);
            }
            let published = rows.iter().filter_map(|row| {
                let place = names.iter().position(|name| *name == row.case.name())? as f64;
                Some((place, seconds(row.published()?.mean)))
            });
            plot.with("published, voluntary", Mark::Dashed, published.collect())
        };
        titles.map(plot).into()
    }

    /// Returns the figures as tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Titled> {
        let runs = self.rows.first().map_or(0, |row| row.runs.len());
        let (changed, modes): (Vec<&SeedResults>, Vec<&SeedResults>) =
            self.rows.iter().partition(|row| row.case.change.is_some_and(|(key, _)| key != "proxy_exec"));
        let text = format!(
            "A file of 1 GB read by a limited group (10 % of a CPU, with busy loops) and by a free one: seconds, mean and \
             deviation of {runs} seeds. Disk and copying are fitted on 8.42 s."
        );
        let changes = "Throttled at once, or in the way that is named, with one change. Rows with `calls`: 500 pairs of calls of the free task \
             that compute with a lock, instead of a read.";
        let modes = Titled::new("Read times", text, Self::table("throttling", &modes));
        let changes = Titled::new("Sensitivity", changes, Self::table("change", &changed));
        [modes].into_iter().chain((!changes.table.is_empty()).then_some(changes)).collect()
    }

    fn table(what: &str, rows: &[&SeedResults]) -> Table {
        let mut table = Table::new(&[
            ("preempt", Align::Left),
            (what, Align::Left),
            ("limited reader", Align::Right),
            ("free reader", Align::Right),
            ("published, both", Align::Right),
        ]);
        for row in rows {
            let [limited, free] = row.texts();
            let published = row.published().map_or_else(|| "-".to_owned(), |spread| spread.to_string());
            table.push([row.case.preempt.to_string(), row.case.name(), limited, free, published]);
        }
        table
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ms: u64| format!("{}.{:02}", ms / 1_000, ms % 1_000 / 10);
        let text = format!("{} +- {}", seconds(self.mean), seconds(self.deviation));
        f.pad(&text)
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.rows.first().map_or(0, |row| row.runs.len());
        writeln!(
            f,
            "A file of 1 GB read by a limited group (10 % of a CPU, with busy loops) and by a free one; {runs} seeds"
        )?;
        writeln!(
            f,
            "\npreempt    throttle                     limited reader (s)      free reader (s)   published (both)"
        )?;
        for row in &self.rows {
            let [limited, free] = row.texts();
            let published = row.published().map_or_else(String::new, |spread| spread.to_string());
            let (preempt, name) = (row.case.preempt.to_string(), row.case.name());
            writeln!(f, "{preempt:<10} {name:<28} {limited:>18} {free:>20}   {published:>16}")?;
        }
        writeln!(
            f,
            "\nDisk and copying are fitted on 8.42 s. Rows with KEY=VALUE: `immediate`, or the way named, with that change.\n\
             Rows with `calls`: 500 pairs of calls of the free task that compute with a lock, see inversion-preempted.toml."
        )
    }
}

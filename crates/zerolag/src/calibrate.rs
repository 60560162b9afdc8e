//! What this host's operations cost, as a cost profile of the simulator, and how well the simulator then predicts the host.
//!
//! Small workloads run on the host and in the simulator alike. Each *fitted* entry of the profile is moved until the
//! simulator's median of one measurement equals the host's; measurements that nothing was fitted on are *predicted*, and the
//! error is the result. All medians are seen from user space, so entry to and exit from the kernel are in the entries.
//!
//! | entry | fitted on |
//! |---|---|
//! | `wakeup_local` | (directly) a futex wakeup of a thread of the same CPU |
//! | `tick` | (directly) what a computing thread misses at every tick |
//! | `context_switch` | two threads of one CPU that wake each other in turn |
//! | `ipi_latency` | a FIFO thread woken from another CPU while its CPU computes |
//! | `idle_exit` | the same while its CPU idles |
//! | `timer_irq` | a FIFO thread's periodic timer while its CPU computes |
//!
//! Entries at other distances keep their proportion to the one that was fitted; entries that user space cannot see (lock
//! transfers, scans, cache refill) are those of `default`.

use crate::simulation::{Checks, Observe, Plan};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use zerolag_linux::{Figures, Options, calibrate::Direct, figures::quantile};
use zerolag_model::{CpuId, CpuMask, Duration, KernelVersion, Mark, Record, TaskId, Topology, TraceEvent};
use zerolag_sim::Costs;
use zerolag_sim::costs::ByDistance;
use zerolag_workload::{LoadOptions, Scenario, load};

/// How a measurement is taken from the records of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Metric {
    /// The length of the run per handing over; two per turn of the first task.
    Handover { turns: u64 },
    /// From a timer's expiry until the task goes on.
    Timer,
    /// From the second task's going on (it then wakes the first) until the first goes on.
    Wakeup,
}

/// A workload that is measured on the host and simulated.
#[derive(Clone, Debug)]
struct Probe {
    name: &'static str,
    /// CPUs that it needs.
    cpus: u32,
    /// Runs on the host; a handing over is one sample per run.
    repeats: u32,
    metric: Metric,
    /// The scenario.
    toml: String,
    /// The entry that is fitted on it; `None` if the simulator predicts it.
    fits: Option<Entry>,
}

const TURNS: u64 = 4000;

/// Every workload that runs on both, those of fitted entries in the order of fitting.
fn probes() -> [Probe; 6] {
    let handover = |name, pong, fits| Probe {
        name,
        cpus: pong + 1,
        repeats: 5,
        metric: Metric::Handover { turns: TURNS },
        toml: ping_pong(pong, ""),
        fits,
    };
    let timer = |name, toml, fits| Probe { name, cpus: 1, repeats: 1, metric: Metric::Timer, toml, fits };
    let wakeup = |name, toml, fits| Probe { name, cpus: 2, repeats: 1, metric: Metric::Wakeup, toml, fits };
    [
        handover("handing over on one CPU", 0, Some(Entry::ContextSwitch)),
        timer("FIFO timer, its CPU computes", cyclic() + &busy(0), Some(Entry::TimerIrq)),
        wakeup("FIFO wakeup, its CPU computes", waking() + &busy(1), Some(Entry::IpiLatency)),
        wakeup("FIFO wakeup, its CPU idles", waking(), Some(Entry::IdleExit)),
        handover("handing over across CPUs", 1, None),
        timer("cyclictest: FIFO timer, idle CPU", cyclic(), None),
    ]
}

/// Two threads that wake each other in turn, the second on this CPU; `before` is what the first does before it wakes the other.
fn ping_pong(pong: u32, before: &str) -> String {
    format!(
        r#"
        [task.ping]
        loop = {TURNS}
        policy = "fifo"
        priority = 80
        cpus = "0"
        steps = [{before}{{ sem_post = "there" }}, {{ sem_wait = "back" }}]
        [task.pong]
        loop = {TURNS}
        policy = "fifo"
        priority = 80
        cpus = "{pong}"
        steps = [{{ sem_wait = "there" }}, {before}{{ sem_post = "back" }}]
    "#
    )
}

/// A thread that is woken from another CPU each millisecond.
fn waking() -> String {
    r#"
        duration = "1s"
        [task.woken]
        policy = "fifo"
        priority = 80
        cpus = "1"
        steps = [{ sem_wait = "go" }]
        [task.waker]
        policy = "fifo"
        priority = 80
        cpus = "0"
        steps = [{ timer = { period = "1ms" } }, { sem_post = "go" }]
    "#
    .to_owned()
}

/// As `cyclictest -t1 -p80 -i1000`.
fn cyclic() -> String {
    r#"
        duration = "1s"
        [task.cyclic]
        policy = "fifo"
        priority = 80
        cpus = "0"
        steps = [{ timer = { period = "1ms", mode = "absolute" } }]
    "#
    .to_owned()
}

/// A thread that keeps a CPU from idling, below all others.
fn busy(cpu: u32) -> String {
    format!(
        r#"
        [task.busy]
        policy = "idle"
        cpus = "{cpu}"
        steps = [{{ run = "1s" }}]
    "#
    )
}

/// What came of one measurement.
#[derive(Clone, Debug)]
pub struct Compared {
    /// What was measured.
    pub name: String,
    /// The entry that was fitted on it; `None` if the simulator predicts it.
    pub fitted: Option<&'static str>,
    /// The host's samples in nanoseconds, sorted.
    pub host: Vec<u64>,
    /// The simulator's median under the new profile; `None` for what is only measured.
    pub simulated: Option<Duration>,
}

impl Compared {
    /// Returns the simulator's error in thousandths of the host's median.
    #[must_use]
    pub fn error_permille(&self) -> Option<i64> {
        let host = i64::try_from(quantile(&self.host, 500)?.as_nanos()).ok().filter(|host| *host > 0)?;
        let simulated = i64::try_from(self.simulated?.as_nanos()).ok()?;
        Some((simulated - host) * 1000 / host)
    }
}

/// A calibration.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The new profile.
    pub costs: Costs,
    /// The kernel that was simulated: the preset nearest to the host's.
    pub kernel: KernelVersion,
    /// Every measurement.
    pub compared: Vec<Compared>,
    /// What was measured directly.
    pub direct: Direct,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// Why nothing was calibrated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CalibrateError(String);

impl fmt::Display for CalibrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CalibrateError {}

/// Measures this host and fits a profile; takes some ten seconds. `interrupted` ends it.
///
/// # Errors
/// The host refuses even a plain workload, or the run was interrupted.
pub fn calibrate(interrupted: &(dyn Fn() -> bool + Sync)) -> Result<Calibration, CalibrateError> {
    let host = zerolag_linux::Host::look();
    let first = host.cpus.first().ok_or_else(|| CalibrateError("the process may use no CPU".to_owned()))?;
    let direct = zerolag_linux::calibrate::measure(first).map_err(CalibrateError)?;
    let mut notes = Vec::new();
    if !direct.is_realtime {
        notes.push("SCHED_FIFO is not permitted (CAP_SYS_NICE): other programs disturb what is measured".to_owned());
    }
    let mut fit = Fit { kernel: nearest_kernel(host.version()), costs: Costs::server(), compared: Vec::new() };
    fit.costs.name = format!("host-{}", host.release);
    fit.take_direct(&direct);
    let mut measured = Vec::new();
    let pipe_extra = median(&direct.pipe_io).saturating_sub(median(&direct.syscall).mul_div_floor(2, 1));
    let pipe = pipe_probe(pipe_extra);
    for probe in probes() {
        if !host.cpus.contains(CpuId(probe.cpus - 1)) {
            notes.push(format!("{}: needs CPUs 0 to {}", probe.name, probe.cpus - 1));
            continue;
        }
        match measure(&probe, direct.is_realtime, interrupted) {
            Ok((samples, others)) if !samples.is_empty() => {
                if others > OTHERS_MAX {
                    let (whole, tenth) = (others / 10, others % 10);
                    notes.push(format!("{}: other programs used {whole}.{tenth}% of the CPUs", probe.name));
                }
                measured.push((probe, samples));
            }
            Ok(_) => notes.push(format!("{}: nothing came of it", probe.name)),
            Err(why) if interrupted() => return Err(CalibrateError(why)),
            Err(why) => notes.push(format!("{}: {why}", probe.name)),
        }
    }
    for _ in 0..ROUNDS {
        for (probe, samples) in &measured {
            fit.adjust(probe, median(samples))?;
        }
    }
    for (probe, host) in measured {
        let simulated = Some(simulate(&scenario(&probe.toml)?, probe.metric, &fit.costs, fit.kernel)?);
        let fitted = probe.fits.map(Entry::key);
        fit.compared.push(Compared { name: probe.name.to_owned(), fitted, host, simulated });
    }
    match perf_bench_pipe(direct.is_realtime) {
        Ok(host) => {
            let turns = Metric::Handover { turns: TURNS };
            let simulated = Some(simulate(&scenario(&pipe)?, turns, &fit.costs, fit.kernel)?);
            let name = "perf bench sched pipe, one CPU".to_owned();
            fit.compared.push(Compared { name, fitted: None, host, simulated });
        }
        Err(why) => notes.push(format!("perf bench sched pipe: {why}")),
    }
    Ok(Calibration { costs: fit.costs, kernel: fit.kernel, compared: fit.compared, direct, notes })
}

/// Other programs that use more of the CPUs (in thousandths) are worth a note.
const OTHERS_MAX: u64 = 50;
/// Rounds of fitting; entries hardly depend on each other, so few are enough.
const ROUNDS: u32 = 4;

/// An entry that is fitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    ContextSwitch,
    TimerIrq,
    IpiLatency,
    IdleExit,
}

impl Entry {
    const fn key(self) -> &'static str {
        match self {
            Self::ContextSwitch => "context_switch",
            Self::TimerIrq => "timer_irq",
            Self::IpiLatency => "ipi_latency",
            Self::IdleExit => "idle_exit",
        }
    }
}

struct Fit {
    kernel: KernelVersion,
    costs: Costs,
    compared: Vec<Compared>,
}

impl Fit {
    fn take_direct(&mut self, direct: &Direct) {
        let base = Costs::server();
        let waking = median(&direct.wake_local).saturating_sub(base.rq_lock_hold);
        if !waking.is_zero() {
            self.costs.wakeup_local = waking;
            let scale = base.wakeup_local.as_nanos().max(1);
            self.costs.wakeup_remote = base.wakeup_remote.mul_div_floor(waking.as_nanos(), scale);
        }
        if let Some(tick) = quantile(&direct.tick, 500) {
            self.costs.tick = tick;
        }
    }

    /// Moves the entry that is fitted on a workload, if one is, by what the simulator's median lacks.
    fn adjust(&mut self, probe: &Probe, host: Duration) -> Result<(), CalibrateError> {
        let Some(entry) = probe.fits else {
            return Ok(());
        };
        let simulated = simulate(&scenario(&probe.toml)?, probe.metric, &self.costs, self.kernel)?;
        let moved = |value: Duration| (value + host).saturating_sub(simulated);
        match entry {
            Entry::ContextSwitch => self.costs.context_switch = moved(self.costs.context_switch),
            Entry::TimerIrq => self.costs.timer_irq = moved(self.costs.timer_irq),
            Entry::IdleExit => self.costs.idle_exit = moved(self.costs.idle_exit),
            Entry::IpiLatency => {
                let base = Costs::server().ipi_latency;
                let llc = moved(self.costs.ipi_latency.llc);
                let scaled = |value: Duration| value.mul_div_floor(llc.as_nanos(), base.llc.as_nanos().max(1));
                self.costs.ipi_latency =
                    ByDistance { smt: scaled(base.smt), llc, socket: scaled(base.socket), remote: scaled(base.remote) };
            }
        }
        Ok(())
    }
}

fn median(sorted: &[u64]) -> Duration {
    quantile(sorted, 500).unwrap_or_default()
}

/// Returns the preset of the latest kernel that is not newer than the host's.
pub(crate) fn nearest_kernel(host: (u32, u32)) -> KernelVersion {
    let version = |kernel: &KernelVersion| {
        let mut numbers = kernel.name().split('.').map(|number| number.parse::<u32>().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    };
    let older = KernelVersion::ALL.iter().copied().filter(|kernel| version(kernel) <= host);
    older.max_by_key(version).unwrap_or_default()
}

fn scenario(toml: &str) -> Result<Scenario, CalibrateError> {
    let machine = Topology::flat(2).map_err(|error| CalibrateError(error.to_string()))?;
    let options = LoadOptions { machine_override: Some(machine), ..LoadOptions::default() };
    load("calibrate.toml", toml.as_bytes(), &options).map_err(|error| CalibrateError(error.to_string()))
}

/// The program of `perf bench sched pipe`: what its system calls take beyond those of a semaphore is kernel time.
fn pipe_probe(extra: Duration) -> String {
    ping_pong(0, &format!("{{ kernel = \"{}ns\" }}, ", extra.as_nanos().max(1)))
}

/// Returns the samples, and how much of the CPUs' time others used meanwhile at most, in thousandths.
fn measure(
    probe: &Probe,
    is_realtime: bool,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<(Vec<u64>, u64), String> {
    // A host that does not permit real-time tasks is measured with fair ones.
    let toml: String =
        probe.toml.lines().filter(|line| is_realtime || !is_of_fifo(line)).flat_map(|l| [l, "\n"]).collect();
    let scenario = scenario(&toml).map_err(|error| error.to_string())?;
    let cpus = CpuMask::first_n(probe.cpus as usize);
    let options = Options { duration: scenario.duration, cpus: Some(cpus), ..Options::default() };
    let plan = zerolag_linux::Plan::new(Arc::new(scenario.program), options)
        .map_err(|refusals| refusals.first().map_or_else(|| "refused".to_owned(), |refusal| refusal.why.clone()))?;
    let mut samples = Vec::new();
    let mut others = 0;
    for _ in 0..probe.repeats {
        let figures: Figures = zerolag_linux::run(&plan, interrupted).map_err(|error| error.to_string())?;
        if !figures.end.is_ok() {
            return Err(figures.end.to_string());
        }
        samples.extend(samples_of(probe.metric, &figures.trace.records, figures.elapsed));
        others = crate::host::measure(figures).others_permille().max(others);
    }
    samples.sort_unstable();
    Ok((samples, others))
}

fn is_of_fifo(line: &str) -> bool {
    ["policy = \"fifo\"", "priority = "].iter().any(|part| line.trim_start().starts_with(part))
}

fn simulate(
    scenario: &Scenario,
    metric: Metric,
    costs: &Costs,
    kernel: KernelVersion,
) -> Result<Duration, CalibrateError> {
    let failed = |error: &dyn fmt::Display| CalibrateError(error.to_string());
    let plan = Plan::on_kernel(scenario.clone(), Some(kernel)).map_err(|error| failed(&error))?;
    let plan = plan.with_costs(costs.clone());
    let mut records: Vec<Record> = Vec::new();
    let observe = Observe { checks: Checks::Off, worst_waits: 0 };
    let report =
        plan.run_into(observe, &mut records, |_, _| ControlFlow::Continue(())).map_err(|error| failed(&error))?;
    let mut samples = samples_of(metric, &records, report.summary.elapsed);
    samples.sort_unstable();
    Ok(median(&samples))
}

/// Returns the samples of a run, in nanoseconds.
fn samples_of(metric: Metric, records: &[Record], elapsed: Duration) -> Vec<u64> {
    let marks = records.iter().filter_map(|record| match record.event {
        TraceEvent::Mark { task, mark } => Some((record.at, task, mark)),
        _ => None,
    });
    const FIRST: TaskId = TaskId(0);
    match metric {
        Metric::Handover { turns } => vec![elapsed.as_nanos() / (2 * turns)],
        Metric::Timer => marks
            .filter_map(|(at, task, mark)| match mark {
                Mark::TimerDue { due, slack } if task == FIRST && !slack.is_negative() => {
                    Some(at.since(due).as_nanos())
                }
                _ => None,
            })
            .collect(),
        Metric::Wakeup => {
            let mut woken_at = None;
            let mut samples = Vec::new();
            for (at, task, mark) in marks {
                match mark {
                    Mark::TimerDue { .. } if task != FIRST => woken_at = Some(at),
                    Mark::TurnEnd { .. } if task == FIRST => {
                        samples.extend(woken_at.take().map(|since| at.since(since).as_nanos()));
                    }
                    Mark::TimerDue { .. } | Mark::TurnEnd { .. } | Mark::Phase { .. } | Mark::Stamp { .. } => {}
                }
            }
            samples
        }
    }
}

/// Runs `perf bench sched pipe` on one CPU; nanoseconds per switch.
fn perf_bench_pipe(is_realtime: bool) -> Result<Vec<u64>, String> {
    let mut samples = Vec::new();
    let as_fifo: &[&str] = if is_realtime { &["chrt", "-f", "80"] } else { &[] };
    for _ in 0..PERF_REPEATS {
        let output = std::process::Command::new("taskset")
            .args(["-c", "0"])
            .args(as_fifo)
            .args(["perf", "bench", "-f", "simple", "sched", "pipe", "-l", "20000"])
            .output()
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let seconds: f64 = text.trim().parse().map_err(|_| "it is not there, or says nothing".to_owned())?;
        // 20000 turns of two switches each.
        samples.push((seconds * 1e9 / 40_000.0) as u64);
    }
    samples.sort_unstable();
    Ok(samples)
}

const PERF_REPEATS: u32 = 3;

impl Calibration {
    /// Returns the profile as the TOML that `--costs` reads, with where each entry comes from.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let costs = &self.costs;
        let fitted = |key: &str| self.compared.iter().find(|compared| compared.fitted == Some(key));
        let origin = |key: &str| match fitted(key) {
            Some(on) => format!("fitted: {}, median {}", on.name, median(&on.host)),
            None => "as `default`".to_owned(),
        };
        let measured = |what: &str, samples: &[u64]| match quantile(samples, 500) {
            Some(p50) => format!(
                "measured: {what}, median {p50}, p99 {}, {} samples",
                quantile(samples, 990).unwrap_or_default(),
                samples.len()
            ),
            None => "as `default`".to_owned(),
        };
        let by = |times: &ByDistance| {
            let ns = |time: Duration| time.as_nanos();
            let (smt, llc, socket, remote) = (ns(times.smt), ns(times.llc), ns(times.socket), ns(times.remote));
            format!("{{ smt = \"{smt}ns\", llc = \"{llc}ns\", socket = \"{socket}ns\", remote = \"{remote}ns\" }}")
        };
        let single = |time: Duration| format!("\"{}ns\"", time.as_nanos());
        let wake = measured("futex wakeup on one CPU", &self.direct.wake_local);
        let rows = [
            ("context_switch", single(costs.context_switch), origin("context_switch")),
            ("wakeup_local", single(costs.wakeup_local), wake),
            ("wakeup_remote", single(costs.wakeup_remote), "in the proportion of `default` to wakeup_local".to_owned()),
            ("ipi_send", single(costs.ipi_send), origin("ipi_send")),
            ("ipi_latency", by(&costs.ipi_latency), origin("ipi_latency")),
            ("ipi_handler", single(costs.ipi_handler), origin("ipi_handler")),
            ("timer_irq", single(costs.timer_irq), origin("timer_irq")),
            ("tick", single(costs.tick), measured("gap of a computing thread", &self.direct.tick)),
            ("rq_lock_hold", single(costs.rq_lock_hold), origin("rq_lock_hold")),
            ("rq_lock_transfer", by(&costs.rq_lock_transfer), origin("rq_lock_transfer")),
            ("scan_per_cpu", single(costs.scan_per_cpu), origin("scan_per_cpu")),
            ("scan_per_task", single(costs.scan_per_task), origin("scan_per_task")),
            ("migrate_task", single(costs.migrate_task), origin("migrate_task")),
            ("cache_refill", by(&costs.cache_refill), origin("cache_refill")),
            ("idle_exit", single(costs.idle_exit), origin("idle_exit")),
            ("smt_speed_percent", costs.smt_speed_percent.to_string(), origin("smt_speed_percent")),
        ];
        let mut text =
            format!("# What operations cost on this host, for `zerolag run --costs`.\nname = \"{}\"\n", costs.name);
        for (key, value, origin) in rows {
            text.push_str(&format!("\n# {origin}\n{key} = {value}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_can_be_fitted_on_every_probe() {
        let mut fit = Fit { kernel: KernelVersion::default(), costs: Costs::server(), compared: Vec::new() };
        let wanted_of = |entry| match entry {
            Entry::ContextSwitch => Duration::from_nanos(2_000),
            Entry::TimerIrq => Duration::from_nanos(4_000),
            Entry::IpiLatency => Duration::from_nanos(6_000),
            Entry::IdleExit => Duration::from_nanos(9_000),
        };
        for _ in 0..ROUNDS {
            for probe in probes() {
                fit.adjust(&probe, probe.fits.map(wanted_of).unwrap_or_default()).expect("it runs");
            }
        }
        for probe in probes() {
            let scenario = scenario(&probe.toml).expect("valid");
            let got = simulate(&scenario, probe.metric, &fit.costs, fit.kernel).expect("it runs");
            match probe.fits.map(wanted_of) {
                Some(host) => {
                    let error = got.as_nanos().abs_diff(host.as_nanos());
                    assert!(error * 20 <= host.as_nanos(), "{}: {got} instead of {host}", probe.name);
                }
                None => assert!(!got.is_zero(), "{}", probe.name),
            }
        }
        let direct = Direct { tick: vec![900, 1000, 1100], ..Direct::default() };
        let compared = fit.compared;
        let made = Calibration { costs: fit.costs, kernel: fit.kernel, compared, direct, notes: Vec::new() };
        let read = Costs::from_toml("x", &made.to_toml()).expect("the profile is read");
        assert_eq!(read, made.costs);
    }

    #[test]
    fn the_preset_is_the_latest_that_is_not_newer() {
        assert_eq!(nearest_kernel((6, 14)).name(), "6.12");
        assert_eq!(nearest_kernel((6, 18)).name(), "6.18");
        assert_eq!(nearest_kernel((7, 2)).name(), "6.18");
        assert_eq!(nearest_kernel((5, 10)).name(), "5.4");
    }
}

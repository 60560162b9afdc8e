//! Measures the costs of this host's operations as a cost profile of the simulator, and how well
//! the simulator then predicts the host.
//!
//! Most costs cannot be measured directly from user space: a program sees only the sum of several
//! kernel operations. So every measurement on the host is also simulated. Each *fitted* entry of
//! the profile is moved until the simulator's median of one measurement equals the host's.
//! Measurements that no entry was fitted on are *predicted*, and their error is the result. All
//! medians are seen from user space.
//!
//! | entry | fitted on |
//! |---|---|
//! | `syscall` | (directly) a futex wakeup without a waiter |
//! | `timer_irq` | (directly) the time that a computing thread misses when a timer expires that wakes no thread |
//! | `wakeup_local` | (directly) the same, when the timer of a less urgent thread expires, less `timer_irq` |
//! | `tick` | (directly) the time that a computing thread misses at every tick |
//! | `context_switch` | two threads of one CPU that yield it to each other in turn |
//! | `waiting_call` | two threads of one CPU that wake each other in turn by futexes |
//! | `sleep_call` | (directly) from the call in which a FIFO thread sleeps to the next instruction of a computing FIFO one, less such a call and the switch |
//! | `boost`, `unboost` | (directly) from the call in which a thread waits for a mutex that inherits to the next instruction of its holder, and from the unlock to the next one of the thread; less the same times of a plain mutex |
//! | `pipe_io` | the same by pipes |
//! | `fair_wakeup` | (directly) the gap that `wakeup_local` is measured by, with fair threads, less that gap; with PREEMPT_RT the same of futex wakeups |
//! | `fair_tick` | (directly) the time that a fair thread that computes alone misses at every tick, less `tick` |
//! | `fair_switch` | (directly) from the call in which a fair thread sleeps to the next instruction of a computing fair one, less the same time of two FIFO threads |
//! | `hrtick` | (directly) from the end of a fair thread's turn between two ticks to the next instruction of another, less `timer_irq` and the switch |
//! | `queued_wakeup` | two fair threads of one CPU that wake each other in turn by futexes, of a kernel with delayed dequeue |
//! | `pick`, `fair_pick`, `group_wakeup`, `call_rest` | (directly, with a trace) from `sched_waking` to `sched_switch`, less what is known of it |
//! | `timer_late` | a FIFO thread's timer while its CPU computes |
//! | `switch_late`, `wakeup_late` | (directly, on request) what operations take beyond their medians |
//! | `stolen`, `smi` | (directly, on request) gaps that no interrupt and no thread explains |
//! | `ipi_latency` | a FIFO thread woken from another CPU while its CPU computes |
//! | `idle_states`, `exit` | a FIFO thread's timer while its CPU idles, for the residency of the state |
//! | `idle_states`, `ipi_latency` | a FIFO thread woken from another CPU while its CPU idles, for the residency of the state |
//!
//! The exit from idle takes longer the longer a CPU has idled, because of deeper states, a
//! hypervisor that has given the CPU to another guest, or cold caches. So there is one state per
//! order of magnitude, whatever the reason on this host. A state in which wakeups send no
//! interrupts polls: its `ipi_latency` is the time until it sees its flag.
//!
//! The speed of a host drifts; that of a virtual one by half within a minute. So everything is
//! measured in [`ROUNDS`] short rounds, in random order. All medians then cover the same time, and
//! the medians of single rounds show the host's own variation.
//!
//! Without SCHED_FIFO threads do not take turns by yielding, and a woken one preempts a computing
//! one. Then `wakeup_local` is a futex wakeup less `syscall`, `waiting_call` is zero, and
//! `context_switch` is fitted in its place and contains it.
//!
//! Entries at other distances keep their ratio to the fitted one. Entries that user space cannot
//! see (lock transfers, scans, cache refill) are those of `default`.

mod fit;
mod picks;
mod profile;
mod programs;
mod spread;
pub mod standstill;
mod threads;

use self::fit::Fit;
use crate::calibrate::standstill::Standing;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use zerolag::simulation::{Observe, Plan};
use zerolag_linux::calibrate::{Delays, Direct, Events};
use zerolag_linux::figures::quantile;
use zerolag_linux::probe::{self, Beside, Class, Woken};
use zerolag_model::{CpuId, Duration, KernelVersion, Mark, Record, TaskId, Topology, TraceEvent};
use zerolag_sim::Costs;
use zerolag_sim::sketch::Sketch;
use zerolag_workload::{LoadOptions, Scenario, Stream, load};

/// The number of rounds of every measurement.
pub const ROUNDS: usize = 36;

/// A measurement on the host that is also simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ProbeKind {
    /// Two threads of one CPU yield it to each other in turn.
    Yield,
    /// Two threads wake each other in turn.
    Handover(CpuPairing),
    /// Two fair threads of one CPU wake each other in turn.
    FairHandover,
    /// Two threads of one CPU wake each other in turn through pipes.
    Pipes,
    /// `perf bench sched pipe`: two processes wake each other in turn through pipes.
    Pipe(CpuPairing),
    /// From a timer's expiry until a thread continues.
    Timer(Beside, Duration),
    /// The same, as cyclictest sees it.
    Cyclictest(Duration),
    /// From one thread's wakeup of another, on another CPU, until that one continues.
    Wakeup(Beside, Duration),
}

/// The CPUs of two threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CpuPairing {
    OneCpu,
    TwoCpus,
}

/// A measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Probe {
    name: String,
    kind: ProbeKind,
    /// The entry that is fitted on it; `None` if the simulator predicts it.
    fits: Option<CostEntry>,
}

/// A fitted entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CostEntry {
    ContextSwitch,
    WaitingCall,
    PipeIo,
    QueuedWakeup,
    TimerLate,
    IpiLatency,
    /// The exit time of an idle state.
    IdleExit(usize),
    /// The latency of an IPI to a CPU in an idle state.
    IdleIpi(usize),
}

impl CostEntry {
    fn key(self) -> String {
        match self {
            Self::ContextSwitch => "context_switch".to_owned(),
            Self::WaitingCall => "waiting_call".to_owned(),
            Self::PipeIo => "pipe_io".to_owned(),
            Self::QueuedWakeup => "queued_wakeup".to_owned(),
            Self::TimerLate => "timer_late".to_owned(),
            Self::IpiLatency => "ipi_latency".to_owned(),
            Self::IdleExit(state) => format!("idle_states[{state}].exit"),
            Self::IdleIpi(state) => format!("idle_states[{state}].ipi_latency"),
        }
    }
}

/// Periods in us after which an idle CPU is measured, with one state fitted on each. They are
/// preceded by a state for threads that wake each other without a pause.
const FITTED: [u64; 3] = [150, 700, 7_000];
/// Periods in us that are predicted: one between two states, that of cyclictest (1 ms), and a long
/// one.
const PREDICTED: [u64; 3] = [300, 1_000, 10_000];

/// All measurements, with SCHED_FIFO or without.
fn probes(is_realtime: bool) -> Vec<Probe> {
    let us = Duration::from_micros;
    let probe = |name: &str, kind, fits| Probe { name: name.to_owned(), kind, fits };
    let each = us(1_000);
    let handing_over = if is_realtime { CostEntry::WaitingCall } else { CostEntry::ContextSwitch };
    let mut probes = vec![
        probe("handing over, one CPU", ProbeKind::Handover(CpuPairing::OneCpu), Some(handing_over)),
        probe("handing over by pipes, one CPU", ProbeKind::Pipes, Some(CostEntry::PipeIo)),
        probe("handing over, fair, one CPU", ProbeKind::FairHandover, Some(CostEntry::QueuedWakeup)),
        probe("FIFO timer, its CPU computes", ProbeKind::Timer(Beside::Computes, each), Some(CostEntry::TimerLate)),
        probe("FIFO wakeup, its CPU computes", ProbeKind::Wakeup(Beside::Computes, each), Some(CostEntry::IpiLatency)),
        probe("handing over, two CPUs", ProbeKind::Handover(CpuPairing::TwoCpus), Some(CostEntry::IdleIpi(0))),
    ];
    if is_realtime {
        probes.insert(0, probe("yielding, one CPU", ProbeKind::Yield, Some(CostEntry::ContextSwitch)));
    }
    let idle = |period, exit, ipi| {
        [
            probe(&format!("FIFO timer, idle, each {}", us(period)), ProbeKind::Timer(Beside::Idle, us(period)), exit),
            probe(&format!("FIFO wakeup, idle, each {}", us(period)), ProbeKind::Wakeup(Beside::Idle, us(period)), ipi),
        ]
    };
    for (state, period) in (1..).zip(FITTED) {
        probes.extend(idle(period, Some(CostEntry::IdleExit(state)), Some(CostEntry::IdleIpi(state))));
    }
    probes.push(probe("perf bench sched pipe, one CPU", ProbeKind::Pipe(CpuPairing::OneCpu), None));
    probes.push(probe("perf bench sched pipe, two CPUs", ProbeKind::Pipe(CpuPairing::TwoCpus), None));
    probes.push(probe("cyclictest -i1000", ProbeKind::Cyclictest(each), None));
    probes.extend(PREDICTED.into_iter().flat_map(|period| idle(period, None, None)));
    probes
}

impl ProbeKind {
    /// Measures once, on one CPU or two.
    fn measure(self, cpus: Cpus, is_realtime: bool) -> Result<Woken, String> {
        let Cpus { first, second } = cpus;
        let second = second.ok_or("it takes two CPUs");
        match self {
            Self::Yield => probe::yielding(first, 4_000),
            Self::Handover(CpuPairing::OneCpu) => probe::handover(first, first, Class::Fifo, 4_000),
            Self::Pipes => probe::pipes(first, 4_000),
            Self::FairHandover => probe::handover(first, first, Class::Fair, 4_000),
            Self::Handover(CpuPairing::TwoCpus) => probe::handover(first, second?, Class::Fifo, 1_500),
            Self::Pipe(CpuPairing::OneCpu) => programs::perf_bench_pipe(&first.to_string(), 20_000, is_realtime),
            Self::Pipe(CpuPairing::TwoCpus) if !is_realtime => Err("without SCHED_FIFO they share a CPU".to_owned()),
            Self::Pipe(CpuPairing::TwoCpus) => {
                programs::perf_bench_pipe(&format!("{first},{}", second?), 2_000, is_realtime)
            }
            Self::Timer(beside, period) => probe::timer(first, beside, period, times(period)),
            Self::Cyclictest(_) if !is_realtime => Err("it takes SCHED_FIFO".to_owned()),
            Self::Cyclictest(period) => programs::cyclictest(first, period),
            Self::Wakeup(beside, period) => probe::wakeup(first, second?, beside, period, times(period)),
        }
    }

    /// Returns the scenario of the measurement.
    fn scenario(self) -> Result<Scenario, CalibrateError> {
        read(&self.toml())
    }

    fn toml(self) -> String {
        match self {
            Self::Yield => {
                let turns = format!("loop = {TURNS}\n");
                fifo("first", 0, "\"yield\"") + &turns + &fifo("second", 0, "\"yield\"") + &turns
            }
            Self::Handover(way) => ping_pong(way, "sem_wait", "sem_post"),
            Self::FairHandover => ping_pong(CpuPairing::OneCpu, "sem_wait", "sem_post").replace(AS_FIFO, ""),
            Self::Pipes => Self::Pipe(CpuPairing::OneCpu).toml(),
            Self::Pipe(way) => {
                "[pipe.there]\ncapacity = 65536\n[pipe.back]\ncapacity = 65536\n".to_owned()
                    + &ping_pong(way, "pipe_read", "pipe_write")
            }
            Self::Cyclictest(period) => Self::Timer(Beside::Idle, period).toml(),
            Self::Timer(beside, period) => {
                let cyclic =
                    fifo("cyclic", 0, &format!("{{ timer = {{ period = \"{period}\", mode = \"absolute\" }} }}"));
                for_some(period) + &cyclic + &computing(beside, 0)
            }
            Self::Wakeup(beside, period) => {
                let waker = format!("{{ timer = {{ period = \"{period}\" }} }}, {{ sem_post = \"go\" }}");
                let woken = fifo("woken", 1, "{ sem_wait = \"go\" }");
                for_some(period) + &woken + &fifo("waker", 0, &waker) + &computing(beside, 1)
            }
        }
    }
}

/// Reads the scenario of a measurement.
fn read(toml: &str) -> Result<Scenario, CalibrateError> {
    let machine = Topology::flat(2).map_err(|error| CalibrateError(error.to_string()))?;
    let options = LoadOptions { machine_override: Some(machine), ..LoadOptions::default() };
    load("calibrate.toml", toml.as_bytes(), &options).map_err(|error| CalibrateError(error.to_string()))
}

/// How many times a period is measured per round.
fn times(period: Duration) -> u32 {
    u32::try_from(ROUND.as_nanos() / period.as_nanos().max(1)).unwrap_or(u32::MAX).clamp(8, 60)
}

/// Time per round for each periodic measurement, if that gives enough samples.
const ROUND: Duration = Duration::from_millis(40);

const TURNS: u64 = 1000;

/// Two threads that wake each other in turn, by these steps.
fn ping_pong(way: CpuPairing, wait: &str, wake: &str) -> String {
    let there = match way {
        CpuPairing::OneCpu => 0,
        CpuPairing::TwoCpus => 1,
    };
    let ping = fifo("ping", 0, &format!("{{ {wake} = \"there\" }}, {{ {wait} = \"back\" }}"));
    let pong = fifo("pong", there, &format!("{{ {wait} = \"there\" }}, {{ {wake} = \"back\" }}"));
    let turns = format!("loop = {TURNS}\n");
    ping + &turns + &pong + &turns
}

/// A SCHED_FIFO thread on a CPU.
fn fifo(name: &str, cpu: u32, steps: &str) -> String {
    format!("[task.{name}]\n{AS_FIFO}cpus = \"{cpu}\"\nsteps = [{steps}]\n")
}

const AS_FIFO: &str = "policy = \"fifo\"\npriority = 80\n";

/// A thread that keeps a CPU from idling, below all others.
fn computing(beside: Beside, cpu: u32) -> String {
    match beside {
        Beside::Idle => String::new(),
        Beside::Computes => {
            format!("[task.computes]\npolicy = \"idle\"\ncpus = \"{cpu}\"\nsteps = [{{ run = \"1s\" }}]\n")
        }
    }
}

/// The simulator's times do not vary: a few periods are enough.
fn for_some(period: Duration) -> String {
    for_time(period * 40)
}

fn for_time(time: Duration) -> String {
    format!("duration = \"{time}\"\n")
}

/// The measured CPUs: the first two that the process may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cpus {
    first: CpuId,
    second: Option<CpuId>,
}

/// The result of one measurement.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// The entry that was fitted on it; `None` if the simulator predicts it.
    pub fitted: Option<String>,
    /// The host's samples in nanoseconds, sorted.
    pub host: Vec<u64>,
    /// The host's median of each round, sorted.
    pub rounds: Vec<u64>,
    /// The simulator's median under the new profile; `None` if it was not simulated.
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

    /// Returns the variation of the host's rounds: the interquartile range of their medians.
    #[must_use]
    pub fn spread(&self) -> Option<(Duration, Duration)> {
        Some((quantile(&self.rounds, 250)?, quantile(&self.rounds, 750)?))
    }
}

/// A calibration.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The new profile.
    pub costs: Costs,
    /// The kernel that was simulated: the preset nearest to the host's.
    pub kernel: KernelVersion,
    /// All measurements.
    pub compared: Vec<Compared>,
    /// The direct measurements.
    pub direct: Direct,
    /// With [`Noise::Recorded`]: the lateness of a timer, sorted, in nanoseconds.
    pub late: Vec<u64>,
    /// With it: when CPUs stood still.
    pub standing: Standing,
    /// Whether `costs.threads` are those of this host; otherwise they are built in.
    pub has_threads: bool,
    /// Omissions, with their reasons.
    pub notes: Vec<String>,
}

/// Why the calibration failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CalibrateError(String);

impl fmt::Display for CalibrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CalibrateError {}

/// Measures this host and fits a profile; takes less than a minute. `events` is a directory of
/// tracefs, to measure also what lies between the kernel's own events. `interrupted` ends it.
///
/// # Errors
/// The process may use no CPU, a thread cannot be created, the trace cannot be read, or the run was
/// interrupted.
#[expect(clippy::too_many_lines, reason = "the steps in their order; each uses results of earlier ones")]
pub fn calibrate(
    noise: Noise,
    events: Option<&Path>,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Calibration, CalibrateError> {
    let events = events.map(Events::of).transpose().map_err(CalibrateError)?;
    let host = zerolag_linux::Host::look();
    let mut allowed = host.cpus.iter();
    let first = allowed.next().ok_or_else(|| CalibrateError("the process may use no CPU".to_owned()))?;
    let cpus = Cpus { first, second: allowed.next() };
    let usage = zerolag_linux::host::Usage::begin();
    let mut notes = Vec::new();
    let mut direct = Direct::default();
    // A measurement that this host cannot make is omitted, with the reason.
    let mut probes: Vec<(Probe, Vec<Woken>)> = probes(true).into_iter().map(|probe| (probe, Vec::new())).collect();
    let mut order = Stream::new(0, "calibrate", 0, "order");
    for round in 0..ROUNDS {
        if round % ROUNDS_PER_DIRECT == 0 {
            direct.add(zerolag_linux::calibrate::measure(first, events.as_ref()).map_err(CalibrateError)?);
        }
        for at in (1..probes.len()).rev() {
            let with = usize::try_from(order.below(at as u64 + 1)).unwrap_or(at);
            probes.swap(at, with);
        }
        probes.retain_mut(|(probe, rounds)| match probe.kind.measure(cpus, direct.is_realtime) {
            Ok(measured) => {
                rounds.push(measured);
                true
            }
            Err(why) => {
                notes.push(format!("{}: {why}", probe.name));
                false
            }
        });
        if interrupted() {
            return Err(CalibrateError("interrupted".to_owned()));
        }
    }
    if !direct.is_realtime {
        notes.push("SCHED_FIFO is not permitted (CAP_SYS_NICE): other programs disturb what is measured".to_owned());
    }
    if direct.has_timer_threads {
        notes.push("PREEMPT_RT: threads of the kernel expire the timers of fair threads, so fair_wakeup is measured by calls and group_wakeup is not".to_owned());
    }
    let others = usage.others_permille();
    if others > OTHERS_MAX {
        notes.push(format!("other programs used {}.{}% of the CPUs meanwhile", others / 10, others % 10));
    }
    let order = self::probes(direct.is_realtime);
    for (probe, _) in &mut probes {
        probe.fits = order.iter().find(|other| other.name == probe.name).and_then(|other| other.fits);
    }
    probes.sort_by_key(|(probe, _)| order.iter().position(|other| other == probe));
    let measured: Vec<(Probe, Woken, Vec<u64>)> =
        probes.into_iter().map(|(probe, rounds)| (probe, all(&rounds), medians(&rounds))).collect();
    let across = measured.iter().find(|(probe, ..)| probe.kind == ProbeKind::Handover(CpuPairing::TwoCpus));
    let across = across.map(|(_, measured, _)| median(&measured.samples)).unwrap_or_default();
    let mut fit = Fit::new(KernelVersion::of_release(&host.release).unwrap_or_default(), &direct, across);
    fit.costs.name = format!("host-{}", host.release);
    for (probe, measured, _) in &measured {
        fit.see_polling(probe, measured);
    }
    let medians = measured.iter().map(|(probe, measured, _)| (probe, median(&measured.samples)));
    fit.adjust_all(medians.clone())?;
    fit.set_sleep_call(&direct);
    fit.set_hrtick(&direct);
    if direct.has_timer_threads {
        // Their wakeups are not those of fair threads.
        let Delays { fifo, fifo_beside_fair, piped, .. } = direct.delays;
        direct.delays = Delays { fifo, fifo_beside_fair, piped, ..Delays::default() };
    }
    if picks::set(&mut fit.costs, &direct.delays) {
        // A switch from a fair thread to another one takes longer than before.
        fit.adjust_all(medians)?;
    }
    let mut compared = Vec::new();
    for (probe, Woken { samples, .. }, rounds) in measured {
        let simulated = Some(fit.simulate(&probe)?);
        let fitted = probe.fits.filter(|entry| fit.has(*entry)).map(CostEntry::key);
        compared.push(Compared { name: probe.name, fitted, host: samples, rounds, simulated });
    }
    let (mut late, mut standing) = (Vec::new(), Standing::default());
    if noise != Noise::Ignored {
        late = record_lateness(first, interrupted)?;
        let probe = ProbeKind::Cyclictest(LATENESS_PERIOD);
        fit.costs.timer_late = Sketch::default();
        let punctual = simulate(&probe.scenario()?, probe, &fit.costs, fit.kernel)?;
        fit.costs.timer_late = Sketch::of(&late, punctual);
        let watched = zerolag_linux::standstill::watch(&host.cpus, RECORDED, interrupted).map_err(CalibrateError)?;
        standing = standstill::find(&watched, fit.costs.tick);
        standstill::set(&mut fit.costs, &standing, |costs| {
            let for_long = |toml: String| toml.replace(&for_some(LATENESS_PERIOD), &for_time(RECORDED));
            let scenario = read(&for_long(ProbeKind::Timer(Beside::Idle, LATENESS_PERIOD).toml()))?;
            Ok((sample(&scenario, probe, costs, fit.kernel)?, punctual))
        })?;
        notes.extend(standing.note());
    }
    if noise == Noise::Operations {
        spread::set(&mut fit.costs, &direct);
        fit.costs.timer_late = spread::without(&fit.costs.timer_late, &fit.costs);
    }
    let kinds = match events {
        Some(events) => events.threads(threads::WATCHED, interrupted).map_err(CalibrateError)?,
        None => Vec::new(),
    };
    let of_host = threads::of(&kinds, zerolag_linux::calibrate::online_cpus());
    let has_threads = !of_host.is_empty();
    fit.costs.threads = if has_threads { of_host } else { zerolag::background::idle() };
    Ok(Calibration { costs: fit.costs, kernel: fit.kernel, compared, direct, late, standing, has_threads, notes })
}

/// Whether the host's noise is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Noise {
    /// It is not: every cost is one number.
    Ignored,
    /// A minute of the lateness of a FIFO thread's timer, whatever its cause: other programs,
    /// interrupts. And a minute of standstills, which are taken out of that: firmware, a hypervisor
    /// that has taken the CPU away.
    Recorded,
    /// The same, and how much switches and wakeups vary, which is taken out of the lateness.
    Operations,
}

/// The period of the timer whose lateness is recorded: that of cyclictest.
const LATENESS_PERIOD: Duration = Duration::from_millis(1);
/// Its expiries in a part of the recording, a second, and the parts.
const LATENESS_PART: u32 = 1_000;
const LATENESS_PARTS: u32 = 60;
/// For how long standstills are recorded.
const RECORDED: Duration = Duration::from_secs(60);

/// Records a minute of a timer's lateness; returns the samples sorted.
fn record_lateness(cpu: CpuId, interrupted: &(dyn Fn() -> bool + Sync)) -> Result<Vec<u64>, CalibrateError> {
    let mut late = Vec::new();
    for _ in 0..LATENESS_PARTS {
        late.extend(probe::timer(cpu, Beside::Idle, LATENESS_PERIOD, LATENESS_PART).map_err(CalibrateError)?.samples);
        if interrupted() {
            return Err(CalibrateError("interrupted".to_owned()));
        }
    }
    late.sort_unstable();
    Ok(late)
}

/// Returns the samples of all rounds, sorted.
fn all(rounds: &[Woken]) -> Woken {
    let mut samples: Vec<u64> = rounds.iter().flat_map(|round| round.samples.iter().copied()).collect();
    samples.sort_unstable();
    Woken {
        samples,
        wakeups: rounds.iter().map(|round| round.wakeups).sum(),
        ipis: rounds.iter().map(|round| round.ipis).sum(),
    }
}

/// Returns the median of each round, sorted.
fn medians(rounds: &[Woken]) -> Vec<u64> {
    let of_round = |round: &Woken| {
        let mut samples = round.samples.clone();
        samples.sort_unstable();
        quantile(&samples, 500).map(Duration::as_nanos)
    };
    let mut medians: Vec<u64> = rounds.iter().filter_map(of_round).collect();
    medians.sort_unstable();
    medians
}

/// Rounds between two direct measurements.
const ROUNDS_PER_DIRECT: usize = 3;
/// From this use of the CPUs by other programs (in thousandths) on, a note is added.
const OTHERS_MAX: u64 = 50;

fn median(sorted: &[u64]) -> Duration {
    quantile(sorted, 500).unwrap_or_default()
}

fn simulate(
    scenario: &Scenario,
    kind: ProbeKind,
    costs: &Costs,
    kernel: KernelVersion,
) -> Result<Duration, CalibrateError> {
    Ok(median(&sample(scenario, kind, costs, kernel)?))
}

/// Returns what a simulation of a measurement gives, sorted, in nanoseconds.
fn sample(
    scenario: &Scenario,
    kind: ProbeKind,
    costs: &Costs,
    kernel: KernelVersion,
) -> Result<Vec<u64>, CalibrateError> {
    let failed = |error: &dyn fmt::Display| CalibrateError(error.to_string());
    let plan = Plan::on_kernel(scenario.clone(), Some(kernel)).map_err(|error| failed(&error))?;
    let plan = plan.with_costs(costs.clone());
    let mut records: Vec<Record> = Vec::new();
    let observe = Observe::FIGURES;
    let report =
        plan.run_into(observe, &mut records, |_, _| ControlFlow::Continue(())).map_err(|error| failed(&error))?;
    let mut samples = samples_of(kind, &records, report.summary.elapsed);
    samples.sort_unstable();
    Ok(samples)
}

/// Returns the samples of a run, in nanoseconds.
fn samples_of(kind: ProbeKind, records: &[Record], elapsed: Duration) -> Vec<u64> {
    let marks = records.iter().filter_map(|record| match record.event {
        TraceEvent::Mark { task, mark } => Some((record.at, task, mark)),
        _ => None,
    });
    const FIRST: TaskId = TaskId(0);
    match kind {
        ProbeKind::Yield | ProbeKind::Handover(_) | ProbeKind::FairHandover | ProbeKind::Pipes | ProbeKind::Pipe(_) => {
            vec![elapsed.as_nanos() / (2 * TURNS)]
        }
        ProbeKind::Timer(..) | ProbeKind::Cyclictest(_) => marks
            .filter_map(|(at, task, mark)| match mark {
                Mark::TimerDue { due, slack } if task == FIRST && !slack.is_negative() => {
                    Some(at.since(due).as_nanos())
                }
                _ => None,
            })
            .collect(),
        ProbeKind::Wakeup(..) => {
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

#[cfg(test)]
mod tests {
    use super::fit::timer_irq;
    use super::*;
    use zerolag_linux::calibrate::Fair;

    /// The times of a made-up host, in ns.
    fn host(probe: &Probe, polls_below: Duration) -> Duration {
        let idle = |period: Duration| 1_000 + period.as_nanos().isqrt() * 4;
        let ns = match probe.kind {
            ProbeKind::Yield => 800,
            ProbeKind::Handover(CpuPairing::OneCpu) => 2_000,
            ProbeKind::Pipes | ProbeKind::FairHandover | ProbeKind::Pipe(CpuPairing::OneCpu) => 2_200,
            ProbeKind::Handover(CpuPairing::TwoCpus) | ProbeKind::Pipe(CpuPairing::TwoCpus) => 5_000,
            ProbeKind::Timer(Beside::Computes, _) => 4_000,
            ProbeKind::Wakeup(Beside::Computes, _) => 6_000,
            ProbeKind::Timer(Beside::Idle, period) | ProbeKind::Cyclictest(period) => 4_000 + idle(period),
            ProbeKind::Wakeup(Beside::Idle, period) if period < polls_below => 3_000,
            ProbeKind::Wakeup(Beside::Idle, period) => 5_500 + idle(period),
        };
        Duration::from_nanos(ns)
    }

    fn fitted_to_host(polls_below: Duration, is_realtime: bool) -> Calibration {
        let wakes = if is_realtime { vec![700] } else { vec![] };
        let direct = Direct {
            syscall: vec![100],
            wake_local: vec![500],
            timer: vec![500],
            timer_wake: wakes,
            tick: vec![900, 1000, 1100],
            is_realtime,
            ..Direct::default()
        };
        let mut fit = Fit::new(KernelVersion::default(), &direct, Duration::from_micros(5));
        for probe in probes(is_realtime) {
            let ProbeKind::Wakeup(Beside::Idle, period) = probe.kind else { continue };
            let ipis = if period < polls_below { 3 } else { 97 };
            fit.see_polling(&probe, &Woken { samples: Vec::new(), wakeups: 100, ipis: Some(ipis) });
        }
        let probes_here = probes(is_realtime);
        let medians = probes_here.iter().map(|probe| (probe, host(probe, polls_below)));
        fit.adjust_all(medians).expect("it runs");
        let compare = |probe: Probe| {
            let simulated = Some(fit.simulate(&probe).expect("it runs"));
            let fitted = probe.fits.filter(|entry| fit.has(*entry)).map(CostEntry::key);
            let host = vec![host(&probe, polls_below).as_nanos()];
            Compared { name: probe.name, fitted, rounds: host.clone(), host, simulated }
        };
        let compared = probes(is_realtime).into_iter().map(compare).collect();
        Calibration {
            costs: fit.costs,
            kernel: fit.kernel,
            compared,
            direct,
            late: Vec::new(),
            standing: Standing::default(),
            has_threads: false,
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_timer_that_wakes_a_thread_of_the_kernel_is_no_bare_interrupt() {
        let direct = Direct {
            syscall: vec![1_000],
            fair: Fair { fifo_wake: vec![9_000], ..Fair::default() },
            timer: vec![11_000],
            timer_wake: vec![12_000],
            ..Direct::default()
        };
        assert_eq!(timer_irq(&direct), Duration::from_micros(11));
        assert_eq!(timer_irq(&Direct { has_timer_threads: true, ..direct }), Duration::from_micros(4));
    }

    #[test]
    fn the_simulator_can_be_fitted_on_every_probe() {
        let hosts = [(Duration::ZERO, false), (Duration::from_micros(400), true), (Duration::ZERO, true)];
        for (polls_below, is_realtime) in hosts {
            let made = fitted_to_host(polls_below, is_realtime);
            for compared in &made.compared {
                let error = compared.error_permille().expect("there are samples");
                // The host's times grow with the root of the idle time: between the fitted ones
                // they are not far off.
                let most = if compared.fitted.is_some() { 50 } else { 350 };
                assert!(
                    error.abs() <= most || polls_below > Duration::ZERO && compared.fitted.is_none(),
                    "{compared:?}"
                );
            }
            let read = Costs::from_toml("x", &made.to_toml()).expect("the profile is read");
            assert_eq!(
                read.idle_states.iter().filter(|state| state.polling).count(),
                if polls_below.is_zero() { 0 } else { 1 }
            );
            assert_eq!(Costs { name: made.costs.name.clone(), ..read }, made.costs);
        }
    }
}

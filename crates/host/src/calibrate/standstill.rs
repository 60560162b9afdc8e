//! Standstills of a host: what its hypervisor and its firmware take, as the entries `stolen` and
//! `smi` of a profile.
//!
//! A thread that only looks at the clock sees gaps, and most are interrupts. A gap is one of those
//! if it is at most five times as long as a tick, or if a device was served in its window and a
//! kernel would leave the rest of the work to a thread after such a time. A window in which
//! another thread ran says nothing. Other gaps are standstills, less a tick: the ticks that waited
//! are served at the end. Those of all CPUs at once are the machine's.
//!
//! Windows are put together as one time without pauses. That keeps the rate of standstills, and
//! groups of them that are shorter than a window. The time after the last is taken as the time
//! before the first, so that as many gaps as lengths are known, and no part of the time is lost.
//!
//! A timer that is due in a standstill is late, and the recorded lateness of timers contains that.
//! So what a simulation of the standstills alone gives is taken out of it, place by place, as for
//! operations (`spread`).

use zerolag_linux::standstill::{Watched, Window};
use zerolag_model::{CpuId, Duration, Instant};
use zerolag_report::human::Human;
use zerolag_sim::Costs;
use zerolag_sim::sketch::{Sketch, Standstills};

/// The standstills of a host.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// Of CPUs by themselves.
    pub stolen: Found,
    /// Of all CPUs at once.
    pub smi: Found,
    /// For how long CPUs were watched, all together.
    pub watched: Duration,
    /// The time that the kernel says was stolen, in a time four times as long; 10 ms grain.
    pub told: Duration,
    /// SMIs that the CPUs have counted; `None` if they cannot be read.
    pub smis: Option<u64>,
}

/// Standstills of one kind, in nanoseconds, sorted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// From the end of one to the begin of the next.
    pub gaps: Vec<u64>,
    /// Their lengths.
    pub lengths: Vec<u64>,
}

impl Found {
    /// Returns them as an entry of a profile.
    #[must_use]
    pub fn sketch(&self) -> Standstills {
        let [gap, length] = [&self.gaps, &self.lengths].map(|times| Sketch::of(times, Duration::ZERO));
        Standstills::new(gap, length).unwrap_or_default()
    }

    /// Returns the time of all.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.lengths.iter().map(|length| Duration::from_nanos(*length)).sum()
    }

    /// Adds those of a CPU, in order of time, of so much watched time.
    fn add(&mut self, stood: &[Stood], watched: Duration) {
        let total: Duration = stood.iter().map(|stood| stood.length).sum();
        let mut rest = watched.saturating_sub(total);
        for pair in stood.windows(2) {
            let gap = pair[1].after.saturating_sub(pair[0].after + pair[0].length);
            rest = rest.saturating_sub(gap);
            self.gaps.push(gap.as_nanos());
        }
        if !stood.is_empty() {
            self.gaps.push(rest.as_nanos());
        }
        self.lengths.extend(stood.iter().map(|stood| stood.length.as_nanos()));
    }
}

/// A standstill of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stood {
    at: Instant,
    /// The watched time before it.
    after: Duration,
    length: Duration,
}

/// Returns the standstills of CPUs that were watched at the same time and whose ticks last so long.
pub(super) fn find(watched: &[(CpuId, Watched)], tick: Duration) -> Standing {
    let mut cpus: Vec<(Vec<Stood>, Duration)> = watched.iter().map(|(_, watched)| of_cpu(watched, tick)).collect();
    let mut standing = Standing {
        watched: cpus.iter().map(|(_, watched)| *watched).sum(),
        told: watched.iter().map(|(_, watched)| watched.stolen).sum(),
        smis: watched.iter().flat_map(|(_, watched)| &watched.windows).map(|window| window.counts.smis).sum(),
        ..Standing::default()
    };
    if let [(first, time), others @ ..] = &mut cpus[..]
        && !others.is_empty()
    {
        let is_of_all =
            |stood: &Stood| others.iter().all(|(other, _)| other.iter().any(|other| is_same(*stood, *other)));
        let of_all: Vec<Stood> = first.iter().copied().filter(is_of_all).collect();
        standing.smi.add(&of_all, *time);
        for (stood, _) in &mut cpus {
            stood.retain(|stood| !of_all.iter().any(|all| is_same(*stood, *all)));
        }
    }
    for (stood, time) in &cpus {
        standing.stolen.add(stood, *time);
    }
    for times in [&mut standing.stolen, &mut standing.smi].into_iter().flat_map(|of| [&mut of.gaps, &mut of.lengths]) {
        times.sort_unstable();
    }
    standing
}

/// Returns whether two CPUs stood still together: they began within a tenth of the time, or of
/// [`TOGETHER`], and for the same time up to a quarter.
fn is_same(one: Stood, other: Stood) -> bool {
    let apart = one.at.since(other.at).max(other.at.since(one.at));
    let (short, long) = (one.length.min(other.length), one.length.max(other.length));
    apart <= TOGETHER.max(long / 10) && long.saturating_sub(short) <= TOGETHER.max(long / 4)
}

/// Returns the standstills of a CPU in order of time, and the time for which it was watched.
fn of_cpu(watched: &Watched, tick: Duration) -> (Vec<Stood>, Duration) {
    let windows = || watched.windows.iter().filter(|window| window.counts.preemptions == 0);
    let (mut stood, mut before) = (Vec::new(), Duration::ZERO);
    for window in windows() {
        for (at, length) in &window.gaps {
            if is_standstill(*length, window, tick) {
                let after = before + at.since(window.begin);
                stood.push(Stood { at: *at, after, length: length.saturating_sub(tick) });
            }
        }
        before += window.end.since(window.begin);
    }
    (stood, before)
}

fn is_standstill(length: Duration, window: &Window, tick: Duration) -> bool {
    length > (tick * TICKS).max(INTERRUPT_MAX) && (window.counts.devices == 0 || length > SOFTIRQ_MAX)
}

/// Gaps of up to so many times a tick are interrupts: one in a hundred ticks of a loaded host took
/// three times the median (62 and 22 us).
const TICKS: u64 = 5;
/// So are gaps of up to this time: a tick that balances load takes some tens of microseconds.
const INTERRUPT_MAX: Duration = Duration::from_micros(50);
/// A kernel leaves softirqs that take longer to a thread (`MAX_SOFTIRQ_TIME`, and one tick).
const SOFTIRQ_MAX: Duration = Duration::from_millis(3);
/// CPUs do not see the begin of one standstill at the same instant.
const TOGETHER: Duration = Duration::from_micros(30);

/// Sets the entries, and takes out of the lateness of timers what they explain: `simulated` returns
/// the lateness under a profile, sorted, and the least of it.
pub(super) fn set<E>(
    costs: &mut Costs,
    standing: &Standing,
    simulated: impl FnOnce(&Costs) -> Result<(Vec<u64>, Duration), E>,
) -> Result<(), E> {
    let late = core::mem::take(&mut costs.timer_late);
    (costs.stolen, costs.smi) = (standing.stolen.sketch(), standing.smi.sketch());
    costs.timer_late = if costs.stolen.is_zero() && costs.smi.is_zero() {
        late
    } else {
        let (samples, punctual) = simulated(costs)?;
        let explained = Sketch::of(&samples, punctual);
        late.less(|place| explained.at(place))
    };
    Ok(())
}

impl Standing {
    /// Returns what a reader should know of the measurement, if anything was found or told.
    pub(super) fn note(&self) -> Option<String> {
        let Self { stolen, smi, watched, told, smis } = self;
        let is_quiet = stolen.lengths.is_empty() && smi.lengths.is_empty() && told.is_zero();
        let smis = smis.map_or_else(String::new, |smis| format!("; the CPUs counted {smis} SMIs"));
        (!is_quiet).then(|| {
            let [alone, all] =
                [stolen, smi].map(|found| format!("{} in {} times", Human(found.total()), found.lengths.len()));
            format!(
                "CPUs were watched for {}: they stood still by themselves for {alone}, all at once for {all}; \
                 the kernel counts {} of steal in four times that time{smis}",
                Human(*watched),
                Human(*told)
            )
        })
    }
}

/// Returns the lines of the profile.
pub(super) fn rows(standing: &Standing) -> String {
    let row = |key: &str, what: &str, found: &Found| {
        let sketch = found.sketch();
        if sketch.is_zero() {
            return String::new();
        }
        let [gap, length] = [&sketch.gap, &sketch.length].map(super::spread::text);
        let (count, total, watched) = (found.lengths.len(), Human(found.total()), Human(standing.watched));
        format!(
            "\n# recorded: {count} times {what}, {total} in {watched} of CPU time; places in millionths\n\
             {key} = {{ gap = {gap}, length = {length} }}\n"
        )
    };
    row("stolen", "a CPU stood still by itself", &standing.stolen)
        + &row("smi", "all CPUs stood still at once", &standing.smi)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;
    use zerolag::simulation::{Observe, Plan};
    use zerolag_linux::standstill::{Counts, EVERY, LEAST, WINDOW};
    use zerolag_model::{KernelVersion, Record, TraceEvent};
    use zerolag_workload::LoadOptions;

    fn quantiles(of: &[(u64, u64)]) -> Sketch {
        Sketch::try_from(of.iter().map(|(at, us)| (*at, format!("{us}us"))).collect::<Vec<_>>()).expect("ascending")
    }

    /// What threads on a simulated machine see that look at the clock all the time.
    fn watched(costs: &Costs, cpus: u32, seconds: u64) -> Vec<(CpuId, Watched)> {
        let spins = (0..cpus).map(|cpu| {
            format!(
                "[task.look{cpu}]\npolicy = \"fifo\"\npriority = 99\ncpus = \"{cpu}\"\nsteps = [{{ run = \"1s\" }}]\n"
            )
        });
        let settings = "[settings]\nrt_throttling = \"off\"\nfair_server = \"off\"\n";
        let toml =
            format!("duration = \"{seconds}s\"\n[machine]\ncpus = {cpus}\n{settings}") + &spins.collect::<String>();
        let scenario = zerolag_workload::load("x.toml", toml.as_bytes(), &LoadOptions::default()).expect("a scenario");
        let plan =
            Plan::on_kernel(scenario, Some(KernelVersion::default())).expect("it fits").with_costs(costs.clone());
        let mut records: Vec<Record> = Vec::new();
        plan.run_into(Observe::FIGURES, &mut records, |_, _| ControlFlow::Continue(())).expect("it runs");
        (0..cpus).map(CpuId).map(|cpu| (cpu, seen(&records, cpu, seconds))).collect()
    }

    /// A handler that begins where another one ends, or inside it, belongs to the same gap.
    fn seen(records: &[Record], cpu: CpuId, seconds: u64) -> Watched {
        let mut gaps: Vec<(Instant, Instant)> = Vec::new();
        let mut depth = 0;
        for record in records.iter().filter(|record| record.cpu == cpu) {
            match record.event {
                TraceEvent::IrqEnter { .. } => {
                    if depth == 0 && gaps.last().is_none_or(|(_, end)| *end < record.at) {
                        gaps.push((record.at, record.at));
                    }
                    depth += 1;
                }
                TraceEvent::IrqExit { .. } => {
                    depth -= 1;
                    gaps.last_mut().expect("it has begun").1 = record.at;
                }
                _ => {}
            }
        }
        let windows = (0..seconds * 5).map(|nth| {
            let begin = Instant::ZERO + EVERY * nth;
            let end = begin + WINDOW;
            let inside = gaps.iter().filter(|(from, to)| *from >= begin && *from < end && to.since(*from) >= LEAST);
            let gaps: Vec<(Instant, Duration)> = inside.map(|(from, to)| (*from, to.since(*from))).collect();
            let end = gaps.last().map_or(end, |(at, length)| end.max(*at + *length));
            Window { begin, end, gaps, counts: Counts::default() }
        });
        Watched { windows: windows.collect(), stolen: Duration::ZERO }
    }

    fn mean(times: &Sketch) -> f64 {
        (0..1000).map(|at| times.at(at * 1000).as_nanos() as f64).sum::<f64>() / 1000.0
    }

    #[test]
    fn the_standstills_of_a_simulated_host_are_found() {
        let stolen = Standstills::new(
            quantiles(&[(0, 0), (500_000, 9_000), (1_000_000, 60_000)]),
            quantiles(&[(0, 100), (500_000, 300), (900_000, 900), (1_000_000, 5_000)]),
        );
        let smi =
            Standstills::new(quantiles(&[(0, 10_000), (1_000_000, 70_000)]), quantiles(&[(0, 150), (1_000_000, 250)]));
        let nothing = Standstills::default;
        let (stolen, smi) = (stolen.expect("gaps"), smi.expect("gaps"));
        for (stolen, smi) in
            [(stolen.clone(), nothing()), (nothing(), smi.clone()), (stolen, smi), (nothing(), nothing())]
        {
            let costs = Costs { stolen, smi, ..Costs::server() };
            let found = find(&watched(&costs, 2, 60), costs.tick);
            for (known, found) in [(&costs.stolen, &found.stolen), (&costs.smi, &found.smi)] {
                let fitted = found.sketch();
                if known.is_zero() {
                    assert!(fitted.is_zero(), "{fitted:?} of nothing");
                    continue;
                }
                assert!(found.lengths.len() > 200, "{}", found.lengths.len());
                for (known, fitted) in [(&known.gap, &fitted.gap), (&known.length, &fitted.length)] {
                    let ratio = mean(fitted) / mean(known);
                    assert!((0.85..1.18).contains(&ratio), "{ratio}: {fitted:?} of {known:?}");
                    let ratio = fitted.at(500_000).as_nanos() as f64 / known.at(500_000).as_nanos() as f64;
                    assert!((0.8..1.25).contains(&ratio), "{ratio}: {fitted:?} of {known:?}");
                }
            }
        }
    }

    #[test]
    fn the_written_profile_is_read_back_and_timers_are_less_late() {
        let found = Found { gaps: vec![2_000_000, 5_000_000], lengths: vec![90_000, 400_000] };
        let standing = Standing { stolen: found.clone(), smi: found.clone(), ..Standing::default() };
        let mut costs = Costs { timer_late: quantiles(&[(0, 5), (1_000_000, 500)]), ..Costs::server() };
        set(&mut costs, &standing, |_| Ok::<_, ()>((vec![7_000, 407_000], Duration::from_micros(7))))
            .expect("it is set");
        assert_eq!([0, 1_000_000].map(|at| costs.timer_late.at(at).as_nanos()), [5_000, 100_000]);
        let read = Costs::from_toml("x", &rows(&standing)).expect("a profile");
        assert_eq!((read.stolen, read.smi), (found.sketch(), found.sketch()));
        assert_eq!(rows(&Standing::default()), "");
    }

    #[test]
    fn few_standstills_keep_their_rate() {
        let found = Found { gaps: vec![88_755_000, 14_911_643_000], lengths: vec![202_000, 354_000] };
        let sketch = found.sketch();
        for (times, sketch) in [(&found.gaps, &sketch.gap), (&found.lengths, &sketch.length)] {
            let known = times.iter().sum::<u64>() as f64 / times.len() as f64;
            assert!((0.99..1.01).contains(&(mean(sketch) / known)), "{sketch:?} of {times:?}");
        }
    }

    #[test]
    fn interrupts_and_threads_are_no_standstills() {
        let us = Duration::from_micros;
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let window = |nth: u64, long: u64, counts| Window {
            begin: at(nth * 200),
            end: at(nth * 200 + 50),
            gaps: vec![(at(nth * 200 + 4), us(6)), (at(nth * 200 + 8), us(6)), (at(nth * 200 + 9), us(long))],
            counts,
        };
        let none = Counts::default();
        let device = Counts { devices: 1, ..none };
        let windows = vec![
            window(0, 900, none),
            window(1, 49, none),
            window(2, 2_900, device),
            window(3, 3_100, device),
            window(4, 90_000, Counts { preemptions: 1, ..none }),
        ];
        let found = find(&[(CpuId(0), Watched { windows, stolen: Duration::ZERO })], us(6));
        assert_eq!(found.stolen.lengths, [894_000, 3_094_000]);
        assert_eq!(found.watched, Duration::from_millis(200));
    }
}

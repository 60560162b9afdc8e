//! What the counters of a limit say about the demand behind it.
//!
//! Per interval between two samples the counters give the CPU time *U*, the active periods *n*, the
//! throttled ones *k* and, mostly, the throttled time *T* (added up over CPUs). With quota *Q* per
//! period they bound what was demanded:
//!
//! * a throttled period used its quota up, so it demanded more than *Q*;
//! * while a CPU was throttled, at most one task would have run on it. So at most *T* of work was
//!   put off in the interval: a throttled period demanded at most *Q + T / k* on average, and no
//!   single one more than *Q + T*;
//! * a period that was not throttled demanded at most *Q*.
//!
//! A limit at the upper bound of an interval would have avoided its throttling, if the throttled
//! periods of the interval were alike; that is stated, since counters do not tell. They say nothing
//! about latencies: a period that is throttled for 1 ms counts as much as one of 90 ms.

use super::samples::{Sample, Samples};
use crate::document::{self, Document};
use crate::error::Error;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use zerolag_model::CpuMax;
use zerolag_report::plot::{Axis, Mark, Plot, Unit};
use zerolag_report::table::{Align, Table, Titled};
use zerolag_workload::limits::notations;

/// The result of `zerolag advise` for counters.
pub(crate) const DOCUMENT: Document = Document::of::<BoundedDemand>(SCHEMA, "advise of counters");
const SCHEMA: &str = "zerolag.advise.counters.v1";

/// What the counters of a limit say about the demand behind it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct BoundedDemand {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The present limit, as the kernel writes it.
    cpu_max: String,
    /// The number of intervals between samples.
    intervals: usize,
    /// The number of intervals that were left out: a counter went back or is missing.
    intervals_left_out: usize,
    /// The time of all intervals in seconds.
    elapsed_s: f64,
    /// Whether that is the time of the active periods: one `cpu.stat` without a time.
    elapsed_is_of_periods: bool,
    /// The number of used CPUs, mean over all time.
    used_cpus: f64,
    /// The number of used CPUs in the busiest interval.
    used_cpus_max: f64,
    /// The number of demanded CPUs at most: used and put off, mean over all time.
    demand_cpus_max: Option<f64>,
    /// The number of active periods.
    periods: f64,
    /// The number of throttled periods.
    periods_throttled: f64,
    /// The throttled time per throttled period.
    put_off_per_throttled_period_us: Option<f64>,
    /// The share of periods that is allowed to be throttled.
    wanted_share_throttled: f64,
    /// The least quota for that share, if the throttled periods of an interval were alike.
    quota_us: Option<f64>,
    /// The quota to try next; null unless `quota_us` is more than twice the present one, which is
    /// the lower bound: counters do not tell where between them the least is.
    next_quota_us: Option<f64>,
    /// The least quota for no throttled period, whatever the distribution in an interval.
    quota_sure_us: Option<f64>,
    /// The burst that covers the demand with the present quota.
    burst_us: Option<f64>,
    /// What counters do not tell.
    cannot_tell: &'static [&'static str],
    /// The sentence for a ticket.
    ticket: String,
}

/// The counters of one interval.
#[derive(Clone, Copy, PartialEq, Debug)]
struct CountedInterval {
    at: f64,
    seconds: f64,
    usage_us: f64,
    periods: f64,
    throttled: f64,
    throttled_us: Option<f64>,
}

impl CountedInterval {
    /// Checks that a group under this limit can have counted this. A tenth is allowed for times
    /// that do not fit the counters exactly, and two periods for the ends and a burst.
    fn check(&self, max: KnownLimit, start: f64) -> Result<(), Error> {
        let periods = self.seconds * 1e6 / max.period_us;
        let most = (periods * 1.1 + 3.0) * max.quota_us;
        let wrong = if self.throttled > self.periods {
            format!("{:.0} of {:.0} periods were throttled", self.throttled, self.periods)
        } else if self.usage_us > most {
            let (used, limit) = (self.usage_us / self.seconds / 1e6, max.quota_us / max.period_us);
            format!("{used:.2} CPUs were used under a limit of {limit:.2}")
        } else if self.periods > periods * 1.1 + 2.0 {
            format!("{:.0} periods of {:.0} us were counted", self.periods, max.period_us)
        } else {
            return Ok(());
        };
        Err(Error::input_help(
            format!(
                "these counters are impossible: in {:.1} s from {:.1} s on, {wrong}",
                self.seconds,
                self.at - start
            ),
            "is --now the limit and period of that time, and are all counters of the same group?",
        ))
    }

    fn part(&self, start: f64) -> Part {
        Part {
            at: self.at - start,
            seconds: self.seconds,
            used_cpus: self.usage_us / self.seconds / 1e6,
            throttled: self.throttled / self.periods.max(1.0),
        }
    }

    /// Returns the largest mean demand of its throttled periods, in microseconds.
    fn bound_us(&self, max: KnownLimit) -> Option<f64> {
        if self.throttled <= 0.0 {
            return None;
        }
        let put_off = self.throttled_us.map(|time| time / self.throttled);
        let machine = max.nr_cpus.map(|cpus| f64::from(cpus) * max.period_us);
        let bound = put_off.map(|time| max.quota_us + time);
        match (bound, machine) {
            (Some(bound), Some(machine)) => Some(bound.min(machine)),
            (bound, machine) => bound.or(machine),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct KnownLimit {
    quota_us: f64,
    period_us: f64,
    nr_cpus: Option<u32>,
}

/// What counters say.
#[derive(Clone, PartialEq, Debug)]
pub struct Demand {
    /// The present limit.
    pub max: CpuMax,
    /// Whether the time is not known, but taken as that of the active periods.
    pub is_time_of_periods: bool,
    /// Intervals that were used, and intervals left out because a counter went back or is missing.
    pub intervals: (usize, usize),
    /// Their time in seconds.
    pub seconds: f64,
    /// Used CPUs, mean over all time.
    pub used_cpus: f64,
    /// Used CPUs, of the busiest interval.
    pub used_cpus_max: f64,
    /// Active periods, and throttled ones.
    pub periods: (f64, f64),
    /// Throttled time per throttled period in microseconds, if it is known.
    pub put_off_us: Option<f64>,
    /// Demanded CPUs at most: used and put off, mean over all time.
    pub demand_cpus_max: Option<f64>,
    /// The asked share of throttled periods.
    pub wanted: f64,
    /// The least quota in microseconds with which at most that share would have been throttled, if
    /// the throttled periods of an interval were alike; none if it cannot be bounded.
    pub quota_us: Option<f64>,
    /// The least quota for any distribution within the intervals: all that was put off in one
    /// interval fell into one period.
    pub quota_sure_us: Option<f64>,
    /// The burst in microseconds that covers the same with the present quota; none if the mean
    /// demand is above the quota, or if it would be larger than the quota.
    pub burst_us: Option<f64>,
    /// The used intervals, in order of time.
    pub parts: Vec<Part>,
}

/// The counters of an interval as shares.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Part {
    /// Its beginning, in seconds from the first sample.
    pub at: f64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Used CPUs.
    pub used_cpus: f64,
    /// The share of its active periods that were throttled.
    pub throttled: f64,
}

/// Bounds the demand behind a limit.
///
/// # Errors
/// There is no limit, or no interval in which the counters grow.
pub fn demand(samples: &[Sample], max: CpuMax, nr_cpus: Option<u32>, wanted: f64) -> Result<Demand, Error> {
    let Some(quota) = max.quota else {
        return Err(Error::input_help("there is no limit to advise on", "give the present one: --now '200000 100000'"));
    };
    let known =
        KnownLimit { quota_us: quota.as_nanos() as f64 / 1e3, period_us: max.period.as_nanos() as f64 / 1e3, nr_cpus };
    let (mut intervals, mut left_out) = (Vec::new(), 0);
    for pair in samples.windows(2) {
        let [before, after] = pair else { continue };
        match interval(before, after) {
            Some(interval) => intervals.push(interval),
            None => left_out += 1,
        }
    }
    let seconds: f64 = intervals.iter().map(|interval| interval.seconds).sum();
    if intervals.is_empty() {
        return Err(no_interval(samples));
    }
    for interval in &intervals {
        interval.check(known, samples[0].at)?;
    }
    let sum = |of: fn(&CountedInterval) -> f64| intervals.iter().map(of).sum::<f64>();
    let usage_us = sum(|interval| interval.usage_us);
    let periods = (sum(|interval| interval.periods), sum(|interval| interval.throttled));
    let put_off: Option<f64> = intervals.iter().map(|interval| interval.throttled_us).sum();
    let busiest = intervals.iter().map(|interval| interval.usage_us / interval.seconds / 1e6).fold(0.0, f64::max);
    let quota_us = quota_for(&intervals, known, wanted * periods.0);
    let all_in_one =
        intervals.iter().map(|interval| if interval.throttled <= 0.0 { Some(0.0) } else { interval.throttled_us });
    let most_put_off: Option<f64> =
        all_in_one.collect::<Option<Vec<_>>>().map(|all| all.into_iter().fold(0.0, f64::max));
    let sure = most_put_off.map(|time| known.quota_us + time);
    let machine = nr_cpus.map(|cpus| f64::from(cpus) * known.period_us);
    let quota_sure_us = match (sure, machine) {
        (Some(sure), Some(machine)) => Some(sure.min(machine)),
        (sure, machine) => sure.or(machine),
    };
    let demand_cpus_max = put_off.map(|put_off| (usage_us + put_off) / seconds / 1e6);
    let burst_us = quota_us.map(|quota| quota - known.quota_us).filter(|burst| {
        let is_sustainable = demand_cpus_max.is_some_and(|demand| demand < known.quota_us / known.period_us);
        is_sustainable && *burst <= known.quota_us
    });
    Ok(Demand {
        max,
        is_time_of_periods: false,
        intervals: (intervals.len(), left_out),
        seconds,
        used_cpus: usage_us / seconds / 1e6,
        used_cpus_max: busiest,
        periods,
        put_off_us: put_off.filter(|_| periods.1 > 0.0).map(|time| time / periods.1),
        demand_cpus_max,
        wanted,
        quota_us,
        quota_sure_us,
        burst_us,
        parts: intervals.iter().map(|interval| interval.part(samples[0].at)).collect(),
    })
}

/// Returns the least quota above which at most `allowed` periods demanded, in microseconds; none if
/// it cannot be bounded.
fn quota_for(intervals: &[CountedInterval], max: KnownLimit, mut allowed: f64) -> Option<f64> {
    let throttled = intervals.iter().filter(|interval| interval.throttled > 0.0);
    let mut bounds: Vec<_> = throttled.map(|interval| (interval.bound_us(max), interval.throttled)).collect();
    bounds.sort_by(|a, b| b.0.unwrap_or(f64::INFINITY).total_cmp(&a.0.unwrap_or(f64::INFINITY)));
    for (bound, throttled) in bounds {
        allowed -= throttled;
        if allowed < 0.0 {
            return bound;
        }
    }
    Some(max.quota_us)
}

/// Bounds the demand behind a limit from one `cpu.stat`: what was counted since the group was
/// created. `over` is the group's age in seconds; if it is not known, only its active periods count
/// as time, so that means are those of the time in which it ran.
///
/// # Errors
/// As [`demand`]; or the samples have times.
pub fn demand_since_creation(
    samples: &Samples,
    over: Option<f64>,
    max: CpuMax,
    nr_cpus: Option<u32>,
    wanted: f64,
) -> Result<Option<Demand>, Error> {
    let period = max.period.as_nanos() as f64 / 1e9;
    let active = samples.periods_since_creation().unwrap_or_default() * period;
    let Some(now) = samples.since_creation(over.unwrap_or(active))? else { return Ok(None) };
    let zero = |counter: Option<f64>| counter.map(|_| 0.0);
    let created = Sample {
        at: 0.0,
        usage_us: zero(now.usage_us),
        periods: zero(now.periods),
        throttled: zero(now.throttled),
        throttled_us: zero(now.throttled_us),
    };
    let found = demand(&[created, now], max, nr_cpus, wanted)?;
    Ok(Some(Demand { is_time_of_periods: over.is_none(), ..found }))
}

/// Returns why there is no interval: the counter that no sample has, by its names.
fn no_interval(samples: &[Sample]) -> Error {
    let lacks = |of: fn(&Sample) -> Option<f64>| samples.iter().all(|sample| of(sample).is_none());
    let mut missing = Vec::new();
    if lacks(|sample| sample.usage_us) {
        missing.push("the CPU time (usage_usec of cpu.stat; cgroup v1 has it in another file: cpuacct.usage)");
    }
    if lacks(|sample| sample.periods) {
        missing.push("the periods (nr_periods)");
    }
    if lacks(|sample| sample.throttled) {
        missing.push("the throttled periods (nr_throttled)");
    }
    if missing.is_empty() {
        return Error::input_help(
            format!("{} samples give no interval with CPU time, periods and throttled periods", samples.len()),
            "usage, nr_periods and nr_throttled are needed at the same times, at least twice",
        );
    }
    Error::input_help(
        format!("no sample has {}", missing.join(", nor ")),
        "collect all at the same times; for cgroup v1: while sleep 10; do date +%s.%N; cat PATH/cpu.stat; \
         echo cpuacct.usage $(cat PATH/cpuacct.usage); done > FILE",
    )
}

/// Returns the counters between two samples; `None` if one is missing or goes back: the container
/// was started again.
fn interval(before: &Sample, after: &Sample) -> Option<CountedInterval> {
    let grown = |of: fn(&Sample) -> Option<f64>| {
        let difference = of(after)? - of(before)?;
        (difference >= 0.0).then_some(difference)
    };
    let seconds = after.at - before.at;
    Some(CountedInterval {
        at: before.at,
        seconds: (seconds > 0.0).then_some(seconds)?,
        usage_us: grown(|sample| sample.usage_us)?,
        periods: grown(|sample| sample.periods)?,
        throttled: grown(|sample| sample.throttled)?,
        throttled_us: grown(|sample| sample.throttled_us),
    })
}

/// What the time of one `cpu.stat` is.
const SINCE_CREATION: &str = "One cpu.stat without a time: all since the group was created, its active periods as the time (--over SECONDS states it)";

/// What counters of a limit cannot tell.
pub const UNKNOWN: [&str; 4] = [
    "latencies: a period throttled for 1 ms counts as much as one of 90 ms, and no counter knows of requests",
    "how demand is spread over the periods of one interval: samples closer together tell more",
    "how many threads compute at a time, and so whether fewer workers would do",
    "demand that comes later because it was put off: clients that wait send less",
];

/// A quota above this number of CPUs bounds nothing: no machine has them.
const CPUS_MAX: f64 = 8192.0;

impl Demand {
    /// Returns the present quota in microseconds.
    fn present_us(&self) -> f64 {
        self.max.quota.map_or(0.0, |quota| quota.as_nanos() as f64 / 1e3)
    }

    /// Returns the quota to try next in microseconds, if the least one is only known to be within a
    /// range of which the upper end is more than twice the lower one. The upper end can be many
    /// times what is needed: where all periods are throttled, the same waiting work is put off in
    /// each.
    #[must_use]
    pub fn next_us(&self) -> Option<f64> {
        self.quota_us.filter(|quota| *quota > 2.0 * self.present_us()).map(|_| 2.0 * self.present_us())
    }

    /// Returns a quota in the notation of each program that sets it.
    fn notations(&self, quota_us: f64) -> String {
        let milli = (quota_us * 1e6 / self.max.period.as_nanos() as f64).ceil() as u64;
        notations(milli)
    }

    /// Returns the sentence for a ticket.
    #[must_use]
    pub fn ticket(&self) -> String {
        let share = self.periods.1 / self.periods.0.max(1.0);
        let period = self.max.period.as_micros_floor();
        let seen = format!(
            "{:.1} % of {:.0} active periods were throttled while {:.2} CPUs were used on average",
            share * 100.0,
            self.periods.0,
            self.used_cpus
        );
        if share <= self.wanted {
            return format!("Leave cpu.max at \"{}\": {seen}.", self.max);
        }
        match (self.quota_us, self.burst_us) {
            (Some(quota), None) if self.next_us().is_some() => {
                let (next, present) = (self.next_us().unwrap_or(quota), self.present_us());
                format!(
                    "Set cpu.max to \"{next:.0} {period}\" ({}) and take the counters again: {seen}. The demand is above {present:.0} us \
                     per period and at most {:.0} us, and counters do not tell where: work that waits for quota counts as put off in \
                     each period that it waits.",
                    self.notations(next),
                    quota.ceil()
                )
            }
            (Some(quota), burst) => {
                let burst = burst.map_or_else(String::new, |burst| {
                    format!(" Or keep it and set cpu.max.burst to {:.0}: mean demand is below the limit.", burst.ceil())
                });
                format!(
                    "Set cpu.max to \"{:.0} {period}\" ({}): {seen}; with it at most {:.1} % would have \
                     been, if the throttled periods of each interval were alike.{burst}",
                    quota.ceil(),
                    self.notations(quota),
                    self.wanted * 100.0
                )
            }
            (None, _) => format!("The demand cannot be bounded without the throttled time: {seen}."),
        }
    }

    /// Returns it as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        document::value(&BoundedDemand {
            schema: SCHEMA,
            cpu_max: self.max.to_string(),
            intervals: self.intervals.0,
            intervals_left_out: self.intervals.1,
            elapsed_s: self.seconds,
            elapsed_is_of_periods: self.is_time_of_periods,
            used_cpus: self.used_cpus,
            used_cpus_max: self.used_cpus_max,
            demand_cpus_max: self.demand_cpus_max,
            periods: self.periods.0,
            periods_throttled: self.periods.1,
            put_off_per_throttled_period_us: self.put_off_us,
            wanted_share_throttled: self.wanted,
            quota_us: self.quota_us,
            next_quota_us: self.next_us(),
            quota_sure_us: self.quota_sure_us,
            burst_us: self.burst_us,
            cannot_tell: &UNKNOWN,
            ticket: self.ticket(),
        })
    }
}

impl Demand {
    /// Returns the figures, and what counters cannot tell, as tables.
    #[must_use]
    pub fn titled(&self) -> Vec<Titled> {
        let (used, left_out) = self.intervals;
        let mut text = format!("{used} intervals, {:.0} s in all, under cpu.max {}.", self.seconds, self.max);
        if self.is_time_of_periods {
            text = format!("{SINCE_CREATION}, under cpu.max {}.", self.max);
        }
        if left_out > 0 {
            text.push_str(&format!(" {left_out} more are left out: a counter went back or is missing."));
        }
        let mut unknown = Table::new(&[("not known", Align::Left)]);
        UNKNOWN.iter().for_each(|what| unknown.push([(*what).to_owned()]));
        let record = "Record the machine for these: zerolag record --print-cmd perf.";
        vec![
            Titled::new("Figures", text, self.table().name(0, "figure").name(1, "value")),
            Titled::new("Counters cannot tell", record, unknown),
        ]
    }

    /// Returns plots over time: used CPUs next to the limit, and the share of throttled periods.
    #[must_use]
    pub fn plots(&self) -> Vec<Plot> {
        let Some(last) = self.parts.last() else { return Vec::new() };
        let end = (last.at + last.seconds) * 1e9;
        let axis = || Axis::linear("time", Unit::Nanos).from_to(0.0, end);
        let steps = |of: fn(&Part) -> f64| {
            let points = self.parts.iter().map(|part| (part.at * 1e9, of(part)));
            points.chain([(end, of(last))]).collect::<Vec<_>>()
        };
        let quota = self.max.quota.map_or(0.0, |quota| quota.as_nanos() as f64 / self.max.period.as_nanos() as f64);
        vec![
            Plot::new("Used CPUs", axis(), Axis::linear("CPUs, mean of each interval", Unit::Number))
                .with("used", Mark::Area, steps(|part| part.used_cpus))
                .with("limit", Mark::Dashed, vec![(0.0, quota), (end, quota)]),
            Plot::new(
                "Throttled periods",
                axis(),
                Axis::linear("of the active periods", Unit::Percent).from_to(0.0, 100.0),
            )
            .with("throttled", Mark::Area, steps(|part| part.throttled * 100.0))
            .with("wanted", Mark::Dashed, vec![(0.0, self.wanted * 100.0), (end, self.wanted * 100.0)]),
        ]
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[("", Align::Left), ("", Align::Right)]);
        let mut row = |what: &str, value: String| table.push([what.to_owned(), value]);
        let (periods, throttled) = self.periods;
        row("used, mean", format!("{:.2} CPUs", self.used_cpus));
        row("used, busiest interval", format!("{:.2} CPUs", self.used_cpus_max));
        row(
            "throttled periods",
            format!("{throttled:.0} of {periods:.0} ({:.1} %)", 100.0 * throttled / periods.max(1.0)),
        );
        let unknown = || "not known".to_owned();
        row("put off per throttled period, at most", self.put_off_us.map_or_else(unknown, |us| format!("{us:.0} us")));
        row("demand, mean, at most", self.demand_cpus_max.map_or_else(unknown, |cpus| format!("{cpus:.2} CPUs")));
        let period_us = self.max.period.as_nanos() as f64 / 1e3;
        let quota = |us: f64| match us / period_us > CPUS_MAX {
            true => "not bounded: say how many CPUs the machine has (--cpus)".to_owned(),
            false => format!("{:.0} us ({})", us.ceil(), self.notations(us)),
        };
        let what = format!("quota for {:.1} % throttled, if alike, at most", self.wanted * 100.0);
        row(&what, self.quota_us.map_or_else(unknown, quota));
        row("quota for none throttled, whatever the spread", self.quota_sure_us.map_or_else(unknown, quota));
        row(
            "or a burst with the present quota",
            self.burst_us.map_or_else(|| "is not enough, or not known".to_owned(), |us| format!("{:.0} us", us.ceil())),
        );
        table
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, left_out) = self.intervals;
        match self.is_time_of_periods {
            true => write!(f, "{SINCE_CREATION}, under cpu.max {}", self.max)?,
            false => write!(f, "{used} intervals, {:.0} s in all, under cpu.max {}", self.seconds, self.max)?,
        }
        match left_out {
            0 => writeln!(f, "\n")?,
            left_out => writeln!(f, "; {left_out} left out: a counter went back or is missing\n")?,
        }
        for line in self.table().to_string().lines().skip(1) {
            writeln!(f, "{}", line.trim_end())?;
        }
        writeln!(f, "\nCounters cannot tell:")?;
        for unknown in UNKNOWN {
            writeln!(f, "  * {unknown}")?;
        }
        writeln!(f, "Record the machine for these (`zerolag record --print-cmd perf`).\n\n{}", self.ticket())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::Duration;

    fn sample(at: f64, usage: f64, periods: f64, throttled: f64, time: Option<f64>) -> Sample {
        Sample { at, usage_us: Some(usage), periods: Some(periods), throttled: Some(throttled), throttled_us: time }
    }

    fn limit(quota_us: u64) -> CpuMax {
        CpuMax { quota: Some(Duration::from_micros(quota_us)), ..CpuMax::UNLIMITED }
    }

    #[test]
    fn throttled_time_bounds_the_demand() {
        // Ten seconds: 100 periods, 20 of them throttled, 50 ms put off in each.
        let samples = [
            sample(0.0, 0.0, 0.0, 0.0, Some(0.0)),
            sample(10.0, 5e6, 100.0, 20.0, Some(1e6)),
            sample(20.0, 8e6, 200.0, 20.0, Some(1e6)),
        ];
        let found = demand(&samples, limit(100_000), Some(4), 0.01).expect("two intervals");
        assert_eq!((found.intervals, found.periods), ((2, 0), (200.0, 20.0)));
        assert!((found.used_cpus - 0.4).abs() < 1e-9 && (found.used_cpus_max - 0.5).abs() < 1e-9);
        assert_eq!((found.quota_us, found.put_off_us), (Some(150_000.0), Some(50_000.0)));
        assert_eq!(found.quota_sure_us, Some(400_000.0), "at most the machine");
        assert_eq!(found.burst_us, Some(50_000.0));
        assert!(
            found
                .ticket()
                .starts_with("Set cpu.max to \"150000 100000\" (limits.cpu 1500m, --cpus 1.5, CPUQuota=150%)")
        );
        // A tenth may be throttled: it is.
        let found = demand(&samples, limit(100_000), None, 0.1).expect("two intervals");
        assert!(found.quota_us == Some(100_000.0) && found.ticket().starts_with("Leave cpu.max"), "{found}");
    }

    #[test]
    fn a_wide_range_is_no_advice_to_take_its_upper_end() {
        // memcached with 4000 requests a second under 12 ms per 100 ms: 61 of 61 periods throttled,
        // 91 ms each. 20 ms were enough.
        let samples = [sample(0.0, 0.0, 0.0, 0.0, Some(0.0)), sample(6.1, 732e3, 61.0, 61.0, Some(5_578_145.0))];
        let found = demand(&samples, limit(12_000), Some(2), 0.01).expect("one interval");
        assert_eq!((found.quota_us.map(f64::ceil), found.next_us()), (Some(103_445.0), Some(24_000.0)));
        let ticket = found.ticket();
        assert!(ticket.starts_with("Set cpu.max to \"24000 100000\" (limits.cpu 240m"), "{ticket}");
        assert!(ticket.contains("above 12000 us per period and at most 103445 us"), "{ticket}");
        assert_eq!(found.to_json()["next_quota_us"], 24_000.0);
    }

    #[test]
    fn impossible_counters_are_refused() {
        let wrong = |usage: f64, periods: f64, throttled: f64| {
            let samples = [sample(1000.0, 0.0, 0.0, 0.0, None), sample(1010.0, usage, periods, throttled, None)];
            demand(&samples, limit(400_000), None, 0.0).map(|found| found.intervals).map_err(|error| error.to_string())
        };
        assert_eq!(wrong(40e6, 100.0, 50.0), Ok((1, 0)));
        assert_eq!(wrong(43e6, 100.0, 50.0), Ok((1, 0)), "with quota that was saved before");
        let error = wrong(100e6, 100.0, 50.0).expect_err("more than the limit");
        assert!(error.contains("in 10.0 s from 0.0 s on, 10.00 CPUs were used under a limit of 4.00"), "{error}");
        assert!(wrong(1e6, 100.0, 101.0).expect_err("more than all").contains("101 of 100 periods were throttled"));
        assert!(wrong(1e6, 1000.0, 0.0).expect_err("another period").contains("1000 periods of 100000 us"));
    }

    #[test]
    fn one_dump_is_enough() {
        let mut samples = Samples::default();
        let dump = b"usage_usec 8099091679\nnr_periods 7607\nnr_throttled 4174\nthrottled_usec 3322148518\n";
        samples.read("f", dump).expect("a dump");
        let found = |over| {
            let found = demand_since_creation(&samples, over, limit(1_100_000), None, 0.01);
            found.expect("possible").expect("a dump")
        };
        let of_periods = found(None);
        assert!((of_periods.seconds - 760.7).abs() < 1e-9 && of_periods.is_time_of_periods);
        assert!((of_periods.used_cpus - 10.65).abs() < 0.01, "{of_periods}");
        assert!(of_periods.to_string().contains("not bounded: say how many CPUs"), "{of_periods}");
        assert!((found(Some(1000.0)).used_cpus - 8.1).abs() < 0.01);
        assert!(
            demand_since_creation(&samples, Some(1.0), limit(1_100_000), None, 0.01).is_err(),
            "a second is not enough"
        );
    }

    #[test]
    fn a_counter_that_is_missing_is_named() {
        let mut samples = Samples::default();
        samples.read("f", b"1000\nnr_periods 0\nnr_throttled 0\nthrottled_time 0\n1300\nnr_periods 2798\nnr_throttled 200\nthrottled_time 4500000000\n").expect("v1");
        let error = demand(&samples.all(), limit(100_000), None, 0.01).expect_err("no CPU time").to_string();
        assert!(error.contains("cpuacct.usage") && !error.contains("nr_throttled)"), "{error}");
    }

    #[test]
    fn what_is_not_known_is_said() {
        let samples =
            [sample(0.0, 0.0, 0.0, 0.0, None), sample(10.0, 9e6, 100.0, 90.0, None), sample(20.0, 1.0, 1.0, 1.0, None)];
        let found = demand(&samples, limit(100_000), None, 0.0).expect("one interval");
        assert_eq!((found.intervals, found.quota_us, found.quota_sure_us, found.burst_us), ((1, 1), None, None, None));
        assert!(found.to_string().contains("cannot be bounded without the throttled time"), "{found}");
        assert!(found.to_string().contains("1 left out: a counter went back"), "{found}");
        // A mean demand above the quota is no matter of bursts.
        let samples = [sample(0.0, 0.0, 0.0, 0.0, Some(0.0)), sample(10.0, 9.9e6, 100.0, 90.0, Some(9e6))];
        let found = demand(&samples, limit(100_000), None, 0.0).expect("one interval");
        assert_eq!((found.quota_us, found.burst_us), (Some(200_000.0), None));
        assert!(demand(&samples[..1], limit(100_000), None, 0.0).is_err());
        assert!(demand(&samples, CpuMax::UNLIMITED, None, 0.0).is_err());
    }
}

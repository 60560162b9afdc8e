//! [`Figure`]: what can be measured of a run, as one table.
//!
//! A run is looked at from many sides: a table at a terminal, JSON, columns, a goal, a sweep, two
//! kernels compared. When each side has a list of its own, they disagree, and a user loses by it:
//! a figure that a goal knows is missing where two runs are compared, or has another name there.
//! So everything that is known of a figure is a row of [`Quantity::TABLE`], and every side reads
//! the row. A new figure is a row here and its measurement in `zerolag-report`, where the compiler
//! asks for it.
//!
//! | column | meaning |
//! |---|---|
//! | owner | what it is a figure of: a task, a service, a group, a CPU, the machine |
//! | key | its name in goals, sweeps and comparisons |
//! | label | its name in tables |
//! | path | its place in the JSON of a run, and its column; the unit is its end |
//! | unit | time, a number, a share of a CPU, a rate |
//! | several | how the figures of several owners become one: a task has several instances |
//! | better | whether less or more of it is wanted |
//! | meaning | one sentence |
//!
//! A quantity that is a distribution has several figures: its *statistics* ([`Stat`]). A statistic
//! needs samples: with fewer it is not known, and never 0. A quantile needs a tenth of the samples
//! of which one is expected beyond it, and ten at least: p99 of 10 values is their largest one,
//! p99.9 of 10 would say no more than that of 10 000. Few samples are a matter of risk, which
//! several seeds show, and not of a figure that is not there.
//!
//! Every percentile of a distribution exists: `p95`, `p99.5`, `p99.999`. Those of the table are the
//! ones that reports show unasked.
//!
//! ```
//! use zerolag_model::figure::{Figure, Quantity, Stat};
//!
//! let (owner, figure) = Figure::parse("web.request_latency.p99")?;
//! assert_eq!((owner.as_deref(), figure.quantity), (Some("web"), Quantity::RequestLatency));
//! assert_eq!((figure.stat, figure.needs()), (Stat::Quantile(990_000), 10));
//! # Ok::<(), String>(())
//! ```

use crate::settings::nearest;
use crate::time::Duration;
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The kind of thing that has a figure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Owner {
    /// A task: its threads.
    Task,
    /// A service: its requests.
    Service,
    /// A task group: its limit and its CPU time.
    Group,
    /// A CPU.
    Cpu,
    /// The whole machine.
    Machine,
}

/// The unit of a figure. A value is a whole number of the smallest unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unit {
    /// Time, in nanoseconds.
    Time,
    /// A number.
    Count,
    /// A share of one CPU, in millionths.
    Share,
    /// A number per second, in thousandths.
    Rate,
}

/// How the figures of several owners become one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Several {
    /// They are added up.
    Sum,
    /// The largest counts: a percentile of several distributions is no percentile of all values.
    Largest,
    /// The smallest counts: the first of the firsts.
    Smallest,
    /// The largest counts if all have one, and otherwise none is known: a group ends with its last
    /// task.
    Last,
}

/// Which change of a figure is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Better {
    /// Less of it.
    Less,
    /// More of it.
    More,
    /// It depends.
    Neither,
}

/// Which statistic of a quantity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Stat {
    /// The value itself, of a quantity that is no distribution.
    Value,
    /// The number of samples.
    Count,
    /// The mean.
    Mean,
    /// A quantile, in millionths: 990 000 is p99.
    Quantile(u32),
    /// The largest sample.
    Max,
}

/// The median.
pub const P50: Stat = Stat::Quantile(500_000);
/// One sample in ten is larger.
pub const P90: Stat = Stat::Quantile(900_000);
/// One sample in a hundred is larger.
pub const P99: Stat = Stat::Quantile(990_000);
/// One sample in a thousand is larger.
pub const P999: Stat = Stat::Quantile(999_000);

/// The fewest samples of a mean and of a median.
const FEW: u64 = 10;
/// All samples, in the unit of quantiles.
const WHOLE: u32 = 1_000_000;

const VALUE: &[Stat] = &[Stat::Value];
const WAKEUPS: &[Stat] = &[Stat::Count, P50, P99, Stat::Max];
const REQUESTS: &[Stat] = &[Stat::Count, Stat::Mean, P50, P90, P99, P999, Stat::Max];

impl Stat {
    /// Returns the number of samples that it needs to be known.
    #[must_use]
    pub const fn needs(self) -> u64 {
        match self {
            Self::Value | Self::Count => 0,
            Self::Max => 1,
            Self::Mean => FEW,
            Self::Quantile(part) => {
                let above = (WHOLE as u64).saturating_sub(part as u64);
                // One sample in so many is beyond it, on the side where there are fewer.
                let beyond = if above < part as u64 { above } else { part as u64 };
                let needs = if beyond == 0 { u64::MAX } else { (WHOLE as u64 / 10).div_ceil(beyond) };
                if needs < FEW { FEW } else { needs }
            }
        }
    }

    /// Reads a statistic of a distribution: `count`, `mean`, `max`, or any percentile with up to
    /// four decimals, as `p95` and `p99.5`. `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "count" => return Some(Self::Count),
            "mean" => return Some(Self::Mean),
            "max" => return Some(Self::Max),
            _ => {}
        }
        let number =
            text.strip_prefix('p').filter(|number| number.starts_with(|first: char| first.is_ascii_digit()))?;
        let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        if decimals > 4 || number.ends_with('.') {
            return None;
        }
        let part = u32::try_from(decimal(number, 4)?).ok()?;
        (part > 0 && part < WHOLE).then_some(Self::Quantile(part))
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Value => Ok(()),
            Self::Count => f.pad("count"),
            Self::Mean => f.pad("mean"),
            Self::Max => f.pad("max"),
            Self::Quantile(part) if part % 10_000 == 0 => f.pad(&format!("p{}", part / 10_000)),
            Self::Quantile(part) => {
                let text = format!("p{}.{:04}", part / 10_000, part % 10_000);
                f.pad(text.trim_end_matches('0'))
            }
        }
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The quantity.
    pub quantity: Quantity,
    /// What it is measured of.
    pub owner: Owner,
    /// Its name in goals, sweeps and comparisons.
    pub key: &'static str,
    /// Its name in tables.
    pub label: &'static str,
    /// Its place in the JSON of a run: parts are separated by `/`, since names have points.
    /// `None` if others of the owner's figures contain it.
    pub path: Option<&'static str>,
    /// Its unit.
    pub unit: Unit,
    /// Its statistics.
    pub stats: &'static [Stat],
    /// How several become one.
    pub several: Several,
    /// Which change is wanted.
    pub better: Better,
    /// What it is, as a sentence without its point.
    pub meaning: &'static str,
}

macro_rules! quantities {
    ($(
        $quantity:ident: $owner:ident $key:literal, $label:literal, $path:expr, $unit:ident, $stats:ident, $several:ident,
        $better:ident, $meaning:literal;
    )+) => {
        /// What can be measured of a run. Everything else about it is in [`Quantity::TABLE`].
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum Quantity {
            $(
                #[doc = concat!($meaning, ".")]
                $quantity,
            )+
        }

        impl Quantity {
            /// A row per quantity, in the order in which reports show them.
            pub const TABLE: &[Row] = &[$(
                Row {
                    quantity: Self::$quantity,
                    owner: Owner::$owner,
                    key: $key,
                    label: $label,
                    path: $path,
                    unit: Unit::$unit,
                    stats: $stats,
                    several: Several::$several,
                    better: Better::$better,
                    meaning: $meaning,
                },
            )+];
        }
    };
}

quantities! {
    Run: Task "run", "run", Some("run_ns"), Time, VALUE, Sum, Neither,
        "The time for which it was the current task of a CPU";
    Share: Task "share", "share", None, Share, VALUE, Sum, Neither, "That time as a share of one CPU";
    Exec: Task "exec", "charged", Some("exec_ns"), Time, VALUE, Sum, Neither,
        "The part of its run time that it is charged, without interrupts";
    WakeupLatency: Task "wakeup_latency", "wakeup latency", Some("wakeup_latency"), Time, WAKEUPS, Largest, Less,
        "From a wakeup until it runs";
    WaitMax: Task "wait.max", "longest wait", Some("wait_ns_max"), Time, VALUE, Largest, Less,
        "The longest stretch of that time";
    Wait: Task "wait.total", "waited", Some("wait_ns"), Time, VALUE, Sum, Less,
        "The time for which it was runnable and did not run";
    LagMax: Task "lag.max", "largest lag", Some("lag_ns_max"), Time, VALUE, Largest, Less,
        "The most CPU time by which it was behind an ideal sharing by weight since it became runnable; not of tasks with a limit or with CPUs of their own";
    Preemptions: Task "preemptions", "preempted", Some("preemptions"), Count, VALUE, Sum, Less,
        "How many times it was preempted, or yielded";
    Migrations: Task "migrations", "moves", None, Count, VALUE, Sum, Less, "How many times it moved to another CPU";
    Wakeups: Task "wakeups", "wakeups", Some("wakeups"), Count, VALUE, Sum, Neither, "How many times it was woken";
    SwitchesIn: Task "switches_in", "runs", Some("switches_in"), Count, VALUE, Sum, Neither,
        "How many times it was switched to";
    Sleep: Task "sleep", "slept", Some("sleep_ns"), Time, VALUE, Sum, Neither,
        "The time for which it slept or was blocked";
    Timers: Task "timers", "timers", Some("timers"), Count, VALUE, Sum, Neither,
        "The number of timers that its program waited for";
    TimersMissed: Task "timers.missed", "missed", Some("timers_missed"), Count, VALUE, Sum, Less,
        "The number of timers that were due before it waited for them";
    LatenessMax: Task "lateness.max", "latest", Some("lateness_ns_max"), Time, VALUE, Largest, Less,
        "The longest time by which it was late for a timer of its program";
    Overruns: Task "dl_overruns", "overruns", Some("dl_overruns"), Count, VALUE, Sum, Less,
        "The number of overrun signals that it got";
    End: Task "end", "ended", Some("end_ns"), Time, VALUE, Last, Less,
        "The time at which it ended; of several the last, if all ended";
    TurnRate: Task "turns.per_second", "turns per second", Some("turns_per_second"), Rate, VALUE, Sum, More,
        "The number of turns of its program that it completed, per second";

    RequestsArrived: Service "requests.arrived", "arrived", Some("arrived"), Count, VALUE, Sum, Neither,
        "The number of requests that arrived";
    RequestsCompleted: Service "requests.completed", "done", Some("completed"), Count, VALUE, Sum, More,
        "The number of requests that were completed";
    RequestRate: Service "requests.per_second", "done per second", Some("completed_per_second"), Rate, VALUE, Sum, More,
        "The number of requests that were completed, per second";
    RequestsUnfinished: Service "requests.unfinished", "unfinished", Some("unfinished"), Count, VALUE, Sum, Less,
        "The number of requests under way at the end";
    RequestsDropped: Service "requests.dropped", "dropped", Some("dropped"), Count, VALUE, Sum, Less,
        "The number of requests that a full queue refused";
    RequestLatency: Service "request_latency", "request latency", Some("request_latency"), Time, REQUESTS, Largest, Less,
        "From the intended arrival of a request to its end; an unfinished request counts with its age";
    Queued: Service "queued", "in queue", Some("queued"), Time, REQUESTS, Largest, Less,
        "From the intended arrival of a request until a worker took it";

    GroupUsage: Group "usage", "CPU time", Some("cpu.stat/usage_usec"), Time, VALUE, Sum, Neither,
        "The CPU time of the group and the groups below it, as the scheduler charges it";
    User: Group "usage.user", "in user mode", Some("cpu.stat/user_usec"), Time, VALUE, Sum, Neither,
        "The part of it in user mode; a kernel that counts ticks estimates it";
    System: Group "usage.system", "in kernel mode", Some("cpu.stat/system_usec"), Time, VALUE, Sum, Neither,
        "The part of it in kernel mode: system calls, and interrupts that are not accounted apart";
    NiceTime: Group "usage.nice", "niced", Some("cpu.stat/nice_usec"), Time, VALUE, Sum, Neither,
        "The part of it in user mode of tasks with a nice level above 0";
    GroupShare: Group "usage.share", "share", None, Share, VALUE, Sum, Neither, "That time as a share of one CPU";
    NrPeriods: Group "nr_periods", "nr_periods", Some("cpu.stat/nr_periods"), Count, VALUE, Sum, Neither,
        "The number of periods in which the group was active";
    NrThrottled: Group "nr_throttled", "nr_throttled", Some("cpu.stat/nr_throttled"), Count, VALUE, Sum, Less,
        "The number of periods in which the group was throttled";
    Throttled: Group "throttled", "throttled", Some("cpu.stat/throttled_usec"), Time, VALUE, Sum, Less,
        "The time for which the group was throttled, added up over CPUs";
    NrBursts: Group "nr_bursts", "nr_bursts", Some("cpu.stat/nr_bursts"), Count, VALUE, Sum, Neither,
        "The number of periods in which the group used burst";
    Burst: Group "burst", "burst", Some("cpu.stat/burst_usec"), Time, VALUE, Sum, Neither,
        "The CPU time above the quota";
    LocalThrottled: Group "throttled.local", "throttled, local", Some("cpu.stat.local/throttled_usec"), Time, VALUE, Sum, Less,
        "The time for which the group was throttled by a limit of itself or of a group above";
    RtThrottled: Group "rt_throttled", "RT throttled", Some("rt_throttled_ns"), Time, VALUE, Sum, Less,
        "The time for which the group's real-time tasks were throttled by its own real-time runtime, added up over CPUs";
    SomeTotal: Group "pressure.some.total", "some", Some("cpu.pressure/some_total_usec"), Time, VALUE, Sum, Less,
        "The time for which a task of the group was runnable and did not run, as `cpu.pressure` adds up CPUs";
    Some10: Group "pressure.some.avg10", "some avg10", Some("cpu.pressure/some_avg10"), Share, VALUE, Largest, Less,
        "That time as a share of the last 10 s, with the kernel's decay";
    Some60: Group "pressure.some.avg60", "some avg60", Some("cpu.pressure/some_avg60"), Share, VALUE, Largest, Less,
        "That time as a share of the last minute";
    Some300: Group "pressure.some.avg300", "some avg300", Some("cpu.pressure/some_avg300"), Share, VALUE, Largest, Less,
        "That time as a share of the last 5 minutes";
    SomeEvents: Group "pressure.some.events", "some events", Some("cpu.pressure/some_events"), Count, VALUE, Sum, Less,
        "The number of events of the group's triggers on that time (`cpu.pressure` of a scenario)";
    SomeFirst: Group "pressure.some.first_event", "first event", Some("cpu.pressure/some_first_event_usec"), Time, VALUE, Smallest, More,
        "The time of the first of these events";
    FullTotal: Group "pressure.full.total", "full", Some("cpu.pressure/full_total_usec"), Time, VALUE, Sum, Less,
        "The time for which tasks of the group were runnable and none ran: they waited, or were throttled";
    Full10: Group "pressure.full.avg10", "full avg10", Some("cpu.pressure/full_avg10"), Share, VALUE, Largest, Less,
        "That time as a share of the last 10 s, with the kernel's decay";
    Full60: Group "pressure.full.avg60", "full avg60", Some("cpu.pressure/full_avg60"), Share, VALUE, Largest, Less,
        "That time as a share of the last minute";
    Full300: Group "pressure.full.avg300", "full avg300", Some("cpu.pressure/full_avg300"), Share, VALUE, Largest, Less,
        "That time as a share of the last 5 minutes";
    FullEvents: Group "pressure.full.events", "full events", Some("cpu.pressure/full_events"), Count, VALUE, Sum, Less,
        "The number of events of the group's triggers on that time";
    FullFirst: Group "pressure.full.first_event", "first event of full", Some("cpu.pressure/full_first_event_usec"), Time, VALUE, Smallest, More,
        "The time of the first of these events";
    GroupEnd: Group "last_end", "last ended", Some("last_end_ns"), Time, VALUE, Last, Less,
        "The time at which the last task of the group and of those below it ended, if all did";

    CpuBusy: Cpu "busy", "busy", Some("busy_ns"), Time, VALUE, Sum, Neither,
        "The time in tasks, interrupts and the scheduler";
    CpuIdle: Cpu "idle", "idle", Some("idle_ns"), Time, VALUE, Sum, Neither, "The time without work";
    CpuUnseen: Cpu "unseen", "unseen", Some("unseen_ns"), Time, VALUE, Sum, Neither,
        "The time of which a recording does not tell whether a task ran: in gaps, and on CPUs without a switch";
    CpuSwitches: Cpu "switches", "switches", Some("switches"), Count, VALUE, Sum, Neither,
        "The number of context switches";
    LockWait: Cpu "lock_wait", "lock wait", Some("lock_wait_ns"), Time, VALUE, Sum, Less,
        "The time spent waiting for run-queue locks";
    LockWaitMax: Cpu "lock_wait.max", "longest lock wait", Some("lock_wait_ns_max"), Time, VALUE, Largest, Less,
        "The longest wait for a run-queue lock";
    IpisSent: Cpu "ipis_sent", "IPIs sent", Some("ipis_sent"), Count, VALUE, Sum, Neither,
        "The number of inter-processor interrupts sent";
    IpisReceived: Cpu "ipis_received", "IPIs received", Some("ipis_received"), Count, VALUE, Sum, Neither,
        "The number of inter-processor interrupts received";
    IpiWork: Cpu "ipi_work", "in IPI work", Some("ipi_work_ns"), Time, VALUE, Sum, Less,
        "The time in handlers of inter-processor interrupts";
    IpiWorkMax: Cpu "ipi_work.max", "longest IPI work", Some("ipi_work_ns_max"), Time, VALUE, Largest, Less,
        "The longest time in one handler of an inter-processor interrupt";

    Idle: Machine "machine.idle", "idle", Some("idle_ns"), Time, VALUE, Sum, Neither, "The idle time of all CPUs";
    IdleWithWork: Machine "machine.idle_with_work", "idle with work", Some("idle_with_work_ns"), Time, VALUE, Sum, Less,
        "The time for which CPUs were idle while a task waited that was allowed there and not throttled, added up";
    MachineTotal: Machine "machine.pressure.some.total", "some", Some("cpu.pressure/some_total_usec"), Time, VALUE, Sum, Less,
        "The time for which a task was runnable and did not run, as `/proc/pressure/cpu` adds up CPUs";
    Machine10: Machine "machine.pressure.some.avg10", "some avg10", Some("cpu.pressure/some_avg10"), Share, VALUE, Largest, Less,
        "That time as a share of the last 10 s, with the kernel's decay";
    Machine60: Machine "machine.pressure.some.avg60", "some avg60", Some("cpu.pressure/some_avg60"), Share, VALUE, Largest, Less,
        "That time as a share of the last minute";
    Machine300: Machine "machine.pressure.some.avg300", "some avg300", Some("cpu.pressure/some_avg300"), Share, VALUE, Largest, Less,
        "That time as a share of the last 5 minutes";
    MachineEvents: Machine "machine.pressure.some.events", "some events", Some("cpu.pressure/some_events"), Count, VALUE, Sum, Less,
        "The number of events of triggers on that time (`cpu.pressure` of the group `/` of a scenario)";
    MachineFirst: Machine "machine.pressure.some.first_event", "first event", Some("cpu.pressure/some_first_event_usec"), Time, VALUE, Smallest, More,
        "The time of the first of these events";
    Switches: Machine "machine.switches", "switches", Some("switches"), Count, VALUE, Sum, Neither,
        "The number of context switches";
    AllMigrations: Machine "machine.migrations", "moves", None, Count, VALUE, Sum, Neither,
        "The number of moves of tasks between CPUs";
}

impl Quantity {
    /// Returns its row.
    #[must_use]
    pub const fn row(self) -> &'static Row {
        &Self::TABLE[self as usize]
    }

    /// Returns whether it compares a run with an ideal sharing of the machine: that takes more than
    /// all other figures together, so it is measured only where it is asked for.
    #[must_use]
    pub const fn is_of_sharing(self) -> bool {
        matches!(self, Self::IdleWithWork | Self::LagMax)
    }

    /// Returns whether it is one of pressure stall information (`cpu.pressure`), which is measured
    /// only where it is asked for, too.
    #[must_use]
    pub const fn is_of_pressure(self) -> bool {
        matches!(
            self,
            Self::SomeTotal
                | Self::Some10
                | Self::Some60
                | Self::Some300
                | Self::FullTotal
                | Self::Full10
                | Self::Full60
                | Self::Full300
                | Self::SomeEvents
                | Self::SomeFirst
                | Self::FullEvents
                | Self::FullFirst
                | Self::MachineEvents
                | Self::MachineFirst
                | Self::MachineTotal
                | Self::Machine10
                | Self::Machine60
                | Self::Machine300
        )
    }

    /// Returns the quantities of a kind of owner, in order.
    pub fn of(owner: Owner) -> impl Iterator<Item = Self> + Clone {
        Self::TABLE.iter().filter(move |row| row.owner == owner).map(|row| row.quantity)
    }
}

/// A statistic of a quantity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Figure {
    /// The quantity.
    pub quantity: Quantity,
    /// Which statistic of it; [`Stat::Value`] if it is no distribution.
    pub stat: Stat,
}

impl From<Quantity> for Figure {
    /// Returns the value of a quantity that is no distribution.
    fn from(quantity: Quantity) -> Self {
        Self { quantity, stat: Stat::Value }
    }
}

impl Figure {
    /// Returns a statistic of a quantity.
    #[must_use]
    pub const fn new(quantity: Quantity, stat: Stat) -> Self {
        Self { quantity, stat }
    }

    /// Returns every figure of a kind of owner, in the order of the table.
    pub fn of(owner: Owner) -> impl Iterator<Item = Self> + Clone {
        Quantity::of(owner)
            .flat_map(|quantity| quantity.row().stats.iter().map(move |stat| Self { quantity, stat: *stat }))
    }

    /// Returns every figure that has a name in goals, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        [Owner::Task, Owner::Service, Owner::Group, Owner::Cpu, Owner::Machine].into_iter().flat_map(Self::of)
    }

    /// Returns whether it is a statistic of a distribution.
    #[must_use]
    pub const fn is_of_distribution(self) -> bool {
        self.quantity.row().stats.len() > 1
    }

    /// Returns its name in goals, sweeps and comparisons: `request_latency.p99`.
    #[must_use]
    pub fn key(self) -> String {
        match self.stat {
            Stat::Value => self.quantity.row().key.to_owned(),
            stat => format!("{}.{stat}", self.quantity.row().key),
        }
    }

    /// Returns its name in tables: `request latency p99`.
    #[must_use]
    pub fn label(self) -> String {
        match self.stat {
            Stat::Value => self.quantity.row().label.to_owned(),
            stat => format!("{} {stat}", self.quantity.row().label),
        }
    }

    /// Returns its place in the JSON of a run, `cpu.stat/throttled_usec`, if it has one there.
    #[must_use]
    pub fn path(self) -> Option<String> {
        let path = self.quantity.row().path?;
        let unit = match self.unit() {
            Unit::Time => "_ns",
            Unit::Count | Unit::Share | Unit::Rate => "",
        };
        // The point of `p99.9` is none of the path.
        let stat = || format!("{}", self.stat).replace('.', "");
        Some(match self.stat {
            Stat::Value => path.to_owned(),
            Stat::Count | Stat::Mean | Stat::Quantile(_) | Stat::Max => format!("{path}/{}{unit}", stat()),
        })
    }

    /// Returns what it is measured of.
    #[must_use]
    pub const fn owner(self) -> Owner {
        self.quantity.row().owner
    }

    /// Returns its unit.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self.stat {
            Stat::Count => Unit::Count,
            Stat::Value | Stat::Mean | Stat::Quantile(_) | Stat::Max => self.quantity.row().unit,
        }
    }

    /// Returns the number of samples that it needs to be known.
    #[must_use]
    pub const fn needs(self) -> u64 {
        self.stat.needs()
    }

    /// Reads a figure with the name of its owner: `audio.lateness.max`, `*.run`,
    /// `request_latency.p99`, `/web.nr_throttled`. Returns the owner's name, `None` for all, and
    /// the figure. The owner's name can contain points, so the longest figure wins. A figure of
    /// tasks needs an owner; those of services and groups can stand for all of them.
    ///
    /// # Errors
    /// A valid form.
    pub fn parse(text: &str) -> Result<(Option<String>, Self), String> {
        let asked = Self::percentile_of(text);
        let goals = || Self::all().chain(asked).filter(|figure| figure.is_in_goals());
        let found = goals().filter_map(|figure| {
            // `p99.90` is `p99.9`.
            let before = match asked == Some(figure) {
                true => text.get(..text.rfind(".p")?)?.strip_suffix(figure.quantity.row().key)?,
                false => text.strip_suffix(&*figure.key())?,
            };
            match before {
                "" => Some((None, figure)),
                before => Some((Some(before.strip_suffix('.')?), figure)),
            }
        });
        match found.min_by_key(|(before, _)| before.map_or(0, str::len)) {
            Some((None, figure)) if figure.owner() != Owner::Task => Ok((None, figure)),
            Some((Some("*"), figure)) => Ok((None, figure)),
            Some((Some(_), figure)) if figure.owner() == Owner::Machine => Err(format!("write {}", figure.key())),
            Some((Some(whose), figure)) if !whose.is_empty() => Ok((Some(whose.to_owned()), figure)),
            Some((None, figure)) => Err(format!("write TASK.{0}, or *.{0} for all", figure.key())),
            Some(_) | None => Err(Self::help(text)),
        }
    }

    /// Returns the percentile that ends a name, if it is one of a distribution.
    fn percentile_of(text: &str) -> Option<Self> {
        let at = text.rfind(".p")?;
        let (before, stat) = (text.get(..at)?, Stat::parse(text.get(at + 1..)?)?);
        let is_end = |row: &&Row| {
            let rest = before.strip_suffix(row.key);
            row.stats.len() > 1 && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let row = Quantity::TABLE.iter().filter(is_end).max_by_key(|row| row.key.len())?;
        Some(Self::new(row.quantity, stat))
    }

    /// Returns what could have been meant by a name that is no figure.
    fn help(text: &str) -> String {
        let asked = text.split_once('.').map_or(text, |(_, rest)| rest);
        // Before 0.3 this was the latency of a thread's wakeups, also under the name of a service.
        let old = [text, asked].into_iter().find_map(|asked| {
            let stat = asked.strip_prefix("latency.")?;
            Some(format!(
                "write `wakeup_latency.{stat}` for the threads' wakeups, or `request_latency.{stat}` for the requests of a \
                 service"
            ))
        });
        if let Some(old) = old {
            return old;
        }
        // `p100`, or a percentile of something that is no distribution.
        let before = text.rfind(".p").filter(|at| text[at + 2..].starts_with(|first: char| first.is_ascii_digit()));
        let is_figure = |row: &Row| before.is_some_and(|at| text[..at].ends_with(row.key));
        if Quantity::TABLE.iter().any(is_figure) {
            return "percentiles are above p0 and below p100, with up to four decimals, of request_latency, queued and \
                    wakeup_latency"
                .to_owned();
        }
        let names: Vec<String> = Self::all().filter(|figure| figure.is_in_goals()).map(Self::key).collect();
        let known = || names.iter().map(String::as_str);
        match nearest(text, known()).or_else(|| nearest(asked, known())) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are NAME.{}", names.join(", NAME.")),
        }
    }

    /// Returns whether goals and sweeps know it. The CPUs of a machine have numbers and no names,
    /// so their figures are not among them.
    #[must_use]
    pub const fn is_in_goals(self) -> bool {
        match self.owner() {
            Owner::Task | Owner::Service | Owner::Group | Owner::Machine => true,
            Owner::Cpu => false,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.key())
    }
}

impl Unit {
    /// Returns its name in JSON: `ns`, `count`, `millionths`, `thousandths per second`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "ns",
            Self::Count => "count",
            Self::Share => "millionths",
            Self::Rate => "thousandths per second",
        }
    }

    /// Returns the end of a key that says its unit: `_ns`.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Time => "_ns",
            Self::Count => "",
            Self::Share => "_millionths",
            Self::Rate => "_thousandths",
        }
    }

    /// Reads a value of this unit, as goals have it: `20ms`, `3`, `25%` or `0.25`, `1500.5`.
    ///
    /// # Errors
    /// Why it is none.
    pub fn read(self, text: &str) -> Result<u64, String> {
        match self {
            Self::Time => {
                text.parse::<Duration>().map(Duration::as_nanos).map_err(|reason| format!("`{text}`: {reason}"))
            }
            Self::Count => text.parse().map_err(|_| format!("`{text}` is not a whole number")),
            Self::Share => {
                let (number, digits) = match text.strip_suffix('%') {
                    Some(number) => (number.trim(), 4),
                    None => (text, 6),
                };
                let share =
                    decimal(number, digits).ok_or_else(|| format!("`{text}` is not a share, as in 25% or 0.25"))?;
                let most = 1_000_000 * 10_u64.pow(6);
                if share > most { Err(format!("`{text}` is outside 0..=1000000")) } else { Ok(share) }
            }
            Self::Rate => decimal(text, 3).ok_or_else(|| format!("`{text}` is not a rate, as in 1500 or 0.5")),
        }
    }
}

/// Reads a decimal number times ten to the power of `digits`, rounded half up. `None` if it is no
/// such number or too large. No float: the model has none.
fn decimal(text: &str, digits: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let kept = |at: usize| fraction.as_bytes().get(at).map_or(0, |byte| u64::from(byte - b'0'));
    let places = usize::try_from(digits).ok()?;
    let part = (0..places).fold(0, |value, at| value * 10 + kept(at));
    let up = u64::from(kept(places) >= 5);
    whole.checked_mul(10_u64.pow(digits))?.checked_add(part + up)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::string::ToString as _;

    #[test]
    fn a_row_is_at_the_place_of_its_quantity() {
        for row in Quantity::TABLE {
            assert_eq!(row.quantity.row().key, row.key);
            assert!(row.meaning.starts_with(char::is_uppercase) && !row.meaning.ends_with('.'), "{}", row.meaning);
            let is_time = row.unit == Unit::Time && row.stats == VALUE;
            let ends = |path: &str| path.ends_with("_ns") || path.ends_with("_ns_max") || path.ends_with("_usec");
            assert!(row.path.is_none_or(|path| ends(path) == is_time), "{}: the unit is the end of the path", row.key);
        }
    }

    #[test]
    fn names_and_paths_are_unique() {
        let keys: Vec<String> = Figure::all().filter(|figure| figure.is_in_goals()).map(Figure::key).collect();
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
        for owner in [Owner::Task, Owner::Service, Owner::Group, Owner::Cpu, Owner::Machine] {
            let paths: Vec<String> = Figure::of(owner).filter_map(Figure::path).collect();
            assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), paths.len(), "{owner:?}");
        }
    }

    #[test]
    fn a_figure_is_read_with_its_owner() {
        let read = |text: &str| Figure::parse(text).map(|(whose, figure)| (whose.unwrap_or_default(), figure.key()));
        let is = |whose: &str, key: &str| Ok((whose.to_string(), key.to_string()));
        assert_eq!(read("audio.lateness.max"), is("audio", "lateness.max"));
        assert_eq!(read("a.b.share"), is("a.b", "share"));
        assert_eq!(read("web.request_latency.p99.9"), is("web", "request_latency.p99.9"));
        assert_eq!(read("/web.usage.share"), is("/web", "usage.share"));
        assert_eq!(read("*.run"), is("", "run"));
        assert_eq!(read("nr_throttled"), is("", "nr_throttled"));
        let help = |text: &str| Figure::parse(text).expect_err(text);
        assert_eq!(help("run"), "write TASK.run, or *.run for all");
        assert!(help("web.latency.p99").contains("`request_latency.p99`"), "{}", help("web.latency.p99"));
        assert!(help("*.latency.p50").contains("`wakeup_latency.p50`"));
        assert_eq!(help("audio.latnesss.max"), "did you mean `lateness.max`?");
    }

    #[test]
    fn quantiles_need_ten_samples_and_high_ones_more() {
        let needs = |text| Stat::parse(text).map(Stat::needs);
        let of = ["p1", "p50", "p90", "p95", "p99", "p99.5", "p99.9", "p99.99", "p99.999", "p0.1"].map(needs);
        assert_eq!(of, [10, 10, 10, 10, 10, 20, 100, 1_000, 10_000, 100].map(Some));
    }

    #[test]
    fn every_percentile_of_a_distribution_is_a_figure() {
        for text in ["p95", "p99.5", "p99.95", "p99.9999", "p0.0001", "p1"] {
            assert_eq!(Stat::parse(text).map(|stat| stat.to_string()), Some(text.to_string()));
            let (owner, figure) = Figure::parse(&format!("a.b.request_latency.{text}")).expect(text);
            assert_eq!((owner.as_deref(), figure.key()), (Some("a.b"), format!("request_latency.{text}")));
            assert_eq!(figure.path(), Some(format!("request_latency/{}_ns", text.replace('.', ""))));
        }
        assert_eq!(Figure::parse("queued.p99.90"), Figure::parse("queued.p99.9"));
        assert_eq!(
            Figure::parse("*.wakeup_latency.p95").map(|(_, figure)| figure.key()),
            Ok("wakeup_latency.p95".to_string())
        );
        for text in ["p0", "p100", "p99.", "p99.99999", "p", "pp", "p-1", "p1e1", "95"] {
            assert_eq!(Stat::parse(text), None, "{text}");
        }
        let help = |text: &str| Figure::parse(text).expect_err(text);
        assert!(help("request_latency.p100").starts_with("percentiles are above p0 and below p100"));
        assert!(help("throttled.p95").contains("of request_latency"), "{}", help("throttled.p95"));
        assert!(Figure::parse("xrequest_latency.p95").is_err() && Figure::parse(".p95").is_err());
    }

    #[test]
    fn values_are_whole_numbers_of_the_smallest_unit() {
        assert_eq!(Unit::Share.read("12.5%"), Ok(125_000));
        assert_eq!(Unit::Share.read("1.5"), Ok(1_500_000));
        assert_eq!(Unit::Share.read("0.00000049"), Ok(0));
        assert_eq!(Unit::Share.read("0.0000005"), Ok(1));
        assert_eq!(Unit::Rate.read("1500.25"), Ok(1_500_250));
        for text in ["", ".", "-1", "1e3", "inf", "99999999999999999999", "1.2.3"] {
            assert!(Unit::Share.read(text).is_err(), "{text}");
        }
        assert!(Unit::Share.read("2000000").is_err_and(|why| why.contains("outside")));
    }
}

//! Scheduling attributes: the parameters of `sched_setattr(2)`.
//!
//! Three numbers are called priority in this field, and mixing them up is a classic error; so each
//! has a type. [`RtPriority`] is the number that users write (1..=99, high is urgent). [`Nice`] is
//! -20..=19 (low is heavy). [`Prio`] is the kernel's internal scale that contains both
//! (`include/linux/sched/prio.h`; low is urgent) and that CPUs publish to each other.

use crate::time::Duration;
use core::fmt;

/// A scheduling class. Classes are searched in the order of [`ClassId::rank`]. That order is
/// policy, so it is written down there and not derived.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClassId {
    /// The stopper: migrations that must happen. Above everything.
    Stop,
    /// SCHED_DEADLINE and deadline servers.
    Deadline,
    /// SCHED_FIFO and SCHED_RR.
    Rt,
    /// SCHED_OTHER, SCHED_BATCH and SCHED_IDLE.
    Fair,
    /// The tasks of a loaded scheduler (`sched_ext`).
    Ext,
    /// Nothing to run.
    Idle,
}

impl ClassId {
    /// Returns the class's place in the order of picking: 0 is searched first.
    #[must_use]
    pub const fn rank(self) -> u8 {
        match self {
            Self::Stop => 0,
            Self::Deadline => 1,
            Self::Rt => 2,
            Self::Fair => 3,
            Self::Ext => 4,
            Self::Idle => 5,
        }
    }
}

/// A real-time priority as users write it: 1..=99, higher is more urgent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RtPriority(u8);

impl RtPriority {
    /// The least urgent.
    pub const MIN: Self = Self(1);
    /// The most urgent.
    pub const MAX: Self = Self(99);

    /// Returns the priority, or `None` outside 1..=99.
    #[must_use]
    pub const fn new(value: i64) -> Option<Self> {
        if value >= 1 && value <= 99 { Some(Self(value as u8)) } else { None }
    }

    /// Returns the number.
    #[must_use]
    pub const fn value(self) -> u8 {
        self.0
    }
}

impl fmt::Debug for RtPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RtPriority({})", self.0)
    }
}

impl fmt::Display for RtPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A nice value: -20..=19, lower gets more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Nice(i8);

impl Nice {
    /// The neutral value.
    pub const ZERO: Self = Self(0);
    /// The value with the largest share.
    pub const MIN: Self = Self(-20);
    /// The value with the smallest share.
    pub const MAX: Self = Self(19);

    /// Returns the nice value, or `None` outside -20..=19.
    #[must_use]
    pub const fn new(value: i64) -> Option<Self> {
        if value >= -20 && value <= 19 { Some(Self(value as i8)) } else { None }
    }

    /// Returns the number.
    #[must_use]
    pub const fn value(self) -> i8 {
        self.0
    }

    /// Returns 0..=39: the index into the table of weights.
    #[must_use]
    pub const fn table_index(self) -> usize {
        (self.0 + 20) as usize
    }

    /// Returns its weight; nice 0 has 1024. Linux `sched_prio_to_weight`, the forty published
    /// values.
    #[must_use]
    pub const fn weight(self) -> u32 {
        NICE_TO_WEIGHT[self.table_index()]
    }
}

/// For nice -20 to 19.
const NICE_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, //
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277, //
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, //
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

impl fmt::Debug for Nice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nice({})", self.0)
    }
}

impl fmt::Display for Nice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The kernel's internal priority: one scale for all classes, lower is more urgent.
///
/// Deadline is -1, real time 0..=98 (`99 - rt_priority`), fair 100..=139 (`120 + nice`), idle 140,
/// stop -2. It has no `Ord` on purpose: write [`Prio::beats`].
///
/// Tasks of the class [`ClassId::Ext`] have the numbers of fair tasks in the kernel, where the
/// class is not part of the number. Here it is: they have 141..=180, so that no rule takes them for
/// fair ones. [`kernel`](Self::kernel) is the kernel's number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prio(i16);

impl Prio {
    /// The stopper.
    pub const STOP: Self = Self(-2);
    /// All deadline tasks; their deadlines decide between them.
    pub const DEADLINE: Self = Self(-1);
    /// The first value that is not real-time (`MAX_RT_PRIO`).
    pub const FIRST_FAIR: Self = Self(100);
    /// A CPU with nothing to run.
    pub const IDLE: Self = Self(140);

    /// Returns the value of a real-time priority.
    #[must_use]
    pub const fn from_rt(priority: RtPriority) -> Self {
        Self(99 - priority.0 as i16)
    }

    /// Returns the value of a nice level.
    #[must_use]
    pub const fn from_nice(nice: Nice) -> Self {
        Self(120 + nice.0 as i16)
    }

    /// Returns the value of a nice level in the class of a loaded scheduler.
    #[must_use]
    pub const fn from_nice_of_ext(nice: Nice) -> Self {
        Self(Self::EXT_ZERO + nice.0 as i16)
    }

    /// The value of nice 0 in the class of a loaded scheduler.
    const EXT_ZERO: i16 = 161;

    /// The largest number.
    pub const RAW_MAX: i16 = Self::EXT_ZERO + 19;

    /// Returns the value of a number, -2..=180, clamped into it.
    #[must_use]
    pub const fn from_raw(value: i16) -> Self {
        Self(if value < -2 {
            -2
        } else if value > Self::RAW_MAX {
            Self::RAW_MAX
        } else {
            value
        })
    }

    /// Returns the number.
    #[must_use]
    pub const fn raw(self) -> i16 {
        self.0
    }

    /// Returns the number that the kernel has for it, -2..=140.
    #[must_use]
    pub const fn kernel(self) -> i16 {
        if self.0 > Self::IDLE.0 { self.0 - Self::EXT_ZERO + 120 } else { self.0 }
    }

    /// Returns whether this priority preempts `other`: strictly more urgent. No task is idle, so
    /// none of the class [`ClassId::Ext`] is compared with [`IDLE`](Self::IDLE).
    #[must_use]
    pub const fn beats(self, other: Self) -> bool {
        self.0 < other.0
    }

    /// Returns whether this is a real-time priority.
    #[must_use]
    pub const fn is_rt(self) -> bool {
        self.0 >= 0 && self.0 < 100
    }

    /// Returns whether this is the priority of a task of a loaded scheduler.
    #[must_use]
    pub const fn is_ext(self) -> bool {
        self.0 > Self::IDLE.0
    }

    /// Returns the class that this priority belongs to. Schedulers ask this several times per
    /// event, so the common classes take the fewest comparisons: with a `match` of six ranges the
    /// benchmark `hogs` was 4 % slower.
    #[must_use]
    pub const fn class(self) -> ClassId {
        if self.0 < 0 {
            return if self.0 == Self::DEADLINE.0 { ClassId::Deadline } else { ClassId::Stop };
        }
        if self.0 < 100 {
            ClassId::Rt
        } else if self.0 < Self::IDLE.0 {
            ClassId::Fair
        } else if self.is_ext() {
            ClassId::Ext
        } else {
            ClassId::Idle
        }
    }
}

impl fmt::Debug for Prio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prio({})", self.0)
    }
}

impl fmt::Display for Prio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.kernel(), f)
    }
}

/// The two real-time policies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RtPolicy {
    /// Runs until it blocks, yields or is preempted.
    Fifo,
    /// As FIFO, with a time slice among equals.
    Rr,
}

/// The policies of the fair class: three, and a fourth that it has while no scheduler is loaded
/// (`sched_ext`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FairPolicy {
    /// SCHED_OTHER (SCHED_NORMAL).
    Other,
    /// SCHED_BATCH: never preempts on wakeup.
    Batch,
    /// SCHED_IDLE: weight 3, preempted by every other fair task.
    Idle,
    /// SCHED_EXT: as SCHED_OTHER while no scheduler is loaded.
    Ext,
}

/// Options of a deadline task besides its parameters: bits of `sched_flags`, with the kernel's
/// values.
// Booleans have values to spare, in which the compiler keeps the kind of `SchedAttr`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DlFlags {
    reset_on_fork: bool,
    reclaim: bool,
    dl_overrun: bool,
}

impl fmt::Debug for DlFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DlFlags").field(&self.bits()).finish()
    }
}

impl DlFlags {
    /// No flag.
    pub const NONE: Self = Self::from_bits(0);
    /// It may fork: its child does not inherit the policy (`SCHED_FLAG_RESET_ON_FORK`).
    pub const RESET_ON_FORK: Self = Self::from_bits(0x01);
    /// It may use bandwidth that other tasks leave (`SCHED_FLAG_RECLAIM`, GRUB).
    pub const RECLAIM: Self = Self::from_bits(0x02);
    /// It gets a signal when its budget is exhausted (`SCHED_FLAG_DL_OVERRUN`, SIGXCPU).
    pub const DL_OVERRUN: Self = Self::from_bits(0x04);
    /// Each flag, with its name in scenario files.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::RESET_ON_FORK, "reset_on_fork"), (Self::RECLAIM, "reclaim"), (Self::DL_OVERRUN, "dl_overrun")];

    /// Returns the flags with these bits of `sched_flags`; other bits are ignored.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self { reset_on_fork: bits & 0x01 != 0, reclaim: bits & 0x02 != 0, dl_overrun: bits & 0x04 != 0 }
    }

    /// Returns the bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.reset_on_fork as u8 | (self.reclaim as u8) << 1 | (self.dl_overrun as u8) << 2
    }

    /// Returns the union of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            reset_on_fork: self.reset_on_fork | other.reset_on_fork,
            reclaim: self.reclaim | other.reclaim,
            dl_overrun: self.dl_overrun | other.dl_overrun,
        }
    }

    /// Returns whether it has all flags of the other.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        (self.reset_on_fork | !other.reset_on_fork)
            & (self.reclaim | !other.reclaim)
            & (self.dl_overrun | !other.dl_overrun)
    }
}

/// SCHED_DEADLINE parameters: `sched_runtime`, `sched_deadline`, `sched_period`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DlParams {
    /// Budget per period.
    pub runtime: Duration,
    /// Relative deadline.
    pub deadline: Duration,
    /// Time between replenishments.
    pub period: Duration,
    /// Further options.
    pub flags: DlFlags,
}

impl DlParams {
    /// The least runtime (`1 << DL_SCALE`).
    pub const RUNTIME_MIN: Duration = Duration::from_nanos(1 << 10);
    /// The shortest period (`sched_deadline_period_min_us`).
    pub const PERIOD_MIN: Duration = Duration::from_micros(100);
    /// The longest period (`sched_deadline_period_max_us`).
    pub const PERIOD_MAX: Duration = Duration::from_micros(1 << 22);

    /// Returns parameters without flags.
    #[must_use]
    pub const fn new(runtime: Duration, deadline: Duration, period: Duration) -> Self {
        Self { runtime, deadline, period, flags: DlFlags::NONE }
    }

    /// Returns the same parameters with flags.
    #[must_use]
    pub const fn with_flags(self, flags: DlFlags) -> Self {
        Self { flags, ..self }
    }
}

/// The attributes of a task: `struct sched_attr`, where each policy has only the fields that it
/// reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SchedAttr {
    /// SCHED_OTHER, SCHED_BATCH, SCHED_IDLE.
    Fair {
        /// Which of the three.
        policy: FairPolicy,
        /// The nice value.
        nice: Nice,
        /// A custom slice (`sched_runtime` of a fair task, Linux 6.12), 100 us..=100 ms, if asked
        /// for.
        slice: Option<Duration>,
    },
    /// SCHED_FIFO, SCHED_RR.
    Rt {
        /// Which of the two.
        policy: RtPolicy,
        /// The priority.
        priority: RtPriority,
    },
    /// SCHED_DEADLINE.
    Deadline(DlParams),
    /// A fair policy whose tasks a loaded scheduler has (`sched_ext`). Users never ask for it:
    /// [`Settings::governed`](crate::Settings::governed) makes it of a fair one.
    Ext {
        /// Which of the four.
        policy: FairPolicy,
        /// The nice value.
        nice: Nice,
        /// The slice of [`Fair`](Self::Fair), which it has again without the loaded scheduler.
        slice: Option<Duration>,
    },
}

impl SchedAttr {
    /// SCHED_OTHER at nice 0, as every process starts.
    pub const NORMAL: Self = Self::Fair { policy: FairPolicy::Other, nice: Nice::ZERO, slice: None };

    /// Returns SCHED_FIFO at a priority.
    #[must_use]
    pub const fn fifo(priority: RtPriority) -> Self {
        Self::Rt { policy: RtPolicy::Fifo, priority }
    }

    /// Returns SCHED_FIFO at a priority that is known to be valid.
    ///
    /// # Panics
    /// Outside 1..=99.
    #[must_use]
    pub const fn fifo_at(priority: i64) -> Self {
        Self::fifo(RtPriority::new(priority).expect("a real-time priority is in 1..=99"))
    }

    /// Returns SCHED_RR at a priority.
    #[must_use]
    pub const fn rr(priority: RtPriority) -> Self {
        Self::Rt { policy: RtPolicy::Rr, priority }
    }

    /// Returns the weight by which it shares with others; `None` of classes that do not share.
    /// Linux `set_load_weight`: 3 for SCHED_IDLE (`WEIGHT_IDLEPRIO`).
    #[must_use]
    pub const fn weight(self) -> Option<u32> {
        match self {
            Self::Fair { policy: FairPolicy::Idle, .. } | Self::Ext { policy: FairPolicy::Idle, .. } => Some(3),
            Self::Fair { nice, .. } | Self::Ext { nice, .. } => Some(nice.weight()),
            Self::Rt { .. } | Self::Deadline(_) => None,
        }
    }

    /// Returns SCHED_OTHER at a nice value.
    #[must_use]
    pub const fn nice(nice: Nice) -> Self {
        Self::Fair { policy: FairPolicy::Other, nice, slice: None }
    }

    /// Returns the class of this policy.
    #[must_use]
    pub const fn class(self) -> ClassId {
        match self {
            Self::Fair { .. } => ClassId::Fair,
            Self::Rt { .. } => ClassId::Rt,
            Self::Deadline(_) => ClassId::Deadline,
            Self::Ext { .. } => ClassId::Ext,
        }
    }

    /// Returns the policy by its name.
    #[must_use]
    pub const fn policy(self) -> Policy {
        match self {
            Self::Fair { policy, .. } | Self::Ext { policy, .. } => match policy {
                FairPolicy::Other => Policy::Other,
                FairPolicy::Batch => Policy::Batch,
                FairPolicy::Idle => Policy::Idle,
                FairPolicy::Ext => Policy::Ext,
            },
            Self::Rt { policy: RtPolicy::Fifo, .. } => Policy::Fifo,
            Self::Rt { policy: RtPolicy::Rr, .. } => Policy::Rr,
            Self::Deadline(_) => Policy::Deadline,
        }
    }

    /// Returns the priority on the kernel's internal scale.
    #[must_use]
    pub const fn prio(self) -> Prio {
        match self {
            Self::Fair { nice, .. } => Prio::from_nice(nice),
            Self::Rt { priority, .. } => Prio::from_rt(priority),
            Self::Deadline(_) => Prio::DEADLINE,
            Self::Ext { nice, .. } => Prio::from_nice_of_ext(nice),
        }
    }
}

/// The seven policies by name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// SCHED_OTHER.
    Other,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO.
    Fifo,
    /// SCHED_RR.
    Rr,
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_EXT.
    Ext,
}

impl Policy {
    /// All policies, in the order in which help texts list them.
    pub const ALL: [Self; 7] = [Self::Other, Self::Batch, Self::Idle, Self::Fifo, Self::Rr, Self::Deadline, Self::Ext];

    /// Returns the name that `chrt` prints.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "SCHED_OTHER",
            Self::Batch => "SCHED_BATCH",
            Self::Idle => "SCHED_IDLE",
            Self::Fifo => "SCHED_FIFO",
            Self::Rr => "SCHED_RR",
            Self::Deadline => "SCHED_DEADLINE",
            Self::Ext => "SCHED_EXT",
        }
    }

    /// Returns the policy of a name, with or without `SCHED_`; `SCHED_NORMAL` is the kernel's name
    /// of `SCHED_OTHER`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let bare = name.strip_prefix("SCHED_").unwrap_or(name);
        if bare == "NORMAL" {
            return Some(Self::Other);
        }
        Self::ALL.into_iter().find(|policy| &policy.name()["SCHED_".len()..] == bare)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scales_meet_where_the_kernel_joins_them() {
        let rt = |value| Prio::from_rt(RtPriority::new(value).expect("1..=99"));
        assert!(rt(99).beats(rt(98)));
        assert!(rt(1).beats(Prio::from_nice(Nice::new(-20).expect("in range"))));
        assert!(Prio::DEADLINE.beats(rt(99)));
        assert!(Prio::from_nice(Nice::new(19).expect("in range")).beats(Prio::IDLE));
        assert!(!rt(5).beats(rt(5)));
        assert_eq!(rt(1).class(), ClassId::Rt);
        let ext = |nice| Prio::from_nice_of_ext(Nice::new(nice).expect("in range"));
        for nice in [-20, 0, 19] {
            let fair = Prio::from_nice(Nice::new(nice).expect("in range"));
            assert_eq!((ext(nice).class(), ext(nice).kernel()), (ClassId::Ext, fair.raw()));
            assert_eq!(Prio::from_raw(ext(nice).raw()), ext(nice));
            assert!(fair.beats(ext(nice)));
        }
        assert_eq!((Prio::IDLE.class(), Prio::IDLE.kernel()), (ClassId::Idle, 140));
        assert_eq!(RtPriority::new(0), None);
        assert_eq!(RtPriority::new(100), None);
        assert_eq!(Nice::new(20), None);
    }

    #[test]
    fn policies_are_known_by_both_names() {
        for policy in Policy::ALL {
            assert_eq!(Policy::from_name(policy.name()), Some(policy));
        }
        assert_eq!(Policy::from_name("SCHED_NORMAL"), Some(Policy::Other));
        assert_eq!(Policy::from_name("FIFO"), Some(Policy::Fifo));
        assert_eq!(Policy::from_name("SCHED_SPORADIC"), None);
    }
}

//! The words of the interface: names of queues, flags, and the callbacks.
//!
//! Names and values are the kernel's, so that a policy translates to BPF line by line.
//!
//! Sources: Linux v7.3 `include/linux/sched/ext.h` (`scx_dsq_id_flags`), `kernel/sched/ext/internal.h`
//! (`scx_enq_flags`, `scx_deq_flags`, `scx_ops_flags`, `scx_kick_flags`); the values are those of
//! v6.12, where the files are `ext.h` and `ext.c`.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{BitOr, BitOrAssign};
use zerolag_model::{CpuId, Duration};

/// The name of a dispatch queue (`dsq_id`). Numbers below 2^63 are a policy's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DsqId(pub u64);

impl DsqId {
    const BUILTIN: u64 = 1 << 63;
    const ON_CPU: u64 = 1 << 62;

    /// The queue of the machine, from which every CPU takes before it asks the policy.
    pub const GLOBAL: Self = Self(Self::BUILTIN | 1);
    /// The queue of the CPU on which the task is, or which dispatches: a CPU runs tasks of its
    /// local queue only.
    pub const LOCAL: Self = Self(Self::BUILTIN | 2);

    /// Returns the local queue of a CPU (`SCX_DSQ_LOCAL_ON | cpu`).
    #[must_use]
    pub const fn local_on(cpu: CpuId) -> Self {
        Self(Self::BUILTIN | Self::ON_CPU | cpu.0 as u64)
    }

    /// Returns whether the queue belongs to the kernel.
    #[must_use]
    pub const fn is_builtin(self) -> bool {
        self.0 & Self::BUILTIN != 0
    }

    /// Returns the CPU of [`local_on`](Self::local_on).
    #[must_use]
    pub const fn cpu(self) -> Option<CpuId> {
        let is_on = self.0 & (Self::BUILTIN | Self::ON_CPU) == Self::BUILTIN | Self::ON_CPU;
        if is_on { Some(CpuId(self.0 as u32)) } else { None }
    }
}

impl fmt::Debug for DsqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.cpu()) {
            (_, Some(cpu)) => write!(f, "LOCAL_ON({cpu})"),
            (Self::GLOBAL, None) => f.write_str("GLOBAL"),
            (Self::LOCAL, None) => f.write_str("LOCAL"),
            (Self(id), None) => write!(f, "{id:#x}"),
        }
    }
}

macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $flag:ident = $bit:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// No flag.
            pub const NONE: Self = Self(0);
            $($(#[$each])* pub const $flag: Self = Self($bit);)*
            /// The names of all flags, without the kernel's prefix.
            pub const ALL: &[(&str, Self)] = &[$((stringify!($flag), Self::$flag)),*];

            /// Returns whether all flags of `other` are set.
            #[must_use]
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }
    };
}

flags! {
    /// What a policy asks of the workload. A kernel has no such flags, since it knows neither.
    Needs {
        /// The periods of timers ([`Scx::period`](crate::Scx::period)).
        PERIOD = 1;
        /// The work of tasks ([`Scx::work_left`](crate::Scx::work_left)).
        WORK = 2;
    }
}

flags! {
    /// Why a task wakes (`SCX_WAKE_*`).
    WakeFlags {
        /// The task is new (`fork`).
        FORK = 0x04;
        /// The task wakes.
        TTWU = 0x08;
        /// The waker is about to wait.
        SYNC = 0x10;
    }
}

flags! {
    /// Why, or how, a task is queued (`SCX_ENQ_*`).
    EnqFlags {
        /// The task has woken.
        WAKEUP = 1;
        /// Queue it first.
        HEAD = 1 << 4;
        /// [`select_cpu`](crate::Policy::select_cpu) has chosen its CPU.
        CPU_SELECTED = 1 << 10;
        /// On a local queue: first, and the current task of that CPU loses its slice.
        PREEMPT = 1 << 32;
        /// It is queued again, though it has not run.
        REENQ = 1 << 40;
        /// It is the last runnable task of its CPU, which idles unless it is queued there
        /// ([`OpsFlags::ENQ_LAST`]).
        LAST = 1 << 41;
    }
}

flags! {
    /// Why a task leaves its queue (`SCX_DEQ_*`).
    DeqFlags {
        /// It waits.
        SLEEP = 1;
        /// An attribute changes, or it moves to another CPU: it is queued again (7.0).
        SCHED_CHANGE = 1 << 33;
    }
}

flags! {
    /// How a CPU is kicked (`SCX_KICK_*`).
    KickFlags {
        /// Only if it idles.
        IDLE = 1;
        /// Its current task loses its slice.
        PREEMPT = 2;
    }
}

flags! {
    /// Properties of a policy (`SCX_OPS_*`).
    OpsFlags {
        /// A task that is the last of its CPU is queued too when its slice ends, with
        /// [`EnqFlags::LAST`]. Without it such a task runs on.
        ENQ_LAST = 2;
        /// Exiting tasks are queued like others. Without it they go to their local queue.
        ENQ_EXITING = 4;
        /// Only tasks with the policy SCHED_EXT are the policy's.
        SWITCH_PARTIAL = 8;
    }
}

/// The slice of a task that runs until it waits (`SCX_SLICE_INF`).
pub const SLICE_INF: Duration = Duration::MAX;

/// The default slice (`SCX_SLICE_DFL`): 20 ms. A machine can have another one:
/// [`Scx::slice_dfl`](crate::Scx::slice_dfl).
pub const SLICE_DFL: Duration = Duration::from_millis(20);

macro_rules! callbacks {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// An operation of [`Policy`](crate::Policy).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Callback {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Callback {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns its name as the kernel writes it, `ops.enqueue` for example.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => concat!("ops.", $text),)*
                }
            }
        }
    };
}

callbacks! {
    SelectCpu = "select_cpu";
    Enqueue = "enqueue";
    Dequeue = "dequeue";
    Dispatch = "dispatch";
    Tick = "tick";
    Runnable = "runnable";
    Running = "running";
    Stopping = "stopping";
    Quiescent = "quiescent";
    Yield = "yield";
    SetWeight = "set_weight";
    SetCpumask = "set_cpumask";
    UpdateIdle = "update_idle";
    CpuAcquire = "cpu_acquire";
    CpuRelease = "cpu_release";
    CpuOnline = "cpu_online";
    CpuOffline = "cpu_offline";
    InitTask = "init_task";
    ExitTask = "exit_task";
    Enable = "enable";
    Disable = "disable";
    CgroupInit = "cgroup_init";
    CgroupExit = "cgroup_exit";
    CgroupMove = "cgroup_move";
    CgroupSetWeight = "cgroup_set_weight";
    CgroupSetBandwidth = "cgroup_set_bandwidth";
    Init = "init";
    Exit = "exit";
    Timer = "timer";
}

impl Callback {
    /// Returns whether the kernel asks for a decision, so that it does not call a policy that is
    /// bypassed. The others are told it.
    pub(crate) const fn is_decision(self) -> bool {
        matches!(self, Self::SelectCpu | Self::Enqueue | Self::Dispatch | Self::Tick | Self::UpdateIdle)
    }
}

/// Returns the words of the interface with their numbers, for languages that have no names for
/// them: `SCX_ENQ_HEAD`, 16 and so on; those that no kernel has begin with `ZEROLAG_`. For a local
/// queue of a CPU its number is added to `SCX_DSQ_LOCAL_ON`.
#[must_use]
pub fn words() -> Vec<(String, u64)> {
    let named = |prefix: &str, name: &str, value: u64| (alloc::format!("SCX_{prefix}_{name}"), value);
    let flags = (WakeFlags::ALL.iter().map(|(name, flag)| named("WAKE", name, flag.0)))
        .chain(EnqFlags::ALL.iter().map(|(name, flag)| named("ENQ", name, flag.0)))
        .chain(DeqFlags::ALL.iter().map(|(name, flag)| named("DEQ", name, flag.0)))
        .chain(KickFlags::ALL.iter().map(|(name, flag)| named("KICK", name, flag.0)))
        .chain(OpsFlags::ALL.iter().map(|(name, flag)| named("OPS", name, flag.0)));
    let others = [
        named("DSQ", "GLOBAL", DsqId::GLOBAL.0),
        named("DSQ", "LOCAL", DsqId::LOCAL.0),
        named("DSQ", "LOCAL_ON", DsqId::local_on(CpuId(0)).0),
        named("SLICE", "INF", SLICE_INF.as_nanos()),
    ];
    let needs = Needs::ALL.iter().map(|(name, needed)| (alloc::format!("ZEROLAG_NEEDS_{name}"), needed.0));
    flags.chain(others).chain(needs).collect()
}

//! [`ServerParams`]: the CPU time that a deadline server reserves for its class, and
//! [`ServerState`]: its states in traces.

use crate::attr::ClassId;
use crate::time::{Duration, Instant};
use core::fmt;

/// The class that a deadline server serves. Each CPU has one server per kind.
///
/// A new kind is one variant with its lines here and its initial parameters
/// (`Settings::server_params`). The tasks that it serves follow from its class, and the scheduler,
/// its timers, sums and admission iterate over [`ALL`](Self::ALL).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ServerKind {
    /// The fair class (`fair_server`).
    Fair,
    /// The class of a loaded scheduler (`ext_server`).
    Ext,
}

impl ServerKind {
    /// Every kind, in the order of the format's numbers.
    pub const ALL: [Self; 2] = [Self::Fair, Self::Ext];

    /// Returns the class that it serves.
    #[must_use]
    pub const fn class(self) -> ClassId {
        match self {
            Self::Fair => ClassId::Fair,
            Self::Ext => ClassId::Ext,
        }
    }

    /// Returns the name of the kernel's directory for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair_server",
            Self::Ext => "ext_server",
        }
    }
}

/// When a started server competes with real-time tasks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Activation {
    /// At once, by its deadline.
    Immediate,
    /// At zero laxity, if its class has not got its runtime by then.
    Deferred,
}

/// The reservation of a server: `runtime` in each `period`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ServerParams {
    /// How long its class runs per period; zero switches the server off.
    pub runtime: Duration,
    /// The period, which is also the relative deadline.
    pub period: Duration,
    /// When it competes with real-time tasks.
    pub activation: Activation,
}

impl ServerParams {
    /// The default of every kernel since 6.12: 50 ms in 1 s, deferred.
    pub const DEFAULT: Self =
        Self { runtime: Duration::from_millis(50), period: Duration::from_secs(1), activation: Activation::Deferred };
    /// The shortest period: Linux v6.12 `kernel/sched/debug.c`, `fair_server_period_min`.
    pub const PERIOD_MIN: Duration = Duration::from_micros(100);
    /// The longest period (`fair_server_period_max`, 2^22 us).
    pub const PERIOD_MAX: Duration = Duration::from_micros(1 << 22);

    /// Returns whether it is switched on.
    #[must_use]
    pub const fn is_on(self) -> bool {
        !self.runtime.is_zero()
    }

    /// Returns whether the parameters are valid: otherwise writing them is refused (EINVAL).
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.runtime <= self.period && self.period >= Self::PERIOD_MIN && self.period <= Self::PERIOD_MAX
    }
}

/// The state of a server, as in traces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServerState {
    /// No task to serve, or the server is off.
    Stopped,
    /// It waits to see whether its class gets its share without it.
    Deferred {
        /// The zero-laxity instant: deadline less remaining runtime.
        until: Instant,
    },
    /// It is queued like a deadline task; when it is first, a task of its class runs.
    Queued {
        /// Its deadline.
        deadline: Instant,
    },
    /// Its runtime is exhausted.
    Throttled {
        /// The time of the next replenishment.
        until: Instant,
    },
}

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Deferred { until } => write!(f, "deferred until {until}"),
            Self::Queued { deadline } => write!(f, "queued, deadline {deadline}"),
            Self::Throttled { until } => write!(f, "throttled until {until}"),
        }
    }
}

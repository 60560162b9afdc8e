//! [`ServerParams`]: what a deadline server promises to the class that it serves, and [`ServerState`]: what it does.

use crate::attr::ClassId;
use crate::time::{Duration, Instant};
use core::fmt;

/// Which class a deadline server serves. Each CPU has one server per kind.
///
/// A kind is a variant with its lines here and its parameters at the start (`Settings::server_params`): whom it serves follows from its
/// class, and the scheduler, its timers, sums and admission go through [`ALL`](Self::ALL).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServerKind {
    /// The fair class (`fair_server`).
    Fair,
    /// The real-time classes. No kernel has it: it shows, in tests, that a kind is these lines and nothing else.
    #[cfg(zerolag_second_server)]
    Rt,
}

impl ServerKind {
    /// Every kind, in the order of the format's numbers.
    #[cfg(not(zerolag_second_server))]
    pub const ALL: [Self; 1] = [Self::Fair];
    /// Every kind, in the order of the format's numbers.
    #[cfg(zerolag_second_server)]
    pub const ALL: [Self; 2] = [Self::Fair, Self::Rt];

    /// Returns the class that it serves.
    #[must_use]
    pub const fn class(self) -> ClassId {
        match self {
            Self::Fair => ClassId::Fair,
            #[cfg(zerolag_second_server)]
            Self::Rt => ClassId::Rt,
        }
    }

    /// Returns the name of the kernel's directory for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair_server",
            #[cfg(zerolag_second_server)]
            Self::Rt => "rt_server",
        }
    }
}

/// When a started server comes before real-time tasks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Activation {
    /// At once, by its deadline.
    Immediate,
    /// At zero laxity, if its class has not had its runtime by then.
    Deferred,
}

/// What a server promises: `runtime` in each `period`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ServerParams {
    /// How long its class runs per period; zero switches the server off.
    pub runtime: Duration,
    /// The period, which is the relative deadline too.
    pub period: Duration,
    /// When it comes before real-time tasks.
    pub activation: Activation,
}

impl ServerParams {
    /// The server that every kernel since 6.12 starts with: 50 ms in 1 s, deferred.
    pub const DEFAULT: Self =
        Self { runtime: Duration::from_millis(50), period: Duration::from_secs(1), activation: Activation::Deferred };
    /// The shortest period: Linux v6.12 `kernel/sched/debug.c`, `fair_server_period_min`.
    pub const PERIOD_MIN: Duration = Duration::from_micros(100);
    /// The longest period (`fair_server_period_max`, 2^22 us).
    pub const PERIOD_MAX: Duration = Duration::from_micros(1 << 22);

    /// Returns whether it serves at all.
    #[must_use]
    pub const fn is_on(self) -> bool {
        !self.runtime.is_zero()
    }

    /// Returns whether the parameters make sense: otherwise writing them is refused (EINVAL).
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.runtime <= self.period && self.period >= Self::PERIOD_MIN && self.period <= Self::PERIOD_MAX
    }
}

/// What a server does, as traces say it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServerState {
    /// There is nobody to serve, or the server is off.
    Stopped,
    /// It waits whether its class gets its share by itself.
    Deferred {
        /// Until then: deadline less what is left of its runtime.
        until: Instant,
    },
    /// It is queued like a deadline task; whoever it serves runs when it is first.
    Queued {
        /// Its deadline.
        deadline: Instant,
    },
    /// Its runtime is used up.
    Throttled {
        /// When it gets the next.
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

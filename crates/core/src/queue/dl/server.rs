//! [`Server`]: the state of a deadline server. [`crate::class::dl_server`] has the rules of its
//! transitions, with a diagram.

use crate::entity::dl;
use crate::words::bandwidth::Bandwidth;
use crate::words::ids::LocalIx;
use zerolag_model::{Activation, DlParams, Instant, ServerKind, ServerParams, ServerState, SignedDuration};

/// The server that runs the current task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServedBy {
    /// That of its class.
    Class(ServerKind),
    /// That of its group, for the tasks of this local queue.
    Group(LocalIx),
}

impl ServedBy {
    /// Returns the kind of a class's server.
    pub(crate) const fn kind(self) -> Option<ServerKind> {
        match self {
            Self::Class(kind) => Some(kind),
            Self::Group(_) => None,
        }
    }
}

/// The server of one class, or of one group, on one CPU.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) params: ServerParams,
    pub(crate) state: ServerPhase,
    pub(crate) runtime_left: SignedDuration,
    pub(crate) abs_deadline: Instant,
    /// Order among equal deadlines on the run queue.
    pub(crate) seq: u64,
    /// The instant for which its timer is set.
    pub(crate) timer: Option<Instant>,
    /// The instant for which a kernel's timer was set last; [`Server::timer`] can be earlier.
    pub(crate) due: Instant,
    /// The remaining runtime when the server was stopped; it determines the 0-lag time.
    pub(crate) left_when_stopped: SignedDuration,
}

/// The state of a server; [`crate::class::dl_server`] has the diagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerPhase {
    Stopped,
    Interrupted,
    Deferred,
    /// As [`ServerPhase::Deferred`]; its CPU has idled for its runtime, and idles still.
    Idle,
    Queued(Since),
    Throttled {
        until: Instant,
    },
}

/// The event since which a server is queued. It decides whether a server that is stopped and
/// started again can continue at once (`dl_defer_running`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Since {
    /// Its start.
    Start,
    /// Its zero-laxity instant: its class had starved until then.
    ZeroLaxity,
}

impl ServerPhase {
    pub(crate) const fn is_started(self) -> bool {
        match self {
            Self::Stopped | Self::Interrupted => false,
            Self::Deferred | Self::Idle | Self::Queued(_) | Self::Throttled { .. } => true,
        }
    }
}

impl Server {
    pub(crate) const fn new(params: ServerParams) -> Self {
        Self {
            params,
            state: ServerPhase::Stopped,
            runtime_left: SignedDuration::from_nanos(0),
            abs_deadline: Instant::ZERO,
            seq: 0,
            timer: None,
            due: Instant::ZERO,
            left_when_stopped: SignedDuration::from_nanos(0),
        }
    }

    /// Returns whether its bandwidth is active (`running_bw`): while it is started, and after that
    /// until its 0-lag time.
    pub(crate) fn is_active(&self, now: Instant) -> bool {
        self.state.is_started() || self.zero_lag().is_some_and(|at| now < at)
    }

    /// Returns when a stopped server's bandwidth ceases to be active.
    pub(crate) fn zero_lag(&self) -> Option<Instant> {
        let is_on = self.params.is_on() && !self.state.is_started();
        is_on.then(|| dl::zero_lag(entity_params(self.params), self.abs_deadline, self.left_when_stopped))
    }

    pub(crate) const fn params(&self) -> ServerParams {
        self.params
    }

    /// Returns its deadline and its order among equals, if it is queued.
    pub(crate) const fn queued(&self) -> Option<(Instant, u64)> {
        match self.state {
            ServerPhase::Queued(_) => Some((self.abs_deadline, self.seq)),
            ServerPhase::Stopped
            | ServerPhase::Interrupted
            | ServerPhase::Deferred
            | ServerPhase::Idle
            | ServerPhase::Throttled { .. } => None,
        }
    }

    /// Returns its state and its remaining runtime.
    pub(crate) const fn shows(&self) -> (ServerState, SignedDuration) {
        let state = match self.state {
            ServerPhase::Stopped | ServerPhase::Interrupted => ServerState::Stopped,
            ServerPhase::Deferred | ServerPhase::Idle => ServerState::Deferred { until: self.zero_laxity() },
            ServerPhase::Queued(_) => ServerState::Queued { deadline: self.abs_deadline },
            ServerPhase::Throttled { until } => ServerState::Throttled { until },
        };
        (state, self.runtime_left)
    }

    pub(crate) const fn is_exhausted(&self) -> bool {
        self.runtime_left.as_nanos() <= 0
    }

    pub(crate) const fn is_deferred(&self) -> bool {
        matches!(self.params.activation, Activation::Deferred)
    }

    pub(crate) const fn zero_laxity(&self) -> Instant {
        let left = SignedDuration::from_nanos(-self.runtime_left.as_nanos());
        self.abs_deadline.saturating_offset(left)
    }

    pub(crate) fn begin_period(&mut self, now: Instant) {
        self.abs_deadline = now.saturating_add(self.params.period);
        self.runtime_left = self.params.runtime.to_signed();
    }

    /// Returns whether the remaining runtime exceeds the bandwidth until the deadline.
    pub(crate) fn overflows(&self, now: Instant) -> bool {
        dl::overflows(self.runtime_left, self.abs_deadline, entity_params(self.params), now)
    }

    /// Trims the remaining runtime to the part that the bandwidth allows until the deadline:
    /// `update_dl_revised_wakeup`.
    pub(crate) fn trim_runtime(&mut self, now: Instant) {
        let ServerParams { runtime, period, .. } = self.params;
        let laxity = self.abs_deadline.since(now);
        self.runtime_left = laxity.mul_div_floor(runtime.as_nanos(), period.as_nanos()).to_signed();
    }

    /// \[6\] Begins the next period; a server in debt skips as many periods as the debt takes.
    pub(crate) fn replenish(&mut self, now: Instant) {
        let debt = (-self.runtime_left).max_zero();
        let periods = debt.as_nanos() / self.params.runtime.as_nanos() + 1;
        self.runtime_left = self.runtime_left + (self.params.runtime * periods).to_signed();
        self.abs_deadline = self.abs_deadline.saturating_add(self.params.period * periods);
        if self.abs_deadline < now {
            self.begin_period(now);
        }
    }
}

/// Returns the parameters of a server in the form of a task's.
const fn entity_params(params: ServerParams) -> DlParams {
    DlParams::new(params.runtime, params.period, params.period)
}

/// Returns the bandwidth that a server takes from its root domain.
pub(crate) const fn bandwidth(params: ServerParams) -> Bandwidth {
    Bandwidth::of(entity_params(params))
}

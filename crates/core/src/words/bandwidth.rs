//! Shares of a CPU: [`Bandwidth`], and the limits that the deadline class and RT throttling set on
//! it.

use crate::words::ids::DomainId;
use zerolag_model::{DlParams, Duration, RtBandwidth};

/// The real-time limit of all CPUs; each CPU adopts it on its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RtLimit {
    pub(crate) bandwidth: RtBandwidth,
    /// The number of times that the limit was set. CPUs with equal numbers lend runtime to each
    /// other.
    pub(crate) round: u32,
}

/// A share of one CPU in units of 2^-20 (`BW_SHIFT`), rounded down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Bandwidth(pub(crate) u64);

impl Bandwidth {
    /// Returns runtime/period: `to_ratio`.
    pub(crate) const fn of(params: DlParams) -> Self {
        Self::ratio(params.runtime, params.period)
    }

    /// Returns the share of real-time tasks; that of no limit is a whole CPU.
    pub(crate) const fn of_rt(bandwidth: RtBandwidth) -> Self {
        match bandwidth.runtime {
            Some(runtime) => Self::ratio(runtime, bandwidth.period),
            None => Self(1 << 20),
        }
    }

    const fn ratio(runtime: Duration, period: Duration) -> Self {
        Self((runtime.as_nanos() << 20) / period.as_nanos())
    }
}

/// The share of each CPU that the deadline tasks of a root domain can reserve, and the rate at
/// which reclaiming tasks use their budgets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DlLimit {
    /// Linux: `dl_bw.bw`. `None` means no limit: every task is admitted.
    pub(crate) admitted: Option<Bandwidth>,
    /// The inverse of [`share`](Self::share) in units of 2^-8 (`bw_ratio`, `RATIO_SHIFT`).
    pub(crate) inverse: u64,
}

impl DlLimit {
    /// Returns the limit that follows from the limit of real-time tasks: Linux v6.12
    /// `kernel/sched/deadline.c`, `sched_dl_do_global`, `init_dl_rq_bw_ratio`.
    pub(crate) fn of(global: RtBandwidth) -> Self {
        let Some(runtime) = global.runtime else { return Self { admitted: None, inverse: 1 << 8 } };
        let inverse = if runtime.is_zero() { 0 } else { Bandwidth::ratio(global.period, runtime).0 >> 12 };
        Self { admitted: Some(Bandwidth::ratio(runtime, global.period)), inverse }
    }

    /// Returns the share for calculations; a whole CPU if there is no limit (`max_bw`).
    pub(crate) fn share(self) -> Bandwidth {
        self.admitted.unwrap_or(Bandwidth(1 << 20))
    }
}

/// The bandwidth that a task has reserved in a root domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reserved {
    /// The root domain in which it is booked.
    pub(crate) domain: DomainId,
    pub(crate) bandwidth: Bandwidth,
}

//! [`Account`]: the CPU time that a group may still use, and the polls that wait for more.
//!
//! The account is one CPU of the core's pool ([`zerolag_core::bandwidth`]), so slices, debts,
//! bursts and periods are those of the scheduler and of the kernel. A poll is charged after it has
//! run; a debt is paid by the periods that follow.
//!
//! Until then others of the group see the quota that it has not paid for, and would start beside it
//! on every thread. So what long polls in progress usually take is *held* (`hold`): it counts as
//! used, but is no charge. While something is held, a poll begins only if there is quota for what
//! it will take itself. So a group is over its quota by one long poll, not by one on each thread.
//!
//! ```text
//!               balance used up, the pool has none [1]
//!     Open  ----------------------------------------------> Throttled
//!      ^                                                        |
//!      +---- the end of a period pays the debt [2] -------------+
//! ```
//!
//! No timer runs while nothing waits: periods that have ended are made up for at the next look at
//! the account. While polls wait, the first of them has the timer \[2\]. It wakes the second when
//! it goes, so the end of a period wakes one poll, however many wait.

use crate::queue::Queue;
use crate::units::to_model;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use zerolag_core::bandwidth::{Pool, QuotaRequest};
use zerolag_model::settings::BandwidthControl;
use zerolag_model::{CpuId, CpuMax, CpuStat, Instant, SignedDuration};

/// The account is the only CPU of its pool.
const ACCOUNT: CpuId = CpuId(0);

/// The slice of groups without one of their own (`sched_cfs_bandwidth_slice_us`).
const SLICE: std::time::Duration = std::time::Duration::from_millis(5);

/// See the [module](self).
pub(crate) struct Account {
    is_limited: AtomicBool,
    /// The CPU time that is left of the last slice, in nanoseconds; negative is a debt.
    balance: AtomicI64,
    /// What the polls in progress will take, in nanoseconds.
    held: AtomicI64,
    pub(crate) queue: Queue,
    quota: Mutex<Quota>,
}

struct Quota {
    pool: Pool,
    /// The end of the period, while the pool's timer runs.
    ends: Option<Instant>,
    /// When the pool had no quota for the account.
    throttled: Option<Instant>,
}

impl Account {
    pub(crate) fn new() -> Self {
        let quota = Quota { pool: Pool::new(BandwidthControl::Pool, 1), ends: None, throttled: None };
        Self {
            is_limited: AtomicBool::new(false),
            balance: AtomicI64::new(0),
            held: AtomicI64::new(0),
            queue: Queue::default(),
            quota: Mutex::new(quota),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Quota> {
        self.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a poll that will take `usual` nanoseconds begins without a look at the pool.
    pub(crate) fn is_open(&self, usual: u64) -> bool {
        !self.is_limited.load(Ordering::Relaxed) || self.room(usual).as_nanos() > 0
    }

    /// Returns whether a group that is removed would leave a debt.
    #[cfg(any(test, feature = "tower"))]
    pub(crate) fn owes(&self) -> bool {
        self.is_limited.load(Ordering::Relaxed) && self.balance.load(Ordering::Relaxed) < 0
    }

    /// Charges CPU time that was used.
    pub(crate) fn charge(&self, nanos: u64) {
        if self.is_limited.load(Ordering::Relaxed) {
            self.balance.fetch_sub(nanos.cast_signed(), Ordering::Relaxed);
        }
    }

    /// A poll begins that will probably take so long.
    pub(crate) fn hold(&self, nanos: u64) {
        self.held.fetch_add(nanos.cast_signed(), Ordering::SeqCst);
    }

    /// A poll that held so much has been charged. Returns the waker of a poll that waits, if the
    /// account is open now.
    #[must_use = "a waiting poll is woken"]
    pub(crate) fn let_go(&self, nanos: u64) -> Option<Waker> {
        self.held.fetch_sub(nanos.cast_signed(), Ordering::SeqCst);
        self.is_open(0).then(|| self.queue.first()).flatten()
    }

    /// Returns the quota that is left for a poll that will take `usual` nanoseconds beside those in
    /// progress. The only one may begin with any quota: it could be longer than all of a period.
    fn room(&self, usual: u64) -> SignedDuration {
        let (balance, held) = (self.balance.load(Ordering::Relaxed), self.held.load(Ordering::SeqCst));
        let expected = if held > 0 { held + usual.cast_signed() } else { 0 };
        SignedDuration::from_nanos(balance - expected)
    }

    fn pay_in(&self, amount: zerolag_model::Duration) {
        self.balance.fetch_add(amount.as_nanos().cast_signed(), Ordering::Relaxed);
    }

    /// Takes quota for a poll that will take `usual` nanoseconds; returns `None` if there is some,
    /// and otherwise when there will be.
    pub(crate) fn closed_until(&self, now: Instant, usual: u64) -> Option<Instant> {
        let mut quota = self.lock();
        self.catch_up(&mut quota, now);
        if self.is_open(usual) {
            // A poll took less than was held for it.
            if let Some(since) = quota.throttled.take() {
                quota.pool.release(ACCOUNT, now.since(since));
            }
            return None;
        }
        if quota.throttled.is_none() {
            let slice = to_model(SLICE);
            let slice = quota.pool.max().slice.unwrap_or(slice);
            let missing = SignedDuration::from_nanos(slice.as_nanos().cast_signed() - self.room(usual).as_nanos());
            let taken = quota.pool.take(now, ACCOUNT, QuotaRequest::exactly(missing.max_zero()));
            self.pay_in(taken.amount);
            quota.ends = taken.arm.or(quota.ends);
            if self.is_open(usual) {
                return None;
            }
            let balance = self.room(usual);
            let taken = quota.pool.throttle(now, ACCOUNT, balance); // [1]
            let is_throttled = balance.as_nanos() + taken.amount.as_nanos().cast_signed() <= 0;
            self.pay_in(taken.amount);
            quota.ends = taken.arm.or(quota.ends);
            if !is_throttled {
                return None;
            }
            quota.throttled = Some(now);
        }
        Some(quota.ends.expect("invariant: the timer of a pool without quota runs"))
    }

    /// Handles the ends of periods up to now. O(periods of a throttled account).
    fn catch_up(&self, quota: &mut Quota, now: Instant) {
        while let Some(ends) = quota.ends.filter(|ends| *ends <= now) {
            let Some(refreshed) = quota.pool.refresh(ends) else {
                quota.ends = None;
                return;
            };
            quota.ends = refreshed.arm;
            if let Some(since) = quota.throttled {
                let balance = self.room(0);
                let share = quota.pool.share(ACCOUNT, balance, ends.since(since)); // [2]
                self.pay_in(share.amount);
                if balance.as_nanos() + share.amount.as_nanos().cast_signed() > 0 {
                    quota.throttled = None;
                }
            }
        }
    }

    /// Sets the limit. The account begins anew, without debt, as that of a CPU in the kernel
    /// (`tg_set_cfs_bandwidth`). Returns the waker of a poll that waits.
    #[must_use = "a waiting poll is woken"]
    pub(crate) fn set(&self, now: Instant, max: CpuMax) -> Option<Waker> {
        let mut quota = self.lock();
        self.catch_up(&mut quota, now);
        if let Some(since) = quota.throttled.take() {
            quota.pool.release(ACCOUNT, now.since(since));
        }
        quota.ends = quota.pool.set(now, max).arm.or(quota.ends);
        self.balance.store(1, Ordering::Relaxed);
        self.is_limited.store(max.quota.is_some(), Ordering::Relaxed);
        drop(quota);
        self.queue.first()
    }

    pub(crate) fn max(&self) -> CpuMax {
        self.lock().pool.max()
    }

    pub(crate) fn stat(&self) -> CpuStat {
        self.lock().pool.stat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::Duration;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + MS * ms
    }

    fn account(quota: u64, burst: u64) -> Account {
        let account = Account::new();
        let max = CpuMax { quota: Some(MS * quota), burst: MS * burst, ..CpuMax::UNLIMITED };
        assert!(account.set(at(0), max).is_none(), "nothing waits");
        account
    }

    fn uses(account: &Account, ms: u64) {
        account.charge((MS * ms).as_nanos());
    }

    #[test]
    fn a_poll_too_long_is_paid_for_by_the_periods_that_follow() {
        shuttle::check_random(
            || {
                let account = account(10, 0);
                assert_eq!(account.closed_until(at(5), 0), None);
                uses(&account, 35);
                assert_eq!(account.closed_until(at(40), 0), Some(at(100)), "25 ms are owed");
                assert_eq!(account.closed_until(at(100), 0), Some(at(200)));
                assert_eq!(account.closed_until(at(200), 0), Some(at(300)));
                assert_eq!(account.closed_until(at(300), 0), None);
                assert_eq!(account.stat().nr_throttled, 3);
                assert_eq!(account.stat().throttled, MS * 260);
            },
            1,
        );
    }

    #[test]
    fn periods_without_a_look_are_made_up_for() {
        shuttle::check_random(
            || {
                let account = account(10, 0);
                uses(&account, 35);
                assert_eq!(account.closed_until(at(40), 0), Some(at(100)));
                assert_eq!(account.closed_until(at(950), 0), None, "nine periods pay 25 ms, and no more is saved up");
                uses(&account, 11);
                assert_eq!(account.closed_until(at(950), 0), Some(at(1000)));
            },
            1,
        );
    }

    #[test]
    fn a_burst_is_the_pools() {
        shuttle::check_random(
            || {
                let account = account(10, 10);
                for n in 0..3 {
                    assert_eq!(account.closed_until(at(100 * n + 5), 0), None);
                    uses(&account, 1);
                }
                // It had 5 ms of the first slice, and the pool is full: 10 ms and 10 ms of burst.
                uses(&account, 4);
                assert_eq!(account.closed_until(at(305), 0), None);
                uses(&account, 18);
                assert_eq!(account.closed_until(at(305), 0), None);
                uses(&account, 6);
                assert_eq!(account.closed_until(at(305), 0), Some(at(400)));
                assert_eq!(account.closed_until(at(400), 0), None);
                assert_eq!(account.stat().nr_bursts, 1, "it is counted at the end of its period");
            },
            1,
        );
    }

    #[test]
    fn what_a_poll_in_progress_will_take_is_not_given_to_others() {
        shuttle::check_random(
            || {
                const USUAL: u64 = 51_000_000;
                let account = account(50, 0);
                assert_eq!(account.closed_until(at(0), USUAL), None);
                account.hold(USUAL);
                assert_eq!(account.closed_until(at(1), USUAL), Some(at(100)), "the first has all of it");
                uses(&account, 51);
                assert!(account.let_go(USUAL).is_none(), "nothing waits");
                assert_eq!(account.closed_until(at(50), USUAL), Some(at(100)), "it has used it");
                assert_eq!(account.closed_until(at(100), USUAL), None);
                assert_eq!(account.stat().throttled, MS * 99);

                account.hold(USUAL);
                assert_eq!(account.closed_until(at(101), USUAL), Some(at(200)));
                uses(&account, 10);
                assert!(account.let_go(USUAL).is_none(), "nothing waits");
                assert_eq!(account.closed_until(at(111), USUAL), None, "it took less");
                assert_eq!(account.stat().throttled, MS * 109);
                uses(&account, 40);
                assert_eq!(account.closed_until(at(151), USUAL), Some(at(200)), "no quota was lost or made");
            },
            1,
        );
    }

    #[test]
    fn a_limit_is_removed() {
        shuttle::check_random(
            || {
                let account = account(10, 0);
                uses(&account, 500);
                assert!(account.owes());
                assert!(account.closed_until(at(5), 0).is_some());
                assert!(account.set(at(6), CpuMax::UNLIMITED).is_none());
                assert!(account.is_open(0) && !account.owes());
                uses(&account, 500);
                assert_eq!(account.closed_until(at(7), 0), None);
            },
            1,
        );
    }
}

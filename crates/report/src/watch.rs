//! [`Watch`]: the triggers of a group on its pressure, as the kernel looks at them.
//!
//! ```text
//!  quiet --[1: a CPU stalls]--> timer --[2: a tick later]--> windows begin, polling
//!  polling --[3: every tenth of the shortest window]--> growth of each window, events
//!  polling --[4: nothing stalled for the shortest window]--> quiet
//! ```
//!
//! A window slides by approximation: the growth of the one before counts for the part of the window
//! that is still to come, and a window begins anew when it is over. A trigger that has reached its
//! threshold is pending until it fires, which is once per window at most.
//!
//! All of this is for triggers of users with CAP_SYS_RESOURCE. For others no thread of the kernel
//! polls: their windows begin with the trigger, and they are looked at before the averages are
//! sampled, every 2 s and a tick.
//!
//! Sources: Linux v6.18 `kernel/sched/psi.c`, `psi_trigger_create`, `psi_group_change`,
//! `psi_schedule_rtpoll_work`, `psi_rtpoll_work`, `init_rtpoll_triggers`, `window_update`,
//! `update_triggers`, `psi_avgs_work`; v6.2 for the same under the names without `rt`. differs: the
//! thread that looks (`psimon`, SCHED_FIFO 1) is not a task here, so it is never late. Since 6.7
//! nothing is looked at in an update without a stall, which is the rule here.

use crate::summary::Fired;
use zerolag_model::{Duration, Instant, PressureTrigger, Stall};

/// A window has so many updates (`UPDATES_PER_WINDOW`).
const UPDATES_PER_WINDOW: u64 = 10;

/// The triggers of a group.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Those that are polled, and those that are looked at with the averages.
    polled: Vec<Trigger>,
    averaged: Vec<Trigger>,
    /// The time between updates.
    period: Duration,
    /// When they are looked at next, while that is planned.
    timer: Option<Instant>,
    /// Polling goes on until then.
    until: Option<Instant>,
    /// When windows are updated next.
    next_update: Instant,
    /// The time of `some` and of `full`, and that of the last update.
    totals: [Duration; 2],
    updated: [Duration; 2],
}

/// A trigger.
#[derive(Clone, Copy, Debug)]
struct Trigger {
    what: PressureTrigger,
    /// The begin of its window, and the total then.
    since: Instant,
    at_begin: Duration,
    /// The growth of the window before.
    before: Duration,
    is_pending: bool,
    last: Option<Instant>,
    first: Option<Instant>,
    events: u64,
}

const fn index(stall: Stall) -> usize {
    match stall {
        Stall::Some => 0,
        Stall::Full => 1,
    }
}

/// Returns the instant so many ticks after the one before now.
fn in_ticks(now: Instant, ticks: u64, (start, tick): (Instant, Duration)) -> Instant {
    let passed = now.since(start).as_nanos() / tick.as_nanos().max(1);
    start.saturating_add(tick.saturating_mul(passed.saturating_add(ticks)))
}

impl Trigger {
    fn begin(&mut self, now: Instant, total: Duration, before: Duration) {
        (self.since, self.at_begin, self.before) = (now, total, before);
    }

    /// Returns how much the total has grown in the window that ends now (`window_update`).
    fn growth(&mut self, now: Instant, total: Duration) -> Duration {
        let (elapsed, growth) = (now.since(self.since), total.saturating_sub(self.at_begin));
        let window = self.what.window;
        if elapsed > window {
            self.begin(now, total, growth);
            return growth;
        }
        let remaining = window.saturating_sub(elapsed);
        growth.saturating_add(self.before.mul_div_floor(remaining.as_nanos(), window.as_nanos()))
    }

    /// Looks at it after a stall (`update_triggers`).
    fn update(&mut self, now: Instant, total: Duration, has_grown: bool) {
        if has_grown {
            let growth = self.growth(now, total);
            self.is_pending |= growth >= self.what.threshold;
        }
        if self.is_pending && self.last.is_none_or(|last| now.since(last) >= self.what.window) {
            self.events += 1;
            self.first.get_or_insert(now);
            self.last = Some(now);
            self.is_pending = false;
        }
    }
}

impl Watch {
    /// Returns a watch on triggers from now on, if there are some.
    pub(crate) fn new(now: Instant, triggers: impl Iterator<Item = PressureTrigger>) -> Option<Box<Self>> {
        let new = |what| Trigger {
            what,
            since: now,
            at_begin: Duration::ZERO,
            before: Duration::ZERO,
            is_pending: false,
            last: None,
            first: None,
            events: 0,
        };
        let (polled, averaged): (Vec<_>, Vec<_>) = triggers.map(new).partition(|trigger| trigger.what.is_privileged);
        if polled.is_empty() && averaged.is_empty() {
            return None;
        }
        let period = polled.iter().map(|trigger| trigger.what.window / UPDATES_PER_WINDOW).min();
        Some(Box::new(Self {
            polled,
            averaged,
            period: period.unwrap_or_default(),
            timer: None,
            until: None,
            next_update: Instant::FAR_FUTURE,
            totals: [Duration::ZERO; 2],
            updated: [Duration::ZERO; 2],
        }))
    }

    /// Returns the stalls at which polling begins.
    pub(crate) fn stalls(&self) -> impl Iterator<Item = Stall> + '_ {
        self.polled.iter().map(|trigger| trigger.what.stall)
    }

    /// Returns when it is to be looked at.
    pub(crate) fn due(&self) -> Instant {
        self.timer.unwrap_or(Instant::FAR_FUTURE)
    }

    /// A CPU stalls; returns when it is looked at. `grid` are the first tick and the time between
    /// ticks.
    pub(crate) fn arm(&mut self, now: Instant, grid: (Instant, Duration)) -> Instant {
        *self.timer.get_or_insert_with(|| in_ticks(now, 1, grid)) // [1]
    }

    /// Looks at the triggers of users without CAP_SYS_RESOURCE. `totals` are the times of `some`
    /// and of `full` until now, `sampled` those that the averages have.
    pub(crate) fn average(&mut self, now: Instant, totals: [Duration; 2], sampled: [Duration; 2]) {
        for trigger in &mut self.averaged {
            let at = index(trigger.what.stall);
            trigger.update(now, totals[at], totals[at] != sampled[at]);
        }
    }

    /// Looks at the triggers that are polled. `grown` is how much `some` and `full` have grown
    /// since the last look, `stalled` whether a CPU was in them at all.
    pub(crate) fn poll(&mut self, now: Instant, grown: [Duration; 2], stalled: [bool; 2], grid: (Instant, Duration)) {
        for (total, grown) in self.totals.iter_mut().zip(grown) {
            *total = total.saturating_add(grown);
        }
        let is_over = |until: Option<Instant>| until.is_none_or(|until| now > until);
        let has_stalled = self.stalls().any(|stall| stalled[index(stall)]);
        if has_stalled {
            if is_over(self.until) {
                for trigger in &mut self.polled {
                    trigger.begin(now, self.totals[index(trigger.what.stall)], Duration::ZERO); // [2]
                }
                self.updated = self.totals;
                self.next_update = now.saturating_add(self.period);
            }
            self.until = Some(now.saturating_add(self.period.saturating_mul(UPDATES_PER_WINDOW)));
        }
        if is_over(self.until) {
            (self.timer, self.next_update) = (None, Instant::FAR_FUTURE); // [4]
            return;
        }
        if now >= self.next_update {
            if has_stalled {
                for trigger in &mut self.polled {
                    let at = index(trigger.what.stall);
                    trigger.update(now, self.totals[at], self.totals[at] != self.updated[at]); // [3]
                }
                self.updated = self.totals;
            }
            self.next_update = now.saturating_add(self.period);
        }
        let ticks = self.next_update.since(now).as_nanos() / grid.1.as_nanos().max(1) + 1;
        self.timer = Some(in_ticks(now, ticks, grid));
    }

    /// Returns how often the triggers on a stall have fired; `None` without one.
    pub(crate) fn fired(&self, stall: Stall, start: Instant) -> Option<Fired> {
        let of = || self.polled.iter().chain(&self.averaged).filter(|trigger| trigger.what.stall == stall);
        of().next()?;
        let first = of().filter_map(|trigger| trigger.first).min();
        Some(Fired { events: of().map(|trigger| trigger.events).sum(), first: first.map(|at| at.since(start)) })
    }
}

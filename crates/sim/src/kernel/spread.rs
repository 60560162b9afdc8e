//! [`Draws`]: how much longer than its entry of the costs an operation takes, and how late a timer
//! of a task is, drawn for each.
//!
//! A cost is one number, and no operation of a host always takes the same time: caches are cold, a
//! line is at another CPU, firmware or a hypervisor takes a part. What comes on top is a [`Sketch`]
//! per kind of operation, each drawn from a stream of its own, so that one entry more changes no
//! draws of the others.

use crate::costs::Costs;
use crate::sketch::{Sketch, WHOLE};
use zerolag_model::Duration;
use zerolag_workload::Stream;

/// An operation whose time is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drawn {
    /// A switch to another task (`switch_late`).
    Switch,
    /// A wakeup that puts a task on a run queue (`wakeup_late`).
    Wakeup,
    /// Moving a task to another run queue (`migrate_late`).
    Move,
}

/// The draws of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Draws {
    /// How late timers of tasks are, if they are ever late.
    lateness: Option<Stream>,
    /// How long operations take, if that is drawn.
    spreads: Option<Box<Spreads>>,
}

impl Draws {
    /// Starts the draws of timers from a seed, if the costs have any.
    pub(super) fn start_lateness(&mut self, costs: &Costs, seed: u64) {
        let is_ever_late = !costs.timer_late.is_zero();
        self.lateness = is_ever_late.then(|| Stream::new(seed, "timers", 0, "lateness"));
    }

    /// Starts the draws of operations from a seed, if the costs have any.
    pub(super) fn start_spreads(&mut self, costs: &Costs, seed: u64) {
        self.spreads = Spreads::new(costs, seed);
    }

    /// Draws how late a timer is.
    #[inline]
    pub(super) fn lateness(&mut self, costs: &Costs) -> Duration {
        self.lateness.as_mut().map_or(Duration::ZERO, |stream| costs.timer_late.at(stream.below(WHOLE)))
    }

    /// Returns whether operations take drawn times.
    #[inline(always)]
    pub(super) const fn has_spreads(&self) -> bool {
        self.spreads.is_some()
    }

    /// Draws what an operation takes on top of its entry.
    pub(super) fn more(&mut self, costs: &Costs, what: Drawn) -> Duration {
        self.spreads.as_deref_mut().map_or(Duration::ZERO, |spreads| spreads.draw(costs, what))
    }
}

/// The streams of the operations.
#[derive(Clone, Debug)]
struct Spreads([Stream; 3]);

/// Returns the entry of an operation.
const fn sketch_of(costs: &Costs, what: Drawn) -> &Sketch {
    match what {
        Drawn::Switch => &costs.switch_late,
        Drawn::Wakeup => &costs.wakeup_late,
        Drawn::Move => &costs.migrate_late,
    }
}

impl Spreads {
    /// Starts the streams of a seed; `None` if the costs draw no operation.
    fn new(costs: &Costs, seed: u64) -> Option<Box<Self>> {
        let is_zero = |what| sketch_of(costs, what).is_zero();
        if [Drawn::Switch, Drawn::Wakeup, Drawn::Move].into_iter().all(is_zero) {
            return None;
        }
        let streams = ["switch", "wakeup", "move"].map(|name| Stream::new(seed, name, 0, "spread"));
        Some(Box::new(Self(streams)))
    }

    /// Draws what an operation takes on top of its entry.
    #[cold]
    fn draw(&mut self, costs: &Costs, what: Drawn) -> Duration {
        let sketch = sketch_of(costs, what);
        if sketch.is_zero() { Duration::ZERO } else { sketch.at(self.0[what as usize].below(WHOLE)) }
    }
}

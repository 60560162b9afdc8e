//! [`Spreads`]: how much longer than its entry of the costs an operation takes, drawn for each.
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

/// The streams of the draws.
#[derive(Clone, Debug)]
pub(super) struct Spreads([Stream; 3]);

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
    pub(super) fn new(costs: &Costs, seed: u64) -> Option<Box<Self>> {
        let is_zero = |what| sketch_of(costs, what).is_zero();
        if [Drawn::Switch, Drawn::Wakeup, Drawn::Move].into_iter().all(is_zero) {
            return None;
        }
        let streams = ["switch", "wakeup", "move"].map(|name| Stream::new(seed, name, 0, "spread"));
        Some(Box::new(Self(streams)))
    }

    /// Draws what an operation takes on top of its entry.
    #[cold]
    pub(super) fn draw(&mut self, costs: &Costs, what: Drawn) -> Duration {
        let sketch = sketch_of(costs, what);
        if sketch.is_zero() { Duration::ZERO } else { sketch.at(self.0[what as usize].below(WHOLE)) }
    }
}

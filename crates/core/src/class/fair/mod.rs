//! The fair class: SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, and groups of them, on one CPU.
//!
//! | module | decides |
//! |---|---|
//! | [`mod@enqueue`] | how an entity joins and leaves a queue, and the groups above with it |
//! | [`run`] | which entity runs, and for how long |
//! | [`delay`] | when an entity that blocks with negative lag leaves |
//! | [`preempt`] | whether a woken task runs before the current one |
//! | [`groups`] | which queues a CPU has, and the weight of a group here |
//! | [`bandwidth`], [`throttle`], [`boost`], [`park`] | when a group with a quota runs |
//! | [`mod@preferred_cache`] | which cache the tasks of a process prefer |
//! | [`load`], [`capacity`], [`misfit`] | nothing: they measure |
//!
//! Eight of them call each other: [`mod@enqueue`], [`run`], [`delay`], [`groups`], [`bandwidth`],
//! [`throttle`], [`boost`] and [`park`]. A task that joins can throttle its group; a group that is
//! unthrottled lets tasks join; a pick can end a delayed dequeue, which can empty a group. They are
//! one recursion over the tree of groups, cut into files by the decision that each makes.
//!
//! Every entry point is O(depth x log n). Nothing is allocated once the arenas have grown to the
//! largest number of queued entities.
//!
//! Sources: Linux v6.12 and v6.1 `kernel/sched/fair.c` (see the modules).

pub(crate) mod bandwidth;
pub(crate) mod boost;
pub(crate) mod capacity;
pub(crate) mod delay;
pub(crate) mod enqueue;
pub(crate) mod flat;
pub(crate) mod groups;
pub(crate) mod load;
pub(crate) mod misfit;
pub(crate) mod park;
pub(crate) mod preempt;
pub(crate) mod preferred_cache;
pub(crate) mod run;
pub(crate) mod throttle;

pub(crate) use delay::{finish_delayed, finish_if_only_delayed, is_delayed, wake_delayed};
pub(crate) use enqueue::{dequeue, enqueue};
pub(crate) use preempt::check_preempt;
pub(crate) use run::{charge, follow_weights, hrtick, pick, put_prev, set_next, tick, yield_current};

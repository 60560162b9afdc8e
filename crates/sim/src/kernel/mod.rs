//! The simulated kernel: CPUs, run-queue locks, IPIs, kernel paths, timers, and the bodies of
//! tasks.
//!
//! It hosts the core and accounts time. What tasks do, which devices interrupt them and what is
//! changed from outside is known to the parts above; the kernel sees [`words`] of theirs.
//!
//! | module | holds |
//! |---|---|
//! | [`words`] | events, interrupts, jobs |
//! | [`cpu`], [`rq_lock`], [`body`] | the state of a CPU, of its lock, of a task |
//! | [`time`], [`ticking`], [`timing`], [`group_timers`] | the state of the event loop, of ticks, of timers |
//! | [`calls`], [`cache_lines`], [`shared_lines`], [`spread`], [`softirq_threads`], [`menu`], [`books`] | the state of calls of the core, of lines that all CPUs write (as a queue, or with owners), of draws, of threads, of guesses of idle times, of records and counts |
//! | [`rules`] | what settings and costs say, once for a run |
//! | [`state`] | [`Kernel`](state::Kernel), which is made of these, and access to it for the parts above |
//! | [`timers`], [`ticks`] | when the core is called again |
//! | [`path`] | how a CPU enters and leaves the kernel |
//! | [`standstill`] | times in which a CPU does nothing |
//! | [`softirq`] | deferred work: at the end of an interrupt, or for threads |
//! | [`locks`], [`ipi`], [`io`] | calls of the core: the locks that they take, the interrupts and time that follow |
//! | [`wake`], [`switch`], [`own`], [`mode`], [`proxy`] | jobs: one call of the core each |
//! | [`spin_on_owner`] | tasks that spin while the holder of a lock runs |
//! | [`totals`] | the books, at the end |

pub(crate) mod body;
pub(crate) mod books;
pub(crate) mod cache_lines;
pub(crate) mod calls;
pub(crate) mod cpu;
pub(crate) mod extension;
pub(crate) mod group_timers;
pub(crate) mod io;
pub(crate) mod ipi;
pub(crate) mod locks;
pub(crate) mod menu;
pub(crate) mod mode;
pub(crate) mod own;
pub(crate) mod path;
pub(crate) mod policy;
pub(crate) mod proxy;
pub(crate) mod rq_lock;
pub(crate) mod rules;
pub(crate) mod shared_lines;
pub(crate) mod softirq;
pub(crate) mod softirq_threads;
pub(crate) mod spin_on_owner;
pub(crate) mod spread;
pub(crate) mod standstill;
pub(crate) mod state;
pub(crate) mod switch;
pub(crate) mod ticking;
pub(crate) mod ticks;
pub(crate) mod time;
pub(crate) mod timers;
pub(crate) mod timing;
pub(crate) mod totals;
pub(crate) mod wake;
pub(crate) mod words;

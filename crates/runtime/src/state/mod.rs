//! The state of a runtime, as data: what an engine owns, and what its parts know of themselves.
//!
//! An engine owns its tasks, a task is in a group, and a group belongs to an engine, so these three
//! types name each other. When the behaviour of a part stood beside its data, everything that the
//! engine owns used the engine, and 21 modules could only be read and moved together. So the data
//! is here, below all behaviour: a module of this room makes no call of the scheduler, starts no
//! thread and calls no code of the users.
//!
//! * What the engine owns of a part is generic over tasks or groups ([`cpu_thread`], [`lock`],
//!   [`blocking`], [`detached`]), so that it names neither; `engine`, `group` and `task` alone use
//!   each other.
//! * The behaviour is in `impl Engine`, `impl Task` and so on, in the modules above.

pub(crate) mod blocking;
pub(crate) mod cpu_thread;
pub(crate) mod detached;
pub(crate) mod engine;
pub(crate) mod group;
pub(crate) mod info;
pub(crate) mod job;
pub(crate) mod join;
pub(crate) mod life;
pub(crate) mod live_tasks;
pub(crate) mod lock;
pub(crate) mod spared;
pub(crate) mod task;
pub(crate) mod time_source;
pub(crate) mod timeline;
pub(crate) mod upkeep;

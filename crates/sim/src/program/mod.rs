//! The programs of the tasks: where each task is in its program, what it waits for, and what tasks
//! share.
//!
//! A program acts on the kernel by its methods only: it starts a computation, or notes jobs such as
//! waking a task. It touches no CPU and no run queue.
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | what system calls cost their tasks |
//! | [`model`] | which definitions do the same, so that tasks share their phases |
//! | [`task`] | [`Task`](task::Task): cursor, waits, timers |
//! | [`shared`] | the state of each resource, one module per kind |
//! | [`state`] | [`Programs`](state::Programs): all tasks and resources; blocking and waking |
//! | [`act`] | the actions on resources, one module per kind |
//! | [`ahead`] | the work that a task is about to do, for policies that ask for it |
//! | [`interpret`] | the actions of a program, in order |

pub(crate) mod act;
pub(crate) mod ahead;
pub(crate) mod calls;
pub(crate) mod interpret;
pub(crate) mod model;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod task;

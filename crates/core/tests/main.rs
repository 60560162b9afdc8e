//! The tests of the core, in one program: each compiles the generic scheduler anew, which takes
//! longer than most of them run. Those of `threads/` are a second one, which ThreadSanitizer runs.

mod admission;
mod deadline_random;
mod exhaustive;
mod fair;
#[path = "support/machine.rs"]
mod machine;
mod no_alloc;
mod offline;
mod proxy;
mod pull_claimed;
mod random;
mod rt_groups;
mod rt_runtime;
mod rt_served;
mod setattr;
mod support;

//! Whole scenarios at random: what a user meets is a combination, and combinations are what tests
//! of one area never draw.
//!
//! [`draw`](fn@draw) makes a scenario from a seed and a number: machine, settings of a kernel,
//! groups with limits, partitions, tasks of all policies, locks, system calls, pipes, forks,
//! services, interrupts, and changes of all of them in mid-run, many at awkward instants: ticks,
//! ends of periods, and moments at which the run itself is in an awkward state (`aim`).
//! [`judge`](fn@judge) runs it, and finds a panic, a broken rule, a second run with other bytes, or
//! a run without a trace that does something else; [`compare`](fn@compare) runs it beside a twin
//! that must do the same; the traces of some are written, read and imported again (`trip`).
//! [`shrink`](fn@shrink) takes away what the finding does not need.
//!
//! | file | holds |
//! |---|---|
//! | [`draft`](Draft) | a scenario as parts that can be taken away |
//! | `dice` | random numbers |
//! | `draw`, `tasks`, `changes` | the generator: the world, its tasks, and what changes in mid-run |
//! | `around` | costs, the kernel's own threads, pauses, odd times |
//! | `aim` | changes moved to moments of the run: while a task is throttled, boosted, migrated, proxied |
//! | `judge` | the oracles that look at one run |
//! | `twin` | the oracles that compare two |
//! | `metamorphic` | those of them that know how the two must differ |
//! | `trip` | the oracles that write a trace, and read or import it |
//! | `pressure` | what the pressure of a run and its triggers can be |
//! | `shrink` | the search for a smaller scenario with the same finding |
//!
//! A scenario is a function of seed and number, so a finding is repeated by its number on any
//! machine.

mod aim;
mod around;
mod changes;
mod dice;
mod draft;
mod draw;
mod judge;
mod metamorphic;
mod pressure;
mod shrink;
mod tasks;
mod trip;
mod twin;

pub use dice::Dice;
pub use draft::Draft;
pub use draw::draw;
pub use judge::{Finding, Hash, Judged, is_judging, judge, judge_draft};
pub use shrink::shrink;
pub use trip::Trip;
pub use twin::{Twin, compare};

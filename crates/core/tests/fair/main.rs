//! The fair class through the scheduler's entry points, on a single-threaded host.

mod alloc;
mod balance;
mod host;
mod lag;
mod random;
mod recorded;
mod shares;
mod two_cpus;

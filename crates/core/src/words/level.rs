//! The levels of scheduling domains, and the capacity of a CPU.

use zerolag_model::Distance;

/// The levels of domains, near to far, each with the level of the groups that it balances.
pub(crate) const LEVELS: [(Distance, Distance); 4] = [
    (Distance::Smt, Distance::Same),
    (Distance::Llc, Distance::Smt),
    (Distance::Socket, Distance::Llc),
    (Distance::Remote, Distance::Socket),
];

/// Returns the number of failures up to which a level leaves cache-hot tasks alone
/// (`sd->cache_nice_tries`).
pub(crate) const fn nice_tries(level: u8) -> u8 {
    let (_, groups) = LEVELS[level as usize];
    match groups {
        Distance::Same => 0,
        Distance::Smt | Distance::Llc => 1,
        Distance::Socket | Distance::Remote => 2,
    }
}

/// The capacity of the fastest CPU when nothing else uses it (`SCHED_CAPACITY_SCALE`).
pub(crate) const FULL_CAPACITY: u64 = 1024;
/// The imbalance in percent at which another CPU counts as busier (`sd->imbalance_pct`).
pub(crate) const IMBALANCE_PCT: u64 = 117;
/// The same between the threads of a core.
pub(crate) const SMT_IMBALANCE_PCT: u64 = 110;

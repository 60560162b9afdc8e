//! The levels of scheduling domains, and the capacity of a CPU.

use zerolag_model::Distance;

/// The levels of domains, near to far, each with the level of its groups.
pub(crate) const LEVELS: [(Distance, Distance); 4] = [
    (Distance::Smt, Distance::Same),
    (Distance::Llc, Distance::Smt),
    (Distance::Socket, Distance::Llc),
    (Distance::Remote, Distance::Socket),
];

/// The capacity of the fastest CPU when nothing else takes of it (`SCHED_CAPACITY_SCALE`).
pub(crate) const FULL_CAPACITY: u64 = 1024;
/// How much busier another CPU must be, in percent (`sd->imbalance_pct`).
pub(crate) const IMBALANCE_PCT: u64 = 117;

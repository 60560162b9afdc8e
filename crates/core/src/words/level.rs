//! The levels of scheduling domains, and the capacity of a CPU.

use zerolag_model::Distance;

/// The levels of domains, near to far, each with the level of the groups that it balances.
pub(crate) const LEVELS: [(Distance, Distance); 4] = [
    (Distance::Smt, Distance::Same),
    (Distance::Llc, Distance::Smt),
    (Distance::Socket, Distance::Llc),
    (Distance::Remote, Distance::Socket),
];

/// The capacity of the fastest CPU when nothing else uses it (`SCHED_CAPACITY_SCALE`).
pub(crate) const FULL_CAPACITY: u64 = 1024;
/// The imbalance in percent at which another CPU counts as busier (`sd->imbalance_pct`).
pub(crate) const IMBALANCE_PCT: u64 = 117;
/// The same between the threads of a core.
pub(crate) const SMT_IMBALANCE_PCT: u64 = 110;

//! Weights: the share of an entity, and the speed of its virtual time.
//!
//! Neighbouring nice levels differ by about 25 % in weight, so one level changes a CPU-bound task's
//! share by about 10 points against one competitor. Nice 0 weighs 1024 ([`Weight::NICE_0`]).
//!
//! Virtual time passes at `1024 / weight` of real time. The division is done once per change of
//! weight ([`LoadWeight`]); a charge is then one multiplication and one shift. Both have the
//! kernel's own precision, so that virtual times agree to the nanosecond.
//!
//! The weight of a task in a group of one queue for all tasks has a fraction: 7 tasks share a group
//! of weight 10 by 1.43 each. Its unit is a 1024th ([`LoadWeight::fine`]).
//!
//! Sources: Linux v6.12 `kernel/sched/core.c`, `sched_prio_to_weight` (the forty published values)
//! and `sched_prio_to_wmult` (2^32 / weight, rounded to nearest); `kernel/sched/fair.c`,
//! `__calc_delta`; v7.1, whose `__calc_delta` divides by the full weight. differs: in a queue per
//! group 7.1 and 7.2 have fractions, too.

use crate::entity::vtime::Vlag;
use core::fmt;
use zerolag_model::{Duration, FairPolicy, Nice};

/// A share of a queue; nice 0 has 1024. For a group, this is the kernel's `cpu.shares`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Weight(u32);

impl Weight {
    /// The weight of nice 0 and of a group with `cpu.weight = 100`.
    pub const NICE_0: Self = Self(1024);
    /// The weight of SCHED_IDLE tasks and of idle groups.
    pub const IDLE: Self = Self(3);
    /// The least weight of a group (`MIN_SHARES`).
    pub const MIN_SHARES: Self = Self(2);
    /// The most weight of a group (`MAX_SHARES`).
    pub const MAX_SHARES: Self = Self(1 << 18);

    /// Returns the weight of a nice level.
    #[must_use]
    pub const fn from_nice(nice: Nice) -> Self {
        Self(nice.weight())
    }

    /// Returns the weight of a task.
    #[must_use]
    pub const fn of_policy(policy: FairPolicy, nice: Nice) -> Self {
        match policy {
            FairPolicy::Other | FairPolicy::Batch | FairPolicy::Ext => Self::from_nice(nice),
            FairPolicy::Idle => Self::IDLE,
        }
    }

    /// Returns a group's weight from `cpu.shares`; `None` outside 2..=262144.
    #[must_use]
    pub const fn from_shares(shares: u64) -> Option<Self> {
        if shares >= Self::MIN_SHARES.0 as u64 && shares <= Self::MAX_SHARES.0 as u64 {
            Some(Self(shares as u32))
        } else {
            None
        }
    }

    /// Returns a group's weight from `cpu.weight` (1..=10000, 100 is neutral), rounded to nearest;
    /// `None` outside that range.
    #[must_use]
    pub const fn from_cpu_weight(weight: u64) -> Option<Self> {
        if weight >= 1 && weight <= 10_000 { Some(Self(((weight * 1024 + 50) / 100) as u32)) } else { None }
    }

    /// Returns the weight as `cpu.weight` has it, rounded to nearest, at least 1 and at most 10000
    /// (`sched_weight_to_cgroup`).
    pub(crate) fn to_cpu_weight(self) -> u32 {
        ((u64::from(self.0) * 100 + 512) / 1024).clamp(1, 10_000) as u32
    }

    /// Returns the weight as a number; nice 0 is 1024.
    #[must_use]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns the weight of a computed value, clamped to at least 2 and at most `high`.
    pub(crate) fn clamped(value: u64, high: Self) -> Self {
        let low = u64::from(Self::MIN_SHARES.0);
        Self(u32::try_from(value.clamp(low, u64::from(high.0).max(low))).expect("invariant: clamped to 32 bits"))
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A weight with the factor from real to virtual time: `virtual = real * mult >> shift`, or the
/// exact quotient if `mult` is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LoadWeight {
    /// In whole numbers, at least 2 as load averages count it.
    whole: u32,
    /// What must be added in 1024ths; negative if the weight is below 2.
    rest: i16,
    shift: u8,
    mult: u32,
}

/// A weight of 1 in 1024ths (`scale_load`).
pub(crate) const FINE: u64 = 1 << 10;
/// The weight of nice 0 in 1024ths (`NICE_0_LOAD`).
pub(crate) const FINE_NICE_0: u64 = FINE * Weight::NICE_0.0 as u64;

/// Returns a weight in 1024ths.
pub(crate) const fn scaled_up(weight: Weight) -> u64 {
    weight.0 as u64 * FINE
}

/// Returns a sum of weights in whole numbers, at least 2 if there is one (`scale_load_down`).
#[inline]
const fn scaled_down(fine: u64) -> u64 {
    if fine == 0 {
        return 0; // Apart, so that a caller that asks for zero asks once.
    }
    let (whole, least) = (fine / FINE, Weight::MIN_SHARES.0 as u64);
    if whole < least { least } else { whole }
}

/// The sum of the weights of a queue's entities.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct WeightSum(u64);

impl WeightSum {
    /// Returns the sum in 1024ths.
    #[inline]
    pub(crate) const fn fine(self) -> u64 {
        self.0
    }

    /// Returns the sum in whole numbers, at least 2 if there is one, as load averages count it.
    #[inline]
    pub(crate) const fn whole(self) -> u64 {
        scaled_down(self.0)
    }

    /// Takes one weight out and adds another, both in 1024ths.
    #[inline]
    pub(crate) const fn change(&mut self, less: u64, more: u64) {
        self.0 = self.0 - less + more;
    }
}

impl LoadWeight {
    /// Returns the weight of a task; the inverse is rounded to nearest, as in the kernel's table.
    pub(crate) const fn of_task(weight: Weight) -> Self {
        let inverse = ((1_u64 << 32) + weight.0 as u64 / 2) / weight.0 as u64;
        Self::with_inverse(weight, inverse)
    }

    /// Returns the weight of a group; the inverse is rounded down, as the kernel computes it.
    pub(crate) const fn of_group(weight: Weight) -> Self {
        Self::with_inverse(weight, u32::MAX as u64 / weight.0 as u64)
    }

    const fn with_inverse(weight: Weight, inverse: u64) -> Self {
        let (mult, shift) = factor(Weight::NICE_0.0 as u64, inverse);
        Self { whole: weight.0, rest: 0, mult, shift }
    }

    /// Returns a weight in 1024ths, at least 2 of them (`MIN_SHARES`). Virtual time is exact.
    pub(crate) const fn exact(fine: u64) -> Self {
        if fine == FINE_NICE_0 {
            return Self::of_task(Weight::NICE_0);
        }
        let least = Weight::MIN_SHARES.0 as u64;
        let fine = if fine < least { least } else { fine };
        let whole = scaled_down(fine);
        debug_assert!(whole <= u32::MAX as u64, "a group's weight is bounded where it is computed");
        // At least 2 - 2048, at most 1023.
        Self { whole: whole as u32, rest: (fine as i64 - (whole * FINE) as i64) as i16, mult: 0, shift: 0 }
    }

    /// Returns a computed weight in whole numbers, at least 2. Those of groups can be larger than
    /// any that is set.
    pub(crate) fn whole(value: u64) -> Self {
        Self::of_group(Weight::clamped(value, Weight(u32::MAX)))
    }

    /// Returns the weight in whole numbers, at least 2, as load averages count it.
    #[inline]
    pub(crate) const fn value(self) -> u64 {
        self.whole as u64
    }

    /// Returns the weight in 1024ths.
    #[inline]
    pub(crate) const fn fine(self) -> u64 {
        (self.whole as u64 * FINE).wrapping_add_signed(self.rest as i64)
    }

    /// Returns how far virtual time advances while the entity runs for `time`, rounded down.
    #[inline]
    pub(crate) const fn to_virtual(self, time: Duration) -> Vlag {
        if self.mult == 0 {
            return self.to_virtual_exactly(time);
        }
        // The shift is at most 32. Without the mask the compiler emits code for shifts beyond the
        // lower word.
        let wide = (time.as_nanos() as u128 * self.mult as u128) >> (self.shift & 63);
        Vlag::from_nanos(wide as i64)
    }

    /// As [`to_virtual`](Self::to_virtual), by a division. Out of line, so that the common case
    /// saves no registers for it.
    #[inline(never)]
    const fn to_virtual_exactly(self, time: Duration) -> Vlag {
        Vlag::from_nanos(mul_div(time.as_nanos(), FINE_NICE_0, self.fine()) as i64)
    }

    /// Returns how long the entity must run until virtual time has advanced by `distance`, rounded
    /// up.
    pub(crate) fn to_real_ceil(self, distance: Vlag) -> Duration {
        let distance = u128::from(distance.as_nanos().max(0).unsigned_abs());
        let wide = if self.mult == 0 {
            (distance * u128::from(self.fine())).div_ceil(u128::from(FINE_NICE_0))
        } else {
            (distance << self.shift).div_ceil(u128::from(self.mult))
        };
        Duration::from_nanos(u64::try_from(wide).unwrap_or(u64::MAX))
    }
}

/// Returns `a * b / c`, rounded down. Dividing 128 bits takes ten times as long as 64.
#[inline]
pub(crate) const fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => (a as u128 * b as u128 / c as u128) as u64,
    }
}

/// Returns `time * weight / total` with the kernel's precision, rounded down.
pub(crate) fn share_of(time: Duration, weight: u64, total: u64) -> Duration {
    let (mult, shift) = factor(weight, u64::from(u32::MAX) / total.max(1));
    Duration::from_nanos(((u128::from(time.as_nanos()) * u128::from(mult)) >> shift) as u64)
}

/// Returns `weight * inverse / 2^32` as a factor of at most 32 bits and a shift.
const fn factor(weight: u64, inverse: u64) -> (u32, u8) {
    let product = weight * inverse;
    let excess = 32 - ((product >> 32) as u32).leading_zeros();
    ((product >> excess) as u32, (32 - excess) as u8)
}

/// The weight that a waiting RT task adds to a CPU's load if the balancer moves RT tasks: twice
/// that of nice -20 (Linux v2.6.23 `kernel/sched.c`, `set_load_weight`).
pub(crate) const RT_LOAD: u64 = 2 * Nice::MIN.weight() as u64;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nice: i64) -> LoadWeight {
        LoadWeight::of_task(Weight::from_nice(Nice::new(nice).expect("-20..=19")))
    }

    #[test]
    fn inverses_are_the_published_ones() {
        let published = [(-20, 48_388), (-19, 59_856), (-18, 76_040), (0, 4_194_304), (1, 5_237_765), (4, 10_153_587)];
        for (nice, inverse) in published {
            let weight = Weight::from_nice(Nice::new(nice).expect("in range"));
            assert_eq!(LoadWeight::of_task(weight), LoadWeight::with_inverse(weight, inverse), "nice {nice}");
        }
        assert_eq!(LoadWeight::of_task(Weight::IDLE), LoadWeight::with_inverse(Weight::IDLE, 1_431_655_765));
    }

    #[test]
    fn virtual_time_of_nice_0_is_real_time() {
        for ns in [0, 1, 4_000_000, 1 << 40] {
            assert_eq!(at(0).to_virtual(Duration::from_nanos(ns)), Vlag::from_nanos(ns as i64));
        }
        assert_eq!(at(5).to_virtual(Duration::from_millis(4)).as_nanos(), 12_226_865);
        assert!(at(-5).to_virtual(Duration::from_millis(4)).as_nanos() < 1_320_000);
    }

    #[test]
    fn real_time_undoes_virtual_time() {
        for nice in -20..20 {
            for ns in [1, 700_000, 3_000_000] {
                let real = at(nice).to_real_ceil(Vlag::from_nanos(ns));
                assert!(at(nice).to_virtual(real).as_nanos() >= ns, "nice {nice} {ns}");
                assert!(at(nice).to_virtual(real - Duration::from_nanos(1)).as_nanos() < ns, "nice {nice} {ns}");
            }
        }
    }

    #[test]
    fn a_fraction_of_a_weight_counts() {
        let part = LoadWeight::exact(scaled_up(Weight(10)) / 7);
        assert_eq!((part.fine(), part.value()), (1462, 2));
        assert_eq!(part.to_virtual(Duration::from_millis(1)).as_nanos(), 1_000_000 * 1_048_576 / 1462);
        assert_eq!(part.to_real_ceil(part.to_virtual(Duration::from_millis(1))), Duration::from_millis(1));
        assert_eq!(LoadWeight::exact(0).fine(), 2);
        assert_eq!(LoadWeight::exact(FINE_NICE_0), at(0));
        let long = Duration::from_nanos(u64::MAX / 4096);
        assert_eq!(part.to_virtual(long).as_nanos() as u128, u128::from(long.as_nanos()) * 1_048_576 / 1462);
    }

    #[test]
    fn group_weights_round_as_cgroups_do() {
        assert_eq!(Weight::from_cpu_weight(100), Some(Weight::NICE_0));
        assert_eq!(Weight::from_cpu_weight(1).map(Weight::value), Some(10));
        assert_eq!(Weight::from_cpu_weight(10_000).map(Weight::value), Some(102_400));
        assert_eq!(Weight::from_cpu_weight(0), None);
        assert_eq!(Weight::from_shares(1), None);
    }
}

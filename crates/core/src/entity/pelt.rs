//! [`Average`]: the recent load and utilisation of an entity or a queue, as sums that decay (PELT,
//! per-entity load tracking).
//!
//! Time is divided into periods of 1024 us (of 1024 ns each). Activity of n periods ago has the
//! weight `y^n`, with `y^32 = 1/2`; a full present period counts 1024. There are three signals:
//! *load* (queued, times a weight), *runnable* (runnable or running) and *util* (running). The
//! average is the sum divided by the sum of a signal that was always on, [`Average::divider`].
//!
//! ```text
//!            d1            full periods            d3
//!      |<--------->|<--------------------------->|<---->|
//!   ...|---x-------|--------------|--------------|------x|
//!          last                                        now
//! ```
//!
//! An average that is not used costs nothing. Signals are constant between two calls, so a stretch
//! of any length is added in O(1) when the average is needed again. Sums change only in this
//! module, and an average is exact as of `last`. The numbers are bit by bit those of the kernel:
//! periods of 1024, 32-bit factors, divisions rounded down.
//!
//! Sources: Linux v6.12 `kernel/sched/pelt.c` (`decay_load`, `accumulate_sum`,
//! `___update_load_sum`, `___update_load_avg`), `kernel/sched/pelt.h` (`get_pelt_divider`).

use zerolag_model::{Duration, Instant};

/// `y^n` for n below 32, in units of 2^-32.
const DECAY: [u32; 32] = [
    0xffff_ffff,
    0xfa83_b2da,
    0xf525_7d14,
    0xefe4_b99a,
    0xeac0_c6e6,
    0xe5b9_06e6,
    0xe0cc_deeb,
    0xdbfb_b796,
    0xd744_fcc9,
    0xd2a8_1d91,
    0xce24_8c14,
    0xc9b9_bd85,
    0xc567_2a10,
    0xc12c_4cc9,
    0xbd08_a39e,
    0xb8fb_af46,
    0xb504_f333,
    0xb123_f581,
    0xad58_3ee9,
    0xa9a1_5ab4,
    0xa5fe_d6a9,
    0xa270_4302,
    0x9ef5_325f,
    0x9b8d_39b9,
    0x9837_f050,
    0x94f4_efa8,
    0x91c3_d373,
    0x8ea4_398a,
    0x8b95_c1e3,
    0x8898_0e80,
    0x85aa_c367,
    0x82cd_8698,
];

/// The number of periods in which a sum decays to half.
const HALF_LIFE: u64 = 32;

/// The contribution of a full period; also the unit in which shares are counted.
const PERIOD: u64 = 1024;

/// The number of nanoseconds in one unit of time.
const UNIT: u64 = 1024;

/// The sum of a signal that was always on, at the end of a period: the fixed point of `s = s y +
/// 1024`.
const MAX: u64 = 47_742;

/// The least divider: [`MAX`] at the start of a period, when the present one contributes nothing.
const MIN_DIVIDER: u64 = MAX - PERIOD;

// A stretch across a single period boundary consists of its part of the first period and its part
// of the next. There is no full period between them, so that term must be 0.
const _: () = assert!(MAX - decay(MAX, 1) - PERIOD == 0);

/// The signals of an entity or a queue, constant until the next call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Signals {
    /// For an entity: 1 while it is queued. For a queue: the sum of the queued weights.
    pub(crate) load: u64,
    /// The number of runnable tasks.
    pub(crate) runnable: u32,
    /// Whether the entity, or one entity of the queue, runs.
    pub(crate) runs: bool,
}

/// Decaying sums, and the averages that follow from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Average {
    /// The instant up to which the sums are exact: a multiple of 1024 ns.
    pub(crate) last: Instant,
    util_sum: u32,
    /// Of a task that is off a queue: its part of the load of the root's queue when it left. It is
    /// here because there is room.
    pub(crate) part_of_root: u32,
    load_sum: u64,
    runnable_sum: u64,
    /// The weight times the fraction of time queued.
    pub(crate) load: u64,
    /// 1024 times the average number of runnable tasks.
    pub(crate) runnable: u64,
    /// 1024 times the fraction of time running.
    pub(crate) util: u64,
}

/// The decay of any sum over some periods, looked up once for all sums.
#[derive(Clone, Copy)]
struct Decay {
    halves: u64,
    /// In units of 2^-64, so that the result is the upper word of a product and needs no shift.
    factor: u64,
}

impl Decay {
    const fn over(periods: u64) -> Self {
        let halves = periods / HALF_LIFE;
        if halves > 63 {
            return Self { halves: 0, factor: 0 };
        }
        Self { halves, ..Self::within_half_life(periods % HALF_LIFE) }
    }

    /// As [`over`](Self::over), for fewer periods than the half-life.
    #[inline]
    const fn within_half_life(periods: u64) -> Self {
        Self { halves: 0, factor: (DECAY[periods as usize] as u64) << 32 }
    }

    #[inline]
    const fn of(self, sum: u64) -> u64 {
        (((sum >> self.halves) as u128 * self.factor as u128) >> 64) as u64
    }
}

/// Returns the number of whole units of 1024 ns up to an instant.
const fn units(at: Instant) -> u64 {
    at.as_nanos() / UNIT
}

/// Returns a sum after its decay over a number of periods.
pub(crate) const fn decay(sum: u64, periods: u64) -> u64 {
    Decay::over(periods).of(sum)
}

/// Returns the number of whole periods in a duration.
pub(crate) const fn periods(time: Duration) -> u64 {
    time.as_nanos() >> 20
}

/// Returns an average that approaches `target` for a number of periods.
pub(crate) fn approach(average: u64, target: u64, periods: u64) -> u64 {
    decay(average, periods) + target - decay(target, periods)
}

/// Returns the contribution of a stretch in which a signal was always on. The stretch consists of
/// the last `first` units of a period, the full periods after it, and `last` units of the present
/// period. `decay` is the decay from the first period to the present one.
#[inline]
const fn stretch(decay: Decay, first: u64, last: u64) -> u64 {
    decay.of(first) + (MAX - decay.of(MAX) - PERIOD) + last
}

impl Average {
    /// Returns the sum of a signal that was always on.
    pub(crate) fn divider(&self) -> u64 {
        MIN_DIVIDER + units(self.last) % PERIOD
    }

    /// Adds the time since the last call, during which the signals had the given values. If a
    /// period has ended, the averages are recomputed; returns whether they have changed. O(1).
    ///
    /// `weight` is the weight of an entity. For a queue it is 1, because a queue's load sum already
    /// contains the weights.
    ///
    /// Often no time has passed: a switch or a wakeup calls this several times, and only the first
    /// call finds elapsed time.
    #[inline(always)]
    pub(crate) fn age(&mut self, now: Instant, signals: impl FnOnce() -> Signals, weight: u64) -> bool {
        now.as_nanos() >= self.last.as_nanos() + UNIT && self.bring_up(now, signals(), weight)
    }

    fn bring_up(&mut self, now: Instant, signals: Signals, weight: u64) -> bool {
        if units(now) / PERIOD - units(self.last) / PERIOD < HALF_LIFE {
            self.pass(now, signals, Decay::within_half_life) && self.follow(weight)
        } else {
            self.bring_up_long(now, signals, weight)
        }
    }

    /// As [`bring_up`](Self::bring_up), for a time longer than the half-life. Out of line, so that
    /// the common case has no shifts for halving.
    #[inline(never)]
    fn bring_up_long(&mut self, now: Instant, signals: Signals, weight: u64) -> bool {
        self.pass(now, signals, Decay::over) && self.follow(weight)
    }

    /// Adds the time since the last call. Returns whether a period has ended, so that the averages
    /// should be recomputed.
    #[inline(always)]
    fn pass(&mut self, now: Instant, signals: Signals, decay: impl FnOnce(u64) -> Decay) -> bool {
        let (first, last) = (units(self.last), units(now));
        self.last = Instant::from_nanos(last * UNIT);
        let periods = last / PERIOD - first / PERIOD;
        let counts = if periods == 0 {
            last - first
        } else {
            let decay = decay(periods);
            self.load_sum = decay.of(self.load_sum);
            self.runnable_sum = decay.of(self.runnable_sum);
            self.util_sum = decay.of(u64::from(self.util_sum)) as u32;
            stretch(decay, PERIOD - first % PERIOD, last % PERIOD)
        };
        if signals.load > 0 {
            self.load_sum += signals.load * counts;
            self.runnable_sum += (u64::from(signals.runnable) * counts) << 10;
            if signals.runs {
                self.util_sum = self.util_sum.saturating_add((counts << 10) as u32);
            }
        }
        periods > 0
    }

    /// Recomputes the averages from the sums; returns whether they have changed.
    #[inline]
    fn follow(&mut self, weight: u64) -> bool {
        let divider = self.divider();
        let (load, runnable, util) =
            (weight * self.load_sum / divider, self.runnable_sum / divider, u64::from(self.util_sum) / divider);
        let differs = (self.load ^ load) | (self.runnable ^ runnable) | (self.util ^ util);
        (self.load, self.runnable, self.util) = (load, runnable, util);
        differs != 0
    }

    /// Returns the sum of the time queued.
    pub(crate) const fn load_sum(&self) -> u64 {
        self.load_sum
    }

    /// Keeps the part of the root's load that a task has when it leaves a queue.
    #[inline(always)]
    pub(crate) fn keep_part_of_root(&mut self, load: u64) {
        self.part_of_root = load.min(u64::from(u32::MAX)) as u32;
    }

    /// Returns the averages of a new task: it starts as if it had always been queued but had never
    /// run.
    pub(crate) fn new_task(weight: u64) -> Self {
        Self { load: weight, ..Self::default() }
    }

    /// Adds an entity's averages to this queue, and aligns them with this queue's time. `weight` is
    /// the entity's.
    ///
    /// Linux v6.12 `fair.c`, `attach_entity_load_avg`: the sums are recomputed from the averages,
    /// with the divider of this queue.
    pub(crate) fn attach(&mut self, entity: &mut Self, weight: u64) {
        let divider = self.divider();
        entity.last = self.last;
        entity.util_sum = (entity.util * divider) as u32;
        entity.runnable_sum = entity.runnable * divider;
        let sum = entity.load * divider;
        entity.load_sum = if weight < sum { sum / weight } else { 1 };
        self.load += entity.load;
        self.load_sum += weight * entity.load_sum;
        self.util += entity.util;
        // differs: the kernel's u32 wraps when some ninety busy entities join one queue at once.
        // Here it saturates: a queue with so many entities is fully utilised.
        self.util_sum = self.util_sum.saturating_add(entity.util_sum);
        self.runnable += entity.runnable;
        self.runnable_sum += entity.runnable_sum;
    }

    /// Subtracts an entity's averages from this queue. Both must be up to date as of the same time.
    ///
    /// Linux v6.12 `fair.c`, `detach_entity_load_avg`: the sums stay at least as large as the
    /// averages imply.
    pub(crate) fn detach(&mut self, entity: &Self, weight: u64) {
        self.take_load(entity.load, weight * entity.load_sum);
        less(&mut self.runnable, &mut self.runnable_sum, entity.runnable, entity.runnable_sum);
        self.take_util(entity.util, u64::from(entity.util_sum));
    }

    /// Subtracts the averages of entities that left while they slept, so that their sums are not
    /// available.
    ///
    /// Linux v6.12 `fair.c`, `update_cfs_rq_load_avg`.
    pub(crate) fn remove(&mut self, removed: Removed) {
        let divider = self.divider();
        self.take_load(removed.load, removed.load * divider);
        less(&mut self.runnable, &mut self.runnable_sum, removed.runnable, removed.runnable * divider);
        self.take_util(removed.util, removed.util * divider);
    }

    /// Changes the weight of an entity of this queue. Both must be up to date as of the same time.
    ///
    /// Linux v6.12 `fair.c`, `reweight_entity`.
    pub(crate) fn reweigh(&mut self, entity: &mut Self, before: u64, after: u64) {
        self.take_load(entity.load, before * entity.load_sum);
        entity.load = after * entity.load_sum / self.divider();
        self.load += entity.load;
        self.load_sum += after * entity.load_sum;
    }

    /// Propagates a change in a group's queue to the group's entity, and to this queue, which holds
    /// the entity. `own` is the average of the group's queue, `weight` the entity's weight, and
    /// `change` the load sum that was added or removed. All must be up to date as of the same time.
    ///
    /// Returns the change of the entity's load sum.
    ///
    /// Linux v6.12 `fair.c`, `update_tg_cfs_util`, `update_tg_cfs_runnable`, `update_tg_cfs_load`.
    pub(crate) fn propagate(&mut self, entity: &mut Self, own: &Self, own_load: u64, weight: u64, change: i64) -> i64 {
        let divider = self.divider();
        let util_sum = (own.util * divider).min(u64::from(u32::MAX));
        (self.util, self.util_sum) = {
            let (mut util, mut sum) = (self.util, u64::from(self.util_sum));
            shift(&mut util, &mut sum, (entity.util, own.util), (u64::from(entity.util_sum), util_sum));
            (util, sum.min(u64::from(u32::MAX)) as u32)
        };
        (entity.util, entity.util_sum) = (own.util, util_sum as u32);
        let runnable_sum = own.runnable * divider;
        let was = (entity.runnable, entity.runnable_sum);
        shift(&mut self.runnable, &mut self.runnable_sum, (was.0, own.runnable), (was.1, runnable_sum));
        (entity.runnable, entity.runnable_sum) = (own.runnable, runnable_sum);
        if change == 0 {
            return 0;
        }
        let before = entity.load_sum;
        let more = match u64::try_from(change) {
            Ok(more) => (before + more).min(divider),
            // The remaining entities are assumed to be equally runnable, and never more than
            // before.
            Err(_) => own.load_sum.checked_div(own_load).map_or(0, |sum| sum.min(before)),
        };
        let after = more.max(u64::from(entity.util_sum) >> 10);
        let load = weight * after / divider;
        if load == entity.load {
            return 0;
        }
        let was = entity.load;
        shift(&mut self.load, &mut self.load_sum, (was, load), (weight * before, weight * after));
        (entity.load, entity.load_sum) = (load, after);
        after.cast_signed() - before.cast_signed()
    }

    fn take_load(&mut self, average: u64, sum: u64) {
        less(&mut self.load, &mut self.load_sum, average, sum);
    }

    fn take_util(&mut self, average: u64, sum: u64) {
        let mut left = u64::from(self.util_sum);
        less(&mut self.util, &mut left, average, sum);
        self.util_sum = left as u32;
    }
}

/// Subtracts from an average and its sum; the sum stays at least as large as the remaining average
/// implies.
fn less(average: &mut u64, sum: &mut u64, by: u64, by_sum: u64) {
    *average = average.saturating_sub(by);
    *sum = sum.saturating_sub(by_sum).max(*average * MIN_DIVIDER);
}

/// Replaces a part of an average and of its sum; the sum stays at least as large as the average
/// implies.
fn shift(average: &mut u64, sum: &mut u64, part: (u64, u64), part_sum: (u64, u64)) {
    *average = (*average + part.1).saturating_sub(part.0);
    *sum = (*sum + part_sum.1).saturating_sub(part_sum.0).max(*average * MIN_DIVIDER);
}

/// The averages of entities that leave a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Removed {
    pub(crate) load: u64,
    pub(crate) runnable: u64,
    pub(crate) util: u64,
}

/// Returns an average after a sample with a weight of one eighth. Linux: `update_avg`.
pub(crate) fn follow(average: Duration, sample: Duration) -> Duration {
    if sample >= average { average + (sample - average) / 8 } else { average - (average - sample) / 8 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn us(us: u64) -> Instant {
        Instant::ZERO + Duration::from_nanos(us * 1024)
    }

    const ALWAYS: Signals = Signals { load: 1, runnable: 1, runs: true };

    /// The sum by its definition: period by period, each factor rounded down on its own.
    fn slow(stretches: &[(u64, bool)]) -> f64 {
        let y = 0.5_f64.powf(1.0 / 32.0);
        let (mut sum, mut contrib) = (0.0, 0_u64);
        for (units, is_on) in stretches {
            for _ in 0..*units {
                sum += f64::from(u8::from(*is_on));
                contrib += 1;
                if contrib == PERIOD {
                    contrib = 0;
                    sum *= y;
                }
            }
        }
        sum
    }

    #[test]
    fn a_thousand_busy_entities_fill_a_queue_and_leave_it() {
        let mut queue = Average::default();
        let busy = Average { util: 1024, ..Average::default() };
        let mut entities: Vec<Average> = (0..1000).map(|_| busy).collect();
        entities.iter_mut().for_each(|entity| queue.attach(entity, 1024));
        assert_eq!((queue.util, queue.util_sum), (1024 * 1000, u32::MAX));
        entities.iter().for_each(|entity| queue.detach(entity, 1024));
        assert_eq!(queue.util, 0);
    }

    #[test]
    fn what_joins_a_group_is_felt_above_at_once() {
        let (mut root, mut own, mut entity) = (Average::default(), Average::default(), Average::default());
        root.attach(&mut entity, 1024);
        let mut task = Average { util: 512, runnable: 1024, load: 1024, ..Average::default() };
        own.attach(&mut task, 1024);
        let change = root.propagate(&mut entity, &own, 1024, 1024, task.load_sum.cast_signed());
        assert_eq!((root.util, root.runnable, root.load), (512, 1024, 1024));
        assert_eq!(change.unsigned_abs() + 1, task.load_sum, "and what is above this queue follows in turn");
        own.detach(&task, 1024);
        root.propagate(&mut entity, &own, 0, 1024, -task.load_sum.cast_signed());
        assert_eq!((root.util, root.runnable, root.load), (0, 0, 0));
    }

    #[test]
    fn half_is_left_after_32_periods_and_nothing_after_64_half_lives() {
        assert_eq!(decay(1 << 20, 32), (1 << 19) - 1, "factors are a little below one");
        assert_eq!(decay(u64::MAX, 32 * 64), 0);
        assert_eq!(decay(MAX, 1) + PERIOD, MAX, "the largest sum is a fixed point");
        // Above 32 bits the reference is exact arithmetic.
        for (value, periods) in [(88_761 * MAX * 50, 7), (u64::MAX, 31), (1 << 40, 33)] {
            let exact = (u128::from(value >> (periods / 32)) * u128::from(DECAY[(periods % 32) as usize])) >> 32;
            assert_eq!(u128::from(decay(value, periods)), exact);
        }
    }

    /// The partial sums that kernels up to 4.11 had as a table (`runnable_avg_yN_sum`).
    #[test]
    fn a_stretch_counts_what_the_published_table_says() {
        let published = [
            0, 1002, 1982, 2941, 3880, 4798, 5697, 6576, 7437, 8279, 9103, 9909, 10698, 11470, 12226, 12966, 13690,
            14398, 15091, 15769, 16433, 17082, 17718, 18340, 18949, 19545, 20128, 20698, 21256, 21802, 22336, 22859,
            23371,
        ];
        for (periods, sum) in published.into_iter().enumerate().skip(1) {
            // The stretch has a full first period and all periods but the present one.
            let ours = stretch(Decay::over(periods as u64), PERIOD, 0);
            // The closed form of later kernels rounds a little differently.
            assert!(ours.abs_diff(sum) <= 2 + sum / 1500, "{periods} periods: {ours}, published {sum}");
        }
    }

    #[test]
    fn what_always_runs_averages_to_all() {
        let mut average = Average::default();
        let mut now = 0;
        for _ in 0..400 {
            now += 1000;
            average.pass(us(now), ALWAYS, Decay::over);
        }
        average.follow(1024);
        assert!((1022..=1024).contains(&average.load), "{average:?}");
        assert!((1022..=1024).contains(&average.util), "{average:?}");
        assert_eq!(average.load_sum.max(average.divider()), average.divider(), "no more than always");
    }

    /// The sums do not depend on how a stretch is split into calls, and they agree with the
    /// definition.
    #[test]
    fn sums_follow_the_definition() {
        let mut seed = 1_u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..20 {
            let stretches: Vec<(u64, bool)> = (0..12).map(|_| (draw(9_000) + 1, draw(2) == 0)).collect();
            let mut average = Average::default();
            let mut now = 0;
            for (units, is_on) in &stretches {
                let signals = if *is_on { ALWAYS } else { Signals::default() };
                for part in [units / 3, units - units / 3] {
                    now += part;
                    average.pass(us(now), signals, Decay::over);
                }
            }
            let exact = slow(&stretches);
            let ours = average.load_sum as f64;
            assert!((ours - exact).abs() <= 30.0 + exact / 1000.0, "{ours}, by definition {exact}");
            assert_eq!(u64::from(average.util_sum), average.runnable_sum, "both signals were the same");
        }
    }

    #[test]
    fn parts_of_1024_ns_are_not_lost() {
        let mut average = Average::default();
        for at in (0..4_000_000).step_by(700) {
            average.pass(Instant::from_nanos(at), ALWAYS, Decay::over);
        }
        let mut whole = Average::default();
        whole.pass(average.last, ALWAYS, Decay::over);
        assert!(average.load_sum.abs_diff(whole.load_sum) <= 8, "{average:?} {whole:?}");
    }

    #[test]
    fn what_is_attached_can_be_detached() {
        let mut queue = Average::default();
        queue.pass(us(5_000), Signals { load: 2048, runnable: 2, runs: true }, Decay::over);
        queue.follow(1);
        let before = queue;
        let mut entity = Average::new_task(1024);
        queue.attach(&mut entity, 1024);
        assert_eq!(queue.load, before.load + 1024);
        queue.detach(&entity, 1024);
        assert_eq!(queue.load, before.load);
        assert!(queue.load_sum.abs_diff(before.load_sum) <= before.load_sum / 20, "{before:?} {queue:?}");
    }
}

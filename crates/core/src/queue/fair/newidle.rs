//! [`NewIdle`]: how long a CPU idles, the cost of its searches, and how often they succeed.
//! [`crate::balance::fair::newidle`] has the rules.

use crate::entity::pelt;
use crate::words::config::Config;
use crate::words::level::LEVELS;
use zerolag_model::{CpuId, Duration, Instant, Settings};

/// The idle times of a CPU and the costs of its new-idle searches.
#[derive(Clone, Debug)]
pub(crate) struct NewIdle {
    /// When the present search or idle period began (`rq->idle_stamp`).
    pub(crate) since: Option<Instant>,
    /// The average idle time (`rq->avg_idle`).
    pub(crate) average: Duration,
    /// The cost of the present search so far.
    pub(crate) spent: Duration,
    costs: [SearchCost; LEVELS.len()],
    /// How many searches a success of the present one counts for: those that were not drawn.
    counts_for: u32,
    success: [Success; LEVELS.len()],
    draws: SchedRng,
}

/// How often the searches of a domain succeed: `sd->newidle_ratio`, in 1024 parts.
#[derive(Clone, Copy, Debug)]
struct Success {
    calls: u32,
    successes: u32,
    ratio: u32,
    /// When the ratio was last computed.
    since: Instant,
}

/// The random numbers of a CPU: SplitMix64, whose state is a counter. The kernel has Tausworthe
/// generators (`sched_rng`).
#[derive(Clone, Copy, Debug)]
struct SchedRng(u64);

/// The maximum cost of searching a domain (`sd->max_newidle_lb_cost`).
#[derive(Clone, Copy, Debug, Default)]
struct SearchCost {
    most: Duration,
    /// When the maximum was last decayed by 1 %, or raised.
    decayed: Instant,
}

impl NewIdle {
    pub(crate) fn new(config: &Config, cpu: CpuId) -> Self {
        let average = config.settings.migration_cost * 2;
        let draws = SchedRng(config.seed ^ (u64::from(cpu.0) << 32));
        Self {
            since: None,
            average,
            spent: Duration::ZERO,
            costs: Default::default(),
            counts_for: 1,
            success: Default::default(),
            draws,
        }
    }

    /// Draws whether a domain is searched: as often as its searches succeed (`NI_RANDOM`).
    pub(crate) fn is_drawn(&mut self, level: usize, now: Instant, settings: &Settings) -> bool {
        let success = &mut self.success[level];
        self.counts_for = 1;
        if !settings.ni_random || success.ratio >= 1024 {
            return true;
        }
        let chance = 1 + success.ratio;
        if self.draws.next() % 1024 > chance {
            success.add(0, now, settings.ni_rate);
            return false;
        }
        self.counts_for = (1024 + chance / 2) / chance;
        true
    }

    /// Counts a search of a domain.
    pub(crate) fn searched(&mut self, level: usize, succeeded: bool, now: Instant, settings: &Settings) {
        if settings.ni_random {
            let successes = if succeeded { self.counts_for } else { 0 };
            self.success[level].add(successes, now, settings.ni_rate);
        }
    }

    /// Adds an idle period to the average, with a weight of one eighth. Called when the first task
    /// wakes since the CPU became idle.
    pub(crate) fn idled(&mut self, for_long: Duration, settings: &Settings) {
        // The average is capped so that one long idle period is soon forgotten: twice the cost of a
        // search suffices for the comparison.
        let search = self.costs.iter().fold(Duration::ZERO, |sum, cost| sum + cost.most);
        let most = settings.migration_cost.max(search) * 2;
        self.average = pelt::follow(self.average, for_long).min(most);
    }

    /// Returns whether a search of this domain, after those so far, can take longer than the CPU is
    /// expected to idle.
    pub(crate) fn is_too_dear(&self, level: usize) -> bool {
        self.average < self.spent + self.costs[level].most
    }

    /// Records the cost of a search of a domain.
    pub(crate) fn took(&mut self, level: usize, now: Instant, time: Duration) {
        self.spent += time;
        self.costs[level].add(now, time);
    }

    /// Records a search of a domain that found nothing: `newidle_cost_bump` then raises its cost by
    /// half.
    pub(crate) fn was_in_vain(&mut self, level: usize, now: Instant, settings: &Settings) {
        if settings.newidle_cost_bump {
            let dearer = self.costs[level].most * 3 / 2;
            self.costs[level].add(now, dearer.min(settings.migration_cost));
        }
    }
}

impl Default for Success {
    fn default() -> Self {
        Self { calls: 512, successes: 256, ratio: 512, since: Instant::ZERO }
    }
}

impl Success {
    /// Counts a search. Every 512 the ratio is computed anew from the last 1024; with `NI_RATE` it
    /// is larger the longer they took: by a quarter for a second (`update_newidle_stats`).
    fn add(&mut self, successes: u32, now: Instant, by_rate: bool) {
        self.calls += 1;
        self.successes += successes;
        if self.calls < 1024 {
            return;
        }
        let took = now.since(core::mem::replace(&mut self.since, now));
        let more = if by_rate { took.as_nanos() >> 22 } else { 0 };
        self.ratio = (more + u64::from(self.successes)).min(1024) as u32;
        self.calls /= 2;
        self.successes /= 2;
    }
}

impl SchedRng {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed >> 32) as u32
    }
}

impl SearchCost {
    fn add(&mut self, now: Instant, time: Duration) {
        if time > self.most {
            *self = Self { most: time, decayed: now };
        } else if now > self.decayed + Duration::from_secs(1) {
            *self = Self { most: self.most * 253 / 256, decayed: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::Topology;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn new(settings: &Settings) -> NewIdle {
        NewIdle::new(&Config::new(Topology::flat(2).expect("2 CPUs"), settings.clone()), CpuId(0))
    }

    #[test]
    fn idle_times_are_averaged_up_to_twice_the_migration_cost() {
        let settings = Settings::default();
        let mut cpu = new(&settings);
        assert_eq!(cpu.average, us(1_000));
        cpu.idled(us(200), &settings);
        assert_eq!(cpu.average, us(900));
        cpu.idled(us(100_000), &settings);
        assert_eq!(cpu.average, us(1_000));
        for _ in 0..200 {
            cpu.idled(us(20), &settings);
        }
        assert!(cpu.average <= us(21), "{}", cpu.average);
    }

    #[test]
    fn a_domain_is_too_dear_together_with_those_before_it() {
        let settings = Settings::default();
        let mut cpu = new(&settings);
        let now = Instant::ZERO + us(5);
        cpu.took(0, now, us(600));
        cpu.took(1, now, us(600));
        cpu.spent = Duration::ZERO;
        assert!(!cpu.is_too_dear(0) && !cpu.is_too_dear(1));
        cpu.spent = us(600);
        assert!(cpu.is_too_dear(1));
    }

    #[test]
    fn what_a_search_took_is_forgotten_by_a_percent_a_second() {
        let mut cost = SearchCost::default();
        cost.add(Instant::ZERO + us(1), us(256));
        cost.add(Instant::ZERO + us(900_000), us(1));
        assert_eq!(cost.most, us(256));
        cost.add(Instant::ZERO + us(1_100_000), us(1));
        assert_eq!(cost.most, us(253));
        cost.add(Instant::ZERO + us(1_200_000), us(300));
        assert_eq!(cost.most, us(300));
    }

    #[test]
    fn a_domain_is_searched_as_often_as_searches_succeed() {
        let settings = Settings { ni_random: true, ..Settings::default() };
        let mut cpu = new(&settings);
        let mut rounds = |succeeds: bool| {
            let drawn = |cpu: &mut NewIdle| {
                let is_drawn = cpu.is_drawn(0, Instant::ZERO, &settings);
                if is_drawn {
                    cpu.searched(0, succeeds, Instant::ZERO, &settings);
                }
                is_drawn
            };
            for _ in 0..8192 {
                drawn(&mut cpu);
            }
            (0..1000).filter(|_| drawn(&mut cpu)).count()
        };
        let (in_vain, found) = (rounds(false), rounds(true));
        assert!(in_vain < 20, "{in_vain} of 1000");
        assert!(found > 900, "{found} of 1000");
    }

    #[test]
    fn a_cpu_that_is_seldom_newly_idle_searches_more_often() {
        let mut success = Success { calls: 1023, successes: 0, ..Success::default() };
        success.add(0, Instant::ZERO + Duration::from_secs(1), true);
        assert_eq!((success.ratio, success.calls), (238, 512));
        let mut success = Success { calls: 1023, successes: 0, ..Success::default() };
        success.add(0, Instant::ZERO + Duration::from_secs(10), false);
        assert_eq!(success.ratio, 0);
    }

    #[test]
    fn a_search_in_vain_gets_dearer_up_to_the_migration_cost() {
        let settings = Settings { newidle_cost_bump: true, ..Settings::default() };
        let mut cpu = new(&settings);
        let now = Instant::ZERO + us(5);
        cpu.took(0, now, us(300));
        cpu.was_in_vain(0, now, &settings);
        assert_eq!(cpu.costs[0].most, us(450));
        cpu.was_in_vain(0, now, &settings);
        assert_eq!(cpu.costs[0].most, us(500));
    }
}

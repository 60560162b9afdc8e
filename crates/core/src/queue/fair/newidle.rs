//! [`NewIdle`]: how long a CPU idles, and the cost of its searches.
//! [`crate::balance::fair::newidle`] has the rules.

use crate::entity::pelt;
use crate::words::config::Config;
use crate::words::level::LEVELS;
use zerolag_model::{Duration, Instant, Settings};

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
}

/// The maximum cost of searching a domain (`sd->max_newidle_lb_cost`).
#[derive(Clone, Copy, Debug, Default)]
struct SearchCost {
    most: Duration,
    /// When the maximum was last decayed by 1 %, or raised.
    decayed: Instant,
}

impl NewIdle {
    pub(crate) fn new(config: &Config) -> Self {
        let average = config.settings.migration_cost * 2;
        Self { since: None, average, spent: Duration::ZERO, costs: Default::default() }
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
        NewIdle::new(&Config::new(Topology::flat(2).expect("2 CPUs"), settings.clone()))
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

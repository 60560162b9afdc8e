//! Schedulability studies: which share of random task sets a test accepts, over utilization.
//!
//! The sets of a study are drawn as [`TaskSets`] says. Set number i has the same seed at every
//! utilization, so that neighbouring points of a curve differ in the utilization and not in their
//! luck. Tests are those of [`zerolag_analysis`], and simulations: a set in which a simulation
//! misses a deadline is not schedulable, whatever a test says, so the curve of a simulation is
//! above that of every correct test.

use crate::analyse::Responses;
use crate::error::{Error, ValueError};
use crate::simulation::Plan;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use zerolag_analysis::supply::{Quota, Reservation, edf_fits, fixed_fits};
use zerolag_analysis::{Sporadic, edf, fixed, global};
use zerolag_model::{CpuMax, Duration, KernelVersion, Topology};
use zerolag_report::frame::{Frame, Values};
use zerolag_sim::{Costs, Tracing};
use zerolag_workload::builtin::{PeriodicPolicy, periodic};
use zerolag_workload::generate::{Drawn, TaskSets, to_csv};

/// A test of a task set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Test {
    /// Fixed priorities in order of deadlines on one CPU, exactly.
    Dm,
    /// EDF on one CPU, exactly.
    Edf,
    /// Global fixed priorities in order of deadlines: Bertogna & Cirinei 2007.
    GlobalDm,
    /// Global EDF: Bertogna & Cirinei 2007.
    GlobalEdf,
    /// Global EDF: Goossens, Funk & Baruah 2003.
    Density,
    /// EDF on each CPU, tasks put on the first CPU that takes them, those of largest density first.
    PartitionedEdf,
    /// Fixed priorities on a reservation: Shin & Lee 2003.
    ReservationDm,
    /// EDF on a reservation: Shin & Lee 2003.
    ReservationEdf,
    /// Fixed priorities below a quota as that of `cpu.max`.
    QuotaDm,
    /// EDF below a quota as that of `cpu.max`.
    QuotaEdf,
    /// A simulation of fixed priorities in order of periods misses no deadline.
    SimulatedRm,
    /// A simulation of EDF misses no deadline.
    SimulatedEdf,
}

impl Test {
    /// All tests.
    pub const ALL: [Self; 12] = [
        Self::Dm,
        Self::Edf,
        Self::GlobalDm,
        Self::GlobalEdf,
        Self::Density,
        Self::PartitionedEdf,
        Self::ReservationDm,
        Self::ReservationEdf,
        Self::QuotaDm,
        Self::QuotaEdf,
        Self::SimulatedRm,
        Self::SimulatedEdf,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dm => "dm",
            Self::Edf => "edf",
            Self::GlobalDm => "global_dm",
            Self::GlobalEdf => "global_edf",
            Self::Density => "density",
            Self::PartitionedEdf => "partitioned_edf",
            Self::ReservationDm => "reservation_dm",
            Self::ReservationEdf => "reservation_edf",
            Self::QuotaDm => "quota_dm",
            Self::QuotaEdf => "quota_edf",
            Self::SimulatedRm => "simulated_rm",
            Self::SimulatedEdf => "simulated_edf",
        }
    }

    /// Reads a name.
    ///
    /// # Errors
    /// There is no such test; all names.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|test| test.name() == name).ok_or_else(|| {
            let all: Vec<&str> = Self::ALL.iter().map(|test| test.name()).collect();
            Error::Values(vec![
                ValueError::new("tests", name, "there is no such test").help(format!("known are {}", all.join(", "))),
            ])
        })
    }

    const fn has_one_cpu(self) -> bool {
        matches!(
            self,
            Self::Dm | Self::Edf | Self::ReservationDm | Self::ReservationEdf | Self::QuotaDm | Self::QuotaEdf
        )
    }

    const fn needs_supply(self) -> bool {
        matches!(self, Self::ReservationDm | Self::ReservationEdf | Self::QuotaDm | Self::QuotaEdf)
    }
}

/// A study.
#[derive(Clone, PartialEq, Debug)]
pub struct Study {
    /// How sets are drawn; its utilization is replaced by each of the next.
    pub sets: TaskSets,
    /// The utilizations.
    pub utilizations: Vec<f64>,
    /// The tests.
    pub tests: Vec<Test>,
    /// Sets per utilization.
    pub count: u64,
    /// The seed of the first set; each next adds 1.
    pub seed: u64,
    /// The CPUs.
    pub cpus: u32,
    /// Budget and period of a reservation, or quota and period, for the tests on one.
    pub supply: Option<(Duration, Duration)>,
    /// The time that simulations run.
    pub simulated: Duration,
}

impl Default for Study {
    /// 1000 sets of [`TaskSets::default`] per utilization from 0.5 to 1, exact tests on one CPU.
    fn default() -> Self {
        Self {
            sets: TaskSets::default(),
            utilizations: (10..=20).map(|twentieths| f64::from(twentieths) / 20.0).collect(),
            tests: vec![Test::Dm, Test::Edf],
            count: 1000,
            seed: 0,
            cpus: 1,
            supply: None,
            simulated: Duration::from_secs(1),
        }
    }
}

/// A point of a curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// The utilization.
    pub utilization: f64,
    /// The test.
    pub test: Test,
    /// Sets.
    pub sets: u64,
    /// Of these, sets that the test accepts.
    pub accepted: u64,
}

impl Study {
    /// Draws and tests all sets, on all CPUs of the host. `progress` gets the number of
    /// utilizations that are done, and can end the work. Points are in order of tests, then
    /// utilizations.
    ///
    /// ```
    /// use zerolag::schedulability::{Study, Test};
    ///
    /// let study = Study { utilizations: vec![0.7, 0.95], count: 50, ..Study::default() };
    /// let points = study.run(|_| std::ops::ControlFlow::Continue(()))?;
    /// assert_eq!((points[0].test, points[0].accepted), (Test::Dm, 50));
    /// assert!(points[1].accepted < 25, "few sets of 0.95 are schedulable by fixed priorities");
    /// assert_eq!((points[3].test, points[3].accepted), (Test::Edf, 50));
    /// # Ok::<(), zerolag::Error>(())
    /// ```
    ///
    /// # Errors
    /// A value is invalid; sets cannot be drawn; `progress` ended the work.
    pub fn run(&self, mut progress: impl FnMut(usize) -> ControlFlow<()>) -> Result<Vec<Point>, Error> {
        self.check()?;
        let mut accepted = vec![vec![0_u64; self.utilizations.len()]; self.tests.len()];
        for (at, utilization) in self.utilizations.iter().enumerate() {
            let sets = TaskSets { utilization: *utilization, ..self.sets.clone() };
            for set in self.judge_all(&sets)? {
                for (row, is_accepted) in accepted.iter_mut().zip(set) {
                    row[at] += u64::from(is_accepted);
                }
            }
            if progress(at + 1).is_break() && at + 1 < self.utilizations.len() {
                return Err(Error::Interrupted);
            }
        }
        let point = |(test, row): (&Test, &Vec<u64>)| {
            let points = self.utilizations.iter().zip(row);
            let test = *test;
            let of = |(utilization, accepted): (&f64, &u64)| Point {
                utilization: *utilization,
                test,
                sets: self.count,
                accepted: *accepted,
            };
            points.map(of).collect::<Vec<Point>>()
        };
        Ok(self.tests.iter().zip(&accepted).flat_map(point).collect())
    }

    /// Checks what can be wrong before sets are drawn.
    fn check(&self) -> Result<(), Error> {
        let mut wrong = Vec::new();
        let mut refuse = |key: &str, value: String, why: &str| wrong.push(ValueError::new(key, value, why));
        if self.utilizations.is_empty() {
            refuse("utilizations", String::new(), "give at least one");
        }
        if self.tests.is_empty() {
            refuse("tests", String::new(), "give at least one");
        }
        if self.count == 0 || self.count > SETS_MAX {
            refuse("sets", self.count.to_string(), "expected 1 to 10000000");
        }
        if self.cpus == 0 || self.cpus as usize > zerolag_model::MAX_CPUS {
            refuse("cpus", self.cpus.to_string(), "expected 1 to 4096");
        }
        for test in &self.tests {
            if test.has_one_cpu() && self.cpus != 1 {
                refuse("tests", test.name().to_owned(), "it is for one CPU");
            }
            if test.needs_supply() && self.supply.is_none() {
                refuse("tests", test.name().to_owned(), "it needs a supply: budget and period");
            }
        }
        if let Some((budget, period)) = self.supply
            && (budget.is_zero() || budget > period || period > Sporadic::LONGEST)
        {
            refuse("supply", format!("{budget} of {period}"), "expected a budget above zero and at most the period");
        }
        if wrong.is_empty() { Ok(()) } else { Err(Error::Values(wrong)) }
    }

    /// Returns the results of all sets of a utilization.
    fn judge_all(&self, sets: &TaskSets) -> Result<Vec<Vec<bool>>, Error> {
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        let threads =
            if cfg!(target_family = "wasm") { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = || {
            let mut found = Vec::new();
            while !failed.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    break;
                }
                let judged = self.judge(sets, self.seed.wrapping_add(number as u64));
                failed.fetch_or(judged.is_err(), Ordering::Relaxed);
                found.push(judged);
            }
            found
        };
        if threads == 1 {
            return work().into_iter().collect();
        }
        let found = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            running
                .into_iter()
                .flat_map(|thread| thread.join().expect("invariant: a test does not panic"))
                .collect::<Vec<_>>()
        });
        found.into_iter().collect()
    }

    /// Returns what each test says of a set.
    fn judge(&self, sets: &TaskSets, seed: u64) -> Result<Vec<bool>, Error> {
        let mut set = sets.draw(seed).map_err(|error| Error::input(error.to_string()))?;
        // In order of deadlines, equals in the order in which they were drawn.
        set.sort_by_key(|task| task.deadline);
        let sporadic = |task: &Drawn| {
            let new = Sporadic::new(task.cost, task.period).map(|new| new.with_deadline(task.deadline));
            new.map_err(|error| Error::input(error.to_string()))
        };
        let tasks: Vec<Sporadic> = set.iter().map(sporadic).collect::<Result<_, _>>()?;
        self.tests.iter().map(|test| self.accepts(*test, &tasks, &set, seed)).collect()
    }

    fn accepts(&self, test: Test, tasks: &[Sporadic], set: &[Drawn], seed: u64) -> Result<bool, Error> {
        let cpus = u64::from(self.cpus);
        let keep = |bounds: Vec<Option<Duration>>| {
            bounds.iter().zip(tasks).all(|(bound, task)| bound.is_some_and(|bound| bound <= task.deadline()))
        };
        let (budget, period) = self.supply.unwrap_or_default();
        let reservation = || Reservation::new(budget, period, period);
        let simulated = |policy| keeps_deadlines(set, policy, self.cpus, self.simulated, seed);
        let quota = || Quota::of(CpuMax { quota: Some(budget), period, ..CpuMax::UNLIMITED });
        Ok(match test {
            Test::Dm => fixed::is_schedulable(tasks),
            Test::Edf => edf::check(tasks).is_ok(),
            Test::GlobalDm => {
                let ranks: Vec<u32> = (0..).take(tasks.len()).collect();
                keep(global::fixed(tasks, &ranks, &[], cpus))
            }
            Test::GlobalEdf => keep(global::edf(tasks, cpus)),
            Test::Density => global::density_test(tasks, cpus),
            Test::PartitionedEdf => partition(tasks, self.cpus as usize),
            Test::ReservationDm => reservation().is_some_and(|supply| fixed_fits(tasks, &supply)),
            Test::ReservationEdf => reservation().is_some_and(|supply| edf_fits(tasks, &supply)),
            Test::QuotaDm => quota().is_some_and(|supply| fixed_fits(tasks, &supply)),
            Test::QuotaEdf => quota().is_some_and(|supply| edf_fits(tasks, &supply)),
            Test::SimulatedRm => simulated(PeriodicPolicy::RateMonotonicFifo)?,
            Test::SimulatedEdf => simulated(PeriodicPolicy::Deadline)?,
        })
    }
}

/// Returns whether a simulation of a set on this many CPUs, without costs, misses no deadline in
/// this time.
///
/// Admission control is off, so a set that the kernel would refuse runs too; only one that exceeds
/// the CPUs counts as missed without a run.
///
/// # Errors
/// There are no such machines, the set is empty, or it has more distinct periods than there are
/// real-time priorities.
pub fn keeps_deadlines(
    set: &[Drawn],
    policy: PeriodicPolicy,
    cpus: u32,
    simulated: Duration,
    seed: u64,
) -> Result<bool, Error> {
    let program = periodic(&to_csv(set), policy)?;
    let machine = Topology::flat(cpus).map_err(|error| Error::input(error.to_string()))?;
    let mut plan = Plan::of_program(program, machine, KernelVersion::default()).with_seed(seed);
    plan = plan.for_duration(simulated);
    plan.config.costs = Costs::named("zero").ok_or_else(|| Error::Failed("there are no zero costs".to_owned()))?;
    for (key, value) in [("sched_rt_runtime_us", "1000000"), ("enforce.dl", "exact"), ("fair_server", "off")] {
        plan.config.settings.set(key, value).map_err(|error| Error::Failed(error.to_string()))?;
    }
    // More than the CPUs: a set that is refused cannot keep its deadlines.
    let Ok(mut machine) = plan.build(Tracing::On) else { return Ok(false) };
    let mut responses = Responses::default();
    let outcome = machine.run(&mut responses);
    // Threads are numbered as the tasks are listed.
    let seen = responses.finish(outcome.end);
    Ok(seen.iter().zip(set).all(|(thread, task)| thread.longest <= task.deadline))
}

/// More sets than this are treated as a mistake.
const SETS_MAX: u64 = 10_000_000;

/// Returns whether all tasks find a CPU: each is put on the first that takes it under EDF, those of
/// largest density first.
#[must_use]
pub fn partition(tasks: &[Sporadic], cpus: usize) -> bool {
    let mut order: Vec<&Sporadic> = tasks.iter().collect();
    order.sort_by(|a, b| b.density().total_cmp(&a.density()));
    let mut on: Vec<Vec<Sporadic>> = vec![Vec::new(); cpus];
    order.into_iter().all(|task| {
        on.iter_mut().any(|cpu| {
            cpu.push(*task);
            let takes = edf::check(cpu).is_ok();
            if !takes {
                cpu.pop();
            }
            takes
        })
    })
}

/// Returns points as a table.
#[must_use]
pub fn frame(points: &[Point]) -> Frame {
    let share = |point: &Point| point.accepted as f64 / point.sets.max(1) as f64;
    Frame::new("schedulability", points.len())
        .with("utilization", Values::F64(points.iter().map(|point| point.utilization).collect()))
        .with("test", Values::Text(points.iter().map(|point| Arc::from(point.test.name())).collect()))
        .with("sets", Values::U64(points.iter().map(|point| point.sets).collect()))
        .with("accepted", Values::U64(points.iter().map(|point| point.accepted).collect()))
        .with("share", Values::F64(points.iter().map(share).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(study: &Study) -> Vec<Vec<u64>> {
        let points = study.run(|_| ControlFlow::Continue(())).expect("a valid study");
        points.chunks(study.utilizations.len()).map(|row| row.iter().map(|point| point.accepted).collect()).collect()
    }

    #[test]
    fn no_test_accepts_what_a_simulation_refuses() {
        let sets = TaskSets { tasks: 6, longest: Duration::from_millis(20), ..TaskSets::default() };
        let one = Study {
            sets: sets.clone(),
            utilizations: vec![0.6, 0.8, 0.9, 0.97],
            tests: vec![Test::Dm, Test::SimulatedRm, Test::Edf, Test::SimulatedEdf],
            count: 40,
            ..Study::default()
        };
        let [dm, simulated_rm, edf, simulated_edf] = &accepted(&one)[..] else { panic!("four tests") };
        assert_eq!(dm, simulated_rm, "both are exact: all tasks begin together");
        assert_eq!((edf, simulated_edf), (&vec![40; 4], &vec![40; 4]));
        assert!(dm[0] > dm[2] && dm[2] > dm[3], "{dm:?}");
        let several = Study {
            sets: TaskSets { deadlines: (0.6, 1.0), ..sets },
            utilizations: vec![1.0, 1.4, 1.8],
            tests: vec![Test::GlobalEdf, Test::Density, Test::SimulatedEdf],
            cpus: 2,
            count: 40,
            ..Study::default()
        };
        let [global, density, simulated] = &accepted(&several)[..] else { panic!("three tests") };
        assert!(global.iter().zip(simulated).all(|(test, simulation)| test <= simulation), "{global:?} {simulated:?}");
        assert!(
            density.iter().zip(simulated).all(|(test, simulation)| test <= simulation),
            "{density:?} {simulated:?}"
        );
        assert!(global[0] > 0 && global[2] < 40);
    }

    #[test]
    fn a_supply_takes_away_what_it_blacks_out() {
        let study = |supply: (u64, u64)| Study {
            sets: TaskSets { shortest: Duration::from_millis(20), ..TaskSets::default() },
            utilizations: vec![0.2, 0.4],
            tests: vec![Test::ReservationDm, Test::ReservationEdf, Test::QuotaDm, Test::QuotaEdf],
            count: 60,
            supply: Some((Duration::from_millis(supply.0), Duration::from_millis(supply.1))),
            ..Study::default()
        };
        let short = accepted(&study((5, 10)));
        let long = accepted(&study((25, 50)));
        for (short, long) in short.iter().zip(&long) {
            assert!(short.iter().zip(long).all(|(short, long)| short >= long), "{short:?} {long:?}");
        }
        // A quota is there at the begin of each period, a reservation somewhere in it; EDF is
        // optimal.
        assert!(short[2].iter().zip(&short[0]).all(|(quota, reservation)| quota >= reservation), "{short:?}");
        assert!(short[1].iter().zip(&short[0]).all(|(edf, dm)| edf >= dm), "{short:?}");
        assert!(short[0][0] > 0 && long[0][1] < 60, "{short:?} {long:?}");
    }

    #[test]
    fn mistakes_are_said_together() {
        let wrong = Study { cpus: 0, count: 0, tests: vec![Test::QuotaDm], ..Study::default() };
        let Err(Error::Values(wrong)) = wrong.run(|_| ControlFlow::Continue(())) else { panic!("it is wrong") };
        let keys: Vec<&str> = wrong.iter().map(|error| &*error.key).collect();
        assert_eq!(keys, ["sets", "cpus", "tests", "tests"]);
        let error = Test::from_name("rm").expect_err("unknown");
        assert!(error.to_string().contains("known are dm, edf"), "{error}");
        let none = Study { sets: TaskSets { tasks: 0, ..TaskSets::default() }, ..Study::default() };
        assert!(none.run(|_| ControlFlow::Continue(())).is_err());
    }
}

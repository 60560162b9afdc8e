//! [`Family`]: runs that begin alike share their beginning.
//!
//! Two cells that differ only in the value of a change at a later time (`[[change]]` at 8 s of
//! 10 s) are the same run until then, in every record. So the beginning is run once per seed, and
//! each cell goes on in a copy of the machine and of its figures. Its result is that of a whole
//! run, byte for byte.
//!
//! Copies are made and run by one thread. If there are fewer families than threads a family is cut,
//! and each part runs the beginning for itself: in the same time, on a thread without other work.

use super::{Observe, Plan, Report, finish, run_one};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use zerolag_model::{Duration, Instant};

/// Plans that begin alike.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Family {
    /// By their place in the list, the first one's first.
    members: Vec<usize>,
    /// From when on they can differ.
    parts_at: Instant,
}

/// How many families of a seed a plan is compared with, the latest first. Comparing programs costs
/// their size.
const COMPARED: usize = 32;
/// How often a beginning is interrupted to see whether the sweep is over.
const LOOKS: u64 = 64;

/// Returns the families of a list of plans, as many as threads if there can be.
pub(super) fn families(plans: &[Plan], threads: usize) -> Vec<Family> {
    let mut found: Vec<Family> = Vec::new();
    let mut of_seed: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, plan) in plans.iter().enumerate() {
        let same_seed = of_seed.entry(plan.config.seed).or_default();
        let begins_alike = |family: &usize| {
            let parts_at = plans[found[*family].members[0]].parts_from(plan)?;
            (parts_at > Instant::ZERO).then_some((*family, parts_at))
        };
        match same_seed.iter().rev().take(COMPARED).find_map(begins_alike) {
            Some((family, parts_at)) => {
                let family = &mut found[family];
                family.members.push(index);
                family.parts_at = family.parts_at.min(parts_at);
            }
            None => {
                same_seed.push(found.len());
                found.push(Family { members: vec![index], parts_at: Instant::FAR_FUTURE });
            }
        }
    }
    let parts = threads.div_ceil(found.len().max(1));
    let cut = |family: Family| {
        let size = family.members.len().div_ceil(parts);
        let part = |members: &[usize]| Family { members: members.to_vec(), parts_at: family.parts_at };
        family.members.chunks(size).map(part).collect::<Vec<_>>()
    };
    found.into_iter().flat_map(cut).collect()
}

impl Family {
    /// Runs all members; `tell` gets the outcome of each.
    pub(super) fn run<T>(
        &self,
        plans: &[Plan],
        observe: Observe,
        is_over: &AtomicBool,
        measure: impl Fn(&Report) -> T,
        mut tell: impl FnMut(usize, Result<T, String>),
    ) {
        let begun = match self.members[..] {
            [] | [_] => None,
            // A plan that cannot begin says so by itself.
            [first, ..] => plans[first].begin(observe).ok(),
        };
        let Some(mut begun) = begun else {
            self.members.iter().for_each(|index| tell(*index, run_one(&plans[*index], observe, is_over, &measure)));
            return;
        };
        let duration = plans[self.members[0]].config.duration.unwrap_or(Duration::MAX);
        let before = Duration::from_nanos(self.parts_at.as_nanos() - 1).min(duration);
        for look in 1..=LOOKS {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            begun.run_until(Instant::ZERO + before.mul_div_floor(look, LOOKS));
        }
        for index in &self.members {
            let branch = begun.branch(&plans[*index]);
            tell(*index, finish(branch, observe, is_over, &measure));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Simulation;
    use crate::source::Workload;
    use crate::sweep::{Axis, prepare};

    const TEXT: &str = "\
duration = \"400ms\"
[parameters]
before = \"50000 100000\"
after = \"20000 100000\"
nice = 0
[machine]
cpus = 2
[group.\"/web\"]
\"cpu.max\" = \"${before}\"
[task.a]
group = \"/web\"
instances = 4
steps = [{ run = { exponential = { mean = \"2ms\" } } }, { sleep = \"1ms\" }]
[task.b]
steps = [{ run = \"1s\" }]
[[change]]
at = \"200ms\"
task = \"b\"
nice = \"${nice}\"
[[change]]
at = \"300ms\"
group = \"/web\"
\"cpu.max\" = \"${after}\"
";

    /// Plans of two seeds for every combination of values.
    fn plans(axes: &[(&str, &[&str])]) -> Vec<Plan> {
        let axis = |(key, values): &(&str, &[&str])| Axis {
            key: (*key).to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let axes: Vec<Axis> = axes.iter().map(axis).collect();
        let prepared = prepare(&Simulation::new(Workload::toml(TEXT)), &axes).expect("it is valid");
        prepared.into_iter().flat_map(|prepared| [1, 2].map(|seed| prepared.plan.clone().with_seed(seed))).collect()
    }

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn runs_that_differ_later_share_their_beginning_and_give_what_whole_runs_give() {
        const LIMITS: &[&str] = &["20000 100000", "90000 100000", "max 100000"];
        for (axes, parts_at) in
            [(&[("after", LIMITS)][..], ms(300)), (&[("after", LIMITS), ("nice", &["0", "10"])], ms(200))]
        {
            let plans = plans(axes);
            let found = families(&plans, 1);
            let members: Vec<usize> = found.iter().map(|family| family.members.len()).collect();
            assert_eq!(members, [plans.len() / 2; 2], "one per seed");
            assert!(found.iter().all(|family| family.parts_at == parts_at), "{found:?}");
            let over = AtomicBool::new(false);
            let mut outcomes: Vec<_> = plans.iter().map(|_| None).collect();
            for family in &found {
                let tell = |index: usize, outcome| outcomes[index] = Some(outcome);
                family.run(&plans, Observe::FIGURES, &over, |report| report.clone(), tell);
            }
            let mut different = 0;
            for (plan, outcome) in plans.iter().zip(&outcomes) {
                let branch = outcome.as_ref().and_then(|outcome| outcome.as_ref().ok()).expect("it ran");
                let whole = plan.run(Observe::FIGURES).expect("it runs");
                assert_eq!((&branch.summary, &branch.outcome), (&whole.summary, &whole.outcome));
                let first = outcomes[0].as_ref().and_then(|outcome| outcome.as_ref().ok()).expect("it ran");
                different += usize::from(first.summary != branch.summary);
            }
            assert!(different > plans.len() / 2, "the changes have effects: {different}");
        }
    }

    #[test]
    fn what_differs_from_the_start_shares_nothing_and_a_family_is_cut_for_threads() {
        let sizes = |axes: &[(&str, &[&str])], threads| -> Vec<usize> {
            families(&plans(axes), threads).iter().map(|family| family.members.len()).collect()
        };
        let limits: &[&str] = &["20000 100000", "40000 100000", "60000 100000"];
        assert_eq!(sizes(&[("before", limits)], 1), [1; 6]);
        assert_eq!(sizes(&[("hz", &["100", "250"])], 1), [1; 4]);
        assert_eq!(sizes(&[("after", limits)], 4), [2, 1, 2, 1]);
        assert_eq!(sizes(&[("after", limits)], 64), [1; 6]);
        assert_eq!(sizes(&[("before", limits), ("after", limits)], 1), [3; 6]);
    }
}

//! Twins that must not be the same, but differ in a known way: more quota, another unit of time;
//! and those that add what must not matter.
//!
//! Each holds for a class of scenarios only, so a draft is reduced to that class first. What was
//! left out, and why, is said where it is left out.

use super::around::scale;
use super::draft::{Block, Draft, ScenarioLine};
use super::judge::enough;
use super::twin::constant;
use zerolag::background::Background;
use zerolag::simulation::Plan;
use zerolag_model::{CpuId, Duration, Record, TraceEvent};
use zerolag_report::Metrics;
use zerolag_sim::{Sink, Tracing};

/// Returns the draft with an empty group, and a task that never begins. Neither changes anything.
///
/// Both have names behind all others, so that no id of another changes: what ids do is the question
/// of the twin of names.
pub(super) fn with_idle(draft: &Draft) -> Option<Draft> {
    // Each group has its part of a hard limit's pool, and the kernel's threads come behind tasks.
    let has_own_threads = draft.background == Background::Idle || draft.background == Background::Kernel;
    // Nor may a group be created later than the empty one: its table is missing, or has `from`.
    let said = |path: &str| draft.blocks.iter().any(|block| block.head == format!("[group.\"{path}\"]"));
    let mut named = draft.blocks.iter().filter_map(|block| block.value("group"));
    let comes_later = |block: &Block| block.head.starts_with("[group.") && block.value("from").is_some();
    let is_apart =
        !has_own_threads && named.all(|path| said(path.trim_matches('"'))) && !draft.blocks.iter().any(comes_later);
    // A round of balancing divides the weights of all groups, and takes time for each.
    if draft.plan().ok()?.config.settings.cgroup_shares.is_at_balance() {
        return None;
    }
    // A policy that is loaded in mid-run is told of each group, and its calls take time.
    if draft.blocks.iter().any(|block| block.head == "[[change]]" && block.value("sched_ext").is_some()) {
        return None;
    }
    let mut twin = draft.clone();
    let mut group = Block::new("[group.\"/zz\"]");
    group.line("\"cpu.weight\" = 700");
    let mut never = Block::new("[task.zz]");
    never.line("instances = 0").list("steps", vec!["{ run = \"1ms\" }".to_owned()]);
    twin.blocks.extend([group, never]);
    is_apart.then_some(twin)
}

/// Returns whether a block is a task of the fair class or of the real-time one.
pub(super) fn is_task(block: &Block, policies: &[&str]) -> bool {
    let has = |policy: &str| policies.iter().any(|known| policy.trim_matches('"') == *known);
    block.head.starts_with("[task.") && block.value("policy").is_some_and(has)
}

/// Keeps the steps of a task that are accepted.
pub(super) fn keep_steps(block: &mut Block, accepts: impl Fn(&str) -> bool) -> bool {
    for line in &mut block.lines {
        if let ScenarioLine::List("steps", steps) = line {
            steps.retain(|step| accepts(step));
            return !steps.is_empty();
        }
    }
    false
}

/// Returns two drafts of a sole group on a sole CPU whose tasks compute without end, of which the
/// second has twice the limit.
///
/// Restricted to tasks that never sleep: with sleeping ones another order of turns can move a sleep
/// to the end of the run, in Linux as well (more supply, less work until then). And to operations
/// that cost nothing: a limit that is never reached can mean more switches.
pub(super) fn quotas(draft: &Draft) -> Option<(Draft, Draft)> {
    let mut top = draft.blocks.first()?.clone();
    top.set("costs", "\"zero\"");
    let settings = draft.blocks.iter().find(|block| block.head == "[settings]")?;
    let max = draft.blocks.iter().find_map(|block| block.value("\"cpu.max\""))?.trim_matches('"').to_owned();
    let (quota, period) = max.split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    let mut machine = Block::new("[machine]");
    machine.line("cpus = 1");
    let mut settings = settings.clone();
    for key in ["\"isolcpus\"", "\"nohz_full\""] {
        settings.unset(key);
    }
    let mut tasks: Vec<Block> =
        draft.blocks.iter().filter(|block| is_task(block, &["other", "batch", "idle"])).cloned().collect();
    for task in &mut tasks {
        let kept = ["policy = ", "nice = ", "instances = ", "delay = "];
        task.lines
            .retain(|line| matches!(line, ScenarioLine::Text(text) if kept.iter().any(|key| text.starts_with(key))));
        task.line("group = \"/g\"").list("steps", vec!["{ run = \"1h\" }".to_owned()]);
    }
    // Time is charged at ticks. A charge of several periods meets the quota of one.
    let hz: u64 = settings.value("hz").and_then(|hz| hz.parse().ok()).unwrap_or(250);
    if tasks.is_empty() || quota == 0 || period * hz < 1_000_000 {
        return None;
    }
    let with = |quota: u64| {
        let mut group = Block::new("[group.\"/g\"]");
        group.line(format!("\"cpu.max\" = \"{quota} {period}\""));
        let mut blocks = vec![top.clone(), machine.clone(), settings.clone(), group];
        blocks.extend(tasks.iter().cloned());
        Draft { blocks, background: Background::None, costs: None, ..draft.clone() }
    };
    Some((with(quota), with(2 * quota)))
}

/// Returns how a group got less CPU time with the larger limit.
///
/// A limit is enforced at ticks, and what a group took too much is repaid in later periods. So at
/// the end of a run the smaller limit can be ahead by the tick and by the period in which it ends.
pub(super) fn less_with_more_quota(less: &Plan, more: &Plan) -> Option<String> {
    let slack = |plan: &Plan| {
        let period = plan.program.groups.first().map_or(Duration::ZERO, |group| group.max.period);
        let tick = Duration::from_secs(1) / u64::from(plan.config.settings.hz.max(1));
        tick + period
    };
    let time = |plan: &Plan| {
        let mut metrics = Metrics::new(&plan.meta());
        let outcome = plan.build(Tracing::On).ok()?.run_with(&mut Measured(&mut metrics), enough);
        let summary = outcome.why.is_ok().then(|| metrics.finish(outcome.end))?;
        Some(summary.tasks.iter().map(|task| task.run).fold(Duration::ZERO, Duration::saturating_add))
    };
    let (one, two) = (time(less)?, time(more)?);
    (two.saturating_add(slack(less)) < one).then(|| format!("{one} with the limit, {two} with twice the limit"))
}

struct Measured<'m>(&'m mut Metrics);

impl Sink for Measured<'_> {
    fn record(&mut self, record: &Record) {
        self.0.observe(record);
    }
}

/// Returns two drafts whose times differ by a factor of two.
///
/// Restricted to SCHED_FIFO and deadline tasks, enforced exactly and without costs, servers and
/// throttling: ticks, slices and periods of the kernel are constants that do not scale with a
/// program. Changes in mid-run are dropped, since their times were drawn for a grid of ticks.
pub(super) fn scaled(draft: &Draft) -> Option<(Draft, Draft)> {
    let mut top = draft.blocks.first()?.clone();
    top.set("costs", "\"zero\"");
    let mut settings = Block::new("[settings]");
    for (key, value) in [("enforce.rt", "exact"), ("enforce.dl", "exact"), ("rt_throttling", "off")] {
        settings.line(format!("\"{key}\" = \"{value}\""));
    }
    // Before 2.6.25 the periodic balancer moves real-time tasks, at ticks.
    settings.line("\"rt_balance\" = \"pull_locked\"");
    settings.line("\"timer_slack_ns\" = 0").line("\"fair_server\" = \"off\"");
    // What a weak CPU has done is rounded to the nanosecond when its task stops.
    let mut machine = draft.blocks.iter().find(|block| block.head == "[machine]")?.clone();
    machine.lines.retain(|line| !matches!(line, ScenarioLine::List("capacities", _)));
    let is_mutex = |block: &&Block| block.head.starts_with("[mutex.");
    let mut blocks = vec![top, machine, settings];
    blocks.extend(draft.blocks.iter().filter(is_mutex).cloned());
    let mut tasks: Vec<Block> =
        draft.blocks.iter().filter(|block| is_task(block, &["fifo", "deadline"])).cloned().collect();
    // What tasks share with ones that are dropped, and what depends on the kernel's own times.
    let known = ["{ run", "{ sleep", "{ kernel", "{ timer", "{ lock = \"m", "{ lock = \"m0\" }, { lock"];
    tasks.retain_mut(|task| {
        task.unset("group");
        task.unset("loop");
        // GRUB charges in fixed point (`grub_reclaim`): what is rounded twice is not half of it.
        task.unset("flags");
        // So is the density of a constrained deadline (`update_dl_revised_wakeup`).
        task.unset("deadline");
        keep_steps(task, |step| {
            known.iter().any(|begin| step.starts_with(begin)) && !step.contains("broadcast") && !step.contains("1h")
        })
    });
    if tasks.is_empty() {
        return None;
    }
    blocks.extend(tasks);
    let mut one = Draft { blocks, twin: draft.twin, background: Background::None, ..Draft::default() };
    one.each_text(&mut |text| *text = constant(text));
    let mut other = one.clone();
    other.each_text(&mut |text| scale(text, |nanos| 2 * nanos));
    Some((one, other))
}

/// Returns the first switch of the first run that the second has not at twice its time.
pub(super) fn not_scaled(one: &Plan, two: &Plan) -> Option<String> {
    let switches = |plan: &Plan, factor: u64| {
        let mut seen = Switches { factor, all: Vec::new() };
        let outcome = plan.build(Tracing::On).ok()?.run_with(&mut seen, enough);
        // Which of two CPUs is the first at one instant can depend on the ticks before, whose
        // period stays.
        seen.all.sort_by_key(|(at, cpu, _)| (*at, *cpu));
        outcome.why.is_ok().then_some(seen.all)
    };
    let (one, two) = (switches(one, 2)?, switches(two, 1)?);
    let different = one.iter().zip(&two).find(|(one, two)| one != two);
    let said = |(at, cpu, what): &(u64, CpuId, String)| format!("cpu {cpu} {what} at {at}ns");
    match different {
        Some((one, two)) => Some(format!("{}, and {}", said(one), said(two))),
        None if one.len() == two.len() => None,
        None => Some(format!("{} and {} switches", one.len(), two.len())),
    }
}

/// The switches of a run by CPU, with so many times their times.
struct Switches {
    factor: u64,
    all: Vec<(u64, CpuId, String)>,
}

impl Sink for Switches {
    fn record(&mut self, record: &Record) {
        if let TraceEvent::Switch { prev, next, .. } = &record.event {
            let said = format!("from {prev:?} to {next:?}");
            self.all.push((record.at.as_nanos() * self.factor, record.cpu, said));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::judge::Finding;
    use crate::fuzz::twin::{Twin, differ};

    fn differs(twin: Twin, one: &str, other: &str) -> bool {
        matches!(differ(twin, &Draft::of_text(one), &Draft::of_text(other)), Some(Finding::TwinDiffers(..)))
    }

    #[test]
    fn less_time_with_more_quota_is_found() {
        let with = |quota: u64, sleep: &str| {
            format!(
                "kernel = \"6.12\"\nduration = \"300ms\"\n[machine]\ncpus = 1\n[group.\"/g\"]\n\"cpu.max\" = \"{quota} 10000\"\n\
                 [task.a]\ngroup = \"/g\"\nsteps = [{{ run = \"5ms\" }}{sleep}]\n"
            )
        };
        assert!(!differs(Twin::Quota, &with(3_000, ""), &with(6_000, "")));
        // A planted fault: the group with the larger limit sleeps.
        assert!(differs(Twin::Quota, &with(3_000, ""), &with(6_000, ", { sleep = \"50ms\" }")));
        assert!(differs(Twin::Quota, &with(6_000, ""), &with(3_000, "")));
    }

    #[test]
    fn a_constant_that_does_not_scale_is_found() {
        let with = |us: u64, policy: &str| {
            format!(
                "kernel = \"6.12\"\nduration = \"{}us\"\ncosts = \"zero\"\n[machine]\ncpus = 1\n[settings]\n\"enforce.rt\" = \"exact\"\n\
                 [task.a]\ninstances = 2\npolicy = \"{policy}\"\npriority = 5\nsteps = [{{ run = \"{}us\" }}, {{ sleep = \"{}us\" }}]\n",
                30 * us,
                3 * us,
                us
            )
        };
        assert!(!differs(Twin::Scaled, &with(10_000, "fifo"), &with(20_000, "fifo")));
        // The slice of round robin is 100 ms.
        assert!(differs(Twin::Scaled, &with(100_000, "rr"), &with(200_000, "rr")));
    }

    /// A group more makes the paths of a balancing CPU longer.
    #[test]
    fn where_balancing_walks_all_groups_an_empty_one_counts() {
        let with = |shares: &str| {
            format!(
                "kernel = \"2.6.23\"\nduration = \"100ms\"\ncosts = \"default\"\n[settings]\ncgroup_shares = \"{shares}\"\n\
                 [task.a]\nsteps = [{{ run = \"1ms\" }}, {{ sleep = \"1ms\" }}]\n"
            )
        };
        assert!(with_idle(&Draft::of_text(&with("continuous"))).is_some());
        assert!(with_idle(&Draft::of_text(&with("at_balance_unthrottled"))).is_none());
        assert!(with_idle(&Draft::of_text(&with("at_balance"))).is_none());
    }

    #[test]
    fn the_pairs_are_of_their_class() {
        let (mut quota, mut scaled_pairs) = (0, 0);
        for number in 0..60 {
            let draft = crate::fuzz::draw(3, number, None);
            if let Some((one, other)) = quotas(&draft) {
                assert!(one.plan().is_ok() && other.plan().is_ok(), "{one}");
                quota += 1;
            }
            if let Some((one, other)) = scaled(&draft) {
                assert!(one != other, "{one}");
                scaled_pairs += 1;
            }
        }
        assert!(quota > 15 && scaled_pairs > 15, "{quota} and {scaled_pairs} pairs");
    }
}

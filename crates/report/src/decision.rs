//! [`sentence`]: why a CPU picked what it runs, in words.
//!
//! The reason is the scheduler's own state at that decision
//! ([`CpuState::why`](zerolag_model::state::CpuState::why)); here it gets names and units. Virtual
//! times are those of a task of nice 0.

use crate::human::{Human, HumanSigned};
use std::fmt::Write;
use zerolag_model::state::{Decision, Entity, FairRule, Level, PolicyQueue, PolicyStep, PolicyWay, Rule};
use zerolag_model::{Duration, GroupId, Instant, ServerKind, SignedDuration, TaskId};

/// The names of tasks and groups.
#[derive(Clone, Copy)]
pub struct Names<'n> {
    /// Returns the name of a task.
    pub task: &'n dyn Fn(TaskId) -> String,
    /// Returns the path of a group.
    pub group: &'n dyn Fn(GroupId) -> String,
}

impl std::fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Names")
    }
}

impl Names<'_> {
    fn task(self, task: TaskId) -> String {
        format!("`{}`", (self.task)(task))
    }

    fn entity(self, entity: Entity) -> String {
        match entity {
            Entity::Task(task) => self.task(task),
            Entity::Group(group) => format!("`{}`", (self.group)(group)),
        }
    }
}

/// Returns the decision with its reason, without a full stop.
#[must_use]
pub fn sentence(decision: &Decision, names: Names<'_>) -> String {
    let Some(picked) = decision.picked else {
        return match decision.why.rule {
            Rule::Idle { throttled: Some(group), .. } => format!("idles: `{}` is throttled here", (names.group)(group)),
            Rule::Idle { kept_back: 1, .. } => {
                "idles: a task is here, but may not run now (throttled, or no budget)".to_owned()
            }
            Rule::Idle { kept_back: 2.., .. } => {
                "idles: tasks are here, but may not run now (throttled, or no budget)".to_owned()
            }
            _ => "idles: no task is ready to run here".to_owned(),
        };
    };
    let name = names.task(picked);
    let mut says =
        if decision.before == Some(picked) { format!("{name} goes on: ") } else { format!("picked {name}: ") };
    if let Some((kind, deadline, left)) = decision.why.server {
        let server = match kind {
            ServerKind::Fair => "the fair server",
            ServerKind::Ext => "the server of the loaded scheduler",
        };
        let (left, until) = (HumanSigned(left), span(decision.at, deadline));
        write!(says, "{server} runs it before real-time tasks ({left} of its budget left, deadline {until}); ")
            .expect(INFALLIBLE);
    }
    match &decision.why.rule {
        Rule::Loaded(Some(way)) if decision.before == Some(picked) && way.last.at < decision.at => {
            says.push_str("it has a slice left, or no other task waits for this CPU");
        }
        other => says.push_str(&rule(other, decision.at, names)),
    }
    says
}

const INFALLIBLE: &str = "invariant: writing to a String cannot fail";

fn rule(rule: &Rule, at: Instant, names: Names<'_>) -> String {
    match rule {
        Rule::Idle { .. } => "nothing else may run".to_owned(),
        Rule::Deadline { deadline, left, next } => {
            let left = HumanSigned(*left);
            match next {
                None => format!(
                    "the only deadline task that may run ({left} of its budget left, deadline {})",
                    span(at, *deadline)
                ),
                Some((next, later)) => {
                    let earlier = order(signed(later.signed_since(*deadline)), "deadline", &names.task(*next));
                    format!("{earlier}; {left} of its budget left")
                }
            }
        }
        Rule::RealTime { group, priority, next } => {
            let by = group.map_or(String::new(), |group| {
                format!("the server of `{}` runs it before other real-time tasks; in the group ", (names.group)(group))
            });
            by + &real_time_text(*group, *priority, *next, names)
        }
        Rule::Fair(levels) => levels_text(levels, names),
        Rule::Loaded(None) => "the loaded scheduler has it first in its order".to_owned(),
        Rule::Loaded(Some(way)) => way_text(way, at),
    }
}

/// Returns how a policy brought a task to its CPU.
fn way_text(way: &PolicyWay, at: Instant) -> String {
    let PolicyStep { by, to, .. } = way.last;
    let Some(by) = by else {
        return match to {
            PolicyQueue::Local(_) => "it lost its CPU with a slice left, so it is first on the local queue".to_owned(),
            PolicyQueue::Global | PolicyQueue::Own(_) | PolicyQueue::Kept => {
                "the policy is bypassed; it was first on the global queue".to_owned()
            }
        };
    };
    let before = way.before.filter(|before| before.at <= way.last.at && before.to != to);
    match before {
        Some(PolicyStep { at: since, by: first, to: from, .. }) if by == "ops.dispatch" => {
            let waited = Human(way.last.at.since(since));
            let first = first.unwrap_or("the kernel");
            format!("{by} took it from {} after {waited} ({first} had put it there)", queue_text(from))
        }
        Some(_) | None => {
            let waited = at.since(way.last.at);
            let waited = if waited.is_zero() { String::new() } else { format!(" {} before", Human(waited)) };
            format!("{by} had put it on {}{waited}", queue_text(to))
        }
    }
}

/// Returns the name of a queue of a policy.
#[must_use]
pub fn queue_text(queue: PolicyQueue) -> String {
    match queue {
        PolicyQueue::Local(cpu) => format!("the local queue of CPU {cpu}"),
        PolicyQueue::Global => "the global queue".to_owned(),
        PolicyQueue::Own(id) => format!("queue {id:#x}"),
        PolicyQueue::Kept => "no queue: the policy kept it".to_owned(),
    }
}

/// Returns why a task is the first of the real-time class, or of a group with servers.
fn real_time_text(group: Option<GroupId>, priority: u8, next: Option<(TaskId, u8)>, names: Names<'_>) -> String {
    match next {
        None if group.is_some() => format!("the only one that may run (priority {priority})"),
        None => {
            format!("the only real-time task that may run (priority {priority}); its class comes before fair tasks")
        }
        Some((next, other)) if other == priority => {
            format!("first in the queue of priority {priority}, before {}", names.task(next))
        }
        Some((next, other)) if other > priority => {
            format!("priority {priority}; {} has {other}, but its group is throttled", names.task(next))
        }
        Some((next, other)) => format!("priority {priority}, above {}'s {other}", names.task(next)),
    }
}

/// Returns the choices from the root down; a level with one entity says nothing, unless it is the
/// only one.
fn levels_text(levels: &[Level], names: Names<'_>) -> String {
    let mut parts: Vec<String> = Vec::new();
    for level in levels {
        if level.by == FairRule::Alone {
            continue;
        }
        let text = fair(level.by, names);
        match level.picked {
            Entity::Group(group) => parts.push(format!("its group `{}` is {text}", (names.group)(group))),
            Entity::Task(_) if level.group != GroupId::ROOT => {
                parts.push(format!("in `{}` it is {text}", (names.group)(level.group)));
            }
            Entity::Task(_) => parts.push(text),
        }
    }
    if parts.is_empty() { "the only fair task that may run here".to_owned() } else { parts.join("; ") }
}

fn fair(rule: FairRule, names: Names<'_>) -> String {
    match rule {
        FairRule::Alone => "alone".to_owned(),
        FairRule::Boosted => "boosted: it has to leave the kernel before its group is throttled".to_owned(),
        FairRule::Deadline { lag, next, not_eligible } => {
            let lag = signed(SignedDuration::from_nanos(lag));
            let mut text = match next {
                Some((next, later)) => {
                    let order =
                        order(signed(SignedDuration::from_nanos(later)), "virtual deadline", &names.entity(next));
                    format!("eligible (lag {lag}), {order}")
                }
                None => format!("the only eligible one (lag {lag})"),
            };
            match not_eligible {
                Some((1, other, true)) => {
                    write!(text, "; {} has an earlier one, but is not eligible", names.entity(other))
                }
                Some((1, other, false)) => write!(text, "; {} is not eligible", names.entity(other)),
                Some((number, other, true)) => {
                    let other = names.entity(other);
                    write!(text, "; {number} are not eligible, of them {other} with an earlier one")
                }
                Some((number, _, false)) => write!(text, "; {number} are not eligible"),
                None => Ok(()),
            }
            .expect(INFALLIBLE);
            text
        }
        FairRule::Protected { instead_of } => {
            let other = names.entity(instead_of);
            format!("eligible, and its slice is not over, although {other} has an earlier virtual deadline")
        }
        FairRule::ShortWakeup { instead_of } => {
            let other = names.entity(instead_of);
            format!("eligible, and woken with a shorter slice, although {other} has an earlier virtual deadline")
        }
        FairRule::Yielded { instead_of } => {
            format!("{} has less vruntime, but has yielded", names.entity(instead_of))
        }
        FairRule::OutOfOrder { instead_of } => {
            format!("out of order: {} is before it by its numbers", names.entity(instead_of))
        }
        FairRule::Vruntime { next: None } => "the one with the least vruntime".to_owned(),
        FairRule::Vruntime { next: Some((next, more)) } => {
            order(signed(SignedDuration::from_nanos(more)), "vruntime", &names.entity(next))
        }
        FairRule::Buddy { instead_of, behind } => {
            let (other, behind) = (names.entity(instead_of), Human(Duration::from_nanos(behind.unsigned_abs())));
            format!("it woke or was preempted last, and its vruntime is only {behind} above {other}'s")
        }
    }
}

/// Returns "deadline 3ms before `other`'s".
fn order(by: HumanSigned, what: &str, other: &str) -> String {
    let by_how_much = by.to_string();
    match (what, by.0.as_nanos()) {
        (_, 0) => format!("{what} as {other}'s, and first in order"),
        ("vruntime", _) => format!("vruntime {by_how_much} below {other}'s"),
        _ => format!("{what} {by_how_much} before {other}'s"),
    }
}

const fn signed(span: SignedDuration) -> HumanSigned {
    HumanSigned(span)
}

/// Returns "in 3ms" or "3ms ago".
fn span(now: Instant, at: Instant) -> String {
    let left = at.signed_since(now);
    if left.is_negative() { format!("{} ago", HumanSigned(-left)) } else { format!("in {}", HumanSigned(left)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::CpuId;
    use zerolag_model::state::Why;

    fn says(rule: Rule, server: Option<(ServerKind, Instant, SignedDuration)>, before: Option<u32>) -> String {
        let picked = (!matches!(rule, Rule::Idle { .. })).then_some(TaskId(0));
        let at = Instant::from_nanos(1_000_000);
        let decision = Decision { at, cpu: CpuId(0), before: before.map(TaskId), picked, why: Why { server, rule } };
        let task = |task: TaskId| ["short", "hog", "other"][task.index()].to_owned();
        let names = Names { task: &task, group: &|group| format!("/g{group}") };
        sentence(&decision, names)
    }

    fn level(group: u32, picked: Entity, by: FairRule) -> Level {
        Level { group: GroupId(group), picked, others: 1, by }
    }

    #[test]
    fn a_policys_decision_names_the_operation_and_the_queue() {
        let step = |at: u64, by, to| PolicyStep { at: Instant::from_nanos(at), by, to, ahead: 0 };
        let own = step(500, Some("ops.enqueue"), PolicyQueue::Own(7));
        let local = |by| step(1_000, by, PolicyQueue::Local(CpuId(0)));
        let way = |last, before| Rule::Loaded(Some(PolicyWay { last, before }));
        let taken = way(local(Some("ops.dispatch")), Some(own));
        assert_eq!(
            says(taken.clone(), None, None),
            "picked `short`: ops.dispatch took it from queue 0x7 after 500ns (ops.enqueue had put it there)"
        );
        let direct = way(local(Some("ops.select_cpu")), Some(own));
        assert!(
            says(direct, None, None)
                .starts_with("picked `short`: ops.select_cpu had put it on the local queue of CPU 0")
        );
        assert_eq!(
            says(way(local(None), None), None, None),
            "picked `short`: it lost its CPU with a slice left, so it is first on the local queue"
        );
        assert_eq!(
            says(taken, None, Some(0)),
            "`short` goes on: it has a slice left, or no other task waits for this CPU"
        );
    }

    #[test]
    fn each_rule_has_its_sentence() {
        let (short, hog) = (Entity::Task(TaskId(0)), Entity::Task(TaskId(1)));
        let ms = |ms: i64| SignedDuration::from_nanos(ms * 1_000_000);
        let by_deadline = FairRule::Deadline { lag: 1_200_000, next: Some((hog, 3_000_000)), not_eligible: None };
        let only = FairRule::Deadline { lag: 0, next: None, not_eligible: Some((1, hog, true)) };
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let fair = |by| Rule::Fair(vec![level(0, short, by)]);
        let groups = vec![level(0, Entity::Group(GroupId(2)), by_deadline), level(2, short, only)];
        let server = Some((ServerKind::Fair, at(13), ms(38)));
        for (found, expected) in [
            (
                says(fair(by_deadline), None, None),
                "picked `short`: eligible (lag 1.20ms), virtual deadline 3.00ms before `hog`'s",
            ),
            (
                says(fair(only), None, Some(1)),
                "picked `short`: the only eligible one (lag 0ns); `hog` has an earlier one, but is not eligible",
            ),
            (says(fair(FairRule::Alone), None, Some(0)), "`short` goes on: the only fair task that may run here"),
            (
                says(Rule::Fair(groups), None, None),
                "picked `short`: its group `/g2` is eligible (lag 1.20ms), virtual deadline 3.00ms before `hog`'s; in `/g2` it is the only eligible one (lag 0ns); `hog` has an earlier one, but is not eligible",
            ),
            (
                says(fair(FairRule::Vruntime { next: Some((hog, 500_000)) }), None, None),
                "picked `short`: vruntime 500us below `hog`'s",
            ),
            (
                says(fair(FairRule::Buddy { instead_of: hog, behind: 700 }), None, None),
                "picked `short`: it woke or was preempted last, and its vruntime is only 700ns above `hog`'s",
            ),
            (
                says(Rule::RealTime { group: None, priority: 9, next: Some((TaskId(1), 5)) }, None, None),
                "picked `short`: priority 9, above `hog`'s 5",
            ),
            (
                says(Rule::RealTime { group: None, priority: 5, next: Some((TaskId(1), 5)) }, None, None),
                "picked `short`: first in the queue of priority 5, before `hog`",
            ),
            (
                says(Rule::RealTime { group: Some(GroupId(2)), priority: 5, next: None }, None, None),
                "picked `short`: the server of `/g2` runs it before other real-time tasks; in the group the only one that may run (priority 5)",
            ),
            (
                says(Rule::Deadline { deadline: at(4), left: ms(2), next: Some((TaskId(1), at(7))) }, None, None),
                "picked `short`: deadline 3.00ms before `hog`'s; 2.00ms of its budget left",
            ),
            (
                says(fair(FairRule::Alone), server, None),
                "picked `short`: the fair server runs it before real-time tasks (38.0ms of its budget left, deadline in 12.0ms); the only fair task that may run here",
            ),
            (says(Rule::Loaded(None), None, None), "picked `short`: the loaded scheduler has it first in its order"),
            (
                says(Rule::Idle { kept_back: 0, throttled: Some(GroupId(2)) }, None, Some(0)),
                "idles: `/g2` is throttled here",
            ),
            (says(Rule::Idle { kept_back: 0, throttled: None }, None, Some(0)), "idles: no task is ready to run here"),
            (
                says(Rule::Idle { kept_back: 1, throttled: None }, None, Some(0)),
                "idles: a task is here, but may not run now (throttled, or no budget)",
            ),
        ] {
            assert_eq!(found, expected);
        }
    }
}

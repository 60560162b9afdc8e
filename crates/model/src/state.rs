//! The state of a scheduler at its decisions: what the entities of each class have, and why one of
//! them was picked.
//!
//! A trace says which task ran when. The numbers behind that (lag, virtual deadlines, quota,
//! budgets) are the scheduler's own, and no event has them. A host that is asked for them copies
//! them at each decision of a CPU: [`CpuState`]. What is kept of a run is a [`StateHistory`]: each
//! number over time as a [`Track`], and the first decisions, each with its reason ([`Why`]).
//!
//! Sources: Stoica & Abdel-Wahab 1995 (lag, eligible time, virtual deadline); Linux v6.12
//! `kernel/sched/fair.c`, `entity_lag`, `entity_eligible`, `pick_eevdf`; v6.1 `pick_next_entity`;
//! `deadline.c`, `pick_task_dl`; `rt.c`, `pick_next_rt_entity`.

use crate::attr::ClassId;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::server::ServerKind;
use crate::time::{Instant, SignedDuration};
use alloc::vec::Vec;

/// What is queued in the fair class: a task, or a group with what is below it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Entity {
    /// A task.
    Task(TaskId),
    /// A group, on the queue of the group above it.
    Group(GroupId),
}

/// The state of one CPU right after it has picked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuState {
    /// The CPU.
    pub cpu: CpuId,
    /// The picked task.
    pub picked: Option<TaskId>,
    /// The server that runs it.
    pub serving: Option<ServerKind>,
    /// The class of the picked task.
    pub class: ClassId,
    /// The deadline tasks here, the ready ones first, each by deadline.
    pub deadline: Vec<DeadlineState>,
    /// The servers that are on.
    pub servers: Vec<ServerBudget>,
    /// The real-time tasks here without those of groups with servers, in the order in which they
    /// would run, with their priorities as users write them.
    pub real_time: Vec<(TaskId, u8)>,
    /// The group whose server runs the picked task (HCBS).
    pub served: Option<ServedState>,
    /// Whether RT throttling, or a limit of groups, keeps real-time tasks from running.
    pub is_rt_throttled: bool,
    /// The queues of the fair class: that of the root first.
    pub fair: Vec<FairQueueState>,
    /// The number of tasks of a loaded scheduler here.
    pub loaded: u32,
    /// How a policy brought the picked task here, if one is loaded.
    pub way: Option<PolicyWay>,
}

/// How a task of a loaded policy came to where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyWay {
    /// The last step.
    pub last: PolicyStep,
    /// The step before it.
    pub before: Option<PolicyStep>,
}

/// A task is put on a queue of a loaded policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyStep {
    /// When.
    pub at: Instant,
    /// The operation of the policy that did it, `ops.enqueue` for example; `None` if it was the
    /// kernel: the task lost its CPU and has slice left, or the policy is bypassed.
    pub by: Option<&'static str>,
    /// The queue.
    pub to: PolicyQueue,
    /// The number of tasks before it there.
    pub ahead: u32,
}

/// A queue on which a task of a loaded policy waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyQueue {
    /// The local queue of a CPU.
    Local(CpuId),
    /// The queue of the machine.
    Global,
    /// A queue of the policy, by number.
    Own(u64),
    /// None: the policy keeps its id.
    Kept,
}

/// The real-time tasks of a group with servers on a CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServedState {
    /// The group.
    pub group: GroupId,
    /// Its tasks here, in the order in which they would run, with their priorities as users write
    /// them.
    pub tasks: Vec<(TaskId, u8)>,
}

/// The state of a deadline task on its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeadlineState {
    /// The task.
    pub task: TaskId,
    /// Its absolute deadline.
    pub deadline: Instant,
    /// The rest of its budget; a debt if negative.
    pub left: SignedDuration,
    /// Whether it waits for its next budget.
    pub is_throttled: bool,
}

/// The state of a deadline server of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerBudget {
    /// Which one.
    pub kind: ServerKind,
    /// Its absolute deadline.
    pub deadline: Instant,
    /// The rest of its budget; a debt if negative.
    pub left: SignedDuration,
    /// Whether it competes with deadline tasks now.
    pub is_queued: bool,
}

/// A queue of the fair class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FairQueueState {
    /// The group whose entities it has; [`GroupId::ROOT`] for the topmost.
    pub group: GroupId,
    /// By which rule it orders them.
    pub order: FairOrder,
    /// The quota that is left on this CPU, if the group has a limit; a debt if negative.
    pub quota: Option<SignedDuration>,
    /// Whether the group is throttled here.
    pub is_throttled: bool,
    /// The entities, in order of id.
    pub entities: Vec<FairEntityState>,
}

/// The rule by which a fair queue orders its entities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FairOrder {
    /// The earliest virtual deadline of those that are eligible.
    Eevdf,
    /// The least vruntime.
    Cfs,
}

/// The state of an entity on a fair queue. Virtual times are nanoseconds of a task of nice 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FairEntityState {
    /// Which one.
    pub entity: Entity,
    /// Whether it is the one that was picked here.
    pub is_current: bool,
    /// Whether it is blocked, and queued only until its negative lag is repaid.
    pub is_delayed: bool,
    /// Whether it runs before the others because it has to leave the kernel.
    pub is_boosted: bool,
    /// Whether it keeps the CPU while it is eligible: its request is not served.
    pub is_protected: bool,
    /// Whether the next pick prefers it, or passes it over.
    pub buddy: Option<Buddy>,
    /// Its weight in 1024ths: 1,048,576 at nice 0.
    pub weight: u64,
    /// The service that it is owed, in nanoseconds of CPU time: *w (V - v)*. Negative if it has had
    /// too much. 0 under CFS.
    pub lag: i64,
    /// Its eligible time, which is its vruntime, less the average of the queue: *v - V*. It is
    /// eligible while this is not positive. Under CFS its vruntime less the queue's
    /// `min_vruntime`.
    pub eligible: i64,
    /// Its virtual deadline, less the average of the queue. 0 under CFS.
    pub deadline: i64,
}

/// What the next pick does with an entity, out of the order of its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buddy {
    /// Prefers it: it woke and preempts.
    Next,
    /// Prefers it: a woken entity preempted it (CFS).
    Last,
    /// Passes it over: it yielded (CFS).
    Skip,
}

/// Returns the lag of an entity: the service that it is owed, in nanoseconds.
#[must_use]
pub fn lag(eligible: i64, weight: u64) -> i64 {
    let service = -i128::from(eligible) * i128::from(weight) / i128::from(NICE_0);
    i64::try_from(service).unwrap_or(if service < 0 { i64::MIN } else { i64::MAX })
}

/// The weight of nice 0 in 1024ths.
const NICE_0: u64 = 1 << 20;

impl FairEntityState {
    /// Returns whether its lag is not negative.
    #[must_use]
    pub const fn is_eligible(&self) -> bool {
        self.eligible <= 0
    }
}

/// Why a CPU runs what it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Why {
    /// The server that runs the picked task, with its deadline and the rest of its budget.
    pub server: Option<(ServerKind, Instant, SignedDuration)>,
    /// The rule of the task's own class.
    pub rule: Rule,
}

/// The rule by which a task was picked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rule {
    /// No task can run.
    Idle {
        /// How many deadline and real-time tasks are here and may not run: throttled, or without
        /// budget.
        kept_back: u32,
        /// The first group that is throttled here.
        throttled: Option<GroupId>,
    },
    /// The earliest deadline.
    Deadline {
        /// Its deadline.
        deadline: Instant,
        /// The rest of its budget.
        left: SignedDuration,
        /// The next task by deadline.
        next: Option<(TaskId, Instant)>,
    },
    /// The highest priority.
    RealTime {
        /// The group whose server runs it, whose tasks alone count then.
        group: Option<GroupId>,
        /// Its priority.
        priority: u8,
        /// The next task and its priority.
        next: Option<(TaskId, u8)>,
    },
    /// The order of the fair class, on each queue from the root to the task.
    Fair(Vec<Level>),
    /// The decision of a loaded scheduler; of a policy with the way of the task.
    Loaded(Option<PolicyWay>),
}

/// A choice between the entities of one fair queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// The group whose queue it is.
    pub group: GroupId,
    /// The picked entity.
    pub picked: Entity,
    /// How many others wait there.
    pub others: u32,
    /// Why it was picked.
    pub by: FairRule,
}

/// The rule by which an entity of a fair queue was picked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FairRule {
    /// It is alone.
    Alone,
    /// It has to leave the kernel: it is boosted.
    Boosted,
    /// It has the earliest virtual deadline of those that are eligible.
    Deadline {
        /// The service that it is owed, in nanoseconds.
        lag: i64,
        /// The next one of those that are eligible, and by how much its deadline is later, in
        /// virtual nanoseconds.
        next: Option<(Entity, i64)>,
        /// How many are not eligible, the first of them by deadline, and whether that deadline is
        /// earlier.
        not_eligible: Option<(u32, Entity, bool)>,
    },
    /// It is eligible and its request is not served, so it goes on; an other has this deadline
    /// earlier.
    Protected {
        /// The one that would be next without that.
        instead_of: Entity,
    },
    /// It woke up with a shorter slice than the running one had, and is eligible.
    ShortWakeup {
        /// The one with the earlier deadline.
        instead_of: Entity,
    },
    /// It has the least vruntime.
    Vruntime {
        /// The next one, and by how much its vruntime is larger, in virtual nanoseconds.
        next: Option<(Entity, i64)>,
    },
    /// The one with the least vruntime has yielded.
    Yielded {
        /// That one.
        instead_of: Entity,
    },
    /// Another one is before it by its numbers, for a reason that the state does not show.
    OutOfOrder {
        /// That one.
        instead_of: Entity,
    },
    /// It woke or was preempted a moment ago (a *buddy*), and its vruntime is not much larger.
    Buddy {
        /// The one with the least vruntime.
        instead_of: Entity,
        /// By how much that is less, in virtual nanoseconds.
        behind: i64,
    },
}

/// What a track is of. The unit of all but the last is the nanosecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quantity {
    /// The service that a fair entity is owed ([`FairEntityState::lag`]).
    Lag,
    /// Its eligible time less the average ([`FairEntityState::eligible`]).
    Eligible,
    /// Its virtual deadline less the average ([`FairEntityState::deadline`]).
    VirtualDeadline,
    /// Its vruntime under CFS, less `min_vruntime`.
    Vruntime,
    /// Quota: in the pool of a group, or on a CPU.
    Quota,
    /// The rest of the budget of a deadline task or a server.
    Budget,
    /// The time to the absolute deadline of a deadline task or a server.
    TimeToDeadline,
    /// The number of real-time tasks on a CPU.
    RealTimeTasks,
}

impl Quantity {
    /// Every quantity, in the order of rows.
    pub const ALL: [Self; 8] = [
        Self::Lag,
        Self::Eligible,
        Self::VirtualDeadline,
        Self::Vruntime,
        Self::Quota,
        Self::Budget,
        Self::TimeToDeadline,
        Self::RealTimeTasks,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lag => "lag",
            Self::Eligible => "eligible time",
            Self::VirtualDeadline => "virtual deadline",
            Self::Vruntime => "vruntime",
            Self::Quota => "quota",
            Self::Budget => "budget",
            Self::TimeToDeadline => "time to deadline",
            Self::RealTimeTasks => "real-time tasks",
        }
    }

    /// Returns its unit, empty for a count.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::RealTimeTasks => "",
            Self::Lag
            | Self::Eligible
            | Self::VirtualDeadline
            | Self::Vruntime
            | Self::Quota
            | Self::Budget
            | Self::TimeToDeadline => "ns",
        }
    }
}

/// What has the number of a track.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Owner {
    /// An entity on the fair queue of a group.
    Fair(GroupId, Entity),
    /// A group: its pool, or its queue on a CPU.
    Group(GroupId),
    /// A deadline task.
    Task(TaskId),
    /// A server.
    Server(ServerKind),
    /// The CPU itself.
    Cpu,
}

/// The key of a track.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TrackKey {
    /// What it is of.
    pub quantity: Quantity,
    /// The CPU; `None` for a pool.
    pub cpu: Option<CpuId>,
    /// What has it.
    pub owner: Owner,
}

/// A number over time: its values at decisions of the CPU, where they changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Track {
    /// What it is of.
    pub key: TrackKey,
    /// The values in order of time; `None` where it ends: the entity has left the queue.
    pub points: Vec<(Instant, Option<i64>)>,
}

/// A decision of a CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// When.
    pub at: Instant,
    /// The CPU.
    pub cpu: CpuId,
    /// The task that ran before, if it could have gone on.
    pub before: Option<TaskId>,
    /// The picked task.
    pub picked: Option<TaskId>,
    /// Why.
    pub why: Why,
}

/// The state of a run over time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StateHistory {
    /// The numbers, in order of key.
    pub tracks: Vec<Track>,
    /// The first decisions, in order of time.
    pub decisions: Vec<Decision>,
    /// The number of all decisions.
    pub nr_decisions: u64,
    /// Of how many decisions of a CPU one is in the tracks.
    pub stride: u32,
}

impl CpuState {
    /// Returns why this CPU picked its task. `before` is its state when it had left the task that
    /// ran, and had not picked yet: a pick can change weights, and with them the average.
    #[must_use]
    pub fn why(&self, before: &Self) -> Why {
        let of = |kind| self.servers.iter().find(|server| server.kind == kind);
        let server = self.serving.and_then(of).map(|server| (server.kind, server.deadline, server.left));
        Why { server, rule: self.rule(before) }
    }

    fn rule(&self, before: &Self) -> Rule {
        let Some(task) = self.picked else {
            let throttled = self.deadline.iter().filter(|task| task.is_throttled).count();
            let group = self.fair.iter().find(|queue| queue.is_throttled).map(|queue| queue.group);
            return Rule::Idle { kept_back: count(throttled + self.real_time.len()), throttled: group };
        };
        match self.class {
            ClassId::Deadline => {
                let others = self.deadline.iter().filter(|other| other.task != task && !other.is_throttled);
                let next = others.map(|other| (other.task, other.deadline)).min_by_key(|(task, at)| (*at, *task));
                let own = self.deadline.iter().find(|own| own.task == task);
                let (deadline, left) = own.map_or_else(Default::default, |own| (own.deadline, own.left));
                Rule::Deadline { deadline, left, next }
            }
            ClassId::Rt => {
                let tasks = self.served.as_ref().map_or(&self.real_time, |served| &served.tasks);
                let own = tasks.iter().find(|(other, _)| *other == task);
                let next = tasks.iter().find(|(other, _)| *other != task).copied();
                let group = self.served.as_ref().map(|served| served.group);
                Rule::RealTime { group, priority: own.map_or(0, |(_, priority)| *priority), next }
            }
            ClassId::Fair => Rule::Fair(self.levels(before)),
            ClassId::Ext => Rule::Loaded(self.way),
            ClassId::Stop | ClassId::Idle => Rule::Idle { kept_back: 0, throttled: None },
        }
    }

    /// Returns the choices from the root down to the picked task.
    fn levels(&self, before: &Self) -> Vec<Level> {
        let goes_on = before.picked == self.picked;
        let mut levels = Vec::new();
        let mut group = GroupId::ROOT;
        // Each level is that of another group, so there are no more than queues.
        for _ in &self.fair {
            let of = |state: &Self| state.fair.iter().find(|queue| queue.group == group).cloned();
            let Some(queue) = of(self) else { break };
            let Some(picked) = queue.entities.iter().find(|entity| entity.is_current) else { break };
            let chosen = picked.entity;
            let others = count(queue.entities.len() - 1);
            let by = of(before).unwrap_or_else(|| queue.clone()).among(&queue).rule(chosen, goes_on);
            levels.push(Level { group, picked: chosen, others, by });
            match chosen {
                Entity::Group(below) => group = below,
                Entity::Task(_) => break,
            }
        }
        levels
    }
}

impl FairQueueState {
    /// Returns this queue with the entities that are on it `after` a pick: those that the pick has
    /// found to be asleep were no candidates, and the average is without them.
    fn among(mut self, after: &Self) -> Self {
        let all = self.entities.len();
        self.entities.retain(|one| after.entities.iter().any(|other| other.entity == one.entity));
        if self.entities.len() < all && self.order == FairOrder::Eevdf {
            let weight: i128 = self.entities.iter().map(|one| i128::from(one.weight)).sum();
            let sum: i128 = self.entities.iter().map(|one| i128::from(one.eligible) * i128::from(one.weight)).sum();
            let shift = i64::try_from(sum.div_euclid(weight.max(1))).unwrap_or_default();
            for one in &mut self.entities {
                one.eligible -= shift;
                one.deadline -= shift;
                one.lag = lag(one.eligible, one.weight);
            }
        }
        self
    }

    /// Returns the rule by which an entity of the queue was picked.
    fn rule(&self, picked: Entity, goes_on: bool) -> FairRule {
        let Some(picked) = self.entities.iter().find(|one| one.entity == picked) else { return FairRule::Alone };
        let others = || self.entities.iter().filter(|other| other.entity != picked.entity);
        if others().next().is_none() {
            return FairRule::Alone;
        }
        if picked.is_boosted {
            return FairRule::Boosted;
        }
        match self.order {
            FairOrder::Cfs => {
                let next = others().min_by_key(|other| (other.eligible, other.entity));
                let Some(first) = next.filter(|first| first.eligible < picked.eligible) else {
                    let next = next.map(|next| (next.entity, next.eligible - picked.eligible));
                    return FairRule::Vruntime { next };
                };
                let instead_of = first.entity;
                match (picked.buddy, first.buddy) {
                    (Some(Buddy::Next | Buddy::Last), _) => {
                        FairRule::Buddy { instead_of, behind: picked.eligible - first.eligible }
                    }
                    (_, Some(Buddy::Skip)) => FairRule::Yielded { instead_of },
                    _ => FairRule::OutOfOrder { instead_of },
                }
            }
            FairOrder::Eevdf => {
                let by_deadline = |other: &&FairEntityState| (other.deadline, other.entity);
                let next = others().filter(|other| other.is_eligible()).min_by_key(by_deadline);
                if let Some(first) = next.filter(|first| first.deadline < picked.deadline) {
                    let instead_of = first.entity;
                    return match (goes_on && picked.is_protected, picked.buddy) {
                        (true, _) => FairRule::Protected { instead_of },
                        (false, Some(Buddy::Next)) => FairRule::ShortWakeup { instead_of },
                        (false, _) => FairRule::OutOfOrder { instead_of },
                    };
                }
                let behind = others().filter(|other| !other.is_eligible());
                let first = behind.clone().min_by_key(by_deadline);
                FairRule::Deadline {
                    lag: picked.lag,
                    next: next.map(|next| (next.entity, next.deadline - picked.deadline)),
                    not_eligible: first
                        .map(|first| (count(behind.count()), first.entity, first.deadline < picked.deadline)),
                }
            }
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn entity(task: u32, eligible: i64, deadline: i64) -> FairEntityState {
        FairEntityState {
            entity: Entity::Task(TaskId(task)),
            is_current: false,
            is_delayed: false,
            is_boosted: false,
            is_protected: false,
            buddy: None,
            weight: NICE_0,
            lag: lag(eligible, NICE_0),
            eligible,
            deadline,
        }
    }

    fn fair(order: FairOrder, picked: Option<u32>, mut entities: Vec<FairEntityState>) -> CpuState {
        for one in &mut entities {
            one.is_current = picked.is_some_and(|picked| one.entity == Entity::Task(TaskId(picked)));
        }
        let queue = FairQueueState { group: GroupId::ROOT, order, quota: None, is_throttled: false, entities };
        CpuState {
            cpu: CpuId(0),
            picked: picked.map(TaskId),
            serving: None,
            class: ClassId::Fair,
            deadline: Vec::new(),
            servers: Vec::new(),
            real_time: Vec::new(),
            served: None,
            is_rt_throttled: false,
            fair: vec![queue],
            loaded: 0,
            way: None,
        }
    }

    /// Returns the rule by which a task was picked among entities, behind another one or itself.
    fn rule(order: FairOrder, picked: u32, before: Option<u32>, entities: &[FairEntityState]) -> FairRule {
        let after = fair(order, Some(picked), entities.to_vec());
        match after.why(&fair(order, before, entities.to_vec())).rule {
            Rule::Fair(levels) => levels[0].by,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn eevdf_names_the_next_eligible_one_and_those_that_are_not() {
        // 2 has the earliest deadline of all and is not eligible.
        let all = [entity(0, -10, 300), entity(1, 0, 700), entity(2, 5, 100)];
        let next = Some((Entity::Task(TaskId(1)), 400));
        let not_eligible = Some((1, Entity::Task(TaskId(2)), true));
        assert_eq!(rule(FairOrder::Eevdf, 0, None, &all), FairRule::Deadline { lag: 10, next, not_eligible });
    }

    #[test]
    fn an_entity_out_of_order_is_protected_or_woke_short() {
        let mut all = [entity(0, -10, 300), entity(1, 0, 700)];
        let instead_of = Entity::Task(TaskId(0));
        all[1].is_protected = true;
        assert_eq!(rule(FairOrder::Eevdf, 1, Some(1), &all), FairRule::Protected { instead_of });
        assert_eq!(rule(FairOrder::Eevdf, 1, None, &all), FairRule::OutOfOrder { instead_of });
        all[1].buddy = Some(Buddy::Next);
        assert_eq!(rule(FairOrder::Eevdf, 1, Some(0), &all), FairRule::ShortWakeup { instead_of });
    }

    #[test]
    fn those_that_the_pick_found_asleep_do_not_count() {
        // 2 was delayed and is gone: the average of the others is 20 above that of all three.
        let before = [entity(0, 10, 300), entity(1, 30, 200), entity(2, -40, 100)];
        let after = fair(FairOrder::Eevdf, Some(0), before[..2].to_vec());
        let Rule::Fair(levels) = after.why(&fair(FairOrder::Eevdf, None, before.to_vec())).rule else { panic!() };
        let not_eligible = Some((1, Entity::Task(TaskId(1)), true));
        assert_eq!(levels[0].by, FairRule::Deadline { lag: 10, next: None, not_eligible });
    }

    #[test]
    fn cfs_names_the_distance_in_vruntime() {
        let mut all = [entity(0, 20, 0), entity(1, 50, 0)];
        let next = Some((Entity::Task(TaskId(1)), 30));
        let first = Entity::Task(TaskId(0));
        assert_eq!(rule(FairOrder::Cfs, 0, None, &all), FairRule::Vruntime { next });
        all[0].buddy = Some(Buddy::Skip);
        assert_eq!(rule(FairOrder::Cfs, 1, None, &all), FairRule::Yielded { instead_of: first });
        all[1].buddy = Some(Buddy::Last);
        assert_eq!(rule(FairOrder::Cfs, 1, None, &all), FairRule::Buddy { instead_of: first, behind: 30 });
    }
}

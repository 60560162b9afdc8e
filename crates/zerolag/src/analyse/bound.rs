//! Which bound is which task's: sets of tasks that share CPUs, and what each set is analysed with.

use super::model::{self, EXT, FAIR, Modelled, NoModel, rank};
use super::served::GroupServers;
use super::{Analysis, Assumption, Bound, Broken, GroupRow, Method, Row, Scope, SetTest};
use crate::simulation::Plan;
use std::sync::Arc;
use zerolag_analysis::supply::{Quota, Reservation, Supply, Window, any_order};
use zerolag_analysis::{Sporadic, edf, fixed, global};
use zerolag_model::settings::TimerGrain;
use zerolag_model::{CpuId, CpuMask, DlParams, Duration, SchedAttr, ServerParams, Settings};
use zerolag_report::human::Human;
use zerolag_workload::Program;

type BoundResult = Result<Bound, String>;

/// Returns the bounds of a plan.
pub(super) fn of(plan: &Plan) -> Analysis {
    let nr_cpus = plan.config.topology.nr_cpus();
    let mut broken = of_machine(plan);
    let tasks = model::of(&plan.program, &plan.config.settings, nr_cpus, &mut broken);
    let served = GroupServers::of(&plan.program, &plan.config.settings);
    let mut study = BoundStudy {
        program: &plan.program,
        settings: &plan.config.settings,
        tasks: &tasks,
        served,
        broken,
        sets: Vec::new(),
    };
    let mut found: Vec<Option<BoundResult>> = vec![None; tasks.len()];
    for set in study.sets_of_real_time() {
        study.real_time(&set, &mut found);
    }
    study.served(&mut found);
    for (of, task) in tasks.iter().enumerate().filter(|(_, task)| rank(task.attr) >= FAIR) {
        found[of] = Some(study.fair(task));
    }
    let BoundStudy { mut broken, sets, .. } = study;
    // What concerns no bound is not said.
    let has_bound = |of: usize| tasks[of].task.is_ok() && matches!(found[of], Some(Ok(_)));
    broken.retain(|broken| (0..tasks.len()).any(|of| has_bound(of) && broken.concerns(&tasks[of])));
    let row = |(task, bound): (&Modelled, Option<BoundResult>)| {
        let known = task.task.as_ref().ok();
        let bound = match (&task.task, bound) {
            (Err(why), _) => Err(why.reason()),
            (Ok(_), bound) => bound.unwrap_or_else(|| Err("no analysis for its class".to_owned())),
        };
        let breaks = match &bound {
            Ok(_) => (0..broken.len()).filter(|at| broken[*at].concerns(task)).collect(),
            Err(_) => Vec::new(),
        };
        let period = known.map(Sporadic::period).filter(|period| *period < Sporadic::LONGEST);
        Row {
            name: Arc::clone(&task.name),
            instances: task.instances,
            policy: task.attr.policy(),
            priority: match task.attr {
                SchedAttr::Rt { priority, .. } => Some(priority.value()),
                SchedAttr::Fair { .. } | SchedAttr::Ext { .. } | SchedAttr::Deadline(_) => None,
            },
            cpus: task.mask.clone(),
            cost: known.map(Sporadic::cost),
            period,
            deadline: match task.attr {
                SchedAttr::Deadline(params) => Some(params.deadline),
                SchedAttr::Rt { .. } => period,
                SchedAttr::Fair { .. } | SchedAttr::Ext { .. } => None,
            },
            bound,
            breaks,
            observed: None,
            rank: rank(task.attr),
        }
    };
    let rows = tasks.iter().zip(found).map(row).collect();
    let groups = groups(&plan.program, &tasks, &plan.config.settings);
    Analysis {
        tasks: rows,
        sets,
        groups,
        broken,
        kernel: plan.kernel.name(),
        nr_cpus,
        runs: 0,
        seed: plan.config.seed,
        duration: plan.config.duration,
    }
}

impl Broken {
    /// Returns whether it concerns the bound of a task.
    fn concerns(&self, task: &Modelled) -> bool {
        let own = rank(task.attr);
        let is_ranked = match self.scope {
            Scope::All => true,
            Scope::From(rank) => own >= rank,
            Scope::Deadline => own == 0,
            Scope::RealTime => own > 0 && own < FAIR,
            Scope::Movers => own > 0 && own < FAIR && task.group.is_some() && task.mask.count() > 1,
        };
        is_ranked && self.mask.as_ref().is_none_or(|mask| mask.intersects(&task.mask))
    }
}

/// Returns what the machine and its settings break.
fn of_machine(plan: &Plan) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut say = |assumption, scope, reason: String| {
        broken.push(Broken { assumption, task: None, reason, scope, mask: None });
    };
    let costs = &plan.config.costs.name;
    if costs != "zero" {
        let reason = format!("operations take time (costs {costs}); --costs zero shows the schedule alone");
        say(Assumption::NoCosts, Scope::All, reason);
    }
    let topology = &plan.config.topology;
    if topology.cpus().any(|cpu| topology.capacity(cpu) != zerolag_model::topology::CAPACITY_SCALE) {
        let reason = "some CPUs are slower, and costs are those of the fastest".to_owned();
        say(Assumption::IdenticalCpus, Scope::All, reason);
    }
    broken
}

struct BoundStudy<'a> {
    program: &'a Program,
    settings: &'a Settings,
    tasks: &'a [Modelled],
    served: GroupServers<'a>,
    broken: Vec<Broken>,
    sets: Vec<SetTest>,
}

/// Real-time and deadline tasks that share CPUs.
struct SharedCpus {
    mask: CpuMask,
    /// Indices of deadline tasks.
    deadline: Vec<usize>,
    /// Indices of real-time tasks.
    rt: Vec<usize>,
}

/// Returns whether a deadline task stays within its budget whatever happens.
fn is_within(task: &Sporadic, params: DlParams) -> bool {
    task.cost() <= params.runtime && task.period() >= params.period
}

impl BoundStudy<'_> {
    fn say(&mut self, assumption: Assumption, scope: Scope, mask: &CpuMask, reason: impl Into<String>) {
        let mask = Some(mask.clone());
        self.broken.push(Broken { assumption, task: None, reason: reason.into(), scope, mask });
    }

    /// Returns the sets of real-time and deadline tasks whose CPUs overlap.
    fn sets_of_real_time(&mut self) -> Vec<SharedCpus> {
        let mut masks: Vec<CpuMask> = Vec::new();
        let of_class = |task: &&Modelled| rank(task.attr) < FAIR && self.served.of_task(task).is_none();
        for task in self.tasks.iter().filter(of_class) {
            let mut mask = task.mask.clone();
            // All that overlap become one.
            while let Some(at) = masks.iter().position(|known| known.intersects(&mask)) {
                let known = masks.swap_remove(at);
                known.iter().for_each(|cpu| {
                    mask.insert(cpu);
                });
            }
            masks.push(mask);
        }
        masks.sort_by_key(CpuMask::first);
        let mut sets = Vec::new();
        for mask in masks {
            let within = |class: fn(SchedAttr) -> bool| {
                let all = self.tasks.iter().enumerate();
                let is_own = |task: &Modelled| self.served.of_task(task).is_none() && class(task.attr);
                let own = all.filter(|(_, task)| task.mask.intersects(&mask) && is_own(task));
                own.map(|(of, _)| of).collect::<Vec<usize>>()
            };
            let deadline = within(|attr| matches!(attr, SchedAttr::Deadline(_)));
            let rt = within(|attr| matches!(attr, SchedAttr::Rt { .. }));
            let differ = deadline.iter().chain(&rt).any(|of| self.tasks[*of].mask != mask);
            if differ {
                let reason = format!("some tasks may use a part of CPUs {mask} only");
                self.say(Assumption::SameCpus, Scope::All, &mask, reason);
            }
            sets.push(SharedCpus { mask, deadline, rt });
        }
        sets
    }

    /// Finds the bounds of the tasks that servers of groups run.
    fn served(&mut self, found: &mut [Option<BoundResult>]) {
        let (mut said, mut said_of_movers): (Vec<&CpuMask>, Vec<&CpuMask>) = (Vec::new(), Vec::new());
        for (of, task) in self.tasks.iter().enumerate() {
            if self.served.of_task(task).is_none() {
                continue;
            }
            let all: Option<Vec<Vec<Sporadic>>> = task.mask.iter().map(|cpu| self.reservations(cpu)).collect();
            let bound = self.served.bound(of, self.tasks, self.settings, all.as_deref());
            let moves = bound.as_ref().is_ok_and(|bound| bound.method == Method::GroupServers);
            if moves && !said_of_movers.contains(&&task.mask) {
                said_of_movers.push(&task.mask);
                let reason =
                    "a task that wakes where its group's server has no runtime stays there, also if another has some";
                self.say(Assumption::WorkConserving, Scope::Movers, &task.mask, reason);
            }
            found[of] = Some(bound);
            if !said.contains(&&task.mask) {
                said.push(&task.mask);
                let reason = "tasks of a group wait for its server, and are late work for the tasks below";
                self.say(Assumption::NotThrottled, Scope::From(FAIR), &task.mask, reason);
            }
        }
    }

    /// Returns the reservations of a CPU: servers and deadline tasks; none if one of these may use
    /// several CPUs.
    fn reservations(&self, cpu: CpuId) -> Option<Vec<Sporadic>> {
        let mut all: Vec<Sporadic> = self.servers(cpu).map(|server| server.with_jitter(Duration::ZERO)).collect();
        for task in self.tasks.iter().filter(|task| task.mask.contains(cpu)) {
            let SchedAttr::Deadline(params) = task.attr else { continue };
            let budget = Sporadic::new(params.runtime, params.period).ok()?.with_deadline(params.deadline);
            if task.mask.count() != 1 {
                return None;
            }
            all.extend(core::iter::repeat_n(budget, task.instances as usize));
        }
        Some(all)
    }

    /// Returns the deadline servers of a CPU that tasks can make take part.
    fn servers(&self, cpu: CpuId) -> impl Iterator<Item = Sporadic> {
        let of_groups = self.served.on(cpu, self.tasks, self.settings);
        let of_classes = [(FAIR, self.settings.fair_server_params(cpu)), (EXT, self.settings.ext_server_params())]
            .into_iter()
            .filter_map(move |(served, params)| self.server(cpu, served, params));
        of_classes.chain(of_groups)
    }

    /// Returns the deadline server of the tasks of a rank.
    fn server(&self, cpu: CpuId, served: u32, params: ServerParams) -> Option<Sporadic> {
        let has_tasks = self.tasks.iter().any(|task| rank(task.attr) == served && task.mask.contains(cpu));
        if !has_tasks || params.runtime.is_zero() {
            return None;
        }
        // Tried and wrong: that a deferred server never takes part if the others leave fair tasks
        // its runtime before its zero-laxity time. Where servers are stopped late (6.18) its time
        // can come just after a fair task has woken. It is stopped at a tick, and a deferred one
        // runs at the end of its period and, if it goes on, at the begin of the next.
        let cost = params.runtime.saturating_add(self.tick());
        let server = Sporadic::new(cost, params.period).ok()?;
        Some(server.with_jitter(params.period.saturating_sub(cost)))
    }

    fn tick(&self) -> Duration {
        Duration::from_nanos(1_000_000_000 / u64::from(self.settings.hz.max(1)))
    }

    /// Returns the threads of tasks, each as often as there are threads.
    fn threads(&self, tasks: &[usize]) -> Vec<(usize, Sporadic)> {
        let known = tasks.iter().filter_map(|of| Some((*of, *self.tasks[*of].task.as_ref().ok()?)));
        known.flat_map(|(of, task)| (0..self.tasks[of].instances).map(move |_| (of, task))).collect()
    }

    fn real_time(&mut self, set: &SharedCpus, found: &mut [Option<BoundResult>]) {
        let cpus = set.mask.count() as u64;
        let servers: Vec<Sporadic> = set.mask.iter().flat_map(|cpu| self.servers(cpu)).collect();
        let deadline = self.deadline_tasks(set, &servers);
        for (of, bound) in set.deadline.iter().zip(&deadline) {
            found[*of] = Some(bound.clone());
        }
        if set.rt.is_empty() {
            return;
        }
        self.rt_throttling(set);
        // Above real-time tasks: deadline tasks and servers, with the longest response of each.
        let mut above: Vec<(Sporadic, Duration)> = servers.iter().map(|server| (*server, server.period())).collect();
        let mut unbounded = None;
        for (of, bound) in set.deadline.iter().zip(&deadline) {
            let task = &self.tasks[*of];
            let SchedAttr::Deadline(params) = task.attr else { continue };
            let more = match (&task.task, bound) {
                (Ok(sporadic), Ok(bound)) if is_within(sporadic, params) => {
                    (sporadic.with_deadline(params.deadline), bound.response)
                }
                // Whatever it does, it gets its budget and no more; two budgets can follow each
                // other.
                _ => {
                    if cpus > 1 {
                        unbounded.get_or_insert_with(|| Arc::clone(&task.name));
                    }
                    let Ok(budget) = Sporadic::new(params.runtime, params.period) else { continue };
                    let jitter = params.period.saturating_sub(params.runtime);
                    (budget.with_jitter(jitter), params.period)
                }
            };
            above.extend((0..task.instances).map(|_| more));
        }
        let threads = self.threads(&set.rt);
        let endless: Vec<u32> = set.rt.iter().filter_map(|of| self.endless(*of)).collect();
        let ranks: Vec<u32> = threads.iter().map(|(of, _)| rank(self.tasks[*of].attr)).collect();
        let tasks: Vec<Sporadic> = threads.iter().map(|(_, task)| *task).collect();
        let late = above.iter().find(|(task, response)| cpus > 1 && *response > task.deadline());
        let together = (cpus > 1).then(|| global::fixed(&tasks, &ranks, &above, cpus));
        for (at, (of, task)) in threads.iter().enumerate() {
            let own = ranks[at];
            let bound = if endless.iter().filter(|rank| **rank <= own).count() as u64 >= cpus {
                Err("more urgent tasks compute without a pause".to_owned())
            } else if cpus == 1 {
                let more_urgent = ranks.iter().enumerate().filter(|(other, rank)| *other != at && **rank <= own);
                let mut others: Vec<Sporadic> = more_urgent.map(|(other, _)| tasks[other]).collect();
                others.extend(above.iter().map(|(task, _)| *task));
                let response = fixed::response(task, &others);
                let bound = response.map(|response| Bound { response, method: Method::FixedPriority });
                bound.ok_or_else(|| "it and more urgent tasks need more than the CPU".to_owned())
            } else if let Some(name) = &unbounded {
                Err(format!("the deadline task {name} has no bound"))
            } else if let Some((task, _)) = late {
                Err(format!("a deadline task of {} is not seen to keep its deadline", task.period()))
            } else if endless.iter().any(|rank| *rank <= own) {
                Err("a more urgent task computes without a pause".to_owned())
            } else {
                let response = together.as_ref().and_then(|all| all[at]);
                let bound = response.map(|response| Bound { response, method: Method::GlobalFixedPriority });
                bound.ok_or_else(|| "the analysis does not see it, or a more urgent task, keep its period".to_owned())
            };
            found[*of] = Some(bound);
        }
    }

    /// Returns the rank of a task that computes without a pause, as often as it has threads.
    fn endless(&self, of: usize) -> Option<u32> {
        let task = &self.tasks[of];
        (task.task == Err(NoModel::Endless) && task.instances > 0).then(|| rank(task.attr))
    }

    /// Notes whether the limit of real-time tasks can be reached.
    fn rt_throttling(&mut self, set: &SharedCpus) {
        let settings = self.settings;
        if !settings.rt_throttling || settings.rt_runtime >= settings.rt_period {
            return;
        }
        let period = settings.rt_period;
        // Any window of a period, with jobs that began before it.
        let most = |task: &Sporadic| task.with_jitter(task.period()).requests(period);
        let all =
            self.threads(&set.rt).iter().map(|(_, task)| most(task)).fold(Duration::ZERO, Duration::saturating_add);
        let has_endless = set.rt.iter().any(|of| self.endless(*of).is_some());
        if has_endless || all > settings.rt_runtime {
            let (runtime, first) = (settings.rt_runtime, &set.mask);
            let reason = format!("real-time tasks of a CPU can reach their limit of {runtime} in {period}");
            self.say(Assumption::NotThrottled, Scope::RealTime, first, reason);
        }
    }

    /// Returns the bounds of the deadline tasks of a set, in its order.
    #[expect(clippy::too_many_lines, reason = "the tests for one CPU and for several share their input")]
    fn deadline_tasks(&mut self, set: &SharedCpus, servers: &[Sporadic]) -> Vec<BoundResult> {
        if set.deadline.is_empty() {
            return Vec::new();
        }
        let cpus = set.mask.count() as u64;
        let params = |of: usize| match self.tasks[of].attr {
            SchedAttr::Deadline(params) => params,
            SchedAttr::Rt { .. } | SchedAttr::Fair { .. } | SchedAttr::Ext { .. } => {
                DlParams::new(Duration::ZERO, Duration::ZERO, Duration::ZERO)
            }
        };
        let within = |of: usize| self.tasks[of].task.as_ref().ok().filter(|task| is_within(task, params(of)));
        let beyond: Vec<usize> = set.deadline.iter().copied().filter(|of| within(*of).is_none()).collect();
        let threads: Vec<(usize, Sporadic)> = set
            .deadline
            .iter()
            .flat_map(|&of| {
                let params = params(of);
                // A task beyond its budget gets one budget per period, with the deadline of each.
                let task = match within(of) {
                    Some(task) => Some(*task),
                    None => Sporadic::new(params.runtime, params.period).ok(),
                };
                let task = task.map(|task| task.with_deadline(params.deadline));
                let threads = self.tasks[of].instances as usize;
                task.into_iter().flat_map(move |task| core::iter::repeat_n((of, task), threads))
            })
            .collect();
        let mut all: Vec<Sporadic> = threads.iter().map(|(_, task)| *task).collect();
        let first = |of: usize| threads.iter().position(|(known, _)| *known == of);
        let is_stopped_late = !beyond.is_empty() && self.settings.enforce_dl == TimerGrain::Tick;
        let results: Vec<BoundResult> = if cpus == 1 {
            all.extend(servers);
            let checked = edf::check(&all);
            let responses = if beyond.is_empty() { edf::responses(&all) } else { Vec::new() };
            let bound = |of: &usize| -> BoundResult {
                let params = params(*of);
                if within(*of).is_none() {
                    return self.reservation(*of, params, checked.is_ok());
                }
                let at = first(*of).ok_or_else(|| "it has no threads".to_owned())?;
                if beyond.is_empty() {
                    let response = responses[at].map(|response| Bound { response, method: Method::Edf });
                    return response.ok_or_else(|| "the deadline tasks of its CPU need more than it".to_owned());
                }
                match checked {
                    Ok(_) => Ok(Bound { response: params.deadline, method: Method::EdfBudgets }),
                    Err(_) => Err("the budgets of its CPU are not seen to fit".to_owned()),
                }
            };
            set.deadline.iter().map(bound).collect()
        } else {
            let responses = global::edf(&all, cpus);
            let bound = |of: &usize| -> BoundResult {
                if within(*of).is_none() {
                    return Err("it can exceed its budget, which is known to be kept on one CPU only".to_owned());
                }
                if let Some(other) = beyond.first() {
                    return Err(format!("{} can exceed its budget", self.tasks[*other].name));
                }
                let at = first(*of).ok_or_else(|| "it has no threads".to_owned())?;
                let response = responses[at].map(|response| Bound { response, method: Method::GlobalEdf });
                response.ok_or_else(|| "the analysis does not see all deadline tasks keep their deadlines".to_owned())
            };
            set.deadline.iter().map(bound).collect()
        };
        self.deadline_sets(set, &all, cpus, beyond.is_empty());
        if is_stopped_late {
            let reason = "a deadline task that exceeds its budget is stopped at a tick (enforce.dl = tick)";
            self.say(Assumption::Budget, Scope::From(0), &set.mask, reason);
        }
        if cpus > 1 && !servers.is_empty() {
            let reason = match self.tasks.iter().any(|task| rank(task.attr) == EXT) {
                false => "fair tasks have a deadline server on these CPUs (fair_server)",
                true => "tasks below have deadline servers on these CPUs (fair_server, ext_server)",
            };
            self.say(Assumption::NoServer, Scope::Deadline, &set.mask, reason);
        }
        results
    }

    /// Returns the bound of a task that can exceed its budget.
    fn reservation(&self, of: usize, params: DlParams, fits: bool) -> BoundResult {
        let task = self.tasks[of].task.as_ref().map_err(NoModel::reason)?;
        if !fits {
            return Err("the budgets of its CPU are not seen to fit".to_owned());
        }
        let supply = Reservation::new(params.runtime, params.deadline, params.period);
        let response = supply.and_then(|supply| any_order(core::slice::from_ref(task), &supply));
        let bound = response.map(|response| Bound { response, method: Method::Reservation });
        bound.ok_or_else(|| "it needs more than its budget".to_owned())
    }

    /// Tests the deadline tasks of a set as a whole.
    fn deadline_sets(&mut self, set: &SharedCpus, all: &[Sporadic], cpus: u64, within: bool) {
        let mut push = |name, paper, holds, says| {
            self.sets.push(SetTest { cpus: set.mask.clone(), name, paper, holds, says });
        };
        if cpus == 1 {
            let checked = edf::check(all);
            let says = match checked {
                Ok(_) => "no window has more demand than time".to_owned(),
                Err(edf::Miss::Overload) => "the tasks need more than the CPU".to_owned(),
                Err(edf::Miss::Demand { window, demand }) => format!("{demand} of demand in windows of {window}"),
                Err(_) => "the search was too long".to_owned(),
            };
            push("demand", "Baruah, Rosier & Howell 1990; Zhang & Burns 2009", Some(checked.is_ok()), says);
            return;
        }
        let holds = global::density_test(all, cpus);
        let sum: f64 = all.iter().map(Sporadic::density).sum();
        let says = format!("densities add up to {sum:.2} on {cpus} CPUs");
        push("density", "Goossens, Funk & Baruah 2003", Some(holds), says);
        let is_implicit = all.iter().all(|task| task.deadline() == task.period());
        if let Some(late) = global::tardiness(all, cpus).filter(|_| within && is_implicit) {
            let most = late.into_iter().max().unwrap_or_default();
            let says = format!("no job ends later than {} after its deadline", Human(most));
            push("tardiness", "Devi & Anderson 2005", None, says);
        }
    }

    /// Returns the bound of a fair task, or of one of a loaded scheduler: that leaves no CPU idle
    /// while a task waits that may run there only, so the busy period of the CPU is a bound.
    fn fair(&self, task: &Modelled) -> BoundResult {
        if task.mask.count() != 1 {
            let whose = if rank(task.attr) == EXT { "a loaded scheduler's" } else { "fair" };
            return Err(format!("{whose} tasks of several CPUs: balancing can leave CPUs idle while tasks wait"));
        }
        let cpu = task.mask.first().expect("invariant: the mask has one CPU");
        let here: Vec<usize> = (0..self.tasks.len())
            .filter(|of| self.tasks[*of].mask.contains(cpu) && self.tasks[*of].instances > 0)
            .collect();
        if let Some(other) = here.iter().find(|of| self.tasks[**of].mask.count() != 1) {
            return Err(format!("{} can move to its CPU and away from it", self.tasks[*other].name));
        }
        let limits = self.limits_on(cpu, &here)?;
        let endless = here.iter().map(|of| &self.tasks[*of]).find(|task| task.task == Err(NoModel::Endless));
        let window = Window { tasks: self.threads(&here).into_iter().map(|(_, task)| task).collect(), limits };
        let mut busy = window.any_order().filter(|_| endless.is_none());
        let is_limited = |of: &usize| self.limits_of(*of).next().is_some();
        if self.limits_of_group(task.group).next().is_none() && !window.limits.is_empty() {
            // Limited groups take no more than their quotas from the others, whatever they do.
            let outside: Vec<usize> = here.iter().copied().filter(|of| !is_limited(of)).collect();
            let is_endless = outside.iter().any(|of| self.endless(*of).is_some());
            let tasks: Vec<Sporadic> = self.threads(&outside).into_iter().map(|(_, task)| task).collect();
            let slice = self.settings.bandwidth_slice.max(self.largest_slice());
            let other = window.any_order_outside(&tasks, slice).filter(|_| !is_endless);
            busy = busy.into_iter().chain(other).min();
        }
        let server = self.server_bound(cpu, &here).filter(|_| window.limits.is_empty() && rank(task.attr) == FAIR);
        let busy = busy.map(|response| Bound { response, method: Method::BusyPeriod });
        let server = server.map(|response| Bound { response, method: Method::FairServer });
        busy.into_iter().chain(server).min_by_key(|bound| bound.response).ok_or_else(|| match endless {
            Some(endless) => format!("{} computes without a pause on its CPU", endless.name),
            None => "the tasks of its CPU need more than it".to_owned(),
        })
    }

    /// Returns the limited groups that a task is in.
    fn limits_of(&self, of: usize) -> impl Iterator<Item = usize> {
        let task = &self.tasks[of];
        let group = if rank(task.attr) == FAIR { task.group } else { None };
        self.limits_of_group(group)
    }

    fn limits_of_group(&self, group: Option<usize>) -> impl Iterator<Item = usize> {
        above(self.program, group).filter(|group| Quota::of(self.program.groups[*group].max).is_some())
    }

    /// Returns the largest slice that a group has of its own.
    fn largest_slice(&self) -> Duration {
        self.program.groups.iter().filter_map(|group| group.max.slice).max().unwrap_or_default()
    }

    /// Returns the limits of groups with tasks on a CPU; an error if one has tasks elsewhere.
    fn limits_on(&self, cpu: CpuId, here: &[usize]) -> Result<Vec<(Quota, Vec<Sporadic>)>, String> {
        let mut groups: Vec<usize> = Vec::new();
        for of in here.iter().filter(|of| rank(self.tasks[**of].attr) == FAIR) {
            groups.extend(above(self.program, self.tasks[*of].group));
        }
        groups.sort_unstable();
        groups.dedup();
        let mut limits = Vec::new();
        for group in groups {
            let Some(quota) = Quota::of(self.program.groups[group].max) else { continue };
            let is_elsewhere = |task: &&Modelled| {
                above(self.program, task.group).any(|own| own == group)
                    && !(task.mask.count() == 1 && task.mask.contains(cpu))
            };
            if self.tasks.iter().any(|task| is_elsewhere(&task)) {
                return Err(format!("the limited group {} has tasks on other CPUs", self.program.groups[group].path));
            }
            let is_own = |of: &usize| above(self.program, self.tasks[*of].group).any(|own| own == group);
            let own: Vec<usize> = here.iter().copied().filter(is_own).collect();
            let tasks = self.threads(&own).into_iter().map(|(_, task)| task).collect();
            limits.push((quota.with_overrun(self.tick()), tasks));
        }
        Ok(limits)
    }

    /// Returns the bound that the fair server of a CPU gives to its fair tasks.
    fn server_bound(&self, cpu: CpuId, here: &[usize]) -> Option<Duration> {
        let params = self.settings.fair_server_params(cpu);
        let fair: Vec<usize> = here.iter().copied().filter(|of| rank(self.tasks[*of].attr) == FAIR).collect();
        if fair.iter().any(|of| matches!(self.tasks[*of].task, Err(NoModel::Endless | NoModel::Depends(_)))) {
            return None;
        }
        // It competes with deadline tasks, which must leave it its budget.
        let deadline = here.iter().filter_map(|of| match self.tasks[*of].attr {
            SchedAttr::Deadline(params) => Some((self.tasks[*of].instances, params)),
            SchedAttr::Rt { .. } | SchedAttr::Fair { .. } | SchedAttr::Ext { .. } => None,
        });
        let mut all: Vec<Sporadic> = Vec::new();
        for (threads, params) in deadline {
            let task = Sporadic::new(params.runtime, params.period).ok()?.with_deadline(params.deadline);
            all.extend((0..threads).map(|_| task));
        }
        all.extend(self.servers(cpu));
        edf::check(&all).ok()?;
        let tasks: Vec<Sporadic> = self.threads(&fair).into_iter().map(|(_, task)| task).collect();
        any_order(&tasks, &Reservation::new(params.runtime, params.period, params.period)?)
    }
}

/// Returns a group and those above it.
fn above(program: &Program, group: Option<usize>) -> impl Iterator<Item = usize> {
    core::iter::successors(group, |group| program.groups[*group].parent)
}

/// Returns what the limits of groups give and take.
fn groups(program: &Program, tasks: &[Modelled], settings: &Settings) -> Vec<GroupRow> {
    let tick = Duration::from_nanos(1_000_000_000 / u64::from(settings.hz.max(1)));
    let row = |(group, def): (usize, &zerolag_workload::program::GroupDef)| {
        let quota = Quota::of(def.max)?.with_overrun(tick);
        let mut mask = CpuMask::default();
        let own = tasks.iter().filter(|task| above(program, task.group).any(|known| known == group));
        own.for_each(|task| {
            task.mask.iter().for_each(|cpu| {
                mask.insert(cpu);
            });
        });
        let cpus = mask.count();
        let slice = def.max.slice.unwrap_or(settings.bandwidth_slice);
        let most = |window| quota.most(window, cpus as u64, slice);
        Some(GroupRow {
            path: Arc::clone(&def.path),
            max: def.max,
            cpus,
            blackout: (cpus == 1).then(|| quota.blackout()),
            most_in_a_period: most(def.max.period),
            most_in_a_second: most(Duration::from_secs(1)),
        })
    };
    program.groups.iter().enumerate().filter_map(row).collect()
}

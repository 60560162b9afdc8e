//! The waits that the periodic balancer allows although a CPU is idle.
//!
//! It compares groups of CPUs before it looks at tasks, so it can leave a task where it waits:
//!
//! * *alone behind a class above*, for a CPU under another cache: such a CPU takes util, and
//!   takes none from a queue with a single fair task (`migrate_util` in
//!   `sched_balance_find_src_rq`). Inside a group with a CPU for every task that CPU is the first
//!   to take it.
//! * *a task alone behind a class above elsewhere*: its group looks busiest to a CPU under another
//!   cache, which finds no queue to take from there (`sched_balance_find_src_rq`) and looks at no
//!   other group. So it was until the class above ended there, if that was before the wait did.
//! * *a stronger CPU*: a weaker one takes no task that is alone on its queue before the classes
//!   above have left less of that CPU (`capacity_greater`, ibid.).
//! * *an old capacity*: the group of the task has a `nohz_full` CPU that runs a real-time task, and
//!   so cannot report how little it leaves.
//! * *tasks bound to the CPUs around the idle one* wait there: its group, of the domain that has
//!   both CPUs, looks as busy as the task's.
//! * *a divided group*: the balancer compares the numbers of tasks of cores or caches, and one of
//!   these has fewer CPUs if some are offline, isolated or in other domains. A task waits there
//!   behind a class above, or while tasks run around the idle CPU, whose group then looks as busy
//!   (`sibling_imbalance`: a difference of one task moves none). So it is with real-time tasks
//!   where only the periodic balancer moves them (`rt_balance`).
//! * *the idle CPU is alone in its core or cache*, before `smt_balance` (6.6): its domain has no
//!   child, so numbers of tasks are not compared (v6.1 `update_sd_lb_stats`, `prefer_sibling`), and
//!   one idle CPU more is no imbalance (`calculate_imbalance`: half of it is moved). From 6.5 on
//!   the domain of the busiest group decides.
//! * *heavier tasks elsewhere*, where balancing compares loads (`fair_balance`): their groups look
//!   busiest, also if each of these tasks has a CPU of its own. And a task behind a class above:
//!   real-time tasks count in the load per task (`sum_nr_running`), so too little is to be moved.
//! * *a process that prefers a cache* (`llc_balancing`) keeps its tasks there, however long they
//!   wait: that a round moved nothing because of it is no failure, so the preference is never
//!   dropped (`LBF_LLC_PINNED`). A trace says only whether there are processes.
//! * *real-time tasks bound to a busy CPU*, where only the periodic balancer moves them: they weigh
//!   most, so it comes back to that CPU in vain.

use super::queues::Kind;
use super::{NoTaskLost, is_behind, runs_rt};
use crate::monitors::group_starved::weight_of;
use zerolag_model::{ClassId, CpuId, Distance, Instant, TaskId, Topology};
use zerolag_trace::Replay;
use zerolag_trace::replay::TaskView;

const ALONE: &str = "a fair task is alone behind a class above: no CPU under another cache takes it";
const HIDDEN: &str =
    "a fair task is alone behind a class above elsewhere: its group looks busiest, and none is taken from it";
const STRONGER: &str = "a fair task is alone behind a class above on a CPU that is stronger than the idle one";
const STALE: &str = "a nohz_full CPU beside that of the task runs a real-time task, and reports no capacity";
const BOUND: &str = "tasks are bound to the CPUs around an idle one: its group looks busy";
const DIVIDED: &str =
    "a task waits in a group of CPUs of which some are offline, isolated or in other domains: counts mislead";

const LONE: &str = "an idle CPU is alone in its core or cache, of which the others are offline, isolated or in other \
    domains: it takes no part in evening out";

const KEPT: &str = "a process keeps its tasks under the cache that it prefers";

const HEAVIER: &str = "balancing compares loads, and heavier tasks elsewhere make other groups look busier";
const WEIGHTLESS: &str = "balancing compares loads, and real-time tasks count as tasks without load";
const BOUND_RT: &str = "real-time tasks are bound to a busy CPU, and passive balancing comes back to it in vain";

impl NoTaskLost {
    /// Returns why the balancer can leave a fair task where it waits although this CPU is idle.
    /// O(waiting tasks).
    pub(super) fn left_by_balancer(
        &self,
        before: &Replay,
        (task, view): (TaskId, &TaskView),
        cpu: CpuId,
    ) -> Option<&'static str> {
        let (topology, rq) = (self.topology.as_ref()?, view.rq?);
        let is_fair = view.prio.class() == ClassId::Fair;
        let is_balanced = is_fair || self.rt_is_passive && view.prio.is_rt();
        if !is_balanced {
            return None;
        }
        let is_behind = is_behind(before, view, rq) || !is_fair;
        // The domain in which the two CPUs meet compares their groups of CPUs.
        let distance = topology.distance(rq, cpu);
        let group = Distance::ALL.into_iter().rfind(|near| *near < distance).unwrap_or(Distance::Same);
        let domain = before.cpu(rq).root_domain;
        let is_apart = |cpu| self.is_apart(before, cpu, domain);
        let is_busy = |cpu: CpuId| before.cpu(cpu).current.task().is_some();
        let hides = || is_behind || topology.span(cpu, group).map(CpuId).any(is_busy);
        if topology.span(rq, group).map(CpuId).any(is_apart) && hides() {
            return Some(DIVIDED);
        }
        if self.lone_takes_none && is_alone_in(topology, (cpu, rq), group, is_apart) {
            return Some(LONE);
        }
        let is_bound_rt = |other: &TaskView| other.prio.is_rt() && !other.may_run_on(cpu);
        if self.rt_is_passive && self.waiting.keys().any(|other| before.task(*other).is_some_and(is_bound_rt)) {
            return Some(BOUND_RT);
        }
        if !is_fair {
            return None;
        }
        let is_elsewhere = |other: &TaskView| other.rq.is_some_and(|there| there != rq && there != cpu);
        let is_heavier = |other: &TaskView| weight_of(other.attr) > weight_of(view.attr) && is_elsewhere(other);
        if self.is_by_load && is_behind {
            return Some(WEIGHTLESS);
        }
        if self.is_by_load && before.tasks().any(|(_, other)| is_heavier(other)) {
            return Some(HEAVIER);
        }
        let is_stale = |near: CpuId| near != rq && self.nohz_full.contains(near) && runs_rt(before, near);
        if is_behind && topology.span(rq, group).map(CpuId).any(is_stale) {
            return Some(STALE);
        }
        let others = || {
            let known = self.waiting.keys().filter(|other| **other != task).filter_map(|other| before.task(*other));
            known.filter(|other| other.prio.class() == ClassId::Fair)
        };
        let is_alone = is_behind && others().all(|other| other.rq != Some(rq));
        if is_alone && topology.capacity(cpu) < topology.capacity(rq) {
            return Some(STRONGER);
        }
        if distance <= Distance::Llc {
            return None;
        }
        if self.gathers {
            return Some(KEPT);
        }
        let is_alone_elsewhere = |other: &TaskView| {
            let Some(there) = other.rq.filter(|there| *there != rq) else { return false };
            super::is_behind(before, other, there)
                && topology.distance(there, cpu) > Distance::Llc
                && others().filter(|other| other.rq == Some(there)).count() == 1
        };
        let near = topology.span(cpu, group);
        if is_alone {
            Some(ALONE)
        } else if others().any(is_alone_elsewhere) {
            Some(HIDDEN)
        } else if others().any(|other| other.rq.is_some_and(|rq| near.contains(&rq.0)) && !other.may_run_on(cpu)) {
            Some(BOUND)
        } else {
            None
        }
    }

    /// Returns whether a CPU takes no part in balancing this root domain.
    fn is_apart(&self, before: &Replay, cpu: CpuId, domain: u32) -> bool {
        let there = before.cpu(cpu);
        there.root_domain != domain || there.online_since().is_none() || self.isolated.contains(cpu)
    }

    /// Returns from when on a fair task has waited on a CPU alone; `None` if none waits there, or
    /// several. O(log n).
    pub(super) fn is_alone_from(&self, before: &Replay, rq: CpuId) -> Option<Instant> {
        let mut there = self.queues.on(before, rq, Kind::Fair).map(|(task, _)| task);
        let alone = there.next().filter(|_| there.next().is_none())?;
        self.waiting.get(&alone).map(|wait| wait.since)
    }

    /// Returns until when a task that was alone behind a class above elsewhere kept a CPU from a
    /// fair task ([`HIDDEN`]), both since then; zero if none did. O(CPUs).
    pub(super) fn misled_until(&self, view: &TaskView, (cpu, since): (CpuId, Instant)) -> Instant {
        let (Some(topology), ClassId::Fair) = (&self.topology, view.prio.class()) else { return Instant::ZERO };
        let is_far = |there: CpuId| view.rq != Some(there) && topology.distance(there, cpu) > Distance::Llc;
        let hid = self.alone.iter().filter(|(there, (from, _))| is_far(**there) && from.since(since) < self.bound);
        hid.map(|(_, (_, until))| *until).max().unwrap_or(Instant::ZERO)
    }
}

/// Returns whether a CPU is alone in its group, while that of the other one has several CPUs.
fn is_alone_in(
    topology: &Topology,
    (cpu, rq): (CpuId, CpuId),
    group: Distance,
    is_apart: impl Fn(CpuId) -> bool,
) -> bool {
    let [mut near, there] = [cpu, rq].map(|cpu| topology.span(cpu, group).map(CpuId));
    there.len() > 1 && near.all(|other| other == cpu || is_apart(other))
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds};
    use zerolag_model::{CpuId, Instant, MigrateReason, Record, TaskId, Topology, TraceEvent};
    use zerolag_trace::Machine;
    use zerolag_trace::script::Script;

    /// A CPU under another cache does not take a single fair task from behind a real-time task. One
    /// under the same cache does, and any CPU takes one of two.
    #[test]
    fn a_task_alone_behind_a_real_time_task_stays_under_its_cache() {
        let lost = "cpu 1 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
        let behind = |llcs: u32, companions: u32| {
            let mut script = Script::new(2);
            let (a, b) = (script.fifo("a", 50), script.fair("b"));
            script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(1000, 0, b);
            for nth in 0..companions {
                let other = script.fair(&format!("c{nth}"));
                script.wake(1000, 0, other);
            }
            let mut trace = script.end(500_000);
            trace.meta.machine = Machine::Known(Topology::new(1, llcs, 2 / llcs, 1).expect("two CPUs"));
            trace
        };
        holds("no-task-lost", &behind(2, 0));
        breaks("no-task-lost", &behind(1, 0), lost);
        breaks("no-task-lost", &behind(2, 1), lost);
        // Once the task before it is fair too, any CPU takes it.
        let fair_from = |us: u64| {
            let mut trace = behind(2, 0);
            let place = trace.records.partition_point(|record| record.at <= Instant::from_nanos(us * 1000));
            let attr = zerolag_model::SchedAttr::NORMAL;
            let event = TraceEvent::AttrChange { task: TaskId(0), attr };
            trace.records.insert(place, Record { at: Instant::from_nanos(us * 1000), cpu: CpuId(0), event });
            trace
        };
        holds("no-task-lost", &fair_from(410_000));
        let lost = "cpu 1 is idle for 200ms while b (task 1) waits on the queue of cpu 0 and may run here";
        breaks("no-task-lost", &fair_from(300_000), lost);
        // And that CPU is judged when it has taken it, from the same time on.
        let taken_after = |us: u64| {
            let mut script = Script::new(2);
            let (a, b) = (script.fifo("a", 50), script.fair("b"));
            script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(1000, 0, b);
            script.event(us, 0, TraceEvent::AttrChange { task: a, attr: zerolag_model::SchedAttr::NORMAL });
            script.migrate(420_000, b, 0, 1, MigrateReason::Periodic).run(420_000, 1, None, Some(b));
            let mut trace = script.end(430_000);
            trace.meta.machine = Machine::Known(Topology::new(1, 2, 1, 1).expect("two CPUs"));
            trace
        };
        holds("no-task-lost", &taken_after(410_000));
        let lost = "cpu 1 is idle for 320ms while b (task 1) waits on the queue of cpu 1 and may run here";
        breaks("no-task-lost", &taken_after(100_000), lost);
    }

    /// `c` is alone behind `rt` on CPU 2, or with companions, under a third cache if there are
    /// three: CPU 1 looks there, and not at `b`. `ends` adds the end and returns its time.
    fn beside(companions: u32, llcs: u32, ends: impl Fn(&mut Script, [TaskId; 3]) -> u64) -> zerolag_trace::Trace {
        let mut script = Script::new(3);
        let (a, b, rt, c) = (script.fair("a"), script.fair("b"), script.fifo("rt", 50), script.fair("c"));
        script.affinity(0, c, "2").wake(0, 0, a).run(0, 0, None, Some(a)).run(0, 1, None, None);
        script.wake(0, 2, rt).run(0, 2, None, Some(rt)).wake(0, 2, c).wake(1000, 0, b);
        for nth in 0..companions {
            let other = script.fair(&format!("d{nth}"));
            script.affinity(0, other, "2").wake(0, 2, other);
        }
        let end = ends(&mut script, [b, rt, c]);
        let mut trace = script.end(end);
        trace.meta.machine = Machine::Known(Topology::new(1, llcs, 3 / llcs, 1).expect("three CPUs"));
        trace
    }

    #[test]
    fn a_task_alone_behind_a_real_time_task_hides_other_caches() {
        let goes_on = |companions, llcs| beside(companions, llcs, |_, _| 500_000);
        holds("no-task-lost", &goes_on(0, 3));
        let lost = "cpu 1 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
        breaks("no-task-lost", &goes_on(1, 3), lost);
        breaks("no-task-lost", &goes_on(0, 1), lost);
    }

    /// The same, and the real-time task ends at 420 ms; CPU 1 takes `b` some time later.
    #[test]
    fn a_task_alone_behind_a_real_time_task_hid_other_caches_until_that_ended() {
        let ended = |companions, llcs, taken: u64| {
            beside(companions, llcs, |script, [b, rt, c]| {
                script.run(420_000, 2, Some(rt), Some(c));
                script.migrate(taken, b, 0, 1, MigrateReason::Periodic).run(taken, 1, None, Some(b));
                taken + 1000
            })
        };
        holds("no-task-lost", &ended(0, 3, 424_000));
        let lost = |length| {
            format!("cpu 1 is idle for {length} while b (task 1) waits on the queue of cpu 1 and may run here")
        };
        breaks("no-task-lost", &ended(0, 3, 540_000), &lost("120ms"));
        breaks("no-task-lost", &ended(1, 3, 424_000), &lost("423ms"));
        breaks("no-task-lost", &ended(0, 1, 424_000), &lost("423ms"));
    }

    /// `b` waits on CPU 0, CPU 1 is idle, and `c` runs alone on CPU 2.
    #[test]
    fn a_heavier_task_elsewhere_hides_a_light_one_from_balancing_by_load() {
        let beside = |fair_balance: &str, nice: i64| {
            let mut script = Script::new(3);
            let policy = zerolag_model::FairPolicy::Other;
            let nice = zerolag_model::Nice::new(nice).expect("in range");
            let (a, b) = (script.fair("a"), script.fair("b"));
            let c = script.task("c", zerolag_model::SchedAttr::Fair { policy, nice, slice: None });
            script.wake(0, 0, a).run(0, 0, None, Some(a)).run(0, 1, None, None);
            script.wake(0, 2, c).run(0, 2, None, Some(c)).wake(1000, 0, b);
            let mut trace = script.end(500_000);
            trace.meta.machine = Machine::Known(Topology::new(1, 1, 3, 1).expect("three CPUs"));
            trace.meta.settings.push(("fair_balance".to_owned(), fair_balance.to_owned()));
            trace
        };
        holds("no-task-lost", &beside("load_per_task", -5));
        let lost = "cpu 1 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
        breaks("no-task-lost", &beside("load_per_task", 0), lost);
        breaks("no-task-lost", &beside("kinds", -5), lost);
    }

    /// `b` waits behind a real-time task, and CPU 1 is idle.
    #[test]
    fn balancing_by_load_leaves_a_task_behind_a_real_time_task() {
        let behind = |fair_balance: &str, is_taken: bool| {
            let mut script = Script::new(2);
            let (a, b) = (script.fifo("a", 50), script.fair("b"));
            script.wake(0, 0, a).run(0, 0, None, Some(a)).run(0, 1, None, None).wake(1000, 0, b);
            if is_taken {
                script.migrate(420_000, b, 0, 1, MigrateReason::Periodic).run(420_000, 1, None, Some(b));
            }
            let mut trace = script.end(500_000);
            trace.meta.machine = Machine::Known(Topology::new(1, 1, 2, 1).expect("two CPUs"));
            trace.meta.settings.push(("fair_balance".to_owned(), fair_balance.to_owned()));
            trace
        };
        holds("no-task-lost", &behind("load_above_capacity", false));
        let lost = "cpu 1 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
        breaks("no-task-lost", &behind("kinds", false), lost);
        // And it is not judged for that time when it has been taken.
        holds("no-task-lost", &behind("load_per_task", true));
        let lost = "cpu 1 is idle for 419ms while b (task 1) waits on the queue of cpu 1 and may run here";
        breaks("no-task-lost", &behind("kinds", true), lost);
    }

    /// `b` waits behind a real-time task, and the idle CPU 1 has another capacity than CPU 0.
    #[test]
    fn a_weaker_cpu_takes_no_task_that_is_alone() {
        let beside = |capacities: [u16; 2], companions: u32| {
            let mut script = Script::new(2);
            let (a, b) = (script.fifo("a", 50), script.fair("b"));
            script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(1000, 0, b);
            for nth in 0..companions {
                let other = script.fair(&format!("c{nth}"));
                script.wake(1000, 0, other);
            }
            let mut trace = script.end(500_000);
            let machine = Topology::new(1, 1, 2, 1).expect("two CPUs").with_capacities(capacities.to_vec());
            trace.meta.machine = Machine::Known(machine.expect("capacities of two CPUs"));
            trace
        };
        holds("no-task-lost", &beside([1024, 200], 0));
        let lost = "cpu 1 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
        breaks("no-task-lost", &beside([1024, 200], 1), lost);
        breaks("no-task-lost", &beside([200, 1024], 0), lost);
        // And it is not judged for that time when it has taken it.
        let taken = |capacities: [u16; 2]| {
            let mut script = Script::new(2);
            let (a, b) = (script.fifo("a", 50), script.fair("b"));
            script.wake(0, 0, a).run(0, 0, None, Some(a)).run(0, 1, None, None).wake(1000, 0, b);
            script.migrate(420_000, b, 0, 1, MigrateReason::Periodic).run(420_000, 1, None, Some(b));
            let mut trace = script.end(430_000);
            let machine = Topology::new(1, 1, 2, 1).expect("two CPUs").with_capacities(capacities.to_vec());
            trace.meta.machine = Machine::Known(machine.expect("capacities of two CPUs"));
            trace
        };
        holds("no-task-lost", &taken([1024, 200]));
        let lost = "cpu 1 is idle for 419ms while b (task 1) waits on the queue of cpu 1 and may run here";
        breaks("no-task-lost", &taken([200, 1024]), lost);
    }

    /// `b` waits on CPU 0, and CPU 1 beside it runs a real-time task without a tick. CPU 2 is idle.
    #[test]
    fn a_cpu_without_a_tick_hides_how_little_its_core_leaves() {
        let beside = |nohz_full: &str, is_rt: bool| {
            let mut script = Script::new(4);
            let (a, b) = (script.fifo("a", 50), script.fair("b"));
            let c = if is_rt { script.fifo("c", 50) } else { script.fair("c") };
            script.wake(0, 0, a).run(0, 0, None, Some(a)).run(0, 2, None, None);
            script.wake(0, 1, c).run(0, 1, None, Some(c)).wake(1000, 0, b);
            let mut trace = script.end(500_000);
            trace.meta.machine = Machine::Known(Topology::new(1, 1, 2, 2).expect("four CPUs"));
            trace.meta.settings.push(("nohz_full".to_owned(), nohz_full.to_owned()));
            trace
        };
        holds("no-task-lost", &beside("1", true));
        let lost = "cpu 2 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
        breaks("no-task-lost", &beside("1", false), lost);
        breaks("no-task-lost", &beside("3", true), lost);
    }

    /// `b` waits on CPU 0. CPU 1 is idle, under the same cache or another one.
    #[test]
    fn a_process_keeps_its_tasks_under_its_cache() {
        let beside = |llcs: u32, settings: &[(&str, &str)], is_taken: bool| {
            let mut script = Script::new(4);
            let (a, b) = (script.fair("a"), script.fair("b"));
            script.affinity(0, b, "0,2").wake(0, 0, a).run(0, 0, None, Some(a)).run(0, 2, None, None).wake(1000, 0, b);
            if is_taken {
                script.migrate(420_000, b, 0, 2, MigrateReason::Periodic).run(420_000, 2, None, Some(b));
            }
            let mut trace = script.end(500_000);
            trace.meta.machine = Machine::Known(Topology::new(1, llcs, 4 / llcs, 1).expect("four CPUs"));
            trace.meta.settings.extend(settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
            trace
        };
        let (on, processes) = (("llc_balancing", "on"), ("processes", "2"));
        holds("no-task-lost", &beside(2, &[on, processes], false));
        holds("no-task-lost", &beside(2, &[on, processes], true));
        let lost = "cpu 2 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
        breaks("no-task-lost", &beside(1, &[on, processes], false), lost);
        breaks("no-task-lost", &beside(2, &[on], false), lost);
        breaks("no-task-lost", &beside(2, &[processes, ("llc_balancing", "off")], false), lost);
    }

    /// `c` waits on CPU 3 beside the idle CPU 2, which it may not use: the group of CPUs 2 and 3
    /// looks as busy as that of `b`.
    #[test]
    fn bound_tasks_hide_an_idle_cpu_from_the_other_caches() {
        let beside = |cpus: &str, (sockets, llcs, cores): (u32, u32, u32)| {
            let mut script = Script::new(4);
            let (a, b, c, d) = (script.fair("a"), script.fair("b"), script.fair("c"), script.fair("d"));
            let e = script.fair("e");
            script.affinity(0, c, cpus).wake(0, 0, a).run(0, 0, None, Some(a));
            script.wake(0, 3, d).run(0, 3, None, Some(d)).wake(0, 1, e).run(0, 1, None, Some(e));
            script.wake(0, 3, c).wake(1000, 0, b);
            let mut trace = script.end(500_000);
            trace.meta.machine = Machine::Known(Topology::new(sockets, llcs, cores, 1).expect("four CPUs"));
            trace
        };
        // Caches of two CPUs; then sockets of two caches of one CPU.
        for machine in [(1, 2, 2), (2, 2, 1)] {
            holds("no-task-lost", &beside("3", machine));
            let lost = "cpu 2 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
            breaks("no-task-lost", &beside("2-3", machine), lost);
        }
    }

    /// `b` waits behind `a`, and both are real-time tasks, which only the periodic balancer moves.
    /// The cache of their CPU has one CPU less than that of the idle one.
    #[test]
    fn passive_balancing_does_not_compare_divided_caches() {
        let offline = |cpu: u32, rt_balance: &str| {
            let mut script = Script::new(4);
            let (a, b) = (script.fifo("a", 50), script.fifo("b", 3));
            script.event(0, cpu, TraceEvent::Hotplug { online: false });
            script.wake(0, 0, a).run(0, 0, None, Some(a)).run(0, 2, None, None).wake(1000, 0, b);
            let mut trace = script.end(500_000);
            trace.meta.machine = Machine::Known(Topology::new(1, 2, 2, 1).expect("four CPUs"));
            trace.meta.settings.push(("rt_balance".to_owned(), rt_balance.to_owned()));
            trace
        };
        holds("no-task-lost", &offline(1, "passive"));
        let lost = "cpu 2 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
        breaks("no-task-lost", &offline(3, "passive"), lost);
        breaks("no-task-lost", &offline(1, "push_pull"), lost);
    }

    /// `b` waits on CPU 0 of a busy core. The other CPU of the idle CPU 2's core is offline or not.
    #[test]
    fn a_cpu_alone_in_its_core_takes_no_single_task() {
        let beside = |offline: Option<u32>, smt_balance: &str| {
            let mut script = Script::new(4);
            let (a, b, c) = (script.fair("a"), script.fair("b"), script.fair("c"));
            script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 1, c).run(0, 1, None, Some(c));
            script.run(0, 2, None, None).wake(1000, 0, b);
            if let Some(cpu) = offline {
                script.event(0, cpu, TraceEvent::Hotplug { online: false });
            }
            let mut trace = script.end(500_000);
            trace.meta.machine = Machine::Known(Topology::new(1, 1, 2, 2).expect("four CPUs"));
            trace.meta.settings.push(("smt_balance".to_owned(), smt_balance.to_owned()));
            trace
        };
        holds("no-task-lost", &beside(Some(3), "off"));
        let lost = "cpu 2 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
        breaks("no-task-lost", &beside(None, "off"), lost);
        breaks("no-task-lost", &beside(Some(3), "on"), lost);
    }

    /// `b` waits on CPU 0, CPU 2 is idle, and `bound`, a real-time task, waits on CPU 1.
    #[test]
    fn passive_balancing_comes_back_to_bound_real_time_tasks() {
        let beside = |cpus: &str, rt_balance: &str| {
            let mut script = Script::new(3);
            let (a, b) = (script.fair("a"), script.fair("b"));
            let (rt, bound) = (script.fifo("rt", 50), script.fifo("bound", 3));
            script.affinity(0, bound, cpus).wake(0, 0, a).run(0, 0, None, Some(a)).run(0, 2, None, None);
            script.wake(0, 1, rt).run(0, 1, None, Some(rt)).wake(0, 1, bound).wake(1000, 0, b);
            let mut trace = script.end(500_000);
            trace.meta.machine = Machine::Known(Topology::new(1, 1, 3, 1).expect("three CPUs"));
            trace.meta.settings.push(("rt_balance".to_owned(), rt_balance.to_owned()));
            trace
        };
        holds("no-task-lost", &beside("1", "passive"));
        let lost = "cpu 2 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
        breaks("no-task-lost", &beside("1-2", "passive"), lost);
        breaks("no-task-lost", &beside("1", "push_pull"), lost);
    }

    /// A core of two threads, one of which is in another domain.
    #[test]
    fn cores_of_different_sizes_are_not_compared() {
        let beside = |domain: u32| {
            let mut script = Script::new(4);
            let (a, b) = (script.fifo("a", 50), script.fair("b"));
            script.event(0, 1, TraceEvent::RootDomain { domain });
            script.wake(0, 0, a).run(0, 0, None, Some(a)).run(0, 1, None, None).wake(1000, 0, b);
            let mut trace = script.end(500_000);
            trace.meta.machine = Machine::Known(Topology::new(1, 1, 2, 2).expect("four CPUs"));
            trace
        };
        holds("no-task-lost", &beside(1));
        let lost = "cpu 1 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
        breaks("no-task-lost", &beside(0), lost);
    }

    /// `b` waits behind a fair task, beside an isolated thread. The idle CPU 2 has a busy thread
    /// beside it, or none.
    #[test]
    fn a_divided_core_with_two_tasks_looks_no_busier_than_a_core_with_one() {
        let beside = |isolated: &str, busy: u32| {
            let mut script = Script::new(4);
            let (a, b, c) = (script.fair("a"), script.fair("b"), script.fair("c"));
            script.wake(0, 0, a).run(0, 0, None, Some(a)).run(0, 2, None, None);
            script.wake(0, busy, c).run(0, busy, None, Some(c)).wake(1000, 0, b);
            let mut trace = script.end(500_000);
            trace.meta.machine = Machine::Known(Topology::new(1, 1, 2, 2).expect("four CPUs"));
            trace.meta.settings.push(("isolcpus".to_owned(), isolated.to_owned()));
            trace
        };
        holds("no-task-lost", &beside("1", 3));
        let lost = "cpu 2 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
        breaks("no-task-lost", &beside("1", 1), lost);
        breaks("no-task-lost", &beside("", 3), lost);
    }
}

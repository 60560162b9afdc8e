//! Interrupts of devices and the work that they defer: what each becomes under a preemption model.
//!
//! A device interrupt is a short handler and, often, a softirq. Where both run is the largest
//! difference between the preemption models: in the interrupt, where nothing preempts them, or in
//! threads, which the scheduler orders like any other. A workload states the work once;
//! [`Program::with_kernel_work`] makes of it what the settings ask for:
//!
//! | | handler | softirq that it raises | timers of fair tasks |
//! |---|---|---|---|
//! | default | in the interrupt | at the end of the interrupt, with interrupts on | in the interrupt |
//! | `threadirqs` | `irq/NAME`, with interrupts off | in that thread, not preempted | in the interrupt |
//! | `preempt = rt` | `irq/NAME` | in that thread | `ktimers/N`, or `ksoftirqd/N` |
//!
//! Softirqs that take too long at the end of an interrupt are left to `ksoftirqd/N`.
//!
//! A line that is never threaded (`IRQF_NO_THREAD`) raises its softirq in `ksoftirqd/N` wherever
//! others have threads. Under `preempt = rt` a section with softirqs disabled is preempted, and
//! holds a lock of its CPU whose holder inherits (`softirq.bh_lock`); elsewhere it is not
//! preempted.
//!
//! A CPU that goes offline takes no interrupts. A line of several CPUs moves to another one of
//! them, or to any if there is none, and stays there; its thread follows. A queue per CPU is
//! *managed*: it is silent until its CPU is back. Threads of the CPU run elsewhere meanwhile. All
//! of that is known from the changes of a program, so the moves of threads become changes too, and
//! hosts need no rule for them. differs: `ksoftirqd/N` and `ktimers/N` are parked in the kernel,
//! their work is taken over; here the thread of the lowest CPU that is online does it.
//!
//! RCU has the thread `rcu_preempt`, which begins and ends grace periods, and with `rcu.boost`
//! under `preempt = rt` also `rcub/0`, which boosts the readers that delay one. Both are FIFO of
//! `rcu.kthread_prio`. differs: in kernels one thread boosts the readers of up to 16 CPUs.
//!
//! A host runs the threads as tasks like others, and serves the [`Line`]s. Sources: Linux v6.12
//! `kernel/irq/cpuhotplug.c` (`migrate_one_irq`, `irq_restore_affinity_of_irq`),
//! `kernel/irq/manage.c` (`irq_thread_check_affinity`), `kernel/sched/core.c`
//! (`select_fallback_rq`), `kernel/smpboot.c`; `kernel/irq/manage.c`
//! (`irq_setup_forced_threading`, `irq_forced_thread_fn`, `irq_thread_fn`; `sched_set_fifo` in
//! `setup_irq_thread`), `kernel/softirq.c` (`invoke_softirq`, `__local_bh_disable_ip`,
//! `wakeup_softirqd`), `kernel/rcu/tree.c` (`rcu_spawn_gp_kthread`, `sanitize_kthread_prio`),
//! `kernel/rcu/tree_plugin.h` (`rcu_spawn_one_boost_kthread`), `kernel/time/hrtimer.c`
//! (`__hrtimer_init_sleeper`); `ktimers`: commit 49a17639508c.

use crate::change::{Change, TimedChange};
use crate::program::{Action, KernelAction, Program, Resource, ResourceId, ResourceKind, TaskDef};
use crate::random::Dist;
use std::sync::Arc;
use zerolag_model::settings::Preempt;
use zerolag_model::{CpuId, CpuMask, Duration, SchedAttr, Settings};

/// An interrupt line of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct InterruptDef {
    /// Its name; its thread is `irq/NAME`.
    pub name: Arc<str>,
    /// The CPUs that it can interrupt (`smp_affinity`); `None` is `irqaffinity`.
    pub cpus: Option<Arc<CpuMask>>,
    /// Whether each of these CPUs has a line of its own, as a network card with a queue per CPU.
    /// Otherwise one of them takes all, the n-th for the n-th line.
    pub on_each: bool,
    /// The time from one interrupt to the next.
    pub every: Dist,
    /// The work of the handler.
    pub handler: Dist,
    /// The deferred work that it raises.
    pub softirq: Option<Dist>,
    /// The attributes of its thread.
    pub attr: SchedAttr,
    /// Whether the handler can be moved to a thread.
    pub threading: Threading,
}

/// Whether a handler can be moved to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threading {
    /// Where handlers are threads (`threadirqs`, `preempt = rt`).
    Forced,
    /// Never (`IRQF_NO_THREAD`).
    Never,
}

/// The attributes of interrupt threads at first: `sched_set_fifo` sets half of the highest
/// priority.
pub const IRQ_THREAD: SchedAttr = SchedAttr::fifo_at(50);
/// The attributes of `ktimers`: `sched_set_fifo_low`.
const TIMER_THREAD: SchedAttr = SchedAttr::fifo_at(1);

/// A line as a host serves it.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The name of its random stream.
    pub name: Arc<str>,
    /// The CPU that it interrupts at first.
    pub cpu: CpuId,
    /// The CPUs that it interrupts later, each from a time on, in order: its CPU went offline.
    pub moves: Vec<(Duration, CpuId)>,
    /// Whether it is silent while its CPU is offline.
    pub is_managed: bool,
    /// The time from one interrupt to the next.
    pub every: Dist,
    /// The work in the interrupt; `None` if there is none but to wake the thread.
    pub handler: Option<Dist>,
    /// The softirq that the interrupt raises.
    pub softirq: Option<Dist>,
    /// The semaphore at which its thread waits.
    pub wakes: Option<ResourceId>,
}

/// What the kernel does besides the workload's tasks: see [`Program::with_kernel_work`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelWork {
    /// The lines of all devices.
    pub lines: Vec<Line>,
    /// Tasks from this one on are the kernel's threads: no run waits for their end.
    pub first_task: Option<usize>,
    /// The lock of each CPU that a section with softirqs disabled holds, from this one on; `None`
    /// if such sections are not preempted instead.
    pub bh_locks: Option<ResourceId>,
    /// The semaphores at which the CPUs' `ksoftirqd` wait.
    pub softirq_threads: Vec<ResourceId>,
    /// Whether these threads do all softirqs. Otherwise they run at the end of the interrupt, and
    /// the threads do what takes too long there.
    pub are_softirqs_threaded: bool,
    /// The semaphores at which the threads wait that expire the timers of fair tasks. Without them
    /// timers expire in the interrupt.
    pub timer_threads: Vec<ResourceId>,
    /// The semaphore at which the thread of RCU's grace periods waits; `None` if no task waits for
    /// one.
    pub rcu_periods: Option<ResourceId>,
    /// The boost of RCU's readers; `None` if they are not boosted.
    pub rcu_boost: Option<RcuBoost>,
}

/// What the boost of RCU's readers needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RcuBoost {
    /// The semaphore at which its thread waits.
    pub wakes: ResourceId,
    /// The mutex that a boosted reader holds, and the thread waits for.
    pub mutex: ResourceId,
}

impl Program {
    /// Returns whether a task has sections with softirqs disabled.
    #[must_use]
    pub fn disables_softirqs(&self) -> bool {
        let mut actions = self.tasks.iter().flat_map(|task| &task.phases).flat_map(|phase| &phase.actions);
        actions.any(|action| matches!(action, Action::InKernel(KernelAction::BhDisable)))
    }

    /// Returns whether a task waits for a grace period of RCU.
    #[must_use]
    pub fn waits_for_rcu(&self) -> bool {
        let mut actions = self.tasks.iter().flat_map(|task| &task.phases).flat_map(|phase| &phase.actions);
        actions.any(|action| matches!(action, Action::InKernel(KernelAction::SynchronizeRcu)))
    }

    /// Returns whether a fair task waits for a timer. A task that is fair only at times counts.
    fn has_fair_timers(&self) -> bool {
        let is_fair = |attr: &SchedAttr| matches!(attr, SchedAttr::Fair { .. });
        let becomes_fair =
            self.changes.iter().any(|change| matches!(&change.what, Change::Attr { attr, .. } if is_fair(attr)));
        self.tasks.iter().any(|task| {
            let attrs = task.phases.iter().filter_map(|phase| phase.attr.as_ref()).chain([&task.attr]);
            let waits = |action: &Action| matches!(action, Action::Sleep(_) | Action::Timer { .. });
            (becomes_fair || attrs.into_iter().any(is_fair))
                && task.phases.iter().flat_map(|phase| &phase.actions).any(waits)
        })
    }

    /// Returns whether timers of this program expire in threads under these settings.
    fn has_soft_timers(&self, settings: &Settings) -> bool {
        settings.preempt == Preempt::Rt && self.has_fair_timers()
    }

    /// Returns whether [`with_kernel_work`](Self::with_kernel_work) adds anything.
    #[must_use]
    pub fn needs_kernel_work(&self, settings: &Settings) -> bool {
        !self.interrupts.is_empty()
            || self.disables_softirqs()
            || self.has_soft_timers(settings)
            || self.waits_for_rcu()
    }

    /// Returns the program with the threads and locks that its interrupts, timers, sections with
    /// softirqs disabled and waits for RCU need under these settings. A program without any of them
    /// stays as it is.
    #[must_use]
    pub fn with_kernel_work(&self, settings: &Settings, nr_cpus: usize) -> Self {
        let mut program = self.clone();
        if !self.needs_kernel_work(settings) {
            return program;
        }
        let hotplug = hotplug(self, nr_cpus);
        let mut builder = LinesBuilder { settings, nr_cpus, hotplug, program: &mut program };
        builder.locks();
        if !self.interrupts.is_empty() || self.has_soft_timers(settings) {
            builder.program.kernel_work.first_task.get_or_insert(self.tasks.len());
            builder.softirq_threads();
            builder.timer_threads();
            for (nth, def) in self.interrupts.iter().enumerate() {
                builder.lines_of(nth, def);
            }
        }
        if self.waits_for_rcu() {
            builder.program.kernel_work.first_task.get_or_insert(self.tasks.len());
            builder.rcu_threads();
        }
        program
    }
}

/// A CPU goes offline or comes back.
struct Hotplug {
    at: Duration,
    cpu: CpuId,
    /// The CPUs that are online from then on.
    online: CpuMask,
}

/// Returns the changes of a program that take CPUs offline or bring them back.
fn hotplug(program: &Program, nr_cpus: usize) -> Vec<Hotplug> {
    let mut online = CpuMask::first_n(nr_cpus);
    let cpu_changes = program.changes.iter().filter_map(|change| match change.what {
        Change::Cpu { cpu, is_online } => Some((change.at, cpu, is_online)),
        _ => None,
    });
    let changes = cpu_changes.map(|(at, cpu, is_online)| {
        if is_online {
            online.insert(cpu)
        } else {
            online.remove(cpu)
        };
        Hotplug { at, cpu, online: online.clone() }
    });
    changes.collect()
}

struct LinesBuilder<'b> {
    settings: &'b Settings,
    nr_cpus: usize,
    hotplug: Vec<Hotplug>,
    program: &'b mut Program,
}

impl Line {
    /// Returns the CPU that it interrupts at a time of the run.
    #[must_use]
    pub fn cpu_at(&self, time: Duration) -> CpuId {
        let moved = self.moves.iter().rev().find(|(from, _)| *from <= time);
        moved.map_or(self.cpu, |(_, cpu)| *cpu)
    }
}

impl LinesBuilder<'_> {
    /// Has the last thread leave its CPU when that goes offline, and return with it; a thread of a
    /// line follows the `moves` of that.
    ///
    /// The change is made before a CPU goes offline and after it has come back, so that a thread
    /// always has a CPU.
    fn follow_hotplug(&mut self, home: CpuId, moves: Option<&[(Duration, CpuId)]>) {
        let task = self.program.tasks.len() - 1;
        let of_line = moves.into_iter().flatten().map(|(at, cpu)| (*at, CpuMask::single(*cpu), false));
        let of_home = self.hotplug.iter().filter(|change| moves.is_none() && change.cpu == home).map(|change| {
            let is_back = change.online.contains(home);
            (change.at, if is_back { CpuMask::single(home) } else { change.online.clone() }, is_back)
        });
        for (at, cpus, is_back) in of_line.chain(of_home) {
            let is_before = |change: &TimedChange| change.at < at || is_back && change.at == at;
            let place = self.program.changes.partition_point(is_before);
            let what = Change::Affinity { task, cpus: Some(Arc::new(cpus)) };
            self.program.changes.insert(place, TimedChange { at, what });
        }
    }

    fn is_rt(&self) -> bool {
        self.settings.preempt == Preempt::Rt
    }

    /// Returns whether readers of RCU that delay a grace period are boosted.
    fn boosts_readers(&self) -> bool {
        self.is_rt() && self.settings.rcu_boost
    }

    fn has_threads(&self) -> bool {
        self.is_rt() || self.settings.threadirqs
    }

    fn cpus(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.nr_cpus).map(CpuId::from_index)
    }

    fn resource(&mut self, name: String, kind: ResourceKind) -> ResourceId {
        let id = u32::try_from(self.program.resources.len()).expect("invariant: fewer than 2^32 resources");
        self.program.resources.push(Resource { name: name.into(), kind });
        ResourceId(id)
    }

    /// Makes the locks of sections with softirqs disabled.
    fn locks(&mut self) {
        if !self.is_rt() || !self.settings.softirq_bh_lock {
            return;
        }
        for cpu in self.cpus() {
            let lock = self.resource(format!("softirq_ctrl/{cpu}"), ResourceKind::SpinLock);
            self.program.kernel_work.bh_locks.get_or_insert(lock);
        }
    }

    /// Makes `ksoftirqd`.
    fn softirq_threads(&mut self) {
        self.program.kernel_work.are_softirqs_threaded = self.has_threads();
        if self.program.interrupts.is_empty()
            || !self.has_threads() && self.program.interrupts.iter().all(|line| line.softirq.is_none())
        {
            return;
        }
        for cpu in self.cpus() {
            let steps = [KernelAction::BhDisable, KernelAction::Softirqs, KernelAction::BhEnable].map(Action::InKernel);
            let wakes = self.thread(format!("ksoftirqd/{cpu}"), SchedAttr::NORMAL, cpu, None, steps.into());
            self.program.kernel_work.softirq_threads.push(wakes);
        }
    }

    /// Makes the threads that expire the timers of fair tasks.
    fn timer_threads(&mut self) {
        if !self.is_rt() {
            return;
        }
        for cpu in self.cpus() {
            let (name, attr) = match self.settings.softirq_timer_threads {
                true => (format!("ktimers/{cpu}"), TIMER_THREAD),
                // differs: one thread for both, which we keep apart to tell their work.
                false => (format!("ksoftirqd-timers/{cpu}"), SchedAttr::NORMAL),
            };
            let steps =
                [KernelAction::BhDisable, KernelAction::SoftTimers, KernelAction::BhEnable].map(Action::InKernel);
            let wakes = self.thread(name, attr, cpu, None, steps.into());
            self.program.kernel_work.timer_threads.push(wakes);
        }
    }

    /// Makes a thread of the kernel that waits to be woken before its steps; returns its semaphore.
    /// It is a CPU's own, or a line's, with the moves of that.
    fn thread(
        &mut self,
        name: String,
        attr: SchedAttr,
        cpu: CpuId,
        moves: Option<&[(Duration, CpuId)]>,
        steps: Vec<Action>,
    ) -> ResourceId {
        let (thread, wakes) = self.waiting(name, attr, steps);
        self.program.tasks.push(thread.on(cpu));
        self.follow_hotplug(cpu, moves);
        wakes
    }

    /// Returns a thread that waits to be woken before its steps, and its semaphore.
    fn waiting(&mut self, name: String, attr: SchedAttr, steps: Vec<Action>) -> (TaskDef, ResourceId) {
        let wakes = self.resource(name.clone(), ResourceKind::Semaphore { initial: 0 });
        let actions = core::iter::once(Action::SemWait(wakes)).chain(steps).collect();
        (TaskDef::looping(name, attr, actions), wakes)
    }

    /// Makes the threads of RCU, on any CPU.
    fn rcu_threads(&mut self) {
        let attr = match (self.settings.rcu_kthread_prio, self.boosts_readers()) {
            (0, false) => SchedAttr::NORMAL,
            (priority, _) => SchedAttr::fifo_at(i64::from(priority.max(1))),
        };
        let (thread, wakes) = self.waiting("rcu_preempt".to_owned(), attr, vec![KernelAction::RcuPeriods.into()]);
        self.program.tasks.push(thread);
        self.program.kernel_work.rcu_periods = Some(wakes);
        if self.boosts_readers() {
            let (thread, wakes) = self.waiting("rcub/0".to_owned(), attr, vec![KernelAction::RcuBoost.into()]);
            self.program.tasks.push(thread);
            let mutex = self.resource("rcu_boost".to_owned(), ResourceKind::Mutex { inherit: true });
            self.program.kernel_work.rcu_boost = Some(RcuBoost { wakes, mutex });
        }
    }

    fn lines_of(&mut self, nth: usize, def: &InterruptDef) {
        let all = || self.cpus().collect::<CpuMask>();
        let usual = || Some(self.settings.irqaffinity.and(&all())).filter(|cpus| !cpus.is_empty()).unwrap_or_else(all);
        let cpus = def.cpus.as_deref().map_or_else(usual, |cpus| cpus.and(&all()));
        let cpus: Vec<CpuId> = cpus.iter().collect();
        match (def.on_each, &cpus[..]) {
            (_, []) => {}
            (true, cpus) => {
                cpus.iter().for_each(|cpu| self.line(&format!("{}/{cpu}", def.name), *cpu, &[], def));
            }
            (false, cpus) => {
                let cpu = cpus[nth % cpus.len()];
                self.line(&def.name, cpu, &self.moves_of(cpu, cpus), def);
            }
        }
    }

    /// Returns where a line goes that can interrupt several CPUs, each time that its CPU goes
    /// offline: to the lowest of its CPUs that is online, else to the lowest of all.
    fn moves_of(&self, mut cpu: CpuId, cpus: &[CpuId]) -> Vec<(Duration, CpuId)> {
        let mut moves = Vec::new();
        for Hotplug { at, online, .. } in &self.hotplug {
            let to = cpus.iter().copied().find(|cpu| online.contains(*cpu)).or_else(|| online.first());
            if let Some(to) = to.filter(|_| !online.contains(cpu)) {
                cpu = to;
                moves.push((*at, to));
            }
        }
        moves
    }

    fn line(&mut self, name: &str, cpu: CpuId, moves: &[(Duration, CpuId)], def: &InterruptDef) {
        let in_thread = self.has_threads() && def.threading == Threading::Forced;
        let line = |handler, softirq, wakes| Line {
            name: name.into(),
            cpu,
            moves: moves.to_vec(),
            is_managed: def.on_each,
            every: def.every.clone(),
            handler,
            softirq,
            wakes,
        };
        let line = if in_thread {
            let handler = def.handler.clone();
            let handler = if self.is_rt() { Action::Kernel(handler) } else { KernelAction::IrqsOff(handler).into() };
            let softirq = def.softirq.clone().map(Action::Kernel);
            let [begins, ends] = [KernelAction::BhDisable, KernelAction::BhEnable].map(Action::InKernel);
            let steps = [begins, handler].into_iter().chain(softirq).chain([ends]).collect();
            let moves = Some(moves).filter(|_| !def.on_each);
            let wakes = self.thread(format!("irq/{name}"), def.attr, cpu, moves, steps);
            line(None, None, Some(wakes))
        } else {
            line(Some(def.handler.clone()), def.softirq.clone(), None)
        };
        self.program.kernel_work.lines.push(line);
    }
}

impl InterruptDef {
    /// Returns a line of one CPU whose handler can be moved to a thread of the usual priority.
    #[must_use]
    pub fn on(name: impl Into<Arc<str>>, cpu: CpuId, every: Dist, handler: Dist) -> Self {
        Self {
            name: name.into(),
            cpus: Some(Arc::new(CpuMask::single(cpu))),
            on_each: false,
            every,
            handler,
            softirq: None,
            attr: IRQ_THREAD,
            threading: Threading::Forced,
        }
    }

    /// Returns it with deferred work.
    #[must_use]
    pub fn raising(self, softirq: Dist) -> Self {
        Self { softirq: Some(softirq), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::KernelVersion;

    fn program() -> Program {
        let us = |n| Dist::Constant(Duration::from_micros(n));
        let eth = InterruptDef { cpus: None, ..InterruptDef::on("eth0", CpuId(0), us(500), us(3)) }.raising(us(20));
        let timer = InterruptDef { threading: Threading::Never, ..eth.clone() };
        let disk = InterruptDef { on_each: true, name: "disk".into(), ..eth.clone() };
        Program { interrupts: vec![eth, timer, disk], ..Program::default() }
    }

    fn threads(change: impl Fn(&mut Settings)) -> (Vec<String>, Program) {
        let mut settings = KernelVersion::V6_18.settings();
        change(&mut settings);
        let program = program().with_kernel_work(&settings, 2);
        (program.tasks.iter().map(|task| task.name.to_string()).collect(), program)
    }

    #[test]
    fn handlers_are_threads_where_the_model_has_threads() {
        let (names, program) = threads(|_| {});
        assert_eq!(names, ["ksoftirqd/0", "ksoftirqd/1"], "for what takes too long in the interrupt");
        assert!(!program.kernel_work.are_softirqs_threaded);
        assert!(program.kernel_work.lines.iter().all(|line| line.softirq.is_some()));
        let (names, program) = threads(|settings| settings.threadirqs = true);
        assert_eq!(names, ["ksoftirqd/0", "ksoftirqd/1", "irq/eth0", "irq/disk/0", "irq/disk/1"]);
        assert!(program.kernel_work.timer_threads.is_empty() && program.kernel_work.bh_locks.is_none());
        let (names, program) = threads(|settings| settings.preempt = Preempt::Rt);
        assert_eq!(names[2..4], ["ktimers/0", "ktimers/1"]);
        // The line that is never threaded keeps its handler, and raises its softirq.
        let direct: Vec<_> = program.kernel_work.lines.iter().filter(|line| line.handler.is_some()).collect();
        assert!(matches!(direct[..], [Line { softirq: Some(_), wakes: None, cpu: CpuId(1), .. }]), "{direct:?}");
    }

    #[test]
    fn timers_of_fair_tasks_have_threads_without_any_interrupt() {
        let sleeps = || vec![Action::Sleep(Dist::Constant(Duration::from_millis(1)))];
        let names = |attr, preempt| {
            let tasks = vec![TaskDef::looping("task", attr, sleeps())];
            let settings = Settings { preempt, ..KernelVersion::V6_18.settings() };
            let program = Program { tasks, ..Program::default() }.with_kernel_work(&settings, 2);
            program.tasks[1..].iter().map(|task| task.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(SchedAttr::NORMAL, Preempt::Rt), ["ktimers/0", "ktimers/1"]);
        assert!(names(SchedAttr::fifo_at(5), Preempt::Rt).is_empty(), "its timers expire in the interrupt");
        assert!(names(SchedAttr::NORMAL, Preempt::Full).is_empty());
    }

    #[test]
    fn rcu_has_threads_where_a_task_waits_for_it() {
        let threads = |steps: Vec<Action>, change: fn(&mut Settings)| {
            let mut settings = KernelVersion::V6_18.settings();
            change(&mut settings);
            let tasks = vec![TaskDef::looping("task", SchedAttr::NORMAL, steps)];
            let program = Program { tasks, ..Program::default() }.with_kernel_work(&settings, 2);
            program.tasks[1..].iter().map(|task| (task.name.to_string(), task.attr)).collect::<Vec<_>>()
        };
        let named = |name: &str, attr| (name.to_owned(), attr);
        let rt: fn(&mut Settings) = |settings| settings.preempt = Preempt::Rt;
        assert!(threads(vec![KernelAction::RcuLock.into(), KernelAction::RcuUnlock.into()], rt).is_empty());
        let wait = || vec![KernelAction::SynchronizeRcu.into()];
        assert_eq!(threads(wait(), |_| {}), [named("rcu_preempt", SchedAttr::NORMAL)]);
        let fifo = |priority| ["rcu_preempt", "rcub/0"].map(|name| named(name, SchedAttr::fifo_at(priority)));
        assert_eq!(threads(wait(), rt), fifo(1), "0 is 1 where readers are boosted");
        let urgent: fn(&mut Settings) = |settings| (settings.preempt, settings.rcu_kthread_prio) = (Preempt::Rt, 60);
        assert_eq!(threads(wait(), urgent), fifo(60));
        let off: fn(&mut Settings) = |settings| (settings.preempt, settings.rcu_boost) = (Preempt::Rt, false);
        assert_eq!(threads(wait(), off), [named("rcu_preempt", SchedAttr::NORMAL)]);
    }

    #[test]
    fn the_default_affinity_is_every_cpu_or_irqaffinity() {
        let cpus = |text: &str| {
            let (_, program) = threads(|settings| settings.irqaffinity = text.parse().expect("a list"));
            program.kernel_work.lines.iter().map(|line| line.cpu.0).collect::<Vec<_>>()
        };
        assert_eq!(cpus(""), [0, 1, 0, 1]);
        assert_eq!(cpus("1"), [1, 1, 1]);
    }

    #[test]
    fn lines_and_threads_leave_a_cpu_that_goes_offline() {
        let mut program = program();
        for (ms, is_online) in [(5, false), (9, true)] {
            program.change(Duration::from_millis(ms), Change::Cpu { cpu: CpuId(0), is_online });
        }
        let mut settings = KernelVersion::V6_18.settings();
        settings.threadirqs = true;
        let program = program.with_kernel_work(&settings, 2);
        let cpus = |ms| {
            program.kernel_work.lines.iter().map(|line| line.cpu_at(Duration::from_millis(ms)).0).collect::<Vec<_>>()
        };
        // eth0 moves and stays; the queues of the disk are silent until their CPU is back.
        assert_eq!((cpus(4), cpus(5), cpus(10)), (vec![0, 1, 0, 1], vec![1, 1, 0, 1], vec![1, 1, 0, 1]));
        assert_eq!(
            program.kernel_work.lines.iter().map(|line| line.is_managed).collect::<Vec<_>>(),
            [false, false, true, true]
        );
        let bound: Vec<(u64, &str, String)> = program
            .changes
            .iter()
            .filter_map(|change| match &change.what {
                Change::Affinity { task, cpus: Some(cpus) } => {
                    Some((change.at.as_nanos() / 1_000_000, &*program.tasks[*task].name, cpus.to_string()))
                }
                _ => None,
            })
            .collect();
        let one = |ms, name, cpus: &str| (ms, name, cpus.to_owned());
        let leave = [one(5, "irq/disk/0", "1"), one(5, "irq/eth0", "1"), one(5, "ksoftirqd/0", "1")];
        assert_eq!(bound[..3], leave);
        assert_eq!(bound[3..], [one(9, "ksoftirqd/0", "0"), one(9, "irq/disk/0", "0")]);
        // A thread has a CPU at all times: it leaves before, and returns after.
        let is_cpu = |change: &TimedChange| matches!(change.what, Change::Cpu { .. });
        assert_eq!(program.changes.iter().position(is_cpu), Some(3));
        assert!(is_cpu(&program.changes[4]));
    }
}

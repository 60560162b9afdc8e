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
//! A line that is never threaded (`IRQF_NO_THREAD`) raises its softirq in `ksoftirqd/N` wherever
//! others have threads. Under `preempt = rt` a section with softirqs disabled is preempted, and
//! holds a lock of its CPU whose holder inherits (`softirq.bh_lock`); elsewhere it is not
//! preempted.
//!
//! A host runs the threads as tasks like others, and serves the [`Line`]s. Sources: Linux v6.12
//! `kernel/irq/manage.c` (`irq_setup_forced_threading`, `irq_forced_thread_fn`,
//! `irq_thread_fn`; `sched_set_fifo` in `setup_irq_thread`), `kernel/softirq.c` (`invoke_softirq`,
//! `__local_bh_disable_ip`, `wakeup_softirqd`), `kernel/time/hrtimer.c`
//! (`__hrtimer_init_sleeper`); `ktimers`: commit 49a17639508c.

use crate::program::{Action, Program, Resource, ResourceId, ResourceKind, TaskDef};
use crate::random::Dist;
use std::sync::Arc;
use zerolag_model::settings::Preempt;
use zerolag_model::{CpuId, CpuMask, SchedAttr, Settings};

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
    /// The CPU that it interrupts.
    pub cpu: CpuId,
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
    /// The semaphores at which the CPUs' `ksoftirqd` wait. Without them softirqs run at the end of
    /// the interrupt.
    pub softirq_threads: Vec<ResourceId>,
    /// The semaphores at which the threads wait that expire the timers of fair tasks. Without them
    /// timers expire in the interrupt.
    pub timer_threads: Vec<ResourceId>,
}

impl Program {
    /// Returns whether a task has sections with softirqs disabled.
    #[must_use]
    pub fn disables_softirqs(&self) -> bool {
        let mut actions = self.tasks.iter().flat_map(|task| &task.phases).flat_map(|phase| &phase.actions);
        actions.any(|action| matches!(action, Action::BhDisable))
    }

    /// Returns the program with the threads and locks that its interrupts need under these
    /// settings. A program without interrupts and without sections that disable softirqs stays as
    /// it is.
    #[must_use]
    pub fn with_kernel_work(&self, settings: &Settings, nr_cpus: usize) -> Self {
        let mut program = self.clone();
        if self.interrupts.is_empty() && !self.disables_softirqs() {
            return program;
        }
        let mut builder = Builder { settings, nr_cpus, program: &mut program };
        builder.locks();
        if !self.interrupts.is_empty() {
            builder.program.kernel_work.first_task.get_or_insert(self.tasks.len());
            builder.softirq_threads();
            for (nth, def) in self.interrupts.iter().enumerate() {
                builder.lines_of(nth, def);
            }
        }
        program
    }
}

struct Builder<'b> {
    settings: &'b Settings,
    nr_cpus: usize,
    program: &'b mut Program,
}

impl Builder<'_> {
    fn is_rt(&self) -> bool {
        self.settings.preempt == Preempt::Rt
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

    /// Makes `ksoftirqd`, and the threads of timers.
    fn softirq_threads(&mut self) {
        if !self.has_threads() {
            return;
        }
        for cpu in self.cpus() {
            let steps = [Action::BhDisable, Action::Softirqs, Action::BhEnable];
            let wakes = self.thread(format!("ksoftirqd/{cpu}"), SchedAttr::NORMAL, cpu, steps.into());
            self.program.kernel_work.softirq_threads.push(wakes);
        }
        if !self.is_rt() {
            return;
        }
        for cpu in self.cpus() {
            let (name, attr) = match self.settings.softirq_timer_threads {
                true => (format!("ktimers/{cpu}"), TIMER_THREAD),
                // differs: one thread for both, which we keep apart to tell their work.
                false => (format!("ksoftirqd-timers/{cpu}"), SchedAttr::NORMAL),
            };
            let steps = [Action::BhDisable, Action::SoftTimers, Action::BhEnable];
            let wakes = self.thread(name, attr, cpu, steps.into());
            self.program.kernel_work.timer_threads.push(wakes);
        }
    }

    /// Makes a thread of the kernel that waits to be woken before its steps; returns its semaphore.
    fn thread(&mut self, name: String, attr: SchedAttr, cpu: CpuId, steps: Vec<Action>) -> ResourceId {
        let wakes = self.resource(name.clone(), ResourceKind::Semaphore { initial: 0 });
        let actions = core::iter::once(Action::SemWait(wakes)).chain(steps).collect();
        self.program.tasks.push(TaskDef::looping(name, attr, actions).on(cpu));
        wakes
    }

    fn lines_of(&mut self, nth: usize, def: &InterruptDef) {
        let all = || self.cpus().collect::<CpuMask>();
        let usual = || Some(self.settings.irqaffinity.and(&all())).filter(|cpus| !cpus.is_empty()).unwrap_or_else(all);
        let cpus = def.cpus.as_deref().map_or_else(usual, |cpus| cpus.and(&all()));
        let cpus: Vec<CpuId> = cpus.iter().collect();
        match (def.on_each, &cpus[..]) {
            (_, []) => {}
            (true, cpus) => cpus.iter().for_each(|cpu| self.line(&format!("{}/{cpu}", def.name), *cpu, def)),
            (false, cpus) => self.line(&def.name, cpus[nth % cpus.len()], def),
        }
    }

    fn line(&mut self, name: &str, cpu: CpuId, def: &InterruptDef) {
        let in_thread = self.has_threads() && def.threading == Threading::Forced;
        let line = |handler, softirq, wakes| Line {
            name: name.into(),
            cpu,
            every: def.every.clone(),
            handler,
            softirq,
            wakes,
        };
        let line = if in_thread {
            let handler = def.handler.clone();
            let handler = if self.is_rt() { Action::Kernel(handler) } else { Action::IrqsOff(handler) };
            let softirq = def.softirq.clone().map(Action::Kernel);
            let steps = [Action::BhDisable, handler].into_iter().chain(softirq).chain([Action::BhEnable]).collect();
            let wakes = self.thread(format!("irq/{name}"), def.attr, cpu, steps);
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
    use zerolag_model::{Duration, KernelVersion};

    fn program() -> Program {
        let us = |n| Dist::Constant(Duration::from_micros(n));
        let eth = InterruptDef { cpus: None, ..InterruptDef::on("eth0", CpuId(0), us(500), us(3)) }.raising(us(20));
        let timer = InterruptDef { threading: Threading::Never, ..eth.clone() };
        let disk = InterruptDef { on_each: true, ..eth.clone() };
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
        assert!(names.is_empty() && program.kernel_work.lines.iter().all(|line| line.softirq.is_some()));
        let (names, program) = threads(|settings| settings.threadirqs = true);
        assert_eq!(names, ["ksoftirqd/0", "ksoftirqd/1", "irq/eth0", "irq/eth0/0", "irq/eth0/1"]);
        assert!(program.kernel_work.timer_threads.is_empty() && program.kernel_work.bh_locks.is_none());
        let (names, program) = threads(|settings| settings.preempt = Preempt::Rt);
        assert_eq!(names[2..4], ["ktimers/0", "ktimers/1"]);
        // The line that is never threaded keeps its handler, and raises its softirq.
        let direct: Vec<_> = program.kernel_work.lines.iter().filter(|line| line.handler.is_some()).collect();
        assert!(matches!(direct[..], [Line { softirq: Some(_), wakes: None, cpu: CpuId(1), .. }]), "{direct:?}");
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
}

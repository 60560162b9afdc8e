//! [`KernelEvent`]: an event of a kernel, as every recorder writes it.

use super::context::Context;
use super::means::Call;
use crate::meta::Means;
use zerolag_model::event::{IpiReason, Irq};
use zerolag_model::{CpuId, Duration, Instant, PrevState, Prio};

/// A task as named by a trace point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskRef<'a> {
    pub(crate) comm: &'a str,
    /// Its thread id, which trace points call `pid`.
    pub(crate) tid: u32,
}

/// The ports of a connection: its own, and that of the other end.
pub(crate) type Ports = (u16, u16);

/// An event of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KernelEvent<'a> {
    Switch {
        prev: TaskRef<'a>,
        prev_prio: Prio,
        prev_state: PrevState,
        next: TaskRef<'a>,
        next_prio: Prio,
    },
    Waking {
        task: TaskRef<'a>,
        prio: Prio,
        target: CpuId,
    },
    Wakeup {
        task: TaskRef<'a>,
        prio: Prio,
        cpu: CpuId,
    },
    WakeupNew {
        task: TaskRef<'a>,
        prio: Prio,
        cpu: CpuId,
    },
    Migrate {
        task: TaskRef<'a>,
        prio: Prio,
        from: CpuId,
        to: CpuId,
    },
    Fork {
        parent: TaskRef<'a>,
        child: TaskRef<'a>,
    },
    Exit {
        task: TaskRef<'a>,
    },
    PiSetprio {
        task: TaskRef<'a>,
        from: Prio,
        to: Prio,
    },
    IpiSend {
        to: CpuId,
        reason: IpiReason,
    },
    IrqEnter(Irq),
    IrqExit(Irq),
    /// The scheduler has charged a task with CPU time (`sched_stat_runtime`): it ran for so long
    /// until now, here or on another CPU.
    Charged {
        task: TaskRef<'a>,
        ran: Duration,
    },
    /// A thread is moved to this group, of cgroup v2 or of any hierarchy of v1.
    Attach {
        task: TaskRef<'a>,
        path: &'a str,
        is_v2: bool,
    },
    /// The thread that runs begins a system call, or ends the one that it is in.
    Call(Option<Call>),
    /// The thread that runs has sent bytes to the socket at this address, or received some. No
    /// bytes are no message.
    Message {
        socket: u64,
        bytes: u32,
        is_sent: bool,
    },
    /// The socket from which the thread that runs is about to receive has these ports.
    Ports(Ports),
    /// A thread belongs to this process. Not from a trace point: recorders store it beside events.
    Process {
        tid: u32,
        pid: u32,
    },
    /// A thread has this name. Not from a trace point: recorders store it beside events.
    Name {
        task: TaskRef<'a>,
    },
    /// The recorder has lost events of this CPU here.
    Lost {
        events: u64,
    },
}

impl<'a> KernelEvent<'a> {
    /// Returns the event with other texts in place of the names of its tasks.
    pub(crate) fn with_names<'b>(self, mut name: impl FnMut(TaskRef<'a>) -> &'b str) -> KernelEvent<'b> {
        let mut of = |task: TaskRef<'a>| TaskRef { comm: name(task), tid: task.tid };
        match self {
            Self::Switch { prev, prev_prio, prev_state, next, next_prio } => {
                KernelEvent::Switch { prev: of(prev), prev_prio, prev_state, next: of(next), next_prio }
            }
            Self::Waking { task, prio, target } => KernelEvent::Waking { task: of(task), prio, target },
            Self::Wakeup { task, prio, cpu } => KernelEvent::Wakeup { task: of(task), prio, cpu },
            Self::WakeupNew { task, prio, cpu } => KernelEvent::WakeupNew { task: of(task), prio, cpu },
            Self::Migrate { task, prio, from, to } => KernelEvent::Migrate { task: of(task), prio, from, to },
            Self::Fork { parent, child } => KernelEvent::Fork { parent: of(parent), child: of(child) },
            Self::Exit { task } => KernelEvent::Exit { task: of(task) },
            Self::PiSetprio { task, from, to } => KernelEvent::PiSetprio { task: of(task), from, to },
            Self::Charged { task, ran } => KernelEvent::Charged { task: of(task), ran },
            Self::Name { task } => KernelEvent::Name { task: of(task) },
            // The path is kept as a name is.
            Self::Attach { task, path, is_v2 } => {
                KernelEvent::Attach { task: of(task), path: name(TaskRef { comm: path, tid: task.tid }), is_v2 }
            }
            Self::IpiSend { to, reason } => KernelEvent::IpiSend { to, reason },
            Self::IrqEnter(irq) => KernelEvent::IrqEnter(irq),
            Self::IrqExit(irq) => KernelEvent::IrqExit(irq),
            Self::Call(call) => KernelEvent::Call(call),
            Self::Message { socket, bytes, is_sent } => KernelEvent::Message { socket, bytes, is_sent },
            Self::Ports(ports) => KernelEvent::Ports(ports),
            Self::Process { tid, pid } => KernelEvent::Process { tid, pid },
            Self::Lost { events } => KernelEvent::Lost { events },
        }
    }
}

/// An event with its time and CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) at: Instant,
    pub(crate) cpu: CpuId,
    /// The thread that the CPU ran then, 0 if it was idle; `None` if the recorder does not tell.
    pub(crate) current: Option<u32>,
    /// Whether the CPU was in an interrupt handler then, if the recorder tells.
    pub(crate) context: Context,
    /// Of a waking, what its stack tells; unknown otherwise.
    pub(crate) means: Means,
    pub(crate) event: KernelEvent<'a>,
}

impl<'a> Event<'a> {
    /// Returns an event of which the running thread is not known.
    pub(crate) const fn new(at: Instant, cpu: CpuId, event: KernelEvent<'a>) -> Self {
        Self { at, cpu, current: None, context: Context::Unknown, means: Means::Unknown, event }
    }

    /// Returns the event with other texts in place of the names of its tasks.
    #[cfg(feature = "recordings")]
    pub(crate) fn with_names<'b>(self, name: impl FnMut(TaskRef<'a>) -> &'b str) -> Event<'b> {
        let Self { at, cpu, current, context, means, event } = self;
        Event { at, cpu, current, context, means, event: event.with_names(name) }
    }
}

/// Returns the kind of an interrupt's trace point, and whether it is the start: the vectors of x86,
/// devices and softirqs.
pub(crate) fn irq_of(name: &str) -> Option<KernelEvent<'static>> {
    let entry = name.strip_suffix("_entry");
    let irq = match entry.or_else(|| name.strip_suffix("_exit"))? {
        "local_timer" => Irq::Tick,
        "reschedule" | "call_function" | "call_function_single" | "irq_work" | "ipi" => Irq::Ipi,
        "irq_handler" => Irq::Device,
        "softirq" => Irq::Softirq,
        _ => return None,
    };
    Some(if entry.is_some() { KernelEvent::IrqEnter(irq) } else { KernelEvent::IrqExit(irq) })
}

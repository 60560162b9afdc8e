//! Reads Perfetto's traces: the kernel's scheduling events in them.
//!
//! A file is a sequence of packets. Those of the kernel's events have one CPU's events each, as
//! messages or as the arrays of *compact* scheduling, which leave out what the reader can know: the
//! task that a switch leaves is the one that the CPU switched to before. The first switch of a CPU,
//! and the first after lost events, therefore only tells which task runs from then on.
//!
//! Packets can be packed (zlib). Other packets are skipped, so a trace of a whole Android device is
//! read. A file that is cut off within a packet is read up to there.
//!
//! Source: Perfetto `protos/perfetto/trace/ftrace/*.proto`;
//! `src/trace_processor/importers/ftrace/ftrace_tokenizer.cc`, `TokenizeFtraceCompactSched`.

use super::packets::{self, Begin, PACKET};
use super::schema::{CompactSched, Migrate, PiSetprio, ProcessTree, ServiceEvent, Switch, SystemInfo, Wakeup};
use crate::container::Trace;
use crate::error::ReadError;
use crate::kernel::context::Context;
use crate::kernel::event::{Event, KernelEvent, TaskRef};
use crate::kernel::state::{Seen, States};
use crate::kernel::{self, Head};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::{CpuId, Instant, MAX_CPUS, PrevState, Prio};

/// Returns whether a file begins as a sequence of packets.
pub(crate) fn is(bytes: &[u8]) -> bool {
    match packets::begin(bytes) {
        Begin::Packet(body, end) => {
            !body.is_empty() && Packet::decode(body).is_ok() && bytes.get(end).is_none_or(|next| *next == PACKET)
        }
        // The first packet is longer than what was looked at.
        Begin::Part(start, _) => {
            bytes.len() > 64 && bytes.get(start).is_some_and(|tag| [0x0a, 0x40, 0x50].contains(tag))
        }
        Begin::Other => false,
    }
}

/// Reads a file.
///
/// # Errors
/// A packet is malformed, or there is no event of the scheduler.
pub(crate) fn read(bytes: &[u8]) -> Result<Trace, ReadError> {
    let (mut head, mut bundles, mut lists) = (Head::of(FORMAT), Vec::new(), Lists::default());
    let end = packets::each(bytes, |_, mut packet: Packet| {
        packet.describe(&mut head);
        lists.take(packet.process_tree);
        bundles.extend(packet.ftrace_events);
    })?;
    if end < bytes.len() {
        head.dropped = Some(cut_off(end));
    }
    let mut seen = Seen::default();
    bundles.iter().flat_map(Bundle::states).for_each(|number| seen.note(number));
    let states = States::of_release(&head.kernel).unwrap_or_else(|| seen.states());
    let mut reader = Reader::new(&lists, states);
    for bundle in &bundles {
        kernel::reserve(&mut reader.events, bundle.nr_events())?;
        reader.bundle(bundle, &mut head, &mut |task| task.comm);
    }
    let first = reader.first.unwrap_or(Instant::ZERO);
    // Threads are listed without a time.
    let events = reader.events.into_iter().map(|event| Event { at: event.at.max(first), ..event });
    kernel::trace(head, events.collect())
}

/// Its name in headings.
pub(super) const FORMAT: &str = "Perfetto";

/// Says that the packet at an offset is not whole.
pub(super) fn cut_off(at: usize) -> String {
    format!("the file is cut off within the packet at byte {at}, which was left out")
}

/// The threads that the recorder listed; the first list that has a thread counts.
#[derive(Default)]
pub(super) struct Lists {
    listed: BTreeSet<u32>,
    threads: Vec<Listed>,
}

struct Listed {
    tid: u32,
    pid: u32,
    name: String,
}

impl Lists {
    /// Takes a list of threads, if a packet has one.
    pub(super) fn take(&mut self, tree: Option<ProcessTree>) {
        let Some(tree) = tree else { return };
        let threads = tree.threads.into_iter().map(|thread| (thread.tid, thread.tgid, thread.name));
        let processes = tree.processes.into_iter().map(|process| (process.pid, process.pid, String::new()));
        for (tid, pid, name) in threads.chain(processes) {
            let (Ok(tid), Ok(pid)) = (u32::try_from(tid), u32::try_from(pid)) else { continue };
            if tid != 0 && self.listed.insert(tid) {
                self.threads.push(Listed { tid, pid, name });
            }
        }
    }
}

/// From bundles to events. Of each bundle the caller tells where the names of its tasks are kept.
#[derive(Default)]
pub(super) struct Reader<'a> {
    states: States,
    pub(super) events: Vec<Event<'a>>,
    /// The task that each CPU runs, as far as compact switches tell.
    running: BTreeMap<CpuId, (TaskRef<'a>, Prio)>,
    processes: BTreeMap<u32, u32>,
    first: Option<Instant>,
}

impl<'a> Reader<'a> {
    /// Starts with the listed threads: events without a time. `states` says what the states of
    /// switches mean.
    pub(super) fn new(lists: &'a Lists, states: States) -> Self {
        let mut reader = Self { states, ..Self::default() };
        for Listed { tid, pid, name } in &lists.threads {
            let (tid, pid) = (*tid, *pid);
            reader.processes.insert(tid, pid);
            reader.note(KernelEvent::Process { tid, pid });
            if !name.is_empty() {
                reader.note(KernelEvent::Name { task: TaskRef { comm: name, tid } });
            }
        }
        reader
    }

    fn note(&mut self, event: KernelEvent<'a>) {
        self.events.push(Event::new(Instant::ZERO, CpuId(0), event));
    }

    /// Takes the events of a CPU.
    pub(super) fn bundle<'b>(
        &mut self,
        bundle: &'b Bundle,
        head: &mut Head,
        name: &mut impl FnMut(TaskRef<'b>) -> &'a str,
    ) {
        let cpu = CpuId(bundle.cpu.unwrap_or(0));
        if cpu.index() >= MAX_CPUS {
            return;
        }
        head.saw_cpu(cpu);
        let start = self.events.len();
        if bundle.lost_events == Some(true) {
            self.running.remove(&cpu);
        }
        // The kernel's order of events of one time: a task is woken, then moved, then switched to.
        if let Some(sched) = &bundle.compact_sched {
            self.wakings(cpu, sched, name);
        }
        for event in &bundle.event {
            self.event(cpu, event, name);
        }
        if let Some(sched) = &bundle.compact_sched {
            self.switches(cpu, sched, name);
        }
        let times = self.events[start..].iter().map(|event| event.at);
        let Some(earliest) = times.min() else { return };
        self.first = Some(self.first.map_or(earliest, |first| first.min(earliest)));
        if bundle.lost_events == Some(true) {
            self.events.insert(start, Event::new(earliest, cpu, KernelEvent::Lost { events: 0 }));
        }
    }

    fn switches<'b>(&mut self, cpu: CpuId, sched: &'b CompactSched, name: &mut impl FnMut(TaskRef<'b>) -> &'a str) {
        let mut at = 0_u64;
        let parts = sched
            .switch_timestamp
            .iter()
            .zip(&sched.switch_prev_state)
            .zip(&sched.switch_next_pid)
            .zip(&sched.switch_next_prio)
            .zip(&sched.switch_next_comm_index);
        let mut running = self.running.get(&cpu).copied();
        for ((((step, state), next), prio), comm_index) in parts {
            at = at.saturating_add(*step);
            let Some(next) = task(comm(sched, *comm_index), Some(*next)) else { continue };
            let Some(next_prio) = prio_of(Some(*prio)) else { continue };
            let next = TaskRef { comm: name(next), tid: next.tid };
            if let Some((prev, prev_prio)) = running.replace((next, next_prio)) {
                let prev_state = state_of(prev, *state, self.states);
                let event = KernelEvent::Switch { prev, prev_prio, prev_state, next, next_prio };
                self.push(at, cpu, Some(prev.tid), Context::Unknown, event);
            }
        }
        self.running.extend(running.map(|running| (cpu, running)));
    }

    fn wakings<'b>(&mut self, cpu: CpuId, sched: &'b CompactSched, name: &mut impl FnMut(TaskRef<'b>) -> &'a str) {
        let mut at = 0_u64;
        let parts = sched
            .waking_timestamp
            .iter()
            .zip(&sched.waking_pid)
            .zip(&sched.waking_target_cpu)
            .zip(&sched.waking_prio)
            .zip(&sched.waking_comm_index);
        for (index, ((((step, pid), target), prio), comm_index)) in parts.enumerate() {
            at = at.saturating_add(*step);
            let context = context(sched.waking_common_flags.get(index).copied());
            let known = task(comm(sched, *comm_index), Some(*pid)).zip(prio_of(Some(*prio))).zip(cpu_of(Some(*target)));
            if let Some(((task, prio), target)) = known {
                let task = TaskRef { comm: name(task), tid: task.tid };
                self.push(at, cpu, None, context, KernelEvent::Waking { task, prio, target });
            }
        }
    }

    fn push(&mut self, at: u64, cpu: CpuId, current: Option<u32>, context: Context, event: KernelEvent<'a>) {
        self.events.push(Event { current, context, ..Event::new(Instant::from_nanos(at), cpu, event) });
    }

    fn event<'b>(&mut self, cpu: CpuId, event: &'b FtraceEvent, name: &mut impl FnMut(TaskRef<'b>) -> &'a str) {
        let at = event.timestamp.unwrap_or(0);
        let context = context(event.common_flags);
        let current = event.pid;
        let Some(what) = &event.what else { return };
        if let FtracePayload::NewTask(new) = what {
            // Of a thread, not of a process: it belongs to the process of its parent.
            const CLONE_THREAD: u64 = 0x10000;
            let (Some(child), Some(parent)) = (task(new.comm.as_deref(), new.pid), current) else { return };
            let process = self.processes.get(&parent).copied().filter(|_| new.clone_flags() & CLONE_THREAD != 0);
            let pid = process.unwrap_or(child.tid);
            self.processes.insert(child.tid, pid);
            let parent = TaskRef { comm: UNNAMED, tid: parent };
            let child = TaskRef { comm: name(child), tid: child.tid };
            self.push(at, cpu, current, context, KernelEvent::Fork { parent, child });
            self.push(at, cpu, current, context, KernelEvent::Process { tid: child.tid, pid });
            return;
        }
        if let Some(event) = kernel_event(what, self.states) {
            let event = event.with_names(name);
            if let KernelEvent::Switch { next, next_prio, .. } = event {
                self.running.insert(cpu, (next, next_prio));
            }
            self.push(at, cpu, current, context, event);
        }
    }
}

/// Returns the kernel's event of a message; `None` if it lacks a field or a value is impossible.
fn kernel_event(what: &FtracePayload, states: States) -> Option<KernelEvent<'_>> {
    Some(match what {
        FtracePayload::Switch(event) => {
            let prev = task(event.prev_comm.as_deref(), event.prev_pid)?;
            KernelEvent::Switch {
                prev,
                prev_prio: prio_of(event.prev_prio)?,
                prev_state: state_of(prev, event.prev_state.unwrap_or(0), states),
                next: task(event.next_comm.as_deref(), event.next_pid)?,
                next_prio: prio_of(event.next_prio)?,
            }
        }
        FtracePayload::Waking(event) => {
            let (task, prio, target) = event.parts()?;
            KernelEvent::Waking { task, prio, target }
        }
        FtracePayload::Wakeup(event) => {
            let (task, prio, cpu) = event.parts()?;
            KernelEvent::Wakeup { task, prio, cpu }
        }
        FtracePayload::WakeupNew(event) => {
            let (task, prio, cpu) = event.parts()?;
            KernelEvent::WakeupNew { task, prio, cpu }
        }
        FtracePayload::Rename(event) => KernelEvent::Name { task: task(event.newcomm.as_deref(), event.pid)? },
        FtracePayload::Exit(event) => KernelEvent::Exit { task: task(event.comm.as_deref(), event.pid)? },
        FtracePayload::Fork(event) => KernelEvent::Fork {
            parent: task(event.parent_comm.as_deref(), event.parent_pid)?,
            child: task(event.child_comm.as_deref(), event.child_pid)?,
        },
        FtracePayload::PiSetprio(event) => KernelEvent::PiSetprio {
            task: task(event.comm.as_deref(), event.pid)?,
            from: prio_of(event.oldprio)?,
            to: prio_of(event.newprio)?,
        },
        FtracePayload::Migrate(event) => KernelEvent::Migrate {
            task: task(event.comm.as_deref(), event.pid)?,
            prio: prio_of(event.prio)?,
            from: cpu_of(event.orig_cpu)?,
            to: cpu_of(event.dest_cpu)?,
        },
        // It needs the current task.
        FtracePayload::NewTask(_) => return None,
    })
}

fn state_of(prev: TaskRef<'_>, number: i64, states: States) -> PrevState {
    if prev.tid == 0 { PrevState::Idle } else { states.state(number.cast_unsigned()) }
}

fn comm(sched: &CompactSched, index: u32) -> Option<&str> {
    sched.intern_table.get(index as usize).map(String::as_str)
}

fn task(comm: Option<&str>, tid: Option<i32>) -> Option<TaskRef<'_>> {
    Some(TaskRef { comm: comm.unwrap_or(UNNAMED), tid: u32::try_from(tid.unwrap_or(0)).ok()? })
}

/// A field that is absent is 0.
fn prio_of(prio: Option<i32>) -> Option<Prio> {
    let prio = i16::try_from(prio.unwrap_or(0)).ok().filter(|prio| (-2..=140).contains(prio))?;
    Some(Prio::from_raw(prio))
}

fn cpu_of(cpu: Option<i32>) -> Option<CpuId> {
    let cpu = u32::try_from(cpu.unwrap_or(0)).ok().filter(|cpu| (*cpu as usize) < MAX_CPUS)?;
    Some(CpuId(cpu))
}

fn context(flags: Option<u32>) -> Context {
    flags.map_or(Context::Unknown, |flags| Context::of_flags(flags.into()))
}

/// A name that the event does not have.
const UNNAMED: &str = "<...>";

#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(message, optional, tag = "1")]
    pub(super) ftrace_events: Option<Bundle>,
    #[prost(message, optional, tag = "2")]
    pub(super) process_tree: Option<ProcessTree>,
    #[prost(message, optional, tag = "45")]
    pub(super) system_info: Option<SystemInfo>,
    #[prost(bytes = "vec", optional, tag = "50")]
    compressed_packets: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(message, optional, tag = "69")]
    service_event: Option<ServiceEvent>,
}

impl packets::Packet for Packet {
    fn packed(&mut self) -> Option<Vec<u8>> {
        self.compressed_packets.take()
    }
}

impl Packet {
    /// Adds what it tells of the machine and the recorder.
    ///
    /// A service of Perfetto notes its start before its sources record anything and its end after
    /// they have, so both are no times of the recording. In a file of our own they are.
    pub(super) fn describe(&mut self, head: &mut Head) {
        if let Some((event, at)) = self.service_event.take().zip(self.timestamp)
            && head.is_ours
        {
            let at = Instant::from_nanos(at);
            if event.tracing_started == Some(true) {
                head.start = Some(at);
            }
            if event.tracing_disabled == Some(true) {
                head.end = Some(at);
            }
        }
        if let Some(info) = self.system_info.take() {
            let version = info.tracing_service_version.as_deref();
            head.is_ours = version.is_some_and(|version| version.starts_with("zerolag "));
            head.kernel = info.release();
            head.cpus = info.num_cpus.filter(|cpus| *cpus as usize <= MAX_CPUS).unwrap_or(0).max(head.cpus);
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Bundle {
    #[prost(uint32, optional, tag = "1")]
    cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    event: Vec<FtraceEvent>,
    #[prost(bool, optional, tag = "3")]
    lost_events: Option<bool>,
    #[prost(message, optional, tag = "4")]
    compact_sched: Option<CompactSched>,
}

impl Bundle {
    /// Returns the most events that it becomes: a new task is two, and lost events are one.
    fn nr_events(&self) -> usize {
        let compact = self.compact_sched.as_ref();
        let compact = compact.map_or(0, |sched| sched.switch_timestamp.len() + sched.waking_timestamp.len());
        2 * self.event.len() + compact + 1
    }

    /// Returns the numbers of the states of switches.
    fn states(&self) -> impl Iterator<Item = u64> {
        let plain = self.event.iter().filter_map(|event| match &event.what {
            Some(FtracePayload::Switch(switch)) => switch.prev_state,
            _ => None,
        });
        let compact = self.compact_sched.iter().flat_map(|sched| sched.switch_prev_state.iter().copied());
        plain.chain(compact).map(i64::cast_unsigned)
    }
}

#[derive(Clone, PartialEq, Message)]
struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pid: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    common_flags: Option<u32>,
    #[prost(oneof = "FtracePayload", tags = "4, 17, 20, 114, 235, 236, 238, 239, 353, 491")]
    what: Option<FtracePayload>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum FtracePayload {
    #[prost(message, tag = "4")]
    Switch(Switch),
    #[prost(message, tag = "17")]
    Wakeup(Wakeup),
    #[prost(message, tag = "20")]
    Waking(Wakeup),
    #[prost(message, tag = "114")]
    WakeupNew(Wakeup),
    #[prost(message, tag = "235")]
    NewTask(NewTask),
    #[prost(message, tag = "236")]
    Rename(Rename),
    #[prost(message, tag = "238")]
    Exit(Exit),
    #[prost(message, tag = "239")]
    Fork(Fork),
    #[prost(message, tag = "353")]
    PiSetprio(PiSetprio),
    #[prost(message, tag = "491")]
    Migrate(Migrate),
}

impl Wakeup {
    fn parts(&self) -> Option<(TaskRef<'_>, Prio, CpuId)> {
        Some((task(self.comm.as_deref(), self.pid)?, prio_of(self.prio)?, cpu_of(self.target_cpu)?))
    }
}

#[derive(Clone, PartialEq, Message)]
struct NewTask {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "2")]
    comm: Option<String>,
    #[prost(uint64, optional, tag = "3")]
    clone_flags: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Rename {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "3")]
    newcomm: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Exit {
    #[prost(string, optional, tag = "1")]
    comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pid: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Fork {
    #[prost(string, optional, tag = "1")]
    parent_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    parent_pid: Option<i32>,
    #[prost(string, optional, tag = "3")]
    child_comm: Option<String>,
    #[prost(int32, optional, tag = "4")]
    child_pid: Option<i32>,
}

#[cfg(test)]
mod tests;

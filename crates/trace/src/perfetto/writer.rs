//! From records to packets. These are code and not derived from the table of events: one event can
//! begin or end slices of several tracks, and packets of the scheduler's are gathered per CPU.
//!
//! A reader sorts events by time, and events of one time stay in the order of the file: packet
//! after packet, and of one packet wakings, then messages, then compact switches. In a simulation
//! many events share a nanosecond: a CPU switches from a task, the task is moved, and another CPU
//! switches to it. Their order is kept by ending a packet early: before an event of a time at which
//! another CPU has events that are not written yet, and before one that a reader would take from
//! the same packet too early.
//!
//! A compact switch does not name the task that it leaves. It is written where a reader knows that
//! task and its priority: not as the first switch of a CPU, not after lost events, and not if the
//! priority has changed since the task was switched to.

use super::schema::{
    CompactSched, Data, FtraceEvent, FtraceEventBundle, FtracePayload, IrqEntry, IrqExit, Kind, Migrate, PiSetprio,
    Process, ProcessTree, ServiceEvent, Softirq, Switch, SystemInfo, Thread, Trace, TracePacket, Utsname, Wakeup,
};
use super::tracks::{self, ThreadName, Track, Tracks};
use crate::kernel::state::States;
use crate::meta::{Meta, Source};
use crate::table::IdTable;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;
use zerolag_model::attr::Prio;
use zerolag_model::event::Irq;
use zerolag_model::state::{Entity, Owner, StateHistory, TrackKey};
use zerolag_model::{
    CpuId, Duration, GroupId, Instant, Mark, Record, RequestStep, ServerKind, ServerState, TaskId, TraceEvent,
};

/// Writes a trace for the Perfetto viewer.
///
/// # Errors
/// The error of the output.
pub fn write(out: &mut impl Write, trace: &crate::container::Trace) -> io::Result<()> {
    let mut writer = PerfettoWriter::new(out, &trace.meta)?;
    for record in &trace.records {
        writer.push(record)?;
    }
    writer.finish(trace.meta.end)
}

/// Writes packets while records arrive.
#[derive(Debug)]
pub struct PerfettoWriter<W> {
    out: W,
    source: Source,
    /// The numbers of `prev_state` in the kernel that the file names: a reader goes by it.
    states: States,
    cpus: IdTable<CpuId, Bundle>,
    /// The CPU of the last event, and its time.
    last: (CpuId, Instant),
    tasks: IdTable<TaskId, Known>,
    /// The process of each task definition.
    processes: BTreeMap<Arc<str>, i32>,
    tracks: Tracks,
    /// Paths of groups.
    groups: BTreeMap<GroupId, Arc<str>>,
    /// The services of queues, and how many of their requests are open.
    services: BTreeMap<u32, (Arc<str>, i64)>,
    /// Slices of tracks that show one state at a time.
    open: BTreeSet<Track>,
    /// Whether the first packet was written, which tells the reader that it needs nothing before
    /// it.
    begun: bool,
    scratch: Vec<u8>,
}

/// Events of one CPU that are not written yet.
#[derive(Debug, Default)]
struct Bundle {
    sched: CompactSched,
    events: Vec<FtraceEvent>,
    /// Times of the last switch and the last waking in `sched`.
    last_switch: u64,
    last_waking: u64,
    /// The last of these events: its time, and its place in a packet.
    last: Option<(Instant, Place)>,
    /// Whether events are missing before these.
    lost_events: bool,
    /// Where events of this CPU are missing: the ends of gaps, the next one last.
    gaps: Vec<Instant>,
    /// Index of each task's name in the intern table.
    names: BTreeMap<Option<TaskId>, u32>,
    count: usize,
    current: Option<TaskId>,
    /// The priority that a reader knows of the current task; `None` if it does not know the task.
    known: Option<i32>,
}

/// The order in which a reader takes the events of one time from a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place {
    Waking,
    Message,
    Switch,
}

/// The known properties of a task.
#[derive(Debug, Default)]
struct Known {
    name: Option<Arc<str>>,
    tgid: i32,
    /// Its effective priority, once an event contains it.
    prio: Option<Prio>,
    /// Which slices of its track are open.
    in_phase: bool,
    waits_for_lock: bool,
}

impl<W: Write> PerfettoWriter<W> {
    /// Starts a file.
    ///
    /// # Errors
    /// The error of the output.
    pub fn new(out: W, meta: &Meta) -> io::Result<Self> {
        let mut writer = Self {
            out,
            source: meta.source,
            states: States::of_release(&release(&meta.kernel)).unwrap_or_default(),
            cpus: IdTable::default(),
            last: (CpuId(0), Instant::ZERO),
            tasks: IdTable::default(),
            processes: BTreeMap::new(),
            tracks: Tracks::default(),
            groups: BTreeMap::new(),
            services: BTreeMap::new(),
            open: BTreeSet::new(),
            begun: false,
            scratch: Vec::new(),
        };
        let cpus = u32::try_from(meta.machine.nr_cpus()).unwrap_or(u32::MAX);
        let system = SystemInfo {
            utsname: Some(Utsname {
                sysname: "Linux".to_owned(),
                version: format!("#1 SMP {}", meta.producer),
                release: release(&meta.kernel),
                machine: "x86_64".to_owned(),
            }),
            tracing_service_version: Some(meta.producer.clone()),
            num_cpus: Some(cpus),
        };
        writer.packet(None, Data::SystemInfo(system))?;
        for gap in meta.recorded.gaps.iter().rev() {
            writer.cpus.entry(gap.cpu).gaps.push(gap.until);
        }
        if meta.lost_events > 0 && meta.recorded.gaps.is_empty() {
            // Of unknown place: before the first event at the latest.
            (0..cpus).for_each(|cpu| writer.cpus.entry(CpuId(cpu)).lost_events = true);
        }
        let started = ServiceEvent { tracing_started: Some(true), tracing_disabled: None };
        writer.packet(Some(meta.start), Data::ServiceEvent(started))?;
        Ok(writer)
    }

    /// Writes a record, at the latest with [`finish`](Self::finish).
    ///
    /// # Errors
    /// The error of the output.
    #[expect(clippy::too_many_lines, reason = "one arm per event")]
    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        let (cpu, at) = (record.cpu, record.at.as_nanos());
        match &record.event {
            TraceEvent::TaskNew { task, name, parent, attr, .. } => {
                self.know(*task, Some(name), *parent)?;
                self.tasks.entry(*task).prio = Some(attr.prio());
            }
            TraceEvent::Switch { .. } => self.switch(record)?,
            TraceEvent::Waking { task, prio: urgency, target, .. } => {
                self.saw(*task, *urgency)?;
                self.begin(cpu, record.at, Place::Waking)?;
                let bundle = self.cpus.entry(cpu);
                let index = bundle.name(&self.tasks, Some(*task), cpu);
                bundle.sched.waking_timestamp.push(at.saturating_sub(bundle.last_waking));
                bundle.sched.waking_pid.push(tid(Some(*task)));
                bundle.sched.waking_target_cpu.push(i32::try_from(target.0).unwrap_or(i32::MAX));
                bundle.sched.waking_prio.push(prio(*urgency));
                bundle.sched.waking_comm_index.push(index);
                bundle.sched.waking_common_flags.push(1);
                bundle.last_waking = at;
                self.count(cpu)?;
            }
            TraceEvent::Wakeup { task, prio: urgency } => {
                self.saw(*task, *urgency)?;
                let event = Wakeup {
                    comm: Some(self.name_of(Some(*task), cpu)),
                    pid: Some(tid(Some(*task))),
                    prio: Some(prio(*urgency)),
                    target_cpu: Some(i32::try_from(cpu.0).unwrap_or(i32::MAX)),
                };
                self.message(record, FtracePayload::Wakeup(event))?;
            }
            TraceEvent::AttrChange { task, attr } => self.tasks.entry(*task).prio = Some(attr.prio()),
            TraceEvent::Migrate { task, prio: urgency, from, to, .. } => {
                self.saw(*task, *urgency)?;
                let event = Migrate {
                    comm: Some(self.name_of(Some(*task), cpu)),
                    pid: Some(tid(Some(*task))),
                    prio: Some(prio(*urgency)),
                    orig_cpu: Some(i32::try_from(from.0).unwrap_or(i32::MAX)),
                    dest_cpu: Some(i32::try_from(to.0).unwrap_or(i32::MAX)),
                };
                self.message(record, FtracePayload::Migrate(event))?;
            }
            TraceEvent::PrioInherit { task, from, to } => {
                self.saw(*task, *to)?;
                let event = PiSetprio {
                    comm: Some(self.name_of(Some(*task), cpu)),
                    newprio: Some(prio(*to)),
                    oldprio: Some(prio(*from)),
                    pid: Some(tid(Some(*task))),
                };
                self.message(record, FtracePayload::PiSetprio(event))?;
            }
            TraceEvent::IrqEnter { irq } => self.message(record, irq_entry(*irq))?,
            TraceEvent::IrqExit { irq } => self.message(record, irq_exit(*irq))?,
            TraceEvent::RtOverload { overloaded } => {
                self.count_on(record, Track::RtOverload(cpu), i64::from(*overloaded))?;
            }
            TraceEvent::LockContended { rq } => {
                self.on_track(record, Track::RqLock(cpu), Kind::SliceBegin, Some(format!("run queue {rq}")))?;
            }
            TraceEvent::LockAcquired { .. } => self.on_track(record, Track::RqLock(cpu), Kind::SliceEnd, None)?,
            TraceEvent::WaitLock { task, lock, holder } => {
                self.meet(Some(*task))?;
                let holder = holder.map(|holder| format!(" of {}", self.name_of(Some(holder), cpu)));
                let name = format!("waits for lock {lock}{}", holder.unwrap_or_default());
                if !core::mem::replace(&mut self.tasks.entry(*task).waits_for_lock, true) {
                    self.on_track(record, Track::Thread(*task), Kind::SliceBegin, Some(name))?;
                }
            }
            TraceEvent::DlThrottle { task, until, .. } => {
                self.meet(Some(*task))?;
                self.on_track(record, Track::Thread(*task), Kind::Instant, Some(format!("throttled until {until}")))?;
            }
            TraceEvent::DlReplenish { task, deadline, budget } => {
                self.meet(Some(*task))?;
                let name = format!("{budget} until {deadline}");
                self.on_track(record, Track::Thread(*task), Kind::Instant, Some(name))?;
            }
            TraceEvent::DlOverrun { task } => {
                self.meet(Some(*task))?;
                self.on_track(record, Track::Thread(*task), Kind::Instant, Some("SIGXCPU".to_owned()))?;
            }
            TraceEvent::TakeLock { task, .. } => self.end_lock_wait(record, *task)?,
            TraceEvent::GroupNew { group, path, .. } => {
                self.groups.insert(*group, Arc::clone(path));
            }
            TraceEvent::GroupGone { group } => {
                let cpus: Vec<CpuId> = self.cpus.iter().map(|(cpu, _)| cpu).collect();
                for cpu in cpus {
                    self.state_of(record, Track::Throttled(cpu, *group), None)?;
                }
                self.groups.remove(group);
            }
            TraceEvent::GroupMax { group, max } => {
                let quota = max.quota.map_or(0, |quota| quota.as_micros_floor());
                self.count_on(record, Track::Pool(*group), i64::try_from(quota).unwrap_or(i64::MAX))?;
            }
            TraceEvent::BandwidthRefresh { group, runtime, .. } => {
                let runtime = i64::try_from(runtime.as_micros_floor()).unwrap_or(i64::MAX);
                self.count_on(record, Track::Pool(*group), runtime)?;
            }
            TraceEvent::QueueNew { queue, name } => {
                self.services.insert(*queue, (Arc::clone(name), 0));
            }
            TraceEvent::Request { queue, request, step } => self.request(record, *queue, *request, *step)?,
            TraceEvent::Throttle { group } => {
                // A throttled CPU has found the pool empty.
                self.count_on(record, Track::Pool(*group), 0)?;
                self.state_of(record, Track::Throttled(cpu, *group), Some("throttled".to_owned()))?;
            }
            TraceEvent::Unthrottle { group } => self.state_of(record, Track::Throttled(cpu, *group), None)?,
            TraceEvent::RtThrottle { throttled } => {
                self.state_of(record, Track::RtThrottled(cpu), throttled.then(|| "throttled".to_owned()))?;
            }
            TraceEvent::RtGroupThrottle { group, throttled } => {
                let state = throttled.then(|| "throttled".to_owned());
                self.state_of(record, Track::RtThrottledGroup(cpu, *group), state)?;
            }
            TraceEvent::Server { kind: kind @ (ServerKind::Fair | ServerKind::Ext), state } => {
                let name = match state {
                    ServerState::Stopped => None,
                    ServerState::Deferred { .. } => Some("deferred"),
                    ServerState::Queued { .. } => Some("queued"),
                    ServerState::Throttled { .. } => Some("throttled"),
                };
                let track = if *kind == ServerKind::Fair { Track::FairServer(cpu) } else { Track::ExtServer(cpu) };
                self.state_of(record, track, name.map(str::to_owned))?;
            }
            TraceEvent::Mark { task, mark } => self.mark(record, *task, *mark)?,
            TraceEvent::TaskExit { task } => {
                self.end_lock_wait(record, *task)?;
                self.end_phase(record, *task)?;
            }
            // The viewer has no track for these, or they follow from others.
            TraceEvent::Affinity { .. }
            | TraceEvent::RootDomain { .. }
            | TraceEvent::Hotplug { .. }
            | TraceEvent::GroupWeight { .. }
            | TraceEvent::RtGroup { .. }
            | TraceEvent::NeedResched { .. }
            | TraceEvent::IpiSend { .. }
            | TraceEvent::DropLock { .. }
            | TraceEvent::TaskThrottle { .. }
            | TraceEvent::Boost { .. }
            | TraceEvent::Proxy { .. }
            | TraceEvent::Syscall { .. }
            | TraceEvent::NoPreempt { .. }
            | TraceEvent::Rcu { .. }
            | TraceEvent::GroupChange { .. }
            | TraceEvent::GroupTotals { .. }
            | TraceEvent::CpuTotals { .. }
            | TraceEvent::ServerParams { .. }
            | TraceEvent::TaskTotals { .. } => {}
        }
        Ok(())
    }

    /// Adds a track with the reasons of a task's wait: consecutive slices, each from its time on,
    /// the last up to `to`. Called after all records, with the waits of one task in order of time.
    ///
    /// # Errors
    /// The error of the output.
    pub fn reasons(&mut self, task: TaskId, steps: &[(Instant, String)], to: Instant) -> io::Result<()> {
        self.meet(Some(task))?;
        let track = Track::Reasons(task);
        self.describe(track)?;
        let ends = steps.iter().skip(1).map(|(at, _)| *at).chain([to]);
        for ((from, says), end) in steps.iter().zip(ends) {
            self.packet(Some(*from), tracks::event(track, Kind::SliceBegin, Some(says.clone())))?;
            self.packet(Some(end), tracks::event(track, Kind::SliceEnd, None))?;
        }
        Ok(())
    }

    /// Adds the scheduler's own numbers, a counter each: lag, virtual deadlines, quota, budgets. A
    /// counter of what is not queued is 0. Called after all records.
    ///
    /// # Errors
    /// The error of the output.
    pub fn state(&mut self, history: &StateHistory) -> io::Result<()> {
        for (place, track) in (0_u32..).zip(&history.tracks) {
            let counter = match track.key.quantity.unit() {
                "" => Track::StateCount(place),
                _ => Track::StateTime(place),
            };
            let name = self.name_of_state(track.key);
            if let Some(description) = self.tracks.describe(counter, None, &name) {
                self.packet(None, description)?;
            }
            for (at, value) in &track.points {
                self.packet(Some(*at), tracks::counter(counter, value.unwrap_or(0)))?;
            }
        }
        Ok(())
    }

    /// Returns the name of a counter: `CPU 0 lag of short`.
    fn name_of_state(&self, key: TrackKey) -> String {
        let group = |group: GroupId| self.groups.get(&group).map_or_else(|| "/".to_owned(), |path| path.to_string());
        let task = |task: TaskId| self.name_of(Some(task), CpuId(0));
        let owner = match key.owner {
            Owner::Fair(_, Entity::Task(id)) | Owner::Task(id) => format!(" of {}", task(id)),
            Owner::Fair(_, Entity::Group(id)) | Owner::Group(id) => format!(" of {}", group(id)),
            Owner::Server(kind) => format!(" of {}", kind.name()),
            Owner::Cpu => String::new(),
        };
        let cpu = key.cpu.map_or_else(|| "pool".to_owned(), |cpu| format!("CPU {cpu}"));
        format!("{cpu} {}{owner}", key.quantity.name())
    }

    /// Ends the file of a run that ended then.
    ///
    /// # Errors
    /// The error of the output.
    pub fn finish(mut self, end: Instant) -> io::Result<()> {
        let cpus: Vec<CpuId> = self.cpus.iter().map(|(cpu, _)| cpu).collect();
        for cpu in cpus {
            self.flush_cpu(cpu)?;
        }
        let ended = ServiceEvent { tracing_started: None, tracing_disabled: Some(true) };
        self.packet(Some(end), Data::ServiceEvent(ended))?;
        self.out.flush()
    }

    /// For a track that shows one state at a time: ends the open slice and begins another, if there
    /// is one.
    fn state_of(&mut self, record: &Record, track: Track, name: Option<String>) -> io::Result<()> {
        if self.open.remove(&track) {
            self.on_track(record, track, Kind::SliceEnd, None)?;
        }
        if name.is_some() {
            self.open.insert(track);
            self.on_track(record, track, Kind::SliceBegin, name)?;
        }
        Ok(())
    }

    /// Updates the counter of a service's open requests, and the track of the worker with the
    /// requests that it handles.
    fn request(&mut self, record: &Record, queue: u32, request: u64, step: RequestStep) -> io::Result<()> {
        let by = match step {
            RequestStep::Arrive { .. } => 1,
            RequestStep::Drop | RequestStep::End { .. } => -1,
            RequestStep::Start { .. } => 0,
        };
        let (name, open) = self.services.entry(queue).or_insert_with(|| (format!("queue {queue}").into(), 0));
        *open = open.saturating_add(by);
        let (says, open) = (format!("{name} {request}"), *open);
        if by != 0 {
            self.count_on(record, Track::Requests(queue), open)?;
        }
        match step {
            RequestStep::Start { task } => {
                self.meet(Some(task))?;
                self.state_of(record, Track::Worker(task), Some(says))
            }
            RequestStep::End { task } => self.state_of(record, Track::Worker(task), None),
            RequestStep::Arrive { .. } | RequestStep::Drop => Ok(()),
        }
    }

    fn count_on(&mut self, record: &Record, track: Track, value: i64) -> io::Result<()> {
        self.describe(track)?;
        self.packet(Some(record.at), tracks::counter(track, value))
    }

    fn mark(&mut self, record: &Record, task: TaskId, mark: Mark) -> io::Result<()> {
        self.meet(Some(task))?;
        let track = Track::Thread(task);
        match mark {
            Mark::Phase { phase, .. } => {
                self.end_phase(record, task)?;
                self.tasks.entry(task).in_phase = true;
                self.on_track(record, track, Kind::SliceBegin, Some(format!("phase {phase}")))
            }
            Mark::TurnEnd { .. } => self.end_phase(record, task),
            Mark::TimerDue { slack, .. } if slack.is_negative() => self.on_track(
                record,
                track,
                Kind::Instant,
                Some(format!("timer missed by {}", Duration::from_nanos(slack.as_nanos().unsigned_abs()))),
            ),
            Mark::TimerDue { .. } => Ok(()),
            Mark::Stamp { label, .. } => self.on_track(record, track, Kind::Instant, Some(format!("stamp {label}"))),
        }
    }

    fn end_phase(&mut self, record: &Record, task: TaskId) -> io::Result<()> {
        if core::mem::take(&mut self.tasks.entry(task).in_phase) {
            self.on_track(record, Track::Thread(task), Kind::SliceEnd, None)?;
        }
        Ok(())
    }

    fn end_lock_wait(&mut self, record: &Record, task: TaskId) -> io::Result<()> {
        if core::mem::take(&mut self.tasks.entry(task).waits_for_lock) {
            self.on_track(record, Track::Thread(task), Kind::SliceEnd, None)?;
        }
        Ok(())
    }

    fn describe(&mut self, track: Track) -> io::Result<()> {
        let thread = match track {
            Track::Thread(task) => Some(ThreadName { tid: tid(Some(task)), tgid: self.tasks.entry(task).tgid }),
            Track::RqLock(_)
            | Track::RtOverload(_)
            | Track::RtThrottled(_)
            | Track::Throttled(..)
            | Track::RtThrottledGroup(..)
            | Track::Pool(_)
            | Track::Requests(_)
            | Track::Worker(_)
            | Track::Reasons(_)
            | Track::FairServer(_)
            | Track::StateTime(_)
            | Track::StateCount(_)
            | Track::ExtServer(_) => None,
        };
        let whose = match track {
            Track::Throttled(_, group) | Track::RtThrottledGroup(_, group) | Track::Pool(group) => {
                self.groups.get(&group).map_or_else(|| "a group".to_owned(), |path| path.to_string())
            }
            Track::Requests(queue) => self.services.get(&queue).map(|(name, _)| name.to_string()).unwrap_or_default(),
            Track::Worker(task) | Track::Reasons(task) => self.name_of(Some(task), CpuId(0)),
            _ => String::new(),
        };
        match self.tracks.describe(track, thread.as_ref(), &whose) {
            Some(description) => self.packet(None, description),
            None => Ok(()),
        }
    }

    fn on_track(&mut self, record: &Record, track: Track, kind: Kind, name: Option<String>) -> io::Result<()> {
        self.describe(track)?;
        self.packet(Some(record.at), tracks::event(track, kind, name))
    }

    /// Queues a switch: compact if a reader knows the task that it leaves, and its priority.
    fn switch(&mut self, record: &Record) -> io::Result<()> {
        let TraceEvent::Switch { prev_state, next, next_prio, prev } = &record.event else { return Ok(()) };
        let (cpu, at) = (record.cpu, record.at.as_nanos());
        self.meet(*prev)?;
        self.meet(*next)?;
        let next_prio = next.map(|_| *next_prio);
        let number = i64::try_from(self.states.number(*prev_state)).unwrap_or(i64::MAX);
        let (left, urgency) = (self.prio_of(*prev), next_prio.map_or(IDLE_PRIO, prio));
        // This can begin a packet, and then nothing is known.
        self.begin(cpu, record.at, Place::Switch)?;
        if self.cpus.entry(cpu).known == Some(left) && self.cpus.entry(cpu).current == *prev {
            let bundle = self.cpus.entry(cpu);
            let index = bundle.name(&self.tasks, *next, cpu);
            bundle.sched.switch_timestamp.push(at.saturating_sub(bundle.last_switch));
            bundle.sched.switch_prev_state.push(number);
            bundle.sched.switch_next_pid.push(tid(*next));
            bundle.sched.switch_next_prio.push(urgency);
            bundle.sched.switch_next_comm_index.push(index);
            bundle.last_switch = at;
            self.count(cpu)?;
        } else {
            let event = Switch {
                prev_comm: Some(self.name_of(*prev, cpu)),
                prev_pid: Some(tid(*prev)),
                prev_prio: Some(left),
                prev_state: Some(number),
                next_comm: Some(self.name_of(*next, cpu)),
                next_pid: Some(tid(*next)),
                next_prio: Some(urgency),
            };
            self.message(record, FtracePayload::Switch(event))?;
        }
        let bundle = self.cpus.entry(cpu);
        (bundle.current, bundle.known) = (*next, Some(urgency));
        if let (Some(next), Some(prio)) = (*next, next_prio) {
            self.tasks.entry(next).prio = Some(prio);
        }
        Ok(())
    }

    /// Returns the priority of a task, as far as it is known.
    fn prio_of(&self, task: Option<TaskId>) -> i32 {
        let known = task.and_then(|task| self.tasks.get(task)).and_then(|known| known.prio);
        known.map_or(IDLE_PRIO, prio)
    }

    /// Queues an event that has no place in the compact arrays.
    fn message(&mut self, record: &Record, what: FtracePayload) -> io::Result<()> {
        self.begin(record.cpu, record.at, Place::Message)?;
        let bundle = self.cpus.entry(record.cpu);
        let pid = u32::try_from(tid(bundle.current)).unwrap_or(0);
        bundle.events.push(FtraceEvent { timestamp: Some(record.at.as_nanos()), pid: Some(pid), what: Some(what) });
        self.count(record.cpu)
    }

    /// Makes room for an event of a CPU: ends packets so that a reader keeps the order of events of
    /// one time.
    fn begin(&mut self, cpu: CpuId, at: Instant, place: Place) -> io::Result<()> {
        let (other, then) = core::mem::replace(&mut self.last, (cpu, at));
        if other != cpu && then == at {
            self.flush_cpu(other)?;
        }
        let bundle = self.cpus.entry(cpu);
        let is_late = bundle.last.is_some_and(|(then, last)| then == at && last > place);
        let follows_gap = bundle.gaps.last().is_some_and(|until| *until <= at);
        if is_late || follows_gap {
            self.flush_cpu(cpu)?;
        }
        let bundle = self.cpus.entry(cpu);
        while bundle.gaps.pop_if(|until| *until <= at).is_some() {
            bundle.lost_events = true;
        }
        if bundle.lost_events {
            bundle.known = None;
        }
        bundle.last = Some((at, place));
        Ok(())
    }

    /// Notes the priority of a task that an event is of.
    fn saw(&mut self, task: TaskId, prio: Prio) -> io::Result<()> {
        self.meet(Some(task))?;
        self.tasks.entry(task).prio = Some(prio);
        Ok(())
    }

    /// Ensures that a task is in the process tree. A recorded trace can begin in the middle and
    /// never contain its name.
    fn meet(&mut self, task: Option<TaskId>) -> io::Result<()> {
        match task {
            Some(task) if self.tasks.entry(task).tgid == 0 => self.know(task, None, None),
            Some(_) | None => Ok(()),
        }
    }

    fn know(&mut self, task: TaskId, name: Option<&Arc<str>>, parent: Option<TaskId>) -> io::Result<()> {
        let pid = tid(Some(task));
        let name: Arc<str> = name.map_or_else(|| "<...>".into(), Arc::clone);
        let mut tree = ProcessTree::default();
        let tgid = match self.definition(&name) {
            Some(definition) => *self.processes.entry(definition).or_insert(pid),
            None => pid,
        };
        if tgid == pid {
            let process = self.definition(&name).unwrap_or_else(|| Arc::clone(&name));
            tree.processes.push(Process { pid, ppid: tid(parent), cmdline: vec![process.to_string()] });
        }
        tree.threads.push(Thread { tid: pid, name: name.to_string(), tgid });
        let known = self.tasks.entry(task);
        known.name = Some(name);
        known.tgid = tgid;
        self.packet(None, Data::ProcessTree(tree))
    }

    /// Returns the definition that a simulated task is an instance of: `worker` of `worker-3`.
    fn definition(&self, name: &Arc<str>) -> Option<Arc<str>> {
        if self.source != Source::Simulation {
            return None;
        }
        let (definition, instance) = name.rsplit_once('-')?;
        instance.bytes().all(|byte| byte.is_ascii_digit()).then(|| definition.into())
    }

    fn name_of(&self, task: Option<TaskId>, cpu: CpuId) -> String {
        name_of(&self.tasks, task, cpu)
    }

    fn count(&mut self, cpu: CpuId) -> io::Result<()> {
        let bundle = self.cpus.entry(cpu);
        bundle.count += 1;
        if bundle.count >= BUNDLE_MAX { self.flush_cpu(cpu) } else { Ok(()) }
    }

    /// Writes the pending events of a CPU.
    fn flush_cpu(&mut self, cpu: CpuId) -> io::Result<()> {
        let bundle = self.cpus.entry(cpu);
        if bundle.count == 0 {
            return Ok(());
        }
        bundle.count = 0;
        (bundle.last_switch, bundle.last_waking, bundle.last) = (0, 0, None);
        bundle.names.clear();
        let sched = core::mem::take(&mut bundle.sched);
        let events = FtraceEventBundle {
            cpu: Some(cpu.0),
            event: core::mem::take(&mut bundle.events),
            lost_events: core::mem::take(&mut bundle.lost_events).then_some(true),
            compact_sched: (!sched.intern_table.is_empty()).then_some(sched),
        };
        self.packet(None, Data::FtraceEvents(events))
    }

    fn packet(&mut self, at: Option<Instant>, data: Data) -> io::Result<()> {
        let packet = TracePacket {
            timestamp: at.map(Instant::as_nanos),
            trusted_packet_sequence_id: 1,
            // SEQ_INCREMENTAL_STATE_CLEARED
            sequence_flags: (!core::mem::replace(&mut self.begun, true)).then_some(1),
            data: Some(data),
        };
        self.scratch.clear();
        Trace { packet: vec![packet] }
            .encode(&mut self.scratch)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.out.write_all(&self.scratch)
    }
}

impl Bundle {
    /// Returns the index of a task's name in this bundle's table.
    fn name(&mut self, tasks: &IdTable<TaskId, Known>, task: Option<TaskId>, cpu: CpuId) -> u32 {
        let table = &mut self.sched.intern_table;
        *self.names.entry(task).or_insert_with(|| {
            table.push(name_of(tasks, task, cpu));
            u32::try_from(table.len() - 1).expect("invariant: a bundle has few events")
        })
    }
}

fn name_of(tasks: &IdTable<TaskId, Known>, task: Option<TaskId>, cpu: CpuId) -> String {
    match task {
        None => format!("swapper/{cpu}"),
        Some(task) => {
            let name = tasks.get(task).and_then(|known| known.name.as_deref());
            name.unwrap_or("<...>").to_owned()
        }
    }
}

/// Returns the process id of a task. Hostile ids end at the largest one.
fn tid(task: Option<TaskId>) -> i32 {
    task.map_or(0, |task| i32::try_from(u64::from(task.0) + PID_OFFSET).unwrap_or(i32::MAX))
}

fn prio(prio: Prio) -> i32 {
    i32::from(prio.kernel())
}

fn irq_entry(irq: Irq) -> FtracePayload {
    match irq {
        Irq::Softirq => FtracePayload::SoftirqEntry(Softirq { vec: Some(TIMER_SOFTIRQ) }),
        Irq::Tick | Irq::Timer | Irq::Ipi | Irq::Device | Irq::Hardware | Irq::Nmi | Irq::Stolen => {
            let (number, name) = irq_of(irq);
            FtracePayload::IrqEntry(IrqEntry { irq: Some(number), name: Some(name.to_owned()) })
        }
    }
}

fn irq_exit(irq: Irq) -> FtracePayload {
    match irq {
        Irq::Softirq => FtracePayload::SoftirqExit(Softirq { vec: Some(TIMER_SOFTIRQ) }),
        Irq::Tick | Irq::Timer | Irq::Ipi | Irq::Device | Irq::Hardware | Irq::Nmi | Irq::Stolen => {
            FtracePayload::IrqExit(IrqExit { irq: Some(irq_of(irq).0), ret: Some(1) })
        }
    }
}

/// The vector on x86, and its name in the viewer.
const fn irq_of(irq: Irq) -> (i32, &'static str) {
    match irq {
        Irq::Tick => (236, "tick"),
        Irq::Timer => (236, "timer"),
        Irq::Ipi => (253, "IPI"),
        Irq::Device => (24, "device"),
        Irq::Hardware => (2, "hardware"),
        Irq::Nmi => (2, "NMI"),
        Irq::Stolen => (2, "stolen"),
        Irq::Softirq => (1, "softirq"),
    }
}

/// Returns the kernel's release in the format of `uname -r`: presets have `6.12`.
fn release(kernel: &str) -> String {
    match kernel.split('.').count() {
        _ if kernel.is_empty() => "6.12.0".to_owned(),
        2 => format!("{kernel}.0"),
        _ => kernel.to_owned(),
    }
}

/// Events of one CPU that make a packet.
const BUNDLE_MAX: usize = 4_096;
/// Process ids start here: 0 belongs to the idle task.
const PID_OFFSET: u64 = 1_000;
/// The idle task has priority 120 in the kernel's trace points.
const IDLE_PRIO: i32 = 120;
const TIMER_SOFTIRQ: u32 = 1;

//! Tracks of the viewer besides those of the scheduler: slices, instants and counters of CPUs and
//! threads.
//!
//! A track is described once, before its first event. Slices of one track nest: the one that began
//! last ends first.

use super::schema::{CounterDescriptor, Data, Kind, ThreadDescriptor, TrackDescriptor, TrackEvent, Unit};
use std::collections::BTreeSet;
use zerolag_model::{CpuId, GroupId, TaskId};

/// A track of ours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Track {
    /// The activity of a thread.
    Thread(TaskId),
    /// A CPU spins for the lock of a run queue.
    RqLock(CpuId),
    /// Whether a CPU is RT-overloaded.
    RtOverload(CpuId),
    /// Real-time tasks of a CPU are throttled.
    RtThrottled(CpuId),
    /// A group is throttled on a CPU.
    Throttled(CpuId, GroupId),
    /// The real-time tasks of a group are throttled on a CPU.
    RtThrottledGroup(CpuId, GroupId),
    /// The state of the server of a CPU's fair class.
    FairServer(CpuId),
    /// The pool of a limited group, at the start of a period and when it is empty; in microseconds.
    Pool(GroupId),
    /// The number of requests of a queue that have arrived and are not done.
    Requests(u32),
    /// The request that a worker handles.
    Worker(TaskId),
    /// Why a task waits.
    Reasons(TaskId),
    /// The state of the server of a CPU's tasks of a loaded scheduler.
    ExtServer(CpuId),
    /// A number of the scheduler's own state, by its place in the history; in nanoseconds.
    StateTime(u32),
    /// The same, a count.
    StateCount(u32),
}

impl Track {
    /// The number of the track in the file.
    fn uuid(self) -> u64 {
        let (kind, number) = match self {
            Self::Thread(task) => (1, u64::from(task.0)),
            Self::RqLock(cpu) => (2, u64::from(cpu.0)),
            Self::RtOverload(cpu) => (3, u64::from(cpu.0)),
            Self::RtThrottled(cpu) => (4, u64::from(cpu.0)),
            Self::FairServer(cpu) => (5, u64::from(cpu.0)),
            Self::Pool(group) => (7, u64::from(group.0)),
            Self::Requests(queue) => (8, u64::from(queue)),
            Self::Worker(task) => (9, u64::from(task.0)),
            Self::Reasons(task) => (10, u64::from(task.0)),
            Self::ExtServer(cpu) => (11, u64::from(cpu.0)),
            Self::StateTime(place) => (13, u64::from(place)),
            Self::StateCount(place) => (14, u64::from(place)),
            // A CPU number has 16 bits: there are at most 4096 CPUs.
            Self::Throttled(cpu, group) => (6, u64::from(group.0) << 16 | u64::from(cpu.0 & 0xffff)),
            Self::RtThrottledGroup(cpu, group) => (12, u64::from(group.0) << 16 | u64::from(cpu.0 & 0xffff)),
        };
        kind << 56 | number
    }
}

/// The name of a thread in the file.
#[derive(Clone, Debug)]
pub(super) struct ThreadName {
    pub(super) tid: i32,
    pub(super) tgid: i32,
}

/// The tracks that have been described.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    described: BTreeSet<Track>,
}

impl Tracks {
    /// Returns the description of a track if it was not written yet.
    pub(super) fn describe(&mut self, track: Track, thread: Option<&ThreadName>, whose: &str) -> Option<Data> {
        if !self.described.insert(track) {
            return None;
        }
        let mut description = TrackDescriptor { uuid: Some(track.uuid()), ..TrackDescriptor::default() };
        match track {
            Track::Thread(_) => {
                description.thread = thread.map(|thread| ThreadDescriptor {
                    pid: Some(thread.tgid),
                    tid: Some(i64::from(thread.tid)),
                    thread_name: None,
                });
            }
            Track::RqLock(cpu) => description.name = Some(format!("CPU {cpu} waits for run queue lock")),
            Track::RtThrottled(cpu) => description.name = Some(format!("CPU {cpu} RT throttled")),
            Track::Throttled(cpu, _) => description.name = Some(format!("CPU {cpu} throttled {whose}")),
            Track::RtThrottledGroup(cpu, _) => description.name = Some(format!("CPU {cpu} RT throttled {whose}")),
            Track::FairServer(cpu) => description.name = Some(format!("CPU {cpu} fair server")),
            Track::ExtServer(cpu) => description.name = Some(format!("CPU {cpu} ext server")),
            Track::Worker(_) => description.name = Some(format!("{whose} requests")),
            Track::Reasons(_) => description.name = Some(format!("why {whose} waits")),
            Track::Pool(_) => {
                description.name = Some(format!("{whose} pool, us"));
                description.counter = Some(CounterDescriptor { unit: Some(Unit::Count as i32) });
            }
            Track::StateTime(_) => {
                description.name = Some(whose.to_owned());
                description.counter = Some(CounterDescriptor { unit: Some(Unit::TimeNs as i32) });
            }
            Track::StateCount(_) => {
                description.name = Some(whose.to_owned());
                description.counter = Some(CounterDescriptor { unit: Some(Unit::Count as i32) });
            }
            Track::Requests(_) => {
                description.name = Some(format!("{whose} open requests"));
                description.counter = Some(CounterDescriptor { unit: Some(Unit::Count as i32) });
            }
            Track::RtOverload(cpu) => {
                description.name = Some(format!("CPU {cpu} RT overload"));
                description.counter = Some(CounterDescriptor { unit: Some(Unit::Count as i32) });
            }
        }
        Some(Data::TrackDescriptor(description))
    }
}

/// Returns an event of a track.
pub(super) fn event(track: Track, kind: Kind, name: Option<String>) -> Data {
    Data::TrackEvent(TrackEvent {
        kind: kind as i32,
        track_uuid: Some(track.uuid()),
        categories: Vec::new(),
        name,
        counter_value: None,
    })
}

/// Returns a counter's new value.
pub(super) fn counter(track: Track, value: i64) -> Data {
    Data::TrackEvent(TrackEvent {
        kind: Kind::Counter as i32,
        track_uuid: Some(track.uuid()),
        categories: Vec::new(),
        name: None,
        counter_value: Some(value),
    })
}

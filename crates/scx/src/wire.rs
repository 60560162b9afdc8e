//! Events, decisions and settings as bytes: the layout of `bpf/shared.h`.

use std::ops::Range;

/// The words of a mask.
pub(crate) const MASK_WORDS: usize = 4;
/// The most CPUs of a machine.
pub(crate) const MAX_CPUS: usize = 64 * MASK_WORDS;

/// The size of an event.
pub(crate) const EVENT_SIZE: usize = 96;
/// The size of what the kernel's half leaves behind.
const REPORT_SIZE: usize = 336;

/// What has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A task is in the queue; it wants an answer if its weight is 1.
    Enqueue,
    /// A CPU has nothing to run but the task `pid`, if that is one; it wants an answer.
    Dispatch,
    Runnable,
    Running,
    /// A task stops running and can run on.
    Stopping,
    Quiescent,
    Weight,
    Cpumask,
    Add,
    Remove,
    Group,
    GroupLimit,
    GroupExit,
    Move,
    Rename,
    Exit,
}

const KINDS: [Kind; 16] = [
    Kind::Enqueue,
    Kind::Dispatch,
    Kind::Runnable,
    Kind::Running,
    Kind::Stopping,
    Kind::Quiescent,
    Kind::Weight,
    Kind::Cpumask,
    Kind::Add,
    Kind::Remove,
    Kind::Group,
    Kind::GroupLimit,
    Kind::GroupExit,
    Kind::Move,
    Kind::Rename,
    Kind::Exit,
];

/// An event of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) at: u64,
    /// Flags, the period of a limit, or the group above a group.
    pub(crate) a: u64,
    /// The slice that is left, or the quota of a limit.
    pub(crate) b: u64,
    /// A group by its number in cgroup v2.
    pub(crate) group: u64,
    pub(crate) mask: [u64; MASK_WORDS],
    pub(crate) kind: Kind,
    pub(crate) pid: u32,
    pub(crate) cpu: u32,
    pub(crate) weight: u32,
    pub(crate) comm: [u8; 16],
}

fn bytes<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&data[at..at + N]);
    part
}

fn long(data: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes(data, at))
}

fn word(data: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes(data, at))
}

/// Returns the text before the first zero.
pub(crate) fn text(data: &[u8]) -> String {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    String::from_utf8_lossy(&data[..end]).into_owned()
}

impl Event {
    /// Reads an event; `None` if its size or its kind is unknown.
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        if data.len() != EVENT_SIZE {
            return None;
        }
        let kind = *KINDS.get((word(data, 64) as usize).checked_sub(1)?)?;
        let (pid, cpu, weight) = (word(data, 68), word(data, 72), word(data, 76));
        let mask = std::array::from_fn(|index| long(data, 32 + 8 * index));
        let (at, a, b, group) = (long(data, 0), long(data, 8), long(data, 16), long(data, 24));
        Some(Self { at, a, b, group, mask, kind, pid, cpu, weight, comm: bytes(data, 80) })
    }
}

/// What the kernel's half is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// Nothing: the events have been read.
    None,
    /// Move a task from the queue to the local queue of a CPU, with `SCX_ENQ_*`.
    Move { pid: u32, cpu: u32, slice: u64, flags: u64 },
    /// Kick a CPU, with `SCX_KICK_*`.
    Kick { cpu: u32, flags: u64 },
    /// Set the slice of a task that runs.
    Slice { pid: u32, slice: u64 },
    /// Enqueue the tasks of the local queue of a CPU again.
    Requeue { cpu: u32 },
}

impl Decision {
    /// Returns its bytes, with the number of events read so far that want an answer.
    pub(crate) fn write(self, answered: u64) -> [u8; 40] {
        let (kind, pid, cpu, slice, flags): (u32, u32, u32, u64, u64) = match self {
            Self::None => (0, 0, 0, 0, 0),
            Self::Move { pid, cpu, slice, flags } => (1, pid, cpu, slice, flags),
            Self::Kick { cpu, flags } => (2, 0, cpu, 0, flags),
            Self::Slice { pid, slice } => (3, pid, 0, slice, 0),
            Self::Requeue { cpu } => (4, 0, cpu, 0, 0),
        };
        let mut data = [0; 40];
        let mut put = |range: Range<usize>, part: &[u8]| data[range].copy_from_slice(part);
        put(0..8, &answered.to_ne_bytes());
        put(8..16, &slice.to_ne_bytes());
        put(16..24, &flags.to_ne_bytes());
        put(24..28, &kind.to_ne_bytes());
        put(28..32, &pid.to_ne_bytes());
        put(32..36, &cpu.to_ne_bytes());
        data
    }
}

/// What came of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Done,
    /// The task is not in the queue (yet): its event is older than its insertion.
    Absent,
    /// The task must not run there any more; the event of that is on its way.
    Forbidden,
}

impl Outcome {
    pub(crate) const fn of(result: u32) -> Self {
        match result {
            0 => Self::Done,
            2 => Self::Forbidden,
            _ => Self::Absent,
        }
    }
}

/// Settings of the kernel's half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) slice_ns: u64,
    pub(crate) late_ns: u64,
    pub(crate) timeout_ns: u64,
    pub(crate) nr_cpus: u32,
    pub(crate) direct: bool,
    pub(crate) patient: bool,
    pub(crate) alone: bool,
}

impl Config {
    pub(crate) fn write(self) -> Vec<u8> {
        let longs = [self.slice_ns, self.late_ns, self.timeout_ns];
        let words = [self.nr_cpus, u32::from(self.direct), u32::from(self.patient), u32::from(self.alone)];
        let longs = longs.into_iter().flat_map(u64::to_ne_bytes);
        longs.chain(words.into_iter().flat_map(u32::to_ne_bytes)).collect()
    }
}

/// What the kernel's half leaves behind: why it was unloaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    /// How often CPUs had to help themselves.
    pub(crate) nr_late: u64,
    /// `scx_exit_kind`; 0 while it is loaded.
    pub(crate) kind: u32,
    pub(crate) reason: String,
    pub(crate) msg: String,
}

impl Report {
    /// The kernel's `SCX_EXIT_UNREG`: user space has unloaded it.
    const UNREG: u32 = 64;

    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        if data.len() != REPORT_SIZE {
            return None;
        }
        let (reason, msg) = (text(&data[20..80]), text(&data[80..]));
        Some(Self { nr_late: long(data, 0), kind: word(data, 16), reason, msg })
    }

    /// Returns whether it was unloaded without being asked to be.
    pub(crate) const fn is_forced(&self) -> bool {
        self.kind != Self::UNREG
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header that both sides share: kinds in its order, numbered from 1.
    const SHARED: &str = include_str!("../bpf/shared.h");

    #[test]
    fn kinds_are_those_of_the_header() {
        let (_, after) = SHARED.split_once("enum event_kind {").expect("it is there");
        let (body, _) = after.split_once("};").expect("its end");
        let names = body.lines().filter_map(|line| line.trim().strip_prefix("EVENT_"));
        let names: Vec<String> = names
            .map(|name| name.split([',', ' ']).next().unwrap_or_default().replace('_', "").to_lowercase())
            .collect();
        let ours: Vec<String> = KINDS.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
        assert_eq!(names, ours);
    }

    #[test]
    fn an_event_is_read_field_by_field() {
        let data: Vec<u8> = (0..EVENT_SIZE as u8).collect();
        assert_eq!(Event::read(&data), None, "there is no such kind");
        let mut data = data;
        data[64..68].copy_from_slice(&9u32.to_ne_bytes());
        let event = Event::read(&data).expect("a kind that exists");
        assert_eq!((event.kind, event.pid, event.cpu), (Kind::Add, 0x4746_4544, 0x4b4a_4948));
        assert_eq!((event.weight, event.comm[0], event.comm[15]), (0x4f4e_4d4c, 80, 95));
        assert_eq!((event.group, event.mask[3]), (0x1f1e_1d1c_1b1a_1918, 0x3f3e_3d3c_3b3a_3938));
        assert_eq!(Event::read(&data[1..]), None);
    }

    #[test]
    fn a_decision_is_written_field_by_field() {
        let data = Decision::Move { pid: 7, cpu: 3, slice: 20, flags: 16 }.write(99);
        assert_eq!((long(&data, 0), long(&data, 8), long(&data, 16)), (99, 20, 16));
        assert_eq!((word(&data, 24), word(&data, 28), word(&data, 32)), (1, 7, 3));
    }
}

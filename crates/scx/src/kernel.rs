//! [`Kernel`]: the kernel's half, loaded.

use crate::wire::{Config, Decision, Event, Outcome, Report};
use libbpf_rs::{
    Link, MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput, ProgramMut, RingBuffer,
    RingBufferBuilder,
};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/policy.bpf.o"));

/// The name of the operations in `bpf/policy.bpf.c`.
const OPS: &str = "zerolag";
/// That of the program that hears of new names.
const RENAME: &str = "zl_rename";
/// The longest name that the kernel takes.
const NAME_MAX: usize = 128;
/// `SCX_OPS_ENQ_LAST`, `SCX_OPS_SWITCH_PARTIAL`.
const ENQ_LAST: u64 = 2;
const SWITCH_PARTIAL: u64 = 8;

/// What the kernel is told of the scheduler.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) is_partial: bool,
    /// How long a runnable task may wait.
    pub(crate) timeout_ms: u32,
    pub(crate) config: Config,
}

/// Says what is missing on this machine, if something is.
pub(crate) fn missing() -> Option<String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    if !Path::new("/sys/kernel/sched_ext").exists() {
        return Some(format!("kernel {release} has no sched_ext (CONFIG_SCHED_CLASS_EXT; 6.19 or later is needed)"));
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some(format!("kernel {release} does not describe its types (CONFIG_DEBUG_INFO_BTF)"));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !is_capable(&status) {
        return Some("it needs the rights of root (CAP_SYS_ADMIN, CAP_BPF, CAP_SYS_NICE, CAP_IPC_LOCK)".to_owned());
    }
    let loaded = std::fs::read_to_string("/sys/kernel/sched_ext/root/ops").ok();
    loaded.map(|name| format!("the scheduler `{}` is loaded already", name.trim()))
}

/// Returns whether the status of a process has the capabilities that are needed.
fn is_capable(status: &str) -> bool {
    // CAP_IPC_LOCK, CAP_SYS_ADMIN, CAP_SYS_NICE, CAP_BPF.
    let needed = [14, 21, 23, 39].iter().fold(0, |mask, bit| mask | 1u64 << bit);
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & needed == needed)
}

/// The loaded kernel's half. It is unloaded with this value, also by the end of the process.
pub(crate) struct Kernel {
    object: Object,
    link: Option<Link>,
    /// Of the names of threads.
    names: Option<Link>,
    events: MapHandle,
}

impl Kernel {
    /// Loads it.
    pub(crate) fn load(settings: &Settings) -> Result<Self, String> {
        let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(|error| format!("{error}"))?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name == OPS {
                let ops = map.initial_value_mut().ok_or("the operations have no value")?;
                write_ops(ops, settings);
            } else if name.ends_with(".rodata.config") {
                map.set_initial_value(&settings.config.write()).map_err(|error| format!("settings: {error}"))?;
            }
        }
        let object = open.load().map_err(|error| format!("the kernel refuses the program: {error:?}"))?;
        let events = object.maps().find(|map| map.name() == "events").ok_or("no buffer of events")?;
        let events = MapHandle::try_from(&events).map_err(|error| format!("events: {error}"))?;
        Ok(Self { object, link: None, names: None, events })
    }

    /// Attaches it: from now on it schedules.
    pub(crate) fn attach(&mut self) -> Result<(), String> {
        let rename = self.object.progs_mut().find(|program| program.name() == RENAME).ok_or("no program for names")?;
        self.names = Some(rename.attach().map_err(|error| format!("names of threads: {error:?}"))?);
        let mut ops = self.object.maps_mut().find(|map| map.name() == OPS).ok_or("no operations")?;
        let link = ops.attach_struct_ops().map_err(|error| format!("the kernel refuses the scheduler: {error:?}"))?;
        self.link = Some(link);
        Ok(())
    }

    /// Returns its buffer of events: to be mapped before it is attached, since that takes long.
    pub(crate) fn buffer(&self) -> Result<MapHandle, String> {
        MapHandle::try_from(&self.events).map_err(|error| format!("events: {error}"))
    }

    /// Unloads it; what it leaves behind can still be read.
    pub(crate) fn unload(&mut self) {
        (self.link, self.names) = (None, None);
    }

    pub(crate) fn decider(&self) -> Result<Decider<'_>, String> {
        let program =
            self.object.progs_mut().find(|program| program.name() == "decide").ok_or("no program for decisions")?;
        Ok(Decider { program })
    }

    /// Returns what it leaves behind.
    pub(crate) fn report(&self) -> Option<Report> {
        let map = self.object.maps().find(|map| map.name() == "reports")?;
        Report::read(&map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??)
    }
}

/// Writes flags, time limit and name: the first fields of `struct sched_ext_ops` in `bpf/kernel.h`.
fn write_ops(ops: &mut [u8], settings: &Settings) {
    let partial = if settings.is_partial { SWITCH_PARTIAL } else { 0 };
    ops[0..8].copy_from_slice(&(ENQ_LAST | partial).to_ne_bytes());
    ops[8..12].copy_from_slice(&settings.timeout_ms.to_ne_bytes());
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    // The kernel allows these characters only (`bpf_obj_name_cpy`).
    let name: String = settings.name.chars().filter(is_plain).take(NAME_MAX - 1).collect();
    let field = &mut ops[12..12 + NAME_MAX];
    field.fill(0);
    field[..name.len()].copy_from_slice(name.as_bytes());
}

/// The events of the kernel's half.
pub(crate) struct Events<'a> {
    ring: RingBuffer<'a>,
    read: Rc<RefCell<Vec<Event>>>,
}

impl<'a> Events<'a> {
    pub(crate) fn new(buffer: &'a MapHandle) -> Result<Self, String> {
        let read = Rc::new(RefCell::new(Vec::new()));
        let into = Rc::clone(&read);
        let mut builder = RingBufferBuilder::new();
        let take = move |data: &[u8]| {
            into.borrow_mut().extend(Event::read(data));
            0
        };
        builder.add(buffer, take).map_err(|error| format!("events: {error}"))?;
        let ring = builder.build().map_err(|error| format!("events: {error}"))?;
        Ok(Self { ring, read })
    }

    /// Waits for events that want an answer, `timeout` at most, and hands all events over.
    pub(crate) fn wait(&self, timeout: Duration, into: &mut Vec<Event>) -> Result<(), String> {
        // Those that want no answer wake no reader.
        self.ring.consume().map_err(|error| format!("events: {error}"))?;
        if self.read.borrow().is_empty() {
            match self.ring.poll(timeout) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                    return Err(format!("events: {error}"));
                }
                _ => self.ring.consume().map_err(|error| format!("events: {error}"))?,
            }
        }
        into.append(&mut self.read.borrow_mut());
        Ok(())
    }
}

/// Does decisions.
pub(crate) struct Decider<'a> {
    program: ProgramMut<'a>,
}

impl Decider<'_> {
    pub(crate) fn decide(&self, decision: Decision, answered: u64) -> Result<Outcome, String> {
        let mut data = decision.write(answered);
        let input = ProgramInput { context_in: Some(&mut data), ..ProgramInput::default() };
        let output = self.program.test_run(input).map_err(|error| format!("decisions: {error}"))?;
        Ok(Outcome::of(output.return_value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_those_of_root() {
        assert!(is_capable("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(!is_capable("CapEff:\t0000000000000000\n"));
        assert!(!is_capable("CapEff:\t000001ffffdfffff\n"), "without CAP_SYS_ADMIN");
        assert!(!is_capable(""));
    }

    #[test]
    fn a_name_is_cut_to_what_the_kernel_takes() {
        let config =
            Config { slice_ns: 1, late_ns: 1, timeout_ns: 1, nr_cpus: 1, direct: true, patient: false, alone: false };
        let name = format!("zerolag_{}", "my policy/".repeat(30));
        let mut ops = vec![0xff; 12 + NAME_MAX];
        write_ops(&mut ops, &Settings { name, is_partial: true, timeout_ms: 7, config });
        assert_eq!((ops[0], ops[8], ops[11]), (10, 7, 0));
        assert!(ops[12..].starts_with(b"zerolag_mypolicymypolicy") && ops[11 + NAME_MAX] == 0);
    }
}

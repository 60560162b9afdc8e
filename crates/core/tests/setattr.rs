//! The results of `sched_setattr`: the same error as recorded kernels for each of 106 sets of
//! arguments.

use zerolag_core::{Clock, Config, CpusetId, Scheduler, TaskError, TaskSpec};
use zerolag_model::setattr::{Caller, Errno, RawAttr};
use zerolag_model::{CpuId, GroupId, Instant, KernelVersion, SchedAttr, TaskId, Topology};

const RECORDED: [(&str, &str, KernelVersion, u32); 4] = [
    ("6.1-vtime-1cpu", include_str!("data/sched_setattr/6.1-vtime-1cpu.csv"), KernelVersion::V6_1, 1),
    ("6.12-vtime-1cpu", include_str!("data/sched_setattr/6.12-vtime-1cpu.csv"), KernelVersion::V6_12, 1),
    ("6.12-vtime-2cpu", include_str!("data/sched_setattr/6.12-vtime-2cpu.csv"), KernelVersion::V6_12, 2),
    ("6.18-native-2cpu", include_str!("data/sched_setattr/6.18-native-2cpu.csv"), KernelVersion::V6_18, 2),
];

/// A recorded line: the caller, the arguments, the result.
struct Line<'a> {
    name: &'a str,
    caller: Caller,
    raw: RawAttr,
    answer: &'a str,
}

fn parse(line: &str) -> Line<'_> {
    let (user, rest) = line.split_once(",\"").expect("a caller");
    let (name, rest) = rest.split_once("\",").expect("a name");
    let fields: Vec<&str> = rest.split(',').collect();
    let number = |index: usize| fields[index].split_once('=').expect("key=value").1;
    let raw = RawAttr {
        // The file does not contain sizes and flags of the call: they follow from the names.
        size: match name {
            "size 47" => 47,
            "size 0 (= v0)" => 0,
            name if name.starts_with("uclamp") => 56,
            _ => 48,
        },
        policy: number(0).parse().expect("a policy"),
        flags: u64::from_str_radix(number(1).trim_start_matches("0x"), 16).expect("flags"),
        nice: number(2).parse().expect("a nice value"),
        priority: number(3).parse().expect("a priority"),
        runtime: number(4).parse().expect("a runtime"),
        deadline: number(5).parse().expect("a deadline"),
        period: number(6).parse().expect("a period"),
        call_flags: u32::from(name == "syscall flags 1"),
    };
    let caller = if user == "root" { Caller::Privileged } else { Caller::Unprivileged };
    Line { name, caller, raw, answer: fields[7] }
}

/// Returns a scheduler's result for a first task with these attributes.
fn admit(attr: SchedAttr, kernel: KernelVersion, cpus: u32) -> Result<(), Errno> {
    let config = Config::new(Topology::flat(cpus).expect("a machine"), kernel.settings());
    let mut scheduler = Scheduler::<parking_lot::RawMutex>::new(config);
    scheduler.reserve_tasks(1);
    let spec = TaskSpec {
        id: TaskId(0),
        attr,
        affinity: None,
        group: GroupId::ROOT,
        cpuset: CpusetId::default(),
        born_on: CpuId(0),
        process: None,
    };
    match scheduler.create_task(Clock::at(Instant::ZERO), spec) {
        Ok(_) => Ok(()),
        Err(TaskError::DeadlineParams(..)) => Err(Errno::Einval),
        Err(TaskError::NoBandwidth(..)) => Err(Errno::Ebusy),
        Err(TaskError::NotWholeDomain(..)) => Err(Errno::Eperm),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn each_of_106_argument_sets_gets_the_recorded_answer() {
    let mut wrong = Vec::new();
    for (file, text, kernel, cpus) in RECORDED {
        assert_eq!(text.lines().count(), 106, "{file}");
        for line in text.lines().map(parse) {
            let answer = line.raw.check(SchedAttr::NORMAL, line.caller).and_then(|attr| admit(attr, kernel, cpus));
            let name = match answer {
                Ok(()) => "OK",
                Err(Errno::Eopnotsupp) => "Operation not supported",
                Err(errno) => errno.name(),
            };
            if name != line.answer {
                wrong.push(format!("{file}, {:?}, {}: {name}, recorded {}", line.caller, line.name, line.answer));
            }
        }
    }
    // 95 % fits one CPU of 6.1 without any other deadline task; on the recorded one the bandwidth
    // of an ended process had not been released yet (see data/README.md).
    wrong.retain(|line| line != "6.1-vtime-1cpu, Privileged, DL 95%: OK, recorded EBUSY");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

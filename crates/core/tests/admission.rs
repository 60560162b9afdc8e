//! Compares the admission to SCHED_DEADLINE with recorded kernels, request by request: which of a
//! sequence of processes were admitted, and the errors for a pinned process, for pinning one, and
//! for one that forks.

use std::sync::Arc;
use zerolag_core::{Clock, Config, CpusetId, Io, Parcel, Placement, Scheduler, TaskError, TaskSpec, Tracing};
use zerolag_model::setattr::Errno;
use zerolag_model::{CpuId, CpuMask, DlParams, Duration, GroupId, Instant, KernelVersion, SchedAttr, TaskId, Topology};

type Lock = parking_lot::RawMutex;

/// Whether the bandwidth of the previous process is still booked (see data/README.md).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Gone,
    /// 2 ms in 4.194304 s.
    Booked,
}

const RECORDED: [(&str, &str, KernelVersion, u32, Before); 4] = [
    ("6.1-vtime-1cpu", include_str!("data/admission/6.1-vtime-1cpu.csv"), KernelVersion::V6_1, 1, Before::Booked),
    ("6.12-vtime-1cpu", include_str!("data/admission/6.12-vtime-1cpu.csv"), KernelVersion::V6_12, 1, Before::Booked),
    ("6.12-vtime-2cpu", include_str!("data/admission/6.12-vtime-2cpu.csv"), KernelVersion::V6_12, 2, Before::Booked),
    ("6.18-native-2cpu", include_str!("data/admission/6.18-native-2cpu.csv"), KernelVersion::V6_18, 2, Before::Gone),
];

/// A request of a sequence and its result.
struct Line<'a> {
    sequence: &'a str,
    percent: f64,
    answer: &'a str,
}

fn parse(line: &str) -> Line<'_> {
    let mut fields = line.rsplitn(5, ',');
    let mut next = || fields.next().expect("five fields");
    let (_admitted, answer, percent, _number, sequence) = (next(), next(), next(), next(), next());
    Line { sequence, percent: percent.parse().expect("a number"), answer }
}

struct Machine {
    scheduler: Scheduler<Lock>,
    tasks: u32,
}

impl Machine {
    fn new(kernel: KernelVersion, cpus: u32, before: Before) -> Self {
        let config = Config::new(Topology::flat(cpus).expect("a machine"), kernel.settings());
        let mut machine = Self { scheduler: Scheduler::new(config), tasks: 0 };
        machine.scheduler.reserve_tasks(64);
        if before == Before::Booked {
            let period = DlParams::PERIOD_MAX;
            let runtime = Duration::from_millis(2);
            machine.create(SchedAttr::Deadline(DlParams::new(runtime, period, period)), None).expect("it is the first");
        }
        machine
    }

    fn create(&mut self, attr: SchedAttr, affinity: Option<Arc<CpuMask>>) -> Result<Parcel, Errno> {
        let id = TaskId(self.tasks);
        self.tasks += 1;
        let (group, cpuset, born_on) = (GroupId::ROOT, CpusetId::default(), CpuId(0));
        let spec = TaskSpec { id, attr, affinity, group, cpuset, born_on, process: None };
        errno(self.scheduler.create_task(Clock::at(Instant::ZERO), spec))
    }
}

fn errno<T>(answer: Result<T, TaskError>) -> Result<T, Errno> {
    answer.map_err(|error| match error {
        TaskError::NoBandwidth(..) | TaskError::DeadlineAffinity(..) => Errno::Ebusy,
        TaskError::NotWholeDomain(..) => Errno::Eperm,
        TaskError::DeadlineForks(_) => Errno::Eagain,
        other => panic!("{other}"),
    })
}

fn name<T>(answer: &Result<T, Errno>) -> &'static str {
    match answer {
        Ok(_) => "OK",
        Err(errno) => errno.name(),
    }
}

fn deadline(percent: f64) -> SchedAttr {
    let period = Duration::from_millis(100);
    let runtime = Duration::from_nanos((percent * 1e6) as u64);
    SchedAttr::Deadline(DlParams::new(runtime, period, period))
}

#[test]
fn recorded_sequences_are_admitted_as_far_as_they_were() {
    let mut requests = 0;
    for (file, text, kernel, cpus, before) in RECORDED {
        let mut machine = Machine::new(kernel, cpus, before);
        let mut sequence = "";
        for line in text.lines().skip(1).map(parse) {
            if line.sequence != sequence {
                (machine, sequence) = (Machine::new(kernel, cpus, before), line.sequence);
            }
            let attr = deadline(line.percent);
            let (io, now) = (&mut Io::new(Tracing::Off), Clock::at(Instant::ZERO));
            let first_cpu = || Some(Arc::new(CpuMask::single(CpuId(0))));
            let answer = match line.sequence {
                "pinned_then_dl" => {
                    let mut parcel = machine.create(SchedAttr::NORMAL, first_cpu()).expect("a fair task");
                    name(&errno(machine.scheduler.set_attr_parked(now, &mut parcel, attr, CpuId(0), io))).to_owned()
                }
                "dl_then_pin" => {
                    let mut parcel = machine.create(attr, None).expect("it fits");
                    let scheduler = &machine.scheduler;
                    let pinned = errno(scheduler.set_affinity_parked(now, &mut parcel, first_cpu(), CpuId(0), io));
                    format!("OK/{}", name(&pinned))
                }
                "dl_then_fork" => {
                    let parcel = machine.create(attr, None).expect("it fits");
                    let (scheduler, parent) = (&machine.scheduler, parcel.id());
                    let mut rq = scheduler.new_rq(CpuId(0));
                    let _ = scheduler.wake(&mut rq, now, parcel, CpuId(0), Placement::Fork, io);
                    format!("OK/{}", name(&errno(scheduler.check_fork(&rq, parent))))
                }
                _ => name(&machine.create(attr, None)).to_owned(),
            };
            assert_eq!(answer, line.answer, "{file}, {}: {} %", line.sequence, line.percent);
            requests += 1;
        }
    }
    assert_eq!(requests, 4 * 45, "every recorded request was made");
}

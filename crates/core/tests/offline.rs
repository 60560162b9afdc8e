//! A task whose CPUs are all offline runs elsewhere, and goes home once one of them is back.

use std::sync::Arc;
use zerolag_core::{
    Clock, Config, CpusetId, Io, Leave, Left, Next, Parcel, Placement, Rq, Scheduler, Step, TaskSpec, Tracing,
};
use zerolag_model::{CpuId, CpuMask, GroupId, Instant, KernelVersion, SchedAttr, TaskId, Topology};

const NOW: Clock = Clock::at(Instant::ZERO);

struct Host {
    scheduler: Scheduler<parking_lot::RawMutex>,
    rqs: [Rq; 2],
    io: Io,
}

impl Host {
    /// Places a task and runs it; returns the CPU.
    fn run(&mut self, parcel: Parcel, why: Placement) -> CpuId {
        let task = parcel.id();
        let cpu = self.scheduler.select_cpu(NOW, &parcel, CpuId(0), why, &mut self.io);
        let rq = &mut self.rqs[cpu.index()];
        let step = self.scheduler.wake(rq, NOW, parcel, CpuId(0), why, &mut self.io);
        assert_eq!(step, Step::Done);
        assert!(matches!(self.leave(cpu), Left::Queued), "it preempts an idle CPU");
        let next = self.scheduler.pick(&mut self.rqs[cpu.index()], NOW, &mut self.io);
        assert!(matches!(next, Next::Run(next) if next == task), "{next:?}");
        cpu
    }

    fn leave(&mut self, cpu: CpuId) -> Left {
        self.scheduler.leave(&mut self.rqs[cpu.index()], NOW, Leave::Preempted, &mut self.io)
    }
}

#[test]
fn a_bound_task_of_an_offline_cpu_stays_where_it_was_placed() {
    for attr in [SchedAttr::NORMAL, SchedAttr::fifo_at(50)] {
        let config = Config::new(Topology::flat(2).expect("a machine"), KernelVersion::V6_12.settings());
        let mut scheduler = Scheduler::<parking_lot::RawMutex>::new(config);
        scheduler.reserve_tasks(1);
        let spec = TaskSpec {
            id: TaskId(0),
            attr,
            affinity: Some(Arc::new(CpuMask::single(CpuId(1)))),
            group: GroupId::ROOT,
            cpuset: CpusetId::default(),
            born_on: CpuId(0),
            process: None,
        };
        let parcel = scheduler.create_task(NOW, spec).expect("a task");
        let rqs = [0, 1].map(|cpu| scheduler.new_rq(CpuId(cpu)));
        let mut host = Host { scheduler, rqs, io: Io::new(Tracing::Off) };
        host.scheduler.offline(&mut host.rqs[1], NOW, &mut host.io);
        assert_eq!(host.run(parcel, Placement::Fork), CpuId(0), "{attr:?}");
        assert!(matches!(host.leave(CpuId(0)), Left::Queued), "no other CPU is better");
        let next = host.scheduler.pick(&mut host.rqs[0], NOW, &mut host.io);
        assert!(matches!(next, Next::Run(_)), "{next:?}");

        let step = host.scheduler.online(&mut host.rqs[1], NOW, &mut host.io);
        assert_eq!(step, Step::Done);
        let Left::Displaced(parcel) = host.leave(CpuId(0)) else { panic!("its own CPU is back") };
        assert!(matches!(host.scheduler.pick(&mut host.rqs[0], NOW, &mut host.io), Next::Idle | Next::Balance(_)));
        assert_eq!(host.run(parcel, Placement::Displaced), CpuId(1), "{attr:?}");
    }
}

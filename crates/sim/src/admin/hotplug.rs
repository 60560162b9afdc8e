//! CPUs that go offline and come back in mid-run.
//!
//! The CPU does so itself, in an interrupt: it hands its waiting tasks out, one after another, to be placed elsewhere, and is left by
//! the current one as soon as it is preempted. Then every other CPU builds its domains anew, under its own run queue's lock.
//! Timers that were set here still fire here, and whom they wake is placed on another CPU.

use crate::kernel::cpu::{Interrupt, Job, WakeKind};
use crate::kernel::lock::Lock;
use crate::kernel::path::Done;
use crate::machine::Machine;
use zerolag_core::Step;
use zerolag_model::{CpuId, TraceEvent};

impl Machine {
    /// Takes this CPU offline, or brings it back.
    pub(crate) fn hotplug(&mut self, cpu: CpuId, is_online: bool, change: u32) -> Done {
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, Job::Change(change));
        }
        if self.tracer.is_on() {
            self.emit(cpu, TraceEvent::Hotplug { online: is_online });
        }
        let place = &mut self.cpus[cpu.index()];
        assert!(place.rq.is_online() != is_online, "changes of CPUs are checked when they are read");
        let clock = place.clock(self.now);
        let mut evicted = Vec::new();
        let step = if is_online {
            self.scheduler.online(&mut place.rq, clock, &mut self.io)
        } else {
            self.scheduler.offline(&mut place.rq, clock, &mut self.io);
            while let Some(parcel) = self.scheduler.evict(&mut place.rq, clock, &mut self.io) {
                evicted.push(parcel);
            }
            Step::Done
        };
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        for parcel in evicted {
            let wake = Job::Wake { task: parcel.id(), why: WakeKind::Displaced, target: None };
            self.park(parcel);
            self.cpus[cpu.index()].jobs.push_back(wake);
        }
        self.push_step(cpu, step);
        for other in self.topology.cpus().filter(|other| *other != cpu) {
            self.interrupt(other, Interrupt::Rebuild);
        }
        Done::Yes
    }

    /// Another CPU has gone offline or has come back.
    pub(crate) fn rebuild_domains(&mut self, cpu: CpuId) -> Done {
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, Job::Rebuild);
        }
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock(self.now);
        self.scheduler.domains_rebuilt(&mut place.rq, clock, &mut self.io);
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        Done::Yes
    }
}

//! The replay: all calls again on one thread, in order of tickets, with the recorded reads.

use crate::host::Host;
use crate::log::{CPUS, Entry, TASKS, config};
use parking_lot::RawMutex;
use zerolag_core::call::{Place, Player};
use zerolag_model::{CpuId, Settings};

/// Makes all calls again on one thread, with the recorded reads, and compares what came of them and
/// the final state with the host's.
pub(crate) fn replay(settings: &Settings, log: &[Entry], host: &Host) {
    let mut player: Player<RawMutex> = Player::new(config(settings), TASKS as usize);
    for entry in log {
        if let Err(again) = player.repeat(&entry.made) {
            panic!("ticket {}: recorded {:?}, and now {again:?}", entry.ticket, entry.made);
        }
        assert_eq!(player.io.ops, entry.ops, "ticket {}: {:?}", entry.ticket, entry.made.call);
    }
    for cpu in (0..CPUS).map(CpuId) {
        let (again, rq) = (player.rq(cpu), host.rqs[cpu.index()].lock());
        assert_eq!(again.nr_switches(), rq.nr_switches(), "switches of CPU {cpu}");
        let tasks: Vec<_> = rq.inspect().queued().collect();
        assert_eq!(again.inspect().queued().collect::<Vec<_>>(), tasks, "tasks of CPU {cpu}");
        for (task, _) in tasks {
            assert_eq!(player.scheduler().counters(again, task), host.scheduler.counters(&rq, task), "task {task}");
        }
    }
    for place in &host.places {
        let place = place.lock();
        let Place::Parked(parcel) = &*place else { continue };
        let again = player.body(parcel.id()).expect("it is parked in the replay too");
        assert_eq!((again.id(), again.counters()), (parcel.id(), parcel.counters()));
    }
}

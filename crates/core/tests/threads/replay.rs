//! The replay: all calls again on one thread, in order of tickets, with the recorded reads.

use crate::host::{Body, Host};
use crate::log::{Answer, Call, Entry, TASKS, build, clock, create, name_of};
use parking_lot::RawMutex;
use zerolag_core::{Io, Left, Observer, PairClock, Parcel, Rq, RqTimer, Scheduler, Step, TaskError, Tracing};
use zerolag_model::{Settings, TaskId};

/// Makes all calls again on one thread, with the recorded reads.
pub(crate) fn replay(settings: &Settings, log: &[Entry], host: &Host) {
    let (scheduler, mut rqs) = build(settings);
    let mut parcels: Vec<Option<Parcel>> = (0..TASKS).map(|_| None).collect();
    let mut io = Io::new(Tracing::Off);
    for entry in log {
        io.observer = Observer::Replay { values: entry.reads.clone(), next: 0 };
        let answer = repeat(&scheduler, &mut rqs, &mut parcels, &mut io, entry);
        assert_eq!(answer, entry.answer, "ticket {}: {:?}", entry.ticket, entry.call);
        assert_eq!(io.ops, entry.ops, "ticket {}: {:?}", entry.ticket, entry.call);
        let Observer::Replay { next, .. } = io.observer else { unreachable!("it replays") };
        assert_eq!(next, entry.reads.len(), "ticket {}: {:?} read less", entry.ticket, entry.call);
        let parked: Vec<TaskId> = io.parked.iter().map(Parcel::id).collect();
        assert_eq!(parked, entry.parked, "ticket {}: {:?}", entry.ticket, entry.call);
        for parcel in io.parked.drain(..) {
            let task = parcel.id();
            parcels[task.index()] = Some(parcel);
        }
        io.ops.clear();
    }
    for (again, rq) in rqs.iter().zip(&host.rqs) {
        let rq = rq.lock();
        assert_eq!(again.nr_switches(), rq.nr_switches(), "switches of CPU {}", rq.cpu());
        let tasks: Vec<_> = rq.queued().collect();
        assert_eq!(again.queued().collect::<Vec<_>>(), tasks, "tasks of CPU {}", rq.cpu());
        for (task, _) in tasks {
            assert_eq!(scheduler.counters(again, task), host.scheduler.counters(&rq, task), "task {task}");
        }
    }
    for (again, body) in parcels.iter().zip(&host.bodies) {
        let body = body.lock();
        let Body::Parked(parcel) = &*body else { continue };
        let again = again.as_ref().expect("it is parked in the replay too");
        assert_eq!((again.id(), again.counters()), (parcel.id(), parcel.counters()));
    }
}

/// Makes one call again.
fn repeat(
    scheduler: &Scheduler<RawMutex>,
    rqs: &mut [Rq],
    parcels: &mut [Option<Parcel>],
    io: &mut Io,
    entry: &Entry,
) -> Answer {
    let now = clock(entry.ticket);
    let in_hand = "the task is in hand";
    let changed = |parcels: &mut [Option<Parcel>], result: Result<(Option<Parcel>, Step), TaskError>| {
        Answer::Changed(result.map(|(parcel, step)| {
            let task = parcel.as_ref().map(Parcel::id);
            if let (Some(task), Some(parcel)) = (task, parcel) {
                parcels[task.index()] = Some(parcel);
            }
            (task, step)
        }))
    };
    match entry.call.clone() {
        Call::Create { task, attr } => {
            parcels[task.index()] = Some(create(scheduler, task, attr));
            Answer::Nothing
        }
        Call::Select { task, by, why } => {
            let parcel = parcels[task.index()].as_ref().expect(in_hand);
            Answer::Cpu(scheduler.select_cpu(now, parcel, by, why, io))
        }
        Call::Wake { cpu, task, by, why } => {
            let parcel = parcels[task.index()].take().expect(in_hand);
            Answer::Step(scheduler.wake(&mut rqs[cpu.index()], now, parcel, by, why, io))
        }
        Call::WakeQueued { cpu, task, by } => {
            let woken = scheduler.wake_queued(&mut rqs[cpu.index()], now, task, by, io);
            Answer::Changed(woken.map(|step| (None, step)))
        }
        Call::Leave { cpu, why } => {
            let rq = &mut rqs[cpu.index()];
            let current = rq.current();
            let left = scheduler.leave(rq, now, why, io);
            let answer = Answer::Left(name_of(&left), current);
            if let Left::Parked(parcel) | Left::Displaced(parcel) = left {
                let task = parcel.id();
                parcels[task.index()] = Some(parcel);
            }
            answer
        }
        Call::Pick { cpu } => Answer::Next(scheduler.pick(&mut rqs[cpu.index()], now, io)),
        Call::Switched { cpu } => Answer::Step(scheduler.switched(&mut rqs[cpu.index()], now, io)),
        Call::Tick { cpu } => Answer::Step(scheduler.tick(&mut rqs[cpu.index()], now, io)),
        Call::Timer { cpu } => Answer::Step(scheduler.timer(&mut rqs[cpu.index()], now, RqTimer::Slice, io)),
        Call::Remote { cpu, work } => Answer::Step(scheduler.remote(&mut rqs[cpu.index()], now, work, io)),
        Call::Resume { cpu, then } => Answer::Step(scheduler.resume(&mut rqs[cpu.index()], now, then, io)),
        Call::Pair { own, other, then } => {
            let [own, other] = rqs.get_disjoint_mut([own.index(), other.index()]).expect("a pair is two CPUs");
            Answer::Step(scheduler.resume_pair(own, other, PairClock { own: now, other: now }, then, io))
        }
        Call::SetAttr { cpu, task, attr } => {
            let result = scheduler.set_attr(&mut rqs[cpu.index()], now, task, attr, io);
            changed(parcels, result.map(|step| (None, step)))
        }
        Call::SetAttrParked { task, attr, by } => {
            let parcel = parcels[task.index()].as_mut().expect(in_hand);
            scheduler.set_attr_parked(now, parcel, attr, by, io).expect("a class that is built");
            Answer::Nothing
        }
        Call::SetAffinity { cpu, task, affinity } => {
            let result = scheduler.set_affinity(&mut rqs[cpu.index()], now, task, affinity, io);
            changed(parcels, result)
        }
        Call::SetAffinityParked { task, affinity, by } => {
            let parcel = parcels[task.index()].as_mut().expect(in_hand);
            scheduler.set_affinity_parked(now, parcel, affinity, by, io).expect("a mask within the machine");
            Answer::Nothing
        }
        Call::Inherit { cpu, task, from } => {
            let result = scheduler.inherit(&mut rqs[cpu.index()], now, task, from, io);
            changed(parcels, result.map(|step| (None, step)))
        }
    }
}

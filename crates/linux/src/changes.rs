//! Makes the changes of a workload at their times on the host.
//!
//! One thread sleeps from change to change. It makes each change as an administrator of the machine
//! would: `sched_setattr` and `sched_setaffinity` of other threads, files of the run's own groups,
//! threads that are started and ended.
//!
//! The thread has the watchdog's priority, above the workload, so that busy loops of real-time
//! tasks do not delay it, and it is in no group. A thread that is to end leaves a computation
//! within 20 us and a wait at once. The exception is a wait for a mutex with priority inheritance,
//! which the kernel cannot cancel: that thread ends once it has the mutex. An ended thread releases
//! its mutexes, and its request is never completed. The plan refuses changes of machine-wide
//! settings (partitions, deadline servers).

use crate::cgroup::Groups;
use crate::host::{cpu_set, refused_attr};
use crate::park::{Parker, Waited};
use crate::plan::{THREADS_MAX, may_be_realtime};
use crate::shared::Shared;
use crate::thread::spawn;
use crate::world::{Failure, Live, Seat, World};
use crate::{clock, sys};
use rustix::thread::{Pid, sched_getcpu, sched_setaffinity};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::Scope;
use zerolag_model::{CpuId, CpuMask, Duration, GroupId, Instant, Record, RtPriority, SchedAttr, TaskId, TraceEvent};
use zerolag_workload::change::{Change, TimedChange};
use zerolag_workload::program::ResourceId;

/// Starts the thread; returns the number of threads started, which wait at the gate.
pub(crate) fn start_changes<'s, 'w: 's>(
    world: &'w World<'w>,
    scope: &'s Scope<'s, 'w>,
    priority: Option<RtPriority>,
) -> std::io::Result<u32> {
    let plan = world.program.plan();
    if plan.is_empty() {
        return Ok(0);
    }
    // The run is not over as long as a change can start threads.
    let mut to_come = plan.iter().filter(|change| change.what.moves_threads()).count();
    // Changes can also start callers of services.
    let called: Vec<ResourceId> =
        (0..world.program.tasks.len()).flat_map(|task| world.program.queues_called(task)).collect();
    if to_come > 0 {
        world.alive.fetch_add(1, Ordering::AcqRel);
        called.iter().for_each(|queue| world.shared[queue.index()].add_sender());
    }
    let no_more = move || {
        called.iter().for_each(|queue| world.shared[queue.index()].sender_goes());
        world.one_less();
    };
    let builder = std::thread::Builder::new().name("zerolag-change".to_owned());
    let spawned = builder.spawn_scoped(scope, move || {
        let mut records = Vec::new();
        if let Some(origin) = world.gate.wait(Ok(())) {
            // Without the priority, changes come late while real-time tasks hold all CPUs.
            drop(priority.map(|priority| sys::set_attr(SchedAttr::fifo(priority))));
            let mut maker = Maker { world, scope, origin, parker: world.end.parker(), records: &mut records };
            for change in &plan {
                if maker.parker.sleep_until(origin.saturating_add(change.at), &world.end) == Waited::Over {
                    break;
                }
                if let Err(why) = maker.make(change) {
                    world.fail(Failure::Refused(format!("change at {}: {why}", change.at)));
                    break;
                }
                if change.what.moves_threads() {
                    to_come -= 1;
                    if to_come == 0 {
                        no_more();
                    }
                }
            }
        }
        if to_come > 0 {
            no_more();
        }
        world.arrivals.lock().unwrap_or_else(PoisonError::into_inner).append(&mut records);
    });
    spawned.map(|_| 1)
}

struct Maker<'m, 's, 'w> {
    world: &'w World<'w>,
    scope: &'s Scope<'s, 'w>,
    origin: Instant,
    parker: Arc<Parker>,
    records: &'m mut Vec<Record>,
}

impl<'s, 'w: 's> Maker<'_, 's, 'w> {
    fn make(&mut self, change: &TimedChange) -> Result<(), String> {
        let world = self.world;
        let path = |group: usize| &world.program.groups[group].path;
        match &change.what {
            Change::Create { group } => {
                let made = self.groups()?.make(*group, &world.program.groups[*group]);
                made.map_err(|error| format!("group {}: {error}", path(*group)))?;
                let id = |index: usize| GroupId::from_index(index + 1);
                let parent = world.program.groups[*group].parent.map_or(GroupId::ROOT, id);
                self.record(TraceEvent::GroupNew { group: id(*group), parent, path: Arc::clone(path(*group)) });
                Ok(())
            }
            Change::Remove { group } => self.remove(*group),
            Change::Max { group, max } => {
                let set = self.groups()?.set_max(*group, *max);
                set.map_err(|error| format!("group {}: {error}", path(*group)))
            }
            Change::Weight { group, weight } => {
                let set = self.groups()?.set_weight(*group, *weight);
                set.map_err(|error| format!("group {}: {error}", path(*group)))
            }
            Change::RtGroup { group, .. } => {
                let path = group.map_or("/", |group| path(group));
                Err(format!("group {path}: `cpu.rt_runtime_us` is set in simulations only"))
            }
            Change::Idle { group, is_idle } => {
                let set = self.groups()?.set_idle(*group, *is_idle);
                set.map_err(|error| format!("group {}: {error}", path(*group)))
            }
            Change::Attr { task, attr } => self.each(*task, |maker, live| {
                sys::set_attr_of(live.tid, *attr).map_err(|error| refused_attr(*attr, &error))?;
                live.orders.is_changed.store(true, Ordering::Release);
                maker.record(TraceEvent::AttrChange { task: live.task, attr: *attr });
                Ok(())
            }),
            Change::Affinity { task, cpus } => {
                let mask = self.mask(*task, cpus.as_deref());
                self.each(*task, |maker, live| {
                    let set = sched_setaffinity(Pid::from_raw(live.tid), &cpu_set(&mask));
                    set.map_err(|error| format!("cannot be confined to CPUs {mask}: {error}"))?;
                    maker.record(TraceEvent::Affinity { task: live.task, cpus: Arc::new(mask.clone()) });
                    Ok(())
                })
            }
            Change::Group { task, group } => self.each(*task, |maker, live| {
                let moved = maker.groups()?.take_in(*group, live.tid, may_be_realtime(world.program, live.def));
                moved.map_err(|error| error.to_string())?;
                let group = group.map_or(GroupId::ROOT, |group| GroupId::from_index(group + 1));
                maker.record(TraceEvent::GroupChange { task: live.task, group });
                Ok(())
            }),
            Change::Start { task, count } => self.start(*task, *count),
            Change::End { task } => {
                self.end(|live| live.def == *task);
                Ok(())
            }
            Change::Resize { task, threads } => self.resize(*task, *threads),
            Change::Partition { .. }
            | Change::Server { .. }
            | Change::RtRuntime { .. }
            | Change::RtPeriod { .. }
            | Change::Load { .. }
            | Change::Unload
            | Change::Cpu { .. } => {
                unreachable!("the plan refuses it")
            }
        }
    }

    fn groups(&self) -> Result<&'w Groups, String> {
        self.world.groups.as_ref().ok_or_else(|| "there are no groups".to_owned())
    }

    fn live(&self, is_meant: impl Fn(&Live) -> bool) -> Vec<Live> {
        let live = self.world.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.iter().filter(|live| is_meant(live)).cloned().collect()
    }

    /// Applies a function to each thread of a task. The list is locked, so that no thread can end
    /// meanwhile: it would have to leave the list.
    fn each(&mut self, def: usize, mut what: impl FnMut(&mut Self, &Live) -> Result<(), String>) -> Result<(), String> {
        let world = self.world;
        let live = world.live.lock().unwrap_or_else(PoisonError::into_inner);
        for live in live.iter().filter(|live| live.def == def) {
            what(self, live)
                .map_err(|why| format!("task {}: {why}", world.program.tasks[def].name_of(live.instance)))?;
        }
        Ok(())
    }

    /// Returns where a task may run, within its cpuset and the run's CPUs.
    fn mask(&self, def: usize, cpus: Option<&CpuMask>) -> CpuMask {
        let program = self.world.program;
        let all = match program.tasks[def].cpuset {
            Some(set) => self.world.cpus.and(&program.cpusets[set].cpus),
            None => self.world.cpus.clone(),
        };
        cpus.map_or(all.clone(), |cpus| all.and(cpus))
    }

    /// Starts threads; none if their group does not exist any more.
    fn start(&mut self, def: usize, count: u32) -> Result<(), String> {
        let (world, task) = (self.world, &self.world.program.tasks[def]);
        if task.group.is_some_and(|group| !world.groups.as_ref().is_some_and(|groups| groups.is_there(group))) {
            return Ok(());
        }
        for _ in 0..count {
            let id = TaskId(world.next_task.fetch_add(1, Ordering::Relaxed));
            if id.index() >= THREADS_MAX {
                return Err(format!("more than {THREADS_MAX} tasks in one run"));
            }
            let instance = world.numbers[def].fetch_add(1, Ordering::Relaxed);
            let seat = Seat { task: id, def, instance, parent: None };
            spawn(world, self.scope, seat, Some(clock::now())).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Ends threads. A waiting thread is removed from its list, so that no wakeup is lost on it.
    fn end(&self, is_meant: impl Fn(&Live) -> bool) {
        for live in self.live(is_meant) {
            live.parker.end();
            for shared in &self.world.shared {
                shared.forget(&live.parker);
            }
            live.parker.disturb();
        }
        // A thread that waits for a plain mutex checks whether it is to end.
        self.world.shared.iter().for_each(Shared::disturb);
    }

    /// Resizes a pool: the youngest threads retire, or new ones start.
    fn resize(&mut self, def: usize, threads: u32) -> Result<(), String> {
        let mut all = self.live(|live| live.def == def && !live.parker.is_ended());
        all.sort_by_key(|live| live.task);
        let wanted = usize::try_from(threads).unwrap_or(usize::MAX);
        for (place, live) in all.iter().enumerate() {
            live.orders.retires.store(place >= wanted, Ordering::Release);
        }
        // A thread without work never reaches the end of a turn, so it must be told.
        let surplus: Vec<TaskId> = all.iter().skip(wanted).map(|live| live.task).collect();
        for live in self.live(|live| surplus.contains(&live.task)) {
            if self.world.shared.iter().any(|shared| shared.forget_worker(&live.parker)) {
                live.parker.end();
                live.parker.disturb();
            }
        }
        let more = wanted.saturating_sub(all.len());
        self.start(def, u32::try_from(more).unwrap_or(u32::MAX))
    }

    /// Ends the tasks of a group and of those below, and removes the groups when the tasks have
    /// exited.
    fn remove(&mut self, group: usize) -> Result<(), String> {
        let (world, groups) = (self.world, self.groups()?);
        let within: Vec<usize> = (0..world.program.groups.len())
            .filter(|at| world.program.is_within(*at, group) && groups.is_there(*at))
            .collect();
        // First no thread can join any more; then the kernel's list of members is complete.
        groups.close(&within);
        let members: Vec<i32> = within.iter().flat_map(|at| groups.members(*at)).collect();
        self.end(|live| members.contains(&live.tid));
        for at in within.into_iter().rev() {
            let path = &world.program.groups[at].path;
            let give_up = clock::now() + PATIENCE;
            while let Err(error) = groups.remove(at) {
                let now = clock::now();
                if now > give_up || self.parker.sleep_until(now + RETRY, &world.end) == Waited::Over {
                    return if world.end.is_over(now) { Ok(()) } else { Err(format!("group {path}: {error}")) };
                }
            }
            self.record(TraceEvent::GroupGone { group: GroupId::from_index(at + 1) });
        }
        Ok(())
    }

    fn record(&mut self, event: TraceEvent) {
        let cpu = CpuId::from_index(sched_getcpu());
        self.records.push(Record { at: Instant::ZERO + clock::now().since(self.origin), cpu, event });
    }
}

/// How long the threads of a removed group may take to end: a throttled thread must wait for its
/// next period.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two attempts.
const RETRY: Duration = Duration::from_micros(500);

//! The rules of the class: what a kernel does around each callback, and what it unloads a policy
//! for. Each policy here does one thing wrong, or one thing that has a rule.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::{Arc, Mutex};
use zerolag_model::{CpuId, CpuMask, Duration, GroupId, Instant, TaskId, Topology};
use zerolag_policy::{
    Arrival, Departure, DeqFlags, DsqId, Effect, EnqFlags, ExitKind, Host, KickFlags, MAX_WORK, Ops, OpsFlags, Policy,
    Scx, TaskInfo, WakeFlags,
};

const MINE: DsqId = DsqId(7);
const MS: Duration = Duration::from_millis(1);

/// A policy whose callbacks are functions.
#[derive(Clone, Default)]
struct Script {
    flags: OpsFlags,
    timeout: Option<Duration>,
    init: Option<fn(&mut Scx)>,
    select_cpu: Option<fn(&mut Scx, TaskId, CpuId) -> CpuId>,
    enqueue: Option<fn(&mut Scx, TaskId, EnqFlags)>,
    dispatch: Option<fn(&mut Scx, CpuId, Option<TaskId>)>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn note(&self, text: String) {
        self.log.lock().unwrap().push(text);
    }
}

impl Policy for Script {
    fn ops(&self) -> Ops {
        let named = Ops::named("script");
        Ops { flags: self.flags, timeout: self.timeout.unwrap_or(named.timeout), ..named }
    }
    fn init(&mut self, scx: &mut Scx) {
        scx.create_dsq(MINE).unwrap();
        if let Some(init) = self.init {
            init(scx);
        }
    }
    fn select_cpu(&mut self, scx: &mut Scx, p: TaskId, prev: CpuId, _: WakeFlags) -> CpuId {
        self.select_cpu.map_or(prev, |select| select(scx, p, prev))
    }
    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        self.note(format!("enqueue {p} {:x}", flags.0));
        if let Some(enqueue) = self.enqueue {
            enqueue(scx, p, flags);
        }
    }
    fn dequeue(&mut self, _: &mut Scx, p: TaskId, flags: DeqFlags) {
        self.note(format!("dequeue {p} {}", flags.0 & 1));
    }
    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        if let Some(dispatch) = self.dispatch {
            dispatch(scx, cpu, prev);
        }
    }
    fn running(&mut self, _: &mut Scx, p: TaskId) {
        self.note(format!("running {p}"));
    }
    fn runnable(&mut self, _: &mut Scx, p: TaskId, _: EnqFlags) {
        self.note(format!("runnable {p}"));
    }
    fn stopping(&mut self, _: &mut Scx, p: TaskId, runnable: bool) {
        self.note(format!("stopping {p} {runnable}"));
    }
    fn quiescent(&mut self, _: &mut Scx, p: TaskId, _: DeqFlags) {
        self.note(format!("quiescent {p}"));
    }
}

fn host(script: Script, cpus: u32) -> Host {
    let mut host = Host::load(Box::new(script), &Topology::flat(cpus).unwrap(), MS * 4);
    for id in 0..4 {
        host.add_task(TaskId(id), info(None), true);
    }
    host.take_effects();
    host
}

fn info(allowed: Option<Arc<CpuMask>>) -> TaskInfo {
    TaskInfo { comm: "t".into(), weight: 100, group: GroupId::ROOT, allowed, cpu: CpuId(0), period: None }
}

fn wake(host: &mut Host, task: u32) -> CpuId {
    let cpu = host.select_cpu(TaskId(task), CpuId(0), CpuId(0), WakeFlags::TTWU);
    host.enqueue(TaskId(task), cpu, Arrival::Wakeup, false);
    cpu
}

fn local(host: &Host, cpu: u32) -> Vec<u32> {
    host.local(CpuId(cpu)).map(|task| task.0).collect()
}

/// Returns the message for which the policy was unloaded, and the place.
fn fault(host: &Host) -> (ExitKind, String, String) {
    let exit = host.exit_info().expect("the policy was unloaded");
    (exit.kind, exit.msg.clone(), exit.place())
}

#[test]
fn a_fault_is_named_with_callback_task_cpu_and_time_and_the_tasks_go_on() {
    let enqueue: fn(&mut Scx, TaskId, EnqFlags) = |scx, p, flags| scx.dsq_insert(p, DsqId(99), MS, flags);
    let mut host = host(Script { enqueue: Some(enqueue), ..Script::default() }, 2);
    host.set_now(Instant::from_nanos(1_500_000_000));
    wake(&mut host, 1);
    let (kind, msg, place) = fault(&host);
    assert_eq!((kind, msg.as_str()), (ExitKind::Error, "non-existent DSQ 0x63"));
    assert!(place.starts_with("ops.enqueue() of t[1] on CPU 0 at 1.5"), "{place}");
    assert_eq!(
        host.exit_info().unwrap().to_string(),
        "sched_ext: BPF scheduler \"script\" disabled (runtime error)\nsched_ext: script: non-existent DSQ 0x63"
    );
    // From now on: first in, first out, without the policy.
    wake(&mut host, 2);
    host.dispatch(CpuId(1), None);
    assert_eq!(local(&host, 1), [1]);
    host.dispatch(CpuId(0), None);
    assert_eq!(local(&host, 0), [2]);
}

/// Runs a task into the fault of an enqueue.
fn enqueue_fault(enqueue: fn(&mut Scx, TaskId, EnqFlags)) -> String {
    let mut host = host(Script { enqueue: Some(enqueue), ..Script::default() }, 2);
    let only_first: Arc<CpuMask> = Arc::new(CpuMask::single(CpuId(0)));
    host.update_task(TaskId(3), 100, GroupId::ROOT, Some(&only_first));
    for id in [0, 3] {
        wake(&mut host, id);
    }
    assert!(host.waits(TaskId(0)) && host.waits(TaskId(3)), "no task is lost");
    fault(&host).1
}

#[test]
fn each_broken_rule_of_an_insertion_has_the_kernels_message() {
    assert_eq!(
        enqueue_fault(|scx, p, flags| {
            scx.dsq_insert(p, MINE, MS, flags);
            scx.dsq_insert(p, MINE, MS, flags);
        }),
        "t[0] already direct-dispatched"
    );
    assert_eq!(
        enqueue_fault(|scx, _, flags| scx.dsq_insert(TaskId(2), MINE, MS, flags)),
        "scheduling for t[0] but trying to direct-dispatch t[2]"
    );
    assert_eq!(
        enqueue_fault(|scx, p, flags| scx.dsq_insert(p, DsqId::local_on(CpuId(1)), MS, flags)),
        "SCX_DSQ_LOCAL[_ON] target CPU 1 not allowed for t[3]"
    );
    assert_eq!(
        enqueue_fault(|scx, p, flags| scx.dsq_insert(p, DsqId::local_on(CpuId(9)), MS, flags)),
        "invalid CPU 9 in SCX_DSQ_LOCAL_ON dispatch verdict"
    );
    assert_eq!(
        enqueue_fault(|scx, p, flags| scx.dsq_insert_vtime(p, DsqId::GLOBAL, MS, 1, flags)),
        "cannot use vtime ordering for built-in DSQs"
    );
    assert_eq!(
        enqueue_fault(|scx, p, flags| match p {
            TaskId(0) => scx.dsq_insert(p, MINE, MS, flags),
            _ => scx.dsq_insert_vtime(p, MINE, MS, 1, flags),
        }),
        "DSQ ID 0x0000000000000007 already had FIFO-enqueued tasks"
    );
    assert_eq!(
        enqueue_fault(|scx, p, flags| match p {
            TaskId(0) => scx.dsq_insert_vtime(p, MINE, MS, 1, flags),
            _ => scx.dsq_insert(p, MINE, MS, flags),
        }),
        "DSQ ID 0x0000000000000007 already had PRIQ-enqueued tasks"
    );
    assert_eq!(enqueue_fault(|scx, _, _| scx.kick_cpu(CpuId(77), KickFlags::NONE)), "invalid CPU 77");
    assert_eq!(enqueue_fault(|scx, _, _| scx.error("no idea")), "no idea");
    assert_eq!(
        enqueue_fault(|scx, _, _| {
            scx.dsq_move_to_local(MINE);
        }),
        "scx_bpf_dsq_move_to_local() can only be called from ops.dispatch()"
    );
}

#[test]
fn a_cpu_that_does_not_exist_is_a_fault_of_select_cpu() {
    let mut host = host(Script { select_cpu: Some(|_, _, _| CpuId(64)), ..Script::default() }, 2);
    assert_eq!(wake(&mut host, 1), CpuId(0), "the task stays");
    assert_eq!(fault(&host).1, "invalid CPU 64 from ops.select_cpu()");
    assert!(host.waits(TaskId(1)));
}

#[test]
fn a_callback_that_works_without_end_is_stopped() {
    let enqueue: fn(&mut Scx, TaskId, EnqFlags) = |scx, p, flags| {
        while scx.dsq_nr_queued(MINE) == 0 && scx.slice(p) > Duration::ZERO {}
        scx.dsq_insert(p, MINE, MS, flags);
    };
    let mut host = host(Script { enqueue: Some(enqueue), ..Script::default() }, 1);
    let caught = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| wake(&mut host, 0)));
    let message = *caught.unwrap_err().downcast::<String>().unwrap();
    assert!(message.starts_with("script: ops.enqueue() does not end after"), "{message}");

    // One that ends by itself is an error without a panic.
    let long: fn(&mut Scx, TaskId, EnqFlags) = |scx, p, _| {
        (0..=MAX_WORK).for_each(|_| assert_eq!(scx.weight(p), 100));
    };
    let mut host = self::host(Script { enqueue: Some(long), ..Script::default() }, 1);
    wake(&mut host, 0);
    assert!(fault(&host).1.contains("calls of helpers in one callback"));
}

#[test]
fn a_batch_holds_so_many_insertions() {
    let dispatch: fn(&mut Scx, CpuId, Option<TaskId>) =
        |scx, _, _| (0..33).for_each(|_| scx.dsq_insert(TaskId(0), DsqId::LOCAL, MS, EnqFlags::NONE));
    let mut host = host(Script { dispatch: Some(dispatch), ..Script::default() }, 1);
    wake(&mut host, 0);
    host.dispatch(CpuId(0), None);
    assert_eq!(fault(&host).1, "dispatch buffer overflow");
    host.dispatch(CpuId(0), None);
    assert_eq!(local(&host, 0), [0], "the task that it kept goes on");
}

#[test]
fn a_task_that_is_dispatched_twice_is_dispatched_once() {
    let dispatch: fn(&mut Scx, CpuId, Option<TaskId>) = |scx, _, _| {
        scx.dsq_insert(TaskId(0), DsqId::LOCAL, MS, EnqFlags::NONE);
        scx.dsq_insert(TaskId(0), DsqId::LOCAL, MS, EnqFlags::NONE);
        scx.dsq_insert(TaskId(1), DsqId::LOCAL, MS, EnqFlags::NONE); // It sleeps.
    };
    let mut host = host(Script { dispatch: Some(dispatch), ..Script::default() }, 1);
    wake(&mut host, 0);
    host.dispatch(CpuId(0), None);
    assert_eq!((local(&host, 0), host.exit_info()), (vec![0], None));
}

#[test]
fn the_watchdog_finds_a_task_that_was_forgotten() {
    let mut host = host(Script { timeout: Some(MS * 100), ..Script::default() }, 1);
    wake(&mut host, 2); // The policy keeps it, and never dispatches.
    let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    host.set_now(at(50));
    assert_eq!(host.watchdog(), Some(at(100)));
    host.set_now(at(100));
    assert!(host.watchdog().is_some(), "the limit is not exceeded");
    host.set_now(at(150));
    assert_eq!(host.watchdog(), None);
    assert_eq!(fault(&host).1, "t[2] failed to run for 0.150s");
    assert!(host.exit_info().unwrap().to_string().contains("(runnable task stall)"));
    host.dispatch(CpuId(0), None);
    assert_eq!(local(&host, 0), [2], "it runs now");
}

#[test]
fn a_change_of_a_task_does_not_make_it_wait_anew() {
    let mut host = host(Script { timeout: Some(MS * 100), ..Script::default() }, 1);
    wake(&mut host, 2);
    host.set_now(Instant::from_nanos(90_000_000));
    host.dequeue(TaskId(2), Departure::Change, false);
    host.enqueue(TaskId(2), CpuId(0), Arrival::Again { moves: false }, false);
    host.set_now(Instant::from_nanos(101_000_000));
    assert_eq!(host.watchdog(), None);
}

#[test]
fn the_order_of_callbacks_over_the_life_of_a_task() {
    let script = Script {
        enqueue: Some(|scx, p, flags| scx.dsq_insert(p, MINE, MS, flags)),
        dispatch: Some(|scx, _, _| assert!(scx.dsq_move_to_local(MINE))),
        ..Script::default()
    };
    let log = Arc::clone(&script.log);
    let mut host = host(script, 1);
    let p = TaskId(1);
    wake(&mut host, 1);
    host.dispatch(CpuId(0), None);
    host.set_next(p, CpuId(0));
    host.charge(p, MS);
    assert!(host.tick(p), "the slice is over");
    wake(&mut host, 2);
    host.dispatch(CpuId(0), Some(p));
    assert!(!host.keeps(CpuId(0), p));
    host.put_prev(p, CpuId(0), false);
    host.set_next(TaskId(2), CpuId(0));
    host.dequeue(TaskId(2), Departure::Sleep, true);
    let expected = [
        "runnable 1",
        "enqueue 1 401",
        "dequeue 1 0", // It leaves the policy's custody.
        "running 1",
        "runnable 2",
        "enqueue 2 401",
        "dequeue 2 0",
        "stopping 1 true",
        "enqueue 1 0",
        "running 2",
        "stopping 2 false",
        "quiescent 2",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
}

#[test]
fn a_current_task_with_slice_left_goes_to_the_head_of_its_local_queue() {
    let insert: fn(&mut Scx, TaskId, EnqFlags) = |scx, p, flags| scx.dsq_insert(p, DsqId::LOCAL, MS * 2, flags);
    let mut host = host(Script { enqueue: Some(insert), ..Script::default() }, 1);
    for id in [0, 1, 2] {
        wake(&mut host, id);
    }
    host.set_next(TaskId(0), CpuId(0));
    host.charge(TaskId(0), MS);
    host.put_prev(TaskId(0), CpuId(0), false); // A class above takes the CPU.
    assert_eq!(local(&host, 0), [0, 1, 2]);
    assert_eq!(host.scx().slice(TaskId(0)), MS);
    host.set_next(TaskId(0), CpuId(0));
    host.charge(TaskId(0), MS);
    host.put_prev(TaskId(0), CpuId(0), false);
    assert_eq!(local(&host, 0), [1, 2, 0], "its slice is over");
}

#[test]
fn preempt_ends_the_turn_of_the_current_task() {
    let insert: fn(&mut Scx, TaskId, EnqFlags) = |scx, p, flags| {
        let more = if p == TaskId(1) { EnqFlags::PREEMPT } else { EnqFlags::NONE };
        scx.dsq_insert(p, DsqId::LOCAL, MS * 2, flags | more);
    };
    let mut host = host(Script { enqueue: Some(insert), ..Script::default() }, 1);
    for id in [0, 2] {
        wake(&mut host, id);
    }
    host.set_next(TaskId(0), CpuId(0));
    host.take_effects();
    wake(&mut host, 1);
    assert_eq!(host.take_effects(), [Effect::Resched(CpuId(0))]);
    assert_eq!(local(&host, 0), [1, 2], "it is first");
    assert_eq!(host.scx().slice(TaskId(0)), Duration::ZERO);
    assert!(!host.keeps(CpuId(0), TaskId(0)));
}

#[test]
fn the_last_task_runs_on_unless_the_policy_wants_to_hear_of_it() {
    for flags in [OpsFlags::NONE, OpsFlags::ENQ_LAST] {
        let insert: fn(&mut Scx, TaskId, EnqFlags) = |scx, p, flags| {
            if !flags.has(EnqFlags::LAST) {
                scx.dsq_insert(p, DsqId::LOCAL, MS, flags);
            }
        };
        let mut host = host(Script { flags, enqueue: Some(insert), ..Script::default() }, 1);
        wake(&mut host, 0);
        host.set_next(TaskId(0), CpuId(0));
        host.charge(TaskId(0), MS);
        assert_eq!(host.keeps(CpuId(0), TaskId(0)), flags == OpsFlags::NONE);
        if flags == OpsFlags::ENQ_LAST {
            host.put_prev(TaskId(0), CpuId(0), true);
            assert_eq!((local(&host, 0), host.waits(TaskId(0))), (vec![], true), "the policy keeps it");
        }
    }
}

#[test]
fn a_kick_of_an_idle_cpu_only() {
    let kick: fn(&mut Scx, TaskId, EnqFlags) = |scx, _, _| {
        scx.kick_cpu(CpuId(0), KickFlags::IDLE);
        scx.kick_cpu(CpuId(1), KickFlags::IDLE);
    };
    let mut host = host(Script { enqueue: Some(kick), ..Script::default() }, 2);
    host.update_idle(CpuId(0), false);
    wake(&mut host, 0);
    assert_eq!(host.take_effects(), [Effect::WakeIdle(CpuId(1))]);
}

#[test]
fn a_chosen_idle_cpu_is_not_chosen_again_until_it_has_run() {
    let select: fn(&mut Scx, TaskId, CpuId) -> CpuId = |scx, p, prev| scx.select_cpu_dfl(p, prev, WakeFlags::TTWU).0;
    let mut host = host(Script { select_cpu: Some(select), ..Script::default() }, 3);
    let chosen = [0, 1, 2, 3].map(|id| wake(&mut host, id).0);
    assert_eq!(chosen, [0, 1, 2, 0], "the last one finds none");
    host.update_idle(CpuId(1), true);
    assert_eq!(host.select_cpu(TaskId(0), CpuId(0), CpuId(0), WakeFlags::TTWU), CpuId(1));
}

#[test]
fn a_cpu_that_goes_offline_leaves_its_tasks_to_others() {
    let insert: fn(&mut Scx, TaskId, EnqFlags) =
        |scx, p, flags| scx.dsq_insert(p, DsqId::local_on(CpuId(1)), MS, flags);
    let mut host = host(Script { enqueue: Some(insert), ..Script::default() }, 2);
    wake(&mut host, 0);
    assert_eq!(local(&host, 1), [0]);
    host.set_online(CpuId(1), false);
    assert_eq!(local(&host, 1), [0; 0]);
    host.dispatch(CpuId(0), None);
    assert_eq!((local(&host, 0), host.exit_info()), (vec![0], None), "an offline CPU is no fault");
}

#[test]
fn a_queue_with_tasks_is_not_destroyed() {
    let insert: fn(&mut Scx, TaskId, EnqFlags) = |scx, p, flags| match p {
        TaskId(0) => scx.dsq_insert(p, MINE, MS, flags),
        _ => scx.destroy_dsq(MINE),
    };
    let mut host = host(Script { enqueue: Some(insert), ..Script::default() }, 2);
    wake(&mut host, 0);
    wake(&mut host, 1);
    assert_eq!(fault(&host).1, "attempting to destroy in-use dsq 0x0000000000000007 (nr=1)");
}

#[test]
fn moving_a_body_is_no_event() {
    let mut host = host(
        Script {
            enqueue: Some(|scx, p, flags| scx.dsq_insert(p, MINE, MS, flags)),
            dispatch: Some(|scx, _, _| assert!(scx.dsq_move_to_local(MINE))),
            ..Script::default()
        },
        2,
    );
    wake(&mut host, 0);
    host.dispatch(CpuId(1), None);
    assert_eq!((local(&host, 1), host.home(TaskId(0))), (vec![0], Some(CpuId(0))));
    let calls = host.calls();
    host.move_body(TaskId(0));
    host.dequeue(TaskId(0), Departure::Move, false);
    host.enqueue(TaskId(0), CpuId(1), Arrival::Again { moves: true }, false);
    assert_eq!((local(&host, 1), host.home(TaskId(0)), host.calls()), (vec![0], Some(CpuId(1)), calls));
}

#[test]
fn a_policy_is_loaded_in_bypass_and_gets_its_tasks_from_the_last_to_the_first() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let script = Script { log: Arc::clone(&log), ..Script::default() };
    let mut host = Host::unloaded(&Topology::flat(1).unwrap(), MS * 4);
    host.add_group(GroupId(1), GroupId::ROOT, 200);
    host.begin_load(Box::new(script.clone()));
    // The first runs, two wait, one sleeps.
    for id in 0..4 {
        host.add_task(TaskId(id), info(None), false);
    }
    host.enqueue(TaskId(0), CpuId(0), Arrival::Again { moves: false }, true);
    host.set_next(TaskId(0), CpuId(0));
    for id in [1, 2] {
        host.enqueue(TaskId(id), CpuId(0), Arrival::Again { moves: false }, false);
    }
    let taken = || core::mem::take(&mut *log.lock().unwrap());
    assert_eq!(taken(), ["runnable 0", "running 0", "runnable 1", "runnable 2"], "it is asked nothing");
    assert!(host.tick(TaskId(0)), "each tick ends a turn");
    host.end_load();
    let last_first = [
        "quiescent 2",
        "runnable 2",
        "enqueue 2 0",
        "quiescent 1",
        "runnable 1",
        "enqueue 1 0",
        "stopping 0 false",
        "quiescent 0",
        "runnable 0",
        "running 0",
    ];
    assert_eq!(taken(), last_first);
    assert_eq!(host.take_effects().last(), Some(&Effect::Resched(CpuId(0))));
    host.begin_unload();
    assert_eq!(host.scx().dsq_iter(DsqId::GLOBAL).collect::<Vec<_>>(), [TaskId(1), TaskId(2)]);
    for (id, is_current) in [(0, true), (1, false), (2, false)] {
        host.dequeue(TaskId(id), Departure::Change, is_current);
        host.remove_task(TaskId(id), false);
    }
    assert!(!host.has_runnable());
    host.end_unload();
    assert_eq!(host.exit_info().map(|exit| exit.kind), Some(ExitKind::Unreg));
    host.begin_load(Box::new(script));
    assert_eq!(host.exit_info(), None);
}

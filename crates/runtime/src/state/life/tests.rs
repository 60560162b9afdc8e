//! Tests of the transitions: each alone, in the sequences that threads make, and from every state
//! that is not its own.

use super::*;
use parking_lot::RawMutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use zerolag_core::{Clock, Config, CpusetId, Scheduler, TaskSpec};
use zerolag_model::{CpuId, GroupId, KernelVersion, SchedAttr, TaskId, Topology};

fn parcel() -> Parcel {
    let topology = Topology::flat(1).expect("one CPU");
    let mut scheduler: Scheduler<RawMutex> = Scheduler::new(Config::new(topology, KernelVersion::V6_18.settings()));
    scheduler.reserve_tasks(1);
    let spec = TaskSpec {
        id: TaskId(0),
        attr: SchedAttr::NORMAL,
        affinity: None,
        group: GroupId::ROOT,
        cpuset: CpusetId::default(),
        born_on: CpuId(0),
        process: None,
    };
    scheduler.create_task(Clock::at(Instant::ZERO), spec).expect("an admitted task")
}

fn new() -> Body {
    Body::new(parcel())
}

fn queued() -> Body {
    let mut body = new();
    assert!(matches!(body.take(), Some((_, Placement::Fork)))); // [1]
    body.place(); // [2]
    body
}

fn left(left: LeftAs) -> Body {
    let mut body = queued();
    body.forget_wakeup();
    body.leave(left, None);
    body
}

fn parked() -> Body {
    let mut body = left(LeftAs::Parked); // [3]
    assert!(!body.switch_away(Some(parcel()))); // [5]
    body
}

fn delayed() -> Body {
    let mut body = left(LeftAs::Delayed); // [3]
    assert!(!body.switch_away(None)); // [5]
    body
}

fn runner(mut body: Body) -> Body {
    body.run_on_turn(); // [11]
    body
}

fn detached(mut body: Body) -> Body {
    let tid = rustix::thread::gettid();
    body.detach(Instant::ZERO, tid, Instant::ZERO); // [15]
    body
}

#[test]
fn a_task_sleeps_and_is_woken() {
    let mut body = new();
    assert!(body.sleeps() && body.parcel().is_some());
    assert!(matches!(body.wake(), Woken::Place(_, Placement::Fork))); // [1]
    assert!(!body.is_notified(), "its first poll needs no note");
    body.place(); // [2]
    assert!(body.is_on_queue());
    body.leave(LeftAs::Parked, None); // [3]
    assert!(body.is_held_by_cpu() && !body.sleeps());
    assert!(!body.switch_away(Some(parcel()))); // [5]
    assert!(matches!(body.wake(), Woken::Place(_, Placement::Wakeup))); // [1]
    assert!(body.is_awake());
}

#[test]
fn a_wakeup_before_the_switch_leaves_a_note() {
    for kind in [LeftAs::Parked, LeftAs::Delayed] {
        let mut body = left(kind);
        assert!(matches!(body.wake(), Woken::Noted));
        let in_hand = (kind == LeftAs::Parked).then(parcel);
        assert!(body.switch_away(in_hand), "its CPU wakes it"); // [5]
    }
}

#[test]
fn owed_lag_is_paid_before_and_after_the_switch() {
    let mut body = delayed();
    assert!(matches!(body.wake(), Woken::OnQueue) && !body.is_notified());
    body.wake_on_queue(); // [7]
    assert!(body.is_on_queue() && body.is_awake());

    let mut body = delayed();
    body.pay_lag(parcel()); // [6]
    assert!(body.sleeps());

    let mut body = left(LeftAs::Delayed);
    body.pay_lag(parcel()); // [6]
    assert!(matches!(body.wake(), Woken::Noted), "its CPU has not switched away yet");
    assert!(body.switch_away(None)); // [5]
    assert!(body.sleeps());
}

#[test]
fn a_task_is_displaced_and_ends() {
    let mut body = left(LeftAs::Displaced); // [4]
    assert!(matches!(body.wake(), Woken::Noted));
    body.place(); // [2]
    body.leave(LeftAs::Dead, None); // [8]
    assert!(matches!(body.life(), Life::Dead) && matches!(body.wake(), Woken::Noted));
}

#[test]
fn an_owner_is_kicked_when_it_is_woken() {
    let mut body = queued();
    body.lend_turn(); // [9]
    assert!(body.is_on_queue() && body.is_owner());
    assert!(matches!(body.wake(), Woken::Kick) && body.is_notified());
    body.get_turn_back(); // [10]
    assert!(!body.is_owner() && body.is_awake());
}

#[test]
fn a_runner_blocks_ends_or_gets_a_turn() {
    for (body, why) in [(new(), Placement::Fork), (parked(), Placement::Wakeup)] {
        let mut body = runner(body); // [11]
        assert!(matches!(body.wake(), Woken::Noted));
        assert!(!body.block_runner(), "it was woken: it is polled again");
        assert!(body.block_runner() && body.sleeps()); // [12]
        assert!(matches!(body.take(), Some((_, placement)) if placement == why), "it has not been placed");
    }
    for (body, why) in [(new(), Placement::Fork), (parked(), Placement::Wakeup)] {
        let (_, placement) = runner(body).take_runner(); // [14]
        assert_eq!(placement, why);
    }
    let mut body = runner(parked());
    let _ = body.exit_runner(); // [13]
    assert!(matches!(body.life(), Life::Dead));
}

#[test]
fn a_detached_poll_is_not_woken_before_it_ends() {
    let mut body = detached(queued());
    assert!(matches!(body.wake(), Woken::Noted) && !body.is_awake(), "the scheduler makes it leave all the same");
    body.leave(LeftAs::Parked, Some(Duration::from_millis(3))); // [3]
    assert!(!body.switch_away(Some(parcel())), "its poll is not over"); // [5]
    let charge = Charge::ByThread(Some(Duration::from_millis(3)));
    assert_eq!(body.attach().map(|poll| (poll.since, poll.charge)), Some((Instant::ZERO, charge))); // [16]
    assert!(body.sleeps() && body.is_notified());
    assert!(body.attach().is_none());
}

#[test]
fn a_detached_poll_can_end_at_any_time() {
    let mut body = detached(queued());
    assert_eq!(
        body.attach().map(|poll| (poll.since, poll.charge)),
        Some((Instant::ZERO, Charge::ByCpu)),
        "before the task has left"
    ); // [16]
    body.leave(LeftAs::Delayed, None);
    assert!(!body.switch_away(None));

    let mut body = detached(queued());
    body.leave(LeftAs::Delayed, None);
    assert_eq!(
        body.attach().map(|poll| (poll.since, poll.charge)),
        Some((Instant::ZERO, Charge::ByThread(None))),
        "before the switch"
    ); // [16]
    assert!(body.is_held_by_cpu() && !body.switch_away(None) && body.is_delayed());

    let mut body = detached(runner(new()));
    assert_eq!(body.attach().map(|poll| (poll.since, poll.charge)), Some((Instant::ZERO, Charge::ByCpu))); // [16]
    assert!(matches!(body.take(), Some((_, Placement::Fork))));
}

#[test]
fn a_parcel_changes_where_it_is() {
    for mut body in [new(), parked(), runner(new()), runner(parked()), detached(runner(parked()))] {
        let before = format!("{:?}", std::mem::discriminant(body.life()));
        assert!(body.with_parcel(|_| parcel()));
        assert_eq!(format!("{:?}", std::mem::discriminant(body.life())), before);
    }
    for mut body in [queued(), delayed(), left(LeftAs::Parked), left(LeftAs::Dead), detached(queued())] {
        assert!(!body.with_parcel(|_| unreachable!("no parcel is here")));
    }
}

/// Every transition from every state: those of the diagram succeed, all others are errors.
#[test]
fn no_transition_is_made_from_a_foreign_state() {
    type Make = fn() -> Body;
    type Do = fn(&mut Body);
    let states: [(&str, Make); 13] = [
        ("New", new),
        ("Parked", parked),
        ("Queued", queued),
        ("LeavingInHand", || left(LeftAs::Parked)),
        ("LeavingQueued", || left(LeftAs::Delayed)),
        ("LeavingParked", || {
            let mut body = left(LeftAs::Delayed);
            body.pay_lag(parcel());
            body
        }),
        ("Delayed", delayed),
        ("Owner", || {
            let mut body = queued();
            body.lend_turn();
            body
        }),
        ("Runner", || runner(parked())),
        ("NewRunner", || runner(new())),
        ("Moving", || left(LeftAs::Displaced)),
        ("Dead", || left(LeftAs::Dead)),
        ("Detached", || detached(queued())),
    ];
    let transitions: [(&str, Do, &[&str]); 12] = [
        ("place", |body| body.place(), &["Moving"]),
        ("leave", |body| body.leave(LeftAs::Queued, None), &["Queued", "Detached"]),
        ("switch away in hand", |body| assert!(!body.switch_away(Some(parcel()))), &["LeavingInHand"]),
        ("switch away", |body| assert!(!body.switch_away(None)), &["LeavingQueued", "LeavingParked"]),
        ("pay lag", |body| body.pay_lag(parcel()), &["LeavingQueued", "Delayed"]),
        ("wake on queue", Body::wake_on_queue, &["Delayed"]),
        ("lend turn", Body::lend_turn, &["Queued"]),
        ("get turn back", Body::get_turn_back, &["Owner"]),
        ("run on turn", Body::run_on_turn, &["New", "Parked"]),
        ("block runner", |body| assert!(body.block_runner()), &["Runner", "NewRunner"]),
        ("take runner", |body| drop(body.take_runner()), &["Runner", "NewRunner"]),
        (
            "detach",
            |body| body.detach(Instant::ZERO, rustix::thread::gettid(), Instant::ZERO),
            &["Queued", "Runner", "NewRunner"],
        ),
    ];
    for (what, make, legal) in transitions {
        let may = states.iter().filter(|(_, state)| {
            let mut body = state();
            catch_unwind(AssertUnwindSafe(|| make(&mut body))).is_ok()
        });
        let may: Vec<_> = may.map(|(name, _)| *name).collect();
        assert_eq!(may, legal, "{what}");
    }
}

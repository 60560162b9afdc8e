//! Each rule of the rt-app grammar, from text to program. `docs/reference/rt-app.md` states the
//! rules.

use zerolag_model::{DlParams, Duration, FairPolicy, Nice, RtPriority, SchedAttr, Topology};
use zerolag_workload::program::{Action, AffinityChange, Program, ResourceId, ResourceKind, TimerMode, TimerRef};
use zerolag_workload::rtapp::RUNTIME_CHUNK;
use zerolag_workload::{Dist, DuplicatePolicy, LoadOptions, Scenario, load};

fn read(text: &str) -> Result<Scenario, String> {
    load("f.json", text.as_bytes(), &LoadOptions::default()).map_err(|errors| errors.to_string())
}

/// Loads a file whose tasks are `tasks`.
fn tasks(tasks: &str) -> Program {
    read(&format!("{{\"tasks\":{{{tasks}}}}}")).unwrap_or_else(|errors| panic!("{errors}")).program
}

/// Returns the first line of the refusal of a file whose tasks are `tasks`.
fn refused(tasks: &str) -> String {
    let errors = read(&format!("{{\"tasks\":{{{tasks}}}}}")).expect_err("refused");
    errors.lines().next().unwrap_or_default().to_string()
}

/// Returns the warnings and notes of a file whose tasks are `tasks`.
fn said(tasks: &str) -> String {
    read(&format!("{{\"tasks\":{{{tasks}}}}}")).unwrap_or_else(|errors| panic!("{errors}")).warnings.to_string()
}

fn us(us: u64) -> Dist {
    Dist::Constant(Duration::from_micros(us))
}

fn fifo(priority: i64) -> SchedAttr {
    SchedAttr::fifo_at(priority)
}

fn nice(nice: i64) -> SchedAttr {
    SchedAttr::nice(Nice::new(nice).expect("-20..=19"))
}

const R0: ResourceId = ResourceId(0);
const R1: ResourceId = ResourceId(1);

#[test]
fn every_event_becomes_its_action_in_order_of_the_text() {
    let program = tasks(
        r#""a": {
            "run": 1, "runtime1": 2, "sleepy": 3, "memory": 20000, "iorun": 10000,
            "memrun": {"type": "chase", "size": 4096, "count": 7},
            "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "sync": {"ref": "c", "mutex": "m"}, "unlock": "m",
            "signal": "c", "broadcast_it": "c", "barrier": "b",
            "timer": {"ref": "unique", "period": 4}, "timer_x": {"ref": "t", "period": 5, "mode": "absolute"},
            "resume": "a", "suspend": null, "yield": 1, "fork": "b", "sem_post": "s", "sem_wait": "s"
        }, "b": {"instance": 0, "run": 1}"#,
    );
    let (m, c, b, t, a, s) = (R0, R1, ResourceId(2), ResourceId(3), ResourceId(4), ResourceId(5));
    let timer = |timer, period, mode| Action::Timer { timer, period: us(period), mode };
    let expected = [
        Action::Run(us(1)),
        Action::Spin { wall: us(2), chunk: RUNTIME_CHUNK },
        Action::Sleep(us(3)),
        Action::Run(us(2)),
        Action::Run(us(1)),
        Action::Run(Dist::Constant(Duration::from_nanos(700))),
        Action::Lock(m),
        Action::Wait { condition: c, mutex: m },
        Action::Sync { condition: c, mutex: m },
        Action::Unlock(m),
        Action::Signal(c),
        Action::Broadcast(c),
        Action::Barrier(b),
        timer(TimerRef::Own(0), 4, TimerMode::Relative),
        timer(TimerRef::Shared(t), 5, TimerMode::Absolute),
        Action::Resume(a),
        Action::Suspend(a),
        Action::Yield,
        Action::Fork(1),
        Action::SemPost(s),
        Action::SemWait(s),
    ];
    assert_eq!(program.tasks[0].phases[0].actions, expected);
    let kinds: Vec<ResourceKind> = program.resources.iter().map(|resource| resource.kind.clone()).collect();
    assert_eq!(
        kinds,
        [
            ResourceKind::Mutex { inherit: false },
            ResourceKind::Condition,
            ResourceKind::Barrier { parties: 1 },
            ResourceKind::Timer,
            ResourceKind::SuspendPoint,
            ResourceKind::Semaphore { initial: 0 },
        ]
    );
}

#[test]
fn loops_follow_the_table() {
    let turns = |task: &str| {
        let task = &tasks(&format!("\"a\": {{{task}}}")).tasks[0];
        (task.turns, task.phases[0].loops)
    };
    assert_eq!(turns(r#""run": 1"#), (None, 1));
    assert_eq!(turns(r#""run": 1, "loop": -1"#), (None, 1));
    assert_eq!(turns(r#""run": 1, "loop": 0"#), (None, 1));
    assert_eq!(turns(r#""run": 1, "loop": 7"#), (Some(1), 7));
    assert_eq!(turns(r#""phases": {"p": {"run": 1}}"#), (None, 1));
    assert_eq!(turns(r#""loop": 0, "phases": {"p": {"run": 1}}"#), (Some(0), 1));
    assert_eq!(turns(r#""loop": 2, "phases": {"p": {"loop": 3, "run": 1}}"#), (Some(2), 3));
    assert_eq!(turns(r#""phases": {"p": {"loop": -1, "run": 1}}"#), (None, u64::MAX));
    assert_eq!(
        said(r#""a": {"phases": {"p": {"loop": 0, "run": 1}, "q": {"run": 1}}}"#),
        "f.json:1:42: warning: phase \"p\" never ends: those after it are not reached"
    );
}

#[test]
fn attributes_stick_from_phase_to_phase() {
    let program = tasks(
        r#""a": {"policy": "SCHED_FIFO", "priority": 5, "phases": {
            "keeps": {"run": 1},
            "cpus alone": {"cpus": [1], "run": 1},
            "priority alone": {"priority": 7, "run": 1},
            "policy alone": {"policy": "SCHED_RR", "run": 1},
            "fair": {"policy": "SCHED_OTHER", "run": 1},
            "nice": {"priority": -3, "run": 1},
            "slice alone": {"dl-runtime": 3000, "run": 1},
            "slice": {"priority": -3, "dl-runtime": 3000, "run": 1},
            "slice sticks": {"priority": 4, "run": 1}
        }}"#,
    );
    let slice = Some(Duration::from_millis(3));
    let fair = |nice| SchedAttr::Fair { policy: FairPolicy::Other, nice: Nice::new(nice).expect("in range"), slice };
    let rr = SchedAttr::rr(RtPriority::new(10).expect("in range"));
    let attrs: Vec<Option<SchedAttr>> = program.tasks[0].phases.iter().map(|phase| phase.attr).collect();
    assert_eq!(program.tasks[0].attr, fifo(5));
    assert_eq!(
        attrs,
        [None, None, Some(fifo(7)), Some(rr), Some(nice(0)), Some(nice(-3)), None, Some(fair(-3)), Some(fair(4))]
    );
}

#[test]
fn defaults_come_from_the_policy() {
    let attr = |task: &str, policy: &str| {
        let text =
            format!("{{\"global\":{{\"default_policy\":\"{policy}\"}},\"tasks\":{{\"a\":{{\"run\":1{task}}}}}}}");
        read(&text).unwrap_or_else(|errors| panic!("{errors}")).program.tasks[0].attr
    };
    assert_eq!(attr("", "SCHED_OTHER"), SchedAttr::NORMAL);
    assert_eq!(attr("", "SCHED_FIFO"), fifo(10));
    assert_eq!(attr(",\"priority\":3", "SCHED_FIFO"), fifo(3));
    assert_eq!(attr(",\"priority\":-7", "SCHED_OTHER"), nice(-7));
    let ms = Duration::from_millis;
    let deadline =
        |runtime, deadline, period| SchedAttr::Deadline(DlParams::new(ms(runtime), ms(deadline), ms(period)));
    assert_eq!(attr(",\"dl-runtime\":2000", "SCHED_DEADLINE"), deadline(2, 2, 2));
    assert_eq!(attr(",\"dl-runtime\":2000,\"dl-period\":9000", "SCHED_DEADLINE"), deadline(2, 9, 9));
    assert_eq!(
        attr(",\"dl-runtime\":2000,\"dl-period\":9000,\"dl-deadline\":5000", "SCHED_DEADLINE"),
        deadline(2, 5, 9)
    );
    // The legacy names.
    assert_eq!(attr(",\"runtime\":2000,\"period\":9000,\"deadline\":5000", "SCHED_DEADLINE"), deadline(2, 5, 9));
}

#[test]
fn an_event_named_runtime_asks_for_a_slice_too() {
    let program = tasks(r#""a": {"runtime": 1000}"#);
    let slice = Some(Duration::from_millis(1));
    assert_eq!(program.tasks[0].attr, SchedAttr::Fair { policy: FairPolicy::Other, nice: Nice::ZERO, slice });
    assert!(said(r#""a": {"runtime": 1000}"#).contains("\"runtime\" also asks for a slice of 1ms for task \"a\""));
    assert_eq!(tasks(r#""a": {"runtime1": 1000}"#).tasks[0].attr, SchedAttr::NORMAL);
    assert!(
        said(r#""a": {"run": 1, "dl-runtime": 200000}"#)
            .contains("slice 200ms is outside 100us..=100ms: it becomes 100ms")
    );
}

#[test]
fn a_phase_without_cpus_goes_back_to_the_tasks() {
    let affinities = |task: &str| {
        let phases = r#""phases": {"p": {"run": 1}, "q": {"cpus": [2], "run": 1}, "r": {"run": 1}}"#;
        let program = tasks(&format!("\"a\": {{{task} {phases}}}"));
        let shown = program.tasks[0].phases.iter().map(|phase| match &phase.affinity {
            AffinityChange::Keep => "keep".to_string(),
            AffinityChange::Reset => "reset".to_string(),
            AffinityChange::Set(cpus) => cpus.to_string(),
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(affinities(r#""cpus": [0, "1"],"#), ["0-1", "2", "0-1"]);
    assert_eq!(affinities(""), ["reset", "2", "reset"]);
    let program = tasks(r#""a": {"cpus": [3], "phases": {"p": {"run": 1}}}"#);
    assert_eq!(program.tasks[0].phases[0].affinity, AffinityChange::Keep);
    assert_eq!(program.tasks[0].affinity.as_ref().map(ToString::to_string), Some("3".into()));
}

#[test]
fn groups_stick_and_hold_fair_tasks_only() {
    let program = tasks(r#""a": {"phases": {"p": {"taskgroup": "/x/y", "run": 1}, "q": {"taskgroup": "", "run": 1}}}"#);
    let groups: Vec<_> = program.tasks[0].phases.iter().map(|phase| phase.group).collect();
    assert_eq!(groups, [Some(1), None]);
    assert_eq!(
        refused(r#""a": {"taskgroup": "/x", "phases": {"p": {"run": 1}, "q": {"policy": "SCHED_FIFO", "run": 1}}}"#),
        "f.json:1:70: error: a task in a task group cannot be SCHED_FIFO; groups hold fair tasks"
    );
    assert_eq!(
        refused(r#""a": {"taskgroup": "x", "run": 1}"#),
        "f.json:1:30: error: group `x` does not start with `/`"
    );
}

#[test]
fn a_timer_has_one_mode() {
    let timer = |reference: &str| format!(r#"{{"ref": "{reference}", "period": 1000}}"#);
    let absolute = |reference: &str| format!(r#"{{"ref": "{reference}", "period": 1000, "mode": "absolute"}}"#);
    let program = tasks(&format!(
        r#""a": {{"timer": {}, "timer1": {}, "timer2": {}, "timer3": {}}}, "b": {{"timer": {}, "timer1": {}}}"#,
        timer("t"),
        timer("unique"),
        timer("unique1"),
        absolute("unique"),
        absolute("t"),
        timer("unique"),
    ));
    let modes = |task: usize| -> Vec<(TimerRef, TimerMode)> {
        let timers = program.tasks[task].phases[0].actions.iter().filter_map(|action| match action {
            Action::Timer { timer, mode, .. } => Some((*timer, *mode)),
            _ => None,
        });
        timers.collect()
    };
    let (own, shared) = (TimerRef::Own, TimerRef::Shared(R0));
    let (absolute, relative) = (TimerMode::Absolute, TimerMode::Relative);
    assert_eq!(modes(0), [(shared, absolute), (own(0), absolute), (own(1), relative), (own(0), absolute)]);
    assert_eq!(modes(1), [(shared, absolute), (own(0), relative)]);
}

#[test]
fn a_barrier_waits_for_all_instances_of_all_references() {
    let program =
        tasks(r#""a": {"instance": 3, "barrier": "b", "run": 1, "barrier1": "b"}, "b": {"barrier": "b", "run": 1}"#);
    assert_eq!(program.resources[0].kind, ResourceKind::Barrier { parties: 7 });
    assert!(
        refused(r#""a": {"instance": 0, "barrier": "b", "run": 1}"#)
            .contains("task \"a\" has no instances and cannot wait")
    );
    assert!(
        refused(r#""a": {"barrier": "b", "run": 1, "fork": "a"}"#).contains("task \"a\" is forked and cannot wait")
    );
}

#[test]
fn suspend_is_by_the_tasks_own_name() {
    let program = tasks(r#""a": {"instance": 2, "suspend": "", "run": 1}, "b": {"resume": "a", "run": 1}"#);
    assert_eq!(program.tasks[0].phases[0].actions[0], Action::Suspend(R0));
    assert_eq!(program.tasks[1].phases[0].actions[0], Action::Resume(R0));
    let warnings = said(r#""a": {"suspend": "x", "run": 1}, "b": {"resume": "x", "run": 1}"#);
    assert!(warnings.contains("\"suspend\": \"x\" is ignored: a task suspends itself as \"a\""), "{warnings}");
    assert!(warnings.contains("nothing ever resumes \"a\""), "{warnings}");
}

#[test]
fn a_suspend_point_whose_parts_are_used_is_written_out() {
    let program = tasks(r#""a": {"suspend": "a", "run": 1}, "b": {"signal": "a", "run": 1, "resume": "a"}"#);
    let condition = ResourceId(1);
    assert_eq!(program.resources[1].kind, ResourceKind::Condition);
    let mutex = ResourceId(2);
    assert_eq!(
        program.tasks[0].phases[0].actions[..3],
        [Action::Lock(mutex), Action::Wait { condition, mutex }, Action::Unlock(mutex)]
    );
    assert_eq!(program.tasks[1].phases[0].actions[3], Action::Broadcast(condition));
}

#[test]
fn global_says_how_long_and_whether_locks_inherit() {
    let global = |global: &str| {
        read(&format!(
            "{{\"global\": {{{global}}}, \"tasks\": {{\"a\": {{\"lock\": \"m\", \"run\": 1, \"unlock\": \"m\"}}}}}}"
        ))
        .unwrap_or_else(|errors| panic!("{errors}"))
    };
    assert_eq!(global("\"duration\": 6").duration, Some(Duration::from_secs(6)));
    assert_eq!(global("\"duration\": -1").duration, None);
    assert_eq!(global("\"duration\": 0").duration, None);
    let inheriting = global("\"pi_enabled\": true").program.resources[0].kind.clone();
    assert_eq!(inheriting, ResourceKind::Mutex { inherit: true });
    let notes = global("\"gnuplot\": true, \"calibration\": \"CPU0\", \"frag\": 1").warnings.to_string();
    assert!(notes.contains("note: no effect on a simulation: gnuplot, calibration"), "{notes}");
    assert!(notes.contains("warning: unknown key \"frag\" is ignored"), "{notes}");
}

#[test]
fn duplicates_follow_the_policy() {
    let runs = |duplicates| {
        let options = LoadOptions { duplicates, ..LoadOptions::default() };
        let text = r#"{"tasks": {"a": {"run": 1, "sleep": 2, "run": 3}}}"#;
        load("f.json", text.as_bytes(), &options).map(|scenario| {
            assert_eq!(scenario.warnings.len(), 1);
            scenario.program.tasks[0].phases[0].actions.clone()
        })
    };
    let (run, sleep) = (|time| Action::Run(us(time)), Action::Sleep(us(2)));
    assert_eq!(runs(DuplicatePolicy::Workgen).expect("kept"), [run(1), sleep.clone(), run(3)]);
    assert_eq!(runs(DuplicatePolicy::JsonC).expect("replaced"), [run(3), sleep]);
    assert!(runs(DuplicatePolicy::Error).is_err());
    let phases = tasks(r#""a": {"phases": {"p": {"run": 1}, "p": {"run": 2}}}"#);
    let names: Vec<&str> = phases.tasks[0].phases.iter().map(|phase| &*phase.name).collect();
    assert_eq!(names, ["p", "p1"]);
}

#[test]
fn values_are_checked_as_rt_app_checks_them() {
    for (task, error) in [
        (r#""run": 1e3"#, "1:24: error: \"run\" is a whole number, not a number with a fraction or exponent"),
        (r#""run": "10""#, "1:24: error: \"run\" is a whole number, not a string"),
        (r#""run": -1"#, "1:24: error: \"run\": -1 us is outside 0..=2147483647 us"),
        (r#""run": 99999999999"#, "1:24: error: \"run\": 99999999999 us is outside 0..=2147483647 us"),
        (r#""run": 99999999999999999999"#, "1:24: error: \"run\": this number us is outside 0..=2147483647 us"),
        (r#""run": 1, "cpus": [4]"#, "1:36: error: CPU 4 does not exist: the machine has CPUs 0..=3"),
        (r#""run": 1, "cpus": 1"#, "1:35: error: \"cpus\" is an array of CPU numbers, not a whole number"),
        (r#""run": 1, "cpus": []"#, "1:35: error: \"cpus\" is empty: the task could run nowhere"),
        (r#""run": 1, "cpus": ["x"]"#, "1:36: error: \"cpus\": \"x\" is not a CPU number"),
        (r#""run": 1, "instance": -1"#, "1:39: error: \"instance\": -1 is outside 0..=2147483647"),
        (
            r#""run": 1, "instance": 1000001"#,
            "1:39: error: with these 1000001 instances there are 1000001 tasks; at most 1000000 are simulated",
        ),
        (r#""run": 1, "policy": "SCHED_NORMAL""#, "1:37: error: unknown policy \"SCHED_NORMAL\""),
        (r#""run": 1, "priority": 20"#, "1:39: error: \"priority\": nice 20 is outside -20..=19"),
        (
            r#""run": 1, "policy": "SCHED_RR", "priority": 0"#,
            "1:61: error: \"priority\": real-time priority 0 is outside 1..=99",
        ),
        (r#""run": 1, "policy": "SCHED_DEADLINE""#, "1:16: error: SCHED_DEADLINE without a runtime"),
        (r#""delay": 1"#, "1:16: error: there are no events here"),
        (r#""fork": "x""#, "1:25: error: \"fork\": there is no task \"x\""),
        (r#""phases": {}"#, "1:27: error: task \"a\" has no phases"),
        (
            r#""exec": 5000, "period": 9000"#,
            "1:17: error: task \"a\" is written in rt-app's old grammar (\"exec\"), which rt-app itself no longer reads",
        ),
        (
            r#""lock_order": ["m"]"#,
            "1:17: error: task \"a\" is written in rt-app's old grammar (\"lock_order\"), which rt-app itself no longer reads",
        ),
        (r#""memrun": {"type": "walk", "size": 1, "count": 1}"#, "1:36: error: \"type\": \"walk\" is unknown"),
        (r#""memrun": {"type": "read"}"#, "1:27: error: memrun without \"size\""),
    ] {
        assert_eq!(refused(&format!("\"a\": {{{task}}}")), format!("f.json:{error}"), "{task}");
    }
    assert_eq!(refused(r#""a": [1]"#), "f.json:1:16: error: \"a\" is an object, not an array");
    let errors = read(r#"{"tasks": [1]}"#).expect_err("an array");
    assert_eq!(errors, "f.json:1:11: error: \"tasks\" is an object, not an array");
    assert!(read("{\"tasks\": {}}").expect("allowed").program.tasks.is_empty());
}

#[test]
fn more_cpus_make_more_cpus_valid() {
    let options = LoadOptions { machine_override: Topology::flat(8).ok(), ..LoadOptions::default() };
    let text = br#"{"tasks": {"a": {"run": 1, "cpus": [7]}}}"#;
    let scenario = load("f.json", text, &options).expect("CPU 7 of 8");
    assert_eq!(scenario.machine_or_default().nr_cpus(), 8);
}

#[test]
fn what_must_go_wrong_is_found_before_it_does() {
    for (task, error) in [
        (r#""unlock": "m", "run": 1"#, "1:17: error: mutex \"m\" is unlocked but not held here"),
        (r#""lock": "m", "run": 1"#, "1:17: error: mutex \"m\" is already held here: the task waits for itself"),
        (r#""wait": {"ref": "c", "mutex": "m"}"#, "1:17: error: mutex \"m\" is not held at this wait on \"c\""),
        (r#""yield": 1"#, "1:11: error: task \"a\" loops without time passing"),
        (r#""run": 0"#, "1:11: error: task \"a\" loops without time passing"),
        (
            r#""loop": 1000000000, "signal": "c""#,
            "1:11: error: phase \"a\" loops 1000000000 times without time passing",
        ),
        (
            r#""loop": 5, "phases": {"p": {"loop": -1, "yield": 1}}"#,
            "1:39: error: phase \"p\" loops 18446744073709551615 times without time passing",
        ),
    ] {
        assert_eq!(refused(&format!("\"a\": {{{task}}}")), format!("f.json:{error}"), "{task}");
    }
    let held = said(r#""a": {"loop": 1, "lock": "m", "run": 1}"#);
    assert!(held.contains("warning: task \"a\" ends while it holds mutex \"m\""), "{held}");
    let stuck = said(r#""a": {"sem_wait": "s", "run": 1}"#);
    assert!(stuck.contains("nothing ever raises semaphore \"s\""), "{stuck}");
    let declared =
        read(r#"{"resources": {"q": {"type": "wait"}}, "tasks": {"a": {"lock": "q", "run": 1, "unlock": "q"}}}"#);
    let warnings = declared.expect("two things").warnings.to_string();
    assert!(
        warnings.contains("\"q\" is declared as a condition and used as a mutex: these are two things"),
        "{warnings}"
    );
}

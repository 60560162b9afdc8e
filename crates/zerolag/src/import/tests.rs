use super::extract::{Step, extract};
use super::*;
use zerolag_model::{CpuId, Duration};
use zerolag_trace::Source;
use zerolag_trace::script::Script;

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// `a` computes 3 ms, wakes `b` and sleeps; `b` computes 2 ms, in two turns, and wakes `a`. A timer
/// wakes `c` while the CPU idles.
fn ping_pong() -> Trace {
    let mut script = Script::new(1);
    let (a, b, c) = (script.fair("a"), script.fair("b"), script.fair("c"));
    script.meta.source = Source::Text;
    script.wake(1000, 0, a).run(1000, 0, None, Some(a));
    script.wake(4000, 0, b).run(4000, 0, Some(a), Some(b)).preempt(5000, 0, b, c).run(6000, 0, Some(c), Some(b));
    script.wake(7000, 0, a).run(7000, 0, Some(b), Some(a)).run(8000, 0, Some(a), None);
    script.wake(9000, 0, c).run(9000, 0, None, Some(c)).run(9500, 0, Some(c), None);
    script.end(10_000)
}

#[test]
fn demands_and_wakers_are_extracted() {
    let tasks = extract(&ping_pong());
    let (a, b, c) = (TaskId(0), TaskId(1), TaskId(2));
    let steps = |task: TaskId| tasks.iter().find(|found| found.id == task).expect("extracted").steps.clone();
    assert_eq!(tasks[0].delay, us(1000));
    assert_eq!(steps(a), [Step::Run(us(3000)), Step::Wake(b), Step::Wait, Step::Run(us(1000))]);
    assert_eq!(steps(b), [Step::Wait, Step::Run(us(2000)), Step::Wake(a)]);
    // It waited at the start of the trace; a timer wakes it after 3 ms of sleep.
    assert_eq!(steps(c), [Step::Run(us(1000)), Step::Sleep(us(3000)), Step::Run(us(500))]);
}

#[test]
fn a_waking_that_cancels_a_sleep_is_no_semaphore() {
    let mut script = Script::new(2);
    let (a, b) = (script.fair("a"), script.fair("b"));
    script.meta.source = Source::Text;
    script.run(0, 0, None, Some(a)).run(0, 1, None, Some(b));
    // `b` wakes `a`, which runs, and is then preempted.
    let waking = |task| zerolag_model::TraceEvent::Waking {
        task,
        prio: zerolag_model::SchedAttr::NORMAL.prio(),
        target: CpuId(0),
        new: false,
    };
    script.event(1000, 1, waking(a)).preempt(2000, 0, a, b);
    let tasks = extract(&script.end(5000));
    assert!(tasks.iter().all(|task| task.steps.iter().all(|step| matches!(step, Step::Run(_)))), "{tasks:?}");
}

#[test]
fn even_wakings_are_a_timer() {
    let mut script = Script::new(1);
    let a = script.fair("a");
    script.meta.source = Source::Text;
    for turn in 0..10 {
        let at = turn * 10_000;
        // The demand varies, the distance does not.
        script.wake(at, 0, a).run(at, 0, None, Some(a)).run(at + 1000 + turn * 100, 0, Some(a), None);
    }
    let tasks = extract(&script.end(100_000));
    assert_eq!(tasks[0].steps[1], Step::Timer(us(10_000)));
    let scenario = import(&script.end(100_000), "x", &Options::default()).scenario;
    assert!(scenario.contains("timer = { period = \"10000000ns\", mode = \"absolute\" }"), "{scenario}");
}

#[test]
fn the_base_error_of_a_simple_trace_is_small() {
    let trace = ping_pong();
    let import = import(&trace, "x\u{1b}]0;", &Options::default());
    assert!(!import.scenario.contains('\u{1b}'));
    let base = base_error(&trace, &import).expect("a scenario");
    let (all, apart) = base.run();
    assert_eq!(all, us(7500));
    assert!(apart < us(100), "{base}");
}

#[test]
fn a_real_recording_is_repeated() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/data/build-2cpu.perf.data.gz");
    let trace = zerolag_trace::open(std::path::Path::new(path)).expect("a recording");
    let import = import(&trace, "build", &Options::default());
    assert_eq!(import.kernel.name(), "6.18");
    let base = base_error(&trace, &import).expect("a scenario");
    let (all, apart) = base.run();
    assert!(apart.as_nanos() * 100 <= all.as_nanos() * 5, "CPU time: at most 5 % apart\n{base}");
    // The same bytes again.
    assert_eq!(super::import(&trace, "build", &Options::default()), import);
}

#[test]
fn limits_and_odd_names_are_written_as_toml() {
    let mut trace = ping_pong();
    if let zerolag_model::TraceEvent::TaskNew { name, .. } = &mut trace.records[0].event {
        *name = "we\"b\\ ${x}".into();
    }
    let pair = |a: &str, b: &str| vec![(a.to_owned(), b.to_owned())];
    let kernel = KernelVersion::from_name("6.1");
    let options = Options { groups: pair("b", "/x/y"), limits: pair("/x/y", "50000 100000"), kernel };
    let import = import(&trace, "x", &options);
    assert!(import.scenario.contains("[group.\"/x/y\"]\n\"cpu.max\" = \"50000 100000\""), "{}", import.scenario);
    assert_eq!(import.scenario.matches("\ngroup = \"/x/y\"").count(), 1, "{}", import.scenario);
    assert!(import.scenario.contains("kernel = \"6.1\""));
    assert!(base_error(&trace, &import).is_ok(), "{}", import.scenario);
}

#[test]
fn the_nearest_kernel_is_not_later() {
    for (release, kernel) in
        [("6.18.44-x", "6.18"), ("6.17.1", "6.12"), ("6.1.0-40-amd64", "6.1"), ("7.0", "7.0"), ("7.3.4", "7.2")]
    {
        assert_eq!(nearest(release).name(), kernel, "{release}");
    }
    assert_eq!(nearest(""), KernelVersion::default());
}

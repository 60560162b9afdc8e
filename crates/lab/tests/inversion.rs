//! Inversion through throttling: the experiment of 2012 and the recorded kernels keep their shape,
//! and `explain` names the cause.

use std::fmt::Write;
use std::path::Path;
use zerolag::check::{Options as Rules, check};
use zerolag::model::settings::{Preempt, Throttle};
use zerolag::model::{Duration, KernelVersion, TraceEvent};
use zerolag::report::explain::{Cause, Explained, Explanation, Options, explain};
use zerolag::sim::Tracing;
use zerolag::simulation::Plan;
use zerolag::trace::Trace;
use zerolag::workload::{LoadOptions, load};
use zerolag_lab::repro::inversion::Case;

/// The recorded set-up: appends under the inode's lock, a call of `call` each, `calls` of them by
/// group 2.
fn appends(call: &str, calls: u32) -> String {
    let append =
        format!("{{ syscall = [{{ down_write = \"inode\" }}, {{ run = \"{call}\" }}, {{ up_write = \"inode\" }}] }}");
    format!(
        "[machine]\ncpus = 2\n[group.\"/g1\"]\n\"cpu.max\" = \"10000 100000\"\n[group.\"/g2\"]\n\
         [task.hog]\ngroup = \"/g1\"\ncpus = \"0\"\nsteps = [{{ run = \"1h\" }}]\n\
         [task.limited]\ngroup = \"/g1\"\ncpus = \"0\"\nsteps = [{append}, {{ run = \"5us\" }}]\n\
         [task.free]\ngroup = \"/g2\"\ncpus = \"1\"\ndelay = \"500ms\"\nloop = 1\n\
         [[task.free.phase]]\nloop = {calls}\nsteps = [{append}, {{ run = \"5us\" }}]\n"
    )
}

fn trace_of(plan: &Plan) -> Trace {
    let mut machine = plan.build(Tracing::On).expect("it fits");
    let mut records = Vec::new();
    let outcome = machine.run(&mut records);
    let mut meta = plan.meta();
    meta.end = outcome.end;
    Trace { meta, records }
}

fn appends_under(kernel: KernelVersion, preempt: Preempt, call: &str) -> Trace {
    let scenario = load("appends.toml", appends(call, 3_000).as_bytes(), &LoadOptions::default()).expect("a scenario");
    let mut plan = Plan::on_kernel(scenario, Some(kernel)).expect("a plan").for_duration(Duration::from_secs(4));
    plan.config.settings.preempt = preempt;
    trace_of(&plan)
}

/// Returns the longest call of group 2, in microseconds.
fn longest_call(trace: &Trace) -> u64 {
    let free = trace.records.iter().find_map(|record| match &record.event {
        TraceEvent::TaskNew { task, name, .. } if &**name == "free-0" => Some(*task),
        _ => None,
    });
    let free = free.expect("group 2 is there");
    let (mut began, mut longest) = (None, Duration::ZERO);
    for record in &trace.records {
        if let TraceEvent::Syscall { task, enters } = record.event
            && task == free
        {
            if enters {
                began = Some(record.at);
            } else if let Some(began) = began.take() {
                longest = longest.max(record.at.since(began));
            }
        }
    }
    longest.as_nanos() / 1_000
}

fn recorded(text: &str) -> Vec<u64> {
    let rows = text.lines().filter(|line| line.starts_with("append,10pct,"));
    let calls = rows.map(|line| line.split(',').nth(5).expect("a column").parse::<f64>().expect("a number"));
    calls.map(|ms| (ms * 1_000.0) as u64).collect()
}

fn worst_of(found: &Explanation) -> &Explained {
    found.waits.first().expect("it waited")
}

fn adds_up(found: &Explanation) {
    for wait in &found.waits {
        let sum: Duration = wait.causes.iter().map(|(_, time)| *time).sum();
        assert_eq!(sum, wait.length(), "{wait:?}");
    }
}

fn of_free() -> Options {
    Options { worst: 10, task: Some("free".to_owned()), ..Options::default() }
}

/// Linux 6.12: the longest append takes 104 to 108 ms, because the limited process is preempted in
/// the kernel and its group throttled.
#[test]
fn an_append_on_6_12_waits_for_the_limited_groups_next_period() {
    let trace = appends_under(KernelVersion::V6_12, Preempt::Full, "414us");
    let ours = longest_call(&trace);
    let recorded = recorded(include_str!("data/inversion/linux-6.12.csv"));
    assert!(recorded.iter().all(|call| (103_000..108_000).contains(call)), "{recorded:?}");
    assert!((88_000..112_000).contains(&ours), "{ours} us, recorded {recorded:?}");
    let found = explain(&trace, of_free());
    adds_up(&found);
    let worst = worst_of(&found);
    let (chain, time) = &worst.causes[0];
    assert!(matches!(chain[..], [Cause::Lock { holder: Some(_), .. }, Cause::Throttled { .. }]), "{chain:?}");
    assert!(*time > Duration::from_millis(80), "{time}");
    let text = found.to_string();
    assert!(text.contains("held by limited-0, which is throttled in /g1 on cpu0 since"), "{text}");
}

/// A kernel's own record of the appends. A task that waits for a lock sleeps, according to the
/// record, and a throttled task is queued on a CPU that idles. In each period the limited group is
/// throttled for the rest of the period: 90 ms, less the delay of its last tick.
#[test]
fn the_recorded_appends_are_explained_as_far_as_their_events_reach() {
    let trace = zerolag::trace::open(Path::new("tests/data/inversion/append-6.12.txt.xz")).expect("a trace");
    let found = explain(&trace, Options { worst: usize::MAX, task: Some("gt".to_owned()), ..Options::default() });
    adds_up(&found);
    let kept_off = |wait: &&Explained| {
        let causes = wait.causes.iter().filter(|(chain, _)| matches!(chain[..], [Cause::KeptOff { .. }]));
        causes.map(|(_, time)| *time).sum::<Duration>() > Duration::from_millis(85)
    };
    let stops: Vec<&Explained> = found.waits.iter().filter(kept_off).collect();
    assert!(stops.len() > 15, "{} in 2.4 s", stops.len());
    assert!(stops.iter().all(|wait| wait.length() < Duration::from_millis(105)), "{found}");
    assert!(found.to_string().contains("is queued on cpu0, which idles: kept off by a limit"), "{found}");
}

/// Linux 6.18: each task is dequeued when it returns to user mode, and the longest append takes 0.9
/// to 8 ms.
#[test]
fn an_append_on_6_18_does_not() {
    let trace = appends_under(KernelVersion::V6_18, Preempt::None, "100us");
    let ours = longest_call(&trace);
    let recorded = recorded(include_str!("data/inversion/linux-6.18.csv"));
    assert!(recorded.iter().all(|call| *call < 8_100), "{recorded:?}");
    assert!(ours < 8_100, "{ours} us, recorded {recorded:?}");
    let found = explain(&trace, of_free());
    adds_up(&found);
    let throttled = |wait: &Explained| {
        wait.causes.iter().any(|(chain, _)| chain.iter().any(|cause| matches!(cause, Cause::Throttled { .. })))
    };
    assert!(!found.waits.iter().any(throttled), "{found}");
}

/// 2012: 40.03 s became 8.42 s; the read time was the same for both groups.
#[test]
fn boosting_saves_most_of_the_read_time_of_2012() {
    let read = |throttle| Case { throttle, preempt: Preempt::Voluntary, change: None }.run(0);
    let (without, with) = (read(Throttle::Immediate), read(Throttle::BoostOnWakeup));
    let ms = |time: Option<Duration>| time.expect("done").as_nanos() / 1_000_000;
    assert!((8_000..8_900).contains(&ms(with.free)), "fitted: {with:?}");
    assert!(ms(without.free) > ms(with.free) * 5 / 4, "{without:?} and {with:?}");
}

/// Random numbers of a scenario: splitmix64 (Steele, Lea, Flood 2014).
struct Dice(u64);

impl Dice {
    /// Returns a number of `low..=high`.
    fn of(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        low + (word ^ (word >> 31)) % (high - low + 1)
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.of(0, of.len() as u64 - 1) as usize]
    }
}

/// Tasks in limited groups within each other that share locks, a file and a disk, inside the kernel
/// and outside.
fn random_scenario(number: u64) -> String {
    let dice = &mut Dice(number);
    let kernel = dice.pick(&["3.2", "5.4", "6.1", "6.6", "6.12", "6.18"]);
    let costs = dice.pick(&["zero", "default"]);
    let throttle = dice.pick(&["immediate", "boost_on_wakeup", "boost_in_kernel", "at_user_return"]);
    let preempt = dice.pick(&["none", "voluntary", "full", "lazy", "rt"]);
    let grain = dice.pick(&["tick", "exact"]);
    let proxy_exec = ["off", "on"][usize::from(number % 2 == 1)];
    let cpus = dice.of(1, 3);
    let mut text = format!(
        "kernel = \"{kernel}\"\nduration = \"150ms\"\nseed = {number}\ncosts = \"{costs}\"\n[machine]\ncpus = {cpus}\n\
         [settings]\nthrottle = \"{throttle}\"\npreempt = \"{preempt}\"\nenforce.fair = \"{grain}\"\nproxy_exec = \"{proxy_exec}\"\n\
         [disk.sda]\nlatency = \"100us\"\n[file.big]\ndisk = \"sda\"\nsize = 100_000_000\n"
    );
    for (group, most) in [("/a", 9), ("/a/b", 6), ("/c", 4)] {
        writeln!(text, "[group.\"{group}\"]\n\"cpu.max\" = \"{} 10000\"", dice.of(1, most) * 1_000).expect("a string");
    }
    for task in 0..dice.of(2, 5) {
        let group = dice.pick(&["/", "/a", "/a/b", "/a/b", "/c"]);
        writeln!(text, "[task.t{task}]\ngroup = \"{group}\"\ninstances = {}", dice.of(1, 2)).expect("a string");
        if dice.of(0, 5) == 0 {
            writeln!(text, "policy = \"fifo\"\npriority = {}", dice.of(1, 50)).expect("a string");
        }
        let mut steps = vec![format!("{{ run = \"{}us\" }}", dice.of(1, 30) * 50)];
        for _ in 0..dice.of(1, 4) {
            let us = dice.of(1, 12) * 50;
            steps.push(match dice.of(0, 6) {
                0 => format!("{{ sleep = \"{}us\" }}", us * 5),
                1 => format!("{{ lock = \"futex\" }}, {{ run = \"{us}us\" }}, {{ unlock = \"futex\" }}"),
                2 => format!("{{ syscall = [{{ run = \"{us}us\" }}, \"cond_resched\", {{ sleep = \"300us\" }}, {{ run = \"{us}us\" }}] }}"),
                3 => format!("{{ syscall = [{{ down_write = \"dir\" }}, {{ run = \"{us}us\" }}, {{ io = {{ disk = \"sda\" }} }}, {{ up_write = \"dir\" }}] }}"),
                4 => format!("{{ syscall = [{{ down_read = \"dir\" }}, {{ lock = \"inner\" }}, {{ run = \"{us}us\" }}, {{ unlock = \"inner\" }}, {{ up_read = \"dir\" }}] }}"),
                5 => "{ syscall = [{ read = { file = \"big\", windows = 2 } }] }".to_owned(),
                _ => format!("{{ run = \"{us}us\" }}"),
            });
        }
        writeln!(text, "steps = [{}]", steps.join(", ")).expect("a string");
    }
    text
}

/// With every setting of `throttle` and every preemption model, no rule is broken, and each wait is
/// the sum of its causes.
#[test]
fn random_scenarios_keep_the_rules_and_every_wait_adds_up() {
    let (mut waits, mut throttled) = (0, 0);
    for number in 0..80 {
        let text = random_scenario(number);
        let scenario = load("random.toml", text.as_bytes(), &LoadOptions::default()).expect("a scenario");
        let trace = trace_of(&Plan::new(scenario).expect("a plan"));
        let report = check(&trace, &Rules::default());
        if let Some((monitor, violation)) = report.violations().next() {
            panic!("scenario {number}: {monitor}: {violation}\n{text}");
        }
        let found = explain(&trace, Options { worst: usize::MAX, ..Options::default() });
        adds_up(&found);
        waits += found.waits.len();
        let stops = trace.records.iter();
        throttled += stops.filter(|record| matches!(record.event, TraceEvent::Throttle { .. })).count();
    }
    assert!(waits > 5_000 && throttled > 500, "{waits} waits, {throttled} times throttled");
}

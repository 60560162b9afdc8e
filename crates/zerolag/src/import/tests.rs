use super::extract::{Step, extract};
use super::*;
use zerolag_model::{CpuId, Duration};
use zerolag_trace::script::Script;
use zerolag_trace::{Means, Source, Wakings};

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
    assert_eq!(steps(a), [Step::Run(us(3000)), Step::Wake(b), Step::Wait(b, us(3000)), Step::Run(us(1000))]);
    assert_eq!(steps(b), [Step::Wait(a, us(4000)), Step::Run(us(2000)), Step::Wake(a)]);
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

/// A client and a server over loopback: each wakes the other in a softirq of its own call. The
/// server computes 2 ms per request, a third task the rest of the time.
fn over_loopback(requests: u64) -> Trace {
    use zerolag_model::TraceEvent::{IrqEnter, IrqExit};
    use zerolag_model::event::Irq;
    let mut script = Script::new(1);
    let (server, client, other) = (script.fair("server"), script.fair("client"), script.fair("other"));
    script.meta.source = Source::Text;
    let packet = |script: &mut Script, us: u64, task: TaskId| {
        script.event(us, 0, IrqEnter { irq: Irq::Softirq }).wake(us, 0, task);
        script.event(us, 0, IrqExit { irq: Irq::Softirq });
    };
    script.run(0, 0, None, Some(client));
    for turn in 0..requests {
        let at = turn * 10_000;
        packet(&mut script, at + 1000, server);
        script.run(at + 1000, 0, Some(client), Some(server));
        packet(&mut script, at + 3000, client);
        script.run(at + 3000, 0, Some(server), Some(other));

        script.preempt(at + 9000, 0, other, client);
    }
    script.end(requests * 10_000 + 1000)
}

#[test]
fn a_client_over_loopback_waits_for_its_server() {
    let trace = over_loopback(40);
    let tasks = extract(&trace);
    let (server, client) = (TaskId(0), TaskId(1));
    assert_eq!(tasks[0].steps[..3], [Step::Wait(client, us(1000)), Step::Run(us(2000)), Step::Wake(client)]);
    assert_eq!(tasks[1].steps[..3], [Step::Run(us(1000)), Step::Wake(server), Step::Wait(server, us(2000))]);
    assert!(!tasks.iter().any(|task| task.steps.iter().any(|step| matches!(step, Step::Sleep(_)))), "{tasks:?}");
    // So a limit of the server is one of the client: with half of its demand a period, half of the
    // requests.
    let client_runs = |limit: &str| {
        let groups = vec![("server".to_owned(), "/s".to_owned())];
        let limits = vec![("/s".to_owned(), limit.to_owned())];
        let scenario = import(&trace, "x", &Options { groups, limits, ..Options::default() }).scenario;
        simulate(&scenario).expect("a scenario").task(client).expect("the client").run
    };
    let (free, limited) = (client_runs("max"), client_runs("10000 100000"));
    assert!(free > us(75_000) && limited > us(40_000) && limited < us(50_000), "{free} {limited}");
}

#[test]
fn few_wakings_in_softirqs_are_a_devices() {
    let tasks = extract(&over_loopback(10));
    assert!(tasks.iter().all(|task| !task.steps.iter().any(|step| matches!(step, Step::Wake(_)))), "{tasks:?}");
}

#[test]
fn a_sleep_that_a_stopper_ends_does_not_last_for_good() {
    let mut script = Script::new(1);
    let (a, stopper) = (script.fair("a"), script.fair("migration/0"));
    script.meta.source = Source::Text;
    script.run(0, 0, None, Some(a)).run(1000, 0, Some(a), Some(stopper));
    script.wake(3000, 0, a).run(3000, 0, Some(stopper), Some(a)).run(4000, 0, Some(a), None);
    let trace = script.end(5000);
    assert_eq!(extract(&trace)[0].steps, [Step::Run(us(1000)), Step::Sleep(us(2000)), Step::Run(us(1000))]);
    let base = base_error(&trace, &import(&trace, "x", &Options::default())).expect("a scenario");
    assert!(base.run().1 < us(100), "{base}");
}

/// Three tasks share a CPU, and one of them gets none before the end. All wait there as long as
/// they did, also those whose seen demand is over before the end.
#[test]
fn unfinished_tasks_compete_up_to_the_end() {
    let mut script = Script::new(1);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| script.fair(name));
    for task in [a, b, c, d] {
        script.wake(0, 0, task);
    }
    script.run(0, 0, None, Some(a)).preempt(3000, 0, a, b).preempt(6000, 0, b, a);
    // `d` ends by itself.
    script.preempt(9000, 0, a, d).exit(9500, 0, d, Some(b));
    let trace = script.end(12_000);
    let imported = import(&trace, "x", &Options::default());
    assert_eq!(imported.tasks, [a, b, c, d].map(|task| vec![task]));
    assert_eq!(imported.scenario.matches("{run=\"1ns\"},").count(), 3, "a, b and c: {}", imported.scenario);
    let fitted = Options { form: Form::Fitted, ..Options::default() };
    assert!(!import(&trace, "x", &fitted).tasks.contains(&vec![c]), "nothing is known of its demand");
}

/// A server that computes 2 ms per request: twenty requests in 80 ms, then one every 20 ms, none
/// evenly spaced. The recording ends when it has done the last one.
fn uneven_requests() -> Trace {
    let mut script = Script::new(1);
    let server = script.fair("server");
    script.meta.source = Source::Text;
    let first = (0..20).map(|turn| turn * 4_000 + turn % 3 * 500);
    for at in first.chain((0..10).map(|turn| 100_000 + turn * 20_000 + turn % 3 * 1_500)) {
        script.wake(at, 0, server).run(at, 0, None, Some(server)).run(at + 2_000, 0, Some(server), None);
    }
    script.end(290_000)
}

#[test]
fn a_late_server_shifts_no_later_arrival() {
    let trace = uneven_requests();
    let arrivals: Vec<Duration> = extract(&trace)[0]
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Arrival { at, .. } => Some(*at),
            _ => None,
        })
        .collect();
    assert_eq!((arrivals.len(), arrivals[0], arrivals[28]), (29, us(4_500), us(280_000)));
    // Of the first 80 ms half is work: throttled, the server is late by more than the recording
    // goes on after its last request. With sleeps as long as the recorded ones it would not get
    // there.
    let simulated = |work: Option<String>| {
        let groups = vec![("server".to_owned(), "/s".to_owned())];
        let limits = vec![("/s".to_owned(), "25000 100000".to_owned())];
        simulate(&import(&trace, "x", &Options { groups, limits, work, ..Options::default() }).scenario)
            .expect("a scenario")
    };
    let limited = simulated(None);
    let run = limited.task(TaskId(0)).expect("the server").run;
    assert!(run > us(59_900) && run < us(60_500), "{run}");
    assert!(limited.groups[0].stat.nr_throttled >= 1, "{limited:?}");
}

#[test]
fn rounds_of_arrivals_are_as_long_as_the_recording() {
    let mut trace = uneven_requests();
    trace.meta.recorded.threads = Vec::new();
    let groups = vec![("server".to_owned(), "/s".to_owned())];
    // The work is elsewhere, so the server repeats what it did.
    let options = Options { groups, work: Some("/other".to_owned()), ..Options::default() };
    let scenario = import(&trace, "x", &options).scenario.replace("duration = \"290000000ns\"", "duration = \"870ms\"");
    let summary = simulate(&scenario).expect("a scenario");
    let server = summary.task(TaskId(0)).expect("the server");
    assert!(server.run > us(179_900) && server.run < us(181_500), "three rounds of 60 ms: {}", server.run);
}

#[test]
fn sleeps_of_one_length_begin_when_the_task_is_done() {
    let mut script = Script::new(1);
    let a = script.fair("a");
    script.meta.source = Source::Text;
    let mut at = 0;
    for turn in 0..12 {
        let ran = 1_000 + turn * turn * 300;
        script.wake(at, 0, a).run(at, 0, None, Some(a)).run(at + ran, 0, Some(a), None);
        at += ran + 5_000 + turn % 3 * 10;
    }
    let tasks = extract(&script.end(200_000));
    let sleeps = tasks[0].steps.iter().filter(|step| matches!(step, Step::Sleep(_))).count();
    assert_eq!(sleeps, 11, "{:?}", tasks[0].steps);
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
    assert!(scenario.contains("{timer={period=\"10000000ns\",mode=\"absolute\"}}"), "{scenario}");
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
    assert_eq!(import.kernel.name(), "6.18.44");
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
    let options =
        Options { groups: pair("b", "/x/y"), limits: pair("/x/y", "50000 100000"), kernel, ..Options::default() };
    let import = import(&trace, "x", &options);
    assert!(import.scenario.contains("[group.\"/x/y\"]\n\"cpu.max\" = \"50000 100000\""), "{}", import.scenario);
    assert_eq!(import.scenario.matches("\ngroup = \"/x/y\"").count(), 1, "{}", import.scenario);
    assert!(import.scenario.contains("kernel = \"6.1\""));
    assert!(base_error(&trace, &import).is_ok(), "{}", import.scenario);
}

/// Requests of a timer: `front` computes 1 ms, wakes `back` and sleeps; `back` computes 2 ms and
/// wakes it; it computes 0.5 ms.
fn requests(count: u64) -> Trace {
    let mut script = Script::new(2);
    let (front, back) = (script.fair("front"), script.fair("back"));
    script.meta.source = Source::Text;
    for turn in 0..count {
        let at = 1000 + turn * 10_000 + turn % 3 * 100;
        script.wake(at, 0, front).run(at, 0, None, Some(front));
        script.wake(at + 1000, 0, back).run(at + 1000, 0, Some(front), Some(back));
        script.wake(at + 3000, 0, front).run(at + 3000, 0, Some(back), Some(front));
        script.run(at + 3500, 0, Some(front), None);
    }
    script.end(1000 + count * 10_000)
}

fn fitted(trace: &Trace) -> Import {
    import(trace, "x", &Options { form: Form::Fitted, ..Options::default() })
}

/// The CPU time of all tasks at a load.
fn run_at(scenario: &str, load: &str) -> Duration {
    let text = scenario.replace("load = 1\n", &format!("load = {load}\n"));
    let summary = simulate(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (0..3)
        .filter_map(|at| summary.task(TaskId::from_index(at)))
        .fold(Duration::ZERO, |sum, task| sum.saturating_add(task.run))
}

#[test]
fn a_request_that_waits_for_another_thread_is_a_call() {
    let fitted = fitted(&requests(40));
    let scenario = &fitted.scenario;
    assert!(
        scenario.contains("[service.\"front\"]\nworkers = 1\nload = \"${load}\"\ndelay = \"1000000ns\"\narrivals = "),
        "{scenario}"
    );
    assert!(
        scenario.contains("steps = [\n  { run = { choice = [{ time = \"1000000ns\", weight = 1 },"),
        "the demand before the answer: {scenario}"
    );
    assert_eq!(
        scenario.matches("{ call = \"back\" },\n  { run = { choice = [{ time = \"500000ns\"").count(),
        1,
        "{scenario}"
    );
    let back = scenario.split("[service.\"back\"]").nth(1).expect("it is a service");
    assert!(!back.contains("arrivals") && !back.contains("front"), "{back}");
    assert_eq!(fitted.tasks, [vec![TaskId(0)], vec![TaskId(1)]]);
}

#[test]
fn a_fitted_workload_demands_as_much_and_follows_the_load() {
    let trace = requests(200);
    let fitted = fitted(&trace);
    let base = base_error(&trace, &fitted).expect("a scenario");
    let (all, apart) = base.run();
    assert!(apart.as_nanos() * 50 <= all.as_nanos(), "CPU time: at most 2 % apart\n{base}");
    let at_one = run_at(&fitted.scenario, "1").as_nanos() as f64;
    for load in [0.5, 1.5] {
        let share = run_at(&fitted.scenario, &load.to_string()).as_nanos() as f64 / at_one / load;
        assert!((0.97..1.03).contains(&share), "{load}: {share}");
    }
}

/// A client that sends 50 requests of 2 ms, 1 ms after each answer.
fn closed() -> Trace {
    let mut script = Script::new(2);
    let (server, client) = (script.fair("server"), script.fair("client"));
    script.meta.source = Source::Text;
    script.wake(0, 0, client).run(0, 0, None, Some(client));
    for turn in 0..50 {
        let at = 1000 + turn * 3000;
        script.wake(at, 0, server).run(at, 0, Some(client), Some(server));
        script.wake(at + 2000, 0, client).run(at + 2000, 0, Some(server), Some(client));
    }
    script.end(160_000)
}

/// An open loop in place of a closed client would send on under a limit, and each request would
/// wait for all those before.
#[test]
fn a_closed_client_sends_after_answers_in_the_fitted_form_too() {
    // The older one is the server.
    let trace = closed();
    let groups = vec![("server".to_owned(), "/s".to_owned())];
    let limits = vec![("/s".to_owned(), "10000 100000".to_owned())];
    let imported = import(&trace, "x", &Options { form: Form::Fitted, groups, limits, ..Options::default() });
    let scenario = &imported.scenario;
    assert!(scenario.contains("[task.\"client\"]\n# A closed client"), "{scenario}");
    assert!(
        scenario
            .contains("[parameters]\n# So many requests of \"client\" are under way: --set clients=4\nclients = 1\n")
    );
    assert!(!scenario.contains("arrivals"), "{scenario}");
    // 3 ms a request; a tenth of a CPU for 2 ms of them: 5 in 100 ms.
    let answered = |scenario: &str| {
        let summary =
            simulate(&scenario.replace("duration = \"160000000ns\"", "duration = \"2s\"")).expect("a scenario");
        let service = &summary.services[0];
        (service.completed, service.latency.as_ref().expect("requests").p50)
    };
    let (free, limited) = (answered(&scenario.replace("10000 100000", "max 100000")), answered(scenario));
    assert!((610..=680).contains(&free.0) && (90..=130).contains(&limited.0), "{free:?} {limited:?}");
    assert!(limited.1 < Duration::from_millis(100), "no queue of requests: {limited:?}");
    // The client is a task before the threads of the services.
    assert_eq!(imported.tasks, [vec![TaskId(1)], vec![TaskId(0)]]);
    let base = base_error(&trace, &imported).expect("a scenario");
    assert_eq!(base.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(), ["server", "client"]);
}

#[test]
fn groups_come_from_names_then_from_a_saved_tree_then_from_the_parent() {
    let mut trace = ping_pong();
    let thread = |tid| zerolag_trace::Thread {
        tid,
        pid: Some(tid),
        process: None,
        group: None,
        groups_v1: Vec::new(),
        charged: None,
    };
    trace.meta.recorded.threads = vec![thread(10), thread(20), thread(30)];
    let root = std::env::temp_dir().join(format!("zerolag-import-tree-{}", std::process::id()));
    for (file, text) in [
        ("pod/cpu.max", "90000 100000"),
        ("pod/web/cpu.max", "50000 100000"),
        ("pod/web/cpu.weight", "79"),
        ("pod/web/cgroup.procs", "10\n20\n"),
        ("other/cpu.max", "1000 100000"),
        ("cgroup.procs", "30\n"),
    ] {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }
    let tree = GroupTree::directory(&root).expect("a tree");
    drop(std::fs::remove_dir_all(&root));
    let of_tree = import(&trace, "x", &Options { tree: tree.clone(), ..Options::default() }).scenario;
    assert_eq!(of_tree.matches("\ngroup = \"/pod/web\"").count(), 2, "{of_tree}");
    assert!(of_tree.contains("[group.\"/pod\"]\n\"cpu.max\" = \"90000 100000\""), "the group above: {of_tree}");
    assert!(of_tree.contains("\"cpu.max\" = \"50000 100000\"\n\"cpu.weight\" = 79"), "{of_tree}");
    assert!(!of_tree.contains("/other"), "no member is in the trace: {of_tree}");
    // A name, and a limit, overrule it.
    let pair = |a: &str, b: &str| vec![(a.to_owned(), b.to_owned())];
    let options = Options {
        tree: tree.clone(),
        groups: pair("a", "/else"),
        limits: pair("/pod/web", "max"),
        ..Options::default()
    };
    let overruled = import(&trace, "x", &options).scenario;
    assert_eq!(overruled.matches("\ngroup = \"/pod/web\"").count(), 1, "{overruled}");
    assert!(overruled.contains("\"cpu.weight\" = 79\n\"cpu.max\" = \"max\""), "{overruled}");
    // So does a manifest, whose container is the last part of the path.
    let pod = "kind: Pod\nspec: {containers: [{name: web, resources: {limits: {cpu: 750m}}}, {name: log, resources: {limits: {cpu: 1}}}]}";
    let manifest = Manifest::text("pod.yaml", pod.as_bytes()).expect("a pod");
    let options = Options { tree, manifest: Some(manifest.clone()), ..Options::default() };
    let limited = import(&trace, "x", &options);
    assert!(limited.scenario.contains("[group.\"/pod/web\"]\n\"limits.cpu\" = \"750m\"\n"), "{}", limited.scenario);
    assert_eq!(limited.unused, ["log"]);
    assert!(limited.check_names("x", &options).is_ok() && base_error(&trace, &limited).is_ok());
    let options = Options { manifest: Some(manifest), ..Options::default() };
    let error = import(&trace, "x", &options).check_names("x", &options).expect_err("no group").to_string();
    assert!(error.contains("no group of the import belongs to web, log; it has none"), "{error}");
}

/// Half of the CPU is another task's. Under half the limit the work takes twice as long as the
/// recording, and its company has to last as long.
#[test]
fn tasks_outside_of_the_work_go_on_after_the_recording() {
    let mut script = Script::new(1);
    let (work, other) = (script.fair("work"), script.fair("other"));
    script.meta.source = Source::Text;
    script.run(0, 0, None, Some(work));
    for turn in 0..10 {
        let at = turn * 10_000;
        script.preempt(at + 5000, 0, work, other);
        if turn < 9 {
            script.preempt(at + 10_000, 0, other, work);
        }
    }
    let trace = script.end(100_000);
    let run = |after_work: Option<&str>| {
        let options = Options {
            groups: vec![("work".to_owned(), "/w".to_owned())],
            limits: vec![("/w".to_owned(), "2500 10000".to_owned())],
            work: after_work.map(str::to_owned),
            ..Options::default()
        };
        let imported = import(&trace, "t", &options);
        imported.check_names("t", &options).expect("names");
        let scenario = imported.scenario.replace("duration = \"100000000ns\"", "duration = \"200ms\"");
        assert_ne!(scenario, imported.scenario);
        let summary = simulate(&scenario).expect("it runs");
        // The base error is that of the work, and that of the machine stands beside it.
        let base = base_error(&trace, &imported).expect("it can be simulated");
        let names = |errors: &[TaskError]| errors.iter().map(|task| task.name.clone()).collect::<Vec<_>>().join(" ");
        match after_work {
            None => assert_eq!((names(&base.tasks).as_str(), names(&base.others).as_str()), ("work other", "")),
            Some(_) => {
                assert_eq!((names(&base.tasks).as_str(), names(&base.others).as_str()), ("work", "other"));
                assert_eq!((base.run().0, base.machine().run().0), (us(50_000), us(100_000)));
                let text = base.to_string();
                assert!(text.contains("base error of /w,") && text.contains("the whole machine: CPU time"), "{text}");
            }
        }
        let run = |name: &str| summary.tasks.iter().find(|task| task.name.starts_with(name)).expect("a task").run;
        (run("work"), run("other"))
    };
    let (work_ran, other_ran) = run(None);
    assert!(work_ran >= us(49_900) && other_ran <= us(50_100), "{work_ran} {other_ran}");
    let (work_ran, other_ran) = run(Some("/w"));
    assert!(work_ran >= us(49_000) && other_ran >= us(99_000), "{work_ran} {other_ran}");
    let options = Options { work: Some("/x".to_owned()), ..Options::default() };
    assert!(import(&trace, "t", &options).check_names("t", &options).is_err());
}

#[test]
fn a_step_takes_few_bytes() {
    // Names and times as recordings have them: a second of 10 us turns, 4 steps each.
    let mut script = Script::new(1);
    let (server, client) = (script.fair("nginx"), script.fair("wrk"));
    script.meta.source = Source::Text;
    script.run(0, 0, None, Some(client));
    for turn in 0..500 {
        let at = 100_000 + turn * 2000;
        script.wake(at + 907, 0, server).run(at + 907, 0, Some(client), Some(server));
        script.wake(at + 1813, 0, client).run(at + 1813, 0, Some(server), Some(client));
    }
    let trace = script.end(2_000_000);
    let steps: usize = extract(&trace).iter().map(|task| task.steps.len()).sum();
    let imported = import(&trace, "web", &Options::default());
    assert!(steps > 2500, "{steps} steps");
    assert!(imported.scenario.len() < steps * 21, "{} bytes of {steps} steps", imported.scenario.len());
    base_error(&trace, &imported).expect("it can be read");
}

#[test]
fn the_base_error_is_noted_in_any_scenario() {
    let trace = ping_pong();
    let mut imported = import(&trace, "x", &Options::default());
    let base = base_error(&trace, &imported).expect("it can be simulated");
    let task = "[task.a]\nsteps = [{ run = \"1ms\" }]\n";
    for scenario in [imported.scenario.clone(), format!("duration = \"1s\"\n\n{task}"), task.to_owned()] {
        imported.scenario = scenario;
        imported.note_base_error("recorded.txt", &base);
        let read = zerolag_workload::load("x.toml", imported.scenario.as_bytes(), &LoadOptions::default());
        let read = read.unwrap_or_else(|error| panic!("{error}\n{}", imported.scenario));
        assert_eq!(&*read.program.origin.expect("it is noted").trace, "recorded.txt");
    }
}

/// A recording need not have the wakeups of new tasks: a task that is first seen at 5 ms is created
/// then, and not at the start.
#[test]
fn a_task_that_appears_late_starts_late() {
    let (idle, a, late) = (("<idle>", 0), ("a", 101), ("late", 102));
    let line = |us: u64, prev: (&str, u32), state: &str, next: (&str, u32)| {
        format!(
            " {}-{} [000] 10.{us:06}: sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} next_pid={} next_prio=120\n",
            prev.0, prev.1, prev.0, prev.1, next.0, next.1
        )
    };
    let text = [
        line(0, idle, "R", a),
        line(1000, a, "S", idle),
        line(5000, idle, "R", late),
        line(6000, late, "x", idle),
        line(7000, idle, "R", a),
        line(8000, a, "S", idle),
    ];
    let trace = Trace::from_bytes(text.concat().as_bytes()).expect("a trace");
    let delays: Vec<_> = extract(&trace).iter().map(|task| (task.name.to_string(), task.delay)).collect();
    assert_eq!(delays, [("a".to_owned(), us(0)), ("late".to_owned(), us(5000))]);
    // No task has waited: of an effect on waits nothing can be said.
    let imported = import(&trace, "t", &Options::default());
    let base = base_error(&trace, &imported).expect("it can be simulated");
    let percents = base.percents();
    assert_eq!((percents.wait_percent, percents.latency_percent), (None, None));
    assert!(percents.run_percent.is_some_and(|percent| percent < 1.0), "{percents:?}");
    assert!(base.wait_share().is_infinite() && base.to_string().contains("unknown of 0ns"), "{base}");
    let mut noted = imported;
    noted.note_base_error("t", &base);
    assert!(noted.scenario.contains("wait = \"unknown\""), "{}", noted.scenario);
}

/// Two tasks wake a third one, the first by a pipe, the second by a futex.
#[test]
fn a_task_that_is_woken_by_a_pipe_and_by_a_futex_has_one_of_each() {
    let mut script = Script::new(1);
    let (piper, poster, reader) = (script.fair("piper"), script.fair("poster"), script.fair("reader"));
    script.meta.source = Source::Text;
    script.run(0, 0, None, Some(reader)).run(500, 0, Some(reader), Some(piper));
    script.wake(1000, 0, reader).run(1000, 0, Some(piper), Some(reader)).run(1500, 0, Some(reader), Some(poster));
    script.wake(2000, 0, reader).run(2000, 0, Some(poster), Some(reader)).run(2500, 0, Some(reader), None);
    let mut trace = script.end(3000);
    let woken = |waker, means| Wakings { waker: Some(waker), woken: reader, means, count: 1 };
    trace.meta.recorded.wakings = vec![woken(piper, Means::Pipe), woken(poster, Means::Futex)];
    let imported = import(&trace, "t", &Options::default());
    let has = |text: &str| assert!(imported.scenario.contains(text), "{text}\n{}", imported.scenario);
    let name = format!("reader:{reader}");
    has(&format!("{{pipe_write=\"{name} pipe\"}}"));
    has(&format!("{{pipe_read=\"{name} pipe\"}}"));
    has(&format!("{{sem_post=\"{name}\"}}"));
    has(&format!("{{sem_wait=\"{name}\"}}"));
    base_error(&trace, &imported).expect("it can be simulated");
}

#[test]
fn a_text_without_its_kernel_says_that_the_kernel_is_a_guess() {
    let line = " a-1 [000] 10.000000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120\n";
    let trace = |text: &str| Trace::from_bytes(text.as_bytes()).expect("a trace");
    let (unnamed, named) = (trace(line), trace(&format!("# kernel: 6.12.95+deb13-amd64\n{line}")));
    let guess = "# The recording does not name its kernel";
    let imported = import(&unnamed, "t", &Options::default());
    assert!(!imported.is_kernel_known && imported.scenario.contains(guess), "{}", imported.scenario);
    let stated = Options { kernel: KernelVersion::of_release("6.6"), ..Options::default() };
    for (trace, options, kernel) in [(&unnamed, &stated, "6.6"), (&named, &Options::default(), "6.12.95")] {
        let imported = import(trace, "t", options);
        assert!(imported.is_kernel_known && !imported.scenario.contains(guess), "{}", imported.scenario);
        assert!(imported.scenario.contains(&format!("kernel = \"{kernel}\"")), "{}", imported.scenario);
    }
}

/// A program that starts during the recording is in no directory that was saved before.
#[test]
fn a_recorded_move_to_a_group_counts() {
    let text = " sh-9 [000] 10.000000: sched_process_fork: comm=sh pid=9 child_comm=sh child_pid=10\n \
                sh-9 [000] 10.000001: cgroup_attach_task: dst_root=0 dst_id=7 dst_level=1 dst_path=/web pid=10 comm=sh\n \
                sh-9 [000] 10.000002: sched_switch: prev_comm=sh prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=sh next_pid=10 next_prio=120\n \
                web-10 [000] 10.001000: sched_process_fork: comm=web pid=10 child_comm=web child_pid=11\n \
                web-10 [000] 10.002000: sched_switch: prev_comm=web prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=web next_pid=11 next_prio=120\n \
                web-11 [000] 10.003000: sched_switch: prev_comm=web prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=sh next_pid=9 next_prio=120\n";
    let trace = Trace::from_bytes(text.as_bytes()).expect("a trace");
    let of = |options: &Options| import(&trace, "t", options).groups.of.into_values().collect::<Vec<_>>();
    assert_eq!(of(&Options::default()), ["/web", "/web"]);
    let v1 = Trace::from_bytes(text.replace("dst_root=0", "dst_root=3").as_bytes()).expect("a trace");
    let of_v1 = |tree: GroupTree| {
        import(&v1, "t", &Options { tree, ..Options::default() }).groups.of.into_values().collect::<Vec<_>>()
    };
    // Of which controller is not known, unless the saved directory of the CPU's has such a group.
    assert_eq!(of_v1(GroupTree::default()), [""; 0]);
    let mut tree = GroupTree::default();
    tree.keys.insert("/web".to_owned(), Vec::new());
    assert_eq!(of_v1(tree), ["/web", "/web"]);
    let named = Options { groups: vec![("web".to_owned(), "/other".to_owned())], ..Options::default() };
    assert_eq!(of(&named), ["/other", "/other"]);
}

/// The counters that were saved before and after tell how much a group was throttled.
#[test]
fn throttling_has_a_base_error_of_its_own() {
    let trace = uneven_requests();
    let groups = vec![("server".to_owned(), "/s".to_owned())];
    let limits = vec![("/s".to_owned(), "25000 100000".to_owned())];
    let of = |recorded: Option<u64>| {
        let mut tree = GroupTree::default();
        for periods in recorded.into_iter().flat_map(|periods| [5, 5 + periods]) {
            let time = us(periods * 30_000);
            tree.counters.entry("/s".to_owned()).or_default().push(Throttling { periods, time });
        }
        let options = Options { groups: groups.clone(), limits: limits.clone(), tree, ..Options::default() };
        let mut imported = import(&trace, "x", &options);
        let base = base_error(&trace, &imported).expect("a scenario");
        imported.note_base_error("x", &base);
        (imported.scenario, base)
    };
    let (scenario, base) = of(None);
    assert!(base.groups.is_empty() && base.percents().nr_throttled.is_none() && !scenario.contains("throttled"));
    let (scenario, base) = of(Some(4));
    let [group] = &base.groups[..] else { panic!("{base}") };
    assert_eq!((&*group.path, group.recorded.periods), ("/s", 4));
    let simulated = group.simulated.periods;
    assert!(simulated > 0 && simulated < 4, "{base}");
    let apart = 4 - simulated;
    assert_eq!(base.percents().nr_throttled, Some(apart));
    assert!(scenario.contains(&format!("nr_throttled = {apart}, throttled = ")), "{scenario}");
    assert!(base.to_string().contains(&format!("/s was throttled in 4 periods, {simulated} simulated")), "{base}");
    // As often as simulated, give or take 2 periods; the times are less than half apart.
    let (scenario, base) = of(Some(simulated + 1));
    assert_eq!(base.unlike_throttled(), None, "{base}");
    assert!(!scenario.contains("unlike"), "{scenario}");
    let (scenario, base) = of(Some(40));
    let unlike = base.unlike_throttled().expect("another number of periods");
    assert!(unlike.starts_with("/s was throttled in 40 periods of the recording for 1.20s, and is in "), "{unlike}");
    assert!(scenario.contains(&format!("\nunlike = \"{unlike}\"\n")), "{scenario}");
}

//! Each rule of the scenario grammar, from text to program. `docs/reference/scenario.md` states the
//! rules.

use zerolag_model::{Duration, FairPolicy, KernelVersion, Nice, PressureTrigger, SchedAttr};
use zerolag_workload::program::{Action, AffinityChange, GroupWeight, ResourceKind, TimerMode, TimerRef};
use zerolag_workload::random::Bounds;
use zerolag_workload::{Dist, LoadOptions, Scenario, load, scenario};

fn read(text: &str) -> Result<Scenario, String> {
    load("s.toml", text.as_bytes(), &LoadOptions::default()).map_err(|errors| errors.to_string())
}

fn good(text: &str) -> Scenario {
    read(text).unwrap_or_else(|errors| panic!("{errors}"))
}

const TASK: &str = "\n[task.a]\nsteps = [{ run = \"1ms\" }]\n";

/// Loads one task with these steps.
fn steps(steps: &str) -> Vec<Action> {
    good(&format!("[task.a]\nsteps = [{steps}]\n[task.b]\nsteps = [\"suspend\", {{ run = \"1ms\" }}]\n")).program.tasks
        [0]
    .phases[0]
        .actions
        .clone()
}

/// Returns the refusal of one task with this line.
fn refused(line: &str) -> String {
    read(&format!("[task.a]\n{line}")).expect_err("refused")
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn the_run_is_described_at_the_top() {
    let scenario = good(&format!(
        "kernel = \"5.15\"\nduration = \"10s\"\nseed = 7\ncosts = \"default\"\n[machine]\nsockets = 2\ncores_per_llc = 4\n\
         [settings]\nrt_balance = \"passive\"\nhz = 1_000\nnohz = false\nfeatures.PLACE_LAG = true\n\"enforce.rt\" = \"exact\"\n\
         sched_rr_timeslice_ms = 30\n[settings.enforce]\nfair = \"exact\"\n{TASK}"
    ));
    assert_eq!(good(&format!("seed = 18446744073709551615\n{TASK}")).seed, Some(u64::MAX));
    assert_eq!(scenario.kernel, Some(KernelVersion::V5_15));
    assert_eq!(scenario.duration, Some(Duration::from_secs(10)));
    assert_eq!((scenario.seed, scenario.costs.as_deref()), (Some(7), Some("default")));
    assert_eq!(scenario.machine.as_ref().map(|machine| machine.shape()), Some([2, 1, 4, 1]));
    let settings: Vec<String> = scenario.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(
        settings,
        [
            "rt_balance=passive",
            "hz=1000",
            "nohz=off",
            "features.PLACE_LAG=on",
            "enforce.rt=exact",
            "sched_rr_timeslice_ms=30",
            "enforce.fair=exact",
        ]
    );
}

#[test]
fn tasks_are_numbered_in_order_of_the_text() {
    let text = ["zeta", "alpha", "mu"].map(|name| format!("[task.{name}]\nsteps = [{{ run = \"1ms\" }}]\n")).concat();
    let names: Vec<String> = good(&text).program.tasks.iter().map(|task| task.name.to_string()).collect();
    assert_eq!(names, ["zeta", "alpha", "mu"]);
}

#[test]
fn every_step_becomes_its_action() {
    let actions = steps(
        "{ run = \"1ms\" }, { kernel = \"2ms\" }, { spin = \"3ms\" }, { spin = { wall = \"3ms\", chunk = \"1us\" } }, \
         { sleep = { uniform = { min = \"1ms\", max = \"2ms\" } } }, { timer = { period = \"4ms\" } }, \
         { timer = { period = \"4ms\", shared = \"tick\", mode = \"absolute\" } }, { lock = \"m\" }, \
         { wait = { condition = \"c\", mutex = \"m\" } }, { sync = { condition = \"c\", mutex = \"m\" } }, { unlock = \"m\" }, \
         { signal = \"c\" }, { broadcast = \"c\" }, { barrier = \"b\" }, { sem_post = \"s\" }, { sem_wait = \"s\" }, \
         { resume = \"b\" }, \"yield\", { yield = true }, { fork = \"b\" }, { stamp = 9 }",
    );
    let id = zerolag_workload::program::ResourceId;
    let (tick, m, c, b, s, point) = (id(0), id(1), id(2), id(3), id(4), id(5));
    let chunk = Duration::from_micros;
    let constant = |time| Dist::Constant(ms(time));
    let timer = |timer, mode| Action::Timer { timer, period: constant(4), mode };
    let expected = [
        Action::Run(constant(1)),
        Action::Kernel(constant(2)),
        Action::Spin { wall: constant(3), chunk: chunk(32) },
        Action::Spin { wall: constant(3), chunk: chunk(1) },
        Action::Sleep(Dist::uniform(ms(1), ms(2)).expect("valid")),
        timer(TimerRef::Own(0), TimerMode::Relative),
        timer(TimerRef::Shared(tick), TimerMode::Absolute),
        Action::Lock(m),
        Action::Wait { condition: c, mutex: m },
        Action::Sync { condition: c, mutex: m },
        Action::Unlock(m),
        Action::Signal(c),
        Action::Broadcast(c),
        Action::Barrier(b),
        Action::SemPost(s),
        Action::SemWait(s),
        Action::Resume(point),
        Action::Yield,
        Action::Yield,
        Action::Fork(1),
        Action::Stamp(9),
    ];
    assert_eq!(actions, expected);
}

#[test]
fn distributions_are_tables_of_one_key() {
    let run = |dist: &str| match &steps(&format!("{{ run = {{ {dist} }} }}"))[0] {
        Action::Run(dist) => dist.clone(),
        other => panic!("{other:?}"),
    };
    let to = |high| Bounds { low: Duration::ZERO, high };
    assert_eq!(
        run("exponential = { mean = \"5ms\", max = \"9ms\" }"),
        Dist::exponential(ms(5), to(ms(9))).expect("valid")
    );
    assert_eq!(
        run("normal = { mean = \"5ms\", deviation = \"1ms\", min = \"2ms\", max = \"9ms\" }"),
        Dist::normal(ms(5), ms(1), Bounds { low: ms(2), high: ms(9) }).expect("valid")
    );
    let lognormal = Dist::lognormal(ms(5), 0.5, Bounds::default()).expect("valid");
    assert_eq!(run("lognormal = { median = \"5ms\", sigma = 0.5 }"), lognormal);
    assert_eq!(
        run("choice = [{ time = \"1ms\", weight = 9 }, { time = \"2ms\" }]"),
        Dist::choice(&[(ms(1), 9), (ms(2), 1)]).expect("valid")
    );
    assert_eq!(run("sequence = [\"2ms\", \"1ms\"]"), Dist::sequence(vec![ms(2), ms(1)]).expect("valid"));
}

#[test]
fn what_a_phase_sets_sticks() {
    let phase = |lines: &str| format!("[[task.a.phase]]\n{lines}\nsteps = [{{ run = \"1ms\" }}]\n");
    let text = [
        "[task.a]\npolicy = \"fifo\"\npriority = 5\ncpus = \"0\"\n".to_string(),
        phase(""),
        phase("priority = 7\ncpus = \"1-2\"\nloop = 3"),
        phase("policy = \"SCHED_OTHER\"\nnice = 4\ncpus = \"all\"\nname = \"x\""),
        phase("slice = \"2ms\"\ngroup = \"/g\""),
        phase("nice = 6"),
        phase("policy = \"batch\""),
    ]
    .concat();
    let task = &good(&text).program.tasks[0];
    let fifo = SchedAttr::fifo_at;
    let fair = |policy, nice, slice| SchedAttr::Fair { policy, nice: Nice::new(nice).expect("in range"), slice };
    let two = Some(ms(2));
    assert_eq!(task.attr, fifo(5));
    let attrs: Vec<_> = task.phases.iter().map(|phase| phase.attr).collect();
    assert_eq!(
        attrs,
        [
            None,
            Some(fifo(7)),
            Some(fair(FairPolicy::Other, 4, None)),
            Some(fair(FairPolicy::Other, 4, two)),
            Some(fair(FairPolicy::Other, 6, two)),
            Some(fair(FairPolicy::Batch, 6, two)),
        ]
    );
    let places = task.phases.iter().map(|phase| match &phase.affinity {
        AffinityChange::Keep => "keep".to_string(),
        AffinityChange::Reset => "all".to_string(),
        AffinityChange::Set(cpus) => cpus.to_string(),
    });
    assert_eq!(places.collect::<Vec<_>>(), ["keep", "1-2", "all", "keep", "keep", "keep"]);
    assert_eq!(
        task.phases.iter().map(|phase| (&*phase.name, phase.loops)).collect::<Vec<_>>()[1..3],
        [("1", 3), ("x", 1)]
    );
    assert_eq!(task.phases[3].group, Some(0));
}

#[test]
fn declared_resources_keep_what_they_declare() {
    let text = "[mutex.m]\nprotocol = \"inherit\"\n[barrier.b]\nparties = 2\n[barrier.c]\n[semaphore.s]\ninitial = 4\n[condition.q]\n\
                [timer.t]\nmode = \"absolute\"\n[task.a]\ninstances = 2\nsteps = [{ lock = \"m\" }, { run = \"1ms\" }, { unlock = \"m\" }, \
                { barrier = \"b\" }, { barrier = \"c\" }, { sem_wait = \"s\" }, { signal = \"q\" }, \
                { timer = { period = \"1ms\", shared = \"t\" } }]\n";
    let program = good(text).program;
    let kinds: Vec<ResourceKind> = program.resources.iter().map(|resource| resource.kind.clone()).collect();
    assert_eq!(
        kinds,
        [
            ResourceKind::Mutex { inherit: true },
            ResourceKind::Barrier { parties: 2 },
            ResourceKind::Barrier { parties: 2 },
            ResourceKind::Semaphore { initial: 4 },
            ResourceKind::Condition,
            ResourceKind::Timer,
        ]
    );
    let Some(Action::Timer { mode, .. }) = program.tasks[0].phases[0].actions.last() else { panic!("a timer") };
    assert_eq!(*mode, TimerMode::Absolute);
}

#[test]
fn cpusets_and_groups_take_the_kernels_names_in_any_spelling() {
    let text = "[machine]\ncpus = 8\n[cpuset.a]\n\"cpuset.cpus\" = \"0-3\"\n\"cpuset.cpus.partition\" = \"root\"\n\
                [cpuset.b]\ncpuset.cpus = [4, 5]\n[cpuset.c]\ncpus = \"5-6\"\npartition = \"member\"\n\
                [group.\"/x\"]\ncpu.weight = 300\n[group.\"/x/y\"]\n\"cpu.weight\" = 20\n\
                [task.t]\ncpuset = \"b\"\ngroup = \"/x/y\"\nsteps = [{ run = \"1ms\" }]\n";
    let program = good(text).program;
    let sets: Vec<_> = program.cpusets.iter().map(|set| (set.cpus.to_string(), set.partition)).collect();
    assert_eq!(sets, [("0-3".to_string(), true), ("4-5".to_string(), false), ("5-6".to_string(), false)]);
    let weights: Vec<_> = program.groups.iter().map(|group| (&*group.path, group.weight)).collect();
    assert_eq!(weights, [("/x", GroupWeight::Weight(300)), ("/x/y", GroupWeight::Weight(20))]);
    assert_eq!((program.tasks[0].cpuset, program.tasks[0].group), (Some(1), Some(1)));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of mistakes and messages")]
fn each_mistake_is_named_with_what_would_be_right() {
    const RUN: &str = "steps = [{ run = \"1ms\" }]";
    for (line, error) in [
        (
            "steps = [{ run = 5 }]",
            "s.toml:2:18: error: `run` = 5 has no unit\n  help: write \"5ms\", or ns, us, s, m, h",
        ),
        ("steps = [{ run = \"-5ms\" }]", "s.toml:2:18: error: `run` = \"-5ms\": a duration cannot be negative"),
        (
            "steps = [{ run = \"11y\" }]",
            "s.toml:2:18: error: `run` = \"11y\": unknown unit of time; known are ns, us, ms, s, m and h",
        ),
        ("steps = [{ run = \"99999h\" }]", "s.toml:2:18: error: `run` = \"99999h\" is outside 0s..=10 years"),
        ("steps = [{ rum = \"1ms\" }]", "s.toml:2:12: error: unknown step `rum`\n  help: did you mean `run`?"),
        ("steps = [{ runtime = \"1ms\" }]", "s.toml:2:12: error: unknown step `runtime`\n  help: did you mean `spin`?"),
        (
            "steps = [{ run = \"1ms\", sleep = \"1ms\" }]",
            "s.toml:2:10: error: a step with 2 keys\n  help: each step is a table of its own: { run = \"1ms\" }, { sleep = \"9ms\" }",
        ),
        (
            "step = []",
            "s.toml:1:7: error: `a` has no steps\n  help: write steps = [{ run = \"1ms\" }, { sleep = \"9ms\" }]\ns.toml:2:1: error: unknown key `step` in a task\n  help: did you mean `steps`?",
        ),
        (
            &format!("policy = \"SCHED_FIFO\"\n{RUN}"),
            "s.toml:2:1: error: a real-time policy without `priority`\n  help: write priority = 1..99, 99 is most urgent",
        ),
        (
            &format!("priority = 5\n{RUN}"),
            "s.toml:2:1: error: `priority` does not apply to SCHED_OTHER\n  help: it takes nice, slice",
        ),
        (&format!("nice = 20\n{RUN}"), "s.toml:2:8: error: `nice`: 20 is outside -20..=19"),
        (
            &format!("cpus = \"0-9\"\n{RUN}"),
            "s.toml:2:8: error: CPU 4 does not exist: the machine has CPUs 0..=3\n  help: name a CPU that exists, or choose a machine with more CPUs",
        ),
        (
            &format!("process = \"\"\n{RUN}"),
            "s.toml:2:11: error: `process` is empty: name the process that the threads share",
        ),
        (
            &format!("created_on = 4\n{RUN}"),
            "s.toml:2:14: error: CPU 4 does not exist: the machine has CPUs 0..=3\n  help: name a CPU that exists, or choose a machine with more CPUs",
        ),
        (
            &format!("instances = 2000000\n{RUN}"),
            "s.toml:2:13: error: with these 2000000 instances there are 2000000 tasks; at most 1000000 are simulated",
        ),
        (
            &format!("cpuset = \"x\"\n{RUN}"),
            "s.toml:2:10: error: there is no cpuset `x`\n  help: write [cpuset.x] with \"cpuset.cpus\" = \"0-3\"",
        ),
        (
            "steps = [{ lock = \"m\" }, { signal = \"m\" }, { unlock = \"m\" }, { run = \"1ms\" }]",
            "s.toml:2:37: error: `m` is used as a condition but is a mutex\n  s.toml:2:19: a mutex here",
        ),
        (
            "steps = [{ sleep = { uniform = { min = \"2ms\", max = \"1ms\" } } }]",
            "s.toml:2:32: error: `uniform`: lower bound 2ms is above upper bound 1ms",
        ),
        (
            "steps = [{ timer = { period = \"1ms\", mode = \"relative\" } }, { timer = { period = \"1ms\", mode = \"absolute\" } }]",
            "s.toml:2:96: error: the unnamed timer has two modes\n  s.toml:2:45: the other one",
        ),
        (
            "steps = [{ sleep = \"0s\" }]",
            "s.toml:1:7: error: task \"a\" loops without time passing\n  help: add a run, sleep or timer of more than zero",
        ),
    ] {
        assert_eq!(refused(line), error, "{line}");
    }
    for (head, error) in [
        (
            "kernel = 6.12",
            "s.toml:1:10: error: `kernel` is a string: 6.12 as a number could not tell 6.1 from 6.10\n  help: write kernel = \"6.12\"",
        ),
        (
            "kernel = \"v6.12\"",
            "s.toml:1:10: error: kernel \"v6.12\" is no release (6.16, 6.12.85) or distribution's kernel (rhel-9.4)\n  help: did you mean \"6.12\"?",
        ),
        (
            "duration = 10",
            "s.toml:1:12: error: `duration` = 10 has no unit\n  help: write \"10ms\", or ns, us, s, m, h",
        ),
        (
            "[settings]\nrt_balanc = \"passive\"",
            "s.toml:2:1: error: unknown setting `rt_balanc`\n  help: did you mean `rt_balance`?",
        ),
        ("[settings]\nfair = \"bfs\"", "s.toml:2:8: error: `fair`: unknown value `bfs`; known are cfs, eevdf"),
        (
            "[settings]\n\"enforce.rt\" = \"tick\"\nenforce.rt = \"exact\"",
            "s.toml:3:9: error: setting `enforce.rt` is set twice\n  s.toml:2:1: first here",
        ),
        ("[machine]\ncpus = 4\nsmt = 2", "s.toml:1:2: error: the machine names both `cpus` and its parts"),
        (
            "[machine]\nsockets = 64\ncores_per_llc = 4096",
            "s.toml:1:2: error: 262144 CPUs are more than the 4096 that can be simulated",
        ),
        (
            "[group.x]\ncpu.weight = 1",
            "s.toml:1:8: error: group `x` does not start with `/`\n  help: write [group.\"/name\"]",
        ),
        ("[group.\"/x\"]\ncpu.weight = 0", "s.toml:2:14: error: `cpu.weight`: 0 is outside 1..=10000"),
        (
            "[cpuset.a]\ncpus = \"0-1\"\npartition = \"root\"\n[cpuset.b]\ncpus = \"1-2\"\npartition = \"root\"",
            "s.toml:4:9: error: partitions `a` and `b` share CPUs 1\n  s.toml:1:9: the other one",
        ),
    ] {
        assert_eq!(read(&format!("{head}\n{TASK}")).expect_err("refused"), error, "{head}");
    }
    assert!(read("").expect_err("nothing").contains("the scenario has no tasks"));
}

#[test]
fn errors_of_the_toml_itself_have_places() {
    let errors = read("[task.a]\nsteps = [\n[task.a]\nx = = 1\n").expect_err("broken");
    assert!(errors.lines().count() >= 1 && errors.starts_with("s.toml:"), "{errors}");
    let errors = read("a = 1\na = 2\n").expect_err("twice");
    assert_eq!(errors, "s.toml:2:1: error: duplicate key");
}

fn limit_of(keys: &str) -> zerolag_model::CpuMax {
    let text = format!("[group.\"/a\"]\n{keys}\n[task.t]\ngroup = \"/a\"\nsteps = [{{ run = \"1ms\" }}]\n");
    good(&text).program.groups[0].max
}

#[test]
fn limits_are_read_in_every_spelling() {
    let half = limit_of("\"cpu.max\" = \"50000 100000\"");
    assert_eq!(half.to_string(), "50000 100000");
    for same in [
        "\"cpu.max\" = \"50000\"",
        "cpu.cfs_quota_us = 50000",
        "cpu.cfs_quota_us = \"50ms\"\ncpu.cfs_period_us = 100000",
        "CPUQuota = \"50%\"",
        "--cpus = 0.5",
        "--cpu-quota = 50000",
        "limits.cpu = \"500m\"",
    ] {
        assert_eq!(limit_of(same), half, "{same}");
    }
    assert_eq!(limit_of("cpu.cfs_quota_us = -1"), zerolag_model::CpuMax::UNLIMITED);
    assert_eq!(limit_of("CPUQuota = \"150%\"\nCPUQuotaPeriodSec = \"10ms\"").to_string(), "15000 10000");
    let burst = "\"cpu.max\" = \"5000000 1000000\"\n\"cpu.max.burst\" = \"2s\"";
    assert_eq!(limit_of(burst).to_string(), "5000000 1000000 (burst 2000000)");
}

#[test]
fn spellings_that_are_not_the_kernels_are_expanded() {
    let text = "[group.\"/pod\"]\nlimits.cpu = \"2\"\nrequests.cpu = \"500m\"\n\
                [task.t]\ngroup = \"/pod\"\nsteps = [{ run = \"1ms\" }]\n";
    let scenario = good(text);
    let group = &scenario.program.groups[0];
    assert_eq!((group.max.to_string(), group.weight), ("200000 100000".to_owned(), GroupWeight::Weight(59)));
    assert_eq!((group.cpus.limit_milli, group.cpus.request_milli), (Some(2000), Some(500)));
    assert!(scenario.warnings.is_empty());
    let linear = text.replace("requests.cpu", "oci.weight_conversion = \"linear\"\nrequests.cpu");
    assert_eq!(good(&linear).program.groups[0].weight, GroupWeight::Weight(20));
}

#[test]
fn limits_out_of_range_are_refused_as_the_kernel_refuses_them() {
    for (keys, message) in [
        ("cpu.cfs_quota_us = 999", "quota 999us is below 1ms (EINVAL)"),
        ("cpu.cfs_quota_us = 0", "quota 0ns is below 1ms (EINVAL)"),
        ("cpu.cfs_period_us = 999", "period 999us is outside 1ms..=1s (EINVAL)"),
        ("\"cpu.max\" = \"1000 1000001\"", "period 1000.001ms is outside 1ms..=1s (EINVAL)"),
        ("\"cpu.max\" = \"2000 10000\"\n\"cpu.max.burst\" = 2001", "burst 2.001ms is above the quota 2ms (EINVAL)"),
        ("\"cpu.max\" = \"50%\"", "`cpu.max`: `50%` is not a time"),
        ("CPUQuota = \"150\"", "`CPUQuota`: `150` is not a percentage of a CPU above zero"),
        ("--cpus = 1\n\"cpu.max\" = \"1000\"", "`cpu.max` sets the same value as `--cpus`"),
        ("cpu.quota = 1", "unknown key `cpu.quota` in a group"),
    ] {
        let text = format!("[group.\"/a\"]\n{keys}\n[task.t]\nsteps = [{{ run = \"1ms\" }}]\n");
        let errors = read(&text).expect_err(keys);
        assert!(errors.contains(message), "{keys}: {errors}");
    }
}

/// Loads a scenario whose included files are these.
fn load_with(text: &str, files: &[(&str, &str)], set: &[(&str, &str)]) -> Result<Scenario, String> {
    let files: Vec<(String, String)> = files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    let read = move |path: &str| {
        let found = files.iter().find(|(name, _)| name == path);
        found.map(|(_, text)| text.clone().into_bytes()).ok_or_else(|| "no such file".to_owned())
    };
    let options = LoadOptions {
        includes: Some(zerolag_workload::Includes::new(read)),
        parameters: set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        ..LoadOptions::default()
    };
    load("dir/main.toml", text.as_bytes(), &options).map_err(|errors| errors.to_string())
}

#[test]
fn included_files_are_read_below_the_file_that_includes_them() {
    let main = "include = [\"machine.toml\", \"tasks/base.toml\"]\nduration = \"2s\"\n[task.a]\nnice = 5\n";
    let files = [
        ("dir/machine.toml", "duration = \"9s\"\nseed = 3\n[machine]\ncpus = 2\n"),
        ("dir/tasks/base.toml", "include = [\"more.toml\"]\n[task.a]\nnice = 1\nsteps = [{ run = \"1ms\" }]\n"),
        ("dir/tasks/more.toml", "[task.b]\nsteps = [{ run = \"2ms\" }]\n"),
    ];
    let scenario = load_with(main, &files, &[]).expect("valid");
    assert_eq!(scenario.duration, Some(Duration::from_secs(2)));
    assert_eq!((scenario.seed, scenario.machine.map(|machine| machine.nr_cpus())), (Some(3), Some(2)));
    let names: Vec<_> = scenario.program.tasks.iter().map(|task| (&*task.name, task.attr.prio().raw())).collect();
    assert_eq!(names, [("a", 125), ("b", 120)]);
}

#[test]
fn a_mistake_in_an_included_file_is_shown_there() {
    let main = "include = [\"base.toml\"]\n[task.a]\nnicee = 5\n";
    let files = [("dir/base.toml", "# one\n[task.a]\nsteps = [{ rum = \"1ms\" }]\n")];
    let errors = load_with(main, &files, &[]).expect_err("wrong");
    let expected = "dir/main.toml:3:1: error: unknown key `nicee` in a task\n  help: did you mean `nice`?\n\
                    dir/base.toml:3:12: error: unknown step `rum`\n  help: did you mean `run`?";
    assert_eq!(errors, expected);
    let errors = load_with("include = [\"no.toml\", 3]\n", &[], &[]).expect_err("wrong");
    assert!(errors.contains("main.toml:1:12: error: `include`: cannot read \"dir/no.toml\": no such file"), "{errors}");
    assert!(errors.contains("main.toml:1:23: error: `include` takes file names, not a whole number"), "{errors}");
    let files = [("dir/x.toml", "include = [\"main.toml\"]"), ("dir/main.toml", "include = [\"x.toml\"]")];
    let errors = load_with("include = [\"x.toml\"]\n", &files, &[]).expect_err("wrong");
    assert!(errors.contains("dir/x.toml:1:12: error: `include`: \"main.toml\" includes itself"), "{errors}");
    let errors = load("s.toml", b"include = [\"x.toml\"]", &LoadOptions::default()).expect_err("wrong").to_string();
    assert!(errors.contains("\"x.toml\" cannot be read from here"), "{errors}");
}

#[test]
fn parameters_fill_in_and_can_be_set() {
    let text = r#"
[parameters]
workers = 3
work = "2ms"
group = "web"
[task.worker]
instances = "${workers}"
group = "/${group}/a"
steps = [{ run = "${work}" }, { sleep = { exponential = { mean = "${work}" } } }]
"#;
    let of = |set: &[(&str, &str)]| {
        let scenario = load_with(text, &[], set).expect("valid");
        assert_eq!(scenario.parameters, ["group", "work", "workers"]);
        let task = &scenario.program.tasks[0];
        let groups: Vec<_> = scenario.program.groups.iter().map(|group| group.path.to_string()).collect();
        (task.instances, task.phases[0].actions[0].clone(), groups.join(" "))
    };
    let run = |ms| Action::Run(Dist::Constant(Duration::from_millis(ms)));
    assert_eq!(of(&[]), (3, run(2), "/web /web/a".to_owned()));
    assert_eq!(of(&[("workers", "8"), ("work", "5ms"), ("other", "1")]), (8, run(5), "/web /web/a".to_owned()));
    let wrong = load_with(&text.replace("${work}", "${wrk}"), &[], &[]).expect_err("wrong");
    assert!(wrong.contains("there is no parameter `wrk`\n  help: did you mean `work`?"), "{wrong}");
    let wrong = load_with(&text.replace("\"${work}\"", "\"2ms\""), &[], &[]).expect_err("setting it changes nothing");
    assert!(wrong.contains("parameter `work` is used nowhere"), "{wrong}");
    let wrong = load_with(text, &[], &[("workers", "many")]).expect_err("wrong");
    assert!(wrong.contains("main.toml:7:13: error: `instances` = \"many\" is not a number of threads"), "{wrong}");
}

#[test]
fn goals_are_read_and_their_tasks_exist() {
    let text = "goals = [\"a.wait.max <= 5ms\", \"b.run >= 1s\", \"a.wit.max < 1ms\"]\n[task.a]\nsteps = [{ run = \"1ms\" }]\n";
    let errors = load("s.toml", text.as_bytes(), &LoadOptions::default()).expect_err("wrong").to_string();
    assert!(errors.contains("s.toml:1:31: error: `goals`: there is no task `b`"), "{errors}");
    assert!(errors.contains("there is no figure `a.wit.max`\n  help: did you mean `wait.max`?"), "{errors}");
    let good = text.replace("\"b.run >= 1s\", \"a.wit.max < 1ms\"", "\"*.timers.missed <= 0\"");
    assert_eq!(load("s.toml", good.as_bytes(), &LoadOptions::default()).expect("valid").goals.len(), 2);
}

#[test]
fn pauses_become_urgent_tasks_one_per_cpu() {
    let text = "[machine]\ncpus = 4\n[pause.gc]\nevery = \"100ms\"\nlength = \"2ms\"\n\
                [pause.steal]\ncpus = \"1-2\"\ntogether = false\nevery = \"20ms\"\nlength = \"1ms\"\n\
                [task.a]\ninstances = \"cpus\"\nsteps = [{ run = \"1s\" }]\n";
    let program = load("s.toml", text.as_bytes(), &LoadOptions::default()).expect("valid").program;
    let names: Vec<_> = program.tasks.iter().map(|task| format!("{}x{}", task.name, task.instances)).collect();
    assert_eq!(names, ["ax4", "gc/0x1", "gc/1x1", "gc/2x1", "gc/3x1", "steal/1x1", "steal/2x1"]);
    assert_eq!(program.resources.len(), 1, "the collector's CPUs meet");
    assert!(program.tasks[1..].iter().all(|task| task.attr.prio().raw() == 0));
    assert_eq!((program.tasks[1].phases[0].actions.len(), program.tasks[2].phases[0].actions.len()), (3, 2));
    assert_eq!(program.tasks[5].affinity.as_ref().map(ToString::to_string).as_deref(), Some("1"));
}

#[test]
fn a_cpu_that_goes_offline_has_no_pauses() {
    let text = "[machine]\ncpus = 2\n[task.a]\nsteps = [{ run = \"1ms\" }]\n\
                [pause.gc]\nevery = \"40ms\"\nlength = \"3ms\"\n\
                [[change]]\nat = \"100ms\"\ncpu = 1\nonline = false\n";
    let errors = load("s.toml", text.as_bytes(), &LoadOptions::default()).expect_err("CPU 1").to_string();
    assert!(errors.contains("s.toml:5:8: error: pause `gc` is on CPU 1, which goes offline at 100ms"), "{errors}");
    assert!(errors.contains("help: write the CPUs that stay online: cpus = \"0\""), "{errors}");
    let good = text.replace("every = \"40ms\"", "every = \"40ms\"\ncpus = \"0\"");
    assert!(load("s.toml", good.as_bytes(), &LoadOptions::default()).is_ok());
}

#[test]
fn the_published_schema_is_the_readers() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/scenario.schema.json");
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    let schema = scenario::schema::json_schema();
    if published != schema {
        let fresh = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("scenario.schema.json");
        std::fs::write(&fresh, schema).expect("writable");
        panic!("docs/reference/scenario.schema.json is out of date: copy {}", fresh.display());
    }
}

#[test]
fn triggers_are_written_to_the_pressure_of_groups_and_of_the_machine() {
    let program = good(&format!(
        "[group.\"/\"]\n\"cpu.pressure\" = \"some 1 10000000\"\n\"cpu.rt.max\" = \"40ms 100ms\"\n\
         [group.\"/a\"]\ncpu.pressure = [\"some 150000 1000000\", {{ unprivileged = \"full 9 2000000\" }}]\n\
         [group.\"/b\"]\ncpu.pressure = {{ unprivileged = \"full 9 2000000\" }}{TASK}"
    ))
    .program;
    let texts = ["some 1 10000000", "some 150000 1000000", "full 9 2000000"];
    let [machine, some, full] = texts.map(|text| text.parse::<PressureTrigger>().expect("a trigger"));
    let full = full.unprivileged().expect("a multiple of 2 s");
    assert_eq!((program.root.triggers, &program.groups[0].triggers), (vec![machine], &vec![some, full]));
    assert_eq!(program.groups[1].triggers, [full]);
    let budget = program.root.rt.expect("a budget");
    assert_eq!((budget.runtime, budget.period), (Some(ms(40)), ms(100)));
    for (table, says) in [
        ("[group.\"/\"]\ncpu.pressure = \"full 1 1000000\"", "s.toml:2:16: error: the machine has no `full`"),
        ("[group.\"/a\"]\ncpu.pressure = \"some 1 0\"", "the window is 1 to 10000000 microseconds (EINVAL)"),
        ("[group.\"/a\"]\ncpu.pressure.unprivileged = \"some 1 3000000\"", "the window is a multiple of 2000000 "),
        ("[group.\"/a\"]\ncpu.pressure = [{ privileged = \"some 1 3000000\" }]", "is a string, not a table"),
        ("[group.\"/a\"]\ncpu.pressure = [\"some 1 1000000\", 3]", "is a string, not "),
        ("[group.\"/\"]\ncpu.max = \"max\"", "s.toml:2:5: error: the root group has no limit"),
        ("[group.\"/\"]\nchanges = []", "help: write [[change]] with group = \"/\""),
    ] {
        let said = read(&format!("{table}{TASK}")).expect_err("refused");
        assert!(said.contains(says), "{table}\n{said}");
    }
}

//! The command line as a user sees it: a process, its output, its exit code.

#[cfg(target_os = "linux")]
mod bounds;
mod complete;
mod draw;
mod explain;
mod hostile;
mod operators;
mod refused;
mod schema;
#[cfg(target_os = "linux")]
mod scx;
#[cfg(target_os = "linux")]
mod serve;
mod tools;
#[cfg(target_os = "linux")]
mod top;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use zerolag::check::{Options, check};
use zerolag::report::{Metrics, json};
use zerolag::simulation::verdicts;
use zerolag::trace::{Machine, Meta, Source, Trace, perfetto};
use zerolag_model::{CpuId, GroupId, Instant, PrevState, Prio, Record, SchedAttr, TaskId, TraceEvent};

/// The results of a process.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn zerolag(args: &[&str]) -> Ended {
    zerolag_with(args, b"")
}

fn zerolag_with(args: &[&str], stdin: &[u8]) -> Ended {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zerolag"))
        .args(args)
        .current_dir(workspace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut pipe = child.stdin.take().expect("piped");
    let stdin = stdin.to_vec();
    // A program that refuses its arguments closes the pipe early: not an error of the test.
    let feeder = std::thread::spawn(move || drop(pipe.write_all(&stdin)));
    let output = child.wait_with_output().expect("the program ends");
    feeder.join().expect("no panic");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A fresh directory for one test.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    drop(std::fs::remove_dir_all(&dir));
    std::fs::create_dir_all(&dir).expect("a directory can be made");
    dir
}

/// Runs a workload given as text and expects a refusal that contains all of `parts`.
fn refused(workload: &str, parts: &[&str]) {
    let ended = zerolag_with(&["run", "-"], workload.as_bytes());
    assert_eq!(ended.code, Some(2), "{workload}\n{}", ended.stderr);
    assert_eq!(ended.stdout, "", "{workload}");
    for part in parts {
        assert!(ended.stderr.contains(part), "`{part}` is not said of {workload}\n{}", ended.stderr);
    }
}

#[test]
fn wrong_arguments_say_what_would_be_right() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["run", "examples/audio.json", "--set", "rt_balanc=passive"], &["did you mean `rt_balance`"]),
        (&["run", "examples/audio.json", "--set", "kernal=6.1"], &["did you mean `kernel`"]),
        (&["run", "examples/web-service-limit.toml", "--set", "bursts=1ms"], &["did you mean `burst`"]),
        (&["man", "swep"], &["`zerolag` has no subcommand `swep`", "did you mean `sweep`"]),
        (&["run", "examples/audio.json", "--set", "rt_balance"], &["KEY=VALUE"]),
        (&["run", "examples/audio.json", "--set", "hz=0"], &["0 is outside 1..=10000"]),
        (&["compare", "examples/audio.json", "--vary", "hz=100,250", "--machine", "2x2"], &["expected four numbers"]),
        (
            &["compare", "examples/audio.json", "--vary", "hz=100,250", "--costs", "defualt"],
            &["did you mean `default`"],
        ),
        (&["run", "/dev/null", "--set", "hz=100"], &["/dev/null"]),
        (&["run", "examples/audio.json", "--set", "hzz=1", "--set", "hz=0"], &["--set hzz=1", "--set hz=0"]),
        (&["cyclictest", "examples/audio.json", "--set", "hzz=1", "--set", "hz=0"], &["--set hzz=1", "--set hz=0"]),
        (&["validate", "--json", "--markdown"], &["cannot be used with '--markdown'"]),
        (&["rt-migrate-test", "--set", "hzz=1"], &["--set hzz=1", "did you mean `hz`"]),
        (&["run", "examples/audio.json", "--kernel", "6.20"], &["was never released", "presets are 2.6.23", "6.12"]),
        (&["run", "examples/audio.json", "--kernel", "v6.12"], &["did you mean `6.12`"]),
        (&["compare", "examples/audio.json", "--vary", "kernel=6.12,6.85.1"], &["6.85.1", "was never released"]),
        (&["run", "examples/audio.json", "--machine", "2x2"], &["expected four numbers"]),
        (&["run", "examples/audio.json", "--machine", "99x99x99x99"], &["more than the 4096"]),
        (&["run", "examples/audio.json", "--cpus", "0"], &["at least one CPU"]),
        (&["run", "examples/audio.json", "--cpus", "-1"], &["1..=4096"]),
        (&["run", "examples/audio.json", "--cpus", "5000"], &["more than the 4096"]),
        (&["run", "examples/audio.json", "-d", "10"], &["needs a unit"]),
        (&["run", "examples/audio.json", "-d", "-10s"], &["not negative"]),
        (&["run", "examples/audio.json", "-d", "0s"], &["must be above zero"]),
        (&["run", "examples/audio.json", "-d", "99999999999h"], &["--duration"]),
        (&["run", "examples/audio.json", "--costs", "defualt"], &["did you mean `default`"]),
        (&["run", "examples/audio.json", "--costs", "no/such.toml"], &["cannot read `no/such.toml`"]),
        (&["run", "examples/audio.json", "--seed", "-1"], &["--seed"]),
        (&["run", "examples/audio.json", "--trace", "x.bin"], &["end the name in .zlt"]),
        (&["run", "examples/audio.json", "--trace", "no/such/dir/x.zlt"], &["there is no directory"]),
        (&["run", "examples/audio.json", "--json=examples"], &["is a directory"]),
        (&["run"], &["<WORKLOAD>"]),
        (&["run", "no-such-file.json"], &["cannot read `no-such-file.json`", "no such file"]),
        (&["run", "examples"], &["cannot read `examples`", "directory"]),
        (&["check", "no-such-file.zlt"], &["cannot read `no-such-file.zlt`"]),
        (&["check", "examples/audio.json"], &["examples/audio.json"]),
        (&["rt-migrate-test", "-p", "98", "5"], &["all must be in 1..=99"]),
        (&["rt-migrate-test", "0"], &["at least one thread"]),
        (&["rt-migrate-test", "many"], &["NR_TASKS"]),
        (&["rt-migrate-test", "-r", "fast", "3"], &["--run-time"]),
        (&["repro", "rt-balence"], &["rt-balance"]),
        (&["rnu"], &["unrecognized subcommand", "rnu"]),
    ];
    for (args, parts) in cases {
        let ended = zerolag(args);
        assert_eq!(ended.code, Some(2), "{args:?}\n{}", ended.stderr);
        assert_eq!(ended.stdout, "", "{args:?}");
        for part in *parts {
            assert!(ended.stderr.contains(part), "`{part}` is not said of {args:?}\n{}", ended.stderr);
        }
    }
}

#[test]
fn wrong_workloads_are_refused_with_their_places() {
    refused("[machine]\ncpus = 2\n[task.a]\ncpus = \"0-5\"\nsteps = [{ run = \"1ms\" }]\n", &["<stdin>:4", "cpus"]);
    refused("[task.a]\npolicy = \"SCHED_FIFO\"\npriority = 100\nsteps = [{ run = \"1ms\" }]\n", &["100", "1..=99"]);
    refused("[task.a]\npolicy = \"SCHED_SPORADIC\"\nsteps = [{ run = \"1ms\" }]\n", &["SCHED_SPORADIC", "SCHED_FIFO"]);
    refused("[task.a]\nsteps = [{ run = \"-1ms\" }]\n", &["<stdin>:2"]);
    refused("[task.a]\nsteps = [{ run = \"99999999999h\" }]\n", &["<stdin>:2"]);
    refused("{ \"tasks\" : { \"a\" : { \"run\" : -5 } } }", &["<stdin>:1"]);
    refused(
        "{ \"tasks\" : { \"a\" : { \"policy\" : \"SCHED_FIFO\", \"priority\" : 0, \"run\" : 5 } } }",
        &["priority"],
    );
    refused("{ \"tasks\" : { \"a\" : { \"cpus\" : [ 64 ], \"run\" : 5 } } }", &["64"]);
    refused("{ \"tasks\" : { \"a\" : { \"run\"", &["<stdin>:1"]);
    refused("", &["<stdin>"]);
}

#[test]
fn settings_that_name_cpus_name_those_of_the_machine() {
    let task = "[machine]\ncpus = 2\n[task.a]\nsteps = [{ run = \"1ms\" }]\n";
    for (key, value, cpu) in
        [("isolcpus", "9", 9), ("irqaffinity", "7", 7), ("nohz_full", "1-2", 2), ("fair_server.cpus", "5=off", 5)]
    {
        let says = format!("CPU {cpu} does not exist: the machine has CPUs 0..=1");
        let text = format!("[settings]\n\"{key}\" = \"{value}\"\n{task}");
        refused(&text, &[&says, "<stdin>:2", "name a CPU that exists"]);
        let ended = zerolag_with(&["run", "-", "--set", &format!("{key}={value}")], task.as_bytes());
        assert_eq!(ended.code, Some(2), "{key}: {}", ended.stderr);
        assert!(ended.stderr.contains(&says) && ended.stderr.contains(key), "{key}: {}", ended.stderr);
        // A larger machine has it.
        let ended = zerolag_with(&["run", "-q", "-", "--cpus", "16"], text.as_bytes());
        assert_eq!(ended.code, Some(0), "{key}: {}", ended.stderr);
    }
    let ended = zerolag(&["timerlat", "--cpus", "2", "-d", "1s", "--isolcpus", "4"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("CPU 4 does not exist"), "{}", ended.stderr);
}

#[test]
fn all_mistakes_of_a_file_are_said_at_once_with_carets() {
    let workload = "[task.a]\npolicy = \"SCHED_FOO\"\nsteps = [{ run = \"5\" }]\n[task.b]\nnice = 77\nsteps = [{ rum = \"1ms\" }]\n";
    let ended = zerolag_with(&["run", "-"], workload.as_bytes());
    assert_eq!(ended.code, Some(2));
    for part in ["SCHED_FOO", "needs a unit", "77", "rum", "<stdin>:2", "<stdin>:3", "<stdin>:5", "<stdin>:6"] {
        assert!(ended.stderr.contains(part), "`{part}` is not said\n{}", ended.stderr);
    }
    assert!(ended.stderr.contains('─'), "carets are drawn\n{}", ended.stderr);
    let alone = zerolag_with(&["run", "-"], b"{\"tasks\": {\n  \"a\": {\n    \"suspend\",\n    \"run\": 1 } } }");
    for part in ["<stdin>:3:14", "write \"suspend\": \"\""] {
        assert!(alone.stderr.contains(part), "`{part}` is not said\n{}", alone.stderr);
    }
}

#[test]
fn what_is_no_text_is_refused() {
    for bytes in [&b"\x7fELF\x02\x01\x01\0\0\0"[..], b"{ \"tasks\" : \xff\xfe }", b"\xff\xfe{\0}\0", &[0; 4096]] {
        let ended = zerolag_with(&["run", "-"], bytes);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn a_damaged_trace_is_refused_and_nothing_is_left_behind() {
    let dir = scratch("damaged");
    let trace = dir.join("a.zlt");
    let path = trace.to_str().expect("UTF-8");
    let ended = zerolag(&["run", "examples/rt-overload.toml", "-d", "300ms", "--trace", path, "-q"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let whole = std::fs::read(&trace).expect("the trace was written");
    let copy = dir.join("b.zlt");
    for cut in [10, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&copy, &whole[..cut]).expect("written");
        let ended = zerolag(&["check", copy.to_str().expect("UTF-8")]);
        assert_eq!(ended.code, Some(2), "cut at {cut}: {}", ended.stderr);
    }
    std::fs::remove_file(&copy).expect("removed");
    // A workload that does not fit leaves no file.
    let out = dir.join("never.zlt");
    let ended = zerolag_with(&["run", "-", "--trace", out.to_str().expect("UTF-8")], b"[task.a]\n");
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let left: Vec<_> =
        std::fs::read_dir(&dir).expect("listed").map(|entry| entry.expect("entry").file_name()).collect();
    assert_eq!(left, ["a.zlt"]);
}

#[test]
fn a_deadlock_names_the_waiting_tasks() {
    let workload = "
[task.a]
loop = 1
steps = [{ lock = \"x\" }, { sleep = \"1ms\" }, { lock = \"y\" }, { unlock = \"y\" }, { unlock = \"x\" }]
[task.b]
loop = 1
steps = [{ lock = \"y\" }, { sleep = \"1ms\" }, { lock = \"x\" }, { unlock = \"x\" }, { unlock = \"y\" }]
";
    let ended = zerolag_with(&["run", "-"], workload.as_bytes());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("a-0 waits for mutex `y`, held by b-0"), "{}", ended.stderr);
    assert!(ended.stderr.contains("b-0 waits for mutex `x`, held by a-0"), "{}", ended.stderr);
    assert!(ended.stdout.contains("deadlock"), "the result is there: {}", ended.stdout);
}

#[test]
fn waiting_for_what_never_comes_is_a_failure() {
    let workload = "[task.a]\nloop = 1\nsteps = [{ sem_wait = \"s\" }]\n";
    let ended = zerolag_with(&["run", "-"], workload.as_bytes());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("a-0 waits for semaphore `s`"), "{}", ended.stderr);
}

#[test]
fn every_example_runs_and_keeps_the_rules() {
    let mut examples: Vec<PathBuf> = std::fs::read_dir(workspace().join("examples"))
        .expect("listed")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json" || extension == "toml"))
        .collect();
    examples.sort();
    assert!(examples.len() >= 6);
    for example in examples {
        let ended = zerolag(&["run", example.to_str().expect("UTF-8"), "-d", "2s"]);
        // Goals apply to the whole duration; `gallery.rs` checks them.
        let is_run = matches!(ended.code, Some(0 | 99));
        assert!(is_run, "{}: {}\n{}", example.display(), ended.stderr, ended.stdout);
        assert!(ended.stdout.contains("0 broken"), "{}", ended.stdout);
        for part in ["2.00s on ", "kernel ", "costs default", "seed ", "run time", "cpus"] {
            assert!(ended.stdout.contains(part), "`{part}`: {}", ended.stdout);
        }
    }
}

#[test]
fn equal_runs_give_equal_bytes() {
    let dir = scratch("equal");
    let path = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
    let run = |mark: &str| {
        let (trace, text, json) = (
            path(&format!("{mark}.zlt")),
            path(&format!("{mark}.txt")),
            format!("--json={}", path(&format!("{mark}.json"))),
        );
        let args = ["run", "examples/web-build.toml", "-d", "500ms", "--seed", "7"];
        let first = zerolag(&[&args[..], &["--trace", &trace, &json]].concat());
        let second = zerolag(&[&args[..], &["--trace", &text]].concat());
        // Whether the goals are met in so short a time does not matter here.
        let ran = |code: Option<i32>| matches!(code, Some(0 | 99));
        assert!(ran(first.code) && first.code == second.code, "{}{}", first.stderr, second.stderr);
        assert_eq!(first.stdout, second.stdout, "what is written beside changes no result");
        let files =
            ["zlt", "txt", "json"].map(|kind| std::fs::read(dir.join(format!("{mark}.{kind}"))).expect("written"));
        (first.stdout, files)
    };
    assert!(run("a") == run("b"), "two equal runs differ");
    let other = zerolag(&["run", "examples/web-build.toml", "-d", "500ms", "--seed", "8"]);
    assert_ne!(other.stdout, run("c").0, "the seed matters");
}

#[test]
fn json_is_one_object_with_everything() {
    let ended = zerolag(&["run", "examples/rt-overload.toml", "-d", "500ms", "--json"]);
    assert_eq!(ended.code, Some(0));
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).expect("stdout is JSON alone");
    assert_eq!(value["schema"], "zerolag.figures.v2");
    assert_eq!(value["meta"]["kernel"], "6.12");
    assert_eq!(value["meta"]["costs"], "default");
    assert_eq!(value["meta"]["seed"], 0);
    assert_eq!(value["meta"]["nr_cpus"], 4);
    assert_eq!(value["ended"]["why"], "duration");
    assert_eq!(value["ended"]["at_ns"], 500_000_000);
    assert!(value["checks"].as_array().is_some_and(|checks| checks.len() >= 5));
}

#[test]
fn the_command_line_overrides_the_file() {
    let workload = b"kernel = \"6.1\"\nseed = 3\nduration = \"1s\"\nsettings = { hz = 100 }\n[machine]\ncpus = 2\n[task.a]\nsteps = [{ run = \"1ms\" }]\n";
    let said = |args: &[&str]| {
        let ended = zerolag_with(&[&["run", "-", "--json"], args].concat(), workload);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let value: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
        let settings = value["meta"]["settings"].as_array().expect("settings").clone();
        let hz = settings.iter().find(|setting| setting["key"] == "hz").expect("hz")["value"].clone();
        let meta = &value["meta"];
        (meta["kernel"].clone(), meta["seed"].clone(), meta["nr_cpus"].clone(), hz, value["elapsed_ns"].clone())
    };
    let json = |value: u64| serde_json::Value::from(value);
    assert_eq!(said(&[]), ("6.1".into(), json(3), json(2), "100".into(), json(1_000_000_000)));
    assert_eq!(
        said(&["--kernel", "6.12", "--seed", "5", "--cpus", "3", "--set", "hz=1000", "-d", "2s"]),
        ("6.12".into(), json(5), json(3), "1000".into(), json(2_000_000_000))
    );
}

#[test]
fn endless_workloads_run_ten_seconds_and_say_so() {
    let ended = zerolag_with(&["run", "-", "-q"], b"[task.a]\nsteps = [{ run = \"1ms\" }]\n");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.starts_with("10.0s on 4 CPUs"), "{}", ended.stdout);
    let ended = zerolag_with(&["run", "-"], b"[task.a]\nsteps = [{ run = \"1ms\" }]\n");
    assert!(ended.stderr.contains("running 10s"), "{}", ended.stderr);
}

#[test]
fn traces_are_checked_and_converted() {
    let dir = scratch("convert");
    let path = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
    let ended = zerolag(&["run", "examples/rt-overload.toml", "-d", "1s", "--trace", &path("a.zlt"), "-q"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ended = zerolag(&["check", &path("a.zlt")]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(
        ended.stdout.lines().all(|line| line.ends_with(" ok") || line.contains("not applicable")),
        "{}",
        ended.stdout
    );
    assert_eq!(zerolag(&["convert", &path("a.zlt"), &path("a.txt")]).code, Some(0));
    let text = std::fs::read_to_string(dir.join("a.txt")).expect("written");
    assert!(text.starts_with("# tracer: nop") && text.contains("sched_switch: prev_comm="), "{text:.300}");
    let ended = zerolag(&["check", &path("a.txt")]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(zerolag(&["convert", &path("a.txt"), &path("b.zlt")]).code, Some(0));
}

#[test]
fn a_recorded_trace_is_reported_and_checked_packed_as_it_is() {
    let recorded = "crates/trace/tests/data/mixed-2cpu.perf.txt.gz";
    let ended = zerolag(&["report", recorded, "--tasks", "5"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for part in ["406ms on 2 CPUs", "run time", "slept", "(text, ", "more tasks that ran less"] {
        assert!(ended.stdout.contains(part), "`{part}` is not said\n{}", ended.stdout);
    }
    let ended = zerolag(&["report", recorded, "--json", "--waits", "1"]);
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(value["meta"]["source"], "text");
    assert_eq!(value["worst_waits"].as_array().map(Vec::len), Some(1));
    assert!(value["tasks"].as_array().is_some_and(|tasks| tasks.iter().any(|task| task["sleep_ns"] != 0)));
    let ended = zerolag(&["check", recorded]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("one-cpu         ok"), "{}", ended.stdout);
    let ended = zerolag(&["report", "examples/audio.json"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(ended.stderr.contains("simulate it: `zerolag run examples/audio.json`"), "{}", ended.stderr);
    let ended = zerolag(&["run", recorded]);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(ended.stderr.contains("is a trace") && ended.stderr.contains("`zerolag report "), "{}", ended.stderr);
}

/// A trace of so many switches of four tasks on two CPUs.
fn switches(count: u32) -> Trace {
    let meta = Meta::new(Source::Simulation, Machine::Cpus(2));
    let record = |at, cpu, event| Record { at: Instant::from_nanos(at), cpu: CpuId(cpu), event };
    let new = |task: u32| TraceEvent::TaskNew {
        task: TaskId(task),
        name: format!("task{task}").into(),
        parent: None,
        attr: SchedAttr::NORMAL,
        group: GroupId::ROOT,
    };
    let mut records: Vec<Record> = (0..4).map(|task| record(0, 0, new(task))).collect();
    let mut running = [None; 2];
    for number in 0..count {
        let (cpu, next_prio) = (number % 2, Prio::from_raw(120));
        let next = (number / 2 % 2 == 0).then(|| TaskId(number / 4 % 2 * 2 + cpu));
        let prev = core::mem::replace(&mut running[cpu as usize], next);
        let prev_state = if prev.is_none() { PrevState::Idle } else { PrevState::Blocked };
        let at = 1_000 + u64::from(number) * 1_009;
        if let Some(task) = next {
            let waking = TraceEvent::Waking { task, prio: next_prio, target: CpuId(cpu), new: false };
            records.push(record(at - 9, cpu, waking));
        }
        records.push(record(at, cpu, TraceEvent::Switch { prev, prev_state, next, next_prio }));
    }
    Trace { meta, records }
}

#[test]
fn a_long_trace_has_the_figures_and_verdicts_of_one_that_is_kept() {
    let dir = scratch("long");
    let (packets, own) = (dir.join("long.pftrace"), dir.join("long.zlt"));
    let (mut bytes, trace) = (Vec::new(), switches(450_000));
    perfetto::write(&mut bytes, &trace).expect("memory takes it");
    // From 4 MiB on these are not kept. The last packet is cut off.
    bytes.truncate(bytes.len() - 3);
    assert!(bytes.len() > 4 << 20, "{}", bytes.len());
    std::fs::write(&packets, bytes).expect("writable");
    let mut late = trace;
    late.meta.lost_events = 7;
    late.write(std::fs::File::create(&own).expect("writable")).expect("writable");
    for path in [&packets, &own] {
        let kept = zerolag::trace::open(path).expect("a trace");
        let mut metrics = Metrics::new(&kept.meta).keep_waits(10);
        kept.records.iter().for_each(|record| metrics.observe(record));
        let name = path.to_str().expect("UTF-8");
        let ended = zerolag(&["report", name, "--json"]);
        let summary = metrics.finish(kept.meta.end);
        assert_eq!(ended.stdout, json::render(&summary).expect("JSON") + "\n", "{name}");
        assert_eq!(ended.stderr.contains("is cut off within the packet"), path == &packets, "{}", ended.stderr);
        let ended = zerolag(&["check", name]);
        assert_eq!(ended.stdout, verdicts::text(&check(&kept, &Options::default())), "{name}");
        assert_eq!(ended.stderr.contains("is cut off within the packet"), path == &packets, "{}", ended.stderr);
        assert_eq!(ended.stdout.contains("7 events were lost"), path == &own, "{}", ended.stdout);
    }
}

#[test]
fn a_broken_trace_fails_its_check() {
    let dir = scratch("broken");
    let file = dir.join("order.txt");
    // A task of priority 10 runs while one of priority 50 waits. (A task on two CPUs at once would
    // be taken for lost events.)
    let text = "# tracer: nop\n#\n\
        <idle>-0 [000] d..2. 1.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120\n\
        a-7 [000] d..2. 1.001000: sched_waking: comm=f pid=8 prio=49 target_cpu=000\n\
        a-7 [000] d..2. 1.001000: sched_wakeup: comm=f pid=8 prio=49 target_cpu=000\n\
        a-7 [000] d..2. 1.001000: sched_waking: comm=g pid=9 prio=89 target_cpu=000\n\
        a-7 [000] d..2. 1.001000: sched_wakeup: comm=g pid=9 prio=89 target_cpu=000\n\
        a-7 [000] d..2. 1.003000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=g next_pid=9 next_prio=89\n\
        g-9 [000] d..2. 1.009000: sched_switch: prev_comm=g prev_pid=9 prev_prio=89 prev_state=S ==> next_comm=f next_pid=8 next_prio=49\n";
    std::fs::write(&file, text).expect("written");
    let ended = zerolag(&["check", file.to_str().expect("UTF-8")]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("1 violation"), "{}", ended.stdout);
}

#[test]
fn a_closed_pipe_is_no_panic() {
    for args in
        [&["run", "examples/rt-overload.toml", "-d", "1s"][..], &["--help"], &["settings"], &["completions", "bash"]]
    {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let child = Command::new(env!("CARGO_BIN_EXE_zerolag"))
            .args(args)
            .current_dir(workspace())
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let output = child.wait_with_output().expect("ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
    }
}

#[test]
fn settings_and_completions_are_complete() {
    let ended = zerolag(&["settings", "--kernel", "2.6.23"]);
    assert_eq!(ended.code, Some(0));
    for (setting, _) in zerolag::model::Settings::default().entries() {
        assert!(ended.stdout.contains(setting.name), "{}", setting.name);
    }
    assert!(ended.stdout.contains("passive"), "{}", ended.stdout);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = zerolag(&["completions", shell]);
        assert!(ended.code == Some(0) && ended.stdout.contains("COMPLETE"), "{shell}");
    }
}

#[test]
fn a_quiet_run_prints_the_figures_that_it_is_asked_for() {
    let ended = zerolag(&["run", "examples/nice-hogs.toml", "-q", "-d", "1s", "--show", "hog0.share"]);
    let line = ended.stdout.lines().find(|line| line.starts_with("hog0.share")).expect("the figure");
    assert!(line.ends_with('%') && !ended.stdout.contains("worst waits"), "{}", ended.stdout);
}

#[test]
fn compare_varies_a_setting_on_a_named_kernel() {
    let compare = ["compare", "examples/audio.json", "--vary", "hz=100,250", "--runs", "1", "-d", "300ms", "-q"];
    let on = |more: &[&str]| zerolag(&[&compare[..], more].concat());
    let [named, set, newest] = [&["--kernel", "2.6.23"][..], &["--set", "kernel=2.6.23"], &[]].map(on);
    assert_eq!(named.code, Some(0), "{}", named.stderr);
    assert_eq!(named.stdout, set.stdout);
    assert_ne!(named.stdout, newest.stdout, "the kernel counts");
    let ended = on(&["--kernel", "5.15", "--kernel", "6.12"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("give one --kernel"), "{}", ended.stderr);
}

/// A schema, the parts of a command line, and the keys of a variant's results.
type Case<'a> = (&'a str, &'a [&'a [&'a str]], &'a [&'a str]);

#[test]
fn every_json_names_its_schema_and_variants_have_one_form() {
    let dir = scratch("schema");
    let path = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
    let example = "examples/audio.json";
    let trace = path("a.zlt");
    let ended = zerolag(&["run", example, "-q", "-d", "300ms", "--trace", &trace]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let short = ["-q", "-d", "300ms"];
    let two = ["--runs", "2"];
    let cases: [Case<'_>; 9] = [
        ("zerolag.figures.v2", &[&["run", example], &short], &[]),
        ("zerolag.figures.v2", &[&["report", &trace]], &[]),
        ("zerolag.compare.v2", &[&["compare", example, "--vary", "hz=100,250"], &short, &two], &["figures"]),
        (
            "zerolag.sweep.v1",
            &[&["sweep", example, "--set", "hz=100,250"], &short, &two],
            &["figures", "limits", "runs"],
        ),
        ("zerolag.explain.v4", &[&["explain", example, "--what-if", "hz=250"], &short], &["explanation"]),
        ("zerolag.explain.v4", &[&["explain", &trace]], &["explanation"]),
        (
            "zerolag.sweep.smallest.v2",
            &[
                &["sweep", "examples/web-service-limit.toml", "--smallest", "workers", "--such-that"],
                &["request_latency.p50 <= 10s", "-q", "-d", "2s", "--runs", "1"],
            ],
            &["met", "goals", "limits", "state", "searched", "fresh", "share_below"],
        ),
        ("zerolag.cyclictest.v1", &[&["cyclictest", "-q", "-l", "2"]], &[]),
        ("zerolag.rt-migrate-test.v1", &[&["rt-migrate-test", "-q", "-l", "2"]], &[]),
    ];
    for (schema, args, results) in cases {
        let args = args.concat();
        let file = path("out.json");
        drop(std::fs::remove_file(&file));
        let text = zerolag(&args);
        let both = zerolag(&[&args[..], &[&format!("--json={file}")]].concat());
        assert_eq!((both.code, &both.stdout), (Some(0), &text.stdout), "{args:?}: {}", both.stderr);
        let written = std::fs::read_to_string(&file).expect("written");
        if !schema.contains("test") {
            let alone = zerolag(&[&args[..], &["--json"]].concat());
            assert_eq!((alone.code, &alone.stdout), (Some(0), &written), "{args:?}: {}", alone.stderr);
        }
        let json: serde_json::Value = serde_json::from_str(&written).expect("JSON");
        assert_eq!(json["schema"], schema, "{args:?}");
        if results.is_empty() {
            continue;
        }
        let variants = json["variants"].as_array().expect("variants");
        assert!(json["runs"].as_u64().is_some_and(|runs| runs > 0), "{args:?}");
        assert_eq!(json["seed"].is_u64(), !args.contains(&trace.as_str()), "{args:?}");
        assert!(variants.len() == 2 || !json["seed"].is_u64() || schema.contains("smallest"), "{args:?}");
        for variant in variants {
            let mut keys: Vec<&str> = variant.as_object().expect("an object").keys().map(String::as_str).collect();
            keys.retain(|key| !results.contains(key));
            assert_eq!(keys, ["name", "values"], "{args:?}");
            // No fresh seeds judge a value that a search has passed over.
            assert!(results.iter().all(|key| *key == "share_below" || !variant[*key].is_null()), "{args:?}");
            assert!(variant["values"].is_object(), "{args:?}");
        }
        if args.contains(&"hz=100,250") {
            assert_eq!(variants[1]["values"]["hz"], "250", "{args:?}");
        }
    }
    let ended = zerolag(&["compare", example, "--vary", "hz=100,250", "-q", "-d", "300ms", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    for row in json["rows"].as_array().expect("rows") {
        let key = row["key"].as_str().expect("a key");
        assert!(key.starts_with(row["owner"].as_str().expect("an owner")), "{row}");
        assert!(json["variants"][0]["figures"][key]["mean"].is_f64(), "{row}");
    }
    assert!(json["variants"][1]["figures"]["machine.switches"].is_object(), "{json}");
}

#[test]
fn a_json_file_that_cannot_be_written_is_refused_before_the_run() {
    let example = "examples/audio.json";
    for args in [
        &["run", example][..],
        &["compare", example, "--vary", "hz=100,250"],
        &["sweep", example, "--set", "hz=100,250"],
        &["explain", example],
        &["report", "crates/trace/tests/data/mixed-2cpu.perf.txt.gz"],
        #[cfg(target_os = "linux")]
        &["calibrate", "/dev/null"],
        #[cfg(target_os = "linux")]
        &["validate", "--live", "conformance/fair/two-hogs.toml"],
    ] {
        let ended = zerolag(&[args, &["--json=examples"]].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("is a directory"), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn duplicate_keys_of_rt_app_mean_what_was_asked_for() {
    let twice = b"{\"tasks\": {\"a\": {\"loop\": 2, \"run\": 1000, \"sleep\": 10, \"run\": 3000}}}";
    let total = |policy: &str| {
        let ended = zerolag_with(&["run", "-", "--costs", "zero", "--json", "--rtapp-duplicates", policy], twice);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("duplicate key \"run\"") && ended.stderr.contains("first here"),
            "{}",
            ended.stderr
        );
        let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
        json["tasks"][0]["run_ns"].as_u64()
    };
    assert_eq!(total("workgen"), Some(8_000_000));
    assert_eq!(total("json-c"), Some(6_000_000));
    let ended = zerolag_with(&["run", "-", "--rtapp-duplicates=error"], twice);
    assert_eq!((ended.code, &*ended.stdout), (Some(2), ""));
    assert!(ended.stderr.contains("write \"run1\""), "{}", ended.stderr);
}

#[test]
fn a_table_of_tasks_runs_by_deadline_or_by_rate() {
    let dir = scratch("task-set");
    let table = dir.join("set.csv");
    std::fs::write(&table, "task,runtime,period,deadline\na,2000,10000,5000\nb,3000,20000,20000\n").expect("writable");
    let table = table.to_str().expect("a plain path");
    for (policy, named) in [("deadline", "DEADLINE 2ms/"), ("fifo", "FIFO 99")] {
        // A switch that costs time is charged to the budget, which is the run time exactly.
        let ended = zerolag(&["run", table, "-d", "1s", "--json", "--task-set", policy, "--costs", "zero"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
        assert_eq!((&json["tasks"][0]["timers"], &json["tasks"][0]["timers_missed"]), (&100.into(), &0.into()));
        assert!(
            json["tasks"][0]["policy"].as_str().is_some_and(|text| text.starts_with(named)),
            "{}",
            json["tasks"][0]
        );
    }
    std::fs::write(dir.join("wrong.csv"), "task,runtime,perod\na,1,2\n").expect("writable");
    let ended = zerolag(&["run", dir.join("wrong.csv").to_str().expect("a plain path")]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("did you mean `period`?"), "{}", ended.stderr);
}

#[test]
fn outputs_of_tools_are_named_with_the_way_out() {
    let dir = scratch("tool-output");
    let file = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).expect("writable");
        path.to_str().expect("a plain path").to_owned()
    };
    let lines = "T: 0 ( 1234) P:80 I:1000 C:  10000 Min:      2 Act:    3 Avg:    3 Max:      20\n";
    let cyclictest = file("cyclictest.txt", lines);
    let shown = zerolag(&["report", &cyclictest]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert!(shown.stdout.contains("thread 0  10000  2.00us  3.00us  20.0us"), "{}", shown.stdout);
    assert!(shown.stdout.contains("zerolag record --print-cmd tracefs"), "{}", shown.stdout);
    let head = "           time    cpu  task name                       wait time  sch delay   run time\n";
    let timehist =
        file("timehist.txt", &format!("{head}  991963.885740 [0001]  sleep[17008]  25.613      0.000      0.057\n"));
    for args in [
        vec!["report", &timehist],
        vec!["check", &timehist],
        vec!["import", &timehist],
        vec!["run", &timehist],
        vec!["explain", &timehist],
        vec!["check", &cyclictest],
        vec!["sweep", &cyclictest, "--vary", "hz=100,250"],
        vec!["report", &cyclictest, "--json"],
    ] {
        let ended = zerolag(&args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}: {}", ended.stderr);
        let (what, advice) = match args[1].contains("timehist") {
            true => ("the output of perf sched timehist", "zerolag report perf.data"),
            false => ("the output of cyclictest", "zerolag record --print-cmd tracefs"),
        };
        assert!(ended.stderr.contains(what) && ended.stderr.contains(advice), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn task_sets_of_other_tools_are_workloads() {
    let dir = scratch("task-sets");
    let set = "<simulation duration='50000000'><sched class='simso.schedulers.RM'/><processors><processor id='1'/></processors><tasks>\
               <task name='a' id='1' abort_on_miss='no' period='10' WCET='2.5'/><task name='b' id='2' period='5' WCET='1'/></tasks></simulation>";
    let path = dir.join("set.xml");
    std::fs::write(&path, set).expect("writable");
    let path = path.to_str().expect("a plain path");
    let ended = zerolag(&["run", path, "--json", "--costs", "zero"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("task b: abort_on_miss"), "{}", ended.stderr);
    let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    // 50 ms on one processor: five jobs of 2.5 ms, ten of 1 ms.
    assert_eq!([&json["tasks"][0]["run_ns"], &json["tasks"][1]["run_ns"]], [&12_500_000, &10_000_000]);
    assert_eq!([&json["tasks"][0]["policy"], &json["tasks"][1]["policy"]], [&"FIFO 98", &"FIFO 99"]);
    let bounds = zerolag(&["analyse", path, "--runs", "1"]);
    assert!(bounds.code == Some(0) && bounds.stdout.contains("3.50ms"), "{}{}", bounds.stdout, bounds.stderr);
}

#[test]
fn workloads_go_to_rt_app_or_it_is_said_why_not() {
    let dir = scratch("export");
    let out = dir.join("rt.json");
    let out = out.to_str().expect("a plain path");
    let ended = zerolag(&["export", "examples/rt-overload.toml", "-o", out]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("time stamps (task t2)"), "{}", ended.stderr);
    assert!(!Path::new(out).exists());
    let ended = zerolag(&["export", "examples/audio.json", "-o", out]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    let figures = |file: &str| zerolag(&["run", file, "-d", "300ms", "--json"]).stdout;
    assert_eq!(figures(out), figures("examples/audio.json"));
}

#[test]
fn manual_pages_name_every_subcommand() {
    let dir = scratch("man");
    let ended = zerolag(&["man", "--dir", dir.to_str().expect("a plain path")]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let page = std::fs::read_to_string(dir.join("zerolag.1")).expect("written");
    assert!(page.contains("zerolag\\-run(1)"), "{page}");
    let page = std::fs::read_to_string(dir.join("zerolag-run.1")).expect("written");
    assert!(page.contains("rtapp\\-duplicates"), "{page}");
    assert!(zerolag(&["man"]).stdout.starts_with(".ie"), "troff");
    let of_sweep = zerolag(&["man", "sweep"]).stdout;
    assert!(of_sweep.contains(".TH zerolag-sweep 1") && of_sweep.contains("smallest"), "{of_sweep}");
}

#[test]
fn a_run_is_recorded_for_the_perfetto_viewer() {
    let dir = scratch("pftrace");
    let path = |name: &str| dir.join(name).to_str().expect("a plain path").to_owned();
    let (direct, archive, converted) = (path("a.pftrace"), path("a.zlt"), path("a.perfetto-trace"));
    for trace in [&direct, &archive] {
        let ended = zerolag(&["run", "examples/audio.json", "-d", "100ms", "-q", "--trace", trace]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    assert_eq!(zerolag(&["convert", &archive, &converted]).code, Some(0));
    assert_eq!(std::fs::read(direct).expect("written"), std::fs::read(converted).expect("written"));
}

#[test]
fn a_new_scenario_runs_and_reaches_its_goals() {
    let dir = scratch("init");
    let file = dir.join("new.toml");
    let file = file.to_str().expect("a plain path");
    assert_eq!(zerolag(&["init", file]).code, Some(0));
    let ended = zerolag(&["run", file]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("goal met (one seed)     control.lateness.max <= 1ms: it is "), "{}", ended.stderr);
    let again = zerolag(&["init", file]);
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.contains("not overwritten"), "{}", again.stderr);
    assert!(zerolag(&["init", "-"]).stdout.starts_with("# A scenario"));
    // A parameter is set like a setting; any other key is refused.
    let threads = |set: &str| {
        let json = zerolag(&["run", file, "-d", "50ms", "--json", "-q", "--set", set]).stdout;
        json.matches("\"worker-").count()
    };
    assert_eq!((threads("workers=2"), threads("hz=250")), (2, 6));
    let ended = zerolag(&["run", file, "--set", "wokers=2"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

#[test]
fn included_files_are_found_beside_the_file_that_includes_them() {
    let dir = scratch("include");
    std::fs::write(dir.join("base.toml"), "duration = \"1s\"\n[task.a]\nsteps = [{ run = \"1s\" }]\n")
        .expect("writable");
    std::fs::write(dir.join("main.toml"), "include = [\"base.toml\"]\nduration = \"20ms\"\n").expect("writable");
    std::fs::write(dir.join("lost.toml"), "include = [\"none.toml\"]\n").expect("writable");
    let path = |name: &str| dir.join(name).to_str().expect("a plain path").to_owned();
    let ended = zerolag(&["run", &path("main.toml"), "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("\"elapsed_ns\": 20000000,"), "{}", ended.stdout);
    let ended = zerolag(&["run", &path("lost.toml")]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("none.toml") && ended.stderr.contains("lost.toml:1:12"), "{}", ended.stderr);
}

#[test]
fn the_schema_of_scenarios_is_printed() {
    let ended = zerolag(&["schema"]);
    let published =
        std::fs::read_to_string(workspace().join("docs/reference/scenario.schema.json")).expect("published");
    assert_eq!((ended.code, ended.stdout), (Some(0), published));
}

#[test]
fn rt_apps_log_is_written_a_file_per_thread() {
    let dir = scratch("rtapp-log");
    let path = dir.to_str().expect("a plain path");
    let ended = zerolag(&["run", "examples/audio.json", "-d", "200ms", "-q", "--rtapp-log", path]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let log = std::fs::read_to_string(dir.join("rt-app-audio-0.log")).expect("written");
    assert!(log.starts_with("#idx     perf      run   period "), "{log}");
    assert_eq!(log.lines().count(), 1 + 37, "{log}");
    assert_eq!(zerolag(&["run", "examples/audio.json", "--rtapp-log", "no/such/dir"]).code, Some(2));
}

#[test]
fn a_fault_of_the_chosen_kernel_is_a_note_and_no_failure() {
    // specs/server/resched-lost.md: a switch finds its server exhausted and loses a request.
    let scenario = "duration = \"1.5s\"\n[machine]\ncpus = 1\n\
        [task.watch]\npolicy = \"SCHED_FIFO\"\npriority = 50\ndelay = \"2ms\"\n\
        steps = [{ run = \"100us\" }, { timer = { period = \"100ms\" } }]\n\
        [task.fifo]\npolicy = \"SCHED_FIFO\"\npriority = 10\nsteps = [{ run = \"10s\" }]\n\
        [task.fair]\ndelay = \"1ms\"\nsteps = [{ run = \"10s\" }]\n";
    let run = |more: &[&str]| {
        let args: Vec<&str> = ["run", "--kernel", "6.12", "--costs", "zero", "-"].iter().chain(more).copied().collect();
        zerolag_with(&args, scenario.as_bytes())
    };
    let faulty = run(&[]);
    assert!(
        faulty.stderr.contains("note: ") && faulty.stderr.contains("fault.fair_server_resched_lost"),
        "{}",
        faulty.stderr
    );
    assert!(faulty.stdout.contains("(by fault.fair_server_resched_lost)"), "{}", faulty.stdout);
    assert_eq!(faulty.code, Some(0));
    let mended = run(&["--set", "fault.fair_server_resched_lost=off"]);
    assert!(!mended.stderr.contains("note: ") && !mended.stdout.contains("(by "), "{}", mended.stderr);
    assert_eq!(mended.code, Some(0));
}

#[test]
fn analyse_prints_bounds_and_says_what_they_assume() {
    let set = "task,runtime,period\na,1000,4000\nb,1000,5000\nc,3000,9000\nd,3000,18000\n";
    let dir = scratch("analyse");
    std::fs::write(dir.join("set.csv"), set).expect("writable");
    let path = dir.join("set.csv");
    let path = path.to_str().expect("UTF-8");
    let args = ["analyse", path, "--cpus", "1", "--task-set", "fifo", "-d", "1s", "--runs", "2", "--json"];
    let json = |more: &[&str]| -> serde_json::Value {
        let out = zerolag(&[&args[..], more].concat());
        assert_eq!(out.code, Some(0), "{}", out.stderr);
        serde_json::from_str(&out.stdout).expect("JSON")
    };
    let alone = json(&["--costs", "zero"]);
    let bounds: Vec<u64> =
        alone["tasks"].as_array().expect("tasks").iter().filter_map(|task| task["bound_ns"].as_u64()).collect();
    assert_eq!(bounds, [1_000_000, 2_000_000, 7_000_000, 18_000_000]);
    for task in alone["tasks"].as_array().expect("tasks") {
        assert_eq!(task["simulated"]["response_max_ns"], task["bound_ns"]);
    }
    assert_eq!(alone["broken"], serde_json::json!([]));
    let costly = json(&["--set", "hz=1000"]);
    assert_eq!(costly["broken"][0]["assumption"], "no_costs");
    assert_eq!(costly["tasks"][3]["breaks"], serde_json::json!([0]));
    let wrong = zerolag(&["analyse", path, "--set", "hzz=1", "--kernel", "6.12"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("did you mean `hz`?"));
}

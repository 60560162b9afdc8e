//! The tools of the field as subcommands: their output and their options.

use super::{scratch, zerolag, zerolag_with};

#[test]
fn rt_migrate_test_prints_as_the_tool_does() {
    let ended = zerolag(&["rt-migrate-test", "-l", "2", "3", "--cpus", "2"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "Iter:      0       1       2  ");
    let row = |line: &str, head: &str| {
        let cells = line.strip_prefix(head).unwrap_or_else(|| panic!("`{line}` begins as `{head}`"));
        assert_eq!(cells.len(), 3 * 8, "`{line}`");
        cells.split_whitespace().map(|cell| cell.parse::<u64>().expect("a number")).collect::<Vec<u64>>()
    };
    let (starts, ends, loops) = (row(lines[1], "   0:   "), row(lines[2], " len:   "), row(lines[3], " loops: "));
    assert_eq!(lines[4], "");
    row(lines[5], "   1:   ");
    assert!((20_000..20_100).contains(&starts[0]) && starts[1] < 100 && starts[2] < 100, "{starts:?}");
    assert!(ends.iter().zip(&starts).all(|(end, start)| (20_000..=20_002).contains(&(end - start))), "{ends:?}");
    assert!(loops.iter().all(|loops| (167_000..=168_100).contains(loops)), "{loops:?}");
    let rest = lines[9..].join("\n");
    assert!(rest.starts_with("Parent pid: 1000\n Task 0 (prio 2) (pid 1001):\n   Max: 200"), "{rest}");
    assert!(rest.contains(" Task 2 (prio 4) (pid 1003):\n   Max: "), "{rest}");
    assert!(ended.stderr.contains("2 CPUs, kernel 7.3, costs default, seed 0"), "{}", ended.stderr);
    assert!(ended.stdout.ends_with(" us\n\n"), "an empty line after each task");
}

#[test]
fn rt_migrate_test_takes_the_tools_options() {
    let dir = scratch("rt-migrate");
    let json = dir.join("r.json");
    let json_option = format!("--json={}", json.display());
    let trace = dir.join("t.zlt");
    let args =
        ["rt-migrate-test", "-c", "-e", "-q", "-p", "10", "-r", "5", "-s", "50", "-m", "500", "-D", "1m", &json_option];
    let ended = zerolag(&[&args[..], &["-l", "3", "--trace", trace.to_str().expect("UTF-8"), "5"]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    assert!(ended.stdout.ends_with(" Passed!\n"), "{}", ended.stdout);
    let value: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    assert_eq!(
        (&value["file_version"], &value["num_threads"], &value["return_code"]),
        (&1.into(), &5.into(), &0.into())
    );
    let prios: Vec<u64> = (0..5).filter_map(|task| value["thread"][task.to_string()]["prio"].as_u64()).collect();
    assert_eq!(prios, [10, 11, 11, 11, 14]);
    assert!(value["thread"]["0"]["max"].as_u64().is_some_and(|max| (5_000..6_000).contains(&max)), "{value}");
    assert_eq!(zerolag(&["check", trace.to_str().expect("UTF-8")]).code, Some(0));
    let ended = zerolag(&["rt-migrate-test", "-D", "1s", "-l", "1000", "2", "-q"]);
    assert_eq!(ended.stdout.matches(" len:").count(), 6, "200 ms an iteration, the one under way is ended");
}

#[test]
fn a_failed_check_ends_the_test_there() {
    // A thread starts a little later than a less urgent one; with the smallest allowed error that
    // is a failure.
    let ended = zerolag(&["rt-migrate-test", "-c", "-m", "0", "-l", "50", "5", "--cpus", "4"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stdout.ends_with(" Failed!\n"), "{}", ended.stdout);
    assert!(ended.stdout.matches(" len:").count() < 50, "{}", ended.stdout);
}

#[test]
fn the_2007_edition_prints_iterations_only() {
    let ended = zerolag(&["rt-migrate-test", "--edition", "2007", "--kernel", "2.6.25", "-l", "2", "5"]);
    assert_eq!(ended.code, Some(0));
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 8, "{}", ended.stdout);
    assert!(
        lines[0].starts_with("   0:    20") && lines[1].starts_with(" len:    40") && lines[2].starts_with(" loops: ")
    );
}

#[test]
fn a_parameter_of_a_scenario_is_set_beside_cyclictest_too() {
    let scenario = b"parameters = { work = \"1ms\" }\n[task.a]\nsteps = [{ run = \"${work}\" }, { sleep = \"1ms\" }]\n";
    let worst = |set: &str| {
        let ended = zerolag_with(&["cyclictest", "-", "-q", "-l", "50", "--cpus", "1", "--set", set], scenario);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stdout
    };
    assert_ne!(worst("work=1us"), worst("work=8ms"));
}

#[test]
fn a_bound_of_the_exit_keeps_cpus_out_of_deep_idle_states() {
    let costs = scratch("idle-states").join("deep.toml");
    let states = "idle_states = [{ residency = \"0ns\", exit = \"100ns\", polling = true }, \
                  { residency = \"2us\", exit = \"2us\" }, { residency = \"600us\", exit = \"133us\" }]\n";
    std::fs::write(&costs, states).expect("it is written");
    let costs = costs.to_string_lossy().into_owned();
    // The longest latency: the last number of the only thread's line.
    let worst = |args: &[&str]| -> u64 {
        let ended = zerolag(&[args, &["-q", "--cpus", "1", "--costs", &costs]].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let last = ended.stdout.split_whitespace().last().expect("a figure");
        last.parse().unwrap_or_else(|_| panic!("{}", ended.stdout))
    };
    let test = ["cyclictest", "-p", "80", "-i", "10000", "-l", "20"];
    let of = |latency: &str| worst(&[&test[..], &["--latency", latency]].concat());
    let [held, shallow, deep] = ["0", "100", "200"].map(of);
    assert_eq!(worst(&test), held, "the tool holds it at 0");
    assert!(held < shallow && shallow < 20 && deep > 130, "{held}, {shallow}, {deep}");
    let rtla = |latency: &[&str]| {
        let head = ["timerlat", "hist", "-P", "f:95", "-p", "10000", "-d", "1s", "-E", "1000", "--no-header", "-q"];
        let ended = zerolag(&[&head[..], &["--cpus", "1", "--costs", &costs], latency].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let line =
            ended.stdout.lines().find_map(|line| line.strip_prefix("max:")).expect("a line of maxima").to_owned();
        line.split_whitespace().next().and_then(|of| of.parse::<u64>().ok()).expect("that of interrupts")
    };
    assert!(rtla(&["--dma-latency", "0"]) < 20 && rtla(&[]) > 130);
    assert!(rtla(&["--deepest-idle-state", "1"]) < 20 && rtla(&["--deepest-idle-state", "2"]) > 130);
}

#[test]
fn cyclictest_prints_what_the_tool_prints() {
    let ended = zerolag(&["cyclictest", "-q", "-l", "20", "-i", "1000", "-p", "80", "-t", "2", "--cpus", "2"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(lines[0].starts_with("T: 0 ( 1000) P:80 I:1000 C:     20 Min:"), "{}", ended.stdout);
    assert!(lines[1].starts_with("T: 1 ( 1001) P:80 I:1500 C:     20 Min:"), "{}", ended.stdout);
    let json = scratch("cyclictest").join("c.json");
    let json_option = format!("--json={}", json.display());
    let ended =
        zerolag(&["cyclictest", "-q", "-S", "-l", "20", "-p", "9", "-H", "30", &json_option, "examples/audio.json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("# Histogram\n000000 "), "{}", ended.stdout);
    let text = std::fs::read_to_string(&json).expect("written");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&value["num_threads"], &value["thread"]["3"]["cpu"]), (&4.into(), &3.into()));
    for (args, part) in [
        (&["cyclictest", "-p", "100"][..], "--priority"),
        (&["cyclictest", "-a", "7", "--cpus", "2"], "CPUs 0..=1"),
        (&["cyclictest", "-i", "0"], "above zero"),
        (&["cyclictest", "-h", "0"], "1..=1000000"),
        (&["cyclictest", "-S", "--priospread"], "cannot be used with"),
        (&["cyclictest", "--policy", "deadline"], "fifo"),
    ] {
        let ended = zerolag(args);
        assert_eq!(ended.code, Some(2), "{args:?}");
        assert!(ended.stderr.contains(part), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn cyclictest_tells_preemption_models_apart_under_a_load_in_the_kernel() {
    let dir = scratch("cyclictest-load");
    let histogram = |model: &str| {
        let path = dir.join(format!("{model}.json"));
        let path = path.to_str().expect("UTF-8");
        let setting = format!("preempt={model}");
        let args = ["cyclictest", "-m", "-p", "95", "-D", "10", "-h", "9999", "-q", "--json", path, "--cpus", "1"];
        let more = ["--kernel", "6.12", "--load", "kernel", "--set", &setting];
        let ended = zerolag(&[&args[..], &more].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let json: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).expect("JSON")).expect("JSON");
        let classes = json["thread"]["0"]["histogram"].as_object().expect("a histogram").iter();
        let mut classes: Vec<(u64, u64)> =
            classes.map(|(latency, count)| (latency.parse().expect("us"), count.as_u64().expect("a count"))).collect();
        classes.sort_unstable();
        classes
    };
    // The least latency that 99 of 100 wakeups do not exceed.
    let p99 = |model: &str| {
        let classes = histogram(model);
        let all: u64 = classes.iter().map(|(_, count)| count).sum();
        let mut seen = 0;
        let found = classes.iter().find(|(_, count)| {
            seen += count;
            seen * 100 >= all * 99
        });
        found.expect("a wakeup").0
    };
    let [rt, full, voluntary, none] = ["rt", "full", "voluntary", "none"].map(p99);
    assert!(rt < full && full < voluntary && voluntary < none, "p99: {rt} {full} {voluntary} {none}");
    let beside = zerolag(&["cyclictest", "examples/audio.json", "--load", "kernel"]);
    assert!(beside.code == Some(2) && beside.stderr.contains("--load"), "{}", beside.stderr);
    for tool in ["cyclictest", "timerlat", "osnoise"] {
        let help = zerolag(&[tool, "--help"]).stdout;
        assert!(help.contains("--load") && help.contains("preempt=none|voluntary|full|lazy|rt"), "{tool}: {help}");
    }
}

#[test]
fn known_faults_are_listed_with_commits_versions_and_specs() {
    let all = zerolag(&["settings", "--faults"]);
    assert_eq!(all.code, Some(0), "{}", all.stderr);
    let faults = zerolag::model::Settings::FAULTS;
    assert!(all.stdout.ends_with(&format!("\n{} faults\n", faults.len())), "{}", all.stdout);
    for fault in faults {
        assert!(all.stdout.contains(&format!("{}\n    {}\n", fault.name(), fault.effect)), "{}", fault.name());
        assert!(super::workspace().join("specs").join(fault.spec).is_file(), "{}", fault.spec);
    }
    let one = "since 6.12 (fd03c5b85855), not fixed; presets with it: 6.12 ";
    assert!(all.stdout.contains(one), "{}", all.stdout);
    let none = "fixed in 6.16 (fc975cfb3639), 6.12.39; in no preset, but in releases between\n";
    assert!(all.stdout.contains(none), "{}", all.stdout);
    let of_one = zerolag(&["settings", "--faults", "--kernel", "7.3"]);
    let end = format!("\n7.3 has 1 of {} faults\n", faults.len());
    assert!(
        of_one.stdout.contains("fault.fair_server_resched_lost\n") && of_one.stdout.ends_with(&end),
        "{}",
        of_one.stdout
    );
}

#[test]
fn any_release_can_be_named_and_what_is_approximate_is_told() {
    let trace = scratch("named-kernel").join("run.zlt");
    let path = trace.to_str().expect("UTF-8");
    let ended = zerolag(&["run", "examples/audio.json", "--kernel", "5.18", "-d", "100ms", "--trace", path]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let note = "note: kernel 5.18: between the presets 5.15 and 6.1; every row is known by release";
    assert!(ended.stderr.contains(note), "{}", ended.stderr);
    let trace = zerolag::trace::open(&trace).expect("a trace");
    assert_eq!(trace.meta.kernel, "5.18");
    let of_5_18 = zerolag::model::KernelVersion::from_name("5.18").expect("a kernel").settings();
    let recorded: Vec<(String, String)> = of_5_18.recorded().map(|(key, value)| (key.to_owned(), value)).collect();
    assert_eq!(trace.meta.settings, recorded);
    assert_eq!(trace.meta.setting("newidle_min_idle"), Some("off"), "5.15 has it, 5.16 removed it");
    for (args, told) in [
        (&["settings", "--kernel", "6.12"][..], "approximate: without the backport of features.NI_RANDOM"),
        (&["settings", "--kernel", "rhel-9.4"], "approximate: the backports are those of rhel-9.3"),
        (&["settings", "--kernel", "6.20"], "was never released: the last of its number was 6.19"),
    ] {
        let ended = zerolag(args);
        assert!(
            ended.stdout.contains(told) || ended.stderr.contains(told),
            "{args:?}: {}{}",
            ended.stdout,
            ended.stderr
        );
    }
    let compared =
        zerolag(&["compare", "examples/audio.json", "--kernel", "6.12.12", "--kernel", "5.18.5", "-d", "100ms"]);
    assert_eq!(compared.code, Some(0), "{}", compared.stderr);
    assert!(compared.stderr.contains("note: kernel 5.18.5: "), "{}", compared.stderr);
}

#[test]
fn two_kernels_that_differ_in_a_known_fault_are_told() {
    let compared =
        zerolag(&["compare", "examples/web-service-limit.toml", "--kernel", "4.15", "--kernel", "5.4", "-d", "200ms"]);
    assert_eq!(compared.code, Some(0), "{}", compared.stderr);
    assert!(compared.stdout.contains("known faults of 4.15 only: "), "{}", compared.stdout);
    assert!(compared.stdout.contains("cfs_bandwidth_expiry"), "{}", compared.stdout);
    let newer = "known faults of 5.4 only: recent_used_cpu = waker, isolcpus_conflict = off, fault.asym_strong_hides, \
                 fault.asym_misfit_hides, fault.asym_thread_stays, uclamp = util\n";
    assert!(compared.stdout.ends_with(newer), "{}", compared.stdout);
}

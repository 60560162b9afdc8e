//! What operators ask: comparisons, sweeps, limits and advice.

use super::{scratch, workspace, zerolag, zerolag_with};

#[test]
fn a_comparison_of_a_kernel_with_itself_finds_nothing_and_an_upgrade_something() {
    let compare = |kernels: [&str; 2]| {
        let args = ["compare", "examples/audio.json", "--runs", "2", "-d", "2s", "--kernel", kernels[0], "--kernel"];
        zerolag(&[&args[..], &kernels[1..]].concat())
    };
    let same = compare(["6.12", "6.12"]);
    assert_eq!(same.code, Some(0), "{}", same.stderr);
    assert!(same.stdout.contains("\n0 figures differ"), "{}", same.stdout);
    let upgrade = compare(["5.10", "6.12"]);
    // CFS prefers a task that sleeps most of the time, EEVDF does not (docs/how-to/upgrade.md).
    let decoder = upgrade.stdout.lines().skip_while(|line| !line.starts_with("decoder"));
    let latency =
        decoder.take_while(|line| !line.starts_with("interface")).find(|line| line.contains("wakeup latency max"));
    let is_longer =
        latency.is_some_and(|line| line.split_whitespace().last().is_some_and(|last| last.starts_with('+')));
    assert!(is_longer, "{}", upgrade.stdout);
    assert_eq!(zerolag(&["compare", "examples/audio.json", "--kernel", "6.12"]).code, Some(2));
}

#[test]
fn comparisons_and_searches_take_the_machine_the_costs_and_quiet() {
    let duplicate = b"{\"tasks\": {\"a\": {\"loop\": 2, \"run\": 1000, \"run\": 3000}}}";
    for command in [
        &["compare", "-", "--vary", "hz=100,1000", "--runs", "1", "--json"][..],
        &["sweep", "-", "--set", "hz=100,1000", "--runs", "1", "--json", "--show", "*.run"],
        &["explain", "-", "--json"],
    ] {
        let stdout = |args: &[&str]| {
            let ended = zerolag_with(&[command, args].concat(), duplicate);
            assert_eq!(ended.code, Some(0), "{command:?} {args:?}: {}", ended.stderr);
            let is_quiet = args.contains(&"-q");
            assert_eq!(ended.stderr.is_empty(), is_quiet, "{command:?} {args:?}: {}", ended.stderr);
            ended.stdout
        };
        let plain = stdout(&["-q", "--machine", "1x1x2x2"]);
        assert_eq!(plain, stdout(&["--machine", "1x1x2x2"]), "{command:?}");
        assert_ne!(plain, stdout(&["-q", "--costs", "zero"]), "{command:?}: costs of zero change figures");
    }
}

#[test]
fn parts_of_a_sweep_are_merged_into_what_one_machine_prints() {
    let dir = scratch("shard");
    let path = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
    let sweep = |more: &[&str]| {
        let args = ["sweep", "examples/audio.json", "--set", "hz=100,250,1000", "-q", "-d", "200ms", "--runs", "2"];
        zerolag(&[&args[..], more].concat())
    };
    let files: Vec<String> = [3, 1, 2].iter().map(|part| path(&format!("{part}.json"))).collect();
    for (file, part) in files.iter().zip(["3/3", "1/3", "2/3"]) {
        let ended = sweep(&["--shard", part, &format!("--json={file}")]);
        assert_eq!((ended.code, &*ended.stdout), (Some(0), &*format!("part {part}: 2 runs\n")), "{}", ended.stderr);
    }
    let merge = |files: &[String], more: &[&str]| {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        zerolag(&[&["merge"], &files[..], more].concat())
    };
    assert_eq!(merge(&files, &[]).stdout, sweep(&[]).stdout);
    assert_eq!(merge(&files, &["--json"]).stdout, sweep(&["--json"]).stdout);
    let plot = path("plot.svg");
    assert_eq!(merge(&files, &["--plot", &plot]).code, Some(0));
    assert!(std::fs::read_to_string(&plot).expect("written").starts_with("<svg"));
    let other = path("other.json");
    assert_eq!(sweep(&["--shard", "1/3", "--seed", "9", &format!("--json={other}")]).code, Some(0));
    for (files, says) in [
        (vec![files[0].clone(), files[1].clone()], "of 3 parts 2 are given; missing: 2"),
        (vec![files[0].clone(), files[0].clone(), files[1].clone()], "are both part 3/3"),
        (vec![files[0].clone(), other], "the seed differs"),
        (vec!["Cargo.toml".to_owned()], "Cargo.toml: this is no part of a sweep"),
        (vec![path("none.json")], "no such file"),
    ] {
        let ended = merge(&files, &[]);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{files:?}");
        assert!(ended.stderr.contains(says), "{files:?}: {}", ended.stderr);
    }
    for (more, says) in [(&["--shard", "1/3"][..], "--json"), (&["--shard", "4/3", "--json"], "1/3 to 3/3")] {
        let ended = sweep(more);
        assert_eq!(ended.code, Some(2), "{more:?}");
        assert!(ended.stderr.contains(says), "{more:?}: {}", ended.stderr);
    }
}

#[test]
fn a_sweep_adds_runs_until_a_mean_is_known() {
    let sweep = |more: &[&str]| {
        let figure = ["--set", "burst=0s,50ms", "--show", "request_latency.p50"];
        let args = ["sweep", "examples/web-service-limit.toml", "-d", "2s"];
        let ended = zerolag(&[&args[..], &figure, more].concat());
        assert_eq!(ended.code, Some(0), "{more:?}: {}", ended.stderr);
        ended
    };
    let enough = sweep(&["-q", "--runs", "2", "--until", "20%"]);
    let runs = enough.stdout.split_once("means of ").and_then(|(_, rest)| rest.split_once(" runs"));
    let runs = runs.map(|(runs, _)| runs).expect("the number of runs");
    assert!(runs.parse::<u64>().is_ok_and(|runs| runs > 2), "{}", enough.stdout);
    assert_eq!(enough.stdout, sweep(&["-q", "--runs", runs]).stdout, "the same seeds in each variant");
    let stopped = sweep(&["--runs", "2", "--until", "0.01", "--most", "3"]);
    assert!(stopped.stdout.contains("means of 3 runs"), "{}", stopped.stdout);
    let note = "note: after 3 runs request_latency.p50 is known within ";
    assert!(stopped.stderr.contains(note) && stopped.stderr.contains("%, not 0.01 %: burst="), "{}", stopped.stderr);
    for (more, says) in [(&["--until", "0"][..], "between 0 and 100 %"), (&["--most", "5"], "--until")] {
        let ended = zerolag(&[&["sweep", "examples/audio.json", "--set", "hz=100,250"], more].concat());
        assert_eq!(ended.code, Some(2), "{more:?}");
        assert!(ended.stderr.contains(says), "{more:?}: {}", ended.stderr);
    }
}

#[test]
fn limits_are_taken_from_a_manifest_and_from_every_spelling() {
    let dir = scratch("manifest");
    let pod = dir.join("pod.yaml");
    let text = "kind: Pod\nspec:\n  containers:\n  - name: web\n    resources: { limits: { cpu: 2500m }, requests: { cpu: 500m } }\n";
    std::fs::write(&pod, text).expect("writable");
    let pod = pod.to_str().expect("UTF-8");
    let run =
        |more: &[&str]| zerolag(&[&["run", "examples/web-service-limit.toml", "-q", "-d", "500ms"], more].concat());
    let limit = "limit of /web: limits.cpu 2500m, --cpus 2.5, CPUQuota=250%, cpu.max 250000 100000, requests.cpu 500m, cpu.shares 512, \
                 cpu.weight 59 (20 under runc before 1.3.2, crun before 1.23)";
    let ended = run(&["-f", pod]);
    assert!(ended.stdout.contains(limit), "{}{}", ended.stdout, ended.stderr);
    for (set, said) in [
        ("limits.cpu=750m", "limits.cpu 750m, --cpus 0.75, CPUQuota=75%, cpu.max 75000 100000"),
        ("CPUQuota=30%", "limits.cpu 300m, --cpus 0.3, CPUQuota=30%, cpu.max 30000 100000"),
        ("--cpus=1.5", "limits.cpu 1500m, --cpus 1.5, CPUQuota=150%, cpu.max 150000 100000"),
    ] {
        // What is set goes over the manifest.
        let ended = run(&["-f", pod, "--set", set]);
        assert!(ended.stdout.contains(said), "{set}: {}{}", ended.stdout, ended.stderr);
    }
    let ended = run(&["-f", "Cargo.toml"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("error: Cargo.toml:2: this is not YAML"), "{}", ended.stderr);
}

#[test]
fn every_row_of_a_sweep_has_the_limit_that_was_run() {
    let sweep = |more: &[&str]| {
        let periods = ["sweep", "examples/web-service-limit.toml", "--set", "cpu.cfs_period_us=10000,100000"];
        zerolag(&[&periods[..], &["-d", "300ms", "--runs", "1"], more].concat())
    };
    let kept = sweep(&["--set", "cpu.cfs_quota_us=50000"]);
    assert!(kept.stdout.contains("50000 10000") && kept.stdout.contains("50000 100000"), "{}", kept.stdout);
    let ratio = sweep(&["--set", "limits.cpu=500m"]);
    assert!(ratio.stdout.contains("5000 10000") && ratio.stdout.contains("50000 100000"), "{}", ratio.stdout);
}

#[test]
fn advice_comes_from_a_scenario_and_from_counters() {
    let dir = scratch("advise");
    let stat = dir.join("cpu.stat.log");
    let text = "100.0\nusage_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n\
                110.0\nusage_usec 5000000\nnr_periods 100\nnr_throttled 20\nthrottled_usec 1000000\n";
    std::fs::write(&stat, text).expect("writable");
    let stat = stat.to_str().expect("UTF-8");
    let ended = zerolag(&["advise", stat, "--now", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("Set cpu.max to \"150000 100000\" (limits.cpu 1500m, --cpus 1.5, CPUQuota=150%)"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("Counters cannot tell:"), "{}", ended.stdout);
    for (more, part) in [
        (&[][..], "counters do not say the limit"),
        (&["--now", "1", "--goal", "p99 <= 1ms"], "--goal needs a workload or a trace"),
        (&["--now", "none"], "not a number of CPUs above zero"),
    ] {
        let ended = zerolag(&[&["advise", stat], more].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{more:?}");
        assert!(ended.stderr.contains(part), "{more:?}: {}", ended.stderr);
    }
    let web = ["advise", "examples/web-service-limit.toml", "-q", "-d", "2s", "--seeds", "2", "--risk", "50%"];
    let ended = zerolag(&[&web[..], &["--goal", "p99 <= 40ms", "--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(json["schema"], "zerolag.advise.v2", "{}", ended.stderr);
    assert_eq!(json["goals"][0], "request_latency.p99 <= 40ms");
    assert_eq!(ended.code, Some(if json["choice"].is_null() { 99 } else { 0 }));
    let ended = zerolag(&[&web[..], &["--now", "1"]].concat());
    assert!(ended.code == Some(2) && ended.stderr.contains("--now is for counters"), "{}", ended.stderr);
}

#[test]
fn a_directory_and_one_file_are_compared_and_bisected() {
    let dir = scratch("suite");
    let hogs = "[machine]\ncpus = 1\n[task.a]\ninstances = 3\nsteps = [{ run = \"5ms\" }]\n";
    std::fs::write(dir.join("hogs.toml"), hogs).expect("writable");
    std::fs::write(dir.join("broken.toml"), "[task.a]\n").expect("writable");
    std::fs::write(dir.join("notes.txt"), "no workload").expect("writable");
    let dir = dir.to_str().expect("UTF-8");
    let more = ["--vary", "hz=100,1000", "-q", "-d", "1s", "--runs", "2"];
    let ended = zerolag(&[&["compare", dir], &more[..]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("100 against 1000: 2 workloads"), "{}", ended.stdout);
    assert!(ended.stdout.contains("hogs.toml") && ended.stdout.contains("not run: broken.toml"), "{}", ended.stdout);
    let found = zerolag(&[&["compare", dir, "--bisect"], &more[..]].concat());
    assert!(
        found.code == Some(0) && found.stdout.contains("hz = 1000 instead of 100"),
        "{}{}",
        found.stdout,
        found.stderr
    );
    assert!(found.stdout.contains("hz = 1000 is an answer for 1 workload\n"), "{}", found.stdout);
    let json = zerolag(&[&["compare", dir, "--bisect", "--json"], &more[..]].concat());
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(json["workloads"][1]["comparison"]["bisection"]["settings"][0]["key"], "hz", "{json}");
    let file = format!("{dir}/hogs.toml");
    let found = zerolag(&[&["compare", &file, "--bisect"], &more[..]].concat());
    assert!(found.stdout.contains("the settings behind the largest change: a "), "{}{}", found.stdout, found.stderr);
    let json = zerolag(&[&["compare", &file, "--bisect", "--json"], &more[..]].concat());
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(json["bisection"]["settings"][0]["key"], "hz", "{json}");
}

/// Writes the first scenario of a spec to a file, and returns its path.
fn scenario_of(spec: &str, dir: &std::path::Path) -> String {
    let text = std::fs::read_to_string(workspace().join("specs").join(spec)).expect("a spec");
    let scenario = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a scenario");
    let path = dir.join("scenario.toml");
    std::fs::write(&path, scenario).expect("writable");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn the_fault_behind_the_difference_of_two_kernels_is_named() {
    let dir = scratch("bisected-faults");
    for (spec, kernels, fault) in [
        // The fault does nothing without the server, which 6.6 has not.
        ("server/resched-lost.md", ["6.6", "6.12"], "fault.fair_server_resched_lost"),
        ("bandwidth/hotplug-bypass.md", ["6.12", "6.18"], "fault.cfs_bandwidth_hotplug_bypass"),
        ("bandwidth/expiry.md", ["4.9", "4.14"], "cfs_bandwidth_expiry"),
    ] {
        let file = scenario_of(spec, &dir);
        let options = ["--bisect", "--runs", "1", "--costs", "zero", "-q"];
        let found =
            zerolag(&[&["compare", &file, "--kernel", kernels[0], "--kernel", kernels[1]], &options[..]].concat());
        assert_eq!(found.code, Some(0), "{spec}: {}", found.stderr);
        let says = format!("known fault that matters: {fault} (");
        assert!(found.stdout.contains(&says), "{spec}: {}", found.stdout);
        assert!(!found.stdout.contains("do not explain"), "{spec}: {}", found.stdout);
        let json = zerolag(
            &[&["compare", &file, "--kernel", kernels[0], "--kernel", kernels[1], "--json"], &options[..]].concat(),
        );
        let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
        let bisection = &json["bisection"];
        assert_eq!((&bisection["explained"], &bisection["cut"]), (&true.into(), &false.into()), "{spec}: {bisection}");
        let settings = bisection["settings"].as_array().expect("settings");
        let mut answer = settings.iter().filter(|setting| !setting["together_share"].is_null());
        assert!(answer.any(|setting| setting["key"] == fault), "{spec}: {bisection}");
        let tried = bisection["faults"].as_array().expect("faults");
        assert!(tried.iter().any(|one| one["name"] == fault && !one["matters"].is_null()), "{spec}: {bisection}");
    }
}

#[test]
fn a_sweep_keeps_its_runs_and_writes_them_as_csv() {
    let dir = scratch("resume");
    let path = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
    let (kept, csv) = (path("kept.json"), path("runs.csv"));
    let sweep =
        ["sweep", "examples/web-service-limit.toml", "--set", "limits.cpu=1,2", "--show", "request_latency.p99"];
    let more = ["-q", "-d", "500ms", "--runs", "2", "--resume", &kept, "--csv", &csv];
    let first = zerolag(&[&sweep[..], &more].concat());
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let lines = std::fs::read_to_string(&csv).expect("written");
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines[0], "limits.cpu,cpu.max,seed,request_latency.p99_ns,error");
    assert!(
        lines.len() == 5 && lines[1].starts_with("1,100000 100000,1,") && lines[4].starts_with("2,200000 100000,2,"),
        "{lines:?}"
    );
    // The second time nothing is run, and the result is the same; a damaged run shows that.
    let again = zerolag(&[&sweep[..], &more].concat());
    assert_eq!((again.code, &again.stdout), (Some(0), &first.stdout), "{}", again.stderr);
    let text = std::fs::read_to_string(&kept).expect("kept");
    let rows = text.find("\"rows\":[[").expect("rows") + 8;
    let changed = format!("{}[7]{}", &text[..rows], &text[rows + text[rows..].find(']').expect("a row") + 1..]);
    std::fs::write(&kept, changed).expect("writable");
    drop(zerolag(&[&sweep[..], &more].concat()));
    assert!(std::fs::read_to_string(&csv).expect("written").contains("1,100000 100000,1,7,\n"));
    let other = zerolag(&[&sweep[..], &more, &["--seed", "5"]].concat());
    assert!(
        other.code == Some(2) && other.stderr.contains("are of another sweep: the seed differs"),
        "{}",
        other.stderr
    );
}

#[test]
fn results_are_written_as_tables() {
    let dir = scratch("tables");
    let path = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).expect("written");
    let is_parquet = |name: &str| {
        let bytes = std::fs::read(dir.join(name)).expect("written");
        bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1")
    };
    let web = "examples/web-service-limit.toml";
    let run = zerolag(&["run", web, "-d", "500ms", "--csv", &path("run"), "--parquet", &path("run")]);
    assert!(matches!(run.code, Some(0 | 99)), "{}", run.stderr);
    let (tasks, groups) = (read("run/tasks.csv"), read("run/groups.csv"));
    assert!(tasks.starts_with("id,name,policy,") && tasks.lines().count() > 10, "{tasks}");
    assert!(groups.contains("\n/web,200000 100000,"), "{groups}");
    assert!(read("run/histograms.csv").lines().count() > 10);
    assert!(["tasks", "cpus", "services", "worst_waits"].iter().all(|name| is_parquet(&format!("run/{name}.parquet"))));
    let lost = "crates/trace/tests/data/lost-2cpu.perf.data.gz";
    let report = zerolag(&["report", lost, "--csv", &path("report")]);
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    assert!(read("report/gaps.csv").starts_with("cpu,from_ns,until_ns,events\n"));
    assert!(read("report/tasks.csv").lines().next().is_some_and(|head| head.contains("recorded.wait_ns_in_gaps")));
    let explain =
        zerolag(&["explain", lost, "--worst", "20", "--csv", &path("e.csv"), "--parquet", &path("e.parquet")]);
    assert_eq!(explain.code, Some(0), "{}", explain.stderr);
    assert!(
        read("e.csv")
            .starts_with("variant,wait,task,task_name,from_ns,to_ns,length_ns,in_gaps_ns,time_ns,says\nas it is,1,")
    );
    assert!(is_parquet("e.parquet"));
    let sweep = ["sweep", web, "--set", "cpu.max=100000 100000,200000 100000", "-d", "200ms", "--runs", "2", "-q"];
    let swept = zerolag(&[&sweep[..], &["--csv", &path("s.csv"), "--parquet", &path("s.parquet")]].concat());
    assert_eq!(swept.code, Some(0), "{}", swept.stderr);
    assert!(is_parquet("s.parquet") && read("s.csv").lines().count() == 5);
    let part = format!("--json={}", path("part.json"));
    assert_eq!(zerolag(&[&sweep[..], &["--shard", "1/1", &part]].concat()).code, Some(0));
    let merged = ["merge", &path("part.json"), "--csv", &path("m.csv"), "--parquet", &path("m.parquet")];
    assert_eq!(zerolag(&merged).code, Some(0));
    assert_eq!(read("m.csv"), read("s.csv"));
    assert!(
        std::fs::read(dir.join("m.parquet")).expect("written")
            == std::fs::read(dir.join("s.parquet")).expect("written")
    );
    let compare =
        ["compare", web, "--vary", "hz=100,1000", "-d", "200ms", "--runs", "1", "-q", "--csv", &path("c.csv")];
    assert_eq!(zerolag(&compare).code, Some(0));
    assert!(read("c.csv").starts_with("owner,figure,unit,variant,mean,min,max,changed\n"), "{}", read("c.csv"));
    let refused = zerolag(&["report", lost, "--csv", &path("c.csv")]);
    assert!(refused.code == Some(2) && refused.stderr.contains("name a directory"), "{}", refused.stderr);
}

#[test]
fn what_a_cut_trace_lacks_is_said_by_every_command() {
    let dir = scratch("cut");
    let whole = std::fs::read(workspace().join("crates/trace/tests/data/rt-migrate-2cpu.txt")).expect("a recording");
    let cut = dir.join("cut.txt");
    std::fs::write(&cut, &whole[..20_000]).expect("writable");
    let (cut, out) = (cut.to_str().expect("UTF-8"), dir.join("out.zlt"));
    let out = out.to_str().expect("UTF-8");
    let word = "the last, has no line break: it is cut off and was left out";
    assert!(zerolag(&["report", cut]).stdout.contains(word));
    let commands: [&[&str]; 5] =
        [&["report", cut, "--json"], &["check", cut], &["explain", cut], &["import", cut], &["convert", cut, out]];
    for command in commands {
        let ended = zerolag(command);
        assert!(matches!(ended.code, Some(0 | 1)), "{command:?}: {}", ended.stderr);
        assert!(
            ended.stderr.contains(&format!("note: {cut}: line ")) && ended.stderr.contains(word),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_run_that_fails_is_a_row_with_its_error() {
    let dir = scratch("failed");
    let path = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
    let (kept, csv, workload) = (path("kept.json"), path("runs.csv"), path("locks.toml"));
    // Each task holds a lock and waits for the other's, unless the second one begins late.
    let text = "[parameters]\nlate = \"1s\"\n[machine]\ncpus = 2\n[mutex.a]\n[mutex.b]\n\
        [task.x]\nloop = 1\nsteps = [{ lock = \"a\" }, { run = \"2ms\" }, { lock = \"b\" }, { run = \"1ms\" }, { unlock = \"b\" }, { unlock = \"a\" }]\n\
        [task.y]\nloop = 1\ndelay = \"${late}\"\nsteps = [{ lock = \"b\" }, { run = \"2ms\" }, { lock = \"a\" }, { run = \"1ms\" }, { unlock = \"a\" }, { unlock = \"b\" }]\n";
    std::fs::write(&workload, text).expect("writable");
    let grid = ["sweep", &workload, "--set", "late=1s,0s,2s", "--runs", "2", "-q", "--show", "x.run"];
    let whole = zerolag(&[&grid[..], &["--csv", &csv, "--resume", &kept]].concat());
    assert_eq!(whole.code, Some(1), "{}", whole.stderr);
    let table = &whole.stdout;
    assert!(table.contains("2 of 6 runs failed and have no figures:\n  late=0s, seed 0: deadlock: "), "{table}");
    let row = |value: &str| table.lines().find(|line| line.trim().starts_with(value)).expect("a row").to_owned();
    assert!(row("0s ").trim().ends_with('-') && row("1s ").contains("ms") && row("2s ").contains("ms"), "{table}");
    let lines = std::fs::read_to_string(&csv).expect("written");
    let errors: Vec<bool> = lines.lines().skip(1).map(|line| line.contains("deadlock: ")).collect();
    assert_eq!(errors, [false, false, true, true, false, false], "{lines}");
    let page = path("failed.html");
    drop(zerolag(&[&grid[..], &[&format!("--html={page}")]].concat()));
    let page = std::fs::read_to_string(&page).expect("written");
    assert!(page.contains("2 of 6 runs failed. The others: ") && page.contains("Failed runs"));
    assert_eq!(page.matches("deadlock: y-0 waits for mutex").count(), 2);
    // Nothing is run again, and parts are merged to the same.
    assert_eq!(zerolag(&[&grid[..], &["--resume", &kept]].concat()).stdout, *table);
    let parts: Vec<String> = (1..=4).map(|part| path(&format!("{part}.json"))).collect();
    for (part, file) in (1..).zip(&parts) {
        let ended = zerolag(&[&grid[..], &["--shard", &format!("{part}/4"), &format!("--json={file}")]].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    let merge = |more: &[&str]| {
        zerolag(&[&["merge"][..], &parts.iter().map(|part| &**part).collect::<Vec<_>>(), more].concat())
    };
    assert_eq!((merge(&[]).code, &merge(&[]).stdout), (Some(1), table));
    let json = merge(&["--json"]).stdout;
    assert_eq!(json, zerolag(&[&grid[..], &["--json"]].concat()).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let run = &json["variants"][1]["runs"][1];
    assert!(
        run["figures"]["x.run_ns"].is_null() && run["error"].as_str().is_some_and(|why| why.contains("mutex")),
        "{run}"
    );
    assert!(json["variants"][0]["runs"][0]["error"].is_null());
}

#[test]
fn every_wrong_value_of_a_sweep_is_said_before_anything_runs() {
    let ended = zerolag(&["sweep", "examples/audio.json", "--set", "hz=100,0,250,99999999", "--set", "cpus=4,0"]);
    let wrong: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!((ended.code, wrong.len()), (Some(2), 3), "{}", ended.stderr);
}

#[test]
fn a_trace_in_place_of_a_workload_is_the_first_mistake() {
    let trace = "crates/trace/tests/data/mixed-2cpu.perf.txt.gz";
    for command in [
        &["sweep", trace][..],
        &["sweep", trace, "--set", "hz=100,250"],
        &["sweep", trace, "--smallest", "nonsense"],
        &["run", trace, "--nonsense"],
        &["run", "--set", "hz=nonsense", trace],
        &["compare", trace],
        &["analyse", trace],
        &["export", trace],
        &["cyclictest", trace],
    ] {
        let ended = zerolag(command);
        assert_eq!(ended.code, Some(2), "{command:?}: {}", ended.stderr);
        let first =
            format!("error: `{trace}` is a trace, not a workload\n  help: its figures: `zerolag report {trace}`");
        assert!(
            ended.stderr.starts_with(&first) && ended.stderr.contains("`zerolag import"),
            "{command:?}: {}",
            ended.stderr
        );
    }
    // A remark of trace-cmd, and a key of a scenario.
    let dir = scratch("misplaced");
    let scenario = dir.join("blankless.toml");
    std::fs::write(&scenario, "duration=\"2s\"\n[machine]\ncpus=1\n[task.a]\nsteps=[{run=\"1s\"}]\n")
        .expect("writable");
    let ended = zerolag(&["run", scenario.to_str().expect("UTF-8")]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // Counters are for `advise`.
    let counters = dir.join("cpu.stat");
    std::fs::write(&counters, "1\nnr_periods 1\nnr_throttled 0\nthrottled_usec 0\n").expect("writable");
    let counters = counters.to_str().expect("UTF-8");
    for command in ["run", "import", "report", "sweep"] {
        let ended = zerolag(&[command, counters]);
        assert_eq!(ended.code, Some(2), "{command}: {}", ended.stderr);
        assert!(
            ended.stderr.contains("holds counters") && ended.stderr.contains("`zerolag advise "),
            "{}",
            ended.stderr
        );
    }
    // A scenario names one in its goals, and is no file of counters.
    let scenario = dir.join("w.toml");
    let text = "duration = \"1s\"\ngoals = [\n  \"nr_throttled <= 1\",\n]\n[group.\"/g\"]\n\"cpu.max\" = \"50000 100000\"\n\
        [task.a]\ngroup = \"/g\"\nsteps = [{ run = \"1ms\" }, { sleep = \"9ms\" }]\n";
    std::fs::write(&scenario, text).expect("writable");
    let ended = zerolag(&["advise", scenario.to_str().expect("UTF-8"), "--seeds", "1"]);
    assert!(!ended.stderr.contains("counters"), "{}", ended.stderr);
    assert!(ended.code == Some(0), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn an_import_says_as_data_what_it_lacks_and_by_what_tasks_wake() {
    let dir = scratch("import-json");
    let text = include_bytes!("../../../trace/tests/data/rt-migrate-2cpu.txt");
    let cut = dir.join("cut.txt");
    std::fs::write(&cut, &text[..text.len() - 7]).expect("writable");
    let path = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
    let ended = zerolag(&["import", &path("cut.txt"), "-o", &path("w.toml"), "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(value["schema"], "zerolag.import.v1");
    assert!(value["dropped"].as_str().is_some_and(|says| says.contains("no line break")), "{value}");
    assert!(value["base_error"]["run_ns"].as_u64().is_some_and(|run| run > 0), "{value}");
    let report = zerolag(&["report", &path("cut.txt"), "--json"]);
    let figures: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
    assert_eq!((&figures["dropped"], &figures["wakings"]), (&value["dropped"], &value["wakings"]));

    let stacks = "crates/trace/tests/data/three-means-stacks.txt.gz";
    let ended = zerolag(&["import", stacks, "-o", &path("w.toml")]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("wakeups by a task: futex "), "{}", ended.stdout);
    let scenario = std::fs::read_to_string(dir.join("w.toml")).expect("written");
    for part in ["(pipe, 12)", "(socket, 12)", "(timer, 48)", "{pipe_write=", "{pipe_read="] {
        assert!(scenario.contains(part), "{part}\n{scenario}");
    }
    assert_eq!(zerolag(&["run", &path("w.toml"), "-q"]).code, Some(0));
    let report = zerolag(&["report", stacks]);
    assert!(report.stdout.contains("\nwakeups, most frequent first\n"), "{}", report.stdout);
    assert_eq!(zerolag(&["import", stacks, "--json"]).code, Some(2), "the scenario is printed");
}

#[test]
fn help_of_set_has_every_spelling_of_a_limit_and_an_unknown_one_a_suggestion() {
    for command in ["run", "sweep"] {
        let help = zerolag(&[command, "--help"]).stdout;
        for key in zerolag::workload::limits::LimitPart::keys() {
            assert!(help.split_whitespace().any(|word| word == key), "{command}: {key}\n{help}");
        }
    }
    let run = |set| zerolag(&["run", "examples/web-service-limit.toml", "-d", "10ms", "-q", "--set", set]);
    for set in ["cpu.idle=1", "cpu.weight.nice=-5", "cpu.uclamp.min=20", "fair_server/cpu3/runtime=20000000"] {
        let ended = run(set);
        assert!(matches!(ended.code, Some(0 | 99)), "{set}: {}", ended.stderr);
    }
    let wrong = run("cpu.wieght=5");
    assert!(wrong.code == Some(2) && wrong.stderr.contains("did you mean `cpu.weight`?"), "{}", wrong.stderr);
    let smallest =
        ["sweep", "examples/web-service-limit.toml", "--smallest", "cpu.idle", "--such-that", "throttled <= 1s"];
    let ended = zerolag(&smallest);
    assert!(ended.stderr.contains("known are cpu.weight,"), "{}", ended.stderr);
}

//! Compares services with queueing theory, and checks that a request's demand does not depend on
//! its handling.
//!
//! With costs of zero and a CPU per worker, requests wait only in the queue, so the known formulas
//! must be reproduced.

use zerolag::report::{RequestTimes, ServiceSummary, Summary};
use zerolag::simulation::{Observe, Plan};
use zerolag::workload::{LoadOptions, load};

fn run(text: &str, seed: u64) -> Summary {
    let scenario = load("s.toml", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let plan = Plan::new(scenario).expect("a plan").with_seed(seed);
    let report = plan.run(Observe { worst_waits: 1, ..Observe::default() }).expect("it runs");
    assert!(report.outcome.why.is_ok(), "{}", report.outcome.why);
    assert!(report.checks.is_some_and(|checks| checks.is_clean()));
    report.summary
}

fn web(summary: &Summary) -> &ServiceSummary {
    summary.service_by_name("web").expect("the service")
}

fn ms(times: Option<&RequestTimes>, pick: fn(&RequestTimes) -> zerolag::model::Duration) -> f64 {
    pick(times.expect("requests")).as_nanos() as f64 / 1e6
}

fn near(what: &str, figure: f64, formula: f64, part: f64) {
    assert!((figure / formula - 1.0).abs() < part, "{what}: {figure} ms, by the formula {formula} ms");
}

/// One worker, constant demand: Pollaczek and Khinchine.
#[test]
fn m_d_1_waits_as_pollaczek_and_khinchine_say() {
    let summary = run(
        "costs = \"zero\"\nmachine = { cpus = 1 }\n[service.web]\narrivals = { poisson = \"140/s\" }\nrequests = 100000\n\
         workers = 1\nsteps = [{ run = \"5ms\" }]\n",
        1,
    );
    let (load, demand) = (0.7, 5.0);
    let wait = load * demand / (2.0 * (1.0 - load));
    near("mean wait", ms(web(&summary).queued.as_ref(), |times| times.mean), wait, 0.04);
    near("mean latency", ms(web(&summary).latency.as_ref(), |times| times.mean), wait + demand, 0.04);
    assert_eq!((web(&summary).arrived, web(&summary).completed, web(&summary).unfinished), (100_000, 100_000, 0));
}

/// Four workers, exponential demand: Erlang's C.
#[test]
fn m_m_c_waits_as_erlang_says() {
    let summary = run(
        "costs = \"zero\"\nmachine = { cpus = 4 }\n[service.web]\narrivals = { poisson = \"600/s\" }\nrequests = 200000\n\
         workers = 4\nsteps = [{ run = { exponential = { mean = \"5ms\" } } }]\n",
        1,
    );
    let (workers, offered) = (4_i32, 3.0_f64);
    let terms = |most: i32| {
        let mut term = 1.0;
        let mut sum = 0.0;
        for k in 0..=most {
            term = if k == 0 { 1.0 } else { term * offered / f64::from(k) };
            sum += term;
        }
        (term, sum)
    };
    let (last, _) = terms(workers);
    let (_, below) = terms(workers - 1);
    let idle_share = 1.0 - offered / f64::from(workers);
    let must_wait = last / idle_share / (below + last / idle_share);
    // Per millisecond: the capacity of the four workers less the offered load.
    let spare = (f64::from(workers) - offered) / 5.0;
    near("mean wait", ms(web(&summary).queued.as_ref(), |times| times.mean), must_wait / spare, 0.04);
    near(
        "p99 of the wait",
        ms(web(&summary).queued.as_ref(), |times| times.p99),
        (100.0 * must_wait).ln() / spare,
        0.04,
    );
}

/// A request's demand belongs to the request: it does not depend on the worker or the number of
/// workers.
#[test]
fn workers_and_limits_change_no_request() {
    let text = |workers: u32, max: &str| {
        format!(
            "machine = {{ cpus = 4 }}\n[group.\"/web\"]\n\"cpu.max\" = \"{max}\"\n[service.web]\ngroup = \"/web\"\n\
             arrivals = {{ poisson = \"200/s\" }}\nrequests = 2000\nworkers = {workers}\n\
             steps = [{{ run = {{ lognormal = {{ median = \"2ms\", sigma = 1.0 }} }} }}, {{ sleep = \"1ms\" }}]\n"
        )
    };
    let free = run(&text(4, "max"), 5);
    let limited = run(&text(9, "80000 100000"), 5);
    assert_eq!((web(&free).completed, web(&limited).completed), (2000, 2000));
    let exec = |summary: &Summary| -> f64 {
        summary.tasks.iter().filter_map(|task| task.exec).map(|exec| exec.as_nanos() as f64).sum()
    };
    // The computations are the same; the scheduler's charges (cache refill after migrations) differ
    // a little.
    assert!((exec(&free) / exec(&limited) - 1.0).abs() < 0.005, "{} {}", exec(&free), exec(&limited));
    assert!(
        ms(web(&limited).latency.as_ref(), |times| times.p99)
            > 2.0 * ms(web(&free).latency.as_ref(), |times| times.p99)
    );
    let group = limited.group_by_path("/web").expect("the group");
    assert!(group.stat.nr_throttled > 0 && group.local_throttled == group.stat.throttled, "{group:?}");
}

/// Open loop: a service that is too slow still gets its requests, and the figures show it.
#[test]
fn an_overloaded_service_does_not_look_fast() {
    let summary = run(
        "duration = \"2s\"\nmachine = { cpus = 1 }\n[service.web]\narrivals = { fixed = \"100/s\" }\nworkers = 1\n\
         steps = [{ run = \"20ms\" }]\n",
        1,
    );
    let web = web(&summary);
    assert_eq!(web.arrived, 200);
    assert!((99..=100).contains(&web.completed) && web.unfinished == web.arrived - web.completed, "{web:?}");
    assert!(ms(web.latency.as_ref(), |times| times.p99) > 950.0, "{web:?}");
}

/// The command line on the example of the README, shortened.
fn zerolag(args: &[&str]) -> (Option<i32>, String, String) {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/web-service-limit.toml");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_zerolag"))
        .args(["sweep", example, "-d", "10s", "--runs", "2"])
        .args(args)
        .output()
        .expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_sweep_is_a_table_in_the_order_of_its_values() {
    let (code, table, stderr) = zerolag(&["--set", "cpu.max.burst=0,200000", "--set", "kernel=6.12,5.15"]);
    assert_eq!(code, Some(0), "{stderr}");
    let rows: Vec<Vec<&str>> =
        table.lines().skip(3).take(4).map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(rows, [["0", "6.12"], ["0", "5.15"], ["200000", "6.12"], ["200000", "5.15"]], "{table}");
    let (_, json, _) = zerolag(&["--set", "cpu.max.burst=0,200000", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let p99 =
        |cell: usize| json["variants"][cell]["figures"]["request_latency.p99_ns"]["mean"].as_f64().expect("a figure");
    assert!(p99(0) > 1.5 * p99(1), "{json}");
    assert_eq!(json["variants"][1]["values"]["cpu.max.burst"], "200000");
}

#[test]
fn the_smallest_limit_reaches_the_goal_and_one_step_less_does_not() {
    let goal = "request_latency.p99 <= 40ms";
    let (code, json, stderr) = zerolag(&["--smallest", "cpu.max", "--such-that", goal, "--json"]);
    assert_eq!(code, Some(0), "{stderr}");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let least = json["least"].as_str().expect("a value");
    let trials = json["variants"].as_array().expect("trials");
    let at = trials.iter().position(|trial| trial["values"]["cpu.max"] == least).expect("it was tried");
    assert_eq!((&trials[at]["met"], &trials[at - 1]["met"]), (&true.into(), &false.into()), "{json}");
    let quota = |trial: &serde_json::Value| -> u64 {
        trial["name"].as_str().and_then(|text| text.split(' ').next()?.parse().ok()).expect("microseconds")
    };
    assert_eq!(quota(&trials[at]) - quota(&trials[at - 1]), 1_000, "a hundredth of a CPU: {json}");
    // Judged by seeds that took no part in the search, and it says what they promise.
    let trial = &trials[at];
    assert_eq!(trial["state"], "met", "{trial}");
    assert!(trial["fresh"]["runs"].as_u64() >= Some(75) && trial["share_below"].as_f64() <= Some(0.05), "{trial}");
    // Threads that are throttled, or fewer, wake less often: the least value would always meet it.
    let (code, _, refused) = zerolag(&["--smallest", "cpu.max", "--such-that", "web.wakeup_latency.p99 <= 1ms"]);
    assert_eq!(code, Some(2), "{refused}");
    assert!(refused.contains("says nothing of requests") && refused.contains("web.request_latency.p99"), "{refused}");
    // An impossible goal is met by no value: exit code 99.
    let (code, text, _) = zerolag(&["--smallest", "cpu.max", "--such-that", "request_latency.p50 <= 1us"]);
    assert_eq!(code, Some(99), "{text}");
    assert!(text.starts_with("no cpu.max meets the goals"), "{text}");
}

#[test]
fn sweeps_that_make_no_sense_are_refused() {
    for (args, says) in [
        (&["--set", "hz=100"][..], "nothing to vary"),
        (&["--set", "hzz=100,250"], "did you mean"),
        (&["--set", "cpu.max=1,2"], "quota 1us is below 1ms (EINVAL)"),
        (&["--set", "/db:cpu.max=1000,2000"], "there is no group `/db`"),
        (&["--set", "burst=0s,50ms", "--show", "request_latency.p100"], "above p0 and below p100"),
        (&["--smallest", "cpu.max"], "--such-that"),
        (&["--smallest", "hz", "--such-that", "nr_throttled <= 1"], "cannot search for `hz`"),
        (&["--smallest", "cpu.max", "--such-that", "web.p99 <= 1ms"], "error: --such-that: goal \"web.p99 <= 1ms\""),
        (&["--smallest", "cpu.max", "--such-that", "p100 <= 1ms"], "error: --such-that: goal \"p100 <= 1ms\""),
        (
            &["--smallest", "cpu.max", "--such-that", "db.request_latency.p95 <= 1ms"],
            "known are web.request_latency.p95",
        ),
        (&["--smallest", "cpu.max", "--such-that", "web.timers.missed <= 1"], "no run has measured timers.missed"),
        (&["--smallest", "cpu.max", "--such-that", "p99 <= 1ms", "--risk", "0%"], "no number of runs shows that"),
        (
            &["--smallest", "cpu.max", "--such-that", "p99 <= 1ms", "--risk", "1%", "--most", "100"],
            "a share of misses below 1.0 % needs 379 runs without a miss, and at most 100 are allowed",
        ),
        (&["--set", "burst=0s,50ms", "--risk", "1%"], "--risk is for a search"),
    ] {
        let (code, _, stderr) = zerolag(args);
        assert_eq!(code, Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
}

#[test]
fn any_percentile_is_shown_where_it_is_asked_for() {
    let zerolag = |args: &[&str]| {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/web-service-limit.toml");
        let output =
            std::process::Command::new(env!("CARGO_BIN_EXE_zerolag")).arg(args[0]).arg(file).args(&args[1..]).output();
        let output = output.expect("the program starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let figure = "web.request_latency.p99.5";
    let (code, text) = zerolag(&["run", "-d", "5s", "--show", &format!("{figure},throttled")]);
    let line = text.lines().find(|line| line.starts_with(figure)).unwrap_or_else(|| panic!("{text}"));
    assert!(code.is_some() && line.ends_with("ms") && text.contains("figures asked for"), "{line}");
    let (_, json) = zerolag(&["run", "-d", "5s", "--show", figure, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["shown"][0]["figure"], &json["shown"][0]["unit"]), (&figure.into(), &"ns".into()));
    let service = &json["services"][0]["request_latency"];
    let (p99, p999, asked) = (&service["p99_ns"], &service["p999_ns"], &json["shown"][0]["value"]);
    let [p99, p999, asked] = [p99, p999, asked].map(|value| value.as_u64().expect("measured"));
    assert!(p99 <= asked && asked <= p999, "{p99} {asked} {p999}");
    // Goals of one run say so.
    assert_eq!(
        (&json["goals"][0]["runs"], json["goals"][0]["met"].is_boolean()),
        (&1.into(), true),
        "{}",
        json["goals"]
    );
    let compared = ["compare", "--vary", "burst=0s,200ms", "--runs", "2", "-d", "5s", "-q", "--show", "queued.p95"];
    let (_, json) = zerolag(&[&compared[..], &["--json"]].concat());
    assert!(json.contains("\"web.queued.p95_ns\""), "{json}");
}

//! The published forms of JSON results: every command's output has its form, and no other.

use super::{scratch, workspace, zerolag};
use jsonschema::Validator;
use serde_json::Value;
use std::collections::BTreeMap;

const PUBLISHED: &str = "docs/reference/results.schema.json";

fn published() -> Value {
    let text = std::fs::read_to_string(workspace().join(PUBLISHED)).expect("published");
    serde_json::from_str(&text).expect("JSON")
}

/// The forms by name. A result is judged by the one that it names, which says more than `oneOf`.
fn forms() -> BTreeMap<String, Validator> {
    let schema = published();
    let definitions = schema["$defs"].as_object().expect("definitions");
    let names = definitions.keys().filter(|name| name.starts_with("zerolag."));
    let form = |name: &String| {
        let mut form = schema.clone();
        let map = form.as_object_mut().expect("an object");
        map.remove("oneOf");
        map.insert("$ref".to_owned(), format!("#/$defs/{name}").into());
        (name.clone(), jsonschema::validator_for(&form).expect("a schema"))
    };
    names.map(form).collect()
}

/// Returns what is wrong with a result.
fn errors(forms: &BTreeMap<String, Validator>, result: &Value) -> Vec<String> {
    let Some(form) = result["schema"].as_str().and_then(|name| forms.get(name)) else {
        return vec![format!("there is no form `{}`", result["schema"])];
    };
    form.iter_errors(result).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn the_forms_of_results_are_published() {
    let ended = zerolag(&["schema", "results"]);
    let kept = std::fs::read_to_string(workspace().join(PUBLISHED)).unwrap_or_default();
    assert!(
        (ended.code, &ended.stdout) == (Some(0), &kept),
        "{PUBLISHED} is out of date: zerolag schema results > {PUBLISHED}"
    );
}

/// Calls `each` with the place of every object in a schema that has properties.
fn objects<'s>(place: &str, schema: &'s Value, each: &mut impl FnMut(&str, &'s Value)) {
    match schema {
        Value::Object(map) => {
            if map.contains_key("properties") {
                each(place, schema);
            }
            for (key, below) in map {
                objects(&format!("{place}/{key}"), below, each);
            }
        }
        Value::Array(all) => all.iter().for_each(|below| objects(place, below, each)),
        _ => {}
    }
}

#[test]
fn every_key_is_described_and_every_object_is_closed() {
    let schema = published();
    let mut wrong = Vec::new();
    objects("", &schema["$defs"], &mut |place, object| {
        if object["additionalProperties"] != false {
            wrong.push(format!("{place} takes any key"));
        }
        for (key, property) in object["properties"].as_object().expect("an object") {
            let is_tag = key == "kind" && property["const"].is_string();
            if property["description"].as_str().is_none_or(str::is_empty) && !is_tag {
                wrong.push(format!("{place}: {key} has no description"));
            }
        }
    });
    let page = std::fs::read_to_string(workspace().join("docs/reference/formats.md")).expect("a page");
    for name in schema["$defs"].as_object().expect("definitions").keys() {
        if name.starts_with("zerolag.") && !page.contains(&format!("`{name}`")) {
            wrong.push(format!("docs/reference/formats.md has no `{name}`"));
        } else if !name.starts_with("zerolag.") && name.ends_with(|c: char| c.is_ascii_digit()) && !name.contains('_') {
            wrong.push(format!("two types have the name of {name}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs a command and returns its JSON: that of stdout, or of `file` if the command takes one.
fn json(args: &[&str], file: Option<&std::path::Path>) -> Value {
    let ended = zerolag(args);
    assert!(matches!(ended.code, Some(0 | 1 | 99)), "{args:?}: {:?} {}", ended.code, ended.stderr);
    let text = file.map_or(ended.stdout, |file| std::fs::read_to_string(file).expect("written"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {}\n{text}", ended.stderr))
}

const HOLDERS: &str = "[machine]\ncpus = 2\n[mutex.m]\n[group.\"/small\"]\n\"cpu.max\" = \"20000 100000\"\n\
    [task.holder]\ngroup = \"/small\"\nsteps = [{ lock = \"m\" }, { run = \"30ms\" }, { unlock = \"m\" }, { sleep = \"1ms\" }]\n\
    [task.waiter]\nsteps = [{ lock = \"m\" }, { run = \"1ms\" }, { unlock = \"m\" }, { sleep = \"2ms\" }]\n\
    [task.rt]\npolicy = \"fifo\"\npriority = 5\nsteps = [{ run = \"3ms\" }, { sleep = \"20ms\" }]\n";

#[test]
#[expect(clippy::too_many_lines, reason = "a line or two per command; later commands read the files of earlier ones")]
fn what_every_command_writes_has_its_published_form() {
    let dir = scratch("results");
    let path = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
    let write = |name: &str, text: &str| {
        std::fs::write(dir.join(name), text).expect("writable");
        path(name)
    };
    let forms = forms();
    let mut seen = BTreeMap::new();
    let mut expect = |name: &str, args: &[&str], file: Option<&str>| {
        let result = json(args, file.map(|file| dir.join(file)).as_deref());
        assert_eq!(result["schema"], name, "{args:?}");
        let errors = errors(&forms, &result);
        assert!(errors.is_empty(), "{args:?}:\n{}", errors.join("\n"));
        seen.insert(name.to_owned(), result.clone());
        result
    };
    let example = "examples/audio.json";
    let web = "examples/web-service-limit.toml";
    let holders = write("holders.toml", HOLDERS);
    let short = ["-q", "-d", "300ms", "--json"];
    let with = |args: &[&'static str]| -> Vec<&'static str> { [args, &short[..]].concat() };

    // Runs and traces.
    let trace = path("a.zlt");
    let run = expect("zerolag.figures.v2", &["run", &holders, "-q", "-d", "1s", "--json", "--trace", &trace], None);
    assert!(run["limits"][0]["quota_us"] == 20_000 && run["checks"].is_array() && run["ended"]["ticks"].is_u64());
    expect("zerolag.figures.v2", &with(&["run", web]), None);
    expect("zerolag.figures.v2", &["report", &trace, "--json"], None);
    let kernels = path("k.txt");
    assert_eq!(zerolag(&["convert", &trace, &kernels]).code, Some(0));
    let recorded = expect("zerolag.figures.v2", &["report", &kernels, "--json"], None);
    assert!(recorded["tasks"][0]["recorded"]["tid"].is_u64(), "{recorded:#}");
    let into = path("imported.toml");
    let imported = expect("zerolag.import.v1", &["import", &kernels, "-o", &into, "--json"], None);
    assert!(imported["task_errors"][0]["run_ns"].is_u64() && imported["wakings"].is_array(), "{imported:#}");
    // The imported file knows its base error, and so do the commands that change something.
    let vary = ["--vary", "hz=100,1000", "--runs", "1", "-q", "--json"];
    let compared = expect("zerolag.compare.v2", &[&["compare", &*into], &vary[..]].concat(), None);
    assert!(compared["origin"]["base_error"]["wait_percent"].is_f64() && compared["origin"]["trace"] == "k.txt");
    assert!(compared["rows"][0]["below_base_error"].is_boolean(), "{compared:#}");
    let set = ["--set", "hz=100,1000", "--runs", "1", "-q", "--json"];
    let swept = expect("zerolag.sweep.v1", &[&["sweep", &*into], &set[..]].concat(), None);
    assert!(swept["origin"]["trace"] == "k.txt" && swept["below_base_error"].is_array(), "{swept:#}");
    let checked = expect("zerolag.check.v1", &["check", &trace, "--json"], None);
    assert!(checked["clean"] == true && checked["checks"].as_array().is_some_and(|checks| checks.len() > 5));
    expect("zerolag.check.v1", &["check", &kernels, "--json"], None);
    #[cfg(target_os = "linux")]
    expect("zerolag.figures.v2", &["run", example, "--on", "linux", "-d", "100ms", "-q", "--json"], None);

    // Several runs.
    expect("zerolag.compare.v2", &with(&["compare", example, "--vary", "hz=100,250", "--runs", "2"]), None);
    expect(
        "zerolag.compare.v2",
        &["compare", &holders, "--vary", "hz=100,1000", "--bisect", "-q", "-d", "1s", "--json"],
        None,
    );
    let suite = dir.join("suite");
    std::fs::create_dir(&suite).expect("a directory");
    std::fs::write(suite.join("a.toml"), HOLDERS).expect("writable");
    std::fs::write(suite.join("b.toml"), "nonsense = 1\n").expect("writable");
    let suite = suite.to_str().expect("UTF-8");
    expect("zerolag.compare.suite.v2", &["compare", suite, "--vary", "hz=100,250", "-q", "-d", "1s", "--json"], None);
    let bisected = ["compare", suite, "--vary", "hz=100,250", "--bisect", "-q", "-d", "1s", "--json"];
    expect("zerolag.compare.suite.v2", &bisected, None);
    let sweep = ["sweep", web, "--set", "cpu.max=100000,200000", "--runs", "2", "-q", "-d", "300ms"];
    let kept = format!("--resume={}", path("kept.json"));
    expect("zerolag.sweep.v1", &[&sweep[..], &["--json", &kept]].concat(), None);
    expect("zerolag.sweep.kept.v1", &[&sweep[..], &[&kept]].concat(), Some("kept.json"));
    let part = |part: &str| format!("--json={}", path(part));
    expect("zerolag.sweep.shard.v2", &[&sweep[..], &["--shard", "1/2", &part("1.json")]].concat(), Some("1.json"));
    expect("zerolag.sweep.shard.v2", &[&sweep[..], &["--shard", "2/2", &part("2.json")]].concat(), Some("2.json"));
    expect("zerolag.sweep.v1", &["merge", &path("1.json"), &path("2.json"), "--json"], None);
    histograms_add_up(&dir, &mut expect);
    let smallest = ["sweep", web, "--smallest", "workers", "--such-that", "request_latency.p50 <= 10s"];
    expect("zerolag.sweep.smallest.v2", &[&smallest[..], &["--runs", "1"], &short].concat(), None);
    let advice = [
        "advise",
        web,
        "-q",
        "-d",
        "2s",
        "--seeds",
        "2",
        "--risk",
        "50%",
        "--goal",
        "request_latency.p99 <= 40ms",
        "--json",
    ];
    let advice = expect("zerolag.advise.v2", &advice, None);
    assert_eq!(advice["alternatives"][0]["searched"]["worst"][0]["unit"], "ns");
    let counters = write(
        "stat.csv",
        "time,usage_usec,nr_periods,nr_throttled,throttled_usec\n0,0,0,0,0\n10,9000000,100,40,2000000\n20,18000000,200,80,4000000\n",
    );
    expect("zerolag.advise.counters.v1", &["advise", &counters, "--now", "1", "--json"], None);
    let budget =
        ["advise", "docs/how-to/rt-container.toml", "--kernel", "7.1", "--set", "rt_group_sched=hcbs", "--set"];
    let few = ["hz=1000", "--set", "cpu.rt.max=5000 10000", "--seeds", "3", "--risk", "30%", "-q", "--json"];
    expect("zerolag.advise.budget.v1", &[&budget[..], &few].concat(), None);
    expect("zerolag.analyse.v1", &["analyse", "examples/deadline.json", "-q", "-d", "1s", "--json"], None);

    // Explanations: every link of a chain is data.
    expect("zerolag.explain.v4", &["explain", example, "--what-if", "hz=250", "-q", "-d", "300ms", "--json"], None);
    expect("zerolag.explain.v4", &["explain", &kernels, "--json"], None);
    let found = expect("zerolag.explain.v4", &["explain", &trace, "--json"], None);
    let waits = found["variants"][0]["explanation"]["waits"].as_array().expect("waits").clone();
    let chains = waits.iter().flat_map(|wait| wait["causes"].as_array().into_iter().flatten());
    let locked = chains.filter_map(|cause| cause["chain"].as_array()).find(|chain| {
        chain[0]["kind"] == "lock" && chain[0]["holder"]["name"] == "holder-0" && chain[1]["kind"] == "throttled"
    });
    let locked = locked.expect("the waiter waits for a holder that is throttled");
    assert!(locked[1]["group"]["path"] == "/small" && locked[1]["since_ns"].is_u64(), "{locked:?}");
    for wait in &waits {
        let causes = wait["causes"].as_array().expect("causes").iter();
        let sum: u64 = causes.filter_map(|cause| cause["time_ns"].as_u64()).sum();
        assert_eq!(Some(sum), wait["length_ns"].as_u64(), "{wait}");
    }

    // Tools.
    let settings = expect("zerolag.settings.v1", &["settings", "--kernel", "5.15", "--json"], None);
    let hz = settings["settings"].as_array().expect("settings").iter().find(|row| row["key"] == "hz");
    assert_eq!(hz.expect("hz")["number"], 250);
    let out = format!("--json={}", path("out.json"));
    expect("zerolag.cyclictest.v1", &["cyclictest", "-q", "-l", "5", "-h", "50", &out], Some("out.json"));
    expect("zerolag.rt-migrate-test.v1", &["rt-migrate-test", "-q", "-l", "2", &out], Some("out.json"));
    let lat = ["timerlat", "hist", "-u", "-d", "2s", "--cpus", "2", "--load", "hogs", "-q", "--json"];
    let lat = expect("zerolag.timerlat.v1", &lat, None);
    let histogram = lat["cpus"][0]["thread"]["histogram"].as_array().expect("classes");
    let count: u64 = histogram.iter().filter_map(|class| class["count"].as_u64()).sum();
    assert_eq!(
        Some(count + lat["cpus"][0]["thread"]["over"].as_u64().expect("a count")),
        lat["cpus"][0]["thread"]["count"].as_u64(),
        "{lat:#}"
    );
    let stopped = ["timerlat", "-d", "2s", "--cpus", "1", "-T", "1", "-q", "--json"];
    let stopped = zerolag(&stopped);
    let value: Value = serde_json::from_str(&stopped.stdout).expect("stdout is JSON alone");
    assert!(stopped.code == Some(2) && value["threshold_passed_cpu"] == 0, "{value:#}");
    assert!(stopped.stderr.contains("hit stop tracing"), "{}", stopped.stderr);
    let noise = ["osnoise", "-d", "3s", "--cpus", "2", "--load", "hogs", "-q", "--json"];
    let noise = expect("zerolag.osnoise.v1", &noise, None);
    assert!(noise["cpus"][0]["noise_us"].as_u64().is_some_and(|us| us > 0), "{noise:#}");
    expect("zerolag.validate.v1", &["validate", "conformance/fair/two-hogs.toml", "-q", "--json"], None);
    #[cfg(target_os = "linux")]
    expect(
        "zerolag.validate.live.v1",
        &["validate", "--live", "--runs", "1", "-d", "100ms", "-q", "--json", "conformance/fair/two-hogs.toml"],
        None,
    );
    let into = dir.to_str().expect("UTF-8");
    let repro = |args: &[&'static str]| {
        [&["repro"], args, &["--out", into]].concat().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (name, args) in [
        ("rt-balance", &["rt-balance", "--tests", "2"][..]),
        ("inversion", &["inversion", "--seeds", "1"]),
        ("rt-ipi", &["rt-ipi", "--max-cpus", "4"]),
        ("dl-server", &["dl-server", "--minutes", "1"]),
    ] {
        let args = repro(args);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        expect(&format!("zerolag.repro.{name}.v1"), &args, Some(&format!("{name}.json")));
    }

    // The rest is too slow for a test: 50 s of simulation, 45 s of measuring this host.
    let slow = ["zerolag.repro.bandwidth.v1", "zerolag.calibrate.v1"];
    let missing: Vec<&String> =
        forms.keys().filter(|name| !seen.contains_key(*name) && !slow.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "no command was run for {missing:?}");

    // A form is strict: no result has another's, and a further key anywhere is refused.
    for (name, result) in &seen {
        let others = forms.iter().filter(|(other, _)| *other != name);
        let fitting: Vec<&String> = others.filter(|(_, form)| form.is_valid(result)).map(|(other, _)| other).collect();
        assert!(fitting.is_empty(), "{name} has the form of {fitting:?}");
        let mut more = result.clone();
        more["further"] = 1.into();
        assert!(!forms[name].is_valid(&more), "{name} takes any key");
    }
    let mut link = found;
    link["variants"][0]["explanation"]["waits"][0]["causes"][0]["chain"][0]["further"] = 1.into();
    assert!(!errors(&forms, &link).is_empty(), "a link takes any key");
    link["variants"][0]["explanation"]["waits"][0]["causes"][0]["chain"][0] = "Switch { cpu: 0 }".into();
    assert!(!errors(&forms, &link).is_empty(), "a link can be text");
}

/// Runs a sweep whole, in parts, and in two goes: the distributions are the same, and those of a
/// variant are the sums of those of its runs.
fn histograms_add_up(dir: &std::path::Path, expect: &mut impl FnMut(&str, &[&str], Option<&str>) -> Value) {
    let sweep = ["sweep", "examples/web-service-limit.toml", "--set", "cpu.max=100000,200000", "--runs", "2"];
    let sweep = [&sweep[..], &["-q", "-d", "2s", "--show", "request_latency.p99", "--histograms"]].concat();
    let path = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
    let kept = path("kept-histograms.json");
    let whole = expect("zerolag.sweep.v1", &[&sweep[..], &["--json", "--resume", &kept]].concat(), None);
    let again = expect("zerolag.sweep.v1", &[&sweep[..], &["--json", "--resume", &kept]].concat(), None);
    assert!(whole == again, "kept runs have the same distributions");
    for part in ["1", "2"] {
        let (number, file) = (format!("{part}/2"), format!("h{part}.json"));
        let json = format!("--json={}", path(&file));
        expect("zerolag.sweep.shard.v2", &[&sweep[..], &["--shard", &number, &json]].concat(), Some(&file));
    }
    let parts = [path("h1.json"), path("h2.json")];
    let merged = expect("zerolag.sweep.v1", &["merge", &parts[0], &parts[1], "--json"], None);
    assert!(whole == merged, "the parts together have the same distributions");
    let mixed = zerolag(&["merge", &parts[0], &path("2.json")]);
    assert_eq!(mixed.code, Some(2), "parts of another sweep: {}", mixed.stdout);

    let numbers = |value: &Value| -> Vec<u64> {
        value.as_array().expect("a column").iter().map(|number| number.as_u64().expect("a number")).collect()
    };
    for variant in whole["variants"].as_array().expect("variants") {
        let runs = variant["runs"].as_array().expect("runs");
        let latency = |of: &Value| {
            let found = of["histograms"].as_array().expect("histograms").iter();
            found.clone().find(|one| one["figure"] == "request_latency" && one["owner"] == "web").expect("web").clone()
        };
        let all = latency(variant);
        let counts: u64 = numbers(&all["counts"]).iter().sum();
        let each: u64 = runs.iter().map(|run| numbers(&latency(run)["counts"]).iter().sum::<u64>()).sum();
        assert!(counts == each && counts > 500, "{counts} {each}");
        for run in runs {
            let one = latency(run);
            let (to, counts) = (numbers(&one["to_ns"]), numbers(&one["counts"]));
            let all: u64 = counts.iter().sum();
            let mut below = 0;
            let place = counts.iter().position(|count| {
                below += count;
                below * 100 >= all * 99
            });
            let p99 = run["figures"]["request_latency.p99_ns"].as_u64().expect("a figure");
            let bucket = to[place.expect("a bucket")];
            assert!(bucket.abs_diff(p99) * 500 <= p99, "the p99 of {} is {p99}, by its buckets {bucket}", run["seed"]);
        }
    }
}

/// The Rust names of the table, checked by the compiler: a path that does not exist does not build.
macro_rules! rust_names {
    ($($($part:ident)::+),* $(,)?) => {{
        $(
            #[expect(unused_imports, reason = "that it can be imported is what is tested")]
            use ::zerolag::$($part)::+ as _;
        )*
        [$(stringify!($($part)::+).replace(' ', "")),*]
    }};
}

/// The table "One name" of the Python guide: each row is one thing under all its names. Its Python
/// names are checked by the tests of the package.
#[test]
fn one_table_names_the_same_thing_everywhere() {
    let rust = rust_names![
        Simulation,
        RunResult,
        report::Metrics,
        check::check,
        check::Report,
        explanation::Answer,
        compare::Comparison,
        compare::Suite,
        sweep::Grid,
        sweep::resume::Kept,
        sweep::shard::Shard,
        sweep::search::Search,
        sweep::until::Until,
        advise::Advice,
        advise::counters::Demand,
        analyse::Analysis,
        import::Import,
        schedulability::Study,
        model::Settings,
        settings::json,
    ];
    let guide = std::fs::read_to_string(workspace().join("docs/how-to/python.md")).expect("the guide");
    let table = guide
        .split("\n## One name\n")
        .nth(1)
        .and_then(|rest| rest.trim_start().split("\n\n").next())
        .expect("its table");
    let help = zerolag(&["--help"]).stdout;
    let schema = published();
    let mut named = Vec::new();
    for row in table.lines().skip(2) {
        let cells: Vec<Vec<&str>> =
            row.trim_matches('|').split(" | ").map(|cell| cell.split('`').skip(1).step_by(2).collect()).collect();
        let [command, _, names, forms] = &cells[..] else { panic!("four names in {row}") };
        for written in command {
            let (word, option) = written.split_once(' ').unwrap_or((written, ""));
            assert!(help.contains(&format!("\n  {word} ")), "{row}: there is no command `{word}`");
            let has_option = || zerolag(&[word, "--help"]).stdout.contains(&format!("{option} "));
            assert!(option.is_empty() || has_option(), "{row}: `{word}` has no option `{option}`");
        }
        for form in forms {
            assert!(schema["$defs"][*form].is_object(), "{row}: there is no form `{form}`");
        }
        for name in names {
            assert!(rust.iter().any(|known| known == name), "{row}: `{name}` is not in the list of this test");
            named.push((*name).to_owned());
        }
    }
    let forgotten: Vec<&String> = rust.iter().filter(|name| !named.contains(name)).collect();
    assert!(forgotten.is_empty(), "the table does not name {forgotten:?}");
}

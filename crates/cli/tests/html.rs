//! Pages: what `--html` writes, without a browser. `browser/` tests them in one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// A directory of this test, removed at its end.
struct Room(PathBuf);

impl Room {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("zerolag-html-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        Self(dir)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn zerolag(room: &Room, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zerolag")).args(args).current_dir(&room.0).output().expect("the program starts")
}

/// Runs a command with `--html` and returns the page.
#[track_caller]
fn page(room: &Room, args: &[&str]) -> String {
    let all: Vec<&str> = args.iter().copied().chain(["--html", "page.html"]).collect();
    let output = zerolag(room, &all);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 99)), "{args:?}: {code:?} {}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(room.0.join("page.html")).expect("a page");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("src="), "a page loads nothing");
    std::fs::remove_file(room.0.join("page.html")).expect("it was there");
    page
}

/// Checks that a page has these texts, in this order.
#[track_caller]
fn has(page: &str, texts: &[&str]) {
    let mut rest = page;
    for text in texts {
        let at = rest.find(text).unwrap_or_else(|| panic!("`{text}` is missing, or before its place"));
        rest = &rest[at + text.len()..];
    }
}

fn example(name: &str) -> String {
    examples().join(name).display().to_string()
}

#[test]
fn a_run_has_its_parts_in_order() {
    let room = Room::new("run");
    let page = page(&room, &["run", "-q", &example("web-service-limit.toml"), "-d", "5s", "--seed", "3"]);
    has(
        &page,
        &[
            "id=\"answer\"",
            "goals",
            "<li class=",
            "<h2>Latency</h2>",
            "Request latency",
            "histogram",
            "<h2>Load over time</h2>",
            "Use of the CPUs",
            "Budget of /web",
            "<h2>Timeline</h2>",
            "<h2>Waits</h2>",
            "<h3>By cause</h3>",
            "class=\"icicle\"",
            "Waiting by cause, table",
            "<h3>By task</h3>",
            "<h3>Requests of web</h3>",
            "<h3>The longest</h3>",
            "Show in the timeline",
            "17 more",
            "<h2>Services</h2>",
            "<h2>Groups</h2>",
            "<h2>Tasks</h2>",
            "<details class=\"fold\"><summary><h2>Conditions</h2></summary>",
            "zerolag run -q",
            "--seed 3",
            "<h2>Settings</h2>",
            "<h2>Costs</h2>",
            "context_switch",
            "id=\"data\"",
        ],
    );
}

#[test]
fn the_same_run_is_the_same_page() {
    let room = Room::new("same");
    let file = example("rt-hog.toml");
    assert_eq!(page(&room, &["run", "-q", &file]), page(&room, &["run", "-q", &file]));
}

#[test]
fn hostile_names_stay_text() {
    let room = Room::new("hostile");
    let name = "</script><script>alert(1)</script> 'x' & \\u001b]0;title\\u0007\\u202e";
    let text = format!(
        "[machine]\ncpus = 1\n[group.\"/{0}\"]\ncpu.max = \"50000 100000\"\n[task.\"{0}\"]\ngroup = \"/{0}\"\ninstances = 2\nsteps = [{{ run = \"1ms\" }}, {{ sleep = \"1ms\" }}]\nloop = 100\n",
        name.replace('/', "|").replace("<|", "<")
    );
    std::fs::write(room.0.join("a.toml"), text).unwrap();
    let output = zerolag(&room, &["run", "-q", "a.toml", "--html", "p.html"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(room.0.join("p.html")).unwrap();
    assert_eq!(page.matches("<script").count(), 2, "the data and the page's own");
    assert!(!page.contains(['\u{1b}', '\u{7}', '\u{202e}']));
    assert!(page.contains("&lt;script&gt;alert(1)") && page.contains("&#39;x&#39; &amp; "));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a line or two per command; later commands read the files of earlier ones")]
fn every_command_has_a_page() {
    let room = Room::new("all");
    let (web, upgrade) = (example("noisy-neighbour.toml"), example("upgrade.toml"));
    let compared =
        page(&room, &["compare", "-q", &upgrade, "--kernel", "5.15", "--kernel", "6.12", "--runs", "2", "-d", "3s"]);
    has(
        &compared,
        &[
            "id=\"answer\"",
            "figures differ between 5.15 and 6.12 by more than seeds do, most of all ",
            "<h2>Figures</h2>",
            ">figure</th>",
            "<h2>Plots</h2>",
            "the bands and whiskers are the range over the seeds.",
            " of ",
            ">5.15</text>",
            ">6.12</text>",
            "<h2>Settings that differ</h2>",
            ">setting</th>",
            "<h2>Timeline</h2>",
            "<h3>5.15</h3>",
            "<h3>6.12</h3>",
        ],
    );
    let swept = page(&room, &["sweep", "-q", &web, "--set", "kernel=6.12,5.15", "--runs", "2", "-d", "1s"]);
    let same = "The same in all runs: *.wakeup_latency.p99.";
    has(&swept, &["id=\"answer\"", "over the seeds", same, ">5.15</text>", ">6.12</text>", "<h2>Figures</h2>"]);
    let limited = page(
        &room,
        &["sweep", "-q", &example("web-service-limit.toml"), "--set", "burst=0s,200ms", "--runs", "2", "-d", "5s"],
    );
    has(
        &limited,
        &[
            "All 2 goals are met with all 2 seeds in ",
            "fewer than 78 % of all seeds miss, with 95 % confidence",
            "<h2>Goals</h2>",
            "<th scope=\"col\" class=\"n\">burst</th>",
            "p99, mean</th>",
            "p99, worst</th>",
            ">runs that miss</th>",
            ">goal</text>",
            "<h2>Figures</h2>",
            "<th scope=\"col\" class=\"n\">burst</th>",
            "<h2>Settings</h2>",
            "<h2>Costs</h2>",
        ],
    );
    let advised = page(
        &room,
        &[
            "advise",
            "-q",
            &example("web-service-limit.toml"),
            "-d",
            "2s",
            "--seeds",
            "2",
            "--risk",
            "50%",
            "--goal",
            "p99 <= 40ms",
        ],
    );
    has(
        &advised,
        &[
            "<p class=\"lead\">Set cpu.max of /web to ",
            ").</p>",
            "<b>What to set</b> <code>cpu.max = ",
            "with 95 % confidence",
            "<h2>Alternatives</h2>",
            ">choice</th>",
            "fresh seeds</th>",
            ">as it is</td>",
            ">chosen</td>",
            "<h2>Plots</h2>",
            ">goal</text>",
            "<h2>What would narrow it</h2>",
            "--risk 10%",
            "<h2>Conditions</h2>",
        ],
    );
    assert!(!advised.contains("<pre"), "tables, no text of a terminal");
    std::fs::write(
        room.0.join("cpu.stat"),
        "0\nusage_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n\
         10\nusage_usec 5000000\nnr_periods 100\nnr_throttled 20\nthrottled_usec 1000000\n",
    )
    .expect("writable");
    let counted = page(&room, &["advise", "cpu.stat", "--now", "1"]);
    has(
        &counted,
        &[
            "Set cpu.max to",
            "<h3>Used CPUs</h3>",
            ">limit</text>",
            "<h3>Throttled periods</h3>",
            ">used, mean</td>",
            "0.50 CPUs</td>",
            "<h2>Counters cannot tell</h2>",
        ],
    );
    assert!(!counted.contains("<pre"), "tables, no text of a terminal");
    let explained = page(&room, &["explain", "-q", &web, "-d", "1s", "--what-if", "hz=100"]);
    has(
        &explained,
        &[
            "With hz=100 all waits together take",
            "<h2>Difference</h2>",
            ">with hz=100</th>",
            ">longest wait</td>",
            ">all waits, of which</td>",
            "<h2>Waits</h2>",
            "<h3>as it is</h3>",
            "<h3>hz=100</h3>",
            ">hz=100</text>",
        ],
    );
    assert!(!explained.contains("<pre"), "tables, no text of a terminal");
    let case = examples().join("../conformance/dl").display().to_string();
    let validated = page(&room, &["validate", "-q", &case]);
    has(
        &validated,
        &[
            " comparisons with recorded kernels are inside their bands.",
            "<h3>Shares</h3>",
            ">equal</text>",
            "<h3>Errors</h3>",
            "<h2>Figures</h2>",
            "<th scope=\"col\" class=\"n\">recorded</th>",
            "<h2>Outside their bands</h2>",
        ],
    );
    assert!(!validated.contains("<pre"), "tables, no text of a terminal");
    let traced = zerolag(&room, &["run", "-q", &web, "-d", "1s", "--trace", "t.zlt"]);
    assert!(matches!(traced.status.code(), Some(0 | 99)));
    has(&page(&room, &["report", "t.zlt"]), &["<h2>Latency</h2>", "<h2>Timeline</h2>", "<h2>Waits</h2>"]);
    // The answer names the causes, the causes come before the examples, and both before the plots.
    let parts = [
        "<p class=\"lead\">",
        " waits take ",
        " together: ",
        "% is kept by an interrupt on its CPU",
        "<h2>Waits</h2>",
        "class=\"icicle\"",
        "data-row=\"2\"",
        ">CPU</th>",
        "<h3>By task</h3>",
        "The 2 longest waits",
        "<h2>Latency</h2>",
    ];
    has(&page(&room, &["explain", "t.zlt", "--worst", "2"]), &parts);
}

#[test]
fn tools_have_tables_and_plots() {
    let room = Room::new("tools");
    let timeline = "<h2>Timeline</h2>";
    let cases: [(&[&str], &[&str]); 5] = [
        (
            &["cyclictest", "-q", "-l", "50", "-t", "2", "-p", "80", "-h", "40"],
            &[
                "In 100 cycles a thread wakes at most ",
                "<h2>Figures</h2>",
                ">thread 1</text>",
                "<h3>Latency by thread</h3>",
                timeline,
                "<h2>Latency by thread</h2>",
                ">beyond the histogram</th>",
                ">FIFO:80</td>",
            ],
        ),
        (
            &["timerlat", "hist", "-q", "-u", "-d", "1s", "--cpus", "2"],
            &[
                "a thread is back in user mode at most ",
                "<h3>Timer latency: histogram</h3>",
                ">return to user mode</text>",
                "<h3>Largest latency by CPU</h3>",
                timeline,
                "<h2>Timer latency by CPU</h2>",
                ">interrupt, max</th>",
            ],
        ),
        (
            &["osnoise", "top", "-q", "-d", "2s", "--cpus", "2"],
            &["of its CPU (CPU ", "<h3>Gaps</h3>", timeline, "<h2>Noise by CPU</h2>", ">longest gap</th>"],
        ),
        (
            &["rt-migrate-test", "-q", "-l", "2", "3", "--cpus", "2"],
            &[
                "In none of 2 iterations a more urgent thread waits",
                "<h3>Time to the start</h3>",
                timeline,
                "<h2>Iterations</h2>",
                ">1</td>",
                ">loops</td>",
            ],
        ),
        (
            &["compare", "-q", &example("."), "--kernel", "5.15", "--kernel", "6.12", "--runs", "2", "-d", "200ms"],
            &["of 14 workloads differ between 5.15 and 6.12", "<h2>Changes</h2>", ">workload</th>"],
        ),
    ];
    for (args, texts) in cases {
        let page = page(&room, args);
        has(&page, texts);
        assert!(!page.contains("<pre"), "{args:?}: tables, no text of a terminal");
    }
}

#[test]
fn a_search_has_tables_and_plots() {
    let room = Room::new("search");
    let file = example("web-service-limit.toml");
    let search = [
        "--smallest",
        "cpu.max.burst",
        "--such-that",
        "request_latency.p99 <= 60ms",
        "--runs",
        "2",
        "--risk",
        "50%",
        "-d",
        "2s",
    ];
    let args: Vec<&str> = ["sweep", "-q", &file].into_iter().chain(search).collect();
    let searched = page(&room, &args);
    has(
        &searched,
        &[
            "The smallest cpu.max.burst is ",
            ">worst run</text>",
            ">goal</text>",
            "<h2>Tried values</h2>",
            ">goals</th>",
        ],
    );
    assert!(!searched.contains("<pre"), "tables, no text of a terminal");
}

#[test]
fn experiments_have_tables_and_plots() {
    let room = Room::new("repro");
    let cases: [(&[&str], &[&str]); 4] = [
        (
            &["repro", "rt-balance", "--tests", "1", "--out", "r"],
            &[
                "a more urgent thread waits for a less urgent one: ",
                "<h2>Plots</h2>",
                ">pull_locked</text>",
                "<h2>Failures</h2>",
                ">failed tests</th>",
                "<h2>Time to the start by thread</h2>",
                ">FIFO 6</th>",
            ],
        ),
        (
            &["repro", "rt-ipi", "--cpus", "4", "--out", "r"],
            &[
                "published observations",
                ">ipi_root_domain, skip_self</text>",
                "<h2>Published observations</h2>",
                "<h2>Wave</h2>",
                ">worst latency</th>",
                "<h2>Stress by the cost of an IPI</h2>",
            ],
        ),
        (
            &["repro", "inversion", "--seeds", "1", "--out", "r"],
            &[
                "The limited reader takes ",
                "(published 40.03 +- 7.04)",
                "<h3>Reader of the limited group</h3>",
                ">published, voluntary</text>",
                "<h2>Read times</h2>",
                "<h2>Sensitivity</h2>",
                ">loops=1</td>",
            ],
        ),
        (
            &["repro", "dl-server", "--minutes", "1", "--out", "r"],
            &[
                "Samples that a real-time thread misses",
                "<h3>Worst latency</h3>",
                ">immediate servers</text>",
                "<h2>Deferred on CPUs 0-4</h2>",
                ">published: lost</th>",
                "<h2>osnoise, enforced: tick</h2>",
            ],
        ),
    ];
    for (args, texts) in cases {
        let page = page(&room, args);
        has(&page, texts);
        assert!(!page.contains("<pre"), "{args:?}: tables, no text of a terminal");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_run() {
    let room = Room::new("refused");
    let output = zerolag(&room, &["run", "-q", &example("rt-hog.toml"), "--html", "none/page.html"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty() && String::from_utf8_lossy(&output.stderr).contains("there is no directory"));
}

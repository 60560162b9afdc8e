//! The recorded kernels next to ours: `docs/lab/conformance.md` is the output of
//! `zerolag validate --markdown conformance`.

use std::ops::ControlFlow;
use std::path::Path;
use zerolag_lab::repro::in_order;
use zerolag_lab::validate::{self, Case};

#[test]
fn the_summary_in_the_documentation_is_the_one_that_comes_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let paths = validate::find(&root.join("conformance")).expect("the directory of cases");
    let run = |nth: u64| {
        let case = Case::read(&paths[nth as usize]).unwrap_or_else(|error| panic!("{error}"));
        validate::run(&case).unwrap_or_else(|error| panic!("{error}"))
    };
    let compared = in_order(paths.len() as u64, 2, run, |_| ControlFlow::Continue(()));
    let comparisons: Vec<_> = compared.into_iter().flat_map(|(_, of)| of).collect();
    assert!(comparisons.len() >= 40, "only {} recordings were found", comparisons.len());
    let figures: usize = comparisons.iter().map(|comparison| comparison.figures.len()).sum();
    assert!(figures >= 200, "only {figures} figures were compared");
    let written = std::fs::read_to_string(root.join("docs/lab/conformance.md")).expect("docs/lab/conformance.md");
    let table = validate::markdown(&comparisons);
    let differs = written.lines().zip(table.lines()).find(|(written, now)| written != now);
    assert!(
        written == table,
        "docs/lab/conformance.md is not what comes out now; `./x conformance` writes it. First difference: {differs:?}"
    );
}

#[test]
fn a_wrong_figure_is_outside_its_band() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let mut case = Case::read(&root.join("fair/two-hogs.toml")).expect("a case");
    for recording in &mut case.recorded {
        recording.figures.insert("share.hog0".to_owned(), 55.0.into());
    }
    let comparisons = validate::run(&case).expect("a run");
    assert!(comparisons.iter().all(|comparison| !comparison.is_inside()));
}

/// Reads a case with two CPUs and the scenario beside it, with this `created_on`.
fn created_on(name: &str, created_on: &str) -> Result<Case, String> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("conformance-{name}"));
    std::fs::create_dir_all(&dir).expect("a directory");
    let workload = r#"
        [task.a]
        steps = [{ timer = { period = "10ms" } }, { run = "4ms" }]
        [task.b]
        steps = [{ timer = { period = "10ms" } }, { run = "4ms" }]
    "#;
    let case = format!(
        "title = \"x\"\nworkload = \"w.toml\"\n[band.share]\nabsolute = 1\n[[recorded]]\nkernel = \"6.12\"\non = \"x\"\n\
         cpus = 2\ncreated_on = {created_on}\nfrom_ms = 0\nwindow_ms = 100\n[recorded.figures]\n\"share.a\" = 40\n"
    );
    let path = dir.join(format!("{name}.toml"));
    std::fs::write(dir.join("w.toml"), workload).expect("written");
    std::fs::write(&path, case).expect("written");
    let case = Case::read(&path).map_err(|error| error.to_string())?;
    validate::run(&case).map_err(|error| error.to_string())?;
    Ok(case)
}

/// Reads and runs a case of one CPU with a busy task whose share is as written.
fn shared(name: &str, share: &str) -> Result<Vec<validate::Comparison>, String> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("conformance-{name}"));
    std::fs::create_dir_all(&dir).expect("a directory");
    let case = format!(
        "title = \"x\"\nworkload = \"w.toml\"\n[band.share]\nabsolute = 1\n[[recorded]]\nkernel = \"6.12\"\non = \"x\"\n\
         cpus = 1\nfrom_ms = 0\nwindow_ms = 100\n[recorded.figures]\n\"share.a\" = {share}\n"
    );
    let path = dir.join("c.toml");
    std::fs::write(dir.join("w.toml"), "[task.a]\nsteps = [{ run = \"100ms\" }]\n").expect("written");
    std::fs::write(&path, case).expect("written");
    let case = Case::read(&path).map_err(|error| error.to_string())?;
    validate::run(&case).map_err(|error| error.to_string())
}

#[test]
fn a_figure_has_the_range_of_its_takes() {
    let one = shared("one", "99.5").expect("a case");
    assert!(!one[0].has_takes());
    let four = shared("four", "{ mean = 98.8, least = 98.2, most = 99.4 }").expect("a case");
    let figure = &four[0].figures[0];
    assert!(four[0].has_takes() && (figure.ours - 100.0).abs() < 0.1, "{figure:?}");
    // The mean is 1.2 points off, the takes are 0.6 points from their mean, and ours is 0.6 above
    // the most of them.
    assert!((figure.recorded.spread() - 0.6).abs() < 1e-9, "{figure:?}");
    assert!((figure.recorded.outside(100.0) - 0.6).abs() < 1e-9 && figure.recorded.outside(98.5) == 0.0);
    assert!((figure.recorded.outside(98.0) - 0.2).abs() < 1e-9);
    let near = shared("near", "{ mean = 99.4, least = 99.2, most = 99.6 }").expect("a case");
    let (set, markdown) = ("conformance-near", validate::markdown(&near));
    assert!(markdown.contains(&format!("| {set} | 1 | 6.12 | 1 | 1 | 0 | 1 | 100.0 % |\n")), "{markdown}");
    assert!(markdown.contains(&format!("| {set} | 1 | 1 | 1 | 1 | 0.")), "the sums of the set: {markdown}");
    assert!(!markdown.contains("Outside their bands"), "nothing is outside: {markdown}");
    assert!(!validate::markdown(&one).contains("Beside the takes"));
}

#[test]
fn a_range_contains_its_mean_and_nothing_else() {
    let outside = shared("outside", "{ mean = 9.0, least = 9.5, most = 10.0 }").expect_err("no mean of these");
    assert!(outside.ends_with("c.toml: `share.a`: the mean, 9, is not between 9.5 and 10"), "{outside}");
    let other = shared("other", "{ mean = 9.0, least = 9.0 }").expect_err("no `most`");
    assert!(other.contains("a figure is a number, `{ mean = 1.0, least = 0.5, most = 1.5 }` or `{ takes"), "{other}");
    let none = shared("none", "{ takes = [] }").expect_err("no take");
    assert!(none.contains("`takes` has no value"), "{none}");
}

#[test]
fn each_take_is_kept() {
    let four = shared("takes", "{ takes = [98.0, 99.0, 99.5, 99.5] }").expect("a case");
    let recorded = &four[0].figures[0].recorded;
    assert_eq!((recorded.mean, recorded.least, recorded.most), (99.0, 98.0, 99.5));
    assert_eq!(recorded.values(4), Some(vec![98.0, 99.0, 99.5, 99.5]));
    assert_eq!(recorded.values(3), None);
    assert!(four[0].told.is_none(), "one run tells nothing apart");
    let range = shared("range", "{ mean = 99.0, least = 98.0, most = 99.5 }").expect("a case");
    assert_eq!(range[0].figures[0].recorded.values(4), Some(vec![98.0, 99.25, 99.25, 99.5]));
}

#[test]
fn a_distance_needs_its_quantiles_and_its_figure() {
    let said = |figures: &str, quantiles: &str| {
        let figures = format!("100.0\n{figures}\n[recorded.quantiles]\n{quantiles}");
        shared("quantiles", &figures).map(|_| ()).expect_err("wrong")
    };
    let error = said("", "\"turn_distance.a\" = [1.0]");
    assert!(
        error.ends_with("`quantiles` has `turn_distance.a`, and `figures` has no distance of that name"),
        "{error}"
    );
    let error = said("\"turns.a\" = 1", "\"turns.a\" = [1.0]");
    assert!(error.ends_with("`turns.a` is no distance of distributions"), "{error}");
    let error = said("\"turn_distance.a\" = 1", "\"turn_distance.a\" = [1.0]");
    assert!(error.ends_with("`turn_distance.a`: 1 quantiles, not 25"), "{error}");
}

/// A limited group on 6.1, whose periods begin at multiples since boot: the phase is drawn.
#[test]
fn the_phase_of_periods_is_another_in_each_run() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance-phase");
    std::fs::create_dir_all(&dir).expect("a directory");
    let workload =
        "[group.\"/g\"]\n\"cpu.max\" = \"50000 100000\"\n[task.a]\ngroup = \"/g\"\nsteps = [{ run = \"1s\" }]\n";
    std::fs::write(dir.join("w.toml"), workload).expect("written");
    for kernel in ["6.1", "6.12"] {
        // The share of a window of a quarter of a period says where in the period it lies.
        let case = format!(
            "title = \"x\"\nworkload = \"w.toml\"\nbegins = {{ times = 8, every_ms = 0 }}\n[band.share]\nabsolute = 1\n[[recorded]]\n\
             kernel = \"{kernel}\"\non = \"x\"\ncpus = 1\nfrom_ms = 400\nwindow_ms = 25\n[recorded.figures]\n\"share.a\" = 50\n"
        );
        let path = dir.join("c.toml");
        std::fs::write(&path, case).expect("written");
        let compared = validate::run(&Case::read(&path).expect("a case")).expect("a run");
        let (least, most) = compared[0].figures[0].range();
        assert!(most - least > 50.0, "{kernel}: {least} to {most}");
    }
}

#[test]
fn takes_that_began_alike_are_simulated_once() {
    let case = created_on("case", "[[0, 1], [1, 1], [0, 1]]").expect("a case");
    let takes: Vec<_> =
        case.recorded[0].created_on.iter().map(|(cpus, takes)| (cpus[0].0, cpus[1].0, *takes)).collect();
    assert_eq!(takes, [(0, 1, 2), (1, 1, 1)]);
}

#[test]
fn the_cpus_of_a_take_are_those_of_the_machine_one_per_task() {
    let error = created_on("far", "[[0, 2]]").expect_err("there is no CPU 2");
    assert!(error.ends_with("far.toml: `created_on` has CPU 2: the machine has CPUs 0..=1"), "{error}");
    let error = created_on("few", "[[0, 1], [1]]").expect_err("b is missing");
    assert!(error.ends_with("few.toml: a take of `created_on` has 1 CPUs for 2 tasks"), "{error}");
}

/// A stable kernel has rules of later series: `NO_RT_PUSH_IPI` since 6.12.96.
#[test]
fn a_recording_is_compared_with_its_release() {
    let case = created_on("release", "[]\nrelease = \"6.12.117\"").expect("a release of the series");
    let (kernel, release) = (case.recorded[0].kernel, case.recorded[0].release);
    assert_eq!((kernel.name(), release.name()), ("6.12".to_owned(), "6.12.117".to_owned()));
    assert_ne!(kernel.settings().rt_balance, release.settings().rt_balance);
    let case = created_on("series", "[]").expect("no release");
    assert_eq!(case.recorded[0].release, case.recorded[0].kernel);
    let error = created_on("other", "[]\nrelease = \"6.18.15\"").expect_err("another series");
    assert!(error.ends_with("`6.18.15` is no release of `6.12`"), "{error}");
}

#[test]
fn the_caches_of_a_recording_divide_its_cpus() {
    let case = created_on("caches", "[]\ncaches = 2").expect("a CPU each");
    assert_eq!(case.recorded[0].machine.shape(), [2, 1, 1, 1]);
    let error = created_on("three", "[]\ncaches = 3").expect_err("not of one size");
    assert!(error.ends_with("three.toml: `caches` is 3: it divides the number of CPUs, 2"), "{error}");
}

/// Two virtual CPUs share the clock of one.
#[test]
fn costs_are_those_of_the_profile_or_so_many_times() {
    let costs = |key: &str| {
        let profile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/costs/virtual-7.3.toml");
        let case = created_on("times", &format!("[]\ncosts = \"{}\"\n{key}", profile.display()));
        case.expect("a case").recorded[0].costs.clone().expect("a profile")
    };
    let (once, twice) = (costs(""), costs("costs_times = 2"));
    assert_eq!((once.tick * 2, once.context_switch * 2), (twice.tick, twice.context_switch));
    assert_eq!(once.ipi_latency, twice.ipi_latency);
}

/// Changes begin as much later as the tasks that they concern.
#[test]
fn changes_begin_with_the_workload() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("changes-begin");
    std::fs::create_dir_all(&dir).expect("a directory");
    let workload = "duration = \"1s\"\nchange = [{ at = \"500ms\", task = \"a\", policy = \"SCHED_FIFO\", priority = 1 }]\n\
                    [settings]\nfair_server = \"off\"\n[task.a]\nsteps = [{ run = \"9s\" }]\n[task.b]\nsteps = [{ run = \"9s\" }]\n";
    std::fs::write(dir.join("w.toml"), workload).expect("written");
    let case = "title = \"t\"\nworkload = \"w.toml\"\nbegins = { times = 3, every_ms = 200 }\n[band.share]\nabsolute = 0.5\n[[recorded]]\n\
                kernel = \"6.12\"\non = \"x\"\ncpus = 1\nfrom_ms = 500\nwindow_ms = 300\n[recorded.figures]\n\"share.a\" = 100\n";
    let path = dir.join("c.toml");
    std::fs::write(&path, case).expect("written");
    let compared = validate::run(&Case::read(&path).expect("a case")).expect("a run");
    let (least, most) = compared[0].figures[0].range();
    assert!(least > 99.5 && most <= 100.0, "{least} to {most}");
}

#[test]
fn ticks_and_threads_are_those_of_the_machine() {
    let error = created_on("order", "[]\nfirst_permille = 1001").expect_err("more than all");
    assert!(error.ends_with("order.toml: `first_permille` is 1001: it is 0 to 1000"), "{error}");
    let thread = "[]\nthreads = [{ name = \"kworker/2\", every_ms = 400, run_us = 50, cpu = 2 }]";
    let error = created_on("thread", thread).expect_err("there is no CPU 2");
    assert!(error.ends_with("thread.toml: thread `kworker/2` is on another CPU than 0..=1"), "{error}");
}

#[test]
fn the_cpu_on_which_tasks_are_created_reaches_the_simulation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let mut case = Case::read(&root.join("reported/fifo-three-two-cpus.toml")).expect("a case");
    case.recorded.retain(|recording| recording.kernel == zerolag_model::KernelVersion::V6_12);
    let mut least = |cpu: u32| {
        case.recorded[0].created_on.iter_mut().for_each(|(cpus, _)| cpus.fill(zerolag_model::CpuId(cpu)));
        let compared = validate::run(&case).expect("a run");
        compared[0].figures.iter().find(|figure| figure.name == "share.hog1").expect("a figure").ours
    };
    // CPU 0 ticks first more often than CPU 1, so the two are no mirror images.
    let (zero, one) = (least(0), least(1));
    assert!((zero - one).abs() > 0.1, "{zero} and {one}");
}

//! `zerolag timerlat` and `zerolag osnoise` as a user sees them: rtla's command lines and rtla's
//! output.

use std::process::{Command, Output};
use zerolag::model::Duration;
use zerolag::{Simulation, Workload};

fn zerolag(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zerolag"))
        .args(args.split_whitespace())
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("the program starts")
}

/// Returns the output of a successful command line; its exit code is 2 if a threshold was passed,
/// as in rtla.
fn printed(args: &str) -> String {
    let output = zerolag(args);
    let text = String::from_utf8(output.stdout).expect("output is UTF-8");
    let expected = if text.contains("hit stop tracing") { 2 } else { 0 };
    assert_eq!(output.status.code(), Some(expected), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Returns a line of a histogram as numbers.
fn figures(text: &str, name: &str) -> Vec<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name} in {text}"));
    line.split_whitespace().map(|figure| figure.parse().expect("a number")).collect()
}

/// Two CPUs with a busy loop each: both have noise from switches and ticks.
const NOISY: &str = "-P f:1 -d 2s --cpus 2 --load hogs -q";

#[test]
fn osnoise_prints_the_table_unless_told_otherwise() {
    let table = printed(&format!("osnoise {NOISY}"));
    assert!(table.contains("Operating System Noise"), "{table}");
    assert_eq!(table, printed(&format!("osnoise top {NOISY}")));
}

#[test]
fn the_histogram_of_osnoise_has_each_gap_of_each_cpu() {
    let text = printed(&format!("osnoise hist {NOISY} -b 10 -E 100"));
    let head = "# RTLA osnoise histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:02\nIndex   CPU-000   CPU-001\n";
    assert!(text.starts_with(head), "{text}");
    let classes = text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let mut sums = [0.0, 0.0];
    for line in classes {
        let row: Vec<f64> = line.split_whitespace().map(|cell| cell.parse().expect("a number")).collect();
        assert!(row[0] % 10.0 == 0.0 && row[0] < 1_000.0, "{line}");
        sums = [sums[0] + row[1], sums[1] + row[2]];
    }
    let (over, count) = (figures(&text, "over:"), figures(&text, "count:"));
    assert_eq!(vec![sums[0] + over[0], sums[1] + over[1]], count, "{text}");
    assert!(over.iter().all(|over| *over >= 1.0), "the servers of the busy loops take 50 ms of a second: {text}");
    assert!(figures(&text, "max:").iter().all(|max| (50_000.0..55_000.0).contains(max)), "{text}");
}

#[test]
fn lines_of_a_histogram_can_be_left_out() {
    let bare = printed(&format!("osnoise hist {NOISY} --no-header --no-summary --no-index"));
    assert!(bare.lines().all(|line| line.split_whitespace().count() == 2), "counts of two CPUs: {bare}");
    let all = printed(&format!("osnoise hist {NOISY} --no-header --no-summary --with-zeros -E 12"));
    assert_eq!(all.lines().count(), 13, "twelve classes and `over:`: {all}");
}

#[test]
fn options_of_histograms_are_refused_where_none_is_printed() {
    for (args, name) in [("osnoise -b 10", "--bucket-size"), ("timerlat top --no-irq", "--no-irq")] {
        let output = zerolag(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(name) && said.contains("`hist`"), "{said}");
    }
}

#[test]
fn a_threshold_ends_the_run_and_saves_the_trace() {
    let until = |args: &str, trace: &str| {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(trace);
        drop(std::fs::remove_file(&path));
        let text = printed(args);
        assert!(!text.contains("00:00:02"), "{args}: it ended early: {text}");
        assert!(text.ends_with(&format!("hit stop tracing\n  Saving trace to {trace}\n")), "{args}: {text}");
        std::fs::read_to_string(path).expect("the trace is there")
    };
    // The servers of the busy loops take 50 ms at a time.
    let trace = until(&format!("osnoise {NOISY} -s 1000 -t gap.txt"), "gap.txt");
    assert!(trace.contains("osnoise/0-") && trace.contains("sched_switch"), "{trace}");
    until(&format!("osnoise hist {NOISY} -a 1000"), "osnoise_trace.txt");
    until("timerlat -d 2s --cpus 2 --load hogs -q -a 1", "timerlat_trace.txt");
}

#[test]
fn noise_of_a_sample_has_a_threshold_of_its_own() {
    let stopped = |args: &str| printed(&format!("osnoise {NOISY} {args}")).contains("rtla osnoise hit stop tracing");
    assert!(stopped("-S 1000") && !stopped("-S 900000"));
    assert!(!stopped("-s 900000") && !stopped("-s 0"), "zero is no threshold");
}

#[test]
fn nothing_is_counted_during_the_warm_up() {
    let hist = |args: &str| printed(&format!("timerlat hist -d 1s --cpus 1 -q {args}"));
    let (cold, warm) = (hist(""), hist("--warm-up 3"));
    assert!(warm.contains("# Duration:   0 00:00:01"), "{warm}");
    let [cold, warm] = [cold, warm].map(|text| figures(&text, "count:")[0]);
    assert!((cold - warm).abs() <= 1.0 && (998.0..=1_001.0).contains(&warm), "{cold} {warm}");
    let table = printed("osnoise -d 2s --warm-up 1 --cpus 1 -q");
    assert!(table.contains("duration:   0 00:00:02") && table.contains("  0 #2 "), "{table}");
}

#[test]
fn what_steers_the_kernel_is_said_to_do_nothing() {
    let common = "-H 0 -C=tools -D -e sched --filter x --trigger y --trace-buffer-size 9";
    let of_timerlat = "-s 20 -k --no-aa --stack-format skip";
    for (args, named) in
        [(format!("osnoise -d 1 -q {common}"), 7), (format!("timerlat -d 1 -q {common} {of_timerlat}"), 10)]
    {
        let output = zerolag(&args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!(said.matches("--").count(), named, "{said}");
    }
    let output = zerolag("osnoise -d 1 -q -t");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no trace is saved"));
    assert_eq!(zerolag("timerlat -u -k").status.code(), Some(2), "one of both");
}

#[test]
fn what_a_simulation_cannot_do_is_refused_with_the_reason() {
    for (args, reason) in [
        ("timerlat -U", "timerlat_fd"),
        ("timerlat -A 10", "start together"),
        ("timerlat --aa-only 20", "explain"),
        ("timerlat hist --dump-tasks", "-t"),
        ("timerlat --bpf-action x.o", "no programs"),
        ("osnoise --on-threshold shell,command=reboot", "no programs"),
        ("osnoise --on-threshold signal,num=2,pid=parent", "no signals"),
        ("timerlat --on-threshold continue", "ends at its threshold"),
        ("timerlat --on-end trace,name=x", "file=FILE"),
        ("timerlat --cpus 0-3", "not a list"),
    ] {
        let output = zerolag(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {said}");
        assert!(said.contains(reason) && output.stdout.is_empty(), "{args}: {said}");
    }
}

#[test]
fn the_action_trace_saves_at_a_threshold_or_in_the_end() {
    let path = |name: &str| std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    for name in ["action.txt", "end.txt"] {
        drop(std::fs::remove_file(path(name)));
    }
    let text = printed(&format!("osnoise {NOISY} --on-threshold trace,file=action.txt --on-end trace,file=end.txt"));
    assert!(text.ends_with("\n  Saving trace to end.txt\n") && !path("action.txt").exists(), "{text}");
    assert!(std::fs::read_to_string(path("end.txt")).expect("it is there").contains("osnoise/0-"));
    let text = printed(&format!("osnoise {NOISY} -s 1000 --on-threshold trace,file=action.txt"));
    assert!(
        text.ends_with("hit stop tracing\n  Saving trace to action.txt\n") && path("action.txt").exists(),
        "{text}"
    );
}

/// Returns the lateness of the threads of two CPUs beside a load that works in the kernel, in us:
/// that of one in a hundred, and the largest.
fn lateness(model: &str) -> (f64, f64) {
    let args = format!("timerlat hist -d 4s --cpus 2 -q -E 2000 --kernel 6.12 --load kernel --set preempt={model}");
    let text = printed(&args);
    // Columns: interrupt and thread of each CPU.
    let max = figures(&text, "max:");
    let classes = text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let rows: Vec<Vec<f64>> =
        classes.map(|line| line.split_whitespace().map(|cell| cell.parse().expect("a number")).collect()).collect();
    let all: f64 = figures(&text, "count:")[1] * 2.0;
    let mut late = 0.0;
    let above = rows.iter().rev().take_while(|row| {
        late += row[2] + row[4];
        late < all / 100.0
    });
    (above.last().map_or(0.0, |row| row[0]), max[1].max(max[3]))
}

#[test]
fn the_preemption_models_have_their_known_order_under_a_load_in_the_kernel() {
    let [rt, full, voluntary, none] = ["rt", "full", "voluntary", "none"].map(lateness);
    let all = format!("{rt:?} {full:?} {voluntary:?} {none:?}");
    assert!(rt.0 < full.0 && full.0 < voluntary.0 && voluntary.0 < none.0, "one in a hundred: {all}");
    // The longest work without a place to sleep is the same for the last two.
    assert!(rt.1 < full.1 && full.1 < voluntary.1.min(none.1), "the largest: {all}");
}

/// Returns the available time in percent and the longest gap of a FIFO thread, us.
fn noise(model: &str) -> (f64, f64) {
    let args = format!(
        "osnoise top -d 4s --cpus 1 -q -P f:95 --kernel 6.12 --load kernel --set fair_server=off \
         --set rt_throttling=off --set preempt={model}"
    );
    let text = printed(&args);
    let line = text.lines().find(|line| line.contains('#')).unwrap_or_else(|| panic!("a CPU in {text}"));
    let cells: Vec<f64> = line.split_whitespace().filter_map(|cell| cell.parse().ok()).collect();
    let [_, _, _, available, _, longest, ..] = cells[..] else { panic!("figures in {line}") };
    (available, longest)
}

#[test]
fn only_threaded_interrupts_leave_a_running_fifo_thread_alone() {
    let [rt, full, voluntary, none] = ["rt", "full", "voluntary", "none"].map(noise);
    let all = format!("{rt:?} {full:?} {voluntary:?} {none:?}");
    assert!(full == voluntary && voluntary == none, "an interrupt preempts a running thread under each: {all}");
    assert!(rt.0 > 99.9 && full.0 < 97.0, "available: {all}");
    assert!(rt.1 < 10.0 && full.1 > 100.0, "the longest gap: {all}");
}

#[test]
fn threads_of_interrupts_are_less_urgent_than_timerlat_unless_told_otherwise() {
    let ours = printed("timerlat top -d 2s --cpus 1 -q --load kernel --set preempt=rt --set threadirqs=true");
    let less = printed("timerlat top -d 2s --cpus 1 -q --load kernel --set preempt=rt -P f:40");
    let worst = |text: &str| {
        let line = text.lines().find(|line| line.contains("#")).unwrap_or_else(|| panic!("a CPU in {text}"));
        let cells: Vec<&str> = line.rsplit('|').next().unwrap_or_default().split_whitespace().collect();
        cells[3].parse::<f64>().expect("the maximum")
    };
    assert!(worst(&ours) < worst(&less), "FIFO 40 is behind `irq/eth0`: {ours}\n{less}");
}

#[test]
fn the_interrupt_of_an_idle_cpu_is_late_by_the_exit_of_its_idle_state() {
    // The default costs: 1.5 us until an idle CPU does anything. A busy one is late by what its
    // kernel does then.
    let latest = |load: &str| {
        let text = printed(&format!("timerlat hist -n -d 1s --cpus 1 -q --noise none --load {load}"));
        (figures(&text, "min:"), figures(&text, "max:"))
    };
    let (min, max) = latest("none");
    assert_eq!((min[0], max[0]), (1_500.0, 1_500.0), "the interrupt");
    assert!(min[1] > 1_500.0, "the thread runs later: {min:?}");
    assert_eq!(latest("hogs").0[0], 0.0, "a busy CPU has no state to leave");
}

/// Returns the share of the kernel's own threads beside a FIFO loop, in percent of one CPU.
fn share_of_kernel_threads(simulation: Simulation) -> f64 {
    let result = simulation.duration(Duration::from_secs(10)).run().expect("it runs");
    let threads = result.summary().tasks.iter().filter(|task| !task.name.starts_with("loop"));
    threads.map(|task| task.run.as_nanos() as f64).sum::<f64>() / 1e8
}

#[test]
fn the_kernels_own_threads_take_a_small_part_of_each_cpu() {
    let text = "[machine]\ncpus = 2\n[task.loop]\ncpus = \"0\"\nsteps = [{ run = \"10ms\" }]\n";
    let simulation = || Simulation::new(Workload::toml(text));
    assert_eq!(share_of_kernel_threads(simulation()), 0.0);
    let both = share_of_kernel_threads(simulation().with_kernel_threads());
    assert!((0.1..0.8).contains(&both), "measured: 0.3 % of two CPUs together, without kdamond; {both}");
}

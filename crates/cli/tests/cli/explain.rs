//! Why tasks and requests wait.

use super::{scratch, zerolag};

/// Why does a FIFO thread wait for a task of nice 0? Nothing interrupts kernel mode there.
#[test]
fn explain_names_kernel_mode_without_a_system_call() {
    let file = scratch("kernel-mode").join("writer.toml");
    let text = r#"
kernel = "6.12"
duration = "300ms"
[settings]
preempt = "voluntary"
[machine]
cpus = 1
[task.audio]
policy = "fifo"
priority = 80
steps = [{ timer = { period = "50ms", mode = "absolute" } }, { run = "1ms" }]
[task.writer]
steps = [{ kernel = "60ms" }, { sleep = "7ms" }]
"#;
    std::fs::write(&file, text).expect("it is written");
    let ended = zerolag(&["explain", file.to_str().expect("UTF-8"), "-q"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let first = ended.stdout.lines().nth(3).expect("a cause");
    assert!(first.contains("queued behind writer-* (in kernel mode, preempt = voluntary)"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("asked to switch"), "{}", ended.stdout);
}

/// The sum of a column of percentages of a table of causes.
fn shares(table: &str, column: usize) -> f64 {
    let rows = table.lines().take_while(|line| line.contains('%'));
    let share = |line: &str| line.split_whitespace().nth(column)?.strip_suffix('%')?.parse::<f64>().ok();
    rows.filter_map(share).sum()
}

#[test]
fn what_requests_wait_for_adds_up_and_a_missed_goal_says_why() {
    let ended = zerolag(&["explain", "examples/web-service-limit.toml", "-q"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let (_, rest) = ended.stdout.split_once("requests take").expect("requests");
    let (head, table) = rest.split_once("cause\n").expect("a table");
    assert!(head.contains("are beyond request_latency.p99 <= 40ms"), "the later goal: {head}");
    for column in 0..3 {
        // Cut to a tenth of a percent, and at most nine rows.
        assert!((99.0..=100.0).contains(&shares(table, column)), "column {column}: {table}");
    }
    assert!(table.contains("waits in the queue while its worker is throttled in /web"), "{table}");
    let ended = zerolag(&["run", "examples/web-service-limit.toml"]);
    let next = "what to set: zerolag advise examples/web-service-limit.toml --goal 'request_latency.p99 <= 40ms'";
    assert!(ended.stderr.lines().any(|line| line.starts_with(next)), "{}", ended.stderr);
    let why = ended.stderr.lines().find(|line| line.starts_with("why: ")).expect("a reason");
    assert!(why.contains("requests are beyond request_latency.p99 <= 40ms; of their time "), "{why}");
    assert!(why.contains("throttled in /web"), "{why}");
}

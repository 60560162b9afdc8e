//! Names and files that try to reach the terminal: control sequences, C1 controls, marks of
//! direction.

use super::{scratch, zerolag, zerolag_with};
use zerolag::trace::Trace;

/// What text files can contain: the readers refuse those with control characters of ASCII.
const IN_TEXT: &str = "\u{9b}2J\u{202e}gnp\u{200b}\u{2066}";
/// Sets the title, clears the screen by C1, turns the text round, hides a letter.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}gnp\u{200b}\u{2066}";

fn is_plain(text: &str) -> bool {
    !text.chars().any(|letter| letter != '\n' && zerolag_model::text::is_hidden(letter))
}

/// Runs a command and expects that nothing of it controls a terminal.
fn plain(args: &[&str], stdin: &[u8], code: i32) -> (String, String) {
    let ended = zerolag_with(args, stdin);
    assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.stderr);
    assert!(is_plain(&ended.stdout), "{args:?}: {:?}", ended.stdout);
    assert!(is_plain(&ended.stderr), "{args:?}: {:?}", ended.stderr);
    (ended.stdout, ended.stderr)
}

/// A text of tracefs with hostile names of two threads that wait for each other.
fn recording() -> String {
    let mut text = "# tracer: nop\n".to_owned();
    for turn in 0..20_u32 {
        let (a, b) = if turn % 2 == 0 { (11, 12) } else { (12, 11) };
        let at = turn * 10;
        text += &format!(
            " x{IN_TEXT}-{a} [000] d..2. 1.{at:06}: sched_switch: prev_comm=x{IN_TEXT} prev_pid={a} prev_prio=120 \
             prev_state=R ==> next_comm=x{IN_TEXT} next_pid={b} next_prio=120\n"
        );
    }
    text
}

#[test]
fn names_of_a_trace_reach_no_terminal() {
    let dir = scratch("hostile-trace");
    let path = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
    let trace = path("trace.txt");
    std::fs::write(&trace, recording()).expect("writable");
    for command in [
        &["report", &trace][..],
        &["report", &trace, "--json"],
        &["explain", &trace],
        &["explain", &trace, "--json"],
        &["check", &trace],
        &["import", &trace],
        &["report", &trace, "--csv", "/dev/stdout"],
    ] {
        let code = if command.contains(&"--csv") { 2 } else { 0 };
        plain(command, b"", code);
    }
    let (report, _) = plain(&["report", &trace], b"", 0);
    assert!(report.contains("\\u{9b}2J"), "the name is told, as escapes: {report}");
    let tables = path("tables");
    plain(&["report", &trace, "--csv", &tables], b"", 0);
    let csv = std::fs::read_to_string(dir.join("tables/tasks.csv")).expect("written");
    assert!(is_plain(&csv) && csv.contains("\\u{9b}2J"), "{csv:?}");
}

#[test]
fn names_of_an_own_trace_reach_no_terminal() {
    let dir = scratch("hostile-zlt");
    let mut script = zerolag::trace::script::Script::new(1);
    let (a, b) = (script.fair(HOSTILE), script.fair(&format!("two\nlines{HOSTILE}")));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(100, 0, b).preempt(500, 0, a, b);
    let trace: Trace = script.end(1000);
    let file = dir.join("own.zlt");
    trace.write(std::fs::File::create(&file).expect("writable")).expect("writable");
    let file = file.to_str().expect("UTF-8");
    for command in
        [&["report", file][..], &["report", file, "--json"], &["explain", file], &["explain", file, "--json"]]
    {
        plain(command, b"", 0);
    }
    let text = dir.join("own.txt");
    plain(&["convert", file, text.to_str().expect("UTF-8")], b"", 0);
    let text = std::fs::read_to_string(text).expect("written");
    assert!(is_plain(&text) && !text.contains("\nlines"), "{text:?}");
}

#[test]
fn an_excerpt_has_its_caret_below_the_mistake_and_no_control() {
    let workload = format!("[task.a]\nsteps = [{{ run = \"1ms\" }}] # {IN_TEXT}\nnoce = 3 # {IN_TEXT}\n");
    let (_, stderr) = plain(&["run", "-"], workload.as_bytes(), 2);
    let lines: Vec<&str> = stderr.lines().collect();
    let excerpt = lines.iter().position(|line| line.contains("noce = 3 # ¿2J")).expect("the excerpt");
    let column = |line: &str, what: char| line.chars().position(|letter| letter == what).expect("it is there");
    assert_eq!(column(lines[excerpt], 'n'), column(lines[excerpt + 1], '─'), "{stderr}");
    // Messages quote the file: keys, values, names.
    for workload in [
        format!("[task.\"{HOSTILE}\"]\nsteps = [{{ run = \"{HOSTILE}\" }}]\n")
            .replace('\u{1b}', "\\u001b")
            .replace('\u{7}', "\\u0007"),
        "[task.\"\\u001b]0;x\\u0007\\u202e\"]\nsteps = [{ run = \"1ms\" }]\n\"\\u001b[2J\" = 1\n".to_owned(),
        format!("{{\"tasks\": {{\"a\": {{\"run\": \"{HOSTILE}\"}}}}}}"),
        format!("{{\"tasks\": {{\"a{}\": {{\"{}\": 1}}}}}}", "\\u001b]0;x\\u0007", "\\u009b2J"),
        format!("task,runtime,period\n{HOSTILE},x,1\n"),
    ] {
        plain(&["run", "-"], workload.as_bytes(), 2);
    }
}

#[test]
fn names_of_a_workload_reach_no_terminal() {
    let workload = "duration = \"50ms\"\n[machine]\ncpus = 1\n[group.\"/\\u001b]0;x\\u0007\"]\ncpu.max = \"10000 100000\"\n\
                    [task.\"\\u001b]0;x\\u0007\\u202e\"]\ninstances = 2\ngroup = \"/\\u001b]0;x\\u0007\"\nsteps = [{ run = \"3ms\" }]\n";
    let first = zerolag_with(&["run", "-"], workload.as_bytes());
    assert!(is_plain(&first.stdout) && is_plain(&first.stderr), "{:?} {:?}", first.stdout, first.stderr);
    for command in [
        &["run", "-", "--json"][..],
        &["explain", "-"],
        &["explain", "-", "--json"],
        &["compare", "-", "--vary", "hz=100,1000"],
    ] {
        let ended = zerolag_with(command, workload.as_bytes());
        assert_eq!(ended.code, first.code, "{command:?}: {}", ended.stderr);
        assert!(is_plain(&ended.stdout) && is_plain(&ended.stderr), "{:?} {:?}", ended.stdout, ended.stderr);
    }
}

#[test]
fn names_of_files_and_values_reach_no_terminal() {
    for args in [
        &["report", HOSTILE][..],
        &["run", HOSTILE],
        &["run", "examples/audio.json", "--set", &format!("{HOSTILE}=1")],
        &["run", "examples/audio.json", "--set", &format!("hz={HOSTILE}")],
        &["advise", HOSTILE],
        &["merge", HOSTILE],
    ] {
        let ended = zerolag(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert!(is_plain(&ended.stderr), "{args:?}: {:?}", ended.stderr);
    }
}

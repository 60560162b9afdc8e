//! `zerolag record`: how to record a machine so that nothing is missing.
//!
//! It prints commands and records nothing itself: the machine that hurts is seldom the one with
//! zerolag on it, and its owner wants to read what is to be run there as root.

use super::failure::Failure;
use super::{Done, code, output};
use core::fmt::Write;

/// Arguments of `zerolag record`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the commands for this recorder
    #[arg(long, value_name = "RECORDER", required = true)]
    print_cmd: RecordProgram,
    /// Also save this group, below /sys/fs/cgroup (of cgroup v1: below /sys/fs/cgroup/cpu), and the
    /// groups above and below it, before and after: limits, weights, counters and members, for
    /// `zerolag import --cgroup-tree`; `/` is all groups
    #[arg(long, value_name = "PATH", value_parser = cgroup)]
    cgroup: Option<String>,
    /// Record for this many seconds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Also record the kernel's stack at each wakeup, which tells by what tasks wake each other:
    /// futex, pipe, socket, timer. A wakeup takes some microseconds longer
    #[arg(long)]
    stacks: bool,
}

/// A program or interface that records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum RecordProgram {
    /// `perf record`: writes a file while it records, so it can be long
    Perf,
    /// The files of /sys/kernel/tracing: needs no program; the buffer holds all
    Tracefs,
    /// `trace-cmd record`
    TraceCmd,
    /// `perfetto` and its configuration, on Linux and Android
    Perfetto,
}

/// Events of the scheduler, the needed ones first.
const EVENTS: [&str; 9] = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_process_fork",
    "sched_process_exit",
    "sched_pi_setprio",
    "sched_stat_runtime",
];

/// The event of a task that is moved to another group.
const ATTACH: &str = "cgroup_attach_task";

/// The events of messages: what sockets send and receive, and the ports of those that receive. A
/// kernel before 6.3 lacks the first two, and one without TCP the last.
const MESSAGES: [&str; 3] = ["sock/sock_send_length", "sock/sock_recv_length", "tcp/tcp_rcv_space_adjust"];

/// The path of a group in a command line: nothing that a shell would read. Empty for all groups.
fn cgroup(path: &str) -> Result<String, String> {
    let below = path.strip_prefix("/sys/fs/cgroup").map(|below| below.strip_prefix("/cpu/").unwrap_or(below));
    let is_all = below.unwrap_or(path) == "/";
    let path = below.unwrap_or(path).trim_matches('/');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@".contains(c);
    let is_odd = path.split('/').any(|part| part == ".." || part.starts_with('-'));
    match is_odd || !path.chars().all(is_plain) || path.is_empty() && !is_all {
        true => Err("a path below /sys/fs/cgroup, of letters, digits and ._-:@, or `/`".to_owned()),
        false => Ok(path.to_owned()),
    }
}

/// The files of a group that a recording needs: of cgroup v2, then of v1.
const CGROUP_FILES: &str = "cpu.max cpu.max.burst cpu.weight cpu.idle cgroup.threads cpu.cfs_quota_us \
     cpu.cfs_period_us cpu.cfs_burst_us cpu.shares tasks cgroup.procs cpu.stat";

/// Writes a function that copies a group's files into a directory, also those of the groups around
/// it.
fn save_groups(out: &mut String, path: &str) -> core::fmt::Result {
    writeln!(
        out,
        "groups() {{ # copies the groups around {} into a directory",
        if path.is_empty() { "/" } else { path }
    )?;
    writeln!(out, "  root=/sys/fs/cgroup; [ ! -e $root/cpu/cpu.shares ] || root=$root/cpu; to=$PWD/$1")?;
    let above: Vec<&str> = path.match_indices('/').map(|(at, _)| &path[..at]).collect();
    let start = if path.is_empty() { "." } else { path };
    let list = match above.is_empty() {
        true => format!("find {start} -type d"),
        false => format!("{{ printf '%s\\n' {}; find {start} -type d; }}", above.join(" ")),
    };
    writeln!(out, "  (cd $root && {list} | while read -r group; do mkdir -p \"$to/$group\"")?;
    writeln!(out, "    for file in {CGROUP_FILES}; do")?;
    writeln!(
        out,
        "      [ ! -e \"$group/$file\" ] || cat \"$group/$file\" > \"$to/$group/$file\" 2> /dev/null || :; done; done); }}"
    )
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    if args.stacks && args.print_cmd == RecordProgram::Perfetto {
        let help = "choose perf, tracefs or trace-cmd, or leave --stacks out";
        return Err(Failure::input_help("perfetto records no stacks of wakeups", help));
    }
    output::print(&recipe(args).expect("invariant: writing to a String cannot fail"))?;
    Ok(code::OK)
}

fn recipe(args: &Args) -> Result<String, core::fmt::Error> {
    let mut out = String::from("# as root\n");
    let save = |out: &mut String, when: &str| match args.cgroup {
        Some(_) => writeln!(out, "groups cgroup.{when}"),
        None => Ok(()),
    };
    if let Some(path) = &args.cgroup {
        save_groups(&mut out, path)?;
    }
    save(&mut out, "before")?;
    match args.print_cmd {
        RecordProgram::Perf => perf(&mut out, args)?,
        RecordProgram::Tracefs => tracefs(&mut out, args)?,
        RecordProgram::TraceCmd => trace_cmd(&mut out, args)?,
        RecordProgram::Perfetto => perfetto(&mut out, args.seconds)?,
    }
    save(&mut out, "after")?;
    let file = match args.print_cmd {
        // The names of the functions are not in the file: only the machine has them.
        RecordProgram::Perf | RecordProgram::TraceCmd if args.stacks => "trace.txt",
        RecordProgram::Perf => "perf.data",
        RecordProgram::Tracefs => "trace.txt",
        RecordProgram::TraceCmd => "trace.dat",
        RecordProgram::Perfetto => "trace.pftrace",
    };
    // The second has the programs that started meanwhile.
    let tree = if args.cgroup.is_some() { " --cgroup-tree cgroup.before --cgroup-tree cgroup.after" } else { "" };
    writeln!(out, "# then: zerolag report {file}; zerolag import {file}{tree} -o workload.toml")?;
    Ok(out)
}

/// A command that writes the kernel's release as a text has it, which names no kernel itself.
const KERNEL: &str = "echo \"# kernel: $(uname -r)\"";

/// Writes a line that keeps the events of messages that the kernel has as arguments of a recorder.
fn keep_messages(out: &mut String) -> core::fmt::Result {
    writeln!(
        out,
        "messages=$(cd /sys/kernel/tracing/events && for e in {}; do [ ! -e $e ] || echo \"-e ${{e%/*}}:${{e#*/}}\"; done)",
        MESSAGES.join(" ")
    )
}

fn perf(out: &mut String, args: &Args) -> core::fmt::Result {
    let seconds = args.seconds;
    keep_messages(out)?;
    // 8 MiB per CPU: half a second at 150 000 events a second and CPU, which perf empties at once.
    write!(out, "perf record -a -c 1 -m 8M -k CLOCK_MONOTONIC -o perf.data")?;
    if args.stacks {
        write!(out, " -g --kernel-callchains")?;
    }
    for event in EVENTS {
        write!(out, " \\\n  -e sched:{event}")?;
    }
    if args.cgroup.is_some() {
        write!(out, " \\\n  -e cgroup:{ATTACH}")?;
    }
    writeln!(out, " \\\n  $messages -- sleep {seconds}")?;
    match args.stacks {
        true => {
            writeln!(out, "{{ {KERNEL}; perf script --ns -F comm,pid,tid,cpu,time,event,trace,ip,sym; }} > trace.txt")
        }
        false => Ok(()),
    }
}

/// The buffer of a CPU in KiB: 10 MB a second, which is about 100 000 events.
fn buffer_kib(seconds: u32) -> u32 {
    seconds.saturating_mul(10_000).clamp(16_384, 1_048_576)
}

fn tracefs(out: &mut String, args: &Args) -> core::fmt::Result {
    let seconds = args.seconds;
    // A stack takes about as much as the other events of a wakeup together.
    let kib = if args.stacks { buffer_kib(seconds.saturating_mul(2)) } else { buffer_kib(seconds) };
    let events = EVENTS.join(" ");
    writeln!(out, "dir=$PWD; cd /sys/kernel/tracing")?;
    writeln!(
        out,
        "echo 0 > tracing_on; echo nop > current_tracer; echo mono > trace_clock; echo 1 > options/record-tgid"
    )?;
    writeln!(out, "echo {kib} > buffer_size_kb    # per CPU; the last line but one tells if it was enough")?;
    writeln!(out, "for e in {events}; do echo 1 > events/sched/$e/enable; done")?;
    let messages = |to: u8| {
        format!("for e in {}; do [ ! -e events/$e ] || echo {to} > events/$e/enable; done", MESSAGES.join(" "))
    };
    writeln!(out, "{}", messages(1))?;
    if args.cgroup.is_some() {
        writeln!(out, "echo 1 > events/cgroup/{ATTACH}/enable")?;
    }
    if args.stacks {
        writeln!(out, "echo stacktrace > events/sched/sched_waking/trigger")?;
    }
    writeln!(out, "echo > trace; echo 1 > tracing_on; sleep {seconds}; echo 0 > tracing_on")?;
    writeln!(out, "{{ {KERNEL}; cat trace; }} > \"$dir/trace.txt\"")?;
    if args.stacks {
        writeln!(out, "echo '!stacktrace' > events/sched/sched_waking/trigger")?;
    }
    writeln!(out, "for e in {events}; do echo 0 > events/sched/$e/enable; done")?;
    writeln!(out, "{}", messages(0))?;
    if args.cgroup.is_some() {
        writeln!(out, "echo 0 > events/cgroup/{ATTACH}/enable")?;
    }
    writeln!(
        out,
        "grep -H overrun per_cpu/cpu*/stats | grep -v ' 0$' || true    # prints nothing if no event was lost"
    )?;
    writeln!(out, "echo 1 > buffer_size_kb; echo local > trace_clock; cd \"$dir\"")
}

fn trace_cmd(out: &mut String, args: &Args) -> core::fmt::Result {
    let seconds = args.seconds;
    keep_messages(out)?;
    write!(out, "trace-cmd record -C mono -b {} -o trace.dat", buffer_kib(seconds))?;
    for event in EVENTS {
        write!(out, " \\\n  -e sched:{event}")?;
        if args.stacks && event == "sched_waking" {
            write!(out, " -R stacktrace")?;
        }
    }
    if args.cgroup.is_some() {
        write!(out, " \\\n  -e cgroup:{ATTACH}")?;
    }
    writeln!(out, " \\\n  $messages sleep {seconds}")?;
    match args.stacks {
        true => writeln!(out, "{{ {KERNEL}; trace-cmd report -i trace.dat; }} > trace.txt"),
        false => Ok(()),
    }
}

fn perfetto(out: &mut String, seconds: u32) -> core::fmt::Result {
    // The service's buffer holds all; the kernel's is emptied four times a second.
    let kib = seconds.saturating_mul(20_000).clamp(65_536, 1_048_576);
    writeln!(out, "perfetto --txt -c - -o trace.pftrace <<END")?;
    writeln!(out, "buffers {{ size_kb: {kib} fill_policy: DISCARD }}")?;
    writeln!(out, "data_sources {{ config {{ name: \"linux.ftrace\" ftrace_config {{")?;
    for event in EVENTS.iter().filter(|event| **event != "sched_stat_runtime").chain(&["task_newtask", "task_rename"]) {
        let system = if event.starts_with("task_") { "task" } else { "sched" };
        writeln!(out, "  ftrace_events: \"{system}/{event}\"")?;
    }
    writeln!(out, "  buffer_size_kb: 16384 drain_period_ms: 250 compact_sched {{ enabled: true }}")?;
    writeln!(out, "}} }} }}")?;
    writeln!(out, "data_sources {{ config {{ name: \"linux.process_stats\"")?;
    writeln!(out, "  process_stats_config {{ scan_all_processes_on_start: true }} }} }}")?;
    writeln!(out, "data_sources {{ config {{ name: \"linux.system_info\" }} }}")?;
    writeln!(out, "duration_ms: {}\nEND", u64::from(seconds) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe_of(print_cmd: RecordProgram) -> String {
        recipe(&Args { print_cmd, cgroup: Some("system.slice/web.service".to_owned()), seconds: 5, stacks: false })
            .expect("a String")
    }

    #[test]
    fn stacks_are_those_of_wakeups_and_end_as_text_with_names() {
        let with = |print_cmd| recipe(&Args { print_cmd, cgroup: None, seconds: 5, stacks: true }).expect("a String");
        for (recorder, parts) in [
            (RecordProgram::Perf, ["-g --kernel-callchains", "perf script --ns"]),
            (RecordProgram::Tracefs, ["echo stacktrace > events/sched/sched_waking/trigger", "echo '!stacktrace'"]),
            (RecordProgram::TraceCmd, ["-e sched:sched_waking -R stacktrace", "trace-cmd report"]),
        ] {
            let recipe = with(recorder);
            assert!(parts.iter().all(|part| recipe.contains(part)) && recipe.contains("report trace.txt"), "{recipe}");
            assert!(recipe.contains("# kernel: $(uname -r)"), "{recipe}");
            assert!(!recipe_of(recorder).contains("stack"), "only if they are wanted");
        }
    }

    #[test]
    fn every_recipe_has_all_events_and_the_group() {
        for recorder in [RecordProgram::Perf, RecordProgram::Tracefs, RecordProgram::TraceCmd, RecordProgram::Perfetto]
        {
            let recipe = recipe_of(recorder);
            for event in &EVENTS[..8] {
                assert!(recipe.contains(event), "{event}\n{recipe}");
            }
            assert!(recipe.contains("groups cgroup.before\n") && recipe.contains("groups cgroup.after\n"), "{recipe}");
            assert_eq!(recipe.contains(ATTACH), recorder != RecordProgram::Perfetto, "{recipe}");
            let list = "{ printf '%s\\n' system.slice; find system.slice/web.service -type d; }";
            assert!(
                recipe.contains(list) && recipe.contains("--cgroup-tree cgroup.before --cgroup-tree cgroup.after"),
                "{recipe}"
            );
            assert!(
                (recipe.contains("sleep 5") || recipe.contains("duration_ms: 5000"))
                    && recipe.contains("zerolag report "),
                "{recipe}"
            );
        }
    }

    /// A recorder refuses an event that its kernel lacks, so each is asked for first.
    #[test]
    fn messages_are_recorded_where_the_kernel_has_them() {
        for recorder in [RecordProgram::Perf, RecordProgram::Tracefs, RecordProgram::TraceCmd] {
            let recipe = recipe_of(recorder);
            let list = format!("for e in {}; do [ ! -e ", MESSAGES.join(" "));
            let times = if recorder == RecordProgram::Tracefs { 2 } else { 1 };
            assert_eq!(recipe.matches(&list).count(), times, "{recipe}");
            assert!(recorder == RecordProgram::Tracefs || recipe.contains("  $messages "), "{recipe}");
        }
        assert!(!recipe_of(RecordProgram::Perfetto).contains("sock"));
    }

    #[test]
    fn a_path_that_a_shell_would_read_is_refused() {
        for path in ["a;b", "$(x)", "a b", "../x", "", "a\nb", "-rf", "a/-b"] {
            assert!(cgroup(path).is_err(), "{path}");
        }
        assert_eq!(cgroup("/sys/fs/cgroup/a.slice/b@1.service/").as_deref(), Ok("a.slice/b@1.service"));
        assert_eq!(cgroup("/sys/fs/cgroup/cpu/a").as_deref(), Ok("a"));
        assert_eq!(cgroup("/").as_deref(), Ok(""));
    }
}

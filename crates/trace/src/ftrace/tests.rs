use super::*;
use crate::meta::{Machine, Means, Message, Meta, Source};
use proptest::prelude::*;
use zerolag_model::attr::{Prio, SchedAttr};
use zerolag_model::{CpuId, Duration, GroupId, Instant, MigrateReason, PrevState, Record, TaskId, TraceEvent};

const ONE_CPU: &str = include_str!("../../tests/data/rr-fifo-fair-1cpu.txt");
const TWO_CPUS: &str = include_str!("../../tests/data/rt-migrate-2cpu.txt");

fn tasks_of(trace: &Trace) -> Vec<(TaskId, String)> {
    let names = trace.records.iter().filter_map(|record| match &record.event {
        TraceEvent::TaskNew { task, name, .. } => Some((*task, name.to_string())),
        _ => None,
    });
    names.collect()
}

/// Returns run time and number of runs of a task, computed from switches alone.
fn run_of(trace: &Trace, name: &str) -> (Duration, u64) {
    let (task, _) = tasks_of(trace).into_iter().find(|(_, known)| known == name).unwrap();
    let (mut run, mut runs, mut since) = (Duration::ZERO, 0, None);
    for record in &trace.records {
        if let TraceEvent::Switch { prev, next, .. } = &record.event {
            if *prev == Some(task) {
                run += record.at.since(since.unwrap_or(record.at));
            }
            if *next == Some(task) {
                since = Some(record.at);
                runs += 1;
            }
        }
    }
    (run, runs)
}

#[test]
fn a_recorded_kernel_is_read_as_others_read_it() {
    let trace = read(ONE_CPU).unwrap();
    assert_eq!(trace.meta.machine, Machine::Cpus(1));
    assert_eq!((trace.meta.source, trace.meta.lost_events), (Source::Text, 0));
    // The figures of the recording's own analysis.
    for (name, run_us, runs) in
        [("rr1", 2_339_009, 29), ("rr0", 2_236_424, 27), ("rr2", 2_236_252, 27), ("fair", 409_641, 26)]
    {
        assert_eq!(run_of(&trace, name), (Duration::from_micros(run_us), runs), "{name}");
    }
    assert_eq!(trace.meta.start, Instant::from_nanos(23_937_355_000));
    let count = |wanted: fn(&TraceEvent) -> bool| trace.records.iter().filter(|record| wanted(&record.event)).count();
    assert_eq!(count(|event| matches!(event, TraceEvent::Switch { .. })), 174);
    assert_eq!(count(|event| matches!(event, TraceEvent::Waking { new: false, .. })), 56);
    assert_eq!(count(|event| matches!(event, TraceEvent::Waking { new: true, .. })), 6);
    assert_eq!(count(|event| matches!(event, TraceEvent::Wakeup { .. })), 62);
    assert_eq!(count(|event| matches!(event, TraceEvent::TaskExit { .. })), 6);
}

#[test]
fn the_other_tools_text_gives_tasks_priorities_and_reasons() {
    let trace = read(TWO_CPUS).unwrap();
    assert_eq!(trace.meta.machine, Machine::Cpus(2));
    assert_eq!(trace.meta.start, Instant::from_nanos(12_923_682_258), "nanoseconds are kept");
    let rt: Vec<u8> = trace
        .records
        .iter()
        .filter_map(|record| match &record.event {
            TraceEvent::AttrChange { attr: SchedAttr::Rt { priority, .. }, .. } => Some(priority.value()),
            _ => None,
        })
        .collect();
    assert!(rt.contains(&2) && rt.contains(&3) && rt.contains(&4), "{rt:?}");
    let reasons = |wanted| {
        let is = |record: &&Record| matches!(record.event, TraceEvent::Migrate { reason, .. } if reason == wanted);
        trace.records.iter().filter(is).count()
    };
    assert!(reasons(MigrateReason::Wakeup) > 0 && reasons(MigrateReason::Unknown) > 0);
    // Only the start of this kernel's IPI handlers was recorded.
    assert!(!trace.records.iter().any(|record| matches!(record.event, TraceEvent::IrqEnter { .. })));
}

#[test]
fn a_process_id_that_is_used_again_is_another_task() {
    let text = "\
      a-1 [000] d..2. 1.000001: sched_process_fork: comm=a pid=1 child_comm=a child_pid=7
      a-1 [000] d..2. 1.000002: sched_wakeup_new: comm=a pid=7 prio=120 target_cpu=000
      a-1 [000] d..2. 1.000003: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=<...> next_pid=7 next_prio=120
      x-7 [000] d..2. 1.000004: sched_switch: prev_comm=x prev_pid=7 prev_prio=120 prev_state=X ==> next_comm=a next_pid=1 next_prio=120
CPU:0 [LOST 5 EVENTS]
      a-1 [000] d..2. 1.000005: sched_process_fork: comm=a pid=1 child_comm=a child_pid=7
      a-1 [000] d..2. 1.000006: sched_wakeup_new: comm=y pid=7 prio=120 target_cpu=000
";
    let trace = read(text).unwrap();
    let names = [(0, "a"), (1, "x"), (2, "y")].map(|(id, name)| (TaskId(id), name.to_owned()));
    assert_eq!(tasks_of(&trace), names);
    assert_eq!(trace.meta.lost_events, 5);
}

#[test]
fn all_bad_lines_are_named_with_their_place() {
    let text = "# tracer: nop\n  a-1 [000] d..2. 1.0: sched_waking: comm=a pid=1 prio=120\nwhat?\n";
    assert_eq!(
        read(text).unwrap_err().to_string(),
        "line 2:38: field `target_cpu` is missing\nline 3: neither an event nor a comment of ftrace, perf or trace-cmd"
    );
    let many = "# tracer: nop\n".to_owned() + &"what?\n".repeat(100);
    let error = read(&many).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 21);
    assert!(error.ends_with("and 80 more"));
}

/// A run as a simulation records it: task 0 preempts task 1 on CPU 0, task 2 is migrated while it
/// wakes.
fn simulated() -> Trace {
    let mut meta = Meta::new(Source::Simulation, Machine::Cpus(2));
    let mut records = Vec::new();
    let mut push = |ns, cpu, event| records.push(Record { at: Instant::from_nanos(ns), cpu: CpuId(cpu), event });
    let fifo = SchedAttr::fifo_at(5);
    for (id, name, attr) in [(0, "rt: 1", fifo), (1, "a b", SchedAttr::NORMAL), (2, "c-3", SchedAttr::NORMAL)] {
        let event =
            TraceEvent::TaskNew { task: TaskId(id), name: name.into(), parent: None, attr, group: GroupId::ROOT };
        push(0, 0, event);
    }
    let (rt, a, c) = (TaskId(0), TaskId(1), TaskId(2));
    let (high, low) = (fifo.prio(), SchedAttr::NORMAL.prio());
    let switch = |prev, prev_state, next, next_prio| TraceEvent::Switch { prev, prev_state, next, next_prio };
    push(1_000, 0, TraceEvent::Waking { task: a, prio: low, target: CpuId(0), new: true });
    push(1_000, 0, TraceEvent::Wakeup { task: a, prio: low });
    push(1_200, 0, switch(None, PrevState::Idle, Some(a), low));
    push(2_000, 1, TraceEvent::Waking { task: rt, prio: high, target: CpuId(0), new: false });
    push(2_100, 0, TraceEvent::Wakeup { task: rt, prio: high });
    push(2_100, 1, TraceEvent::IpiSend { to: CpuId(0), reason: zerolag_model::event::IpiReason::RtPush });
    push(2_400, 0, switch(Some(a), PrevState::Runnable, Some(rt), high));
    push(3_000, 1, TraceEvent::Waking { task: c, prio: low, target: CpuId(1), new: false });
    push(
        3_000,
        1,
        TraceEvent::Migrate { task: c, prio: low, from: CpuId(0), to: CpuId(1), reason: MigrateReason::Wakeup },
    );
    push(3_000, 1, TraceEvent::Wakeup { task: c, prio: low });
    push(3_500, 0, TraceEvent::PrioInherit { task: rt, from: high, to: low });
    push(4_000, 0, switch(Some(rt), PrevState::Blocked, Some(a), low));
    push(5_000, 0, TraceEvent::TaskExit { task: a });
    push(5_100, 0, switch(Some(a), PrevState::Dead, None, Prio::IDLE));
    meta.end = Instant::from_nanos(5_100);
    Trace { meta, records }
}

#[test]
fn what_is_written_reads_back() {
    let trace = simulated();
    let mut text = Vec::new();
    write(&mut text, &trace, TimeDigits::Nanos).unwrap();
    let again = read(core::str::from_utf8(&text).unwrap()).unwrap();
    assert_eq!(again.records, trace.records);
    assert_eq!(again.meta.machine.nr_cpus(), 2);
}

#[test]
fn the_text_looks_as_the_kernels() {
    let mut text = Vec::new();
    write(&mut text, &simulated(), TimeDigits::Micros).unwrap();
    let text = String::from_utf8(text).unwrap();
    let head = ONE_CPU.lines().take(12).map(|line| line.replace("304/304   #P:1", "16/16   #P:2"));
    assert!(head.eq(text.lines().take(12).map(str::to_owned)), "{text}");
    let line = |at: usize| text.lines().nth(12 + at).unwrap();
    assert_eq!(
        line(0),
        "          <idle>-0       [000] .....     0.000000: sched_process_fork: comm=swapper/0 pid=0 child_comm=rt: 1 child_pid=1000"
    );
    assert_eq!(
        line(3),
        "          <idle>-0       [000] d..2.     0.000001: sched_wakeup_new: comm=a b pid=1001 prio=120 target_cpu=000"
    );
    assert_eq!(
        line(8),
        "             a b-1001    [000] d..2.     0.000002: sched_switch: prev_comm=a b prev_pid=1001 prev_prio=120 prev_state=R+ ==> next_comm=rt: 1 next_pid=1000 next_prio=94"
    );
}

/// Returns the first lines of a packed text.
#[cfg(feature = "recordings")]
fn unpacked(packed: &[u8], lines: usize) -> String {
    let bytes = crate::packed::unpack(packed).expect("an archive");
    let text = core::str::from_utf8(&bytes).expect("a text");
    text.split_inclusive('\n').take(lines).collect()
}

#[test]
fn a_text_is_read_up_to_every_byte() {
    let first = |text: &str, lines| text.split_inclusive('\n').take(lines).collect::<String>();
    let texts = [
        first(ONE_CPU, 60),
        first(TWO_CPUS, 60),
        #[cfg(feature = "recordings")]
        unpacked(include_bytes!("../../tests/data/mixed-2cpu.perf.txt.gz"), 60),
        #[cfg(feature = "recordings")]
        unpacked(include_bytes!("../../tests/data/hackbench.trace-cmd.txt.gz"), 60),
    ];
    for text in texts {
        let mut last = 0;
        for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            let part = &text[..cut];
            let whole = &part[..part.rfind('\n').map_or(0, |at| at + 1)];
            let line = format!("line {}, the last, has no line break", whole.lines().count() + 1);
            match (read(part), read(whole)) {
                // No more than the lines before the cut, and a word on the rest.
                (Ok(trace), Ok(before)) => {
                    assert_eq!(trace.records, before.records, "{cut}");
                    let dropped = trace.meta.recorded.dropped.unwrap_or_default();
                    let is_told = dropped.starts_with(&line);
                    assert!(is_told || matches!(line::parse(&part[whole.len()..]), Ok(Parsed::Nothing)), "{cut}");
                    assert!(trace.records.len() >= last, "{cut}");
                    last = trace.records.len();
                }
                // Before the first event; a part of the first line can be any text.
                (Err(ReadError::NoEvents { .. } | ReadError::Unknown { .. }), Err(_)) => assert_eq!(last, 0, "{cut}"),
                (trace, before) => panic!("{cut}: {trace:?}, {before:?}"),
            }
        }
        assert!(last > 20, "{last}");
    }
}

#[test]
fn a_cut_number_is_not_read_as_a_smaller_one() {
    let line = |end| format!("  a-1 [000] d..2. 1.5: sched_waking: comm=a pid=7 prio=120 target_cpu=00{end}");
    let trace = read(&(line("1\n") + &line("1\n") + &line(""))).expect("a trace");
    let dropped = trace.meta.recorded.dropped.as_deref();
    assert_eq!(dropped, Some("line 3, the last, has no line break: it is cut off and was left out"));
    assert_eq!(trace.meta.machine, Machine::Cpus(2));
    let error = read(&line("")).expect_err("one line").to_string();
    assert!(error.starts_with("no scheduler event found") && error.contains("line 1, the last"), "{error}");
}

/// A recording of Linux 4.9, whose states are numbers: 4096 is preempted, 64 has ended.
#[test]
#[cfg(feature = "recordings")]
fn numbers_of_an_old_kernel_are_its_own() {
    let text = unpacked(include_bytes!("../../tests/data/juno.trace-cmd.txt.gz"), 1000);
    let trace = read(&text).expect("a trace");
    let switched = |state: PrevState| {
        let is =
            |record: &&Record| matches!(record.event, TraceEvent::Switch { prev_state, .. } if prev_state == state);
        trace.records.iter().filter(is).count()
    };
    let named = |state: &str| text.matches(&format!("prev_state={state} ")).count();
    assert_eq!((named("4096"), named("64"), text.contains("prev_state=256")), (105, 1, false));
    assert_eq!((switched(PrevState::Runnable), switched(PrevState::Dead)), (105, 1));
    assert_eq!(trace.meta.recorded.gaps, []);
    // The same numbers without those that only old kernels have.
    let young = text.replace("prev_state=4096", "prev_state=256").replace("prev_state=64 ", "prev_state=32 ");
    assert_eq!(read(&young).expect("a trace").records, trace.records);
}

/// Numbers that several kernels have: the release in a comment tells which.
#[test]
fn a_comment_names_the_kernel_of_the_numbers() {
    let (a, b) = (("a", 1), ("b", 2));
    let text = [switch_line(0, a, "512", b), switch_line(1, b, "64", a)].concat();
    let states = |head: &str| {
        let trace = read(&format!("{head}{text}")).expect("a trace");
        let states = trace.records.iter().filter_map(|record| match record.event {
            TraceEvent::Switch { prev_state, .. } => Some(prev_state),
            _ => None,
        });
        (trace.meta.kernel.clone(), states.collect::<Vec<_>>())
    };
    use PrevState::{Blocked, Dead, Runnable};
    assert_eq!(states("# kernel: 3.4.5\n"), ("3.4.5".to_owned(), vec![Runnable, Dead]));
    assert_eq!(states("# ====\n# os release : 4.4.0\n"), ("4.4.0".to_owned(), vec![Blocked, Dead]));
    assert_eq!(states("# kernel: 6.12\n"), ("6.12".to_owned(), vec![Blocked, Blocked]));
}

fn switch_line(us: u64, prev: (&str, u32), state: &str, next: (&str, u32)) -> String {
    format!(
        "   {}-{}  [000]  10.{us:06}: sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} next_pid={} next_prio=120\n",
        prev.0, prev.1, prev.0, prev.1, next.0, next.1
    )
}

fn skipped(trace: &Trace) -> Vec<String> {
    trace.meta.recorded.skipped.iter().map(ToString::to_string).collect()
}

#[test]
fn an_odd_line_is_left_out_and_named() {
    let (idle, a) = (("<idle>", 0), ("a", 1));
    let switches = [switch_line(0, idle, "R", a), switch_line(1000, a, "S", idle)];
    let whole = read(&switches.concat()).expect("a trace");
    // A message of two lines, the log of the kernel, the head of another trace.
    let message = "   a-1  [000]  10.000500: bprint: my_probe: first\n second\n and third\n";
    let text = [&switches[0], message, &switches[1]].concat();
    let trace = read(&text).expect("a trace");
    assert_eq!(trace.records, whole.records);
    assert_eq!(skipped(&trace), ["left out: lines that continue the message of an event: 2, the first: line 3"]);
    let text = [&switches[0], "[   10.1] usb 1-1: new device\n# tracer: nop\ncpus=1\n", &switches[1]].concat();
    let trace = read(&text).expect("a trace");
    assert_eq!(trace.records, whole.records);
    let first = "the first: line 2, neither an event nor a comment of ftrace, perf or trace-cmd";
    assert_eq!(skipped(&trace), [format!("left out: lines that are no event: 1, {first}")]);
    // An event that is cut is one that was lost on its CPU.
    let cut = switches[1].split_once(" ==>").expect("a switch").0.to_owned() + "\n";
    let trace = read(&[switches[0].clone(), cut, switch_line(3000, idle, "R", a)].concat()).expect("a trace");
    assert_eq!((trace.meta.lost_events, trace.meta.recorded.gaps.len()), (1, 1));
    let first = "the first: line 2:41: field `next_prio` is missing";
    assert_eq!(skipped(&trace), [format!("left out: events that are cut or malformed: 1, {first}")]);
}

#[test]
fn events_that_perf_has_written_twice_count_once() {
    let line = |event: &str| format!(" a 1/1 [000] 10.500000001: sched:{event}\n");
    let lines = [
        line(
            "sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=1 next_prio=120",
        ),
        line("sched_waking: comm=b pid=2 prio=120 target_cpu=001"),
        line("sched_migrate_task: comm=b pid=2 prio=120 orig_cpu=1 dest_cpu=0"),
        line("sched_stat_runtime: comm=a pid=1 runtime=48971 [ns]"),
    ];
    let (once, twice) = (lines.concat(), lines.iter().map(|line| line.repeat(2)).collect::<String>());
    let (once, twice) = (read(&once).expect("a trace"), read(&twice).expect("a trace"));
    assert_eq!(twice.records, once.records);
    assert_eq!(twice.meta.recorded.threads, once.meta.recorded.threads);
    assert_eq!(skipped(&twice), ["left out: events that are recorded twice: 4, the first: at 10.500000001 on CPU 0"]);
}

#[test]
fn a_damaged_time_does_not_make_the_trace_long() {
    let (idle, a) = (("<idle>", 0), ("a", 1));
    let lines: Vec<String> = (0..8_u64)
        .map(|turn| if turn % 2 == 0 { switch_line(turn, idle, "R", a) } else { switch_line(turn, a, "S", idle) })
        .collect();
    let damaged = lines.concat().replace(" 10.000007:", " 11537896.000007:");
    let trace = read(&damaged).expect("a trace");
    assert_eq!(trace.meta.end, Instant::from_nanos(10_000_006_000));
    let first = "the first: at 11537896.000007000 on CPU 0, more than 1000 s from all others";
    assert_eq!(skipped(&trace), [format!("left out: events with a damaged time: 1, {first}")]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        drop(read(&text));
    }

    #[test]
    fn mutated_recordings_never_panic(
        from in 0..5000_usize, changes in proptest::collection::vec((0..4000_usize, any::<u8>()), 1..20),
    ) {
        for text in [ONE_CPU, TWO_CPUS] {
            let mut bytes = text.as_bytes()[from..from + 4000].to_vec();
            for (at, byte) in &changes {
                bytes[*at] = *byte;
            }
            drop(Trace::from_bytes(&bytes));
        }
    }

    #[test]
    fn words_of_the_format_in_any_order_never_panic(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "sched_switch:", "[000]", "1.5:", "prev_comm=", "prev_pid=1", "prev_prio=3", "prev_state=R", "==>", "next_comm=a",
            "next_pid=2", "next_prio=4", "comm=", "pid=", "target_cpu=0", "sched_waking:", "a:1", "[120]", "[", "]", "é", "\n",
        ]), 0..40),
    ) {
        drop(read(&words.join(" ")));
    }
}

#[test]
fn lost_events_are_counted_up_to_the_end_of_numbers() {
    let lost = "CPU:0 [LOST 18446744073709551615 EVENTS]\n";
    let event =
        "          <idle>-0       [000] d..2.     1.000000: sched_wakeup: comm=a pid=7 prio=120 target_cpu=000\n";
    let trace = read(&format!("{lost}{lost}{event}")).expect("a trace");
    assert_eq!(trace.meta.lost_events, u64::MAX);
}

/// Returns how often the thread of `three-means` that is alone at the other end of something was
/// woken by the main thread, by what: one line per pair of threads.
#[cfg(feature = "recordings")]
fn wakings_of(bytes: &[u8]) -> Vec<(Means, u64)> {
    let trace = Trace::from_bytes(bytes).expect("a recording");
    let tasks = tasks_of(&trace);
    let is_python = |task: TaskId| tasks.iter().any(|(known, name)| *known == task && name == "python3");
    let main = trace.meta.recorded.wakings.iter().find(|waking| waking.count >= 12 && waking.waker.is_none());
    let main = main.expect("timers wake it").woken;
    let mut wakings: Vec<(Means, u64)> = trace
        .meta
        .recorded
        .wakings
        .iter()
        .filter(|waking| waking.waker == Some(main) && is_python(waking.woken) && waking.count >= 12)
        .map(|waking| (waking.means, waking.count))
        .collect();
    wakings.sort_unstable();
    wakings
}

/// A thread writes twelve times each to a pipe, a UNIX socket and a TCP connection over loopback,
/// and posts a semaphore, each for a thread that waits.
#[test]
#[cfg(feature = "recordings")]
fn stacks_and_system_calls_tell_by_what_tasks_wake_each_other() {
    let stacks = wakings_of(include_bytes!("../../tests/data/three-means-stacks.txt.gz"));
    assert_eq!(stacks, [(Means::Futex, 33), (Means::Pipe, 12), (Means::Socket, 12), (Means::Socket, 12)]);
    // write(2) could be to anything.
    let calls = wakings_of(include_bytes!("../../tests/data/three-means-calls.txt.gz"));
    assert_eq!(calls, [(Means::Unknown, 12), (Means::Futex, 34), (Means::Socket, 12), (Means::Socket, 12)]);
}

/// perf and trace-cmd write stacks in other ways; a stack also tells the context, which perf does
/// not.
#[test]
fn each_spelling_of_a_stack_is_read() {
    let switch = |name: &str, tid: u32| {
        format!(
            "sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm={name} next_pid={tid} next_prio=120\n"
        )
    };
    let perf = format!(
        "     a     1 [000]     1.000000: sched:{}     a     1 [000]     2.000000: sched:sched_waking: comm=b pid=2 prio=120 target_cpu=000\n\
         \tffffffff813a89c4 try_to_wake_up+0x3a4 ([kernel.kallsyms])\n\tffffffff8146ddd9 wake_up_q+0xd9 ([kernel.kallsyms])\n\
         \tffffffff8146ddd9 futex_wake+0xd9 ([kernel.kallsyms])\n\t           ee137 [unknown] (/usr/bin/a)\n\n\
              a     1 [000]     3.000000: sched:sched_waking: comm=b pid=2 prio=120 target_cpu=000\n\
         \tffffffff813a89c4 hrtimer_wakeup+0x3a4 ([kernel.kallsyms])\n\
         \tffffffff813a89c4 asm_sysvec_apic_timer_interrupt+0x3a4 ([kernel.kallsyms])\n\n",
        switch("a", 1)
    );
    let trace_cmd = format!(
        "   a-1     [000]     1.000000: {}   a-1     [000]     2.000000: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n\
         \x20  a-1     [000]     2.000001: kernel_stack:         <stack trace >\n=> try_to_wake_up (ffffffff813a89c4)\n=> futex_wake (ffffffff813a89c4)\n\
         \x20  a-1     [000]     3.000000: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n\
         \x20  a-1     [000]     3.000001: kernel_stack:         <stack trace >\n=> hrtimer_wakeup (ffffffff813a89c4)\n=> asm_sysvec_apic_timer_interrupt (ffffffff813a89c4)\n",
        switch("a", 1)
    );
    for text in [perf, trace_cmd] {
        let trace = read(&text).expect(&text);
        let wakings: Vec<_> = trace
            .meta
            .recorded
            .wakings
            .iter()
            .map(|waking| (waking.waker.is_some(), waking.means, waking.count))
            .collect();
        assert_eq!(wakings, [(false, Means::Timer, 1), (true, Means::Futex, 1)], "{text}");
    }
}

/// The time in us, the running task, and the event.
const REQUEST: [(u64, &str, &str); 12] = [
    (
        1,
        "a",
        "sched_switch: prev_comm=s prev_pid=2 prev_prio=120 prev_state=S ==> next_comm=a next_pid=1 next_prio=120",
    ),
    (2, "a", "sched_waking: comm=s pid=2 prio=120 target_cpu=000"),
    (
        3,
        "a",
        "SOCKsock_send_length: sk address = ADDRc1, family = AF_INET protocol = IPPROTO_TCP, length = 36, error = 0, flags = 0x0",
    ),
    (
        4,
        "a",
        "SOCKsock_recv_length: sk address = ADDRc1, family = AF_INET protocol = IPPROTO_TCP, length = 0, error = -11, flags = 0x40",
    ),
    (
        5,
        "a",
        "sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=s next_pid=2 next_prio=120",
    ),
    (
        6,
        "s",
        "TCPtcp_rcv_space_adjust: family=AF_INET sport=6399 dport=49322 saddr=127.0.0.1 daddr=127.0.0.1 saddrv6=::ffff:127.0.0.1 daddrv6=::ffff:127.0.0.1 sock_cookie=4",
    ),
    (
        7,
        "s",
        "SOCKsock_recv_length: sk address = ADDR2e, family = AF_INET protocol = IPPROTO_TCP, length = 36, error = 0, flags = 0x0",
    ),
    (8, "s", "sched_waking: comm=a pid=1 prio=120 target_cpu=000"),
    (
        9,
        "s",
        "SOCKsock_send_length: sk address = ADDR2e, family = AF_INET protocol = IPPROTO_TCP, length = 5, error = 0, flags = 0x0",
    ),
    (
        10,
        "s",
        "sched_switch: prev_comm=s prev_pid=2 prev_prio=120 prev_state=S ==> next_comm=a next_pid=1 next_prio=120",
    ),
    (11, "a", "TCPtcp_rcv_space_adjust: sport=49322 dport=6399 saddr=127.0.0.1 daddr=127.0.0.1"),
    (
        12,
        "a",
        "SOCKsock_recv_length: sk address = ADDRc1, family = AF_INET protocol = IPPROTO_TCP, length = 5, error = 0, flags = 0x0",
    ),
];

/// A request over loopback, as tracefs and perf write it: a client sends to a server that sleeps,
/// looks for an answer that is not there, and gets it.
#[test]
fn messages_are_those_that_have_moved_bytes() {
    let text = |line: fn(u64, &str, &str) -> String, address: &str, systems: [&str; 2]| {
        let lines = REQUEST.iter().map(|(us, task, event)| {
            let event = event.replace("ADDR", address).replace("SOCK", systems[0]).replace("TCP", systems[1]);
            line(*us, task, &event.replace(&format!("IPPROTO_{}", systems[1]), "IPPROTO_TCP"))
        });
        lines.collect::<String>()
    };
    let texts = [
        text(
            |us, task, event| {
                format!("     {task}-{} [000] d..2.     1.{us:06}: {event}\n", if task == "a" { 1 } else { 2 })
            },
            "00000000c0ffee",
            ["", ""],
        ),
        text(
            |us, task, event| {
                format!("     {task}     {} [000]     1.{us:06}: {event}\n", if task == "a" { 1 } else { 2 })
            },
            "0xffff888000c0ff",
            ["sock:", "tcp:"],
        ),
    ];
    for text in texts {
        let trace = read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let (client, server) = (TaskId(1), TaskId(0));
        let message = |us: u64, task, socket, bytes, is_sent| Message {
            at: Instant::from_nanos(1_000_000_000 + us * 1000),
            task,
            socket,
            bytes,
            is_sent,
        };
        let messages = [
            message(3, client, 0, 36, true),
            message(7, server, 1, 36, false),
            message(9, server, 1, 5, true),
            message(12, client, 0, 5, false),
        ];
        assert_eq!(trace.meta.recorded.messages, messages, "{text}");
        assert_eq!(trace.meta.recorded.peers, [Some(1), Some(0)], "{text}");
        // Our own format keeps them.
        let mut writer = crate::TraceWriter::new(Vec::new(), &trace.meta).expect("memory");
        trace.records.iter().for_each(|record| writer.push(record).expect("memory"));
        let bytes = writer.finish(trace.meta.end, 0).expect("memory");
        assert_eq!(Trace::from_bytes(&bytes).expect("a trace").meta, trace.meta);
        // A length that is none makes the line one that was lost.
        let damaged = text.replace("length = 5, error = 0, flags = 0x0", "length = five");
        let damaged = read(&damaged).expect("a trace").meta.recorded;
        assert_eq!((damaged.messages.len(), damaged.skipped.len()), (2, 1), "{:?}", damaged.skipped);
    }
}

/// A move within cgroup v1 can be of any controller.
#[test]
fn a_task_is_where_it_was_moved_to_and_so_is_what_it_forks() {
    let move_to = |us: u64, root: u32, path: &str| {
        format!(
            " a-1 [000] 10.{us:06}: cgroup_attach_task: dst_root={root} dst_id=3214 dst_level=2 dst_path={path} pid=1 comm=a b\n"
        )
    };
    let fork = |us: u64, child: u32| {
        format!(" a-1 [000] 10.{us:06}: sched_process_fork: comm=a b pid=1 child_comm=c child_pid={child}\n")
    };
    let text = [
        fork(0, 2),
        move_to(1, 0, "/app.slice/web"),
        fork(2, 3),
        move_to(3, 5, "/cpu"),
        move_to(4, 0, "/"),
        fork(5, 4),
    ];
    let trace = read(&text.concat()).expect("a trace");
    let groups: Vec<_> =
        trace.meta.recorded.threads.iter().map(|thread| (thread.tid, thread.group.as_deref())).collect();
    assert_eq!(groups, [(1, Some("/")), (2, None), (3, Some("/app.slice/web")), (4, Some("/"))]);
    let of_v1: Vec<Vec<&str>> = trace
        .meta
        .recorded
        .threads
        .iter()
        .map(|thread| thread.groups_v1.iter().map(|path| &**path).collect())
        .collect();
    assert_eq!(of_v1, [vec!["/cpu"], vec![], vec![], vec!["/cpu"]]);
    let mut bytes = Vec::new();
    trace.write(&mut bytes).expect("memory takes it");
    assert_eq!(Trace::from_bytes(&bytes).expect("a trace").meta.recorded, trace.meta.recorded);
}

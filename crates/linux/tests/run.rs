//! Workloads on the kernel that runs these tests.
//!
//! They pass wherever Linux runs: a test that the host does not permit is skipped, and the reason
//! is printed. Assertions about times are loose enough for a busy machine.

use std::sync::Arc;
use zerolag_linux::plan::Recording;
use zerolag_linux::{End, Figures, Options, Plan, Refusal, RunError, run};
use zerolag_model::event::RequestStep;
use zerolag_model::{CpuMask, Duration, Mark, SchedAttr, TraceEvent};
use zerolag_workload::program::{Action, KernelAction, ResourceId, TaskDef};
use zerolag_workload::{LoadOptions, Program, load};

fn program(toml: &str) -> Arc<Program> {
    Arc::new(load("test.toml", toml.as_bytes(), &LoadOptions::default()).expect("a valid workload").program)
}

fn first_cpu() -> CpuMask {
    CpuMask::single(zerolag_linux::Host::look().cpus.first().expect("a CPU"))
}

fn for_millis(ms: u64) -> Options {
    Options { duration: Some(Duration::from_millis(ms)), cpus: Some(first_cpu()), ..Options::default() }
}

/// Held by tests whose runs have groups: one checks that none is left.
static GROUPS: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Runs a workload, or prints why this host refuses it.
fn run_or_skip(toml: &str, options: Options) -> Option<Figures> {
    let plan = match Plan::new(program(toml), options) {
        Ok(plan) => plan,
        Err(refusals) => {
            let reasons: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            println!("skipped: {}", reasons.join("; "));
            return None;
        }
    };
    match run(&plan, || false) {
        Ok(figures) => Some(figures),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn must_run(toml: &str, options: Options) -> Figures {
    run_or_skip(toml, options).expect("a plain fair workload needs no permission")
}

/// A few time slices.
const SLICES: Duration = Duration::from_millis(20);

#[test]
fn hogs_share_a_cpu_and_stop_at_the_end() {
    let figures = must_run(
        "[task.hog]\nsteps = [{ run = \"1s\" }]\n[task.nicer]\nnice = 10\nsteps = [{ run = \"1s\" }]\n",
        for_millis(300),
    );
    assert_eq!(figures.end, End::Duration);
    assert_eq!(figures.elapsed, Duration::from_millis(300));
    let [hog, nicer] = &figures.tasks[..] else { panic!("two tasks") };
    assert_eq!((&*hog.name, &*nicer.name), ("hog-0", "nicer-0"));
    // They shared one CPU, which other programs hardly used.
    assert!(hog.run + nicer.run < Duration::from_millis(330), "{} {}", hog.run, nicer.run);
    // The expected ratio is nine to one; a slice or two of chance are allowed on a busy machine.
    assert!(hog.run + SLICES > nicer.run, "{} {}", hog.run, nicer.run);
    assert!(hog.work <= hog.run + hog.run + SLICES && hog.switches_in > 0, "{hog:?}");
    assert!(figures.speeds.len() == 1 && figures.drift.len() == 1);
    let watchdog = figures.watchdog.expect("it looked on");
    assert!(watchdog.looks >= 3 && watchdog.run < Duration::from_millis(100), "{watchdog:?}");
}

#[test]
fn a_program_runs_to_its_end_action_by_action() {
    let figures = must_run(
        r#"
        [barrier.all]
        [mutex.pi]
        protocol = "inherit"
        [task.ping]
        loop = 50
        steps = [{ sem_post = "go" }, { sem_wait = "back" }, { lock = "m" }, { run = "20us" }, { unlock = "m" }]
        [task.pong]
        loop = 50
        steps = [{ sem_wait = "go" }, { sem_post = "back" }, { lock = "pi" }, { run = "10us" }, { unlock = "pi" }, "yield"]
        [task.meet]
        instances = 3
        loop = 4
        steps = [{ barrier = "all" }, { kernel = "50us" }, { sleep = "1ms" }, { lock = "pi" }, { unlock = "pi" }]
        [task.clock]
        loop = 10
        steps = [{ spin = "200us" }, { timer = { period = "3ms", mode = "absolute" } }, { stamp = 4 }]
        [task.child]
        instances = 0
        loop = 1
        steps = [{ run = "100us" }]
        [task.parent]
        loop = 2
        steps = [{ fork = "child" }, { sleep = "2ms" }]
        "#,
        Options { duration: None, ..Options::default() },
    );
    assert_eq!(figures.end, End::Finished, "{:?}", figures.notes);
    assert_eq!(figures.tasks.len(), 9);
    let names: Vec<&str> = figures.tasks.iter().map(|task| &*task.name).collect();
    assert_eq!(&names[7..], ["child-0", "child-1"]);
    let clock = figures.tasks.iter().find(|task| task.name == "clock-0").expect("it ran");
    let of_clock = |is: fn(&Mark) -> bool| {
        let marks = figures.trace.records.iter().filter_map(|record| match &record.event {
            TraceEvent::Mark { task, mark } if *task == clock.task => Some(mark),
            _ => None,
        });
        marks.filter(|mark| is(mark)).count()
    };
    assert_eq!(of_clock(|mark| matches!(mark, Mark::TimerDue { .. })), 10);
    assert_eq!(of_clock(|mark| matches!(mark, Mark::Stamp { label: 4, .. })), 10);
    assert_eq!(of_clock(|mark| matches!(mark, Mark::TurnEnd { .. })), 10);
    assert!(figures.elapsed >= Duration::from_millis(30), "ten periods of 3 ms: {}", figures.elapsed);
    let ping = &figures.tasks[0];
    assert!(ping.wakeups > 0 && ping.latency(500).is_some(), "{ping:?}");
    let locks = |event: fn(&TraceEvent) -> bool| figures.trace.records.iter().filter(|r| event(&r.event)).count();
    assert_eq!(locks(|event| matches!(event, TraceEvent::TakeLock { .. })), 50 + 50 + 12);
    assert_eq!(locks(|event| matches!(event, TraceEvent::DropLock { .. })), 50 + 50 + 12);
    assert!(figures.trace.records.is_sorted_by_key(|record| record.at));
}

#[test]
fn conditions_wake_exactly_the_intended_tasks() {
    let figures = must_run(
        r#"
        [task.waiter]
        instances = 2
        loop = 5
        steps = [{ lock = "m" }, { wait = { condition = "c", mutex = "m" } }, { unlock = "m" }]
        [task.signal]
        delay = "5ms"
        loop = 10
        steps = [{ lock = "m" }, { signal = "c" }, { unlock = "m" }, { sleep = "3ms" }]
        [task.sleeper]
        loop = 1
        steps = ["suspend"]
        [task.resumer]
        delay = "5ms"
        loop = 1
        steps = [{ resume = "sleeper" }]
        "#,
        Options { duration: Some(Duration::from_secs(2)), ..Options::default() },
    );
    // A waiter that returns late misses a signal, as with any condition variable; then the run ends
    // by its duration.
    assert!(figures.end.is_ok(), "{}", figures.end);
    for waiter in &figures.tasks[..2] {
        assert!(waiter.wakeups <= 1 + 5 * 2 + 5, "woken without a reason: {waiter:?}");
    }
}

#[test]
fn pipes_hand_bytes_over_and_let_their_waiters_go() {
    let figures = must_run(
        r#"
        [pipe.small]
        capacity = 4096
        [task.writer]
        cpus = "0"
        loop = 20
        steps = [{ pipe_write = { pipe = "small", bytes = 10000 } }]
        [task.reader]
        cpus = "0"
        steps = [{ pipe_read = { pipe = "small", bytes = 4096 } }]
        "#,
        for_millis(1000),
    );
    assert_eq!(figures.end, End::Duration);
    let [writer, reader] = &figures.tasks[..] else { panic!("two tasks") };
    // The writer needs the reader to read twice before 10 000 bytes fit. On one CPU the reader
    // cannot while the writer runs, so the writer waits, or is preempted just then.
    assert!(writer.wakeups + writer.preemptions >= 20 && writer.wakeups >= 1, "{writer:?}");
    assert!(reader.wakeups >= 1 && !reader.latencies.is_empty(), "{reader:?}");

    // Three readers of an empty pipe and two writers of a full one, which only the end releases.
    let figures = must_run(
        r#"
        [task.reader]
        instances = 3
        steps = [{ pipe_read = "empty" }]
        [task.writer]
        instances = 2
        steps = [{ pipe_write = { pipe = "full", bytes = 100000 } }]
        [task.never]
        steps = [{ sleep = "1h" }, { pipe_write = "empty" }, { pipe_read = "full" }]
        "#,
        for_millis(200),
    );
    assert_eq!(figures.end, End::Duration);
    assert_eq!(figures.tasks.len(), 6, "all were let go: the watchdog would have ended the process");
}

#[test]
fn an_interrupt_ends_sleepers_and_hogs_at_once() {
    let toml = "[task.a]\nsteps = [{ sleep = \"1h\" }]\n[task.b]\nsteps = [{ sem_wait = \"s\" }]\n[task.d]\nsteps = [{ sem_post = \"s2\" }, { sleep = \"1h\" }, { sem_post = \"s\" }]\n[task.c]\nsteps = [{ run = \"1h\" }]\n";
    let options = Options { duration: Some(Duration::from_secs(3600)), ..Options::default() };
    let plan = Plan::new(program(toml), options).expect("plain");
    let asked = std::sync::atomic::AtomicU32::new(0);
    let interrupted = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 1;
    let figures = run(&plan, interrupted).expect("plain");
    assert_eq!(figures.end, End::Interrupted);
    assert!(figures.elapsed < Duration::from_secs(60), "{}", figures.elapsed);
}

#[test]
fn mistakes_end_the_run_and_say_so() {
    let figures = run_or_skip(
        r#"
        [mutex.a]
        protocol = "inherit"
        [mutex.b]
        protocol = "inherit"
        [task.x]
        loop = 1
        steps = [{ lock = "a" }, { sleep = "10ms" }, { lock = "b" }, { unlock = "b" }, { unlock = "a" }]
        [task.y]
        loop = 1
        steps = [{ lock = "b" }, { sleep = "10ms" }, { lock = "a" }, { unlock = "a" }, { unlock = "b" }]
        "#,
        Options { duration: Some(Duration::from_secs(1)), ..Options::default() },
    );
    let end = figures.expect("plain").end;
    // On a very busy machine one task can take both locks before the other starts.
    assert!(matches!(end, End::Deadlock(_) | End::Finished), "{end:?}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_starts() {
    let refused =
        |toml: &str| -> Vec<Refusal> { Plan::new(program(toml), Options::default()).expect_err("no host takes this") };
    let watchdog =
        refused("[task.a]\npolicy = \"fifo\"\npriority = 99\nsteps = [{ run = \"1ms\" }, { sleep = \"1ms\" }]\n");
    let says = watchdog.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(says.contains("at most 98") || says.contains("RLIMIT_RTPRIO"), "{says}");
    let partition = refused(
        "[cpuset.p]\ncpus = \"0\"\npartition = \"root\"\n[task.a]\ncpuset = \"p\"\nsteps = [{ run = \"1ms\" }]\n",
    );
    assert!(partition.iter().any(|refusal| refusal.why.contains("global setting")), "{partition:?}");
    let created = refused("[task.a]\ncreated_on = 0\nsteps = [{ run = \"1ms\" }]\n");
    assert!(created.iter().any(|refusal| refusal.subject == "created_on of task a"), "{created:?}");
    let apart =
        refused("[task.a]\nprocess = \"p\"\nsteps = [{ run = \"1ms\" }]\n[task.b]\nsteps = [{ run = \"1ms\" }]\n");
    assert!(apart.iter().any(|refusal| refusal.subject == "process p"), "{apart:?}");
}

/// Also those that no scenario has outside of a system call, such as a spinning lock.
#[test]
fn actions_of_the_kernel_alone_are_refused() {
    let lock = ResourceId(0);
    for action in [
        KernelAction::SyscallEnter,
        KernelAction::SpinLock(lock),
        KernelAction::UserSpinLock(lock),
        KernelAction::Softirqs,
        KernelAction::RcuBoost,
        KernelAction::Io { disk: lock, bytes: 1 },
    ] {
        let actions = vec![Action::InKernel(action.clone())];
        let program = Program { tasks: vec![TaskDef::looping("a", SchedAttr::NORMAL, actions)], ..Program::default() };
        let refusals = Plan::new(Arc::new(program), for_millis(1)).expect_err("no host takes this");
        let is_told = |refusal: &Refusal| refusal.subject == "task a-0" && refusal.why.contains("only be simulated");
        assert!(refusals.iter().any(is_told), "{action:?}: {refusals:?}");
    }
}

#[test]
fn a_fifo_hog_is_ended_by_the_clock() {
    let toml = "[task.rt]\npolicy = \"fifo\"\npriority = 10\nsteps = [{ run = \"10s\" }]\n[task.fair]\nsteps = [{ run = \"10s\" }]\n";
    let Some(figures) = run_or_skip(toml, for_millis(200)) else { return };
    let [rt, fair] = &figures.tasks[..] else { panic!("two tasks") };
    // The shares depend on the host, which can be busy with other programs.
    assert!(rt.run > Duration::ZERO && fair.run < Duration::from_secs(5), "{} {}", rt.run, fair.run);
    assert_eq!(figures.end, End::Duration);
}

#[test]
fn deadline_tasks_are_admitted_or_refused_whole() {
    let one = "[task.dl]\npolicy = \"deadline\"\nruntime = \"2ms\"\nperiod = \"20ms\"\nsteps = [{ run = \"1ms\" }, { timer = { period = \"20ms\" } }]\n";
    let options = Options { duration: Some(Duration::from_millis(150)), ..Options::default() };
    if run_or_skip(one, options.clone()).is_none() {
        return;
    }
    let many = one.replace("2ms", "19ms").replace("[task.dl]", "[task.dl]\ninstances = 300");
    let plan = Plan::new(program(&many), options).expect("each alone would do");
    let refused = run(&plan, || false).expect_err("no machine of ours has 285 CPUs to give");
    assert!(matches!(&refused, RunError::Refused(reasons) if reasons[0].contains("not admitted")), "{refused}");
}

#[test]
fn groups_share_by_weight_and_leave_nothing_behind() {
    let toml = "[group.\"/a\"]\n\"cpu.weight\" = 300\n[group.\"/b\"]\n\"cpu.weight\" = 100\n[task.a]\ngroup = \"/a\"\nsteps = [{ run = \"1s\" }]\n[task.b]\ngroup = \"/b\"\nsteps = [{ run = \"1s\" }]\n";
    let _alone = GROUPS.lock();
    let Some(figures) = run_or_skip(toml, for_millis(400)) else { return };
    assert_eq!(figures.groups.len(), 2);
    let [a, b] = &figures.tasks[..] else { panic!("two tasks") };
    assert!(a.run + SLICES > b.run, "{} {}", a.run, b.run);
    let own = format!("zerolag-{}-", std::process::id());
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"] {
        let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
        let left: Vec<_> = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Two groups and a task without one compete for a CPU: a third each, where a task beside the run's
/// directory would have half.
#[test]
fn a_task_without_a_group_competes_with_each_group() {
    let toml = "[group.\"/a\"]\n[group.\"/b\"]\n[task.a]\ngroup = \"/a\"\nsteps = [{ run = \"9s\" }]\n\
                [task.b]\ngroup = \"/b\"\nsteps = [{ run = \"9s\" }]\n[task.alone]\nsteps = [{ run = \"9s\" }]\n";
    let _alone = GROUPS.lock();
    // Other programs disturb a run: the one in the middle of three counts.
    let share = |figures: &Figures| {
        let all: Duration = figures.tasks.iter().fold(Duration::ZERO, |sum, task| sum + task.run);
        figures.tasks[2].run.as_nanos() as f64 / all.as_nanos() as f64
    };
    let mut shares = Vec::new();
    for _ in 0..3 {
        let Some(figures) = run_or_skip(toml, for_millis(1000)) else { return };
        shares.push(share(&figures));
    }
    shares.sort_by(f64::total_cmp);
    assert!((0.25..0.42).contains(&shares[1]), "{shares:?}");
}

/// A source is woken in time while real-time tasks hold all CPUs.
#[test]
fn sources_are_not_delayed_by_the_workload() {
    let cpus = zerolag_linux::Host::look().cpus.iter().count();
    let toml = format!(
        "[service.web]\narrivals = {{ poisson = \"200/s\" }}\nworkers = 1\nsteps = [{{ run = \"100us\" }}]\n\
         [task.hog]\npolicy = \"fifo\"\npriority = 5\ninstances = {cpus}\n\
         steps = [{{ run = \"100ms\" }}, {{ sleep = \"20ms\" }}]\n"
    );
    let options = Options { cpus: None, ..for_millis(1000) };
    let Some(figures) = run_or_skip(&toml, options) else { return };
    let mut late: Vec<Duration> = Vec::new();
    for record in &figures.trace.records {
        if let TraceEvent::Request { step: RequestStep::Arrive { due }, .. } = record.event {
            late.push(record.at.since(due));
        }
    }
    late.sort_unstable();
    assert!(late.len() > 100, "{} requests", late.len());
    // A fair source waits for the rest of 100 ms.
    assert!(late[late.len() / 2] < Duration::from_millis(1), "{late:?}");
}

#[test]
fn the_kernels_own_events_are_recorded_where_permitted() {
    let toml = "[task.hog]\nsteps = [{ run = \"1s\" }]\n[task.tick]\nsteps = [{ run = \"100us\" }, { timer = { period = \"10ms\" } }]\n";
    let figures = must_run(toml, Options { record: Recording::Kernel, ..for_millis(300) });
    if !figures.is_recorded {
        println!("skipped: {}", figures.notes.join("; "));
        return;
    }
    let hog = figures.tasks[0].task;
    let switches = figures
        .trace
        .records
        .iter()
        .filter(|record| matches!(&record.event, TraceEvent::Switch { next, .. } if *next == Some(hog)));
    let counted = figures.tasks[0].switches_in;
    let seen = switches.count() as u64;
    assert!(seen > 0 && seen <= counted + 5, "{seen} switches to the hog were recorded, the kernel counted {counted}");
    let created = figures
        .trace
        .records
        .iter()
        .filter(|record| matches!(&record.event, TraceEvent::TaskNew { task, .. } if *task == hog));
    assert_eq!(created.count(), 1, "known by one name only");
}

#[test]
fn changes_are_made_at_their_times() {
    let toml = "[task.hog]\nsteps = [{ run = \"5ms\" }]\n[task.waits]\nsteps = [{ lock = \"m\" }, { sleep = \"10s\" }, { unlock = \"m\" }]\n\
                [task.also]\ndelay = \"100ms\"\nsteps = [{ lock = \"m\" }, { run = \"1ms\" }, { unlock = \"m\" }]\n\
                [[change]]\nat = \"50ms\"\ntask = \"hog\"\nnice = 7\n[[change]]\nat = \"80ms\"\ntask = \"hog\"\nstart = 1\n\
                [[change]]\nat = \"120ms\"\ntask = \"hog\"\nend = true\n[[change]]\nat = \"140ms\"\ntask = \"waits\"\nend = true\n\
                [[change]]\nat = \"160ms\"\ntask = \"also\"\nend = true\n";
    let figures = must_run(toml, Options { duration: None, ..for_millis(0) });
    assert_eq!(figures.end, End::Finished);
    let names: Vec<&str> = figures.tasks.iter().map(|task| &*task.name).collect();
    assert_eq!(names, ["hog-0", "waits-0", "also-0", "hog-1"]);
    let first = |wanted: &dyn Fn(&TraceEvent) -> bool| {
        let record = figures.trace.records.iter().find(|record| wanted(&record.event)).expect("it happened");
        record.at.as_nanos() / 1_000_000
    };
    let id = |name: &str| figures.tasks.iter().find(|task| &*task.name == name).expect("a task").task;
    assert!(first(&|event| matches!(event, TraceEvent::AttrChange { task, .. } if *task == id("hog-0"))) >= 50);
    assert!(first(&|event| matches!(event, TraceEvent::TaskNew { task, .. } if *task == id("hog-1"))) >= 80);
    assert!(first(&|event| matches!(event, TraceEvent::TaskExit { task } if *task == id("hog-0"))) >= 120);
    // A task that was ended in its sleep released the lock. The other one comes late for it, so
    // that a busy host has the time to start the first.
    let took = first(&|event| matches!(event, TraceEvent::TakeLock { task, .. } if *task == id("also-0")));
    assert!(took >= 140, "{took}");
}

#[test]
fn groups_come_and_go_with_their_tasks() {
    let toml = "[group.\"/pod\"]\nfrom = \"40ms\"\nuntil = \"90ms\"\n\"cpu.max\" = \"50000 100000\"\n[group.\"/pod/in\"]\n\
                [task.pod]\ngroup = \"/pod/in\"\ninstances = 2\nsteps = [{ run = \"2ms\" }, { sleep = \"1ms\" }]\n\
                [task.host]\nuntil = \"200ms\"\nsteps = [{ run = \"1ms\" }, { sleep = \"9ms\" }]\n\
                [[change]]\nat = \"60ms\"\ngroup = \"/pod\"\n\"cpu.max\" = \"max\"\n\"cpu.weight\" = 300\n\
                [[change]]\nat = \"70ms\"\ntask = \"host\"\ngroup = \"/pod\"\n[[change]]\nat = \"80ms\"\ntask = \"host\"\ngroup = \"/\"\n\
                [[change]]\nat = \"130ms\"\ngroup = \"/pod\"\ncreate = true\n\
                [[change]]\nat = \"170ms\"\ngroup = \"/pod\"\nremove = true\n";
    let _alone = GROUPS.lock();
    let Some(figures) = run_or_skip(toml, Options { duration: None, ..for_millis(0) }) else { return };
    assert_eq!(figures.end, End::Finished);
    let names: Vec<&str> = figures.tasks.iter().map(|task| &*task.name).collect();
    assert_eq!(names, ["host-0", "pod-0", "pod-1", "pod-2", "pod-3"]);
    let all = |wanted: &dyn Fn(&TraceEvent) -> bool| -> Vec<u64> {
        let records = figures.trace.records.iter().filter(|record| wanted(&record.event));
        records.map(|record| record.at.as_nanos() / 1_000_000).collect()
    };
    let made = all(&|event| matches!(event, TraceEvent::GroupNew { .. }));
    assert!(made.len() == 4 && made[0] >= 40 && made[2] >= 130, "{made:?}");
    let gone = all(&|event| matches!(event, TraceEvent::GroupGone { .. }));
    assert!(gone.len() == 4 && gone[0] >= 90 && gone[2] >= 170, "{gone:?}");
    assert_eq!(all(&|event| matches!(event, TraceEvent::GroupChange { .. })).len(), 2);
    let ended = all(&|event| matches!(event, TraceEvent::TaskExit { .. }));
    assert!(ended.len() == 5 && ended[0] >= 90, "{ended:?}");
}

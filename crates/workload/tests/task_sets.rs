//! Task sets as other tools write them: what becomes of them, and what is said of the rest.

use zerolag_model::{CpuId, DlFlags, DlParams, Duration, SchedAttr, Topology};
use zerolag_workload::builtin::PeriodicPolicy;
use zerolag_workload::program::{Action, ResourceKind, TimerMode, TimerRef};
use zerolag_workload::random::Dist;
use zerolag_workload::{Diagnostics, LoadOptions, Scenario, Severity, load};

fn read(name: &str, text: &str) -> Scenario {
    load(name, text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

fn refused(name: &str, text: &str) -> String {
    let errors = load(name, text.as_bytes(), &LoadOptions::default()).expect_err("wrong").to_string();
    errors.lines().filter(|line| !line.contains(": note: ")).collect::<Vec<_>>().join("\n")
}

fn said(messages: &Diagnostics, severity: Severity) -> Vec<&str> {
    messages.iter().filter(|one| one.severity == severity).map(|one| &*one.message).collect()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn run(time: u64) -> Action {
    Action::Run(Dist::Constant(ms(time)))
}

fn every(time: u64) -> Action {
    Action::Timer { timer: TimerRef::Own(0), period: Dist::Constant(ms(time)), mode: TimerMode::Absolute }
}

fn deadline(runtime: u64, deadline: u64, period: u64) -> SchedAttr {
    SchedAttr::Deadline(DlParams::new(ms(runtime), ms(deadline), ms(period)))
}

/// The file of rt-audit's own documentation, with a deadline that is left out as there.
#[test]
fn tables_of_rt_audit_are_read_by_the_names_of_their_columns() {
    let text = "task_name,runtime_us,period_us,deadline_us\naudio,1000,10000,10000\nvideo,5000,20000,\n";
    for name in ["f-rtaudit.csv", "<stdin>"] {
        let set = read(name, text).program;
        assert_eq!([set.tasks[0].attr, set.tasks[1].attr], [deadline(1, 10, 10), deadline(5, 20, 20)], "{name}");
    }
    let yaml =
        "cpus: 2\nduration: 3\nsystem_overhead: 0.2\ntasks:\n  - name: a\n    runtime: 4000\n    period: 10000\n";
    let set = read("set.yaml", yaml);
    assert_eq!((set.program.tasks[0].attr, set.duration), (deadline(5, 10, 10), Some(ms(3000))));
    assert_eq!(set.program.tasks[0].phases[0].actions, [run(4), every(10)]);
    assert_eq!(set.machine, Some(Topology::flat(2).expect("two")));
}

const SIMSO: &str = r#"<?xml version="1.0" ?>
<simulation duration="100000000" cycles_per_ms="1000000" etm="wcet">
  <sched class="simso.schedulers.EDF" overhead="0" overhead_activate="0"/>
  <caches memory_access_time="100"/>
  <processors>
    <processor name="P1" id="1" cs_overhead="0" speed="1.0"/>
    <processor name="P2" id="2" cs_overhead="0" speed="1.0"/>
  </processors>
  <tasks>
    <task name="T1" id="1" task_type="Periodic" abort_on_miss="no" period="10.0" activationDate="2.5" deadline="8.0" WCET="3.0" ACET="0.0" list_activation_dates="" followed_by="3"/>
    <task name="T2" id="2" task_type="Sporadic" abort_on_miss="no" period="5.0" deadline="5.0" WCET="1.0" list_activation_dates="40.0, 7.0, 12.0"/>
    <task name="T3" id="3" task_type="APeriodic" abort_on_miss="no" period="10.0" deadline="10.0" WCET="2.0"/>
  </tasks>
</simulation>
"#;

#[test]
fn files_of_simso_keep_their_times_processors_and_activations() {
    let set = read("set.xml", SIMSO);
    assert!(set.warnings.is_empty(), "{}", set.warnings);
    assert_eq!((set.machine, set.duration), (Some(Topology::flat(2).expect("two")), Some(ms(100))));
    let tasks = &set.program.tasks;
    assert_eq!(
        [tasks[0].attr, tasks[1].attr, tasks[2].attr],
        [deadline(3, 8, 10), deadline(1, 5, 5), deadline(2, 10, 10)]
    );
    let Action::SemPost(after) = tasks[0].phases[0].actions[1] else { panic!("{:?}", tasks[0].phases) };
    assert_eq!((tasks[0].delay, tasks[0].turns), (Duration::from_micros(2500), None));
    assert_eq!(tasks[0].phases[0].actions[2], every(10));
    // Its activations are sorted; after the last one it ends.
    assert_eq!((tasks[1].delay, tasks[1].turns), (ms(7), Some(1)));
    assert_eq!(tasks[1].phases[0].actions, [run(1), every(5), run(1), every(28), run(1)]);
    assert_eq!(tasks[2].phases[0].actions, [Action::SemWait(after), run(2)]);
    assert_eq!(read("<stdin>", SIMSO).program.tasks.len(), 3, "recognised by its contents");
}

#[test]
fn schedulers_of_simso_become_those_of_linux_or_are_named() {
    let with = |scheduler: &str| SIMSO.replace("simso.schedulers.EDF", scheduler);
    let attrs = |text: &str| read("a.xml", text).program.tasks.iter().map(|task| task.attr).collect::<Vec<_>>();
    let fifo = SchedAttr::fifo_at;
    assert_eq!(attrs(&with("simso.schedulers.RM")), [fifo(98), fifo(99), fifo(98)]);
    let prioritised = with("../schedulers/FP.py").replace("id=\"2\" task", "id=\"2\" priority=\"7\" task");
    assert_eq!(attrs(&prioritised), [fifo(98), fifo(99), fifo(98)], "0 is no priority of Linux, so their order counts");
    let set = read("a.xml", &with("simso.schedulers.LLF"));
    assert_eq!(
        said(&set.warnings, Severity::Warning),
        ["Linux has no scheduler LLF; tasks get SCHED_DEADLINE (global EDF)"]
    );
    let set = read("a.xml", &with("simso.schedulers.P_EDF"));
    assert!(said(&set.warnings, Severity::Note)[0].contains("assigns each task to a processor"), "{}", set.warnings);
    let options = LoadOptions { task_set: PeriodicPolicy::RateMonotonicFifo, ..LoadOptions::default() };
    let chosen = load("a.xml", SIMSO.as_bytes(), &options).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(chosen.program.tasks[1].attr, fifo(99), "--task-set counts more than the file");
    // Each task on its processor: a root domain of its own, as SCHED_DEADLINE wants it.
    let fixed = with("simso.schedulers.Fixed_PEDF").replace("name=\"T", "cpu=\"2\" name=\"T");
    let set = read("a.xml", &fixed).program;
    assert_eq!((set.cpusets.len(), set.cpusets[0].partition, set.tasks[2].cpuset), (1, true, Some(0)));
    assert!(set.cpusets[0].cpus.contains(CpuId(1)) && set.cpusets[0].cpus.count() == 1);
}

#[test]
fn what_simso_has_and_linux_not_is_named() {
    let text = SIMSO
        .replace("cs_overhead=\"0\" speed=\"1.0\"/>\n  </proc", "cs_overhead=\"5\" speed=\"2.0\"/>\n  </proc")
        .replace("etm=\"wcet\"", "etm=\"cache\"")
        .replace("abort_on_miss=\"no\" period=\"5.0\"", "period=\"5.0\"")
        .replace("followed_by=\"3\"", "");
    let set = read("a.xml", &text);
    assert_eq!(
        said(&set.warnings, Severity::Note),
        [
            "the model of execution times \"cache\" is not read: jobs run for their WCET",
            "costs are those of --costs, not of the file: cs_overhead",
            "task T2: abort_on_miss: here a late job goes on, as in Linux",
            "task T3 is left out: nothing activates it",
        ]
    );
    // The fastest processor has capacity 1024: there a job of 3 ms takes 1.5 ms.
    let machine = set.machine.expect("two processors");
    assert_eq!([machine.capacity(CpuId(0)), machine.capacity(CpuId(1))], [512, 1024]);
    assert_eq!(set.program.tasks[0].phases[0].actions[0], Action::Run(Dist::Constant(Duration::from_micros(1500))));
    assert_eq!(
        refused(
            "a.xml",
            &SIMSO.replace("WCET=\"3.0\"", "WCET=\"3ms\"").replace("deadline=\"5.0\"", "deadline=\"6.0\"")
        ),
        "a.xml:10:118: error: WCET: `3ms` is not a time of 0 up to 10 years\n  help: give milliseconds: \"2.5\"\n\
         a.xml:11:11: error: task T2: deadline 6ms is above period 5ms\n  help: SCHED_DEADLINE refuses that; `--task-set fifo` does not"
    );
}

/// Three tasks of version 3 on the first of two processors.
fn cheddar(scheduler: &str) -> String {
    let core = |id: u32| {
        format!(
            "<core_unit id=\"id_{id}\"><name>c{id}</name><scheduling><scheduling_parameters><scheduler_type>{scheduler}</scheduler_type><preemptive_type>PREEMPTIVE</preemptive_type><priority>0</priority></scheduling_parameters></scheduling></core_unit>\n"
        )
    };
    let processor = |id: u32| {
        format!(
            "<mono_core_processor id=\"id_1{id}\"><name>cpu{id}</name><migration_type>NO_MIGRATION_TYPE</migration_type><core ref=\"id_{id}\"></core></mono_core_processor>\n"
        )
    };
    let task = |name: &str, cpu: u32, capacity: u32, period: u32, deadline: u32, priority: u32| {
        format!(
            "<periodic_task id=\"id_{name}\"><name>{name}</name><task_type>PERIODIC_TYPE</task_type><cpu_name>cpu{cpu}</cpu_name><capacity>{capacity}</capacity><deadline>{deadline}</deadline><start_time>3</start_time><priority>{priority}</priority><policy>SCHED_FIFO</policy><period>{period}</period><jitter>0</jitter></periodic_task>\n"
        )
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<cheddar>\n<core_units>\n{}{}</core_units>\n<processors>\n{}{}</processors>\n<tasks>\n{}{}{}</tasks>\n</cheddar>\n",
        core(1),
        core(2),
        processor(1),
        processor(2),
        task("T1", 1, 1, 20, 5, 10),
        task("T2", 1, 2, 10, 10, 30),
        task("T3", 2, 4, 30, 30, 20),
    )
}

#[test]
fn files_of_cheddar_keep_their_schedulers_and_processors() {
    let attrs = |scheduler: &str| {
        let set = read("a.xml", &cheddar(scheduler));
        assert!(said(&set.warnings, Severity::Note).iter().all(|note| note.contains("1 is taken as 1 ms")));
        set.program.tasks.iter().map(|task| task.attr).collect::<Vec<_>>()
    };
    let fifo = SchedAttr::fifo_at;
    // Tasks of different processors do not compete.
    assert_eq!(attrs("RATE_MONOTONIC_PROTOCOL"), [fifo(98), fifo(99), fifo(99)]);
    assert_eq!(attrs("DEADLINE_MONOTONIC_PROTOCOL"), [fifo(99), fifo(98), fifo(99)]);
    assert_eq!(attrs("POSIX_1003_HIGHEST_PRIORITY_FIRST_PROTOCOL"), [fifo(10), fifo(30), fifo(20)]);
    assert_eq!(
        attrs("EARLIEST_DEADLINE_FIRST_PROTOCOL"),
        [deadline(1, 5, 20), deadline(2, 10, 10), deadline(4, 30, 30)]
    );
    let set = read("a.xml", &cheddar("RATE_MONOTONIC_PROTOCOL"));
    assert_eq!((set.machine, set.program.tasks[0].delay), (Some(Topology::flat(2).expect("two")), ms(3)));
    let own = set.program.tasks[2].affinity.as_ref().expect("its processor");
    assert!(own.contains(CpuId(1)) && own.count() == 1);
    let set = read("a.xml", &cheddar("EARLIEST_DEADLINE_FIRST_PROTOCOL")).program;
    assert_eq!(set.tasks.iter().map(|task| task.cpuset).collect::<Vec<_>>(), [Some(0), Some(0), Some(1)]);
    let set = read("a.xml", &cheddar("LEAST_LAXITY_FIRST_PROTOCOL"));
    assert_eq!(said(&set.warnings, Severity::Warning).len(), 2, "each of the two cores: {}", set.warnings);
}

/// The form before version 3, with a document type, as that of the Mars Pathfinder.
#[test]
fn resources_of_cheddar_are_locked_for_their_units() {
    let text = "<?xml version=\"1.0\"?>\n<!DOCTYPE cheddar [\n<!ELEMENT name (#PCDATA) >\n]>\n<cheddar>\n<processors><processor><name>cpu</name><scheduler> RATE_MONOTONIC_PROTOCOL </scheduler></processor></processors>\n<tasks>\n<task task_type=\"PERIODIC_TYPE\"><cpu_name>cpu</cpu_name><name>bus</name><capacity> 10</capacity><deadline> 50</deadline><period>50</period><jitter>1</jitter></task>\n<task task_type=\"APERIODIC_TYPE\"><cpu_name>cpu</cpu_name><name>meteo</name><capacity> 23</capacity><start_time>5</start_time><deadline> 2000</deadline></task>\n</tasks>\n<resources><resource><name>data</name><state>1</state><protocol>Priority_Inheritance_Protocol</protocol><resource_used_by>\n<resource_user> bus 1 10 </resource_user>\n<resource_user> meteo 4 20 </resource_user>\n</resource_used_by></resource></resources>\n<dependencies><dependency>bus meteo</dependency></dependencies>\n</cheddar>\n";
    let set = read("mars.xml", text);
    assert_eq!(set.program.resources[0].kind, ResourceKind::Mutex { inherit: true });
    let actions = |task: usize| set.program.tasks[task].phases[0].actions.clone();
    let Action::Lock(data) = actions(0)[0] else { panic!("{:?}", actions(0)) };
    assert_eq!(actions(0), [Action::Lock(data), run(10), Action::Unlock(data), every(50)]);
    assert_eq!(actions(1), [run(3), Action::Lock(data), run(17), Action::Unlock(data), run(3)]);
    assert_eq!((set.program.tasks[1].turns, set.program.tasks[1].delay), (Some(1), ms(5)));
    let notes = said(&set.warnings, Severity::Note);
    assert!(notes.contains(&"dependencies: not read, and without effect here"), "{notes:?}");
    assert!(notes.contains(&"<jitter> of tasks: not read, and without effect here"), "{notes:?}");
    let error = refused(
        "mars.xml",
        &text
            .replace("bus 1 10", "bus 1 11")
            .replace("<cpu_name>cpu</cpu_name><name>meteo", "<cpu_name>x</cpu_name><name>meteo"),
    );
    assert_eq!(
        error,
        "mars.xml:9:34: error: there is no processor x\n  help: known are cpu\n\
         mars.xml:12:1: error: task bus uses data outside its capacity\n\
         mars.xml:13:1: error: `meteo 4 20` is no use of a resource\n  help: write a task, its first and its last unit: `T1 1 2`"
    );
}

const PARTSIM: &str = "taskset:\n  - name: T1\n    iat: 32\n    deadline: 32\n    server_type: grub\n    cbs_runtime: 8\n    startcpu: 1\n    code:\n      - lock(r)\n      - fixed(7,bzip2)\n      - unlock(r);\n  - name: T2\n    iat: 48\n    ph: 5\n    params: \"x\"\n    code:\n      - delay(uniform(2,14))\n      - lock(go)\n      - suspend(3)\n  - name: T3\n    iat: 48\n    runtime: 1\n    code: [fixed(1), unlock(go)]\nresources:\n  - name: r\n    initial_state: unlocked\n  - name: go\n    initial_state: locked\n";

#[test]
fn files_of_partsim_keep_their_reservations_and_their_code() {
    let set = read("set.yml", PARTSIM);
    let tasks = &set.program.tasks;
    let SchedAttr::Deadline(params) = tasks[0].attr else { panic!("{:?}", tasks[0].attr) };
    assert_eq!((params.runtime, params.period, params.flags), (ms(8), ms(32), DlFlags::RECLAIM));
    assert_eq!([tasks[1].attr, tasks[2].attr], [deadline(14, 48, 48), deadline(1, 48, 48)]);
    assert_eq!((tasks[0].created_on, tasks[1].delay), (Some(CpuId(1)), ms(5)));
    let kind = |name: &str| set.program.resources.iter().find(|one| &*one.name == name).map(|one| one.kind.clone());
    assert_eq!(kind("r"), Some(ResourceKind::Mutex { inherit: false }));
    assert_eq!(kind("go"), Some(ResourceKind::Semaphore { initial: 0 }), "one task raises it, another waits");
    assert!(matches!(
        tasks[0].phases[0].actions[..],
        [Action::Lock(_), Action::Run(_), Action::Unlock(_), Action::Timer { .. }]
    ));
    assert!(matches!(
        tasks[1].phases[0].actions[..],
        [Action::Run(_), Action::SemWait(_), Action::Sleep(_), Action::Timer { .. }]
    ));
    let notes = said(&set.warnings, Severity::Note);
    assert!(notes.iter().any(|note| note.starts_with("`params` of tasks: not read")), "{notes:?}");
    assert!(notes.iter().any(|note| note.starts_with("kinds of work")), "{notes:?}");
    assert_eq!(read("set.txt", PARTSIM).program.tasks.len(), 3, "recognised by its contents");
    assert_eq!(
        refused("set.yml", &PARTSIM.replace("fixed(7,bzip2)", "fixd(7)").replace("iat: 48\n    ph", "ph")),
        "set.yml:10:9: error: `fixd(7)` is not an instruction that is known\n  help: known are fixed(n), delay(unif(a,b) | normal(m,s) | exp(m) | delta(n)), suspend(n), lock(r), unlock(r)\n\
         set.yml:12:5: error: task T2 has no period\n  help: write `iat: 20`"
    );
}

#[test]
fn files_of_something_else_are_told_what_is_read() {
    for (name, text, part) in [
        (
            "a.xml",
            "<project/>",
            "<project> is no task set that is known\n  help: known are <simulation> of SimSo and <cheddar> of Cheddar",
        ),
        ("a.xml", "<simulation>\n  <tasks>", "never closed"),
        ("a.xml", "<simulation>\n  <tasks a>", "a.xml:2:11: error: this is not XML"),
        ("a.xml", "", "this is not XML"),
        ("a.xml", "<simulation><tasks/></simulation>", "the table has no tasks"),
        (
            "a.yaml",
            "apiVersion: v1\nkind: Pod\n",
            "this is a manifest: it has limits, and no workload\n  help: give it to a workload with -f",
        ),
        ("a.yaml", "a: 1\n", "this YAML is no task set"),
        ("a.yaml", "a: [\n", "this is not YAML"),
        ("a.yaml", "taskset: 1\n", "`taskset` is a value"),
    ] {
        let error = refused(name, text);
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn absurd_xml_ends_soon() {
    let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\">".to_owned()
        + &(1..40)
            .map(|at| {
                format!(
                    "<!ENTITY a{at} \"&a{0};&a{0};&a{0};&a{0};\">",
                    if at == 1 { String::new() } else { (at - 1).to_string() }
                )
            })
            .collect::<String>()
        + "]>\n<simulation>&a39;</simulation>";
    for text in [bomb, "<a>".repeat(200_000), "<simulation a='".repeat(10_000)] {
        assert!(load("a.xml", text.as_bytes(), &LoadOptions::default()).is_err());
    }
    for end in (0..SIMSO.len() - 2).step_by(3) {
        // Truncated anywhere: an error, and no panic.
        assert!(load("a.xml", &SIMSO.as_bytes()[..end], &LoadOptions::default()).is_err());
    }
}

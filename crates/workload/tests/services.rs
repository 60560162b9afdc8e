//! `[service.NAME]`, from text to program. `docs/reference/scenario.md` states the rules.

use zerolag_model::Duration;
use zerolag_workload::arrivals::Arrivals;
use zerolag_workload::program::{Action, ResourceKind};
use zerolag_workload::{Dist, Includes, LoadOptions, Program, load};

fn read(text: &str) -> Result<Program, String> {
    let includes = Includes::new(|path| match path {
        "dir/times.txt" => Ok(b"# seconds\n10.0\n10.5\n12\n".to_vec()),
        "dir/bad.txt" => Ok(b"1\n0.5\n".to_vec()),
        _ => Err("no such file".to_owned()),
    });
    let options = LoadOptions { includes: Some(includes), ..LoadOptions::default() };
    load("dir/s.toml", text.as_bytes(), &options).map(|scenario| scenario.program).map_err(|errors| errors.to_string())
}

fn good(text: &str) -> Program {
    read(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The refusal of a service with these lines next to its steps.
fn refused(lines: &str) -> String {
    read(&format!("[service.web]\nsteps = [{{ run = \"1ms\" }}]\n{lines}\n")).expect_err("refused")
}

fn service(arrivals: &str) -> Program {
    good(&format!("[service.web]\nworkers = 2\narrivals = {arrivals}\nsteps = [{{ run = \"1ms\" }}]\n"))
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn a_service_is_a_queue_a_source_and_a_task_that_takes_and_completes() {
    let program = good(
        "[task.batch]\nsteps = [{ run = \"1ms\" }]\n[service.web]\nworkers = 3\nqueue = 100\ngroup = \"/web\"\nnice = -5\n\
         delay = \"1s\"\nuntil = \"2s\"\nirq_cpus = \"1\"\narrivals = { fixed = \"200/s\" }\n\
         steps = [{ lock = \"db\" }, { run = \"1ms\" }, { unlock = \"db\" }, { sleep = \"2ms\" }]\n",
    );
    let task = &program.tasks[1];
    assert_eq!((&*task.name, task.instances, task.turns, task.delay), ("web", 3, None, Duration::ZERO));
    assert_eq!(task.group.map(|group| &*program.groups[group].path), Some("/web"));
    let source = &program.sources[0];
    assert_eq!((&*source.name, source.delay, source.until), ("web", ms(1000), Some(ms(2000))));
    assert_eq!(source.arrivals, Arrivals::Every(Dist::Constant(ms(5))));
    let queue = &program.resources[source.queue.index()];
    assert_eq!((&*queue.name, queue.kind.clone()), ("web", ResourceKind::Queue { capacity: Some(100) }));
    let actions = &task.phases[0].actions;
    assert_eq!(actions.first(), Some(&Action::Take(source.queue)));
    assert_eq!(actions.last(), Some(&Action::Complete(source.queue)));
    assert_eq!(actions.len(), 6);
}

#[test]
fn phases_stand_between_taking_and_completing() {
    let program = good(
        "[service.web]\nworkers = 1\narrivals = { poisson = \"1/ms\" }\n[[service.web.phase]]\nnice = 5\nloop = 2\n\
         steps = [{ run = \"1ms\" }]\n[[service.web.phase]]\nnice = 0\nsteps = [{ run = \"1ms\" }]\n",
    );
    let names: Vec<&str> = program.tasks[0].phases.iter().map(|phase| &*phase.name).collect();
    assert_eq!(names, ["take", "0", "1", "done"]);
}

#[test]
fn arrivals_are_rates_distances_bursts_or_times() {
    let arrivals = |text: &str| service(text).sources[0].arrivals.clone();
    assert_eq!(arrivals("{ fixed = \"0.5/ms\" }"), Arrivals::Every(Dist::Constant(ms(2))));
    assert_eq!(arrivals("{ fixed = \"30/m\" }"), Arrivals::Every(Dist::Constant(ms(2000))));
    assert_eq!(arrivals("{ every = \"3ms\" }"), Arrivals::Every(Dist::Constant(ms(3))));
    let bursts = Arrivals::Bursts { size: 5, every: Dist::Constant(ms(10)), apart: Dist::Constant(Duration::ZERO) };
    assert_eq!(arrivals("{ bursts = { size = 5, every = \"10ms\" } }"), bursts);
    assert_eq!(arrivals("{ times = [\"1ms\", \"1ms\"] }"), Arrivals::Times([ms(1), ms(1)].into()));
    assert_eq!(arrivals("{ file = \"times.txt\" }"), Arrivals::Times([ms(0), ms(500), ms(2000)].into()));
    assert!(!service("{ poisson = \"1/s\" }").sources[0].is_finite());
    assert!(service("{ poisson = \"1/s\" }").is_endless());
    assert!(!service("{ file = \"times.txt\" }").is_endless());
}

#[test]
fn threads_follow_the_quota() {
    let workers = |limit: &str, group: &str| {
        let text = format!(
            "[machine]\ncpus = 8\n[group.\"/a\"]\n\"cpu.max\" = \"{limit}\"\n[service.web]\nworkers = \"quota\"\n\
             group = \"{group}\"\narrivals = {{ poisson = \"1/s\" }}\nsteps = [{{ run = \"1ms\" }}]\n\
             [task.pool]\ninstances = \"quota\"\ngroup = \"{group}\"\nsteps = [{{ run = \"1ms\" }}, {{ sleep = \"1ms\" }}]\n"
        );
        let program = good(&text);
        assert_eq!(program.tasks[0].instances, program.tasks[1].instances);
        program.tasks[0].instances
    };
    assert_eq!(workers("250000 100000", "/a"), 3);
    assert_eq!(workers("200000 100000", "/a/b"), 2);
    assert_eq!(workers("20000 100000", "/a"), 1);
    assert_eq!(workers("max", "/a"), 8);
    assert_eq!(workers("1000000 100000", "/a"), 8);
    assert_eq!(workers("100000 100000", "/ab"), 8);
}

#[test]
fn what_is_wrong_is_said_where_it_stands() {
    for (lines, says) in [
        ("arrivals = { poisson = \"1/s\" }", "service `web` without `workers`"),
        ("workers = 1", "service `web` without `arrivals`"),
        ("workers = 0\narrivals = { poisson = \"1/s\" }", "no request would ever be handled"),
        ("workers = \"many\"\narrivals = { poisson = \"1/s\" }", "write a number, \"cpus\" or \"quota\""),
        ("workers = 1\narrivals = { poisson = 200 }", "`poisson` = 200 has no unit"),
        ("workers = 1\narrivals = { poisson = \"200\" }", "`poisson` = \"200\" is not a rate"),
        ("workers = 1\narrivals = { poisson = \"0/s\" }", "is not a rate"),
        ("workers = 1\narrivals = { poisson = \"1e12/s\" }", "is outside"),
        ("workers = 1\narrivals = { poison = \"1/s\" }", "did you mean `poisson`?"),
        ("workers = 1\narrivals = { fixed = \"1/s\", poisson = \"1/s\" }", "`arrivals` with 2 keys"),
        ("workers = 1\narrivals = { every = \"0s\" }", "all requests would arrive at once"),
        ("workers = 1\narrivals = { bursts = { every = \"1s\" } }", "`bursts` without `size`"),
        ("workers = 1\narrivals = { times = [\"2ms\", \"1ms\"] }", "is before the previous time"),
        ("workers = 1\narrivals = { file = \"none.txt\" }", "cannot read \"dir/none.txt\": no such file"),
        ("workers = 1\narrivals = { file = \"bad.txt\" }", "dir/bad.txt:2: 0.5 is before the previous time"),
        ("workers = 1\nworkrs = 2\narrivals = { poisson = \"1/s\" }", "did you mean `workers`?"),
        ("workers = 1\ninstances = 2\narrivals = { poisson = \"1/s\" }", "unknown key `instances` in a service"),
        ("workers = 1\nuntil = \"1s\"\ndelay = \"1s\"\narrivals = { poisson = \"1/s\" }", "no request ever arrives"),
        ("workers = 2000000\narrivals = { poisson = \"1/s\" }", "at most 1000000 are simulated"),
        ("workers = 1\narrivals = { poisson = \"1/s\" }\n[task.web]\nsteps = [\"yield\"]", "is a task and a service"),
    ] {
        let said = refused(lines);
        assert!(said.contains(says), "{lines}\n{said}");
    }
}

#[test]
fn services_call_each_other() {
    let text = "[service.web]\narrivals = { fixed = \"9/s\" }\nworkers = 2\nsteps = [{ call = \"db\" }, { send = \"log\" }]\n\
                [service.db]\nworkers = 1\nqueue = 3\nsteps = [{ run = \"1ms\" }]\n\
                [service.log]\nworkers = 1\nsteps = [{ run = \"1ms\" }]\n";
    let load =
        |text: &str| load("f.toml", text.as_bytes(), &LoadOptions::default()).map_err(|errors| errors.to_string());
    let program = load(text).expect("a scenario").program;
    let called = program.queues_called(0);
    assert_eq!(called.len(), 2);
    let db = &program.resources[called[0].index()];
    assert_eq!(
        (&*db.name, db.kind.clone()),
        ("db", ResourceKind::Queue { capacity: Some(3) }),
        "named before it is read"
    );
    assert_eq!(program.sources.len(), 1);
    assert!(program.is_endless());
    for (from, to, says) in [
        ("call = \"db\"", "call = \"dbs\"", "there is no service `dbs`"),
        ("{ call = \"db\" }, ", "", "service `db` without `arrivals`, and no task calls it"),
        ("{ call = \"db\" }", "{ syscall = [{ call = \"db\" }] }", "`call` is not a step of a system call"),
    ] {
        let said = load(&text.replace(from, to)).expect_err(to);
        assert!(said.contains(says), "{said}");
    }
}

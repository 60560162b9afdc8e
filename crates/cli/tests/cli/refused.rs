//! Runs that go on although something is not as it was asked for: goals that are missed, and calls
//! that the kernel refuses.

use super::zerolag_with;

#[test]
fn a_missed_goal_is_code_99() {
    let workload = "goals = [\"a.wait.max <= 1ms\", \"a.share >= 40%\", \"b.timers.missed <= 0\", \
                    \"b.end <= 1s\"]\nduration = \"1s\"\n\
                    [machine]\ncpus = 1\n[task.a]\nsteps = [{ run = \"1s\" }]\n[task.b]\nsteps = [{ run = \"1s\" }]\n";
    let ended = zerolag_with(&["run", "-"], workload.as_bytes());
    assert_eq!(ended.code, Some(99), "{}", ended.stderr);
    for said in [
        "goal missed (one seed)  a.wait.max <= 1ms: it is ",
        " (a-0)",
        "goal met (one seed)     a.share >= 40%: it is ",
        "nothing to measure",
        "goal missed (one seed)  b.end <= 1s: it did not end",
    ] {
        assert!(ended.stderr.contains(said), "{said}: {}", ended.stderr);
    }
}

/// A script that does not end at an error: the task keeps its policy, the result names what was
/// refused.
#[test]
fn what_the_kernel_refuses_can_be_gone_on_from() {
    let workload = "kernel = \"6.12\"\nduration = \"100ms\"\n[settings]\nrt_group_sched = \"on\"\n[machine]\ncpus = 1\n[group.\"/g\"]\n\
                    [task.a]\ngroup = \"/g\"\nsteps = [{ run = \"1s\" }]\n\
                    [[change]]\nat = \"10ms\"\ntask = \"a\"\npolicy = \"fifo\"\npriority = 10\n\
                    [[change]]\nat = \"20ms\"\ntask = \"a\"\nnice = 5\n";
    let refused = "asks for a real-time policy in group `/g`, which has no real-time runtime (EPERM): give it and the \
                   groups above it";
    let ended = zerolag_with(&["run", "-"], workload.as_bytes());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains(refused), "{}", ended.stderr);
    let goes_on = format!("on_refused = \"continue\"\n{workload}");
    let ended = zerolag_with(&["run", "-"], goes_on.as_bytes());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let all = ended.stdout + &ended.stderr;
    assert!(all.contains("refused at 0.010000000: <stdin>:9: task `a-0` asks") && all.contains(refused), "{all}");
    assert!(all.contains("ended at 0.100000000: the duration was over"), "{all}");
    let json = zerolag_with(&["run", "-", "--json"], goes_on.as_bytes()).stdout;
    assert!(json.contains("\"refused\": 1") && json.contains("\"at_ns\": 10000000"), "{json}");
    let wrong = zerolag_with(&["run", "-"], format!("on_refused = \"go on\"\n{workload}").as_bytes());
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("write stop or continue"), "{}", wrong.stderr);
}

/// A program that ignores the error of `sched_setscheduler` when it starts, and a script that
/// ignores that of a write: a task goes on with the policy of its shell, a group without its
/// limit. Each refusal names its table, the line of it, and the group above.
#[test]
fn what_is_refused_at_the_start_can_be_gone_on_from() {
    let workload = "kernel = \"7.1\"\nduration = \"100ms\"\n[settings]\nrt_group_sched = \"hcbs\"\n[machine]\ncpus = 1\n\
                    [group.\"/g\"]\n\"cpu.rt.max\" = \"30ms 100ms\"\n[group.\"/g/h\"]\n\"cpu.rt.max\" = \"40ms 100ms\"\n\
                    [task.d]\npolicy = \"deadline\"\nruntime = \"99ms\"\nperiod = \"100ms\"\nsteps = [{ run = \"1s\" }]\n";
    let ended = zerolag_with(&["run", "-"], workload.as_bytes());
    let group = "<stdin>:9: group `/g/h`: asks for 0.400 of each CPU; the nearest group above with a budget, `/g`, has \
                 0.300 of each CPU, of which 0.000 are reserved and 0.300 free (EINVAL): lower `cpu.rt.max`";
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains(group), "{}", ended.stderr);
    let ended = zerolag_with(&["run", "-"], format!("{workload}on_refused = \"continue\"").as_bytes());
    assert_eq!(ended.code, Some(2), "it is a key of a task there: {}", ended.stderr);
    let goes_on = workload.replace("kernel", "on_refused = \"continue\"\nkernel");
    let ended = zerolag_with(&["run", "-"], goes_on.as_bytes());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let task = "refused at 0.000000000: <stdin>:12: task `d-0` asks for 0.990 CPUs; its root domain has 0.950, of which \
                0.400 are reserved and 0.550 free (EBUSY): lower its runtime";
    for said in [&group.replace(":9:", ":10:"), task, "d-0   OTHER 0"] {
        assert!(ended.stdout.contains(said), "{said}: {}", ended.stdout);
    }
}

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
    let refused =
        "a real-time policy in a group that has no real-time runtime (EPERM): give it and the groups above it";
    let ended = zerolag_with(&["run", "-"], workload.as_bytes());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains(refused), "{}", ended.stderr);
    let goes_on = format!("on_refused = \"continue\"\n{workload}");
    let ended = zerolag_with(&["run", "-"], goes_on.as_bytes());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let all = ended.stdout + &ended.stderr;
    assert!(all.contains("refused at 0.010000000: task `a-0`: ") && all.contains(refused), "{all}");
    assert!(all.contains("ended at 0.100000000: the duration was over"), "{all}");
    let json = zerolag_with(&["run", "-", "--json"], goes_on.as_bytes()).stdout;
    assert!(json.contains("\"refused\": 1") && json.contains("\"at_ns\": 10000000"), "{json}");
    let wrong = zerolag_with(&["run", "-"], format!("on_refused = \"go on\"\n{workload}").as_bytes());
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("write stop or continue"), "{}", wrong.stderr);
}

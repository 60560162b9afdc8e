//! The published experiments keep their shape: the order of the methods, the factors between them,
//! and the error bands.

use std::ops::ControlFlow;
use zerolag_lab::repro::bandwidth::{self, Bandwidth2010, Method, Workload};
use zerolag_lab::repro::rt_balance::{Findings, Mode, RtBalance2007};
use zerolag_lab::repro::rt_ipi::{Results, RtIpi2017, Scene, Variant};

fn run(mode: Mode, threads: usize) -> Findings {
    let experiment = RtBalance2007 { tests: 40, threads, ..RtBalance2007::default() };
    let found = experiment.run(mode, |_| ControlFlow::Continue(()));
    assert_eq!((found.tests, found.iterations, found.broken), (40, 40 * 50, 0), "{found:?}");
    found
}

/// 2007: "a 20ms latency for the higher priority task".
#[test]
fn passive_lets_a_more_urgent_thread_wait_an_interval() {
    let found = run(Mode::Passive, 2);
    assert!(found.failures > 0 && found.failed_tests >= 4, "{found:?}");
    assert!((18_000..22_000).contains(&found.worst_of_others()), "{found:?}");
}

/// 2007: "it passed over 6500 tests (each doing 50 wakeups each)".
#[test]
fn pull_locked_lets_only_the_least_urgent_thread_wait() {
    let found = run(Mode::PullLocked, 2);
    assert_eq!(found.failures, 0, "{found:?}");
    assert!((20_000..20_200).contains(&found.worst[0]) && found.worst_of_others() < 1_000, "{found:?}");
}

#[test]
fn ipi_root_domain_lets_only_the_least_urgent_thread_wait() {
    let found = run(Mode::IpiRootDomain, 2);
    assert_eq!(found.failures, 0, "{found:?}");
    assert!((20_000..20_200).contains(&found.worst[0]) && found.worst_of_others() < 1_000, "{found:?}");
}

/// 2007, second listing: the least urgent thread is first and is preempted after 28 loops,
/// "actually fine".
#[test]
fn the_least_urgent_thread_may_sneak_in_first() {
    let experiment = RtBalance2007 { tests: 150, threads: 2, ..RtBalance2007::default() };
    let found = experiment.run(Mode::PullLocked, |_| ControlFlow::Continue(()));
    let sneaked = found.sneaked.expect("it happens once in some thousand wakeups");
    let lowest = sneaked.row.0[0];
    assert!(lowest.loops < 1_000 && (20_000..21_000).contains(&lowest.len), "{lowest:?}");
    assert!(sneaked.row.0[1..].iter().all(|cell| cell.start < 1_000 && cell.loops > 160_000), "{sneaked:?}");
}

#[test]
fn results_do_not_depend_on_the_number_of_host_threads() {
    assert_eq!(run(Mode::IpiRootDomain, 1), run(Mode::IpiRootDomain, 3));
}

fn rt_ipi(threads: usize) -> Results {
    let (cpus, sensitivity) = (vec![16, 80, 120], vec![80, 120]);
    let experiment = RtIpi2017 { cpus, sensitivity, factors: vec![1, 4], waves: 2, threads, ..RtIpi2017::default() };
    experiment.run_all(|_| ControlFlow::Continue(()))
}

/// 2017: "over 200us of processing IPIs" on 80 CPUs, "spent minutes" on 120, and neither with one
/// IPI. All three are reproduced if an IPI costs four times as much as in profile `default`.
#[test]
fn the_three_observations_of_2017_come_out_together() {
    let results = rt_ipi(2);
    assert_eq!(results.observed(4), [Some(true); 3], "{results}");
    let stuck = |variant, cpus| results.of(Scene::Stress, variant, cpus, 4).expect("a run").locked_up;
    assert_eq!(stuck(Variant::IpiPerCpu, 80), None, "{results}");
}

/// 2017: "the original pull logic suffered from large lock contention on a single CPU run queue".
#[test]
fn waits_for_locks_grow_with_the_cpus_and_ipis_cut_them() {
    let results = rt_ipi(2);
    let wait = |variant, cpus| results.of(Scene::Wave, variant, cpus, 1).expect("a run").lock_wait[0];
    let [at_16, at_120] = [16, 120].map(|cpus| wait(Variant::PullLocked, cpus));
    assert!(at_120 > at_16 * 5, "{at_16} and {at_120}");
    assert!(wait(Variant::IpiPerCpu, 120) * 10 < at_120 && wait(Variant::IpiRootDomain, 120) * 2 < at_120, "{results}");
}

/// The variant of ours: no CPU is kept from its timers for longer than with the others, and hardly
/// a request is sent. Other figures can be worse (docs/explanation/rt-ipi.md).
#[test]
fn a_claimed_pull_keeps_no_cpu_longer_and_asks_less() {
    let results = rt_ipi(2);
    for cpus in [16, 80, 120] {
        for scene in [Scene::Wave, Scene::Stress] {
            let of = |variant| results.of(scene, variant, cpus, 1).expect("a run");
            let ours = of(Variant::PullClaimed);
            for other in [Variant::PullLocked, Variant::IpiPerCpu, Variant::IpiRootDomain].map(of) {
                assert!(ours.stretch <= other.stretch, "{scene:?}, {cpus}: {ours:?}\n{other:?}");
                assert!(ours.locked_up.is_none());
            }
            assert!(ours.requests * 10 < of(Variant::IpiRootDomain).requests, "{scene:?}, {cpus}: {ours:?}");
        }
    }
}

#[test]
fn rt_ipi_does_not_depend_on_the_number_of_host_threads() {
    let [one, three] = [1, 3].map(rt_ipi);
    assert_eq!(one.findings, three.findings);
}

fn limits(workloads: &[Workload], cpus: &[u32], periods: &[u64], threads: usize) -> bandwidth::Results {
    let (workloads, cpus, periods) = (workloads.to_vec(), cpus.to_vec(), periods.to_vec());
    Bandwidth2010 { cpus, periods, workloads, threads, ..Bandwidth2010::default() }
        .run_all(|_| ControlFlow::Continue(()))
}

/// 2010: with periods of 500 ms all three methods agree with the text, except hard limits above 12
/// CPUs.
#[test]
fn long_periods_agree_with_the_text_of_2010() {
    let results = limits(&[Workload::Loops], &[2, 7, 11], &[500], 2);
    assert_eq!(results.values.len(), 9);
    for (cell, value) in &results.values {
        let error = results.error(*cell).expect("a published cell");
        assert!(error.abs() < 2.0, "{cell:?}: {value} is off by {error} %");
    }
}

/// Affinity is the ideal: the computation takes as long as in the text, on as many CPUs.
#[test]
fn the_computation_of_2010_takes_as_long() {
    let results = limits(&[Workload::Primes], &[16], &[100], 2);
    for method in [Method::Affinity, Method::Pool] {
        let errors = results.errors(method, None, None).expect("a cell");
        assert!(errors.worst.abs() < method.band().max && errors.mean < 2.0, "{errors:?}");
    }
}

/// No mechanism exceeds a limit in the long run.
#[test]
fn no_method_of_2010_gives_more_than_the_limit() {
    let results = limits(&[Workload::Loops], &[1, 9], &[100], 3);
    assert_eq!(results, limits(&[Workload::Loops], &[1, 9], &[100], 1), "host threads do not matter");
    for (cell, value) in results.values {
        let limit = f64::from(cell.cpus) / f64::from(bandwidth::CPUS) * 100.0;
        assert!(value > limit * 0.98 && value < limit * 1.02, "{cell:?}: {value} of {limit}");
    }
}

//! The published experiments keep their shape: the order of the methods, the factors between them,
//! and the error bands.

use std::ops::ControlFlow;
use zerolag_lab::repro::bandwidth::{self, Bandwidth2010, Keeper, Method, Scale, Why, Workload};
use zerolag_lab::repro::inversion::{Case, Placements};
use zerolag_lab::repro::rt_balance::{Findings, Mode, RtBalance2007};
use zerolag_lab::repro::rt_ipi::{Build, Results, RtIpi2017, Scene, Variant};
use zerolag_model::settings::{Borrowing, Preempt, Throttle};
use zerolag_sim::Costs;

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

/// The same out of a profile whose numbers are all published, and not without the measured time of
/// a contended search: transfers of lines alone are too cheap.
#[test]
fn the_observations_of_2017_follow_from_published_costs() {
    let of = |costs| {
        let (cpus, variants) = (vec![80, 120], vec![Variant::IpiPerCpu, Variant::IpiRootDomain]);
        let build = Build::EightSockets;
        let experiment = RtIpi2017 {
            cpus: cpus.clone(),
            sensitivity: cpus,
            factors: vec![1],
            variants,
            waves: 2,
            costs,
            build,
            ..RtIpi2017::default()
        };
        RtIpi2017 { threads: 2, ..experiment }.run_all(|_| ControlFlow::Continue(()))
    };
    let contended = of(Costs::xeon_e7_8s_contended());
    assert_eq!(contended.observed(1), [Some(true); 3], "{contended}");
    let stuck = |scene| contended.of(scene, Variant::IpiPerCpu, 80, 1).expect("a run").locked_up;
    assert_eq!([Scene::Wave, Scene::Stress].map(stuck), [None; 2], "{contended}");
    let alone = of(Costs::xeon_e7_8s());
    assert_eq!(alone.observed(1), [Some(false), Some(false), Some(true)], "{alone}");
}

/// 2010: hard limits "did not scale well with increasing number-of-cores"; the pool does.
#[test]
fn hard_limits_cost_more_the_more_cpus_there_are() {
    let keepers = vec![Keeper::Pool(5), Keeper::HardLimits(Borrowing::Always)];
    let scaled = Scale { cpus: vec![16, 256], keepers, threads: 2 }.run(|_| ControlFlow::Continue(()));
    let added = |cpus, keeper| scaled.added_percent(cpus, keeper).expect("a run");
    let [pool, hard] = [Keeper::Pool(5), Keeper::HardLimits(Borrowing::Always)];
    assert!(added(256, hard) > added(16, hard) * 30.0 && added(256, hard) > 5.0, "{scaled}");
    assert!(added(256, pool) < 0.5 && added(256, hard) > added(256, pool) * 30.0, "{scaled}");
}

/// 2010: none of the suspected mechanisms loses quota by itself; CPUs without a thread do, if
/// nothing is borrowed.
#[test]
fn only_empty_cpus_without_borrowing_lose_quota() {
    let cells = Bandwidth2010 {
        cpus: vec![8],
        periods: vec![100],
        workloads: vec![Workload::Loops],
        threads: 2,
        ..Bandwidth2010::default()
    };
    let reasons = Why { cells, ..Why::default() }.run(|_| ControlFlow::Continue(()));
    for (name, busy) in reasons.busy(100, 8) {
        let expected = match name {
            "(d) three, no borrowing" => 50.0 * 13.0 / 16.0,
            "(d) six, no borrowing" => 50.0 * 10.0 / 16.0,
            _ => 50.0,
        };
        assert!((busy - expected).abs() < 0.6, "{name}: {busy} %, expected {expected}\n{reasons}");
    }
}

/// 2012: on which CPU the disk's interrupt arrives matters where CPUs leave deep states.
#[test]
fn the_place_of_the_interrupt_decides_how_long_a_read_takes() {
    let idle = vec![Some(("idle_states", "sandy_bridge"))];
    let irqs = vec![("CPU 2", "irq_cpus = \"2\"\n"), ("CPU 4", "irq_cpus = \"4\"\n")];
    let placed = Placements { seeds: 1, threads: 2, idle, irqs }.run(|_| ControlFlow::Continue(())).expect("all runs");
    let [near, far] = [0, 1].map(|row| placed.seconds(row)[0].expect("a mean"));
    assert!((12.0..18.0).contains(&near) && (60.0..80.0).contains(&far), "{placed}");
}

/// 2012: "it does not solve the problem for fully preemptable kernels, although I guess the patch
/// can be extended".
#[test]
fn a_task_preempted_with_a_lock_needs_more_than_a_boost_on_wakeup() {
    let seconds = |preempt, throttle| {
        let times = Case { throttle, preempt, change: Some(("calls", "preempted")) }.run(0);
        times.free.expect("it ends").as_nanos() as f64 / 1e9
    };
    let voluntary = [Throttle::BoostOnWakeup, Throttle::BoostInKernel].map(|way| seconds(Preempt::Voluntary, way));
    let full = [Throttle::BoostOnWakeup, Throttle::BoostInKernel].map(|way| seconds(Preempt::Full, way));
    assert!((voluntary[0] / voluntary[1] - 1.0).abs() < 0.01, "{voluntary:?}");
    assert!((full[1] / voluntary[1] - 1.0).abs() < 0.01 && full[0] > full[1] * 1.1, "{full:?}");
    assert!(seconds(Preempt::Voluntary, Throttle::Immediate) > voluntary[0] * 1.1);
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

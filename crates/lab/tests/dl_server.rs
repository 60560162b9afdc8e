//! The experiment of 2023 keeps its shape: lost samples, latencies, and the share of a FIFO task.

use std::ops::ControlFlow;
use zerolag::model::Duration;
use zerolag::model::settings::TimerGrain;
use zerolag_lab::repro::dl_server::{DlServer2023, Setup};

#[test]
fn immediate_servers_hurt_and_deferred_ones_do_not() {
    let experiment = DlServer2023 { duration: Duration::from_secs(30), seed: 0, threads: 2 };
    let results = experiment.run(|_| ControlFlow::Continue(())).expect("it is not interrupted");
    let worst = |setup: usize, cpu: usize| results.timerlat[setup].rows[cpu].latencies[1].1;
    for (index, setup) in Setup::ALL.into_iter().enumerate() {
        for cpu in 0..8 {
            let (lost, worst) = (results.lost(index, cpu).0, worst(index, cpu));
            let is_hurt = match setup {
                Setup::RtThrottling => false,
                Setup::Immediate | Setup::Immediate950 => true,
                Setup::Mixed => cpu > 4,
            };
            if is_hurt {
                assert!(lost > 2_000 && worst > 8_000, "{setup:?}, CPU {cpu}: {lost}, {worst} us");
            } else {
                assert!(lost < 20 && worst < 200, "{setup:?}, CPU {cpu}: {lost}, {worst} us");
            }
            assert!(setup == Setup::Immediate950 || worst < 56_000, "{setup:?}, CPU {cpu}: {worst} us");
        }
    }
    for (index, hurt) in [(1, 0..8), (2, 5..8)] {
        let lost = hurt.map(|cpu| results.lost(index, cpu).0);
        let (least, most) = (lost.clone().min(), lost.max());
        let is_alike = least.zip(most).is_some_and(|(least, most)| most - least < 1_000);
        assert!(is_alike, "the build is everywhere, so the CPUs lose alike: from {least:?} to {most:?}");
    }
    for (grain, collector) in &results.osnoise {
        let busy = &collector.rows()[1];
        let available = (busy.runtime - busy.noise.total) * 1_000 / busy.runtime;
        assert!((943..=952).contains(&available), "{grain}: {available} in 1000");
        let expected = match grain {
            TimerGrain::Tick | TimerGrain::Hrtick => 50_000..54_300,
            TimerGrain::Exact => 50_000..50_300,
        };
        assert!(expected.contains(&busy.noise.max_single), "{grain}: {} us", busy.noise.max_single);
        let alone = &collector.rows()[0];
        assert_eq!(
            (alone.noise.thread, alone.noise.irq, alone.noise.total, alone.periods >= 29),
            (0, 0, 0, true),
            "no other task runs on the isolated CPU, and it does not tick"
        );
    }
}

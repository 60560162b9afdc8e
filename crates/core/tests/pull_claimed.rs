//! What a CPU that is asked to pull does where nothing may come to it (`pull_claimed`).

use crate::machine::{Machine, fifo, only};
use zerolag_core::{Leave, Work};
use zerolag_model::settings::RtBalance;
use zerolag_model::{CpuId, KernelVersion, Settings, TaskId};

/// CPU 0 runs task 0 at 50, which is bound to it. Task 1 at 40 waits there, and so does task 3 at
/// 60, which CPU 0 is about to switch to. CPU 1 idles, and both that wait may use it.
fn about_to_switch() -> Machine {
    let settings = Settings { rt_balance: RtBalance::PullClaimed, ..KernelVersion::V6_12.settings() };
    let mut machine = Machine::new(2, 4, settings);
    machine.spawn(3, fifo(60), None, 0);
    machine.schedule(0, Leave::Block);
    machine.spawn(0, fifo(50), only(&[0]), 0);
    machine.spawn(2, fifo(80), only(&[1]), 1);
    machine.spawn(1, fifo(40), None, 0);
    machine.wake_on(3, 0);
    machine.schedule(1, Leave::Block);
    assert_eq!([0, 1].map(|cpu| machine.rqs[cpu].current()), [Some(TaskId(0)), None]);
    machine
}

#[test]
fn a_pull_in_vain_asks_no_cpu_again_while_the_other_is_about_to_switch() {
    let mut machine = about_to_switch();
    machine.ask(1, Work::RtPullFrom(CpuId(0)));
    // It once asked itself, and answered itself, until CPU 0 had switched: without end where one
    // thread executes both, and as an interrupt after the other elsewhere.
    assert_eq!(machine.ipis(), 0, "CPU 1 cannot take task 3, which is about to run on CPU 0");
    machine.settle();
    assert_eq!([0, 1].map(|cpu| machine.rqs[cpu].current()), [Some(TaskId(3)), Some(TaskId(1))]);
}

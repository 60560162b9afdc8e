//! Profiles of policies of `sched_ext`: what their calls cost.

use super::Costs;
use zerolag_model::Duration;

impl Costs {
    /// Returns `default` with a policy that is a BPF program.
    ///
    /// `policy_call` is an assumption, not a measurement: a call through a trampoline, some lookups
    /// in maps and a helper or two, 300 instructions.
    #[must_use]
    pub fn bpf() -> Self {
        Self { name: "bpf".to_owned(), policy_call: Duration::from_nanos(100), ..Self::server() }
    }

    /// Returns `default` with a policy whose decisions are taken in user space, as `zerolag-scx
    /// run` takes them on the CPU of the tasks.
    ///
    /// `policy_call` follows from a measurement in a virtual machine (Linux 7.3, one CPU,
    /// `docs/lab/virtual-machines.md`): a switch that the policy decides takes 130 us more than the
    /// 33 us of EEVDF. At that ratio it takes 5.3 us more than the 1.34 us of `default`, and a
    /// simulated switch of two tasks with a pipe makes 8 calls. The delay is spent by the CPU that
    /// calls, as with one CPU; a thread that decides on another CPU delays the task, and leaves its
    /// CPU to others meanwhile.
    #[must_use]
    pub fn user() -> Self {
        Self { name: "user".to_owned(), policy_call: Duration::from_nanos(660), ..Self::server() }
    }
}

//! Which of the kernel's own fair threads run on this host, how often and for how long: from the
//! kernel's `sched_switch` of some seconds.

use crate::calibrate::events::time_at_end;
use std::collections::BTreeMap;
use zerolag_model::{CpuMask, Duration};

/// The runs of the threads of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kind {
    /// The name without the number of a CPU: `kworker/` of `kworker/0:1`.
    pub name: String,
    /// Whether each CPU has threads of this kind.
    pub per_cpu: bool,
    /// How long each run took, in nanoseconds, sorted. A run ends when the thread blocks.
    pub runs: Vec<u64>,
}

/// Returns the kinds of threads that ran, by name. `is_kernels` tells whether a thread with this ID
/// is one of the kernel; a `kworker` always is, which can have ended.
pub(super) fn kinds_in(trace: &str, is_kernels: impl Fn(i32) -> bool) -> Vec<Kind> {
    let mut since: BTreeMap<&str, (i32, u64)> = BTreeMap::new();
    let mut ran: BTreeMap<i32, u64> = BTreeMap::new();
    let mut kinds: Vec<Kind> = Vec::new();
    for (at, cpu, line) in trace.lines().filter_map(switch) {
        let field = |key: &str| line.split_once(key).and_then(|(_, rest)| rest.split_once(' ').map(|(value, _)| value));
        if let Some((tid, begin)) = since.remove(cpu) {
            *ran.entry(tid).or_default() += at.saturating_sub(begin);
            let blocks = field("prev_state=").is_some_and(|state| !state.starts_with('R'));
            let run = if blocks { ran.remove(&tid) } else { None };
            // The name may contain blanks.
            let name = line.split_once("prev_comm=").and_then(|(_, rest)| rest.split_once(" prev_pid="));
            if let (Some(run), Some((name, _))) = (run, name) {
                let (name, per_cpu) = kind_of(name);
                match kinds.iter_mut().find(|kind| kind.name == name) {
                    Some(kind) => kind.runs.push(run),
                    None => kinds.push(Kind { name, per_cpu, runs: vec![run] }),
                }
            }
        }
        let next = line.split_once("next_pid=").map_or("", |(_, rest)| rest);
        let tid = next.split_once(' ').and_then(|(tid, _)| tid.parse::<i32>().ok()).unwrap_or_default();
        let prio = next.rsplit_once('=').and_then(|(_, prio)| prio.trim().parse::<i32>().ok());
        let is_fair = prio.is_some_and(|prio| (100..140).contains(&prio));
        if tid != 0 && is_fair && (line.contains("next_comm=kworker/") || is_kernels(tid)) {
            since.insert(cpu, (tid, at));
        }
    }
    kinds.iter_mut().for_each(|kind| kind.runs.sort_unstable());
    kinds.sort_by(|a, b| a.name.cmp(&b.name));
    kinds
}

/// Returns the kind of a thread, and whether each CPU has one: `kworker/1:2` serves CPU 1,
/// `kworker/u8:0` any CPU.
fn kind_of(name: &str) -> (String, bool) {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match name.split_once('/') {
        Some(("kworker", rest)) if rest.starts_with('u') => ("kworker/u".to_owned(), true),
        Some(("kworker", rest)) if rest.starts_with(|first: char| first.is_ascii_digit()) => {
            ("kworker/".to_owned(), true)
        }
        Some((kind, rest)) if digits(rest) => (format!("{kind}/"), true),
        _ => (name.to_owned(), false),
    }
}

/// Returns the time, the CPU and the text of a line with a switch.
fn switch(line: &str) -> Option<(u64, &str, &str)> {
    let (head, text) = line.split_once(": sched_switch: ")?;
    let cpu = head.rsplit_once('[')?.1.split_once(']')?.0;
    Some((time_at_end(head)?, cpu, text))
}

/// Returns whether a thread is one of the kernel's: `PF_KTHREAD` among its flags.
pub(super) fn is_kernels(tid: i32) -> bool {
    const KTHREAD: u64 = 0x0020_0000;
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{tid}/stat")) else { return false };
    // The name, in brackets, may contain both; the flags are the seventh field behind it.
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & KTHREAD != 0)
}

/// Returns how many CPUs are online: those whose switches a trace has.
#[must_use]
pub fn online_cpus() -> usize {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    online.trim().parse::<CpuMask>().map_or(1, |cpus| cpus.count().max(1))
}

impl Kind {
    /// Returns the time that some of its runs, in thousandths of them, take at most.
    #[must_use]
    pub fn quantile(&self, permille: usize) -> Duration {
        let last = self.runs.len().saturating_sub(1);
        let at = (self.runs.len() * permille / 1_000).min(last);
        Duration::from_nanos(self.runs.get(at).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
# tracer: nop
          <idle>-0     [000] d..2.   10.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=kworker/0:1 next_pid=20 next_prio=120
     kworker/0:1-20    [000] d..2.   10.000010: sched_switch: prev_comm=kworker/0:1 prev_pid=20 prev_prio=120 prev_state=R+ ==> next_comm=cat next_pid=90 next_prio=120
             cat-90    [000] d..2.   10.000400: sched_switch: prev_comm=cat prev_pid=90 prev_prio=120 prev_state=S ==> next_comm=kworker/0:1 next_pid=20 next_prio=120
     kworker/0:1-20    [000] d..2.   10.000420: sched_switch: prev_comm=kworker/0:1 prev_pid=20 prev_prio=120 prev_state=I ==> next_comm=swapper/0 next_pid=0 next_prio=120
          <idle>-0     [001] d..2.   10.001000: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=rcu preempt next_pid=15 next_prio=120
     rcu preempt-15    [001] d..2.   10.001007: sched_switch: prev_comm=rcu preempt prev_pid=15 prev_prio=120 prev_state=I ==> next_comm=migration/1 next_pid=16 next_prio=0
     migration/1-16    [001] d..2.   10.001009: sched_switch: prev_comm=migration/1 prev_pid=16 prev_prio=0 prev_state=S ==> next_comm=ksoftirqd/1 next_pid=17 next_prio=120
     ksoftirqd/1-17    [001] d..2.   10.001012: sched_switch: prev_comm=ksoftirqd/1 prev_pid=17 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
";

    #[test]
    fn a_run_goes_on_over_preemptions_and_only_fair_threads_count() {
        let kinds = kinds_in(TRACE, |tid| (15..=20).contains(&tid));
        let kind = |name: &str, per_cpu, runs: &[u64]| Kind { name: name.to_owned(), per_cpu, runs: runs.to_vec() };
        assert_eq!(
            kinds,
            [
                kind("ksoftirqd/", true, &[3_000]),
                kind("kworker/", true, &[30_000]),
                kind("rcu preempt", false, &[7_000])
            ]
        );
    }

    #[test]
    fn programs_are_not_the_kernels() {
        assert!(kinds_in(TRACE, |_| false).iter().all(|kind| kind.name == "kworker/"));
        assert!(!is_kernels(rustix::process::getpid().as_raw_nonzero().get()));
    }

    #[test]
    fn names_tell_where_a_thread_runs() {
        let kinds = ["kworker/u8:3", "kworker/3:1H", "kworker/R-mm", "ksoftirqd/11", "kcompactd0", "jbd2/vda1-8"];
        let expected = [("kworker/u", true), ("kworker/", true), ("kworker/R-mm", false), ("ksoftirqd/", true)];
        assert_eq!(
            kinds[..4].iter().map(|name| kind_of(name)).collect::<Vec<_>>(),
            expected.map(|(name, own)| (name.to_owned(), own))
        );
        assert!(kinds[4..].iter().all(|name| kind_of(name) == ((*name).to_owned(), false)));
    }
}

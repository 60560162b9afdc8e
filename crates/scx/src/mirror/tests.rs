//! The mirror beside a kernel of thirty lines: what it decides, and that no order of events breaks
//! it.

use super::*;
use zerolag_policy::policies::{Central, Fifo, Flatcg, Linux, Lottery, Vtime};
use zerolag_policy::{DsqId, Ops, Scx};

const MS: u64 = 1_000_000;
const WAKEUP: u64 = 1;
const LAST: u64 = 1 << 41;
const SLEEP: u64 = 1;
const CHANGE: u64 = 1 << 33;

/// A kernel: the queue, local queues and turns, and the events that the kernel's half sends.
struct Fake {
    mirror: Mirror,
    now: u64,
    /// The task of each CPU, and its local queue: tasks with their slices.
    current: Vec<Option<(u32, u64)>>,
    local: Vec<Vec<(u32, u64)>>,
    wait: Vec<u32>,
    kicks: Vec<Decision>,
}

fn event(at: u64, kind: Kind, pid: u32, cpu: u32, a: u64, b: u64) -> Event {
    Event {
        at,
        a,
        b,
        group: 1,
        mask: [u64::MAX; MASK_WORDS],
        kind,
        pid,
        cpu,
        weight: 100,
        comm: *b"task\0\0\0\0\0\0\0\0\0\0\0\0",
    }
}

impl Fake {
    fn new(policy: impl Policy + 'static, nr_cpus: u32) -> Self {
        let online = CpuMask::first_n(nr_cpus as usize);
        let mirror = Mirror::new(Box::new(policy), &online, Duration::from_millis(20)).expect("a machine");
        let cpus = nr_cpus as usize;
        let (current, local) = (vec![None; cpus], vec![Vec::new(); cpus]);
        Self { mirror, now: 0, current, local, wait: Vec::new(), kicks: Vec::new() }
    }

    fn tell(&mut self, kind: Kind, pid: u32, cpu: u32, a: u64, b: u64) {
        self.mirror.handle(&event(self.now, kind, pid, cpu, a, b));
    }

    fn add(&mut self, pid: u32, weight: u32) {
        self.mirror.handle(&Event { weight, ..event(self.now, Kind::Add, pid, 0, 0, 0) });
    }

    fn wake(&mut self, pid: u32, cpu: u32) {
        self.tell(Kind::Runnable, pid, cpu, WAKEUP, 0);
        self.tell(Kind::Enqueue, pid, cpu, WAKEUP, 0);
        self.wait.push(pid);
        self.decide();
    }

    /// Does the mirror's decisions, and lets idle CPUs pick.
    fn decide(&mut self) {
        let mut decisions = Vec::new();
        self.mirror.settle(&mut decisions);
        for decision in decisions {
            let Decision::Move { pid, cpu, slice, flags } = decision else {
                self.kicks.push(decision);
                continue;
            };
            let at = self.wait.iter().position(|waiting| *waiting == pid);
            if let Some(at) = at {
                self.wait.remove(at);
                let queue = &mut self.local[cpu as usize];
                let place = if flags == EnqFlags::HEAD.0 { 0 } else { queue.len() };
                queue.insert(place, (pid, slice));
            }
            self.mirror.done(decision, if at.is_some() { Outcome::Done } else { Outcome::Absent });
        }
        for cpu in 0..self.current.len() {
            if self.current[cpu].is_none() && !self.local[cpu].is_empty() {
                let (pid, slice) = self.local[cpu].remove(0);
                self.current[cpu] = Some((pid, slice));
                self.tell(Kind::Running, pid, cpu as u32, 0, slice);
            }
        }
    }

    /// Lets 4 ms pass: tasks never sleep.
    fn tick(&mut self) {
        self.now += 4 * MS;
        for cpu in 0..self.current.len() {
            let Some((pid, slice)) = &mut self.current[cpu] else { continue };
            *slice = slice.saturating_sub(4 * MS);
            let (pid, slice) = (*pid, *slice);
            if slice > 0 {
                continue;
            }
            if self.local[cpu].is_empty() {
                self.tell(Kind::Dispatch, pid, cpu as u32, 0, 0);
            }
            self.tell(Kind::Stopping, pid, cpu as u32, 0, 0);
            self.tell(Kind::Enqueue, pid, cpu as u32, LAST, 0);
            self.wait.push(pid);
            self.current[cpu] = None;
            self.decide();
        }
    }

    fn used(&self, pid: u32) -> u64 {
        let all = self.mirror.accounts.at(self.now);
        all.iter().find(|account| account.pid == pid).map_or(0, |account| account.used / MS)
    }

    fn loops(policy: impl Policy + 'static, nr_cpus: u32, weights: &[u32]) -> Self {
        let mut fake = Self::new(policy, nr_cpus);
        for (pid, weight) in (1..).zip(weights) {
            fake.add(pid, *weight);
            fake.wake(pid, 0);
        }
        fake
    }
}

#[test]
fn loops_share_a_cpu_by_weight() {
    let mut fake = Fake::loops(Vtime::default(), 1, &[400, 200, 100]);
    for _ in 0..7_000 {
        fake.tick();
    }
    let used = [1, 2, 3].map(|pid| fake.used(pid));
    assert_eq!(used.iter().sum::<u64>(), 28_000, "the CPU never idles");
    for (used, wanted) in used.iter().zip([16_000, 8_000, 4_000]) {
        assert!(used.abs_diff(wanted) <= 100, "{used} ms of {wanted}");
    }
    assert!(fake.mirror.failure().is_none());
}

#[test]
fn every_policy_keeps_two_cpus_busy() {
    fn busy(policy: impl Policy + 'static) -> [u64; 3] {
        let mut fake = Fake::loops(policy, 2, &[100, 100, 100]);
        for _ in 0..1_000 {
            fake.tick();
        }
        assert!(fake.mirror.failure().is_none(), "{:?}", fake.mirror.failure());
        [1, 2, 3].map(|pid| fake.used(pid))
    }
    for used in
        [busy(Fifo), busy(Vtime::default()), busy(Lottery::new(1)), busy(Flatcg::default()), busy(Linux::default())]
    {
        assert_eq!(used.iter().sum::<u64>(), 8_000, "{used:?}");
        assert!(used.iter().all(|used| *used > 2_000), "{used:?}");
    }
}

/// Group 2 is below 5, which has a third of the weight of 6; both are below the root, 1.
#[test]
fn groups_share_as_the_tree_of_the_kernel_says() {
    fn shared(policy: impl Policy + 'static) {
        let mut fake = Fake::new(policy, 1);
        for (group, parent, weight) in [(1, 0, 100), (5, 1, 100), (2, 5, 400), (6, 1, 300)] {
            fake.mirror.handle(&Event { group, weight, ..event(0, Kind::Group, 0, 0, parent, 0) });
        }
        for (pid, group) in [(1, 2), (2, 2), (3, 6)] {
            fake.mirror.handle(&Event { group, ..event(0, Kind::Add, pid, 0, 0, 0) });
            fake.wake(pid, 0);
        }
        for _ in 0..8_000 {
            fake.tick();
        }
        assert!(fake.mirror.failure().is_none(), "{:?}", fake.mirror.failure());
        for (pid, wanted) in [(1, 4_000), (2, 4_000), (3, 24_000)] {
            assert!(fake.used(pid).abs_diff(wanted) <= 200, "{pid}: {} ms of {wanted}", fake.used(pid));
        }
    }
    shared(Flatcg::default());
    shared(Linux::default());
}

/// On a machine with CPUs 0 and 2.
#[test]
fn an_offline_cpu_gets_nothing() {
    let mut fake = Fake::new(Fifo, 3);
    let mut online = CpuMask::single(CpuId(0));
    online.insert(CpuId(2));
    fake.mirror = Mirror::new(Box::new(Fifo), &online, Duration::from_millis(20)).expect("a machine");
    for pid in 1..=4 {
        fake.add(pid, 100);
        fake.wake(pid, 0);
    }
    for _ in 0..100 {
        fake.tick();
    }
    assert_eq!((1..=4).map(|pid| fake.used(pid)).sum::<u64>(), 800);
    assert!(fake.current[1].is_none() && fake.local[1].is_empty());
}

#[test]
fn a_turn_that_goes_on_is_one_turn_for_the_policy() {
    let mut fake = Fake::loops(Fifo, 1, &[100]);
    for _ in 0..50 {
        fake.tick();
    }
    assert_eq!(fake.used(1), 200);
    let calls = fake.mirror.host.calls();
    for _ in 0..5 {
        fake.tick();
    }
    assert_eq!(fake.mirror.host.calls(), calls + 1, "`dispatch`, and neither `stopping` nor `running`");
}

#[test]
fn a_move_that_comes_too_early_is_made_again() {
    let mut fake = Fake::new(Fifo, 1);
    fake.add(1, 100);
    fake.tell(Kind::Runnable, 1, 0, WAKEUP, 0);
    fake.tell(Kind::Enqueue, 1, 0, WAKEUP, 0);
    let mut decisions = Vec::new();
    for _ in 0..3 {
        fake.mirror.settle(&mut decisions);
        assert_eq!(decisions, [Decision::Move { pid: 1, cpu: 0, slice: 20 * MS, flags: 0 }]);
        assert!(fake.mirror.done(decisions[0], Outcome::Absent));
    }
    assert!(!fake.mirror.done(decisions[0], Outcome::Done));
    fake.mirror.settle(&mut decisions);
    assert_eq!(decisions, []);
}

#[test]
fn what_the_kernel_does_unasked_is_followed() {
    let mut fake = Fake::loops(Vtime::default(), 1, &[100, 100, 100]);
    // User space is late: the kernel gives a turn to the last task, and takes it away again.
    let (pid, _) = fake.current[0].take().expect("one runs");
    let other = *fake.wait.last().expect("two wait");
    fake.now += 20 * MS;
    fake.tell(Kind::Stopping, pid, 0, 0, 0);
    fake.tell(Kind::Enqueue, pid, 0, LAST, 0);
    fake.wait.retain(|waiting| *waiting != other);
    fake.wait.push(pid);
    fake.tell(Kind::Running, other, 0, 0, 20 * MS);
    fake.current[0] = Some((other, 20 * MS));
    fake.decide();
    assert_eq!(fake.mirror.host.scx().cpu_curr(CpuId(0)), Some(TaskId(other)));
    for _ in 0..1_500 {
        fake.tick();
    }
    let used = [1, 2, 3].map(|pid| fake.used(pid));
    assert!(used.iter().all(|used| used.abs_diff(2_006) <= 60), "{used:?}");
}

#[test]
fn a_task_that_loses_its_cpu_to_real_time_keeps_its_turn() {
    let mut fake = Fake::loops(Vtime::default(), 1, &[100, 100]);
    let (pid, _) = fake.current[0].expect("one runs");
    let calls = fake.mirror.host.calls();
    fake.now += 8 * MS;
    fake.tell(Kind::Stopping, pid, 0, 0, 12 * MS);
    fake.decide();
    assert_eq!(fake.mirror.host.scx().cpu_curr(CpuId(0)), Some(TaskId(pid)), "it is current for the policy");
    fake.now += MS;
    fake.tell(Kind::Running, pid, 0, 0, 12 * MS);
    fake.decide();
    assert_eq!(fake.mirror.host.scx().slice(TaskId(pid)), Duration::from_millis(12));
    assert_eq!((fake.used(pid), fake.kicks.len(), fake.mirror.host.calls()), (8, 0, calls));
}

/// A wakeup preempts.
#[derive(Clone)]
struct Eager;

impl Policy for Eager {
    fn ops(&self) -> Ops {
        Ops::named("eager")
    }

    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        let flags = if flags.has(EnqFlags::WAKEUP) { flags | EnqFlags::PREEMPT } else { flags };
        scx.dsq_insert(p, DsqId::LOCAL, scx.slice_dfl(), flags);
    }
}

#[test]
fn a_preemption_is_a_move_and_a_kick() {
    let mut fake = Fake::loops(Eager, 1, &[100]);
    fake.add(2, 100);
    assert_eq!(fake.kicks, []);
    fake.wake(2, 0);
    assert_eq!(fake.local[0], [(2, 20 * MS)]);
    assert_eq!(fake.kicks, [Decision::Kick { cpu: 0, flags: KickFlags::PREEMPT.0 }]);
}

/// The thread that decides has taken the CPU from the task that is to be preempted.
#[test]
fn a_paused_task_is_preempted_by_an_enqueue() {
    let mut fake = Fake::loops(Eager, 1, &[100]);
    fake.add(2, 100);
    fake.tell(Kind::Stopping, 1, 0, 0, 12 * MS);
    fake.current[0] = None;
    fake.wake(2, 0);
    assert_eq!(fake.kicks, [Decision::Requeue { cpu: 0 }]);
    assert_eq!(fake.wait, [2], "its move waits");
    fake.tell(Kind::Enqueue, 1, 0, EnqFlags::REENQ.0, 0);
    fake.wait.push(1);
    fake.decide();
    assert_eq!((fake.current[0], &*fake.local[0]), (Some((2, 20 * MS)), &[(1, 20 * MS)][..]));
}

/// As above, but the pause is told of behind the wakeup that preempts.
#[test]
fn a_preemption_before_a_pause_is_not_lost() {
    let mut fake = Fake::loops(Eager, 1, &[100]);
    fake.add(2, 100);
    fake.tell(Kind::Runnable, 2, 0, WAKEUP, 0);
    fake.tell(Kind::Enqueue, 2, 0, WAKEUP, 0);
    fake.wait.push(2);
    fake.tell(Kind::Stopping, 1, 0, 0, 12 * MS);
    fake.current[0] = None;
    fake.decide();
    assert_eq!(fake.kicks, [Decision::Requeue { cpu: 0 }]);
}

#[test]
fn an_older_kernel_ends_the_turn_of_a_paused_task_by_its_slice() {
    let mut fake = Fake::loops(Eager, 1, &[100]);
    fake.add(2, 100);
    fake.tell(Kind::Stopping, 1, 0, 0, 12 * MS);
    fake.current[0] = None;
    fake.wake(2, 0);
    assert!(fake.mirror.done(fake.kicks[0], Outcome::Absent));
    let mut decisions = Vec::new();
    fake.mirror.settle(&mut decisions);
    assert!(decisions.contains(&Decision::Slice { pid: 1, slice: 1 }), "{decisions:?}");
    assert!(decisions.iter().any(|decision| matches!(decision, Decision::Move { pid: 2, .. })), "{decisions:?}");
}

#[test]
fn sleepers_leave_and_come_back() {
    let mut fake = Fake::loops(Vtime::default(), 1, &[100, 100]);
    let (pid, _) = fake.current[0].take().expect("one runs");
    fake.now += 5 * MS;
    fake.tell(Kind::Quiescent, pid, 0, SLEEP, 15 * MS);
    // A CPU without a task asks.
    fake.tell(Kind::Dispatch, 0, 0, 0, 0);
    fake.decide();
    assert_eq!(fake.current[0].map(|(pid, _)| pid), Some(3 - pid), "the other one runs");
    fake.wake(pid, 0);
    for _ in 0..100 {
        fake.tick();
    }
    assert!(fake.used(1).abs_diff(fake.used(2)) <= 25);
}

/// No order of events, also none that a kernel would send, breaks the mirror: a panic would unload
/// the scheduler of a machine.
#[test]
fn no_order_of_events_breaks_it() {
    fn storm(policy: impl Policy + 'static, seed: u64) {
        let mut fake = Fake::new(policy, 2);
        let mut state = seed;
        let mut draw = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut decisions = Vec::new();
        for at in 0..3_000 {
            let kinds = [
                Kind::Enqueue,
                Kind::Dispatch,
                Kind::Runnable,
                Kind::Running,
                Kind::Stopping,
                Kind::Quiescent,
                Kind::Weight,
                Kind::Cpumask,
                Kind::Add,
                Kind::Remove,
                Kind::Group,
                Kind::GroupLimit,
                Kind::GroupExit,
                Kind::Move,
            ];
            let kind = kinds[draw(kinds.len() as u64) as usize];
            let flags = [0, WAKEUP, CHANGE, LAST][draw(4) as usize];
            let (pid, cpu, slice) = (draw(5) as u32, draw(3) as u32, draw(3) * 5 * MS);
            let mask = [[1, 2, 3][draw(3) as usize], 0, 0, 0];
            let (group, weight) = (draw(4), 1 + draw(300) as u32);
            fake.mirror.handle(&Event { mask, group, weight, ..event(at * MS, kind, pid, cpu, flags, slice) });
            if draw(3) == 0 {
                fake.mirror.settle(&mut decisions);
                for decision in std::mem::take(&mut decisions) {
                    fake.mirror.done(decision, Outcome::of(draw(3) as u32));
                }
            }
        }
    }
    for seed in 1..200 {
        storm(Fifo, seed);
        storm(Vtime::default(), seed);
        storm(Eager, seed);
        storm(Central::default(), seed);
        storm(Lottery::new(seed), seed);
        storm(Flatcg::default(), seed);
        storm(Linux::default(), seed);
    }
}

#[test]
fn threads_that_rules_name_preempt() {
    let mut policy = Linux::default();
    policy.set_text(0, "comm audio fifo 5; cgroup /rt fifo 7").expect("rules");
    let mut fake = Fake::new(Fifo, 1);
    let mirror = Mirror::new(Box::new(policy), &CpuMask::first_n(1), Duration::from_millis(20)).expect("a machine");
    fake.mirror = mirror.with_paths(Box::new(|id| (id == 9).then(|| "/rt".to_owned())));
    fake.add(1, 100);
    fake.wake(1, 0);
    assert_eq!(fake.current[0].map(|(pid, _)| pid), Some(1));
    let preempts = |fake: &mut Fake, pid: u32| {
        fake.kicks.clear();
        fake.wake(pid, 0);
        fake.kicks.contains(&Decision::Kick { cpu: 0, flags: KickFlags::PREEMPT.0 })
    };
    fake.add(2, 100);
    assert!(!preempts(&mut fake, 2), "no rule names it");
    // It has executed a program.
    fake.add(3, 100);
    let comm = *b"audio\0\0\0\0\0\0\0\0\0\0\0";
    fake.mirror.handle(&Event { comm, ..event(fake.now, Kind::Rename, 3, 0, 0, 0) });
    assert!(preempts(&mut fake, 3), "it is of real time");
    assert!(fake.mirror.accounts.at(0).iter().any(|account| account.comm == "audio"), "its name is shown");
    // Its turn ends, and it runs, until it waits.
    fake.tell(Kind::Dispatch, 1, 0, 0, 0);
    fake.tell(Kind::Stopping, 1, 0, 0, 0);
    fake.tell(Kind::Enqueue, 1, 0, LAST, 0);
    fake.wait.push(1);
    fake.current[0] = None;
    fake.decide();
    assert_eq!(fake.current[0], Some((3, u64::MAX)));
    for group in [8, 9] {
        fake.mirror.handle(&Event { group, ..event(fake.now, Kind::Group, 0, 0, 1, 0) });
    }
    fake.mirror.handle(&Event { group: 9, ..event(fake.now, Kind::Add, 4, 0, 0, 0) });
    assert!(preempts(&mut fake, 4), "its group has a higher priority");
    fake.mirror.handle(&Event { group: 8, ..event(fake.now, Kind::Add, 5, 0, 0, 0) });
    assert!(!preempts(&mut fake, 5), "no rule names its group");
}

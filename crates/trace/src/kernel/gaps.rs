//! Lost events: where they are missing, and what later events prove.
//!
//! A recorder whose buffer is full drops events, and that is normal: `perf sched record` loses a
//! quarter of the events of a busy machine with a small buffer. A reader that ignores the holes
//! reports wrong figures silently: a task that left its CPU in a hole seems to keep running, and a
//! task that was switched to in a hole seems to wait for seconds.
//!
//! The key is that every event names the current task of its CPU, and a switch also names the task
//! that it leaves. If that is not the task that the CPU switched to last, events are missing since
//! the CPU's previous event. This also finds holes that the recorder does not report: `perf script`
//! hides its remarks, and perf omits the events of some tasks. The rules:
//!
//! 1. A remark of the recorder opens a [`Gap`] from the CPU's last event to its next one.
//! 2. An event with another current task than the known one opens a gap on its CPU. A switch to a
//!    task that still runs elsewhere opens one on that other CPU. If a task runs although nothing
//!    has woken it since it blocked, a CPU with a gap has woken it, probably the CPU that was
//!    silent for longest: recorders also stop CPU by CPU. The same holds for a migration: a task
//!    that was preempted on one CPU and is moved from, or runs on, another was moved in a gap.
//! 3. The task that ran before the gap leaves its CPU where the gap begins, or where the scheduler
//!    last charged it. Its later events tell whether it slept (it is woken), was preempted (it runs
//!    again), or ended.
//! 4. The task that runs after the gap was switched to within it: not before it last left a CPU or
//!    was woken. If the scheduler charges it without a break until the next switch
//!    (`sched_stat_runtime`), it was switched to where that charge begins.
//! 5. The trace point of a switch stands before the switch itself: the events of the next
//!    microseconds (`tlb_flush`, and `sched_wakeup` of a worker that is woken as it blocks) are
//!    still those of the task that leaves. They prove nothing until the next task has an event.
//!
//! The added switches do not contradict each other. Between the two tasks of a gap the CPU seems
//! idle; reports count that time as unseen.
//!
//! Complexity: O(1) per event.

use super::event::{Event, KernelEvent, TaskRef};
use super::head::reserve;
use super::tids::TidTable;
use crate::error::ReadError;
use crate::meta::Gap;
use zerolag_model::{CpuId, Duration, Instant, Nice, PrevState, Prio};

/// Finds the gaps of events in order of time, and adds the switches that are proven to be missing.
/// Returns the gaps in order of their start.
///
/// # Errors
/// There is too little memory.
pub(super) fn find(events: &mut Vec<Event<'_>>) -> Result<Vec<Gap>, ReadError> {
    let mut finder = Finder::default();
    for event in &*events {
        finder.next(event);
    }
    let (gaps, added) = finder.finish();
    if !added.is_empty() {
        insert(events, added)?;
    }
    Ok(gaps)
}

/// An event that is proven to be missing: it comes before the event of this index among those of
/// the same time.
pub(super) type Added<'a> = (usize, Event<'a>);

/// Adds the intervals of unseen wakings that no other gap explains. Both are in order.
fn add_unexplained(gaps: &mut Vec<Gap>, wakings: Vec<Gap>) {
    // The latest end of the gaps up to each.
    let later = |latest: &mut Instant, gap: &Gap| {
        *latest = (*latest).max(gap.until);
        Some(*latest)
    };
    let ends: Vec<Instant> = gaps.iter().scan(Instant::ZERO, later).collect();
    let is_explained = |waking: &Gap| {
        let before = gaps.partition_point(|gap| gap.from < waking.until);
        before.checked_sub(1).is_some_and(|last| ends[last] > waking.from)
    };
    let unexplained: Vec<Gap> = wakings.into_iter().filter(|waking| !is_explained(waking)).collect();
    gaps.extend(unexplained);
    gaps.sort_by_key(|gap| (gap.from, gap.cpu, gap.until));
}

/// Inserts events, each before the event of its index among those of the same time.
fn insert<'a>(events: &mut Vec<Event<'a>>, added: Vec<Added<'a>>) -> Result<(), ReadError> {
    let mut all = Vec::new();
    reserve(&mut all, events.len() + added.len())?;
    all.extend(events.drain(..).enumerate().map(|(index, event)| (2 * index + 1, event)));
    all.extend(added.into_iter().map(|(index, event)| (2 * index, event)));
    all.sort_by_key(|(order, event)| (event.at, *order));
    reserve(events, all.len())?;
    events.extend(all.into_iter().map(|(_, event)| event));
    Ok(())
}

/// A task that runs, with the priority that it was switched to.
type Running<'a> = (TaskRef<'a>, Prio);

#[derive(Default)]
struct Cpu<'a> {
    /// The task that it runs, if that is known; the inner `None` is the idle task.
    running: Option<Option<Running<'a>>>,
    /// Its last event; the start of the trace before the first.
    last: Instant,
    /// Events that were lost since, if any were; 0 if their number is unknown.
    lost: Option<u64>,
    /// The start of a gap that no switch has followed yet.
    doubt: Option<Instant>,
    /// The task that the last switch left, and when, until the next task has an event.
    leaves: Option<(u32, Instant)>,
}

#[derive(Default)]
struct Thread<'a> {
    on: Option<CpuId>,
    /// It did not run before this time, except where its events say so.
    since: Instant,
    /// It blocked then, and nothing has woken it since.
    blocked: Option<Instant>,
    /// A waking while it runs: it overtakes the switch.
    is_woken_early: bool,
    /// The last stretch that the scheduler charged without a break.
    charged: Option<(Instant, Instant)>,
    /// The run queue on which it waits since it was preempted there.
    queue: Option<CpuId>,
    /// The added switch that it left by, whose reason is a guess.
    guess: Option<usize>,
    /// The added switch that it came by, and when it was seen to run: its next charge tells more.
    came: Option<(usize, Instant)>,
    has_exited: bool,
    /// Its last name and priority.
    seen: Option<(&'a str, Prio)>,
}

#[derive(Default)]
pub(super) struct Finder<'a> {
    /// The time of the first event, and of the last.
    start: Instant,
    end: Instant,
    /// By number; `None` if it has no event.
    cpus: Vec<Option<Cpu<'a>>>,
    threads: TidTable<Thread<'a>>,
    gaps: Vec<Gap>,
    added: Vec<Added<'a>>,
    /// From when a task left its CPU, or the CPU that can have woken or moved it was silent, until
    /// it was seen again.
    unseen: Vec<Gap>,
    /// Whether the recorder writes wakings, and migrations.
    has_wakings: bool,
    has_migrations: bool,
    /// The index of the current event.
    index: usize,
    /// The number of events so far.
    count: usize,
}

impl<'a> Finder<'a> {
    /// Takes the next event in order of time.
    pub(super) fn next(&mut self, event: &Event<'a>) {
        if self.count == 0 {
            self.start = event.at;
        }
        (self.index, self.end) = (self.count, event.at);
        self.count += 1;
        self.take(event);
    }

    /// Returns whether a switch was missing so far.
    pub(super) const fn has_added(&self) -> bool {
        !self.added.is_empty()
    }

    /// Returns the gaps, and the missing switches in the order in which they were found.
    pub(super) fn finish(self) -> (Vec<Gap>, Vec<Added<'a>>) {
        let Self { mut gaps, added, cpus, unseen, end, .. } = self;
        for (cpu, state) in (0..).zip(cpus) {
            if let Some((last, events)) = state.and_then(|state| Some((state.last, state.lost?))) {
                gaps.push(Gap { cpu: CpuId(cpu), from: last, until: end, events });
            }
        }
        gaps.sort_by_key(|gap| (gap.from, gap.cpu, gap.until));
        add_unexplained(&mut gaps, unseen);
        (gaps, added)
    }

    fn cpu(&mut self, cpu: CpuId) -> &mut Cpu<'a> {
        let (index, start) = (cpu.0 as usize, self.start);
        if index >= self.cpus.len() {
            // Readers refuse CPUs from `MAX_CPUS` on.
            self.cpus.resize_with(index + 1, || None);
        }
        self.cpus[index].get_or_insert_with(|| Cpu { last: start, ..Cpu::default() })
    }

    fn thread(&mut self, tid: u32) -> &mut Thread<'a> {
        self.threads.entry(tid)
    }

    fn take(&mut self, event: &Event<'a>) {
        let (at, cpu) = (event.at, event.cpu);
        match event.event {
            KernelEvent::Process { .. } | KernelEvent::Name { .. } => return,
            KernelEvent::Lost { events } => {
                let lost = &mut self.cpu(cpu).lost;
                *lost = Some(lost.unwrap_or(0).saturating_add(events));
                return;
            }
            _ => {}
        }
        let state = self.cpu(cpu);
        if let Some(events) = state.lost.take() {
            let from = state.last;
            state.doubt.get_or_insert(from);
            self.gaps.push(Gap { cpu, from, until: at, events });
        }
        self.note(event);
        match event.event {
            KernelEvent::Switch { prev, prev_prio, next, next_prio, prev_state } => {
                self.confirm(event, (prev, prev_prio));
                self.leave(event, prev.tid, prev_state);
                self.enter(event, (next, next_prio));
                self.cpu(cpu).leaves = Some((prev.tid, at));
            }
            _ => {
                if let Some(tid) = event.current.filter(|tid| !self.still_leaves(*tid, event)) {
                    let (comm, prio) = self.thread(tid).seen.unwrap_or(("<...>", Prio::from_nice(Nice::ZERO)));
                    self.confirm(event, (TaskRef { comm, tid }, prio));
                }
            }
        }
        match event.event {
            KernelEvent::Waking { task, .. }
            | KernelEvent::Wakeup { task, .. }
            | KernelEvent::WakeupNew { task, .. } => {
                self.has_wakings = true;
                let thread = self.thread(task.tid);
                (thread.blocked, thread.queue) = (None, None);
                thread.is_woken_early = thread.on.is_some();
                self.moved(task.tid, at, PrevState::Blocked);
            }
            KernelEvent::Migrate { task, from, to, .. } => {
                self.has_migrations = true;
                self.moved(task.tid, at, PrevState::Runnable);
                self.unseen_move(task.tid, from, event);
                let thread = self.thread(task.tid);
                thread.queue = thread.queue.map(|_| to);
            }
            KernelEvent::Fork { child, .. } => {
                *self.thread(child.tid) = Thread { since: at, ..Thread::default() };
            }
            KernelEvent::Exit { task } => self.thread(task.tid).has_exited = true,
            _ => {}
        }
        self.cpu(cpu).last = at;
    }

    /// Notes what an event tells of threads, also of those that do not run.
    fn note(&mut self, event: &Event<'a>) {
        match event.event {
            KernelEvent::Waking { task, prio, .. }
            | KernelEvent::Wakeup { task, prio, .. }
            | KernelEvent::WakeupNew { task, prio, .. }
            | KernelEvent::Migrate { task, prio, .. } => self.thread(task.tid).seen = Some((task.comm, prio)),
            KernelEvent::Switch { prev, prev_prio, next, next_prio, .. } => {
                self.thread(prev.tid).seen = Some((prev.comm, prev_prio));
                self.thread(next.tid).seen = Some((next.comm, next_prio));
            }
            KernelEvent::Charged { task, ran } => {
                let at = event.at;
                let from = Instant::from_nanos(at.as_nanos().saturating_sub(ran.as_nanos()));
                self.came_at(task.tid, from);
                let charged = &mut self.thread(task.tid).charged;
                let start = charged.filter(|(_, end)| end.saturating_add(CHARGE_SLACK) >= from);
                *charged = Some((start.map_or(from, |(start, _)| start.min(from)), at));
            }
            _ => {}
        }
    }

    /// A task is charged for the time from here on: if it came to its CPU within a gap, and this is
    /// its first charge since, then it came now.
    fn came_at(&mut self, tid: u32, charged_from: Instant) {
        if let Some((added, seen)) = self.thread(tid).came.take()
            && charged_from <= seen
        {
            let at = &mut self.added[added].1.at;
            *at = (*at).max(charged_from);
        }
    }

    /// A task that does not run is woken or moved: it did not run before, and if it has left its
    /// CPU unseen, then in this state.
    fn moved(&mut self, tid: u32, at: Instant, state: PrevState) {
        let thread = self.thread(tid);
        if thread.on.is_none() && thread.queue.is_none() {
            thread.since = thread.since.max(at);
        }
        if let Some(guess) = thread.guess.take() {
            self.settle(guess, state);
        }
    }

    fn settle(&mut self, guess: usize, state: PrevState) {
        if let KernelEvent::Switch { prev_state, .. } = &mut self.added[guess].1.event {
            *prev_state = state;
        }
    }

    /// Returns whether this task has an event while its CPU switches from it to another one.
    fn still_leaves(&mut self, tid: u32, event: &Event<'a>) -> bool {
        let leaves = &mut self.cpu(event.cpu).leaves;
        let is_leaving = leaves.is_some_and(|(left, at)| left == tid && event.at <= at.saturating_add(SWITCH_MAX));
        if !is_leaving {
            *leaves = None;
        }
        is_leaving
    }

    /// The CPU runs this task: it has to be the one that it switched to.
    fn confirm(&mut self, event: &Event<'a>, runs: Running<'a>) {
        let (at, cpu) = (event.at, event.cpu);
        let state = self.cpu(cpu);
        let doubt = state.doubt.take();
        let last = state.last;
        let tid = runs.0.tid;
        let Some(running) = state.running else {
            self.first(event, runs);
            return;
        };
        if running.map_or(0, |(task, _)| task.tid) == tid {
            return;
        }
        let from = doubt.unwrap_or_else(|| {
            self.gaps.push(Gap { cpu, from: last, until: at, events: 0 });
            last
        });
        let begin = if tid == 0 { at } else { self.earliest(tid, from, event) };
        if let Some(was) = running {
            let charged = self.thread(was.0.tid).charged.map_or(from, |(_, end)| end.max(from));
            self.vanish(was, cpu, charged.max(within(from)).min(begin));
        }
        if tid != 0 {
            let added = self.added.len();
            let thread = self.thread(tid);
            let is_charged = thread.charged.is_some_and(|(_, end)| end.saturating_add(CHARGE_SLACK) >= at);
            thread.came = (!is_charged).then_some((added, at));
            self.added.push((self.index, Event::new(begin, cpu, switch_to(runs))));
        }
        self.enter(event, runs);
    }

    /// The first event of a CPU. perf starts CPU by CPU: if the scheduler has charged the task for
    /// a part of the time since the start of the trace only, it runs since then.
    fn first(&mut self, event: &Event<'a>, runs: Running<'a>) {
        let tid = runs.0.tid;
        self.leave_other(tid, event.cpu, event.at);
        let charged = self.thread(tid).charged.filter(|(_, end)| end.saturating_add(CHARGE_SLACK) >= event.at);
        if let Some((since, _)) = charged.filter(|(since, _)| tid != 0 && *since > self.start) {
            let begin = since.max(self.thread(tid).since).min(event.at);
            self.added.push((self.index, Event::new(begin, event.cpu, switch_to(runs))));
        }
        self.enter(event, runs);
    }

    /// A task leaves its CPU.
    fn leave(&mut self, event: &Event<'a>, tid: u32, prev_state: PrevState) {
        let thread = self.thread(tid);
        if prev_state == PrevState::Dead {
            *thread = Thread::default();
            return;
        }
        let is_asleep = prev_state == PrevState::Blocked && !thread.is_woken_early;
        thread.blocked = is_asleep.then_some(event.at);
        thread.queue = (prev_state == PrevState::Runnable).then_some(event.cpu);
        (thread.on, thread.since, thread.came) = (None, event.at, None);
    }

    /// Returns when a task has come to a CPU within a gap, at the earliest; see rule 4. It leaves
    /// the CPU where it seems to run.
    fn earliest(&mut self, tid: u32, from: Instant, event: &Event<'a>) -> Instant {
        self.leave_other(tid, event.cpu, event.at);
        let thread = self.thread(tid);
        let charged = thread.charged.filter(|(_, end)| end.saturating_add(CHARGE_SLACK) >= event.at);
        let begin = charged.map_or(from, |(start, _)| start).max(within(from)).max(thread.since);
        begin.min(event.at)
    }

    /// A task that is seen on one CPU has left the other where it still seems to run.
    fn leave_other(&mut self, tid: u32, here: CpuId, at: Instant) {
        let Some(other) = self.thread(tid).on.filter(|on| *on != here) else { return };
        let state = self.cpu(other);
        let (last, running) = (state.last, state.running);
        state.running = Some(None);
        state.lost.get_or_insert(0);
        if let Some(was) = running.flatten() {
            self.vanish(was, other, within(last).min(at));
        }
    }

    /// A switch enters this task: it has to run nowhere else.
    fn enter(&mut self, event: &Event<'a>, next: Running<'a>) {
        let tid = next.0.tid;
        if tid != 0 {
            self.leave_other(tid, event.cpu, event.at);
            self.appear(tid);
            self.unseen_move(tid, event.cpu, event);
            let thread = self.thread(tid);
            (thread.on, thread.queue) = (Some(event.cpu), None);
            thread.is_woken_early = false;
            if let Some(since) = thread.blocked.take()
                && self.has_wakings
            {
                self.unseen(since, event);
            }
        }
        self.cpu(event.cpu).running = Some((tid != 0).then_some(next));
    }

    /// A task is on this run queue: it waits there, or nothing has moved it there; see rule 2.
    fn unseen_move(&mut self, tid: u32, queue: CpuId, event: &Event<'a>) {
        let thread = self.thread(tid);
        let (before, since) = (thread.queue, thread.since);
        if before.is_some_and(|before| before != queue) && self.has_migrations {
            self.unseen(since, event);
        }
    }

    /// A task was woken or moved at some time since then, and the trace does not show it.
    fn unseen(&mut self, since: Instant, event: &Event<'a>) {
        let seen = (0..).zip(&self.cpus).filter_map(|(cpu, state)| Some((state.as_ref()?.last, CpuId(cpu))));
        let (last, cpu) = seen.min().unwrap_or((since, event.cpu));
        let from = since.max(last).min(event.at);
        self.unseen.push(Gap { cpu, from, until: event.at, events: 0 });
    }

    /// A task is on a CPU again: if it had left unseen and was not woken since, it was preempted.
    fn appear(&mut self, tid: u32) {
        if let Some(guess) = self.thread(tid).guess.take() {
            self.settle(guess, PrevState::Runnable);
        }
    }

    /// Adds the switch by which a task has left its CPU.
    fn vanish(&mut self, (task, prio): Running<'a>, cpu: CpuId, at: Instant) {
        let guess = self.added.len();
        let thread = self.thread(task.tid);
        (thread.on, thread.blocked, thread.came) = (None, None, None);
        thread.since = thread.since.max(at);
        let prev_state = if thread.has_exited { PrevState::Dead } else { PrevState::Blocked };
        thread.guess = (!thread.has_exited).then_some(guess);
        if thread.has_exited {
            *thread = Thread::default();
        }
        let event = KernelEvent::Switch { prev: task, prev_prio: prio, prev_state, next: IDLE, next_prio: Prio::IDLE };
        self.added.push((self.index, Event::new(at, cpu, event)));
    }
}

/// Returns the first instant within a gap: at its start, the last event of the CPU still counts.
const fn within(from: Instant) -> Instant {
    from.saturating_add(Duration::from_nanos(1))
}

/// Returns the switch from the idle task to a task.
const fn switch_to((next, next_prio): Running<'_>) -> KernelEvent<'_> {
    KernelEvent::Switch { prev: IDLE, prev_prio: Prio::IDLE, prev_state: PrevState::Idle, next, next_prio }
}

const IDLE: TaskRef<'static> = TaskRef { comm: "swapper", tid: 0 };
/// The kernel charges some microseconds before the switch, and the tick some after its due time.
const CHARGE_SLACK: Duration = Duration::from_micros(100);
/// A switch takes some microseconds, with interrupts off.
const SWITCH_MAX: Duration = Duration::from_micros(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: u32) -> TaskRef<'static> {
        let comm = if tid == 0 { "swapper" } else { "t" };
        TaskRef { comm, tid }
    }

    fn event(us: u64, cpu: u32, event: KernelEvent<'static>) -> Event<'static> {
        Event::new(Instant::from_nanos(us * 1000), CpuId(cpu), event)
    }

    fn switch(us: u64, cpu: u32, prev: u32, prev_state: PrevState, next: u32) -> Event<'static> {
        let prio = |tid| if tid == 0 { Prio::IDLE } else { Prio::from_raw(120) };
        let (prev_prio, next_prio) = (prio(prev), prio(next));
        event(us, cpu, KernelEvent::Switch { prev: task(prev), prev_prio, prev_state, next: task(next), next_prio })
    }

    fn waking(us: u64, cpu: u32, tid: u32) -> Event<'static> {
        event(us, cpu, KernelEvent::Waking { task: task(tid), prio: Prio::from_raw(120), target: CpuId(0) })
    }

    fn charged(us: u64, cpu: u32, tid: u32, ran_us: u64) -> Event<'static> {
        let charged = event(us, cpu, KernelEvent::Charged { task: task(tid), ran: Duration::from_micros(ran_us) });
        Event { current: Some(tid), ..charged }
    }

    /// Returns the gaps and the switches after the repair: `cpu0 [0, 9]`, `9 cpu0 1S>0`.
    fn repaired(mut events: Vec<Event<'static>>) -> (Vec<String>, Vec<String>) {
        let us = |at: Instant| at.as_nanos() / 1000;
        let gaps = find(&mut events).expect("enough memory");
        let gaps = gaps.iter().map(|gap| format!("cpu{} {}..{}", gap.cpu, us(gap.from), us(gap.until))).collect();
        let switches = events.iter().filter_map(|event| match event.event {
            KernelEvent::Switch { prev, prev_state, next, .. } => {
                let state = match prev_state {
                    Runnable => "R",
                    Blocked => "S",
                    Dead => "X",
                    Idle => "",
                };
                Some(format!("{} cpu{} {}{state}>{}", us(event.at), event.cpu, prev.tid, next.tid))
            }
            _ => None,
        });
        (gaps, switches.collect())
    }

    use PrevState::{Blocked, Dead, Idle, Runnable};

    #[test]
    fn a_whole_trace_is_left_as_it_is() {
        let whole =
            vec![switch(1, 0, 0, Idle, 1), waking(2, 0, 2), switch(3, 0, 1, Runnable, 2), switch(5, 0, 2, Blocked, 1)];
        let (gaps, switches) = repaired(whole);
        assert_eq!(gaps, [""; 0]);
        assert_eq!(switches, ["1 cpu0 0>1", "3 cpu0 1R>2", "5 cpu0 2S>1"]);
    }

    #[test]
    fn a_switch_from_another_task_shows_a_gap_and_that_it_ran() {
        // The switch from 1 to 2 at some time after 10 is missing; 1 is woken later: it slept.
        let lost = vec![switch(1, 0, 0, Idle, 1), waking(10, 0, 3), switch(90, 0, 2, Blocked, 0), waking(95, 1, 1)];
        let (gaps, switches) = repaired(lost);
        assert_eq!(gaps, ["cpu0 10..90"]);
        assert_eq!(switches, ["1 cpu0 0>1", "10 cpu0 1S>0", "10 cpu0 0>2", "90 cpu0 2S>0"]);
    }

    #[test]
    fn events_of_a_task_just_behind_its_switch_prove_nothing() {
        let of = |current, event| Event { current: Some(current), ..event };
        // A worker is woken as it blocks, by its own call, and runs again later.
        let woken =
            |at| of(1, event(at, 0, KernelEvent::Wakeup { task: task(1), prio: Prio::from_raw(120), cpu: CpuId(0) }));
        let whole = vec![switch(1, 0, 0, Idle, 1), switch(10, 0, 1, Blocked, 0), woken(11), switch(20, 0, 0, Idle, 1)];
        assert_eq!(repaired(whole), (vec![], vec!["1 cpu0 0>1".into(), "10 cpu0 1S>0".into(), "20 cpu0 0>1".into()]));
        // Later, or behind an event of the next task, it is a contradiction.
        let late =
            vec![switch(1, 0, 0, Idle, 1), switch(10, 0, 1, Blocked, 0), woken(90), switch(99, 0, 1, Blocked, 0)];
        assert_eq!(repaired(late).0, ["cpu0 10..90"]);
        let next = of(0, waking(11, 0, 2));
        let behind =
            vec![switch(1, 0, 0, Idle, 1), switch(10, 0, 1, Blocked, 0), next, woken(12), switch(99, 0, 1, Blocked, 0)];
        assert_eq!(repaired(behind).0, ["cpu0 11..12"]);
    }

    #[test]
    fn a_charge_tells_since_when_it_ran() {
        let lost = |more: Event<'static>| {
            vec![
                switch(1, 0, 0, Idle, 1),
                waking(10, 0, 2),
                charged(890, 0, 2, 300),
                switch(900, 0, 2, Blocked, 0),
                more,
            ]
        };
        let (_, switches) = repaired(lost(switch(950, 0, 0, Idle, 1)));
        assert_eq!(switches[1..3], ["10 cpu0 1R>0", "590 cpu0 0>2"], "1 ran again without a wakeup: preempted");
        // A charge before the task was woken is of an earlier run.
        let early =
            vec![switch(1, 0, 0, Idle, 1), waking(600, 1, 2), charged(890, 0, 2, 600), switch(900, 0, 2, Blocked, 0)];
        assert_eq!(repaired(early).1[2], "600 cpu0 0>2");
    }

    #[test]
    fn a_remark_of_the_recorder_is_a_gap_even_if_nothing_contradicts() {
        let lost = event(40, 0, KernelEvent::Lost { events: 7 });
        let (gaps, switches) = repaired(vec![switch(1, 0, 0, Idle, 1), lost, switch(90, 0, 1, Blocked, 0)]);
        assert_eq!((gaps, switches.len()), (vec!["cpu0 1..90".to_owned()], 2));
        // At the end it lasts until the end.
        let (gaps, _) =
            repaired(vec![switch(1, 0, 0, Idle, 1), waking(50, 1, 2), event(60, 0, KernelEvent::Lost { events: 7 })]);
        assert_eq!(gaps, ["cpu0 1..60"]);
    }

    #[test]
    fn a_task_is_on_one_cpu() {
        // 1 runs on cpu 0 and then on cpu 1: cpu 0 has lost the switch from it.
        let lost =
            vec![switch(1, 0, 0, Idle, 1), waking(5, 0, 9), switch(50, 1, 0, Idle, 1), switch(80, 0, 2, Blocked, 0)];
        let (gaps, switches) = repaired(lost);
        assert_eq!(gaps, ["cpu0 5..80"]);
        assert_eq!(switches, ["1 cpu0 0>1", "5 cpu0 1R>0", "5 cpu0 0>2", "50 cpu1 0>1", "80 cpu0 2S>0"]);
    }

    #[test]
    fn any_event_tells_which_task_runs() {
        // 1 is preempted unseen; 2, which runs then, charges itself.
        let (gaps, switches) = repaired(vec![
            switch(1, 0, 0, Idle, 1),
            charged(50, 0, 2, 30),
            charged(80, 0, 2, 30),
            switch(80, 0, 2, Blocked, 1),
        ]);
        assert_eq!(gaps, ["cpu0 1..50"]);
        assert_eq!(switches, ["1 cpu0 0>1", "1 cpu0 1R>0", "20 cpu0 0>2", "80 cpu0 2S>1"]);
    }

    #[test]
    fn a_waking_can_be_the_event_that_is_missing() {
        let run = |woken: Option<Event<'static>>| {
            let rest = [switch(9, 0, 1, Blocked, 0), switch(30, 0, 0, Idle, 1), switch(40, 0, 1, Blocked, 0)];
            let mut events = vec![waking(2, 1, 9), switch(3, 0, 0, Idle, 1)];
            events.extend(woken);
            events.extend(rest);
            events.sort_by_key(|event| event.at);
            repaired(events).0
        };
        assert_eq!(run(None), ["cpu1 9..30"]);
        assert_eq!(run(Some(waking(20, 1, 1))), [""; 0]);
        assert_eq!(run(Some(waking(8, 1, 1))), [""; 0], "a waking that overtakes the switch");
    }

    #[test]
    fn a_task_that_runs_at_the_start_does_so_since_it_was_charged() {
        let events = vec![waking(0, 1, 9), charged(500, 0, 1, 100), switch(520, 0, 1, Blocked, 0)];
        let (gaps, switches) = repaired(events);
        assert_eq!(gaps, [""; 0]);
        assert_eq!(switches, ["400 cpu0 0>1", "520 cpu0 1S>0"]);
        // A task that runs all the time.
        let (_, switches) = repaired(vec![waking(0, 1, 9), charged(500, 0, 1, 600), switch(520, 0, 1, Blocked, 0)]);
        assert_eq!(switches, ["520 cpu0 1S>0"]);
    }

    #[test]
    fn a_move_can_be_the_event_that_is_missing() {
        let moved = |us, from, to| {
            let (task, prio) = (task(1), Prio::from_raw(120));
            event(us, 1, KernelEvent::Migrate { task, prio, from: CpuId(from), to: CpuId(to) })
        };
        let run = |between: Vec<Event<'static>>| {
            let mut events = vec![switch(1, 0, 0, Idle, 1), switch(5, 0, 1, Runnable, 2), switch(6, 1, 0, Idle, 3)];
            events.extend(between);
            events.push(switch(30, 1, 3, Blocked, 1));
            repaired(events).0
        };
        assert_eq!(run(vec![moved(9, 0, 1)]), [""; 0]);
        assert_eq!(run(vec![moved(9, 1, 0), moved(12, 0, 1)]), ["cpu0 5..9"]);
        assert_eq!(run(Vec::new()), [""; 0], "a recorder without migrations");
    }

    #[test]
    fn a_charge_after_the_first_sign_of_a_task_tells_since_when_it_ran() {
        let sign = Event { current: Some(2), ..waking(880, 0, 3) };
        let lost = vec![switch(1, 0, 0, Idle, 1), switch(9, 0, 1, Blocked, 0), sign, charged(890, 0, 2, 20)];
        assert_eq!(repaired(lost).1[2..], ["870 cpu0 0>2"]);
    }

    #[test]
    fn a_thread_that_has_exited_is_dead() {
        let exit = event(5, 0, KernelEvent::Exit { task: task(1) });
        let (_, switches) = repaired(vec![switch(1, 0, 0, Idle, 1), exit, switch(9, 0, 2, Blocked, 0)]);
        assert_eq!(switches[1], "5 cpu0 1X>0");
    }
}

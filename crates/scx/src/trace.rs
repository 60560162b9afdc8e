//! [`Recorder`]: the kernel's events as the text that tracefs prints, for `zerolag report`, `check`
//! and `import`, and for any other program that reads it.
//!
//! Only the tasks of the policy are known here. While none of them runs a CPU is shown as idle,
//! also if a thread of the kernel or a real-time task has it: the events say when a task of the
//! policy leaves a CPU, and when one begins to run, but not what is between. Two such events within
//! [`DIRECT`] are one switch. A task that goes on after its turn is no switch.
//!
//! Events of several CPUs come almost in order of time, and that a CPU idles is known later than it
//! happens; so lines wait for [`SETTLED`] before they are written.

use crate::wire::{Event, Kind, text};
use std::collections::BTreeMap;
use std::io::{self, Write};
use zerolag_policy::EnqFlags;

/// A switch takes less.
const DIRECT: u64 = 50_000;
/// Events are at most this much late, in nanoseconds.
const SETTLED: u64 = 5_000_000;

/// What a CPU does, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cpu {
    Idle,
    Runs(u32),
    /// The task has left it, in this state (`R`, `S`), and no other one has come yet.
    Left(u32, char, u64),
}

/// Writes events as text.
#[derive(Debug)]
pub(crate) struct Recorder<W: Write> {
    out: W,
    names: BTreeMap<u32, String>,
    cpus: BTreeMap<u32, Cpu>,
    /// Lines by time.
    lines: BTreeMap<(u64, u64), String>,
    nr_lines: u64,
    now: u64,
}

impl<W: Write> Recorder<W> {
    /// Begins a text.
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"# tracer: nop\n#\n")?;
        let (names, cpus, lines) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Ok(Self { out, names, cpus, lines, nr_lines: 0, now: 0 })
    }

    /// Takes an event over.
    pub(crate) fn handle(&mut self, event: &Event) -> io::Result<()> {
        self.now = self.now.max(event.at);
        let (at, pid, cpu) = (event.at, event.pid, event.cpu);
        match event.kind {
            Kind::Add | Kind::Rename => drop(self.names.insert(pid, text(&event.comm))),
            Kind::Runnable if EnqFlags(event.a).has(EnqFlags::WAKEUP) => {
                let task = self.task(pid);
                let by = self.runs(cpu);
                self.line(at, cpu, by, &format!("sched_wakeup: {task} prio=120 target_cpu={cpu:03}"));
            }
            Kind::Running => self.running(at, pid, cpu),
            Kind::Stopping => drop(self.cpus.insert(cpu, Cpu::Left(pid, 'R', at))),
            Kind::Quiescent if self.cpus.get(&cpu) == Some(&Cpu::Runs(pid)) => {
                self.cpus.insert(cpu, Cpu::Left(pid, 'S', at));
            }
            Kind::Runnable
            | Kind::Quiescent
            | Kind::Enqueue
            | Kind::Dispatch
            | Kind::Weight
            | Kind::Cpumask
            | Kind::Remove
            | Kind::Group
            | Kind::GroupLimit
            | Kind::GroupExit
            | Kind::Move
            | Kind::Exit => {}
        }
        self.settle(self.now.saturating_sub(DIRECT));
        self.write_until(self.now.saturating_sub(SETTLED))
    }

    /// Ends the text.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.settle(u64::MAX);
        self.write_until(u64::MAX)?;
        self.out.flush()
    }

    fn running(&mut self, at: u64, pid: u32, cpu: u32) {
        match self.cpus.insert(cpu, Cpu::Runs(pid)).unwrap_or(Cpu::Idle) {
            Cpu::Left(prev, 'R', left) if prev == pid && at.saturating_sub(left) <= DIRECT => {}
            Cpu::Left(prev, state, left) if at.saturating_sub(left) <= DIRECT => {
                self.switch(at, cpu, Some((prev, state)), Some(pid));
            }
            Cpu::Left(prev, state, left) => {
                self.switch(left, cpu, Some((prev, state)), None);
                self.switch(at, cpu, None, Some(pid));
            }
            // One that has left without an event.
            Cpu::Runs(prev) if prev != pid => self.switch(at, cpu, Some((prev, 'S')), Some(pid)),
            Cpu::Runs(_) => {}
            Cpu::Idle => self.switch(at, cpu, None, Some(pid)),
        }
    }

    /// CPUs that a task left before a time, and that no other one has come to, idle.
    fn settle(&mut self, before: u64) {
        let left = |(cpu, state): (&u32, &Cpu)| match *state {
            Cpu::Left(pid, state, at) if at < before => Some((*cpu, pid, state, at)),
            Cpu::Left(..) | Cpu::Runs(_) | Cpu::Idle => None,
        };
        for (cpu, pid, state, at) in self.cpus.iter().filter_map(left).collect::<Vec<_>>() {
            self.cpus.insert(cpu, Cpu::Idle);
            self.switch(at, cpu, Some((pid, state)), None);
        }
    }

    fn runs(&self, cpu: u32) -> Option<u32> {
        match self.cpus.get(&cpu) {
            Some(Cpu::Runs(pid)) => Some(*pid),
            Some(Cpu::Left(..) | Cpu::Idle) | None => None,
        }
    }

    fn name(&self, pid: u32) -> &str {
        self.names.get(&pid).map_or("?", |name| name)
    }

    fn task(&self, pid: u32) -> String {
        format!("comm={} pid={pid}", self.name(pid))
    }

    fn switch(&mut self, at: u64, cpu: u32, prev: Option<(u32, char)>, next: Option<u32>) {
        let (prev_pid, state) = prev.unwrap_or((0, 'R'));
        let of = |pid: u32| if pid == 0 { format!("swapper/{cpu}") } else { self.name(pid).to_owned() };
        let text = format!(
            "sched_switch: prev_comm={} prev_pid={prev_pid} prev_prio=120 prev_state={state} ==> \
             next_comm={} next_pid={} next_prio=120",
            of(prev_pid),
            of(next.unwrap_or(0)),
            next.unwrap_or(0),
        );
        self.line(at, cpu, prev.map(|(pid, _)| pid), &text);
    }

    fn line(&mut self, at: u64, cpu: u32, by: Option<u32>, text: &str) {
        let (name, pid) = by.map_or(("<idle>", 0), |pid| (self.name(pid), pid));
        let (seconds, nanos) = (at / 1_000_000_000, at % 1_000_000_000);
        let line = format!("{name:>16}-{pid:<7} [{cpu:03}] d..2. {seconds}.{nanos:09}: {text}\n");
        self.nr_lines += 1;
        self.lines.insert((at, self.nr_lines), line);
    }

    fn write_until(&mut self, before: u64) -> io::Result<()> {
        while let Some(entry) = self.lines.first_entry().filter(|entry| entry.key().0 <= before) {
            self.out.write_all(entry.remove().as_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::MASK_WORDS;
    use zerolag_model::{PrevState, TraceEvent};

    const MS: u64 = 1_000_000;

    fn event(at: u64, kind: Kind, pid: u32, cpu: u32, a: u64) -> Event {
        let mut comm = [0; 16];
        comm[..4].copy_from_slice(b"loop");
        Event { at, a, b: 0, group: 1, mask: [1; MASK_WORDS], kind, pid, cpu, weight: 100, comm }
    }

    /// Two tasks take turns, one goes on, then both sleep; a switch on another CPU is told late.
    #[test]
    fn what_is_written_is_read_as_the_switches_that_were() {
        let mut out = Vec::new();
        let mut recorder = Recorder::new(&mut out).expect("memory");
        let events = [
            event(0, Kind::Add, 7, 0, 0),
            event(0, Kind::Add, 8, 0, 0),
            event(MS, Kind::Runnable, 7, 0, EnqFlags::WAKEUP.0),
            event(MS + 10, Kind::Running, 7, 0, 0),
            event(2 * MS, Kind::Stopping, 7, 0, 0),
            event(2 * MS + 900, Kind::Running, 7, 0, 0),
            event(3 * MS, Kind::Stopping, 7, 0, 0),
            event(3 * MS + 900, Kind::Running, 8, 0, 0),
            event(5 * MS, Kind::Quiescent, 8, 0, 1),
            event(4 * MS, Kind::Running, 7, 1, 0),
            event(6 * MS, Kind::Running, 8, 0, 0),
            event(9 * MS, Kind::Quiescent, 7, 1, 1),
        ];
        for event in &events {
            recorder.handle(event).expect("memory");
        }
        recorder.finish().expect("memory");
        let text = String::from_utf8(out).expect("text");
        let (trace, pids) = zerolag_trace::ftrace::read_with_pids(&text).expect("what tracefs prints");
        let pid = |task: Option<zerolag_model::TaskId>| task.map_or(0, |task| pids[task.index()]);
        let switches: Vec<_> = (trace.records.iter())
            .filter_map(|record| match record.event {
                TraceEvent::Switch { prev, prev_state, next, .. } => {
                    let slept = prev.is_some() && prev_state == PrevState::Blocked;
                    Some((record.at.as_nanos(), record.cpu.0, pid(prev), pid(next), slept))
                }
                _ => None,
            })
            .collect();
        let begin = switches.first().expect("a switch").0;
        let at = |at: u64| at - (MS + 10) + begin;
        let wanted = [
            (at(MS + 10), 0, 0, 7, false),
            (at(3 * MS + 900), 0, 7, 8, false),
            (at(4 * MS), 1, 0, 7, false),
            (at(5 * MS), 0, 8, 0, true),
            (at(6 * MS), 0, 0, 8, false),
            (at(9 * MS), 1, 7, 0, true),
        ];
        assert_eq!(switches, wanted, "{text}");
        assert!(text.contains("sched_wakeup: comm=loop pid=7 prio=120 target_cpu=000"), "{text}");
    }
}

//! [`Checker`]: passes the records of a trace to all monitors.
//!
//! A recording of a kernel often has gaps: events of a CPU that were lost. A rule that is judged
//! over a gap is judged over guesses. So a trace with gaps is judged as several recordings: each
//! begins where a gap ends, with every task and CPU in an unknown state, and ends where the next
//! gap of any CPU begins. Within a gap nothing is judged.

use crate::monitor::{Context, Monitor, Options, Outcome};
use crate::monitors::TABLE;
use crate::report::{Findings, NotJudged, Report, Unseen, Verdict};
use zerolag_model::{Instant, Record, Settings};
use zerolag_trace::{Meta, Replay, Trace};

/// Passes records to all monitors, for a run whose trace is not kept.
pub struct Checker {
    meta: Meta,
    options: Options,
    settings: Settings,
    replay: Replay,
    running: Vec<RunningMonitor>,
    last: Instant,
    /// The gaps of all CPUs together, in reverse order: the next is last.
    gaps: Vec<(Instant, Instant)>,
    /// The end of the gap that the trace is in.
    blind_until: Option<Instant>,
    unseen: Unseen,
}

struct RunningMonitor {
    name: &'static str,
    /// `None` within a gap.
    monitor: Option<Result<Box<dyn Monitor>, String>>,
    found: Findings,
    /// What was found before this part of the trace.
    before: Findings,
    is_judged: bool,
    reason: Option<String>,
}

impl core::fmt::Debug for Checker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Checker").field("replay", &self.replay).finish_non_exhaustive()
    }
}

impl Checker {
    /// Starts all monitors.
    #[must_use]
    pub fn new(meta: &Meta, options: &Options) -> Self {
        let running = TABLE.iter().map(|rule| RunningMonitor {
            name: rule.name,
            monitor: None,
            found: Findings::new(options.keep),
            before: Findings::new(options.keep),
            is_judged: false,
            reason: None,
        });
        let mut checker = Self {
            replay: Replay::new(meta),
            running: running.collect(),
            last: meta.start,
            gaps: blind(meta),
            blind_until: None,
            unseen: Unseen::default(),
            meta: meta.clone(),
            options: options.clone(),
            settings: meta.settings(),
        };
        checker.begin();
        checker
    }

    /// Takes the next record.
    pub fn observe(&mut self, record: &Record) {
        if !self.gaps.is_empty() || self.blind_until.is_some() {
            self.pass_gaps(record.at);
        }
        for RunningMonitor { monitor, found, .. } in &mut self.running {
            if let Some(Ok(monitor)) = monitor {
                monitor.before(&self.replay, record, found);
            }
        }
        self.replay.apply(record);
        for RunningMonitor { monitor, .. } in &mut self.running {
            if let Some(Ok(monitor)) = monitor {
                monitor.after(&self.replay, record);
            }
        }
        self.last = self.last.max(record.at);
    }

    /// Leaves and enters the gaps before a record.
    fn pass_gaps(&mut self, at: Instant) {
        loop {
            if let Some(until) = self.blind_until {
                if at < until {
                    return;
                }
                self.blind_until = None;
                self.replay.forget(until);
                self.meta.start = until;
                self.begin();
            }
            let Some((from, until)) = self.gaps.last().copied().filter(|(from, _)| *from < at) else { return };
            self.gaps.pop();
            self.end(from);
            self.unseen.gaps += 1;
            self.unseen.time = self.unseen.time.saturating_add(until.since(from));
            self.blind_until = Some(until);
        }
    }

    /// Says how many events the trace lacks, if that is known only at its end: then nothing is
    /// judged, unless the places where they are missing were known from its start.
    pub fn lost(&mut self, events: u64) {
        if events == 0 || !self.meta.recorded.gaps.is_empty() {
            return;
        }
        self.meta.lost_events = events;
        for running in &mut self.running {
            running.found = Findings::new(self.options.keep);
            running.monitor = Some(Err(were_lost(events)));
        }
    }

    /// Starts to judge.
    fn begin(&mut self) {
        let context = Context { meta: &self.meta, options: &self.options, settings: &self.settings };
        let lost = if self.meta.recorded.gaps.is_empty() { self.meta.lost_events } else { 0 };
        for (rule, running) in TABLE.iter().zip(&mut self.running) {
            running.before = running.found.clone();
            running.monitor = Some(match lost {
                0 => (rule.begin)(&context),
                lost => Err(were_lost(lost)),
            });
        }
    }

    /// Ends a part of the trace that was judged.
    fn end(&mut self, end: Instant) {
        for RunningMonitor { monitor, found, before, is_judged, reason, .. } in &mut self.running {
            match monitor.take() {
                None => {}
                Some(Err(why)) => *reason = Some(why),
                Some(Ok(mut monitor)) => match monitor.finish(&self.replay, end, found) {
                    Outcome::Judged => *is_judged = true,
                    Outcome::NothingToJudge(why) => {
                        found.clone_from(before);
                        *reason = Some(why.to_owned());
                    }
                },
            }
        }
    }

    /// Ends the trace at `end`, or at the last record if that is later.
    #[must_use]
    pub fn finish(mut self, end: Instant) -> Report {
        let end = end.max(self.last);
        if self.blind_until.is_none() {
            self.end(end);
        }
        let (mut verdicts, mut not_judged) = (Vec::new(), Vec::new());
        for RunningMonitor { name, found, is_judged, reason, .. } in self.running {
            let skipped = found.skipped().iter();
            not_judged.extend(skipped.map(|(reason, times)| NotJudged { monitor: name, reason, times: *times }));
            let verdict = match reason {
                _ if is_judged && found.total() > 0 => Verdict::Broken(found),
                _ if is_judged => Verdict::Held,
                Some(reason) => Verdict::NotApplicable(reason),
                None => Verdict::NotApplicable("events are missing all the time".to_owned()),
            };
            verdicts.push((name, verdict));
        }
        Report { verdicts, not_judged, unseen: (self.unseen.gaps > 0).then_some(self.unseen) }
    }
}

fn were_lost(events: u64) -> String {
    format!("{events} events were lost")
}

/// Returns the intervals in which events of any CPU are missing, without overlaps, the first last.
fn blind(meta: &Meta) -> Vec<(Instant, Instant)> {
    let mut all: Vec<(Instant, Instant)> = Vec::new();
    for gap in &meta.recorded.gaps {
        match all.last_mut() {
            Some((_, until)) if *until >= gap.from => *until = (*until).max(gap.until),
            Some(_) | None => all.push((gap.from, gap.until)),
        }
    }
    all.reverse();
    all
}

/// Checks a trace against all rules.
#[must_use]
pub fn check(trace: &Trace, options: &Options) -> Report {
    let mut checker = Checker::new(&trace.meta, options);
    for record in &trace.records {
        checker.observe(record);
    }
    checker.finish(trace.meta.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::CpuId;
    use zerolag_trace::Gap;
    use zerolag_trace::script::Script;

    /// `a` runs on both CPUs at 5 us, and again at 50 us.
    fn broken_twice(gap: Option<(u64, u64)>) -> Report {
        let mut script = Script::new(2);
        let a = script.fair("a");
        let mut twice = |us: u64| {
            script.wake(us, 0, a).run(us, 0, None, Some(a)).run(us + 5, 1, None, Some(a));
            script.run(us + 6, 0, Some(a), None).run(us + 9, 1, Some(a), None);
        };
        twice(0);
        twice(40);
        let mut trace = script.end(100);
        trace.meta.source = zerolag_trace::Source::Text;
        let us = |us: u64| Instant::from_nanos(us * 1000);
        trace.meta.recorded.gaps = gap
            .map(|(from, until)| Gap { cpu: CpuId(1), from: us(from), until: us(until), events: 0 })
            .into_iter()
            .collect();
        check(&trace, &Options::default())
    }

    fn found(report: &Report) -> u64 {
        match report.verdict("one-cpu") {
            Some(Verdict::Broken(found)) => found.total(),
            Some(Verdict::Held) => 0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lost_events_that_are_known_at_the_end_are_as_those_known_before() {
        let trace = |lost: u64, gaps: bool| {
            let mut script = Script::new(2);
            let a = script.fair("a");
            script.wake(0, 0, a).run(0, 0, None, Some(a)).run(5, 1, None, Some(a));
            let mut trace = script.end(100);
            trace.meta.lost_events = lost;
            let gap = Gap { cpu: CpuId(1), from: Instant::from_nanos(50_000), until: trace.meta.end, events: lost };
            trace.meta.recorded.gaps.extend(gaps.then_some(gap));
            trace
        };
        for (lost, gaps) in [(0, false), (3, false), (3, true)] {
            let before = trace(lost, gaps);
            let mut late = before.clone();
            late.meta.lost_events = 0;
            let mut checker = Checker::new(&late.meta, &Options::default());
            late.records.iter().for_each(|record| checker.observe(record));
            checker.lost(lost);
            let report = checker.finish(late.meta.end);
            assert_eq!(report.to_string(), check(&before, &Options::default()).to_string());
            assert_eq!(report.is_clean(), lost > 0 && !gaps, "{report}");
        }
    }

    #[test]
    fn nothing_is_judged_within_a_gap_or_from_what_was_before_it() {
        let all = found(&broken_twice(None));
        assert_eq!(all, 2);
        let report = broken_twice(Some((1, 30)));
        let after = found(&report);
        assert_eq!(after, 1);
        assert!(report.to_string().starts_with("29us in 1 gap were not judged"), "{report}");
        assert_eq!(found(&broken_twice(Some((41, 60)))), 1);
        // A gap that ends where the trace does.
        assert_eq!(found(&broken_twice(Some((41, 100)))), 1);
    }
}

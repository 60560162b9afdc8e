//! [`Pyramid`]: a timeline at several levels of detail, for pages that ask for parts of it.
//!
//! A file has room for half a million slices, so a long run is merged in it, everywhere. A page
//! with a server behind it needs no more than its view at a time: all slices of a millisecond, or
//! the merged ones of an hour. Merging a long run for each request would take longer the more is
//! shown, so the levels are made once: each merges the level below it, and is kept if it has at
//! most half of its slices. All of them together are smaller than the run itself.
//!
//! A wait is drawn with the slice that ends it, which can begin long after the view. So a part also
//! has, for each task, its first slice after the part.
//!
//! Complexity: a part costs O(tasks log slices + spans + its own slices).

use crate::pack::Pack;
use crate::timeline::{Detail, Point, PointKind, Slice, Span, SpanKind, Timeline, merge};
use serde_json::json;
use zerolag_model::Duration;

/// A timeline and its levels.
#[derive(Clone, Debug)]
pub struct Pyramid {
    whole: Timeline,
    /// Coarser and coarser.
    levels: Vec<Level>,
    /// The slices of each task in order of time: CPU, and place in its list.
    by_task: Vec<Vec<(u32, u32)>>,
}

#[derive(Clone, Debug)]
struct Level {
    /// Slices shorter than this, in nanoseconds, are merged.
    below: u64,
    cpus: Vec<Vec<Slice>>,
}

// What the documentation of `zerolag serve` says of its memory.
const _: () = assert!(size_of::<Slice>() == 48 && size_of::<Span>() <= 48 && size_of::<Point>() <= 48);

/// A part of a timeline.
#[derive(Clone, Debug)]
pub struct Part {
    timeline: Timeline,
    /// What it does not show.
    missing: Vec<String>,
}

/// A merge of all slices of a run is finer than this, in nanoseconds: half an hour.
const COARSEST: u64 = 1 << 41;

impl Pyramid {
    /// Makes the levels.
    #[must_use]
    pub fn new(whole: Timeline) -> Self {
        let count = |cpus: &[Vec<Slice>]| cpus.iter().map(Vec::len).sum::<usize>();
        let mut levels: Vec<Level> = Vec::new();
        let mut below = 1_000;
        while below < COARSEST {
            let last = levels.last().map_or(&whole.cpus, |level| &level.cpus);
            let cpus: Vec<_> = last.iter().map(|slices| merge(slices, below, &[])).collect();
            if count(&cpus) * 2 <= count(last) {
                levels.push(Level { below, cpus });
            }
            below *= 4;
        }
        let mut by_task = vec![Vec::new(); whole.tasks.len()];
        for (cpu, slices) in (0_u32..).zip(&whole.cpus) {
            for (place, slice) in (0_u32..).zip(slices) {
                by_task[slice.task as usize].push((cpu, place));
            }
        }
        for places in &mut by_task {
            places.sort_by_key(|(cpu, place)| whole.cpus[*cpu as usize][*place as usize].from);
            places.shrink_to_fit();
        }
        Self { whole, levels, by_task }
    }

    /// Returns the number of slices of the whole run and of all levels together.
    #[must_use]
    pub fn slices(&self) -> (usize, usize) {
        let whole = self.whole.cpus.iter().map(Vec::len).sum();
        (whole, whole + self.levels.iter().flat_map(|level| &level.cpus).map(Vec::len).sum::<usize>())
    }

    /// Returns the part between two times, in nanoseconds, with about `most` slices, as many spans
    /// and as many points at most: as much detail as they allow.
    #[must_use]
    pub fn part(&self, from: u64, to: u64, most: usize) -> Part {
        let mut missing = Vec::new();
        let finest = (0, &self.whole.cpus);
        let levels = || std::iter::once(finest).chain(self.levels.iter().map(|level| (level.below, &level.cpus)));
        let touched = |slices: &[Slice]| {
            let first = slices.partition_point(|slice| slice.to <= from);
            first..first + slices[first..].partition_point(|slice| slice.from <= to)
        };
        let count = |cpus: &[Vec<Slice>]| cpus.iter().map(|slices| touched(slices).len()).sum::<usize>();
        let (below, level) =
            levels().find(|(_, cpus)| count(cpus) <= most).unwrap_or_else(|| levels().last().unwrap_or(finest));
        let mut cpus: Vec<Vec<Slice>> = level.iter().map(|slices| slices[touched(slices)].to_vec()).collect();
        self.add_waits(to, &mut cpus);
        if below > 0 {
            missing
                .push(format!("slices shorter than {} are merged with their neighbours", Duration::from_nanos(below)));
        }
        // A mark that is shorter than a pixel of a wide screen cannot be seen by itself.
        let pixel = (to - from) / 4_000;
        let all: Vec<_> = self.whole.spans.iter().filter(|span| span.from <= to && span.to >= from).copied().collect();
        let no_interrupts = || all.iter().filter(|span| span.kind != SpanKind::Interrupt).copied().collect::<Vec<_>>();
        let spans = if all.len() <= most {
            all
        } else if no_interrupts().len() <= most {
            missing.push("interrupts are left out".to_owned());
            no_interrupts()
        } else {
            missing.push(format!("interrupts and marks shorter than {} are left out", Duration::from_nanos(pixel)));
            let mut long = no_interrupts();
            long.retain(|span| span.to - span.from >= pixel);
            long.truncate(most);
            long
        };
        let points = &self.whole.points;
        let first = points.partition_point(|point| point.at < from);
        let points = &points[first..first + points[first..].partition_point(|point| point.at <= to)];
        let no_ipis = || points.iter().filter(|point| point.kind != PointKind::Ipi);
        let points = if points.len() <= most {
            points.to_vec()
        } else if no_ipis().count() <= most {
            missing.push("IPIs are left out".to_owned());
            no_ipis().copied().collect()
        } else {
            missing.push("IPIs, moves and other instants are left out".to_owned());
            Vec::new()
        };
        let timeline = Timeline {
            start: self.whole.start,
            end: self.whole.end,
            // The page has the names.
            tasks: Vec::new(),
            groups: Vec::new(),
            group_ids: Vec::new(),
            parents: Vec::new(),
            cpus,
            spans,
            points,
            waiting: self.whole.waiting.clone(),
            records: self.whole.records,
        };
        Part { timeline, missing }
    }

    /// Adds the slices after a part that end waits of the part.
    fn add_waits(&self, to: u64, cpus: &mut [Vec<Slice>]) {
        let of = |(cpu, place): (u32, u32)| &self.whole.cpus[cpu as usize][place as usize];
        let next = self.by_task.iter().filter_map(|places| {
            let next = places.partition_point(|place| of(*place).from <= to);
            places.get(next).copied()
        });
        let mut later: Vec<(u32, u32)> =
            next.filter(|place| of(*place).from.saturating_sub(of(*place).wait) <= to).collect();
        later.sort_unstable();
        for place in later {
            let slices = &mut cpus[place.0 as usize];
            // A merged slice can reach beyond the part, over this one.
            if slices.last().is_none_or(|last| last.to <= of(place).from) {
                slices.push(*of(place));
            }
        }
    }
}

impl Part {
    /// Returns what it does not show, as a sentence.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        (!self.missing.is_empty()).then(|| format!("At this zoom {}.", self.missing.join(", ")))
    }

    /// Returns the number of its slices.
    #[must_use]
    pub fn slices(&self) -> usize {
        self.timeline.cpus.iter().map(Vec::len).sum()
    }

    /// Returns the packed columns, as a page reads them.
    #[must_use]
    pub fn pack(&self) -> Vec<u8> {
        let mut pack = Pack::default();
        let run = self.timeline.pack("", "part/", &Detail::ALL, &mut pack);
        pack.finish(&json!({ "runs": [run], "plots": [], "note": self.note() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Recorder;
    use zerolag_model::TraceEvent;
    use zerolag_model::event::Irq;
    use zerolag_trace::script::Script;

    /// Two tasks that take turns of 10 us, an interrupt in each turn; a third that waits from the
    /// start and runs at the end.
    fn turns(count: u64) -> Pyramid {
        let mut script = Script::new(1);
        let (a, b, late) = (script.fair("a"), script.fair("b"), script.fair("late"));
        script.wake(0, 0, a).wake(0, 0, b).wake(1, 0, late).run(1, 0, None, Some(a));
        let mut last = a;
        for turn in 1..count {
            let next = if turn % 2 == 0 { a } else { b };
            script.event(turn * 10 + 3, 0, TraceEvent::IrqEnter { irq: Irq::Tick });
            script.event(turn * 10 + 4, 0, TraceEvent::IrqExit { irq: Irq::Tick });
            script.run(turn * 10 + 5, 0, Some(last), Some(next));
            last = next;
        }
        script.run(count * 10 + 5, 0, Some(last), Some(late));
        let trace = script.end(count * 10 + 50);
        let mut recorder = Recorder::new(&trace.meta);
        trace.records.iter().for_each(|record| recorder.observe(record));
        Pyramid::new(recorder.finish(trace.meta.end))
    }

    #[test]
    fn levels_halve_and_are_together_smaller_than_the_run() {
        let (whole, all) = turns(4_000).slices();
        assert_eq!(whole, 4_001);
        assert!(all > whole && all < 2 * whole, "{all}");
    }

    #[test]
    fn a_small_part_is_exact_and_has_the_wait_that_covers_it() {
        let pyramid = turns(4_000);
        let part = pyramid.part(20_000_000, 20_100_000, 1_000);
        assert_eq!(part.note(), None);
        let slices = &part.timeline.cpus[0];
        let (last, inner) = slices.split_last().unwrap();
        assert!((10..=12).contains(&inner.len()), "{} slices", inner.len());
        assert!(inner.iter().all(|slice| pyramid.whole.cpus[0].contains(slice)));
        assert_eq!((last.task, last.from), (2, 40_005_000), "the slice that ends the wait of `late`");
        assert!((10..=11).contains(&part.timeline.spans.len()), "interrupts of this time only");
    }

    #[test]
    fn a_large_part_is_merged_and_says_so() {
        let pyramid = turns(4_000);
        let part = pyramid.part(0, 40_000_000, 1_000);
        assert!(part.slices() <= 1_003, "{}", part.slices());
        let note = part.note().unwrap();
        assert!(note.contains("slices shorter than") && note.contains("interrupts are left out"), "{note}");
        let busy: u64 = part.timeline.cpus[0].iter().map(|slice| slice.to - slice.from).sum();
        assert!(busy >= 39_900_000, "merging loses no busy time: {busy}");
        let few = pyramid.part(0, 40_000_000, 1);
        assert!(few.slices() < part.slices());
    }
}

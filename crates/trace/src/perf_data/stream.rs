//! A file that is read through a window, three times ([`kernel::stream`](crate::kernel::stream)).
//!
//! perf writes what the CPUs' buffers hold, CPU by CPU, then the mark of a finished round, and
//! begins again. So an event of a round can be older than one of the round before, but not older
//! than all of that: while the buffers of one round were read, those of the round before had been.
//! At a mark the events up to the latest of the round before are in order, and are given; what
//! waits is two rounds, which is at most what the buffers hold and what came while they were
//! read.
//!
//! ```text
//! round 1  CPU 0: 1 4   CPU 1: 2 6     mark: nothing before      wait: 1 2 4 6
//! round 2  CPU 0: 5 8   CPU 1: 7 9     mark: up to 6             give 1 2 4 5 6, wait: 7 8 9
//! ```
//!
//! * A file without marks has one round: it is the same as if it were kept.
//! * An event that is older than one that was given: the file is not in order, and must be kept.
//! * So must packed records, which are parts of one archive.
//!
//! Source: Linux v6.12 `tools/perf/util/ordered-events.c` (`OE_FLUSH__ROUND`).

use super::file::{Events, FINISHED_ROUND, File, is_preparation};
use crate::error::ReadError;
use crate::file_bytes::{self, FileBytes};
use crate::kernel::Head;
use crate::kernel::event::Event;
use crate::kernel::pool::{Names, Pool};
use crate::kernel::stream::{Source, Stop, Way};
use core::ops::Range;
use std::path::Path;
use zerolag_model::Instant;

/// Reads a file in a way; `None` if it has to be read as a whole.
///
/// # Errors
/// As [`read`](super::read).
pub(crate) fn each<W: Way>(path: &Path, way: W) -> Result<Option<W::Done>, ReadError> {
    let Some((file, len)) = file_bytes::open(path)? else { return Ok(None) };
    let place = FileBytes::File(&file, len);
    let (said, data) = File::read(place)?;
    if said.is_packed {
        return Ok(None);
    }
    let pool = Pool::default();
    way.read(&mut Recording { place, said, data, names: Names::new(&pool) })
}

struct Recording<'p, 'f> {
    place: FileBytes<'f>,
    said: File,
    data: Range<usize>,
    names: Names<'p>,
}

impl<'p> Source<'p> for Recording<'p, '_> {
    fn read(&mut self, give: &mut dyn FnMut(&Event<'p>)) -> Result<Head, Stop> {
        let (mut events, mut rounds) = (Events::of(&self.said), Rounds::default());
        let (names, is_prepared) = (&mut self.names, self.said.is_prepared);
        let end = self.place.records(self.said.order, self.data.clone(), |record| {
            if is_preparation(record.kind) && !is_prepared {
                return Err(Stop::Whole);
            }
            if record.kind == FINISHED_ROUND {
                return rounds.finish(events.first, give);
            }
            let keep = &mut |event: Event<'_>| rounds.wait(event.with_names(|task| names.keep_of(task.tid, task.comm)));
            events.take(record, keep).map_err(Stop::Error)
        })?;
        events.ends(end, self.data.end).map_err(Stop::Error)?;
        if end < self.place.len() && self.said.is_pipe {
            events.cut_off(end);
        }
        rounds.end(events.first, give)?;
        Ok(events.head())
    }
}

/// Events that wait until all of their time have been read.
#[derive(Default)]
struct Rounds<'p> {
    /// In the order of the file where their times are equal.
    waiting: Vec<Event<'p>>,
    /// The latest time of an event; the same of the round before.
    latest: Instant,
    until: Option<Instant>,
    /// The time of the first sample, and that of the last event that was given.
    given: Option<(Instant, Instant)>,
}

impl<'p> Rounds<'p> {
    fn wait(&mut self, event: Event<'p>) {
        self.latest = self.latest.max(event.at);
        self.waiting.push(event);
    }

    /// Ends a round. `first` is the time of the first sample so far.
    fn finish(&mut self, first: Option<Instant>, give: &mut dyn FnMut(&Event<'p>)) -> Result<(), Stop> {
        // Names that perf collected before it started have no time: they wait for the first sample.
        if let (Some(until), Some(first)) = (self.until, first) {
            self.give(first, until, give)?;
        }
        self.until = Some(self.latest);
        Ok(())
    }

    /// Ends the file.
    fn end(&mut self, first: Option<Instant>, give: &mut dyn FnMut(&Event<'p>)) -> Result<(), Stop> {
        let first = first.unwrap_or(Instant::ZERO);
        self.give(first, self.latest.max(first), give)
    }

    /// Gives what waits up to a time.
    fn give(&mut self, first: Instant, until: Instant, give: &mut dyn FnMut(&Event<'p>)) -> Result<(), Stop> {
        for event in &mut self.waiting {
            event.at = event.at.max(first);
        }
        // Stable: as those that are kept in memory.
        self.waiting.sort_by_key(|event| event.at);
        let ready = self.waiting.partition_point(|event| event.at <= until);
        let is_late = |last| self.waiting.first().is_some_and(|next| next.at < last);
        if self.given.is_some_and(|(known, last)| first < known || is_late(last)) {
            return Err(Stop::Whole);
        }
        for event in self.waiting.drain(..ready) {
            self.given = Some((first, event.at));
            give(&event);
        }
        Ok(())
    }
}

//! A recording that is not kept in memory: it is read two or three times.
//!
//! What happened at a time is known only from later events: a gap and the switches in it from the
//! event that proves them, a task's name from the last event that has it. Each is little, and the
//! records are much. So:
//!
//! ```text
//! 1  gaps, the switches that are missing, the kinds of interrupts      memory per gap and task
//! 2  with these switches: the tasks, their names, who wakes whom       memory per task
//!    (in 1 already as long as no switch is missing and no interrupt is recorded)
//! 3  with both: the records, in order, one at a time
//! ```
//!
//! The result is that of [`trace`](super::trace), which keeps all events. The events have to be in
//! order of time, as they mostly are. Complexity: O(1) per event.

use super::build::{Builder, Irqs, Known, Out};
use super::clock;
use super::doubled::Doubled;
use super::event::Event;
use super::gaps::{Added, Finder};
use super::head::{Head, is_scheduling, reserve};
use crate::container::Trace;
use crate::error::ReadError;
use crate::meta::Meta;
use zerolag_model::Record;

/// A recording that can be read again and again.
pub(crate) trait Source<'p> {
    /// Gives all events in order of time.
    ///
    /// # Errors
    /// The recording cannot be read, or not in this way.
    fn read(&mut self, give: &mut dyn FnMut(&Event<'p>)) -> Result<Head, Stop>;
}

/// Why a recording cannot be read as a stream.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It cannot be read at all.
    Error(ReadError),
    /// It has to be read as a whole: its events are not in order of time.
    Whole,
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Error(ReadError::Io(error))
    }
}

/// What is done with a recording.
pub(crate) trait Way {
    type Done;

    /// Whether the source is read once.
    const IS_ONCE: bool;

    /// Reads it; `None` if it has to be read as a whole.
    ///
    /// # Errors
    /// It cannot be read.
    fn read<'p>(self, source: &mut impl Source<'p>) -> Result<Option<Self::Done>, ReadError>;
}

/// Gives the records, in order, to what the first makes of the description of the run: reads three
/// times.
pub(crate) struct Each<S, G>(pub(crate) S, pub(crate) G);

impl<T, S: FnOnce(&Meta) -> T, G: FnMut(&mut T, &Record)> Way for Each<S, G> {
    type Done = (T, Meta);

    const IS_ONCE: bool = false;

    fn read<'p>(self, source: &mut impl Source<'p>) -> Result<Option<(T, Meta)>, ReadError> {
        let Self(start, mut give) = self;
        let read = || {
            let survey = survey(source)?;
            let mut to = start(&survey.meta);
            records(source, &survey, &mut |record| give(&mut to, record))?;
            Ok((to, survey.meta))
        };
        done(read())
    }
}

/// Keeps the events, but not the file: reads once.
pub(crate) struct Keep;

impl Way for Keep {
    type Done = Trace;

    const IS_ONCE: bool = true;

    fn read<'p>(self, source: &mut impl Source<'p>) -> Result<Option<Trace>, ReadError> {
        let (mut events, mut fits) = (Vec::new(), Ok(()));
        let read = source.read(&mut |event| {
            if fits.is_ok() {
                fits = reserve(&mut events, 1);
                events.extend(fits.is_ok().then_some(*event));
            }
        });
        match (done(read)?, fits) {
            (Some(head), Ok(())) => super::trace(head, events).map(Some),
            (Some(_), Err(error)) => Err(error),
            (None, _) => Ok(None),
        }
    }
}

fn done<T>(read: Result<T, Stop>) -> Result<Option<T>, ReadError> {
    match read {
        Ok(done) => Ok(Some(done)),
        Err(Stop::Whole) => Ok(None),
        Err(Stop::Error(error)) => Err(error),
    }
}

/// What two readings have found out.
struct Survey<'p> {
    meta: Meta,
    added: Vec<Added<'p>>,
    known: Vec<Known>,
    irqs: Irqs,
}

/// Reads a recording twice, or once if the first reading tells all: no switch is missing, and there
/// is no interrupt.
///
/// # Errors
/// It cannot be read, has no event, or is not in order.
fn survey<'p>(source: &mut impl Source<'p>) -> Result<Survey<'p>, Stop> {
    let (mut finder, mut irqs, mut has_events) = (Finder::default(), Irqs::default(), false);
    let mut whole = Some(Builder::new(irqs, Out::Drop));
    let (mut doubled, mut last, mut is_torn) = (Doubled::default(), None, false);
    let head = source.read(&mut |event| {
        if doubled.is_copy(event) {
            return;
        }
        is_torn |= last.replace(event.at).is_some_and(|last| clock::is_jump(last, event.at));
        irqs.see(event);
        finder.next(event);
        has_events |= is_scheduling(event);
        if finder.has_added() || irqs.has_any() {
            whole = None;
        } else if let Some(builder) = &mut whole {
            builder.take(event);
        }
    })?;
    if !has_events && !head.has_times() {
        return Err(Stop::Error(ReadError::NoEvents { dropped: head.dropped }));
    }
    // Which side of it is damaged, all events tell.
    if is_torn {
        return Err(Stop::Whole);
    }
    let (gaps, mut added) = finder.finish();
    // As those that are kept in memory: of the same place they stay in their order.
    added.sort_by_key(|(index, event)| (event.at, *index));
    let (builder, head) = match whole.filter(|_| added.is_empty()) {
        Some(builder) => (builder, head),
        None => {
            let mut builder = Builder::new(irqs, Out::Drop);
            let head = merged(source, &added, |event| builder.take(event))?;
            (builder, head)
        }
    };
    let mut head = head;
    head.skips.append(doubled.skips);
    let (known, meta) = (builder.known(), builder.meta(head, gaps));
    Ok(Survey { meta, added, known, irqs })
}

/// Reads a recording for the third time, and gives its records.
///
/// # Errors
/// It cannot be read any more.
fn records<'p>(source: &mut impl Source<'p>, survey: &Survey<'p>, give: &mut dyn FnMut(&Record)) -> Result<(), Stop> {
    let mut builder = Builder::new(survey.irqs, Out::Give(&survey.known, give));
    merged(source, &survey.added, |event| builder.take(event)).map(drop)
}

/// Reads a recording with the events that are missing in it.
fn merged<'p>(
    source: &mut impl Source<'p>,
    added: &[Added<'p>],
    mut take: impl FnMut(&Event<'p>),
) -> Result<Head, Stop> {
    let (mut rest, mut index) = (added, 0);
    let mut doubled = Doubled::default();
    let head = source.read(&mut |event| {
        if doubled.is_copy(event) {
            return;
        }
        while let Some((first, others)) = rest.split_first()
            && (first.1.at, first.0) <= (event.at, index)
        {
            take(&first.1);
            rest = others;
        }
        take(event);
        index += 1;
    })?;
    rest.iter().for_each(|(_, event)| take(event));
    Ok(head)
}

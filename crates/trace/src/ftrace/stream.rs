//! A text that is read line by line, three times ([`kernel::stream`](crate::kernel::stream)).

use super::{Reader, overwritten, unknown};
use crate::error::ReadError;
use crate::kernel::Head;
use crate::kernel::event::Event;
use crate::kernel::pool::{Names, Pool};
use crate::kernel::stream::{self, Source, Stop};
use crate::meta::Meta;
use crate::packed::Input;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use zerolag_model::{CpuId, Instant, Record};

/// Gives the records of a text, in order, to what `start` makes of its description; `None` if its
/// lines are not in order of time.
///
/// # Errors
/// As [`read`](super::read).
pub(crate) fn each<T>(
    input: &Input<'_>,
    start: impl FnOnce(&Meta) -> T,
    give: impl FnMut(&mut T, &Record),
) -> Result<Option<(T, Meta)>, ReadError> {
    let pool = Pool::default();
    let mut text = Text { input, names: Names::new(&pool), overwritten: None };
    stream::each(&mut text, start, give)
}

struct Text<'p, 'f> {
    input: &'f Input<'f>,
    names: Names<'p>,
    /// Of a text whose oldest events were overwritten: its first time, and its CPUs.
    overwritten: Option<(Instant, BTreeSet<CpuId>)>,
}

impl<'p> Source<'p> for Text<'p, '_> {
    fn read(&mut self, give: &mut dyn FnMut(&Event<'p>)) -> Result<Head, Stop> {
        if self.overwritten.is_none() && self.is_overwritten()? {
            let (mut first, mut cpus) = (None, BTreeSet::new());
            self.lines(&mut |event| {
                first.get_or_insert(event.at);
                cpus.insert(event.cpu);
            })?;
            self.overwritten = Some((first.unwrap_or(Instant::ZERO), cpus));
        }
        if let Some((first, cpus)) = &self.overwritten {
            overwritten(*first, cpus.iter().copied()).for_each(|event| give(&event));
        }
        let (head, is_overwritten) = self.lines(give)?;
        // The remark stands behind the head, where `is_overwritten` does not look.
        if is_overwritten && self.overwritten.is_none() {
            return Err(Stop::Whole);
        }
        Ok(head)
    }
}

impl<'p> Text<'p, '_> {
    /// Returns whether the head of the text says that its oldest events were overwritten.
    fn is_overwritten(&self) -> Result<bool, Stop> {
        let (mut input, mut line) = (BufReader::new(self.input.open()?), Vec::new());
        loop {
            line.clear();
            input.read_until(b'\n', &mut line)?;
            match String::from_utf8_lossy(&line) {
                text if text.starts_with('#') => {
                    if let Ok(super::Parsed::Overwritten(_)) = super::line::parse(text.trim_end()) {
                        return Ok(true);
                    }
                }
                text if text.is_empty() || !text.trim().is_empty() => return Ok(false),
                _ => {}
            }
        }
    }

    /// Reads all lines and gives their events; also returns whether a line says that the oldest
    /// events were overwritten.
    fn lines(&mut self, give: &mut dyn FnMut(&Event<'p>)) -> Result<(Head, bool), Stop> {
        let mut input = BufReader::with_capacity(1 << 16, self.input.open()?);
        let (mut reader, mut line, mut number) = (Reader::default(), Vec::new(), 0);
        let mut begin: Option<Vec<u8>> = None;
        let mut order = Order::default();
        loop {
            line.clear();
            input.read_until(b'\n', &mut line)?;
            number += 1;
            if begin.is_none() {
                begin = Some(line.iter().copied().take(64).collect());
            }
            let text = String::from_utf8_lossy(&line);
            let Some(text) = text.strip_suffix('\n') else {
                reader.take_cut(number, &text);
                break;
            };
            let names = &mut self.names;
            reader.take(number, text.strip_suffix('\r').unwrap_or(text), |event| {
                event.with_names(|task| names.keep_of(task.tid, task.comm))
            });
            if reader.is_no_trace() {
                return Err(Stop::Error(unknown(&begin.unwrap_or_default())));
            }
            if number % BATCH == 0 {
                for event in reader.ready() {
                    order.check(&event)?;
                    give(&event);
                }
            }
        }
        let is_overwritten = reader.is_overwritten;
        let (head, events) = reader.finish(&begin.unwrap_or_default()).map_err(Stop::Error)?;
        for event in events {
            order.check(&event)?;
            give(&event);
        }
        Ok((head, is_overwritten))
    }
}

/// So many lines are read before their events are given.
const BATCH: usize = 1024;

/// The time of the last event.
#[derive(Default)]
struct Order(Instant);

impl Order {
    fn check(&mut self, event: &Event<'_>) -> Result<(), Stop> {
        if event.at < self.0 {
            return Err(Stop::Whole);
        }
        self.0 = event.at;
        Ok(())
    }
}

//! A text that is read line by line, three times ([`kernel::stream`](crate::kernel::stream)).

use super::bytes;
use super::line::{self, Parsed};
use super::reader::{Reader, overwritten, unknown};
use super::states;
use crate::error::ReadError;
use crate::kernel::event::Event;
use crate::kernel::head::Head;
use crate::kernel::pool::{Names, Pool};
use crate::kernel::state::States;
use crate::kernel::stream::{Source, Stop, Way};
use crate::packed::Input;
use crate::text::as_text;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use zerolag_model::{CpuId, Instant};

/// Reads a file in a way; `None` if its lines are not in order of time.
///
/// # Errors
/// As [`read`](super::read).
pub(crate) fn each<W: Way>(input: &Input<'_>, way: W) -> Result<Option<W::Done>, ReadError> {
    let pool = Pool::default();
    let states = states::of_input(|| input.open())?;
    let mut text = Text { input, states, names: Names::new(&pool), is_once: W::IS_ONCE, overwritten: None };
    way.read(&mut text)
}

struct Text<'p, 'f> {
    input: &'f Input<'f>,
    states: States,
    names: Names<'p>,
    /// Whether it is read once only.
    is_once: bool,
    /// Of a text whose oldest events were overwritten: its first time, and its CPUs.
    overwritten: Option<(Instant, BTreeSet<CpuId>)>,
}

impl<'p> Source<'p> for Text<'p, '_> {
    fn read(&mut self, give: &mut dyn FnMut(&Event<'p>)) -> Result<Head, Stop> {
        if self.overwritten.is_none() && self.is_overwritten()? {
            if self.is_once {
                return Err(Stop::Whole);
            }
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
                    if let Ok(Parsed::Overwritten(_)) = line::parse(text.trim_end()) {
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
        let mut input = self.input.open()?;
        let (mut reader, mut order, mut number) = (Reader::new(self.states), Order::default(), 0);
        // What was read, from the beginning of a line on.
        let (mut block, mut begin) = (Vec::new(), Vec::new());
        loop {
            let searched = block.len();
            let is_end = input.by_ref().take(BLOCK).read_to_end(&mut block)? == 0;
            if number == 0 {
                begin = block.iter().copied().take(64).collect();
            }
            let end = whole_lines(&block, searched);
            let (lines, rest) = block.split_at(end);
            let text = as_text(lines);
            let (mut lines, names) = (&*text, &mut self.names);
            while let Some(end) = bytes::find(lines.as_bytes(), b'\n') {
                number += 1;
                let line = &lines[..end];
                reader.take(number, line.strip_suffix('\r').unwrap_or(line), |event| {
                    event.with_names(|task| names.keep_of(task.tid, task.comm))
                });
                if reader.is_no_trace() {
                    return Err(Stop::Error(unknown(&begin)));
                }
                lines = &lines[end + 1..];
            }
            if is_end {
                reader.take_cut(number + 1, &as_text(rest));
                break;
            }
            for event in reader.ready() {
                order.check(&event)?;
                give(&event);
            }
            drop(text);
            block.drain(..end);
        }
        let is_overwritten = reader.is_overwritten;
        let (head, events) = reader.finish(&begin).map_err(Stop::Error)?;
        for event in events {
            order.check(&event)?;
            give(&event);
        }
        Ok((head, is_overwritten))
    }
}

/// Returns the length of the whole lines of a block whose first bytes, so many, have been searched
/// and have no line break. A line can be as long as the file, so no byte is searched twice.
fn whole_lines(block: &[u8], searched: usize) -> usize {
    block[searched..].iter().rposition(|byte| *byte == b'\n').map_or(0, |last| searched + last + 1)
}

/// So many bytes are read before the events of their lines are given.
const BLOCK: u64 = 1 << 17;

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

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 MB without a line break took 39 s: each block was searched with all before it.
    #[test]
    fn no_byte_of_a_long_line_is_searched_twice() {
        assert_eq!(whole_lines(b"one\ntwo\nthr", 0), 8);
        assert_eq!(whole_lines(b"one", 0), 0);
        assert_eq!(whole_lines(b"one two\nthree", 3), 8);
        assert_eq!(whole_lines(b"searched\n, so it has none", 9), 0);
    }
}

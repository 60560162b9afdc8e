//! The fenced blocks of a spec.
//!
//! A block is opened by a line of exactly three backticks and one of our words, and closed by a
//! line of three backticks. Every other fence, of more backticks or with another word, is prose up
//! to its own end.

use super::{ByteRange, Problem};

/// The kind of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SpecBlockKind {
    /// A scenario.
    Scenario,
    /// A row per CPU.
    Timeline,
    /// Every switch.
    Switches,
    /// Every event.
    Events,
    /// Times and counters.
    Totals,
    /// How the run ended.
    End,
}

impl SpecBlockKind {
    const ALL: [Self; 6] = [Self::Scenario, Self::Timeline, Self::Switches, Self::Events, Self::Totals, Self::End];

    /// Returns the word that opens a block.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Scenario => "toml",
            Self::Timeline => "timeline",
            Self::Switches => "switches",
            Self::Events => "events",
            Self::Totals => "totals",
            Self::End => "end",
        }
    }
}

/// A block of a spec.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Block<'a> {
    /// Its kind.
    pub(super) kind: SpecBlockKind,
    /// The rest of the line that opens it.
    pub(super) info: &'a str,
    /// The line that opens it, from 1.
    pub(super) line: usize,
    /// The text between the fences, including the end of its last line.
    pub(super) body: &'a str,
    /// Its position in the text.
    pub(super) range: ByteRange,
}

/// Returns the blocks of a text in order. O(text).
pub(super) fn blocks(text: &str) -> Result<Vec<Block<'_>>, Problem> {
    let mut found = Vec::new();
    let mut lines = Lines { text, at: 0, line: 0 };
    while let Some((opening, _)) = lines.next() {
        let ticks = opening.len() - opening.trim_start_matches('`').len();
        if ticks < 3 {
            continue;
        }
        let line = lines.line;
        let body_start = lines.at;
        let body_end = loop {
            let Some((closing, start)) = lines.next() else {
                return Err(Problem::at(line, "this block is never closed"));
            };
            let closing = closing.trim_end();
            if closing.len() >= ticks && closing.bytes().all(|byte| byte == b'`') {
                break start;
            }
        };
        let info = opening[ticks..].trim();
        let (word, info) = info.split_once(char::is_whitespace).unwrap_or((info, ""));
        let kind = SpecBlockKind::ALL.into_iter().find(|kind| ticks == 3 && kind.name() == word);
        if let Some(kind) = kind {
            found.push(Block { kind, info, line, body: &text[body_start..body_end], range: body_start..body_end });
        }
    }
    Ok(found)
}

/// Lines with their positions.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    /// The number of the line returned last.
    line: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<(&'a str, usize)> {
        let start = self.at;
        let rest = &self.text[start..];
        if rest.is_empty() {
            return None;
        }
        let len = rest.find('\n').map_or(rest.len(), |end| end + 1);
        self.at += len;
        self.line += 1;
        Some((&rest[..len], start))
    }
}

//! [`Draft`]: a scenario as parts that can be taken away.

use std::fmt;

/// A line of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Line {
    /// `key = value`, as it is written.
    Text(String),
    /// `key = [item, item]`: the items can be taken away one by one.
    List(&'static str, Vec<String>),
}

/// A table: its head, and its lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Block {
    /// `[task.a]`; empty for the top level.
    pub(super) head: String,
    pub(super) lines: Vec<Line>,
}

impl Block {
    pub(super) fn new(head: impl Into<String>) -> Self {
        Self { head: head.into(), lines: Vec::new() }
    }

    pub(super) fn line(&mut self, text: impl Into<String>) -> &mut Self {
        self.lines.push(Line::Text(text.into()));
        self
    }

    pub(super) fn list(&mut self, key: &'static str, items: Vec<String>) -> &mut Self {
        self.lines.push(Line::List(key, items));
        self
    }
}

/// A scenario as tables, lines and items of lists. [`Display`](fmt::Display) writes the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Draft {
    pub(super) blocks: Vec<Block>,
}

impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, block) in self.blocks.iter().enumerate() {
            if !block.head.is_empty() {
                writeln!(f, "{}{}", if index > 0 { "\n" } else { "" }, block.head)?;
            }
            for line in &block.lines {
                match line {
                    Line::Text(text) => writeln!(f, "{text}")?,
                    Line::List(key, items) => writeln!(f, "{key} = [{}]", items.join(", "))?,
                }
            }
        }
        Ok(())
    }
}

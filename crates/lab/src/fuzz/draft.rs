//! [`Draft`]: a scenario as parts that can be taken away.

use super::twin::Twin;
use std::fmt;

/// A line of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ScenarioLine {
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
    pub(super) lines: Vec<ScenarioLine>,
}

impl Block {
    pub(super) fn new(head: impl Into<String>) -> Self {
        Self { head: head.into(), lines: Vec::new() }
    }

    pub(super) fn line(&mut self, text: impl Into<String>) -> &mut Self {
        self.lines.push(ScenarioLine::Text(text.into()));
        self
    }

    /// Returns the value of a line `key = value`.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| match line {
            ScenarioLine::Text(text) => text.strip_prefix(key)?.strip_prefix(" = "),
            ScenarioLine::List(..) => None,
        })
    }

    /// Replaces the value of a line, or adds the line.
    pub(super) fn set(&mut self, key: &str, value: &str) {
        let text = format!("{key} = {value}");
        let is_it = |line: &&mut ScenarioLine| matches!(line, ScenarioLine::Text(text) if text.starts_with(&format!("{key} = ")));
        match self.lines.iter_mut().find(is_it) {
            Some(line) => *line = ScenarioLine::Text(text),
            None => self.lines.push(ScenarioLine::Text(text)),
        }
    }

    pub(super) fn list(&mut self, key: &'static str, items: Vec<String>) -> &mut Self {
        self.lines.push(ScenarioLine::List(key, items));
        self
    }
}

/// A scenario as tables, lines and items of lists. [`Display`](fmt::Display) writes the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Draft {
    pub(super) blocks: Vec<Block>,
    /// What it is compared with.
    pub(super) twin: Option<Twin>,
}

impl Draft {
    /// Changes every text of a line or an item of a list.
    pub(super) fn each_text(&mut self, change: &mut impl FnMut(&mut String)) {
        for line in self.blocks.iter_mut().flat_map(|block| &mut block.lines) {
            match line {
                ScenarioLine::Text(text) => change(text),
                ScenarioLine::List(_, items) => items.iter_mut().for_each(&mut *change),
            }
        }
    }
}

impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, block) in self.blocks.iter().enumerate() {
            if !block.head.is_empty() {
                writeln!(f, "{}{}", if index > 0 { "\n" } else { "" }, block.head)?;
            }
            for line in &block.lines {
                match line {
                    ScenarioLine::Text(text) => writeln!(f, "{text}")?,
                    ScenarioLine::List(key, items) => writeln!(f, "{key} = [{}]", items.join(", "))?,
                }
            }
        }
        Ok(())
    }
}

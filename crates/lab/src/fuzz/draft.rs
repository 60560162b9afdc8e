//! [`Draft`]: a scenario as parts that can be taken away.

use super::trip::Trip;
use super::twin::Twin;
use std::fmt;
use zerolag::background::Background;
use zerolag::simulation::Plan;
use zerolag_model::settings::SchedExtPolicy;
use zerolag_sim::Costs;
use zerolag_workload::{LoadOptions, load};

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

    /// Takes the lines of a key away.
    pub(super) fn unset(&mut self, key: &str) {
        self.lines.retain(
            |line| !matches!(line, ScenarioLine::Text(text) if text.strip_prefix(key).is_some_and(|rest| rest.starts_with(" = "))),
        );
    }

    /// Changes every text of a line or an item of a list.
    pub(super) fn each_text(&mut self, change: &mut impl FnMut(&mut String)) {
        for line in &mut self.lines {
            match line {
                ScenarioLine::Text(text) => change(text),
                ScenarioLine::List(_, items) => items.iter_mut().for_each(&mut *change),
            }
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
    /// Where its trace is sent and comes back from.
    pub(super) trip: Option<Trip>,
    /// The file of its costs, as one table without a head; none where the scenario names a profile.
    pub(super) costs: Option<Block>,
    /// The kernel's own threads besides it.
    pub(super) background: Background,
}

impl Draft {
    /// Returns the draft of a scenario's text, whose parts are not known.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let mut block = Block::new("");
        block.line(text);
        Self { blocks: vec![block], ..Self::default() }
    }

    /// Lets a built-in policy schedule its fair tasks, whatever was drawn.
    pub fn load(&mut self, policy: SchedExtPolicy) {
        for block in self.blocks.iter_mut().filter(|block| block.head == "[settings]") {
            block.set("sched_ext", "\"all\"");
            block.set("\"sched_ext.policy\"", &format!("\"{policy}\""));
        }
    }

    /// Returns the text of its cost profile, if it has one of its own.
    #[must_use]
    pub fn costs(&self) -> Option<String> {
        let costs = self.costs.as_ref()?;
        Some(Self { blocks: vec![costs.clone()], ..Self::default() }.to_string())
    }

    /// Returns the options of the command line that the run needs, with the name of the file of its
    /// costs; empty if it needs none.
    #[must_use]
    pub fn options(&self, costs: &str) -> String {
        let of_costs = self.costs.as_ref().map(|_| format!("--costs {costs}"));
        let background = match self.background {
            Background::Profile => None,
            Background::None => Some("none"),
            Background::Idle => Some("idle"),
            Background::Kernel => Some("kernel"),
        };
        let all = of_costs.into_iter().chain(background.map(|threads| format!("--background {threads}")));
        all.collect::<Vec<_>>().join(" ")
    }

    /// Returns what is simulated.
    ///
    /// # Errors
    /// The scenario, or its costs, are not valid.
    pub fn plan(&self) -> Result<Plan, String> {
        let text = self.to_string();
        let scenario = load("fuzz.toml", text.as_bytes(), &LoadOptions::default()).map_err(|why| why.to_string())?;
        let mut plan = Plan::new(scenario).map_err(|why| why.to_string())?;
        if let Some(costs) = self.costs() {
            plan.config.costs = Costs::from_toml("fuzz", &costs).map_err(|why| format!("costs: {why}"))?;
        }
        Ok(plan.with_background(self.background))
    }

    /// Changes every text of a line or an item of a list.
    pub(super) fn each_text(&mut self, change: &mut impl FnMut(&mut String)) {
        self.blocks.iter_mut().for_each(|block| block.each_text(change));
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

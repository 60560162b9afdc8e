//! [`Sequence`]: the turns of tasks on one CPU, in order with their lengths; and the similarity of
//! two sequences.
//!
//! Shares can agree where schedules do not. Where a case is deterministic, its recording contains
//! the *sequence* of turns, and ours is compared with it turn by turn. A turn agrees with another
//! if it has the same task and the same length, within the case's tolerance. The similarity is an
//! edit distance: the number of turns that must be inserted, deleted or replaced to turn the most
//! similar part of our sequence into the recorded one. Our sequence is longer than the recorded
//! one, so that the position at which the recording began does not matter.
//!
//! The recorded sequences contain only turns of the case's tasks: a kernel thread that interrupts a
//! turn is removed. Tasks that differ only in name may exchange their names.
//!
//! Complexity: O(recorded turns x our turns) time per way to exchange names, O(our turns) memory.

use zerolag_model::Duration;

/// The time of one task on a CPU, up to the next task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The task.
    pub task: String,
    /// The length.
    pub run: Duration,
}

/// Turns in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sequence(Vec<Turn>);

impl Sequence {
    /// Reads a recorded sequence: a line per turn, `TASK MICROSECONDS`; `#` starts a comment.
    ///
    /// # Errors
    /// The first invalid line, with its number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut turns = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let turn = line.split_once(' ').and_then(|(task, run)| {
                let run = Duration::from_micros(run.trim().parse().ok()?);
                Some(Turn { task: task.to_owned(), run })
            });
            turns.push(turn.ok_or_else(|| format!("line {number}: `{line}` is not `TASK MICROSECONDS`"))?);
        }
        Ok(Self(turns))
    }

    /// Adds a turn; a turn of the same task as the last one extends it.
    pub fn push(&mut self, task: &str, run: Duration) {
        match self.0.last_mut() {
            Some(last) if last.task == task => last.run = last.run.saturating_add(run),
            _ => self.0.push(Turn { task: task.to_owned(), run }),
        }
    }

    /// Returns the number of turns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no turns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the similarity in percent: how many of these turns `ours` has somewhere, in this
    /// order, less its turns in between. The names of `alike` are exchanged in all ways; the best
    /// one counts.
    #[must_use]
    pub fn agreement(&self, ours: &Self, alike: &[Vec<String>], within: Duration) -> f64 {
        let mut ways = vec![self.clone()];
        for set in alike {
            ways = ways.iter().flat_map(|way| permutations(set).map(|names| way.renamed(set, &names))).collect();
        }
        let distance = ways.iter().map(|way| way.distance(ours, within)).min().unwrap_or(0);
        self.len().saturating_sub(distance) as f64 * 100.0 / self.len().max(1) as f64
    }

    /// Renames the tasks of a set by the names at the same positions in another.
    fn renamed(&self, set: &[String], names: &[String]) -> Self {
        let name = |task: &String| set.iter().position(|one| one == task).map_or(task, |at| &names[at]).clone();
        Self(self.0.iter().map(|turn| Turn { task: name(&turn.task), run: turn.run }).collect())
    }

    /// Returns the smallest edit distance to a part of `ours`.
    fn distance(&self, ours: &Self, within: Duration) -> usize {
        // The empty sequence has distance zero from any part of ours.
        let mut above = vec![0; ours.len() + 1];
        for (row, turn) in self.0.iter().enumerate() {
            let mut here = Vec::with_capacity(above.len());
            here.push(row + 1);
            for (column, other) in ours.0.iter().enumerate() {
                let apart = turn.run.max(other.run).saturating_sub(turn.run.min(other.run));
                let agrees = turn.task == other.task && apart <= within;
                let replaced = above[column] + usize::from(!agrees);
                here.push(replaced.min(above[column + 1] + 1).min(here[column] + 1));
            }
            above = here;
        }
        above.into_iter().min().unwrap_or(0)
    }
}

/// Returns all orders of a set.
fn permutations(set: &[String]) -> impl Iterator<Item = Vec<String>> + use<> {
    let mut orders: Vec<Vec<String>> = vec![Vec::new()];
    for name in set {
        let longer = |order: &Vec<String>| {
            let order = order.clone();
            let name = name.clone();
            (0..=order.len()).map(move |at| [&order[..at], core::slice::from_ref(&name), &order[at..]].concat())
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(4);
    const WITHIN: Duration = Duration::from_millis(1);

    fn turns(text: &str) -> Sequence {
        Sequence::parse(text).expect("turns")
    }

    fn times(text: &str, count: usize) -> Sequence {
        turns(&text.repeat(count))
    }

    #[test]
    fn it_does_not_matter_where_in_its_cycle_a_recording_began() {
        let recorded = times("b 4010\na 4000\n", 10);
        assert_eq!(recorded.agreement(&times("a 4000\nb 4000\n", 20), &[], WITHIN), 100.0);
        assert_eq!(recorded.agreement(&Sequence::default(), &[], WITHIN), 0.0);
    }

    #[test]
    fn each_turn_that_differs_counts() {
        let recorded = times("a 4000\nb 4000\n", 10);
        let longer = times("a 8000\nb 4000\n", 20);
        assert_eq!(recorded.agreement(&longer, &[], WITHIN), 50.0);
        assert_eq!(recorded.agreement(&times("c 4000\nd 4000\n", 20), &[], WITHIN), 0.0);
        let mut missing = times("a 4000\nb 4000\n", 5);
        missing.push("c", TICK);
        missing.0.extend(times("a 4000\nb 4000\n", 5).0);
        assert_eq!(recorded.agreement(&missing, &[], WITHIN), 95.0, "one too many");
    }

    #[test]
    fn a_task_that_goes_on_has_one_turn() {
        let mut sequence = Sequence::default();
        for task in ["a", "a", "b", "a"] {
            sequence.push(task, TICK);
        }
        assert_eq!(sequence, turns("a 8000 # two ticks\n\nb 4000\na 4000\n"));
    }

    #[test]
    fn those_that_differ_in_name_only_may_have_any_of_their_names() {
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        let recorded = times("d 4000\nb 4000\na 4000\nc 8000\n", 4);
        let ours = times("a 4000\nb 4000\nc 4000\nd 8000\n", 8);
        assert_eq!(recorded.agreement(&ours, &[names.to_vec()], WITHIN), 100.0);
        let two = [vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned(), "d".to_owned()]];
        assert!(recorded.agreement(&ours, &two, WITHIN) < 60.0, "d is no a");
        assert_eq!(permutations(&names).count(), 24);
    }

    #[test]
    fn what_is_no_turn_is_refused_with_its_line() {
        let error = Sequence::parse("# c02\na 4000\nb\n").expect_err("no time");
        assert_eq!(error, "line 3: `b` is not `TASK MICROSECONDS`");
    }
}

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
//! Complexity: O(recorded turns x our turns) time per tried way to exchange names, of which there
//! are at most [`ALL_WAYS`] or O(names^3), and O(recorded turns x our turns) memory.

use std::collections::BTreeMap;
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

    /// Returns the lengths of each task's turns; tasks of a set of `alike` are one, with the name
    /// of the first.
    #[must_use]
    pub(super) fn lengths<'a>(&'a self, alike: &'a [Vec<String>]) -> BTreeMap<&'a str, Vec<Duration>> {
        let mut lengths: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
        for turn in &self.0 {
            let set = alike.iter().find(|set| set.contains(&turn.task));
            let name = set.map_or(&turn.task, |set| &set[0]);
            lengths.entry(name).or_default().push(turn.run);
        }
        lengths
    }

    /// Returns the similarity in percent: how many of these turns `ours` has somewhere, in this
    /// order, less its turns in between. The names of `alike` are exchanged; the best way that is
    /// found counts (`best`).
    #[must_use]
    pub fn agreement(&self, ours: &Self, alike: &[Vec<String>], within: Duration) -> f64 {
        let mut numbers = BTreeMap::new();
        let [recorded, simulated] = [self, ours].map(|sequence| sequence.numbered(&mut numbers));
        let number = |name: &String| numbers.get(name).copied();
        let sets: Vec<Vec<u32>> = alike.iter().map(|set| set.iter().filter_map(number).collect()).collect();
        let distance = best(&recorded, &simulated, &sets, within);
        self.len().saturating_sub(distance) as f64 * 100.0 / self.len().max(1) as f64
    }

    /// Returns the turns with numbers in place of names.
    fn numbered(&self, numbers: &mut BTreeMap<String, u32>) -> Vec<(u32, Duration)> {
        let mut number = |name: &String| {
            let next = numbers.len() as u32;
            *numbers.entry(name.clone()).or_insert(next)
        };
        self.0.iter().map(|turn| (number(&turn.task), turn.run)).collect()
    }
}

/// The most ways to exchange names of which each is tried.
const ALL_WAYS: u64 = 120;

/// For each recorded name, the name that it stands for.
type Names = BTreeMap<u32, u32>;

/// Returns the smallest edit distance under exchanges of names within sets.
///
/// Up to [`ALL_WAYS`] ways, all are tried. The number of ways is factorial, so with more the search
/// begins with the names that fit best if names do not count, and exchanges two of them as long as
/// that makes the distance smaller. It then can miss the best way, never find one that is too good.
fn best(recorded: &[(u32, Duration)], ours: &[(u32, Duration)], sets: &[Vec<u32>], within: Duration) -> usize {
    let ways = sets.iter().flat_map(|set| 1..=set.len() as u64).try_fold(1_u64, u64::checked_mul);
    if ways.is_some_and(|ways| ways <= ALL_WAYS) {
        let mut all = vec![Names::new()];
        for set in sets {
            let longer = |way: &Names, names: Vec<u32>| {
                let mut way = way.clone();
                way.extend(set.iter().copied().zip(names));
                way
            };
            all = all.iter().flat_map(|way| permutations(set).map(move |names| longer(way, names))).collect();
        }
        return all.iter().map(|way| distance(recorded, ours, way, within)).min().unwrap_or(0);
    }
    let mut names = likely(recorded, ours, sets, within);
    let mut least = distance(recorded, ours, &names, within);
    loop {
        let pairs = sets.iter().flat_map(|set| {
            let later = move |at: usize| set[at + 1..].iter().map(move |other| (set[at], *other));
            (0..set.len()).flat_map(later)
        });
        let exchanged = pairs.map(|(one, other)| {
            let mut exchanged = names.clone();
            exchanged.insert(one, names[&other]);
            exchanged.insert(other, names[&one]);
            (distance(recorded, ours, &exchanged, within), exchanged)
        });
        match exchanged.min_by_key(|(distance, _)| *distance) {
            Some((smaller, better)) if smaller < least => (least, names) = (smaller, better),
            _ => return least,
        }
    }
}

/// Returns the smallest edit distance to a part of `ours`, under names.
///
/// The table of distances is kept as its differences of 1, 0 or -1 from row to row, 64 rows in a
/// word: G. Myers, "A fast bit-vector algorithm for approximate string matching based on dynamic
/// programming", J. ACM 46 (1999); H. Hyyro's form for more than one word. Cell by cell, the same
/// took four fifths of a validation. O(recorded turns x our turns / 64), and O(1) per pair of turns
/// that agree.
fn distance(recorded: &[(u32, Duration)], ours: &[(u32, Duration)], names: &Names, within: Duration) -> usize {
    let Some(last) = recorded.len().checked_sub(1) else { return 0 };
    let mut rows: BTreeMap<u32, Vec<(Duration, usize)>> = BTreeMap::new();
    for (row, (task, run)) in recorded.iter().enumerate() {
        rows.entry(*names.get(task).unwrap_or(task)).or_default().push((*run, row));
    }
    rows.values_mut().for_each(|rows| rows.sort_unstable());
    let mut blocks = vec![Differences { rise: u64::MAX, fall: 0 }; last / 64 + 1];
    let mut agree = vec![0_u64; blocks.len()];
    // The empty sequence has distance zero from any part of ours; the recorded one has all its
    // turns from the empty part.
    let (mut here, mut least) = (recorded.len() as isize, recorded.len() as isize);
    for (task, length) in ours {
        agree.fill(0);
        let rows = rows.get(task).map_or(&[][..], Vec::as_slice);
        let from = rows.partition_point(|(run, _)| *run < length.saturating_sub(within));
        for (_, row) in rows[from..].iter().take_while(|(run, _)| are_near(*run, *length, within)) {
            agree[row / 64] |= 1 << (row % 64);
        }
        let mut change = 0;
        for (block, (differences, agree)) in blocks.iter_mut().zip(&agree).enumerate() {
            let lowest = if block == last / 64 { last % 64 } else { 63 };
            change = differences.advance(*agree, change, lowest);
        }
        here += change;
        least = least.min(here);
    }
    least as usize
}

/// The differences between 64 rows of one column of a table of distances.
#[derive(Clone, Copy)]
struct Differences {
    /// The rows whose distance is one larger than that of the row above.
    rise: u64,
    /// The rows whose distance is one smaller.
    fall: u64,
}

impl Differences {
    /// Goes on to the next column, with whose turn the rows of `agree` agree. `change` is the
    /// difference between both columns in the row above these; returns that in row `lowest`.
    fn advance(&mut self, agree: u64, change: isize, lowest: usize) -> isize {
        let Self { rise, fall } = *self;
        let diagonal = agree | fall;
        let agree = agree | u64::from(change < 0);
        let zero = ((agree & rise).wrapping_add(rise) ^ rise) | agree;
        let (more, less) = (fall | !(zero | rise), rise & zero);
        let bit = |mask: u64| (mask >> lowest & 1) as isize;
        let (more_below, less_below) = (more << 1 | u64::from(change > 0), less << 1 | u64::from(change < 0));
        *self = Self { rise: less_below | !(diagonal | more_below), fall: more_below & diagonal };
        bit(more) - bit(less)
    }
}

fn are_near(one: Duration, other: Duration, within: Duration) -> bool {
    one.max(other).saturating_sub(one.min(other)) <= within
}

/// Returns names for the tasks of the sets: those with which most turns agree in the best alignment
/// of the sequences in which all names of a set are the same.
fn likely(recorded: &[(u32, Duration)], ours: &[(u32, Duration)], sets: &[Vec<u32>], within: Duration) -> Names {
    let set_of = |task: u32| sets.iter().position(|set| set.contains(&task));
    let is_same = |one: u32, other: u32| one == other || set_of(one).is_some_and(|set| set_of(other) == Some(set));
    let width = ours.len() + 1;
    let mut cells = vec![0_u32; (recorded.len() + 1) * width];
    for (row, (task, run)) in recorded.iter().enumerate() {
        let (above, here) = (row * width, (row + 1) * width);
        cells[here] = row as u32 + 1;
        for (column, (other, length)) in ours.iter().enumerate() {
            let agrees = is_same(*task, *other) && are_near(*run, *length, within);
            let replaced = cells[above + column] + u32::from(!agrees);
            cells[here + column + 1] = replaced.min(cells[above + column + 1] + 1).min(cells[here + column] + 1);
        }
    }
    let mut counts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    let mut row = recorded.len();
    let mut column = (0..width).min_by_key(|column| cells[row * width + column]).unwrap_or(0);
    while row > 0 && column > 0 {
        let (here, (task, run), (other, length)) = (cells[row * width + column], recorded[row - 1], ours[column - 1]);
        let agrees = is_same(task, other) && are_near(run, length, within);
        if here == cells[(row - 1) * width + column - 1] + u32::from(!agrees) {
            *counts.entry((task, other)).or_default() += usize::from(agrees);
            (row, column) = (row - 1, column - 1);
        } else if here == cells[(row - 1) * width + column] + 1 {
            row -= 1;
        } else {
            column -= 1;
        }
    }
    let mut names = Names::new();
    for set in sets {
        let (mut tasks, mut free) = (set.clone(), set.clone());
        while !tasks.is_empty() {
            let pairs = tasks.iter().flat_map(|task| free.iter().map(move |name| (*task, *name)));
            let count = |pair: &(u32, u32)| counts.get(pair).copied().unwrap_or(0);
            // Of those with the same count the first.
            let Some((task, name)) = pairs.min_by_key(|pair| core::cmp::Reverse(count(pair))) else { break };
            names.insert(task, name);
            tasks.retain(|other| *other != task);
            free.retain(|other| *other != name);
        }
    }
    names
}

/// Returns all orders of a set.
fn permutations(set: &[u32]) -> impl Iterator<Item = Vec<u32>> + use<> {
    let mut orders: Vec<Vec<u32>> = vec![Vec::new()];
    for name in set {
        let longer = |order: &Vec<u32>| {
            let (order, name) = (order.clone(), *name);
            (0..=order.len()).map(move |at| [&order[..at], &[name], &order[at..]].concat())
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
        assert_eq!(permutations(&[0, 1, 2, 3]).count(), 24);
    }

    /// 40320 ways. Eight tasks take turns of three lengths.
    #[test]
    fn the_names_of_many_alike_are_found_without_trying_all_ways() {
        let names: Vec<String> = (0..8).map(|at| format!("t{at}")).collect();
        let turn = |at: usize, lengths: usize| format!("t{at} {}\n", 1000 * (1 + lengths % 3));
        let round =
            |order: [usize; 8]| order.iter().enumerate().map(|(place, at)| turn(*at, place)).collect::<String>();
        let recorded = times(&round([3, 1, 4, 0, 5, 7, 2, 6]), 12);
        let ours = times(&round([0, 1, 2, 3, 4, 5, 6, 7]), 20);
        assert_eq!(recorded.agreement(&ours, &[names], Duration::from_micros(100)), 100.0);
        assert!(recorded.agreement(&ours, &[], Duration::from_micros(100)) < 40.0);
    }

    /// The distance, cell by cell.
    fn by_cells(recorded: &[(u32, Duration)], ours: &[(u32, Duration)], names: &Names, within: Duration) -> usize {
        let mut above = vec![0; ours.len() + 1];
        for (row, (task, run)) in recorded.iter().enumerate() {
            let mut here = vec![row + 1];
            for (column, (other, length)) in ours.iter().enumerate() {
                let agrees = names.get(task).unwrap_or(task) == other && are_near(*run, *length, within);
                let replaced = above[column] + usize::from(!agrees);
                here.push(replaced.min(above[column + 1] + 1).min(here[column] + 1));
            }
            above = here;
        }
        above.into_iter().min().unwrap_or(0)
    }

    /// Lengths around those of words, few and many names, all and no turns that agree.
    #[test]
    fn the_distance_by_words_is_that_by_cells() {
        let mut random = zerolag_workload::random::Stream::new(7, "turns", 0, "distance");
        let names = Names::from([(0, 1), (1, 0)]);
        for recorded in [0, 1, 2, 63, 64, 65, 127, 128, 129, 200] {
            for ours in [0, 1, 64, 150, 300] {
                for tasks in [1, 3, 50] {
                    let mut turns = |count: usize| -> Vec<(u32, Duration)> {
                        let mut turn =
                            || (random.below(tasks) as u32, Duration::from_micros(1000 + 100 * random.below(6)));
                        (0..count).map(|_| turn()).collect()
                    };
                    let (recorded, ours) = (turns(recorded), turns(ours));
                    for within in [0, 150, 1000].map(Duration::from_micros) {
                        let cells = by_cells(&recorded, &ours, &names, within);
                        assert_eq!(distance(&recorded, &ours, &names, within), cells, "{recorded:?} {ours:?}");
                    }
                }
            }
        }
    }

    /// The search agrees with the trial of all ways, where that is possible.
    #[test]
    fn the_search_finds_what_all_ways_find() {
        let turns = |order: &[u32]| -> Vec<(u32, Duration)> {
            order.iter().map(|task| (*task, Duration::from_micros(u64::from(700 + task % 2 * 800)))).collect()
        };
        let recorded = turns(&[2, 0, 1, 3, 2, 0, 3, 1, 2, 0, 1, 3, 0, 2, 1, 3]);
        let ours = turns(&[0, 2, 3, 1, 0, 2, 3, 1, 0, 2, 3, 1, 0, 2, 3, 1, 0, 2, 3, 1]);
        let set = vec![0, 1, 2, 3];
        let within = Duration::from_micros(50);
        let least = permutations(&set)
            .map(|names| distance(&recorded, &ours, &set.iter().copied().zip(names).collect(), within))
            .min();
        assert_eq!(Some(best(&recorded, &ours, std::slice::from_ref(&set), within)), least);
        let names = likely(&recorded, &ours, std::slice::from_ref(&set), within);
        assert_eq!(Some(distance(&recorded, &ours, &names, within)), least);
    }

    #[test]
    fn what_is_no_turn_is_refused_with_its_line() {
        let error = Sequence::parse("# c02\na 4000\nb\n").expect_err("no time");
        assert_eq!(error, "line 3: `b` is not `TASK MICROSECONDS`");
    }
}

//! [`Why`]: the deciding experiments: which mechanism made hard limits lose the machine?
//!
//! Each row changes one thing, or several, and its cells are compared with the published ones as
//! those of the experiment are. No number is fitted.

use super::{Bandwidth2010, Cell2010, Groups, Method, Results, Workload, published};
use core::fmt;
use std::ops::ControlFlow;
use zerolag_report::table::{Align, Table, Titled};

/// What a row changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its name in the table.
    pub name: &'static str,
    groups: Groups,
    /// The last CPUs, which have no thread of the group.
    empty: u32,
    settings: &'static [(&'static str, &'static str)],
}

const NEVER: (&str, &str) = ("hard_limits.borrow", "never");
const ONCE: (&str, &str) = ("hard_limits.borrow", "once_per_period");
const AT_BALANCE: (&str, &str) = ("cgroup_shares", "at_balance");
const OUT: (&str, &str) = ("cgroup_shares", "at_balance_unthrottled");
const BALANCE: (&str, &str) = ("fair_balance", "load_above_capacity");
const CHARGE: (&str, &str) = ("throttle_at", "charge");

impl Change {
    /// All: none, (a) borrowing, (b) two groups, (c) both; (d) CPUs that the group has no thread
    /// on.
    pub const ALL: [Self; 13] = [
        Self { name: "nothing", groups: Groups::One, empty: 0, settings: &[] },
        Self { name: "(a) borrowing once per period", groups: Groups::One, empty: 0, settings: &[ONCE] },
        Self { name: "(a) no borrowing", groups: Groups::One, empty: 0, settings: &[NEVER] },
        Self { name: "throttled at the charge", groups: Groups::One, empty: 0, settings: &[CHARGE] },
        Self { name: "(b) two groups", groups: Groups::Two, empty: 0, settings: &[BALANCE] },
        Self { name: "(b) and shares at balancing", groups: Groups::Two, empty: 0, settings: &[BALANCE, AT_BALANCE] },
        Self { name: "(b) and throttled queues out", groups: Groups::Two, empty: 0, settings: &[BALANCE, OUT] },
        Self { name: "(b), out, at the charge", groups: Groups::Two, empty: 0, settings: &[BALANCE, OUT, CHARGE] },
        Self {
            name: "(c) shares, no borrowing",
            groups: Groups::Two,
            empty: 0,
            settings: &[BALANCE, AT_BALANCE, NEVER],
        },
        Self { name: "(c) out, no borrowing", groups: Groups::Two, empty: 0, settings: &[BALANCE, OUT, NEVER] },
        Self { name: "(d) three empty CPUs", groups: Groups::One, empty: 3, settings: &[] },
        Self { name: "(d) three, no borrowing", groups: Groups::One, empty: 3, settings: &[NEVER] },
        Self { name: "(d) six, no borrowing", groups: Groups::One, empty: 6, settings: &[NEVER] },
    ];
}

/// The deciding experiments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Why {
    /// The cells of each row; its method and settings are the row's.
    pub cells: Bandwidth2010,
    /// The rows.
    pub changes: Vec<Change>,
}

impl Default for Why {
    fn default() -> Self {
        Self { cells: Bandwidth2010 { periods: vec![100], ..Bandwidth2010::default() }, changes: Change::ALL.to_vec() }
    }
}

/// The results: the cells of each row.
#[derive(Clone, PartialEq, Debug)]
pub struct Reasons {
    rows: Vec<(Change, Results)>,
}

impl Why {
    fn row(&self, change: &Change) -> Bandwidth2010 {
        let settings = change.settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let Change { groups, empty, .. } = *change;
        Bandwidth2010 { settings, groups, empty, methods: vec![Method::HardLimits], ..self.cells.clone() }
    }

    /// Returns the number of runs.
    #[must_use]
    pub fn nr_runs(&self) -> u64 {
        self.changes.iter().map(|change| self.row(change).nr_runs()).sum()
    }

    /// Runs all rows; `progress` is called with the number of started cells and can stop the rest.
    ///
    /// # Panics
    /// As [`Bandwidth2010::run`].
    #[must_use]
    pub fn run(&self, progress: impl Fn(u64) -> ControlFlow<()> + Sync) -> Reasons {
        let mut before = 0;
        let mut run = |change: &Change| {
            let row = self.row(change);
            let results = row.run_all(|nth| progress(before + nth));
            before += row.nr_runs();
            (*change, results)
        };
        Reasons { rows: self.changes.iter().map(&mut run).collect() }
    }
}

impl Reasons {
    /// Returns each row's name and its busy part of the machine in percent (loops).
    #[must_use]
    pub fn busy(&self, period: u64, cpus: u32) -> Vec<(&'static str, f64)> {
        let cell = Cell2010 { workload: Workload::Loops, method: Method::HardLimits, period, cpus };
        self.rows.iter().filter_map(|(change, results)| Some((change.name, results.of(cell)?))).collect()
    }

    /// Returns the table: what was changed, and the distance from the published cells.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("changed", Align::Left),
            ("mean", Align::Right),
            ("worst", Align::Right),
            ("at", Align::Left),
            ("loops", Align::Right),
            ("primes", Align::Right),
            ("4 CPUs", Align::Right),
            ("8", Align::Right),
            ("12", Align::Right),
            ("16", Align::Right),
        ]);
        for (change, results) in &self.rows {
            let Some(all) = results.errors(Method::HardLimits, None, None) else { continue };
            let mean = |workload| {
                let errors = results.errors(Method::HardLimits, Some(workload), Some(100));
                errors.map_or_else(|| "-".to_owned(), |errors| format!("{:.1}%", errors.mean))
            };
            let busy = |cpus| {
                let cell = Cell2010 { workload: Workload::Loops, method: Method::HardLimits, period: 100, cpus };
                results.of(cell).map_or_else(|| "-".to_owned(), |value| format!("{value:.1}%"))
            };
            let mut row = vec![
                change.name.to_owned(),
                format!("{:.1}%", all.mean),
                format!("{:+.1}%", all.worst),
                format!("{}, {} CPUs", all.at.workload.name(), all.at.cpus),
                mean(Workload::Loops),
                mean(Workload::Primes),
            ];
            row.extend([4, 8, 12, 16].map(busy));
            table.push(row);
        }
        let text = |cpus| {
            let cell = Cell2010 { workload: Workload::Loops, method: Method::HardLimits, period: 100, cpus };
            published(cell).map_or_else(|| "-".to_owned(), |value| format!("{value:.1}%"))
        };
        let mut row = vec!["(the text)".to_owned()];
        row.extend(["", "", "", "", ""].map(str::to_owned));
        row.extend([4, 8, 12, 16].map(text));
        table.push(row);
        table
    }

    /// Returns the table with its title.
    #[must_use]
    pub fn titled(&self) -> Titled {
        let text =
            "Hard limits, 100 ms: errors in percent of the published cells, and the busy part of the machine (loops).";
        Titled::new("What made hard limits lose the machine?", text, self.table())
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "hard limits, 100 ms, with one change each: errors in percent of the published cells; busy part (loops)\n"
        )?;
        write!(f, "{}", self.table())
    }
}

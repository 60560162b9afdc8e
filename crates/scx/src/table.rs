//! The table of tasks or groups: what each used, and how long it waited.

use crate::account::Account;
use crate::agent::Figures;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The most rows.
const MAX_ROWS: usize = 20;

/// A row.
#[derive(Clone, Debug, Default)]
struct Row {
    name: String,
    weight: Option<u32>,
    used: u64,
    turns: u64,
    waited: u64,
    longest: u64,
}

impl Row {
    fn of(account: &Account) -> Self {
        let Account { pid, comm, weight, used, turns, waited, longest, .. } = account;
        let (used, turns, waited, longest) = (*used, *turns, *waited, *longest);
        Self { name: format!("{comm}[{pid}]"), weight: Some(*weight), used, turns, waited, longest }
    }

    fn add(&mut self, account: &Account) {
        self.used += account.used;
        self.turns += account.turns;
        self.waited += account.waited;
        self.longest = self.longest.max(account.longest);
    }
}

/// Returns the figures as text: a line on the scheduler, and a table of tasks, or of groups.
pub(crate) fn render(name: &str, figures: &Figures, by_group: bool) -> String {
    let elapsed = (figures.now - figures.began).max(1);
    let seconds = elapsed as f64 / 1e9;
    let decisions = figures.decisions as f64;
    let cost = if figures.decisions == 0 { 0.0 } else { figures.cost as f64 / decisions / 1e3 };
    let mut text = format!(
        "{name} for {seconds:.1} s: {:.0} events/s, {:.0} decisions/s, {cost:.1} us of CPU time each ({:.2} % of a CPU), late {} times\n",
        figures.events as f64 / seconds,
        decisions / seconds,
        figures.cost as f64 / elapsed as f64 * 100.0,
        figures.nr_late,
    );
    let mut rows = if by_group { groups(&figures.accounts) } else { figures.accounts.iter().map(Row::of).collect() };
    rows.retain(|row| row.turns > 0);
    rows.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.name.cmp(&b.name)));
    let all: u64 = rows.iter().map(|row| row.used).sum();
    let what = if by_group { "group" } else { "task" };
    let _ = writeln!(text, "  share      used  turns  wait mean  longest  weight  {what}");
    for row in rows.iter().take(MAX_ROWS) {
        let share = row.used as f64 / all.max(1) as f64 * 100.0;
        let mean = millis(row.waited.checked_div(row.turns).unwrap_or(0));
        let weight = row.weight.map_or_else(|| "-".to_owned(), |weight| weight.to_string());
        let _ = writeln!(
            text,
            "{share:5.1} % {:7.2} s {:6} {mean:>10} {:>8} {weight:>7}  {}",
            row.used as f64 / 1e9,
            row.turns,
            millis(row.longest),
            row.name
        );
    }
    if rows.len() > MAX_ROWS {
        let _ = writeln!(text, "  and {} more", rows.len() - MAX_ROWS);
    }
    text
}

fn millis(nanos: u64) -> String {
    format!("{:.2} ms", nanos as f64 / 1e6)
}

/// Returns the paths of all groups, by their numbers.
pub(crate) fn paths() -> BTreeMap<u64, String> {
    let mut names = BTreeMap::new();
    find(Path::new("/sys/fs/cgroup"), "/", 0, &mut names);
    names
}

fn groups(accounts: &[Account]) -> Vec<Row> {
    let names = paths();
    let mut rows: BTreeMap<u64, Row> = BTreeMap::new();
    for account in accounts {
        let row = rows.entry(account.group).or_default();
        row.add(account);
        row.name = match (account.group, names.get(&account.group)) {
            (0 | 1, _) => "/".to_owned(),
            (_, Some(name)) => name.clone(),
            (id, None) => format!("a removed group ({id})"),
        };
    }
    rows.into_values().collect()
}

/// Finds the groups below a directory: the number of a group is that of its directory.
fn find(path: &Path, name: &str, depth: usize, names: &mut BTreeMap<u64, String>) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        let Some(metadata) = entry.metadata().ok().filter(std::fs::Metadata::is_dir) else { continue };
        let below = format!("{}/{}", name.trim_end_matches('/'), entry.file_name().to_string_lossy());
        if depth < 32 {
            find(&entry.path(), &below, depth + 1, names);
        }
        names.insert(metadata.ino(), below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Accounts;

    #[test]
    fn shares_are_of_what_tasks_used() {
        let mut accounts = Accounts::default();
        for (pid, used) in [(1, 100), (2, 300)] {
            accounts.add(pid, "loop".into(), 1, 100);
            accounts.run(pid, 0);
            accounts.stop(pid, used * 1_000_000);
        }
        let figures =
            Figures { now: 400_000_000, accounts: accounts.at(0), decisions: 4, cost: 8_000, ..Figures::default() };
        let text = render("vtime", &figures, false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("10 decisions/s, 2.0 us of CPU time each"), "{text}");
        assert!(lines[2].starts_with(" 75.0 %    0.30 s") && lines[2].ends_with("loop[2]"), "{text}");
        let text = render("vtime", &figures, true);
        assert!(text.lines().nth(2).is_some_and(|line| line.starts_with("100.0 %") && line.ends_with("  /")), "{text}");
    }
}

//! `zerolag figures`: everything that can be measured of a run.
//!
//! The table is [`Quantity::TABLE`]; `docs/reference/figures.md` is what `--page` prints.

use super::{Done, code, output};
use std::fmt::Write;
use zerolag::model::figure::{Better, Owner, Quantity, Row, Several, Stat, Unit};
use zerolag::report::table::{Align, Table};

/// Arguments of `zerolag figures`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Prints the page of the documentation
    #[arg(long)]
    page: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    output::print(&if args.page { markdown() } else { text() })?;
    Ok(code::OK)
}

const OWNERS: [(Owner, &str); 5] = [
    (Owner::Task, "Tasks"),
    (Owner::Service, "Services"),
    (Owner::Group, "Groups"),
    (Owner::Cpu, "CPUs"),
    (Owner::Machine, "The machine"),
];

/// Returns the row of a quantity: its names in goals, its place in JSON, its unit, how several are
/// combined, which change is wanted, its meaning.
fn cells(row: &Row) -> [String; 6] {
    let stats = match row.stats {
        [Stat::Value] => String::new(),
        stats => format!(".{{{}}}", stats.iter().map(Stat::to_string).collect::<Vec<_>>().join(",")),
    };
    let key = if row.owner == Owner::Cpu { "-".to_owned() } else { format!("{}{stats}", row.key) };
    let path = row.path.map_or_else(|| "-".to_owned(), |path| path.replace('/', "."));
    let unit = match row.unit {
        Unit::Time => "time",
        Unit::Count => "number",
        Unit::Share => "share of a CPU",
        Unit::Rate => "per second",
    };
    let several = match row.several {
        Several::Sum => "sum",
        Several::Largest => "largest",
        Several::Smallest => "smallest",
        Several::Last => "last",
    };
    let better = match row.better {
        Better::Less => "less",
        Better::More => "more",
        Better::Neither => "-",
    };
    [key, path, unit.to_owned(), several.to_owned(), better.to_owned(), row.meaning.to_owned()]
}

const HEADS: [&str; 6] = ["in goals", "in JSON", "unit", "several", "better", "meaning"];

fn rows(owner: Owner) -> impl Iterator<Item = [String; 6]> {
    Quantity::of(owner).map(|quantity| cells(quantity.row()))
}

fn text() -> String {
    let mut text = String::new();
    for (owner, title) in OWNERS {
        let mut table = Table::new(&HEADS.map(|head| (head, Align::Left)));
        rows(owner).for_each(|row| table.push(row));
        put(&mut text, format_args!("{title}\n{table}\n"));
    }
    text + NEEDS + "\n"
}

/// How many samples statistics need, for readers.
const NEEDS: &str = "Every percentile of a distribution is a figure, with up to four decimals: `web.request_latency.p99.5`. Listed are those that\n\
                     reports show; `--show` asks for others. A mean and a percentile need 10 samples, and a percentile a tenth of the samples of\n\
                     which one is beyond it: p99.5 20, p99.9 100, p99.99 1000. A figure without them is `-` in a table and `null` in JSON, never 0;\n\
                     a goal on it is missed, unless the largest sample meets it.";

fn markdown() -> String {
    let mut text = "# Figures\n\nEverything that can be measured of a run, as `zerolag figures` prints it. Goals, \
                    `sweep --show`, `compare`, tables, pages, JSON and\ncolumns read this one table \
                    (`crates/model/src/figure.rs`).\n\nA goal or a sweep names a figure with its owner: \
                    `audio.lateness.max`, `/web.nr_throttled`, `*.run`. *Several*: how the threads of one task become\none \
                    figure.\n"
        .to_owned();
    put(&mut text, format_args!("\n{NEEDS}\n"));
    for (owner, title) in OWNERS {
        put(&mut text, format_args!("\n## {title}\n\n| {} |\n|{}\n", HEADS.join(" | "), "---|".repeat(HEADS.len())));
        for [key, path, rest @ ..] in rows(owner) {
            let code = |name: String| if name == "-" { name } else { format!("`{name}`") };
            put(&mut text, format_args!("| {} | {} | {} |\n", code(key), code(path), rest.join(" | ")));
        }
    }
    text
}

fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).expect("invariant: a string takes everything");
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_is_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/figures.md");
        let kept = std::fs::read_to_string(page).unwrap_or_default();
        assert_eq!(kept, super::markdown(), "zerolag figures --page > docs/reference/figures.md");
    }
}

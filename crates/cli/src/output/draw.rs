//! `--draw`: plots of letters below the tables, for people at a terminal.

use std::io::IsTerminal;
use zerolag::report::distribution::{Counts, owners, quantile};
use zerolag::report::frame::Bucket;
use zerolag::report::load::Load;
use zerolag::report::plot::terminal::{self, Colours, Letters, Look};
use zerolag::sim::Sink;
use zerolag_model::Record;
use zerolag_tools::rtla::{Histogram, Latencies, together};
use zerolag_tools::timerlat;

/// When plots are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum When {
    /// If the standard output is a terminal of 40 columns or more
    Auto,
    /// Also in a pipe or a file, 80 columns wide
    Always,
    /// Not at all
    Never,
}

/// `--draw WHEN`, the same for every subcommand that has it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DrawArgs {
    /// Draw plots below the tables
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    draw: When,
}

/// The columns of an output that is no terminal.
const COLUMNS: usize = 80;

impl DrawArgs {
    /// Returns how plots are to be drawn on the standard output; `None` if not at all.
    ///
    /// A terminal without UTF-8 gets ASCII; `NO_COLOR` and a terminal that calls itself dumb get no
    /// colours. Piped output has no plots unless asked: what scripts read does not change.
    pub(crate) fn look(&self) -> Option<Look> {
        let is_terminal = std::io::stdout().is_terminal();
        if self.draw == When::Never || self.draw == When::Auto && !is_terminal {
            return None;
        }
        let width = terminal_size::terminal_size().filter(|_| is_terminal);
        let columns = width.map_or(COLUMNS, |(width, _)| usize::from(width.0));
        #[expect(clippy::disallowed_methods, reason = "they change how a plot is drawn, and no value in it")]
        let of = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        // The first of these that is set decides (POSIX, "Internationalization Variables").
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(of).unwrap_or_default().to_lowercase();
        let is_utf8 = !is_terminal || locale.contains("utf-8") || locale.contains("utf8");
        let letters = if is_utf8 { Letters::Unicode } else { Letters::Ascii };
        let has_colours = is_terminal && of("NO_COLOR").is_none() && of("TERM").is_none_or(|term| term != "dumb");
        Some(Look { columns, letters, colours: if has_colours { Colours::On } else { Colours::Off } })
    }
}

/// Follows the load of the CPUs in a run.
#[derive(Debug)]
pub(crate) struct Loaded(pub(crate) Load);

impl Sink for Loaded {
    fn record(&mut self, record: &Record) {
        self.0.observe(record);
    }
}

/// Returns the distributions of requests if there are services, else of wakeups, the owner with the
/// highest 99th percentile first; and their name.
pub(crate) fn latencies(buckets: &[Bucket]) -> (&'static str, Vec<(String, Counts)>) {
    for (figure, title) in [("request_latency", "request latency"), ("wakeup_latency", "wakeup latency")] {
        let mut lines: Vec<(String, Counts)> = owners(buckets, figure).into_iter().collect();
        if !lines.is_empty() {
            lines.sort_by(|a, b| quantile(&b.1, 0.99).total_cmp(&quantile(&a.1, 0.99)).then(a.0.cmp(&b.0)));
            return (title, lines);
        }
    }
    ("wakeup latency", Vec::new())
}

/// Draws the latencies of `timerlat`, those of all CPUs together; the last kind, for which users
/// look, is the tall one.
pub(crate) fn of_timerlat(collector: &timerlat::Collector, histogram: Histogram, look: Look) -> String {
    let together =
        |kind: fn(&timerlat::Thread) -> &Latencies| together(collector.threads().iter().map(kind), histogram);
    let mut lines = vec![("thread".to_owned(), together(|t| &t.thread)), ("irq".to_owned(), together(|t| &t.irq))];
    if collector.is_user() {
        lines.insert(0, ("user".to_owned(), together(|t| &t.user)));
    }
    terminal::latency("timer latency", &lines, look)
}

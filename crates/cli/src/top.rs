//! `zerolag top`: a live table of a process that uses the runtime, through the Unix socket on which
//! it listens (`Runtime::listen`, feature `socket`).
//!
//! Each connection gets one document with counters since the start of the runtime; rates are the
//! difference of two documents, divided by the difference of their own clocks, so nothing here
//! reads a clock.

use super::failure::Failure;
use super::{Done, code, options, output};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use zerolag::model::Duration;
use zerolag_model::text::visible;

/// The form of the documents that it reads.
const FORMAT: &str = "zerolag.top.v1";

/// The longest document: some 500 bytes for each of 100,000 groups.
const LONGEST: u64 = 50 << 20;

/// Clears a terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Arguments of `zerolag top`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The socket on which the process listens
    #[arg(long, value_name = "FILE")]
    socket: PathBuf,
    /// The time between two tables
    #[arg(long, value_name = "TIME", value_parser = options::duration, default_value = "1s")]
    every: Duration,
    /// Print so many tables and end
    #[arg(short, long, value_name = "TABLES")]
    number: Option<u64>,
    /// Order the groups by this figure, highest first
    #[arg(long, value_enum, default_value = "cpu")]
    sort: Sort,
}

/// The order of the groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Sort {
    /// CPUs used since the last table
    Cpu,
    /// Time throttled since the last table
    Throttled,
    /// The path
    Path,
}

#[derive(Clone, Debug, Deserialize)]
struct RuntimeDocument {
    format: String,
    pid: u32,
    cpus: u32,
    uptime_us: u64,
    polled: u64,
    runnable: u64,
    asleep: u64,
    stray_panics: u64,
    groups: Vec<GroupDocument>,
}

#[derive(Clone, Debug, Deserialize)]
struct GroupDocument {
    path: String,
    cpu_us: u64,
    lost_us: u64,
    quota_us: Option<u64>,
    period_us: u64,
    throttled_us: u64,
    periods: u64,
    throttled_periods: u64,
    queue_wait_p99_us: Option<u64>,
    poll_p99_us: Option<u64>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    if args.every.is_zero() {
        return Err(Failure::input_help("`--every 0s`: the tables have no distance", "for example `--every 1s`"));
    }
    let is_live = std::io::stdout().is_terminal() && args.number.is_none();
    let mut before: Option<RuntimeDocument> = None;
    let mut printed = 0;
    loop {
        let now = match (read(&args.socket), &before) {
            (Ok(now), _) => now,
            // The process has ended, or its socket.
            (Err(_), Some(_)) => return Ok(code::OK),
            (Err(failure), None) => return Err(failure),
        };
        let table = table(before.as_ref(), &now, args.sort);
        if is_live {
            output::print_as_it_is(&format!("{CLEAR}{}", visible(&table)))?;
        } else {
            output::print(&format!("{table}\n"))?;
        }
        before = Some(now);
        printed += 1;
        if args.number.is_some_and(|number| printed >= number) {
            return Ok(code::OK);
        }
        std::thread::sleep(std::time::Duration::from_nanos(args.every.as_nanos()));
    }
}

fn read(path: &Path) -> Result<RuntimeDocument, Failure> {
    let name = path.display();
    let help = "the process calls `Runtime::listen` of zerolag-runtime, feature `socket`, with this path";
    let mut stream = UnixStream::connect(path)
        .map_err(|error| Failure::input_help(format!("`{name}`: no process listens there: {error}"), help))?;
    let mut text = String::new();
    Read::by_ref(&mut stream)
        .take(LONGEST)
        .read_to_string(&mut text)
        .map_err(|error| Failure::Failed(format!("`{name}`: {error}")))?;
    let snapshot: RuntimeDocument = serde_json::from_str(&text)
        .map_err(|error| Failure::input_help(format!("`{name}`: this is no runtime: {error}"), help))?;
    if snapshot.format != FORMAT {
        let message = format!("`{name}`: the process speaks `{}`", snapshot.format);
        return Err(Failure::input_help(message, format!("this program reads `{FORMAT}`: use that of its version")));
    }
    Ok(snapshot)
}

/// The figures of a group between two documents.
struct GroupUsage {
    path: String,
    /// In thousandths of a CPU.
    cpu: u64,
    lost: u64,
    limit: Option<u64>,
    /// In thousandths of the periods.
    throttled_periods: Option<u64>,
    throttled_us: u64,
    wait: Option<u64>,
    poll: Option<u64>,
}

impl GroupUsage {
    fn of(before: Option<&GroupDocument>, now: &GroupDocument, elapsed_us: u64) -> Self {
        let delta = |of: fn(&GroupDocument) -> u64| of(now).saturating_sub(before.map_or(0, of));
        let rate = |of: fn(&GroupDocument) -> u64| thousandths(delta(of), elapsed_us);
        let periods = delta(|group| group.periods);
        Self {
            path: now.path.clone(),
            cpu: rate(|group| group.cpu_us),
            lost: rate(|group| group.lost_us),
            limit: now.quota_us.map(|quota| thousandths(quota, now.period_us)),
            throttled_periods: now
                .quota_us
                .filter(|_| periods > 0)
                .map(|_| thousandths(delta(|group| group.throttled_periods), periods)),
            throttled_us: delta(|group| group.throttled_us),
            wait: now.queue_wait_p99_us,
            poll: now.poll_p99_us,
        }
    }
}

fn thousandths(part: u64, of: u64) -> u64 {
    u64::try_from(u128::from(part) * 1_000 / u128::from(of.max(1))).unwrap_or(u64::MAX)
}

fn decimal(thousandths: u64) -> String {
    format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000)
}

fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us}us"),
        1_000..1_000_000 => format!("{}ms", us / 1_000),
        _ => format!("{}.{}s", us / 1_000_000, us / 100_000 % 10),
    }
}

fn table(before: Option<&RuntimeDocument>, now: &RuntimeDocument, sort: Sort) -> String {
    // Another process can listen under the same name: its counters begin anew.
    let before = before.filter(|before| before.pid == now.pid && before.uptime_us < now.uptime_us);
    let elapsed = now.uptime_us - before.map_or(0, |before| before.uptime_us);
    let known: BTreeMap<&str, &GroupDocument> =
        before.iter().flat_map(|before| &before.groups).map(|group| (&*group.path, group)).collect();
    let mut rows: Vec<_> =
        now.groups.iter().map(|group| GroupUsage::of(known.get(&*group.path).copied(), group, elapsed)).collect();
    match sort {
        Sort::Cpu => rows.sort_by(|one, other| other.cpu.cmp(&one.cpu).then_with(|| one.path.cmp(&other.path))),
        Sort::Throttled => rows.sort_by(|one, other| {
            let by_time = other.throttled_us.cmp(&one.throttled_us);
            by_time.then_with(|| one.path.cmp(&other.path))
        }),
        Sort::Path => {}
    }
    let mut text = format!(
        "process {}, {} CPUs, up {}; {}: tasks {} in a poll, {} waiting for a CPU, {} asleep; panics without a handle: {}\n\n",
        now.pid,
        now.cpus,
        time(now.uptime_us),
        if before.is_some() { format!("last {}", time(elapsed)) } else { "since its start".to_owned() },
        now.polled,
        now.runnable,
        now.asleep,
        now.stray_panics,
    );
    let width = rows.iter().map(|row| row.path.chars().count()).max().unwrap_or(0).max(5);
    let _ = writeln!(
        text,
        "{:width$} {:>7} {:>7} {:>7} {:>10} {:>10} {:>9} {:>9}",
        "group", "CPUs", "limit", "lost", "throttled", "of periods", "p99 wait", "p99 poll"
    );
    for row in rows {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let percent = |thousandths: u64| format!("{} %", thousandths / 10);
        let _ = writeln!(
            text,
            "{:width$} {:>7} {:>7} {:>7} {:>10} {:>10} {:>9} {:>9}",
            row.path,
            decimal(row.cpu),
            or_dash(row.limit.map(decimal)),
            decimal(row.lost),
            or_dash(row.limit.map(|_| time(row.throttled_us))),
            or_dash(row.throttled_periods.map(percent)),
            or_dash(row.wait.map(time)),
            or_dash(row.poll.map(time)),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(uptime_us: u64, groups: &[(&str, u64, Option<u64>, u64, u64)]) -> RuntimeDocument {
        let groups = groups.iter().map(|&(path, cpu_us, quota_us, periods, throttled_periods)| GroupDocument {
            path: path.to_owned(),
            cpu_us,
            lost_us: 0,
            quota_us,
            period_us: 100_000,
            throttled_us: 7_000 * throttled_periods,
            periods,
            throttled_periods,
            queue_wait_p99_us: quota_us.map(|_| 65_536),
            poll_p99_us: None,
        });
        let (format, groups) = (FORMAT.to_owned(), groups.collect());
        let (polled, runnable, asleep, stray_panics) = (1, 2, 30, 0);
        RuntimeDocument { format, pid: 7, cpus: 2, uptime_us, polled, runnable, asleep, stray_panics, groups }
    }

    #[test]
    fn rates_are_those_since_the_last_table() {
        let before = snapshot(5_000_000, &[("/", 3_000_000, None, 0, 0), ("/acme", 1_000_000, Some(40_000), 50, 10)]);
        let now = snapshot(
            7_000_000,
            &[("/", 5_500_000, None, 0, 0), ("/acme", 1_800_000, Some(40_000), 70, 15), ("/new", 500, None, 0, 0)],
        );
        let text = table(Some(&before), &now, Sort::Cpu);
        let expected = "\
process 7, 2 CPUs, up 7.0s; last 2.0s: tasks 1 in a poll, 2 waiting for a CPU, 30 asleep; panics without a handle: 0

group    CPUs   limit    lost  throttled of periods  p99 wait  p99 poll
/       1.250       -   0.000          -          -         -         -
/acme   0.400   0.400   0.000       35ms       25 %      65ms         -
/new    0.000       -   0.000          -          -         -         -
";
        assert_eq!(text, expected, "\n{text}");
        assert!(
            table(Some(&before), &now, Sort::Throttled).lines().nth(3).is_some_and(|line| line.starts_with("/acme"))
        );
    }

    #[test]
    fn another_process_begins_anew() {
        let before = RuntimeDocument { pid: 6, ..snapshot(9_000_000, &[("/", 8_000_000, None, 0, 0)]) };
        let text = table(Some(&before), &snapshot(2_000_000, &[("/", 1_000_000, None, 0, 0)]), Sort::Path);
        assert!(text.contains("since its start") && text.contains("0.500"), "{text}");
    }
}

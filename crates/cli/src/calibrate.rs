//! `zerolag calibrate`: a cost profile of this host, and how well the simulator then predicts the
//! host.

use super::failure::{Failure, eprintln_lossy};
use super::output::JsonArgs;
use super::progress::{catch_interrupts, interrupted};
use super::{Done, code, output};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;
use zerolag::model::Duration;
use zerolag::report::human::Human;
use zerolag::report::table::{Align, Table};
use zerolag::results::{self, Document};
use zerolag_host::calibrate::{Calibration, Compared, Noise, calibrate};
use zerolag_linux::figures::quantile;

/// What `--noise` records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum NoiseToRecord {
    /// How late timers are, and when CPUs stand still
    Timers,
    /// The same, and apart from it what switches and wakeups take beyond their medians
    Operations,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The profile to write: TOML, for `zerolag run --costs FILE`
    file: PathBuf,
    #[command(flatten)]
    json: JsonArgs,
    /// Also record the host's noise for two minutes, as quantiles that simulations draw from: how
    /// late timers are and when CPUs stand still, or that and how much single switches and wakeups
    /// vary
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "timers")]
    noise: Option<NoiseToRecord>,
    /// A directory of tracefs (`/sys/kernel/tracing`, or an instance in it): also measure what lies
    /// between the kernel's own events, `sched_waking` and `sched_switch`. Its trace is lost
    #[arg(long, value_name = "DIRECTORY")]
    events: Option<PathBuf>,
    /// Exit with code 99 if a predicted median is off by more than this
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(i64).range(1..=1000))]
    within: Option<i64>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    output::check_target(&args.file)?;
    args.json.check()?;
    if let Some(dir) = args.events.as_ref().filter(|dir| !dir.join("events/sched").is_dir()) {
        let here = "give /sys/kernel/tracing, as root; if it is empty: mount -t tracefs tracefs /sys/kernel/tracing";
        return Err(Failure::input_help(format!("--events: {} is no directory of tracefs", dir.display()), here));
    }
    catch_interrupts();
    let noise = match args.noise {
        None => Noise::Ignored,
        Some(NoiseToRecord::Timers) => Noise::Recorded,
        Some(NoiseToRecord::Operations) => Noise::Operations,
    };
    let made = match calibrate(noise, args.events.as_deref(), &interrupted) {
        Ok(made) => made,
        Err(_) if interrupted() => return Ok(code::INTERRUPTED),
        Err(error) => return Err(Failure::Failed(error.to_string())),
    };
    let toml = made.to_toml();
    output::write_text(&args.file, &toml)?;
    args.json.publish(|| table(&made), || as_json(&made))?;
    for note in &made.notes {
        eprintln_lossy(&format!("note: {note}"));
    }
    let missed = args.within.is_some_and(|percent| {
        let errors = made.compared.iter().filter(|compared| compared.fitted.is_none());
        errors.filter_map(Compared::error_permille).any(|error| error.abs() > percent * 10)
    });
    Ok(if missed { code::GOAL_MISSED } else { code::OK })
}

/// The direct measurements: name and samples.
fn direct(made: &Calibration) -> Vec<(&'static str, &[u64])> {
    let direct = &made.direct;
    let (delays, standing) = (&direct.delays, &made.standing);
    let requested: [(&str, &[u64]); 8] = [
        ("FIFO timer, waking to switch", &delays.fifo),
        ("the same beside a fair thread", &delays.fifo_beside_fair),
        ("fair timer, waking to switch", &delays.fair),
        ("the same in two groups", &delays.grouped),
        ("the same in two groups, one limited", &delays.limited),
        ("fair pipe, waking to switch", &delays.piped),
        ("a CPU stands still", &standing.stolen.lengths),
        ("all CPUs stand still", &standing.smi.lengths),
    ];
    let direct: [(&str, &[u64]); 6] = [
        ("system call", &direct.syscall),
        ("futex wakeup, same CPU", &direct.wake_local),
        ("pipe write and read", &direct.pipe_io),
        ("timer, wakes no thread", &direct.timer),
        ("timer of a less urgent thread", &direct.timer_wake),
        ("tick", &direct.tick),
    ];
    direct.into_iter().chain(requested.into_iter().filter(|(_, samples)| !samples.is_empty())).collect()
}

fn table(made: &Calibration) -> String {
    let mut table = Table::new(&[
        ("measured", Align::Left),
        ("samples", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("rounds", Align::Right),
        ("simulated", Align::Right),
        ("error", Align::Right),
        ("", Align::Left),
    ]);
    let human = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), |time| Human(time).to_string());
    let of = |name: &str, samples: &[u64]| {
        let quantiles = [500, 990].map(|at| human(quantile(samples, at)));
        [vec![name.to_owned(), samples.len().to_string()], quantiles.to_vec()].concat()
    };
    for (name, samples) in direct(made) {
        table.push(of(name, samples));
    }
    for compared in &made.compared {
        let error = compared.error_permille().map_or_else(
            || "-".to_owned(),
            |error| format!("{}{}.{}%", if error < 0 { "-" } else { "+" }, error.abs() / 10, error.abs() % 10),
        );
        let how = compared.fitted.as_ref().map_or_else(|| "predicted".to_owned(), |key| format!("fitted: {key}"));
        let rounds =
            compared.spread().map(|(low, high)| format!("{}..{}", Human(low), Human(high))).unwrap_or_default();
        table.push([of(&compared.name, &compared.host), vec![rounds, human(compared.simulated), error, how]].concat());
    }
    let tick = match made.direct.tick_period {
        Some(period) => format!("a tick every {period}"),
        None => "no ticks seen".to_owned(),
    };
    format!("{table}\nprofile {} on the simulated kernel {}; {tick}\n", made.costs.name, made.kernel)
}

/// The result of `zerolag calibrate`.
pub(super) const DOCUMENT: Document = Document::of::<CalibratedHost<'_>>(SCHEMA, "calibrate");
const SCHEMA: &str = "zerolag.calibrate.v1";

/// The costs of this host's operations, and predictions compared with it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct CalibratedHost<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The name of the profile.
    profile: &'a str,
    /// The kernel that is simulated for comparison.
    kernel: String,
    /// The period of the tick; null if none was seen.
    tick_period_ns: Option<u64>,
    /// The direct measurements.
    direct: Vec<DirectCost<'a>>,
    /// The measurements that simulations are compared with.
    compared: Vec<ComparedCost<'a>>,
    /// What a reader should know of the measurement.
    notes: &'a [String],
}

/// A direct measurement.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct DirectCost<'a> {
    /// What was measured.
    name: &'a str,
    /// Its samples.
    host: Samples,
}

/// A measurement and its simulation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ComparedCost<'a> {
    /// What was measured.
    name: &'a str,
    /// The cost that was fitted to it; null if it is predicted.
    fitted: Option<&'a str>,
    /// Its samples on the host.
    host: Samples,
    /// The medians of the rounds.
    rounds: Rounds,
    /// The simulated median.
    simulated_p50_ns: Option<u64>,
    /// The error of the simulated median.
    error_permille: Option<i64>,
}

/// Quantiles of samples; null without samples.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
struct Samples {
    /// The number of samples.
    samples: usize,
    /// The median.
    p50_ns: Option<u64>,
    /// The 90th percentile.
    p90_ns: Option<u64>,
    /// The 99th percentile.
    p99_ns: Option<u64>,
    /// The largest.
    max_ns: Option<u64>,
}

/// The spread of the medians of rounds.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
struct Rounds {
    /// The number of rounds.
    count: usize,
    /// The first quartile of their medians.
    p25_ns: Option<u64>,
    /// The third quartile of their medians.
    p75_ns: Option<u64>,
}

fn as_json(made: &Calibration) -> String {
    let ns = |samples: &[u64], at| quantile(samples, at).map(Duration::as_nanos);
    let figures = |samples: &[u64]| Samples {
        samples: samples.len(),
        p50_ns: ns(samples, 500),
        p90_ns: ns(samples, 900),
        p99_ns: ns(samples, 990),
        max_ns: samples.last().copied(),
    };
    let compared = made.compared.iter().map(|compared| ComparedCost {
        name: &compared.name,
        fitted: compared.fitted.as_deref(),
        host: figures(&compared.host),
        rounds: Rounds {
            count: compared.rounds.len(),
            p25_ns: ns(&compared.rounds, 250),
            p75_ns: ns(&compared.rounds, 750),
        },
        simulated_p50_ns: compared.simulated.map(Duration::as_nanos),
        error_permille: compared.error_permille(),
    });
    results::text(&CalibratedHost {
        schema: SCHEMA,
        profile: &made.costs.name,
        kernel: made.kernel.name(),
        tick_period_ns: made.direct.tick_period.map(Duration::as_nanos),
        direct: direct(made).into_iter().map(|(name, samples)| DirectCost { name, host: figures(samples) }).collect(),
        compared: compared.collect(),
        notes: &made.notes,
    })
}

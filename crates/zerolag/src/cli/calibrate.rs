//! `zerolag calibrate`: a cost profile of this host, and how well the simulator then predicts the
//! host.

use super::failure::{Failure, eprintln_lossy};
use super::output::JsonArgs;
use super::progress::{catch_interrupts, interrupted};
use super::{Done, code, output};
use serde_json::{Value, json};
use std::path::PathBuf;
use zerolag::calibrate::{Calibration, Compared, calibrate};
use zerolag::linux::figures::quantile;
use zerolag::model::Duration;
use zerolag::report::human::Human;
use zerolag::report::table::{Align, Table};

/// Arguments of `zerolag calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The profile to write: TOML, for `zerolag run --costs FILE`
    file: PathBuf,
    #[command(flatten)]
    json: JsonArgs,
    /// Exit with code 99 if a predicted median is off by more than this
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(i64).range(1..=1000))]
    within: Option<i64>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    output::check_target(&args.file)?;
    args.json.check()?;
    catch_interrupts();
    let made = match calibrate(&interrupted) {
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
fn direct(made: &Calibration) -> [(&'static str, &[u64]); 4] {
    let direct = &made.direct;
    [
        ("system call", &direct.syscall),
        ("futex wakeup, same CPU", &direct.wake_local),
        ("pipe write and read", &direct.pipe_io),
        ("tick", &direct.tick),
    ]
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

fn as_json(made: &Calibration) -> String {
    let ns = |samples: &[u64], at| quantile(samples, at).map(Duration::as_nanos);
    let figures = |samples: &[u64]| json!({ "samples": samples.len(), "p50_ns": ns(samples, 500), "p90_ns": ns(samples, 900), "p99_ns": ns(samples, 990), "max_ns": samples.last() });
    let direct: Vec<Value> =
        direct(made).iter().map(|(name, samples)| json!({ "name": name, "host": figures(samples) })).collect();
    let compared: Vec<Value> = made
        .compared
        .iter()
        .map(|compared| {
            json!({
                "name": compared.name,
                "fitted": compared.fitted,
                "host": figures(&compared.host),
                "rounds": { "count": compared.rounds.len(), "p25_ns": ns(&compared.rounds, 250), "p75_ns": ns(&compared.rounds, 750) },
                "simulated_p50_ns": compared.simulated.map(Duration::as_nanos),
                "error_permille": compared.error_permille(),
            })
        })
        .collect();
    let value = json!({
        "schema": "zerolag.calibrate.v1",
        "profile": made.costs.name,
        "kernel": made.kernel.name(),
        "tick_period_ns": made.direct.tick_period.map(Duration::as_nanos),
        "direct": direct,
        "compared": compared,
        "notes": made.notes,
    });
    format!("{value:#}\n")
}

//! [`Results`] as tables, plots and JSON.

use super::{DlServer2023, Measured, PUBLISHED, PUBLISHED_OSNOISE, PUBLISHED_SECONDS, Results, Setup, TimerlatRow};
use core::fmt;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use zerolag::results::{self as document, Document};
use zerolag_report::plot::{Axis, Mark, Plot, Unit};
use zerolag_report::table::{Align, Table, Titled};
use zerolag_tools::json::{OsnoiseCpu, osnoise_cpus};
use zerolag_tools::osnoise;

impl Results {
    /// Returns the share of samples that a CPU lost, in 1/1000 of a percent: ours and published.
    #[must_use]
    pub fn lost(&self, setup: usize, cpu: usize) -> (u64, Option<u64>) {
        let lost =
            |count: u64, seconds: u64| (seconds * 1_000).saturating_sub(count) * 100_000 / (seconds * 1_000).max(1);
        let seconds = self.experiment.duration.as_nanos() / 1_000_000_000;
        let published = PUBLISHED.get(setup).map(|rows| lost(rows[cpu].count, PUBLISHED_SECONDS[setup]));
        (lost(self.timerlat[setup].rows[cpu].count, seconds), published)
    }
}

/// The file of `zerolag repro dl-server`.
pub(crate) const DOCUMENT: Document = Document::of::<DlServerRuns>(SCHEMA, "repro dl-server");
const SCHEMA: &str = "zerolag.repro.dl-server.v1";

/// Deadline servers against starvation, next to RT throttling.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct DlServerRuns {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The name of the experiment.
    experiment: &'static str,
    /// The simulated time of each run.
    duration_ns: u64,
    /// The seed of every run.
    seed: u64,
    /// timerlat next to a build, under each protection against starvation.
    timerlat: Vec<DlServerSetup>,
    /// osnoise with deferred servers, by how the runtime is enforced.
    osnoise: Vec<DlServerGrain>,
}

/// timerlat under one protection.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct DlServerSetup {
    /// The protection.
    setup: &'static str,
    /// CPUs 0 to 7.
    cpus: Vec<DlServerCpu>,
}

/// The threads of a CPU, simulated and published.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct DlServerCpu {
    /// The simulated figures.
    simulated: DlServerFigures,
    /// The published figures; null if there are none.
    published: Option<DlServerFigures>,
}

/// The figures of timerlat on a CPU.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
struct DlServerFigures {
    /// The number of samples.
    count: u64,
    /// The share of samples that the thread missed.
    lost_percent: f64,
    /// The mean lateness of the timer's interrupt.
    irq_avg_us: u64,
    /// The largest lateness of the timer's interrupt.
    irq_max_us: u64,
    /// The mean lateness of the thread.
    thread_avg_us: u64,
    /// The largest lateness of the thread.
    thread_max_us: u64,
    /// The mean lateness of the return to user mode.
    user_avg_us: u64,
    /// The largest lateness of the return to user mode.
    user_max_us: u64,
}

/// osnoise with the runtime of servers enforced in one way.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct DlServerGrain {
    /// The setting `enforce_dl`.
    enforce_dl: String,
    /// The measured CPUs.
    cpus: Vec<OsnoiseCpu>,
}

impl DlServerFigures {
    fn of(row: &TimerlatRow, lost: u64) -> Self {
        let [irq, thread, user] = row.latencies;
        Self {
            count: row.count,
            lost_percent: lost as f64 / 1e3,
            irq_avg_us: irq.0,
            irq_max_us: irq.1,
            thread_avg_us: thread.0,
            thread_max_us: thread.1,
            user_avg_us: user.0,
            user_max_us: user.1,
        }
    }
}

impl Results {
    /// Returns all figures as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let cpu = |setup: usize, cpu: usize, row: &TimerlatRow| {
            let (lost, was_lost) = self.lost(setup, cpu);
            let published = PUBLISHED.get(setup).map(|rows| &rows[cpu]).zip(was_lost);
            DlServerCpu {
                simulated: DlServerFigures::of(row, lost),
                published: published.map(|(row, lost)| DlServerFigures::of(row, lost)),
            }
        };
        let timerlat = Setup::ALL.into_iter().zip(&self.timerlat).enumerate().map(|(at, (setup, measured))| {
            let cpus = measured.rows.iter().enumerate();
            DlServerSetup { setup: setup.name(), cpus: cpus.map(|(index, row)| cpu(at, index, row)).collect() }
        });
        let osnoise = self.osnoise.iter().map(|(grain, collector)| DlServerGrain {
            enforce_dl: grain.to_string(),
            cpus: osnoise_cpus(collector, None),
        });
        document::value(&DlServerRuns {
            schema: SCHEMA,
            experiment: "dl-server",
            duration_ns: self.experiment.duration.as_nanos(),
            seed: self.experiment.seed,
            timerlat: timerlat.collect(),
            osnoise: osnoise.collect(),
        })
    }
}

impl Results {
    /// Returns the answer in one sentence.
    #[must_use]
    pub fn answer(&self) -> String {
        let most = |setup: usize, all: &[u64]| -> Option<String> {
            let worst = all.iter().max()?;
            Some(format!("{} ({})", percent(*worst), Setup::ALL[setup].short()))
        };
        let lost = self.timerlat.iter().enumerate().filter_map(|(setup, measured)| {
            let all: Vec<u64> = (0..measured.rows.len()).map(|cpu| self.lost(setup, cpu).0).collect();
            most(setup, &all)
        });
        format!("Samples that a real-time thread misses on the worst CPU: {}.", lost.collect::<Vec<_>>().join(", "))
    }

    /// Returns plots: lost samples and worst latencies by CPU, and the gaps of osnoise.
    #[must_use]
    pub fn plots(&self) -> Vec<Plot> {
        let names: Vec<String> = (0..8).map(|cpu| cpu.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let points =
            |values: &mut dyn Iterator<Item = f64>| values.enumerate().map(|(at, value)| (at as f64, value)).collect();
        let lost = Axis::linear("of the samples", Unit::Percent);
        let mut lost = Plot::new("Samples that a thread misses", Axis::categories("CPU", &names), lost);
        let late = Axis::log("worst latency, return to user mode", Unit::Nanos);
        let mut late = Plot::new("Worst latency", Axis::categories("CPU", &names), late);
        let nanos = |row: &TimerlatRow| (row.latencies[2].1.max(1) * 1_000) as f64;
        for (index, (setup, measured)) in Setup::ALL.into_iter().zip(&self.timerlat).enumerate() {
            let of = |cpu: usize| self.lost(index, cpu).0 as f64 / 1e3;
            lost = lost.with(setup.short(), Mark::Bars, points(&mut (0..measured.rows.len()).map(of)));
            late = late.with(setup.short(), Mark::Bars, points(&mut measured.rows.iter().map(nanos)));
        }
        for (index, rows) in PUBLISHED.iter().enumerate() {
            let name = format!("published, {}", Setup::ALL[index].short());
            let of = |cpu: usize| self.lost(index, cpu).1.map(|lost| lost as f64 / 1e3);
            lost = lost.with(&name, Mark::Dashed, points(&mut (0..rows.len()).filter_map(of)));
            late = late.with(&name, Mark::Dashed, points(&mut rows.iter().map(nanos)));
        }
        let names: Vec<String> = PUBLISHED_OSNOISE.iter().map(|(cpu, ..)| cpu.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let gaps = Axis::log("longest gap", Unit::Nanos);
        let mut gaps = Plot::new(
            "Longest gap of osnoise",
            Axis::categories("CPU; 2 and 3 are isolated, 3 and 9 have a fair busy loop", &names),
            gaps,
        );
        for (grain, collector) in &self.osnoise {
            let all = collector.rows().iter().map(|row| (row.noise.max_single.max(1) * 1_000) as f64);
            gaps = gaps.with(&format!("runtime enforced: {grain}"), Mark::Bars, points(&mut all.into_iter()));
        }
        let published = PUBLISHED_OSNOISE.iter().map(|(_, _, _, gap, _)| (gap * 1_000) as f64);
        vec![lost, late, gaps.with("published", Mark::Dashed, points(&mut published.into_iter()))]
    }

    /// Returns the figures as tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Titled> {
        let DlServer2023 { duration, seed, .. } = self.experiment;
        let text = format!("timerlat -u on 8 CPUs beside a build, {duration}, seed {seed}; times in microseconds.");
        let setups = Setup::ALL.into_iter().zip(&self.timerlat).enumerate();
        let mut tables: Vec<Titled> = setups
            .map(|(index, (setup, measured))| {
                let title = setup.short();
                let title = [title[..1].to_uppercase(), title[1..].to_owned()].concat();
                Titled::new(title, format!("{}. {text}", setup.name()), self.latencies(index, measured))
            })
            .collect();
        for (grain, collector) in &self.osnoise {
            let text = "osnoise -P f:1, servers deferred, a fair busy loop on CPUs 3 and 9; times in microseconds.";
            tables.push(Titled::new(format!("osnoise, enforced: {grain}"), text, Self::gaps(collector)));
        }
        tables
    }

    fn latencies(&self, setup: usize, measured: &Measured) -> Table {
        let mut table =
            Table::new(&["CPU", "lost", "thread, mean", "max", "user, max"].map(|name| (name, Align::Right)));
        if PUBLISHED.get(setup).is_some() {
            let more = ["published: lost", "thread, mean", "max", "user, max"];
            let heads = ["CPU", "lost", "thread, mean", "max", "user, max"].into_iter().chain(more);
            table = Table::new(&heads.map(|name| (name, Align::Right)).collect::<Vec<_>>());
        }
        for (cpu, ours) in measured.rows.iter().enumerate() {
            let (lost, was_lost) = self.lost(setup, cpu);
            let cells = |lost: u64, row: &TimerlatRow| {
                let [_, thread, user] = row.latencies;
                [percent(lost), thread.0.to_string(), thread.1.to_string(), user.1.to_string()]
            };
            let mut row = vec![cpu.to_string()];
            row.extend(cells(lost, ours));
            if let Some((published, lost)) = PUBLISHED.get(setup).map(|rows| rows[cpu]).zip(was_lost) {
                row.extend(cells(lost, &published));
            }
            table.push(row);
        }
        table
    }

    fn gaps(collector: &osnoise::Collector) -> Table {
        let mut table = Table::new(&[
            ("CPU", Align::Right),
            ("set-up", Align::Left),
            ("available", Align::Right),
            ("longest gap", Align::Right),
            ("published: available", Align::Right),
            ("longest gap", Align::Right),
        ]);
        for (row, (cpu, setup, available, gap, _)) in collector.rows().iter().zip(PUBLISHED_OSNOISE) {
            let (ours, theirs) = (exact_percent(of_runtime(row)), exact_percent(available));
            let gaps = [row.noise.max_single, gap].map(|gap| gap.to_string());
            let [longest, published] = gaps;
            table.push([cpu.to_string(), setup.to_owned(), ours, longest, theirs, published]);
        }
        table
    }
}

/// Returns a share in 1/1000 of a percent with two digits.
fn percent(lost: u64) -> String {
    format!("{}.{:02}%", lost / 1_000, lost % 1_000 / 10)
}

/// Returns a share in 1/100000 of a percent with all digits.
fn exact_percent(parts: u64) -> String {
    format!("{}.{:05}%", parts / 100_000, parts % 100_000)
}

/// Returns the share of the runtime that a thread of osnoise had, in 1/100000 of a percent.
const fn of_runtime(row: &osnoise::Row) -> u64 {
    let runtime = if row.runtime == 0 { 1 } else { row.runtime };
    row.runtime.saturating_sub(row.noise.total) * 10_000_000 / runtime
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "timerlat -u on 8 CPUs beside a build, {} each, seed {}",
            self.experiment.duration, self.experiment.seed
        )?;
        for (index, (setup, measured)) in Setup::ALL.into_iter().zip(&self.timerlat).enumerate() {
            writeln!(f, "\n{}\n\n{}", setup.name(), measured.table)?;
            let published = PUBLISHED.get(index);
            writeln!(f, "                 ours                                     published")?;
            writeln!(f, "CPU   lost   thread avg     max   user max      lost   thread avg     max   user max  (us)")?;
            for (cpu, ours) in measured.rows.iter().enumerate() {
                let (lost, was_lost) = self.lost(index, cpu);
                let [_, thread, user] = ours.latencies;
                write!(f, "{cpu:3} {:>6} {:>12} {:>7} {:>10}", percent(lost), thread.0, thread.1, user.1)?;
                if let Some((row, lost)) = published.map(|rows| rows[cpu]).zip(was_lost) {
                    let [_, thread, user] = row.latencies;
                    write!(f, "    {:>6} {:>12} {:>7} {:>10}", percent(lost), thread.0, thread.1, user.1)?;
                }
                writeln!(f)?;
            }
        }
        writeln!(f, "\nosnoise -P f:1 on CPUs 2, 3 (isolated), 8, 9, servers deferred, a fair busy loop on 3 and 9")?;
        for (grain, collector) in &self.osnoise {
            writeln!(f, "\nruntime enforced: {grain}\n\n{}", osnoise::top(collector, self.experiment.duration))?;
            writeln!(f, "CPU  available  longest gap    published: available  longest gap (us)")?;
            for (row, (cpu, setup, available, gap, _)) in collector.rows().iter().zip(PUBLISHED_OSNOISE) {
                let (ours, theirs) = (exact_percent(of_runtime(row)), exact_percent(available));
                writeln!(
                    f,
                    "{cpu:3} {ours:>10} {:>12}              {theirs:>10} {gap:>12}  {setup}",
                    row.noise.max_single
                )?;
            }
        }
        Ok(())
    }
}

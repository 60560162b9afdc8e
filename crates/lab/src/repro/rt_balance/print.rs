//! [`Results`] as tables, a plot and JSON.

use super::{Example, Mode, Results, RtBalance2007};
use core::fmt;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use zerolag::results::{self as document, Document};
use zerolag_model::Duration;
use zerolag_report::plot::{Axis, Mark, Plot, Unit};
use zerolag_report::table::{Align, Table, Titled};
use zerolag_tools::rt_migrate::{Cell, Printed};

/// The text's listing of the old kernel, and the first of the patched one: times to the start in
/// microseconds.
const BEFORE: [u32; 5] = [36, 33, 20_041, 39, 33];
const PATCHED: [u32; 5] = [20_060, 61, 55, 56, 61];

impl Results {
    /// Plots the worst time to the start per thread and mode, next to the iterations listed in the
    /// text.
    #[must_use]
    pub fn plot(&self) -> Plot {
        let names: Vec<String> = (0..self.experiment.tasks).map(|task| format!("FIFO {}", task + 2)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let title = format!(
            "rt-migrate-test, {} threads on {} CPUs: worst of {} wakeups",
            self.experiment.tasks,
            self.experiment.cpus,
            self.experiment.tests * u64::from(self.experiment.wakeups)
        );
        let mut plot = Plot::new(
            &title,
            Axis::categories("thread", &names),
            Axis::log("from the barrier to running", Unit::Nanos),
        );
        for (mode, found) in &self.modes {
            let points = found.worst.iter().enumerate();
            // The axis is logarithmic: less than a microsecond is drawn as one.
            let points = points.map(|(task, us)| (task as f64, (*us).max(1) as f64 * 1_000.0)).collect();
            plot = plot.with(mode.name(), Mark::Bars, points);
        }
        for (name, starts) in [("published, before", BEFORE), ("published, patched", PATCHED)] {
            let points = starts.iter().enumerate().map(|(task, us)| (task as f64, f64::from(*us) * 1_000.0));
            plot = plot.with(name, Mark::Dashed, points.collect());
        }
        plot
    }
}

/// The file of `zerolag repro rt-balance`.
pub(crate) const DOCUMENT: Document = Document::of::<RtBalanceModes>(SCHEMA, "repro rt-balance");
const SCHEMA: &str = "zerolag.repro.rt-balance.v1";

/// Push and pull of real-time tasks against the periodic balancer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RtBalanceModes {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The name of the experiment.
    experiment: &'static str,
    /// The tests of each mode.
    tests: u64,
    /// The wakeups of each test.
    wakeups: u32,
    /// The seed of the first test; each further test adds 1.
    seed: u64,
    /// The number of CPUs.
    cpus: u32,
    /// The number of threads, of which the first is the least urgent.
    threads: u32,
    /// The longest stay in the kernel of a fair task beside the test; null without one.
    kernel_load_ns: Option<u64>,
    /// The modes, from old to new.
    modes: Vec<RtBalanceMode>,
}

/// The tests under one mode of balancing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RtBalanceMode {
    /// The setting `rt_balance`.
    rt_balance: &'static str,
    /// The kernel.
    kernel: String,
    /// The number of completed tests.
    tests: u64,
    /// The number of iterations.
    iterations: u64,
    /// The number of iterations in which a more urgent thread waited for a less urgent one.
    failures: u64,
    /// The number of tests with such an iteration.
    failed_tests: u64,
    /// The longest time to the start of each thread.
    start_max_us: Vec<u64>,
    /// The mean time to the start of each thread, rounded down.
    start_mean_us: Vec<u64>,
    /// The published result, as text.
    published: &'static str,
    /// The number of tests that did not end with their last iteration.
    broken: u64,
}

impl Results {
    /// Returns all modes as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let RtBalance2007 { tests, wakeups, seed, cpus, tasks, .. } = self.experiment;
        let modes = self.modes.iter().map(|(mode, found)| RtBalanceMode {
            rt_balance: mode.name(),
            kernel: mode.kernel().name(),
            tests: found.tests,
            iterations: found.iterations,
            failures: found.failures,
            failed_tests: found.failed_tests,
            start_max_us: found.worst.clone(),
            start_mean_us: found.total.iter().map(|total| total.checked_div(found.iterations).unwrap_or(0)).collect(),
            published: mode.published(),
            broken: found.broken,
        });
        document::value(&RtBalanceModes {
            schema: SCHEMA,
            experiment: "rt-balance",
            tests,
            wakeups,
            seed,
            cpus,
            threads: tasks,
            kernel_load_ns: self.experiment.kernel_load.map(Duration::as_nanos),
            modes: modes.collect(),
        })
    }
}

impl Results {
    /// Returns the answer in one sentence.
    #[must_use]
    pub fn answer(&self) -> String {
        let said: Vec<String> =
            self.modes.iter().map(|(mode, found)| format!("{} {}", found.failures, mode.name())).collect();
        let of = self.modes.first().map_or(0, |(_, found)| found.iterations);
        format!(
            "Wakeups, of {of} each, in which a more urgent thread waits for a less urgent one: {}.",
            said.join(", ")
        )
    }

    /// Returns the figures as tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Titled> {
        let mut tables = vec![
            Titled::new("Failures", self.how(), self.failures()),
            Titled::new("Time to the start by thread", "Worst and mean, in microseconds.", self.starts()),
        ];
        let examples = self.examples();
        if !examples.is_empty() {
            tables.push(Titled::new(
                "Iterations worth a look",
                "Of each mode the worst failure, and a start that was preempted at once.",
                examples,
            ));
        }
        tables
    }

    /// Returns what was run, in one sentence.
    fn how(&self) -> String {
        let RtBalance2007 { tests, wakeups, seed, cpus, tasks, kernel_load, .. } = self.experiment;
        let load = kernel_load.map_or_else(String::new, |longest| {
            format!("; beside a fair task per CPU that is in the kernel for up to {longest} at a time")
        });
        format!(
            "rt-migrate-test with {tasks} threads on {cpus} CPUs: {tests} tests of {wakeups} wakeups per mode, seeds from \
             {seed}, costs default{load}."
        )
    }

    fn failures(&self) -> Table {
        let mut table = Table::new(&[
            ("rt_balance", Align::Left),
            ("kernel", Align::Left),
            ("wakeups", Align::Right),
            ("failures", Align::Right),
            ("failed tests", Align::Right),
            ("worst, FIFO 3..", Align::Right),
            ("published", Align::Left),
        ]);
        for (mode, found) in &self.modes {
            table.push([
                mode.name().to_owned(),
                mode.kernel().name(),
                found.iterations.to_string(),
                found.failures.to_string(),
                found.failed_tests.to_string(),
                format!("{} us", found.worst_of_others()),
                mode.published().to_owned(),
            ]);
        }
        table
    }

    fn starts(&self) -> Table {
        let mut table = self.by_thread(&[("rt_balance", Align::Left)]);
        for (mode, found) in &self.modes {
            let mean = |total: &u64| total.checked_div(found.iterations).unwrap_or(0);
            let cells = found.worst.iter().zip(&found.total).map(|(worst, total)| format!("{worst} / {}", mean(total)));
            table.push([mode.name().to_owned()].into_iter().chain(cells));
        }
        table
    }

    /// Returns a table with these columns, and one per thread.
    fn by_thread(&self, columns: &[(&str, Align)]) -> Table {
        let names: Vec<String> = (0..self.experiment.tasks).map(|task| format!("FIFO {}", task + 2)).collect();
        let threads = names.iter().map(|name| (name.as_str(), Align::Right));
        Table::new(&columns.iter().copied().chain(threads).collect::<Vec<_>>())
    }

    /// Returns the iterations that are shown, each with the reason.
    fn shown(&self) -> impl Iterator<Item = (Mode, &Example, &'static str)> {
        self.modes.iter().flat_map(|(mode, found)| {
            let failure = found.failure.as_ref().map(|example| (*mode, example, "a more urgent thread waits"));
            let sneaked = found.sneaked.as_ref();
            let what = "the least urgent thread is first and is preempted: actually fine";
            failure.into_iter().chain(sneaked.map(|example| (*mode, example, what)))
        })
    }

    fn examples(&self) -> Table {
        let head = ["rt_balance", "what", "test", "iteration", "figure"];
        let mut table = self.by_thread(&head.map(|name| (name, Align::Left)));
        for (mode, Example { test, iteration, row }, what) in self.shown() {
            let mut push = |figure: &str, of: fn(&Cell) -> u64| {
                let head = [mode.name(), what, &test.to_string(), &iteration.to_string(), figure].map(str::to_owned);
                table.push(head.into_iter().chain(row.0.iter().map(|cell| of(cell).to_string())));
            };
            push("start, us", |cell| cell.start);
            push("end, us", |cell| cell.len);
            push("loops", |cell| cell.loops);
        }
        table
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RtBalance2007 { tests, wakeups, seed, cpus, tasks, .. } = self.experiment;
        writeln!(f, "rt-balance: rt-migrate-test, {tasks} threads FIFO 2..{} on {cpus} CPUs, 20ms run", tasks + 1)?;
        writeln!(f, "{tests} tests of {wakeups} wakeups per mode, seeds from {seed}, costs default")?;
        if let Some(longest) = self.experiment.kernel_load {
            writeln!(f, "beside a fair task per CPU that is in the kernel for up to {longest} at a time")?;
        }
        write!(f, "\n{}", self.failures())?;
        write!(f, "\nworst and mean time to the start, us, by thread\n{}", self.starts())?;
        for (mode, Example { test, iteration, row }, what) in self.shown() {
            writeln!(f, "\n{}: {what} (test {test})\n\n{}", mode.name(), Printed(*iteration, row))?;
        }
        Ok(())
    }
}

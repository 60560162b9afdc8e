//! [`Results`] as tables, plots and JSON.

use super::{Cell2010, Method, Workload, published};
use core::fmt;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use zerolag::results::{self as document, Document};
use zerolag_report::plot::{Axis, Mark, Plot, Unit};
use zerolag_report::table::{Align, Table, Titled};

/// The file of `zerolag repro bandwidth`.
pub(crate) const DOCUMENT: Document = Document::of::<BandwidthCells>(SCHEMA, "repro bandwidth");
const SCHEMA: &str = "zerolag.repro.bandwidth.v1";

/// A limit enforced in three ways.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct BandwidthCells {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The name of the experiment.
    experiment: &'static str,
    /// The cells of the published tables.
    cells: Vec<BandwidthCell>,
    /// The errors of each method.
    summary: Vec<MethodErrors>,
}

/// A cell of the published tables.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct BandwidthCell {
    /// The workload.
    workload: &'static str,
    /// The unit of `value` and `published`.
    unit: &'static str,
    /// The way to enforce the limit.
    method: &'static str,
    /// The period of the limit.
    period_ms: u64,
    /// The limit as a number of CPUs.
    bandwidth_cpus: u32,
    /// The simulated value.
    value: f64,
    /// The published value.
    published: Option<f64>,
    /// The difference in percent of the published value.
    error_percent: Option<f64>,
}

/// The errors of a method.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct MethodErrors {
    /// The way to enforce the limit.
    method: &'static str,
    /// The number of compared cells.
    cells: Option<usize>,
    /// The mean of the absolute errors.
    mean_error_percent: Option<f64>,
    /// The largest absolute error.
    worst_error_percent: Option<f64>,
    /// The allowed mean.
    band_mean_percent: f64,
    /// The allowed largest.
    band_worst_percent: f64,
}

/// The results of the experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Results {
    /// Cells and their values, row by row of the text's tables, without cells skipped by an
    /// interruption.
    pub values: Vec<(Cell2010, f64)>,
}

/// The distance of a method's cells from the published ones, in percent of these.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Errors {
    /// Mean of the absolute errors.
    pub mean: f64,
    /// The largest, with its sign.
    pub worst: f64,
    /// The cell with the largest error.
    pub at: Cell2010,
    /// The number of cells.
    pub cells: usize,
}

impl Results {
    /// Returns our value of a cell.
    #[must_use]
    pub fn of(&self, cell: Cell2010) -> Option<f64> {
        self.values.iter().find(|(other, _)| *other == cell).map(|(_, value)| *value)
    }

    /// Returns by how many percent of the published value ours is larger.
    #[must_use]
    pub fn error(&self, cell: Cell2010) -> Option<f64> {
        Some((self.of(cell)? / published(cell)? - 1.0) * 100.0)
    }

    /// Returns the errors of a method's cells; over all workloads and periods unless given.
    #[must_use]
    pub fn errors(&self, method: Method, workload: Option<Workload>, period: Option<u64>) -> Option<Errors> {
        let is_wanted = |cell: &Cell2010| {
            cell.method == method
                && workload.is_none_or(|workload| workload == cell.workload)
                && period.is_none_or(|period| period == cell.period)
        };
        let cells = self.values.iter().map(|(cell, _)| *cell).filter(is_wanted);
        let errors: Vec<(Cell2010, f64)> = cells.filter_map(|cell| Some((cell, self.error(cell)?))).collect();
        let (at, worst) = *errors.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        let mean = errors.iter().map(|(_, error)| error.abs()).sum::<f64>() / errors.len() as f64;
        Some(Errors { mean, worst, at, cells: errors.len() })
    }

    /// Returns the workloads and periods that were run, in order.
    #[must_use]
    pub fn graphs(&self) -> Vec<(Workload, u64)> {
        let mut graphs: Vec<(Workload, u64)> =
            self.values.iter().map(|(cell, _)| (cell.workload, cell.period)).collect();
        graphs.dedup();
        graphs
    }

    /// Plots one of the text's graphs: our three methods as lines, the published ones dashed.
    #[must_use]
    pub fn plot(&self, workload: Workload, period: u64) -> Plot {
        let (title, y) = match workload {
            Workload::Loops => ("while(1) x 16", Axis::linear("busy", Unit::Percent)),
            Workload::Primes => ("primes on 16 threads", Axis::log("seconds to completion", Unit::Number)),
        };
        let title = format!("{title}, period {period} ms: 16 CPUs");
        let mut plot = Plot::new(&title, Axis::linear("bandwidth in CPUs", Unit::Number), y);
        let cells = |method| {
            let is_wanted =
                move |cell: &Cell2010| (cell.workload, cell.period, cell.method) == (workload, period, method);
            self.values.iter().map(|(cell, _)| *cell).filter(is_wanted)
        };
        for method in Method::ALL {
            let points = cells(method).filter_map(|cell| Some((f64::from(cell.cpus), self.of(cell)?))).collect();
            plot = plot.with(method.name(), Mark::Line, points);
        }
        for method in Method::ALL {
            let points = cells(method).filter_map(|cell| Some((f64::from(cell.cpus), published(cell)?))).collect();
            plot = plot.with(&format!("published, {}", method.name()), Mark::Dashed, points);
        }
        plot
    }

    /// Returns all cells and the summary.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let cells = self.values.iter().map(|(cell, value)| BandwidthCell {
            workload: cell.workload.name(),
            unit: cell.workload.unit(),
            method: cell.method.name(),
            period_ms: cell.period,
            bandwidth_cpus: cell.cpus,
            value: round(*value),
            published: published(*cell),
            error_percent: self.error(*cell).map(round),
        });
        let summary = Method::ALL.map(|method| {
            let (errors, band) = (self.errors(method, None, None), method.band());
            MethodErrors {
                method: method.name(),
                cells: errors.map(|errors| errors.cells),
                mean_error_percent: errors.map(|errors| round(errors.mean)),
                worst_error_percent: errors.map(|errors| round(errors.worst)),
                band_mean_percent: band.mean,
                band_worst_percent: band.max,
            }
        });
        document::value(&BandwidthCells {
            schema: SCHEMA,
            experiment: "bandwidth",
            cells: cells.collect(),
            summary: summary.into(),
        })
    }

    /// Returns the answer in one sentence.
    #[must_use]
    pub fn answer(&self) -> String {
        let mean = |method: Method| {
            let errors = self.errors(method, None, None)?;
            Some(format!("{} {:.1} % (declared {:.0})", method.name(), errors.mean, method.band().mean))
        };
        let means: Vec<String> = Method::ALL.into_iter().filter_map(mean).collect();
        format!("Mean error against the published cells: {}.", means.join(", "))
    }

    /// Returns the figures as tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Titled> {
        let text = "In percent of the published value; 16 CPUs, limits of 1 to 16 CPUs, costs default.";
        let errors = Titled::new("Errors against the text", text, self.summary());
        let graphs = self.graphs().into_iter().map(|(workload, period)| {
            let (title, what) = match workload {
                Workload::Loops => ("Busy loops", "while(1) x 16: percent of the machine that is busy."),
                Workload::Primes => ("Primes", "Primes on 16 threads: seconds to completion."),
            };
            Titled::new(format!("{title}, {period} ms"), what, self.table(workload, period))
        });
        [errors].into_iter().chain(graphs).collect()
    }

    fn table(&self, workload: Workload, period: u64) -> Table {
        let mut head = vec![("CPUs".to_owned(), Align::Right)];
        for method in Method::ALL {
            head.extend([
                (method.name().to_owned(), Align::Right),
                ("text".to_owned(), Align::Right),
                ("error".to_owned(), Align::Right),
            ]);
        }
        let head: Vec<(&str, Align)> = head.iter().map(|(name, align)| (name.as_str(), *align)).collect();
        let mut table = Table::new(&head);
        let mut limits: Vec<u32> = self.values.iter().map(|(cell, _)| cell.cpus).collect();
        limits.sort_unstable();
        limits.dedup();
        for cpus in limits {
            let mut row = vec![cpus.to_string()];
            for method in Method::ALL {
                let cell = Cell2010 { workload, method, period, cpus };
                let text = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
                let error = self.error(cell).map_or_else(|| "-".to_owned(), |error| format!("{error:+.1}%"));
                row.extend([text(self.of(cell)), text(published(cell)), error]);
            }
            table.push(row);
        }
        table
    }

    fn summary(&self) -> Table {
        let mut table = Table::new(&[
            ("method", Align::Left),
            ("workload", Align::Left),
            ("period", Align::Right),
            ("cells", Align::Right),
            ("mean error", Align::Right),
            ("worst", Align::Right),
            ("at", Align::Right),
            ("declared", Align::Left),
        ]);
        for method in Method::ALL {
            let band = method.band();
            let parts = self.graphs().into_iter().map(|(workload, period)| (Some(workload), Some(period)));
            for (workload, period) in parts.chain([(None, None)]) {
                let Some(errors) = self.errors(method, workload, period) else { continue };
                let is_all = workload.is_none();
                let is_met = errors.mean <= band.mean && errors.worst.abs() <= band.max;
                let says = if is_met { "met" } else { "not met" };
                let declared = format!("mean {:.0}%, worst {:.0}%: {says}", band.mean, band.max);
                table.push([
                    method.name().to_owned(),
                    workload.map_or("all", Workload::name).to_owned(),
                    period.map_or_else(|| "all".to_owned(), |period| format!("{period}ms")),
                    errors.cells.to_string(),
                    format!("{:.1}%", errors.mean),
                    format!("{:+.1}%", errors.worst),
                    format!("{} CPUs", errors.at.cpus),
                    if is_all { declared } else { String::new() },
                ]);
            }
        }
        table
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "bandwidth: 16 CPUs, limits of 1 to 16 CPUs; errors in percent of the published value, costs default"
        )?;
        for (workload, period) in self.graphs() {
            let what = match workload {
                Workload::Loops => "while(1) x 16, percent of the machine that is busy",
                Workload::Primes => "primes on 16 threads, seconds to completion",
            };
            writeln!(f, "\nperiod {period}ms: {what}\n\n{}", self.table(workload, period))?;
        }
        write!(f, "\nerrors against the text\n\n{}", self.summary())
    }
}

/// Rounds to four places, so that the JSON of a run has the same bytes on every machine.
fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

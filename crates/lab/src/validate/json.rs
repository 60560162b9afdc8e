//! Comparisons as JSON.

#[cfg(target_os = "linux")]
use super::live::{LiveComparison, LiveOptions};
use super::{Comparison, names};
use schemars::JsonSchema;
use serde::Serialize;
use zerolag::results::{self as document, Document};

/// The result of `zerolag validate`.
pub(crate) const DOCUMENT: Document = Document::of::<Validated<'_>>(SCHEMA, "validate");
const SCHEMA: &str = "zerolag.validate.v1";

/// Simulation results compared with recorded kernels.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Validated<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The recordings, in the order of the cases.
    comparisons: Vec<ValidatedCase<'a>>,
}

/// A recording and its simulation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ValidatedCase<'a> {
    /// The case, with the difference from other recordings of the same kernel.
    case: String,
    /// The recorded kernel.
    kernel: String,
    /// The recorded machine.
    on: &'a str,
    /// Whether all figures are within their bands.
    is_inside: bool,
    /// Why it is outside, if known.
    because: Option<&'a str>,
    /// Whether takes and runs can be told apart; null with too few of them.
    told: Option<ValidatedTold>,
    /// The figures of the recording.
    figures: Vec<ValidatedFigure<'a>>,
}

/// A two-sample test of takes and simulated runs, by the shares of all tasks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ValidatedTold {
    /// Its significance.
    p: f64,
    /// Whether they are told apart, with false alarms of one in a hundred.
    is_apart: bool,
    /// The shift in points that would be found nine times in ten.
    finds: f64,
}

/// A figure, recorded and simulated.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ValidatedFigure<'a> {
    /// The figure and its owner: `share.hog0`.
    name: &'a str,
    /// The unit of all values: `percent`, `ms`, `us` or `count`.
    unit: &'static str,
    /// The kernel's value: the mean of its takes.
    recorded: f64,
    /// The smallest value of a take.
    recorded_min: f64,
    /// The largest value of a take.
    recorded_max: f64,
    /// The simulated value: the mean, if the case has several runs.
    simulated: f64,
    /// The smallest simulated value.
    simulated_min: f64,
    /// The largest simulated value.
    simulated_max: f64,
    /// `simulated` minus `recorded`.
    error: f64,
    /// The allowed error.
    band: f64,
    /// Whether the error is within the band.
    is_inside: bool,
}

/// Returns comparisons with recorded kernels as JSON, with a line break at the end.
#[must_use]
pub fn json(comparisons: &[Comparison]) -> String {
    let comparisons = comparisons.iter().map(|compared| ValidatedCase {
        case: compared.name(),
        kernel: compared.recording.kernel.name(),
        on: &compared.recording.on,
        is_inside: compared.is_inside(),
        because: compared.because.as_deref(),
        told: compared.told.map(|told| ValidatedTold { p: told.p, is_apart: told.is_apart(), finds: told.finds }),
        figures: compared.figures.iter().map(value).collect(),
    });
    document::text(&Validated { schema: SCHEMA, comparisons: comparisons.collect() })
}

fn value(figure: &super::Figure) -> ValidatedFigure<'_> {
    ValidatedFigure {
        name: &figure.name,
        unit: names::unit_of(&figure.name).name(),
        recorded: figure.recorded.mean,
        recorded_min: figure.recorded.least,
        recorded_max: figure.recorded.most,
        simulated: figure.ours,
        simulated_min: figure.range().0,
        simulated_max: figure.range().1,
        error: figure.error(),
        band: figure.allowed(),
        is_inside: figure.is_inside(),
    }
}

/// The result of `zerolag validate --live`.
#[cfg(target_os = "linux")]
pub(crate) const LIVE: Document = Document::of::<LiveValidated<'_>>(LIVE_SCHEMA, "validate --live");
#[cfg(target_os = "linux")]
const LIVE_SCHEMA: &str = "zerolag.validate.live.v1";

/// Simulation results compared with this host.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct LiveValidated<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = LIVE_SCHEMA))]
    schema: &'static str,
    /// The runs on the host of each case.
    runs: u32,
    /// The duration of each run.
    duration_ns: u64,
    /// The cost profile; null without one, and then no latency is compared.
    costs: Option<&'a str>,
    /// The cases.
    cases: Vec<LiveCase<'a>>,
}

/// A case on this host.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct LiveCase<'a> {
    /// Its name.
    case: &'a str,
    /// The simulated kernel.
    kernel: String,
    /// The number of CPUs of the workload.
    cpus: u32,
    /// The largest share of the CPUs that other programs used.
    other_programs_permille: u64,
    /// Why it was skipped; null if it ran.
    skipped: Option<&'a str>,
    /// Its figures; empty if it was skipped.
    figures: Vec<LiveValue<'a>>,
}

/// A figure on this host, run by run, and simulated.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct LiveValue<'a> {
    /// The figure and its owner: `share.hog0`.
    name: &'a str,
    /// The unit of all values: `percent`, `ms`, `us` or `count`.
    unit: &'static str,
    /// The host's values, a run each.
    host: &'a [f64],
    /// Their mean.
    mean: f64,
    /// The smallest of them.
    from: f64,
    /// The largest of them.
    to: f64,
    /// The simulated value.
    ours: f64,
    /// `ours` minus `mean`.
    error: f64,
    /// The allowed error.
    band: f64,
    /// Whether `ours` is within the band of the nearest run.
    is_inside: bool,
}

/// Returns comparisons with this host as JSON, with a line break at the end.
#[cfg(target_os = "linux")]
#[must_use]
pub fn live_json(comparisons: &[LiveComparison], live: &LiveOptions) -> String {
    let cases = comparisons.iter().map(|compared| LiveCase {
        case: &compared.case,
        kernel: compared.kernel.name(),
        cpus: compared.cpus,
        other_programs_permille: compared.others,
        skipped: compared.skipped.as_deref(),
        figures: compared.figures.iter().map(live_value).collect(),
    });
    document::text(&LiveValidated {
        schema: LIVE_SCHEMA,
        runs: live.runs,
        duration_ns: live.duration.as_nanos(),
        costs: live.costs.as_ref().map(|costs| &*costs.name),
        cases: cases.collect(),
    })
}

#[cfg(target_os = "linux")]
fn live_value(figure: &super::live::LiveFigure) -> LiveValue<'_> {
    let (from, to) = figure.spread();
    LiveValue {
        name: &figure.name,
        unit: names::unit_of(&figure.name).name(),
        host: &figure.host,
        mean: figure.mean(),
        from,
        to,
        ours: figure.ours,
        error: figure.error(),
        band: figure.band.of(figure.mean()),
        is_inside: figure.is_inside(),
    }
}

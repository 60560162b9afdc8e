//! [`Results`] as tables, plots and JSON.

use super::{Finding, RtIpi2017, Run, Scene, Variant};
use core::fmt;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use zerolag::results::{self as document, Document};
use zerolag_model::Duration;
use zerolag_report::human::Human;
use zerolag_report::plot::{Axis, Mark, Plot, Unit};
use zerolag_report::table::{Align, Table, Titled};

/// The file of `zerolag repro rt-ipi`.
pub(crate) const DOCUMENT: Document = Document::of::<RtIpiRuns>(SCHEMA, "repro rt-ipi");
const SCHEMA: &str = "zerolag.repro.rt-ipi.v1";

/// Four ways to pull real-time tasks, on machines of many sizes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RtIpiRuns {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The name of the experiment.
    experiment: &'static str,
    /// The cost profile.
    costs: String,
    /// The seed of every run.
    seed: u64,
    /// The number of waves of the scene `wave`.
    waves: u32,
    /// The duration of the scene `stress`.
    stress_ns: u64,
    /// The threshold of the lockup watchdog.
    watchdog_thresh_ns: u64,
    /// The runs.
    runs: Vec<RtIpiRun>,
}

/// A run of the experiment.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RtIpiRun {
    /// The scene: `wave` or `stress`.
    scene: &'static str,
    /// The setting `rt_balance`.
    rt_balance: &'static str,
    /// The setting `rt_ipi_skip_self`.
    rt_ipi_skip_self: bool,
    /// The setting `rt_ipi_skip_pushing`.
    rt_ipi_skip_pushing: bool,
    /// The number of CPUs.
    cpus: u32,
    /// The factor on the costs of an IPI.
    ipi_cost_factor: u32,
    /// The simulated time.
    elapsed_ns: u64,
    /// The number of waits for a run-queue lock.
    lock_waits: u64,
    /// The longest such wait.
    lock_wait_max_ns: u64,
    /// The 99th percentile of these waits.
    lock_wait_p99_ns: u64,
    /// The number of requests to push.
    requests: u64,
    /// The number of requests per second, mean of the CPUs.
    requests_per_cpu_second: u64,
    /// The number of requests per second of the CPU with the most.
    requests_per_second_on_one_cpu: u64,
    /// The longest time of IPI and lock work on one CPU.
    ipi_stretch_max_ns: u64,
    /// The longest wakeup latency.
    latency_max_ns: u64,
    /// The longest time for which a less urgent task ran while a more urgent one waited.
    disorder_max_ns: u64,
    /// The CPU on which the watchdog fired; null if it did not.
    locked_up_cpu: Option<u32>,
    /// The number of simulated events.
    events: u64,
}

/// The results of the experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Results {
    /// The experiment.
    pub experiment: RtIpi2017,
    /// Its runs, without runs skipped by an interruption.
    pub findings: Vec<Finding>,
}

/// "over 200us of processing IPIs", on 80 CPUs.
const PUBLISHED: Duration = Duration::from_micros(200);
const PUBLISHED_CPUS: u32 = 80;
/// "it actually triggered the hard lockup detector".
const RUNAWAY_CPUS: u32 = 120;

impl Results {
    /// Returns the result of a run.
    #[must_use]
    pub fn of(&self, scene: Scene, variant: Variant, cpus: u32, factor: u32) -> Option<&Finding> {
        let wanted = Run { scene, variant, cpus, factor };
        self.findings.iter().find(|finding| finding.run == wanted)
    }

    /// Plots the longest stretch of IPI and lock work on one CPU in a wave, over the number of
    /// CPUs. Runs without an end are separate points, where they were cut off.
    #[must_use]
    pub fn stretch_plot(&self) -> Plot {
        let title = "Wave: longest time that a CPU is in IPI and lock work";
        let plot = self.plot(title, "longest IPI and lock work", |finding| finding.stretch);
        let text = (f64::from(PUBLISHED_CPUS), nanos(PUBLISHED));
        let cut = self.findings.iter().filter(|finding| {
            finding.run.scene == Scene::Wave && finding.run.factor == 1 && finding.locked_up.is_some()
        });
        let cut = cut.map(|finding| (f64::from(finding.run.cpus), nanos(finding.stretch))).collect();
        let plot = plot.with("published, 2015, 80 CPUs", Mark::Dashed, vec![text]);
        plot.with("no end: cut off", Mark::Points, cut)
    }

    /// Plots the worst latency of the most urgent task of a CPU in a wave, over the number of CPUs.
    /// Only runs with an end: a run that is cut off has no worst latency.
    #[must_use]
    pub fn latency_plot(&self) -> Plot {
        let title = "Wave: worst latency of a FIFO 99 task, where the run has an end";
        self.plot(title, "worst latency", |finding| finding.latency)
    }

    fn plot(&self, title: &str, y: &str, value: impl Fn(&Finding) -> Duration) -> Plot {
        let mut plot = Plot::new(title, Axis::log("CPUs", Unit::Number), Axis::log(y, Unit::Nanos));
        for variant in self.experiment.variants.iter().copied() {
            let of = |cpus: &u32| self.of(Scene::Wave, variant, *cpus, 1);
            let points = self.experiment.cpus.iter().filter_map(of).filter(|finding| finding.locked_up.is_none());
            let points = points.map(|finding| (f64::from(finding.run.cpus), nanos(value(finding)))).collect();
            // Tables name it below the variant that it adds to.
            let adds_to = if variant == Variant::IpiSkipPushing { "ipi_per_cpu, " } else { "ipi_root_domain, " };
            let name = variant.name().replace("... ", adds_to);
            plot = plot.with(&name, Mark::Line, points);
        }
        plot
    }

    /// Returns all figures; times are integers in nanoseconds, and their keys say so.
    #[must_use]
    pub fn to_json(&self) -> Value {
        document::value(&RtIpiRuns {
            schema: SCHEMA,
            experiment: "rt-ipi",
            costs: self.experiment.costs.name.clone(),
            seed: self.experiment.seed,
            waves: self.experiment.waves,
            stress_ns: self.experiment.stress.as_nanos(),
            watchdog_thresh_ns: self.experiment.threshold.as_nanos(),
            runs: self.findings.iter().map(finding_data).collect(),
        })
    }

    fn scene_table(&self, scene: Scene) -> Table {
        let mut table = Table::new(&[
            ("CPUs", Align::Right),
            ("variant", Align::Left),
            ("lock wait p99", Align::Right),
            ("max", Align::Right),
            ("requests/CPU/s", Align::Right),
            ("on one CPU", Align::Right),
            ("longest IPI+lock work", Align::Right),
            ("worst latency", Align::Right),
            ("lower one runs for", Align::Right),
        ]);
        for cpus in &self.experiment.cpus {
            for variant in self.experiment.variants.iter().copied() {
                let Some(finding) = self.of(scene, variant, *cpus, 1) else { continue };
                let [mean, most] = finding.requests_per_second();
                table.push([
                    cpus.to_string(),
                    variant.name().to_owned(),
                    time(finding.lock_wait[1]),
                    time(finding.lock_wait[0]),
                    mean.to_string(),
                    most.to_string(),
                    stretch(finding),
                    time(finding.latency),
                    time(finding.disorder),
                ]);
            }
        }
        table
    }

    fn sensitivity_table(&self, scene: Scene) -> Table {
        let sizes: Vec<String> = self.experiment.sensitivity.iter().map(|cpus| format!("{cpus} CPUs")).collect();
        let mut head = vec![("IPI cost", Align::Right), ("variant", Align::Left)];
        head.extend(sizes.iter().map(|size| (size.as_str(), Align::Right)));
        let mut table = Table::new(&head);
        for factor in &self.experiment.factors {
            for variant in self.experiment.variants.iter().copied() {
                let cells = self
                    .experiment
                    .sensitivity
                    .iter()
                    .map(|cpus| self.of(scene, variant, *cpus, *factor).map_or_else(|| "-".to_owned(), stretch));
                table.push([format!("x{factor}"), variant.name().to_owned()].into_iter().chain(cells));
            }
        }
        table
    }

    /// Returns the answer in one sentence.
    #[must_use]
    pub fn answer(&self) -> String {
        let met = |factor: &&u32| self.observed(**factor).iter().all(|observed| *observed == Some(true));
        let factors: Vec<String> =
            self.experiment.factors.iter().filter(met).map(|factor| format!("x{factor}")).collect();
        match &factors[..] {
            [] => "No cost of an IPI that was run gives all three published observations.".to_owned(),
            factors => format!("All three published observations are met with IPI costs of {}.", factors.join(", ")),
        }
    }

    /// Returns the figures as tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Titled> {
        let RtIpi2017 { waves, stress, threshold, seed, costs, pause, .. } = &self.experiment;
        let profile = &costs.name;
        let scene = |scene: Scene| {
            let what = match scene {
                Scene::Wave => format!("{waves} times all lower their priority at about the same time"),
                Scene::Stress => {
                    format!("each lowers its priority about {} times a second, for {stress}", turns(*pause))
                }
            };
            let text = format!(
                "One overloaded CPU; of the others {what}. Seed {seed}, costs {profile}. A run ends when a CPU does not leave IPI \
                 and lock work for {threshold} (the kernel's watchdog: 10s)."
            );
            Titled::new(capital(scene.name()), text, self.scene_table(scene))
        };
        let sensitivity = |scene: Scene| {
            let title = format!("{} by the cost of an IPI", capital(scene.name()));
            Titled::new(title, "The longest IPI and lock work on one CPU.", self.sensitivity_table(scene))
        };
        let observed =
            Titled::new("Published observations", "In either scene, by the cost of an IPI.", self.observations());
        let scenes = [Scene::Wave, Scene::Stress];
        [observed].into_iter().chain(scenes.map(scene)).chain(scenes.map(sensitivity)).collect()
    }

    /// Lists which published observations are reproduced, by the cost of an IPI.
    fn observations(&self) -> Table {
        let mut table = Table::new(&[
            ("IPI cost", Align::Right),
            ("2015, 80 CPUs: over 200us", Align::Left),
            ("2015, 120 CPUs: no end", Align::Left),
            ("2017: neither", Align::Left),
        ]);
        for factor in &self.experiment.factors {
            let says = |met: Option<bool>| match met {
                Some(true) => "met".to_owned(),
                Some(false) => "not met".to_owned(),
                None => "-".to_owned(),
            };
            let observed = self.observed(*factor);
            table.push([format!("x{factor}")].into_iter().chain(observed.map(says)));
        }
        table
    }

    /// Returns whether each published observation is reproduced with IPIs of this cost; `None` if
    /// its runs are missing.
    ///
    /// The observations: with `ipi_per_cpu`, more than 200 us of IPI work on a CPU of 80, and a CPU
    /// of 120 that does not leave it, in either scene; with `ipi_root_domain`, neither.
    #[must_use]
    pub fn observed(&self, factor: u32) -> [Option<bool>; 3] {
        let both = |variant, cpus| {
            let of = |scene| self.of(scene, variant, cpus, factor);
            Some([of(Scene::Wave)?, of(Scene::Stress)?])
        };
        let over = |found: [&Finding; 2]| found.iter().any(|finding| finding.stretch > PUBLISHED);
        let stuck = |found: [&Finding; 2]| found.iter().any(|finding| finding.locked_up.is_some());
        let root = both(Variant::IpiRootDomain, PUBLISHED_CPUS).zip(both(Variant::IpiRootDomain, RUNAWAY_CPUS));
        [
            both(Variant::IpiPerCpu, PUBLISHED_CPUS).map(over),
            both(Variant::IpiPerCpu, RUNAWAY_CPUS).map(stuck),
            root.map(|(at_80, at_120)| !over(at_80) && !stuck(at_120)),
        ]
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RtIpi2017 { waves, stress, threshold, seed, costs, pause, .. } = &self.experiment;
        let profile = &costs.name;
        writeln!(f, "rt-ipi: one overloaded CPU, all others lower their priority; seed {seed}, costs {profile}")?;
        writeln!(
            f,
            "runs end when a CPU does not leave IPI and lock work for {threshold} (the kernel's watchdog: 10s)"
        )?;
        writeln!(f, "\nwave: {waves} times all at about the same time\n\n{}", self.scene_table(Scene::Wave))?;
        writeln!(
            f,
            "stress: each about {} times a second, for {stress}\n\n{}",
            turns(*pause),
            self.scene_table(Scene::Stress)
        )?;
        for scene in [Scene::Wave, Scene::Stress] {
            writeln!(f, "{}: longest IPI and lock work on one CPU, by what an IPI costs\n", scene.name())?;
            writeln!(f, "{}", self.sensitivity_table(scene))?;
        }
        writeln!(f, "published observations, in either scene\n")?;
        write!(f, "{}", self.observations())
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn finding_data(finding: &Finding) -> RtIpiRun {
    let Run { scene, variant, cpus, factor } = finding.run;
    let [mean, most] = finding.requests_per_second();
    RtIpiRun {
        scene: scene.name(),
        rt_balance: variant.balance().name(),
        rt_ipi_skip_self: variant == Variant::IpiSkipSelf,
        rt_ipi_skip_pushing: variant == Variant::IpiSkipPushing,
        cpus,
        ipi_cost_factor: factor,
        elapsed_ns: finding.elapsed.as_nanos(),
        lock_waits: finding.lock_waits,
        lock_wait_max_ns: finding.lock_wait[0].as_nanos(),
        lock_wait_p99_ns: finding.lock_wait[1].as_nanos(),
        requests: finding.requests,
        requests_per_cpu_second: mean,
        requests_per_second_on_one_cpu: most,
        ipi_stretch_max_ns: finding.stretch.as_nanos(),
        latency_max_ns: finding.latency.as_nanos(),
        disorder_max_ns: finding.disorder.as_nanos(),
        locked_up_cpu: finding.locked_up.map(|cpu| cpu.0),
        events: finding.events,
    }
}

fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}

fn time(time: Duration) -> String {
    if time.is_zero() { "-".to_owned() } else { Human(time).to_string() }
}

/// Returns the longest stretch, or that it had no end.
fn stretch(finding: &Finding) -> String {
    match finding.locked_up {
        None => time(finding.stretch),
        Some(cpu) => format!("no end, cpu {cpu}"),
    }
}

/// Returns how often a task of the stress runs in a second, in hundreds: it runs for 50 us on
/// average, and its sleep is in microseconds.
const fn turns(pause: u64) -> u64 {
    1_000_000 / (50 + pause) / 100 * 100
}

//! An analysis as a table, as JSON, and as columns.

use super::{Analysis, Row};
use crate::document::{self, Document};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use zerolag_model::Duration;
use zerolag_report::frame::{Frame, Values};
use zerolag_report::human::Human;
use zerolag_report::table::{Align, Table};

/// A time of each row, if it exists.
type RowTimes<'a> = &'a dyn Fn(&Row) -> Option<Duration>;

/// The result of `zerolag analyse`.
pub(crate) const DOCUMENT: Document = Document::of::<Bounds<'_>>(SCHEMA, "analyse");
const SCHEMA: &str = "zerolag.analyse.v1";

/// Bounds on responses, next to the longest simulated ones.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Bounds<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The simulated kernel.
    kernel: &'a str,
    /// The number of CPUs.
    cpus: usize,
    /// The number of simulated runs.
    runs: u64,
    /// The seed of the first run; each further run adds 1.
    seed: u64,
    /// The simulated time of each run; null without runs.
    duration_ns: Option<u64>,
    /// The tasks, in the order of the workload.
    tasks: Vec<BoundedTask<'a>>,
    /// Tests of all deadline tasks of a set of CPUs.
    sets: Vec<TestedSet<'a>>,
    /// What limits of groups give and take.
    groups: Vec<LimitedSupply<'a>>,
    /// The assumptions of the bounds that the workload breaks.
    broken: Vec<BrokenAssumption<'a>>,
}

/// A task, the bound on its response, and its longest simulated response.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct BoundedTask<'a> {
    /// Its name.
    name: &'a str,
    /// The number of its threads.
    threads: u32,
    /// Its policy.
    policy: String,
    /// Its real-time priority.
    priority: Option<u8>,
    /// The CPUs that it may run on.
    cpus: String,
    /// The longest computation of a job; null if it has no bound.
    cost_ns: Option<u64>,
    /// The shortest time between jobs.
    period_ns: Option<u64>,
    /// The relative deadline.
    deadline_ns: Option<u64>,
    /// The bound on its response; null if there is none.
    bound_ns: Option<u64>,
    /// The analysis that gives the bound.
    method: Option<&'static str>,
    /// The paper of the analysis.
    paper: Option<&'static str>,
    /// Why there is no bound.
    no_bound: Option<&'a str>,
    /// Whether the bound is at most the deadline; null if either is missing.
    keeps_deadline: Option<bool>,
    /// Indices into `broken`: the assumptions of its bound that the workload breaks.
    breaks: &'a [usize],
    /// The longest simulated response; null without one.
    simulated: Option<LongestResponse<'a>>,
    /// Whether the simulated response is longer than the bound although no assumption is broken.
    exceeded: bool,
}

/// The longest simulated response of a task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct LongestResponse<'a> {
    /// The number of completed jobs.
    jobs: u64,
    /// The longest response.
    response_max_ns: u64,
    /// The thread that had it.
    thread: &'a str,
    /// The seed of its run.
    seed: u64,
    /// The release of its job.
    released_at_ns: u64,
}

/// A test of all deadline tasks of a set of CPUs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct TestedSet<'a> {
    /// The CPUs.
    cpus: String,
    /// The name of the test.
    test: &'a str,
    /// Its paper.
    paper: &'a str,
    /// Whether the test holds; null if it does not apply.
    holds: Option<bool>,
    /// The result as text.
    says: &'a str,
}

/// What the limit of a group gives and takes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct LimitedSupply<'a> {
    /// The path of the group.
    path: &'a str,
    /// Its limit, as the kernel writes it.
    cpu_max: String,
    /// The number of CPUs of the machine.
    cpus: usize,
    /// The longest time for which it can stand still; null if there is no bound.
    blackout_ns: Option<u64>,
    /// The most CPU time that it takes in any period.
    most_in_a_period_ns: u64,
    /// The most CPU time that it takes in any second.
    most_in_a_second_ns: u64,
}

/// An assumption of a bound that the workload breaks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct BrokenAssumption<'a> {
    /// The assumption.
    assumption: &'static str,
    /// The task that breaks it; null if it is not one task.
    task: Option<&'a str>,
    /// How it is broken.
    reason: &'a str,
}

fn nanos(time: Option<Duration>) -> Option<u64> {
    time.map(Duration::as_nanos)
}

impl Row {
    fn data(&self) -> BoundedTask<'_> {
        let bound = self.bound.as_ref().ok();
        BoundedTask {
            name: &self.name,
            threads: self.instances,
            policy: self.policy.to_string(),
            priority: self.priority,
            cpus: self.cpus.to_string(),
            cost_ns: nanos(self.cost),
            period_ns: nanos(self.period),
            deadline_ns: nanos(self.deadline),
            bound_ns: nanos(bound.map(|bound| bound.response)),
            method: bound.map(|bound| bound.method.name()),
            paper: bound.map(|bound| bound.method.paper()),
            no_bound: self.bound.as_ref().err().map(|why| &**why),
            keeps_deadline: self.keeps_deadline(),
            breaks: &self.breaks,
            simulated: self.observed.as_ref().map(|seen| LongestResponse {
                jobs: seen.jobs,
                response_max_ns: seen.longest.as_nanos(),
                thread: &seen.thread,
                seed: seen.seed,
                released_at_ns: seen.at.as_nanos(),
            }),
            exceeded: self.is_exceeded(),
        }
    }
}

impl Analysis {
    /// Returns the analysis as JSON: `zerolag.analyse.v1`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let broken = self.broken.iter().map(|broken| BrokenAssumption {
            assumption: broken.assumption.name(),
            task: broken.task.as_deref(),
            reason: &broken.reason,
        });
        let sets = self.sets.iter().map(|set| TestedSet {
            cpus: set.cpus.to_string(),
            test: set.name,
            paper: set.paper,
            holds: set.holds,
            says: &set.says,
        });
        let groups = self.groups.iter().map(|group| LimitedSupply {
            path: &group.path,
            cpu_max: group.max.to_string(),
            cpus: group.cpus,
            blackout_ns: nanos(group.blackout),
            most_in_a_period_ns: group.most_in_a_period.as_nanos(),
            most_in_a_second_ns: group.most_in_a_second.as_nanos(),
        });
        document::value(&Bounds {
            schema: SCHEMA,
            kernel: &self.kernel,
            cpus: self.nr_cpus,
            runs: self.runs,
            seed: self.seed,
            duration_ns: nanos(self.duration),
            tasks: self.tasks.iter().map(Row::data).collect(),
            sets: sets.collect(),
            groups: groups.collect(),
            broken: broken.collect(),
        })
    }

    /// Returns the tasks as columns, named as in the JSON.
    #[must_use]
    pub fn frame(&self) -> Frame {
        let rows = &self.tasks;
        let text = |of: &dyn Fn(&Row) -> String| Values::Text(rows.iter().map(|row| Arc::from(of(row))).collect());
        let times = |of: RowTimes<'_>| {
            let values = rows.iter().map(|row| of(row).unwrap_or_default().as_nanos()).collect();
            (Values::U64(values), rows.iter().map(|row| of(row).is_some()).collect::<Vec<bool>>())
        };
        let method = |row: &Row| row.bound.as_ref().ok().map(|bound| bound.method);
        let has_bound = || rows.iter().map(|row| row.bound.is_ok()).collect::<Vec<bool>>();
        let breaks = |row: &Row| {
            let mut names: Vec<&str> = row.breaks.iter().map(|at| self.broken[*at].assumption.name()).collect();
            names.dedup();
            names.join(",")
        };
        let mut frame = Frame::new("bounds", rows.len())
            .with("name", text(&|row| row.name.to_string()))
            .with("policy", text(&|row| row.policy.to_string()))
            .with("cpus", text(&|row| row.cpus.to_string()));
        let columns: [(&str, RowTimes<'_>); 5] = [
            ("cost_ns", &|row| row.cost),
            ("period_ns", &|row| row.period),
            ("deadline_ns", &|row| row.deadline),
            ("bound_ns", &|row| row.bound.as_ref().ok().map(|bound| bound.response)),
            ("simulated_max_ns", &|row| row.observed.as_ref().map(|seen| seen.longest)),
        ];
        for (name, of) in columns {
            let (values, known) = times(of);
            frame = frame.with_some(name, values, known);
        }
        let jobs = rows.iter().map(|row| row.observed.as_ref().map_or(0, |seen| seen.jobs)).collect();
        frame
            .with("jobs", Values::U64(jobs))
            .with_some("method", text(&|row| method(row).map_or("", super::Method::name).to_owned()), has_bound())
            .with_some("paper", text(&|row| method(row).map_or("", super::Method::paper).to_owned()), has_bound())
            .with("breaks", text(&breaks))
            .with_some(
                "no_bound",
                text(&|row| row.bound.as_ref().err().cloned().unwrap_or_default()),
                rows.iter().map(|row| row.bound.is_err()).collect(),
            )
    }
}

impl Analysis {
    /// Returns the table of the tasks.
    fn table(&self) -> Table {
        let time = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), |time| Human(time).to_string());
        let mut table = Table::new(&[
            ("task", Align::Left),
            ("policy", Align::Left),
            ("cpus", Align::Left),
            ("cost", Align::Right),
            ("period", Align::Right),
            ("deadline", Align::Right),
            ("bound", Align::Right),
            ("simulated", Align::Right),
            ("of bound", Align::Right),
            ("deadline is", Align::Left),
            ("broken", Align::Left),
        ]);
        for row in &self.tasks {
            let bound = row.bound.as_ref().ok().map(|bound| bound.response);
            let seen = row.observed.as_ref().map(|seen| seen.longest);
            let share = bound.zip(seen).map(|(bound, seen)| seen.as_nanos() as f64 / bound.as_nanos().max(1) as f64);
            let share = share.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0));
            let policy =
                row.priority.map_or_else(|| row.policy.to_string(), |priority| format!("{} {priority}", row.policy));
            let kept = match row.keeps_deadline() {
                Some(true) => "kept",
                Some(false) => "not seen kept",
                None => "",
            };
            let threads = if row.instances == 1 { String::new() } else { format!(" x{}", row.instances) };
            let breaks: Vec<String> = row.breaks.iter().map(|at| format!("[{}]", at + 1)).collect();
            table.push([
                format!("{}{threads}", row.name),
                policy,
                row.cpus.to_string(),
                time(row.cost),
                time(row.period),
                time(row.deadline),
                time(bound),
                time(seen),
                share,
                kept.to_owned(),
                breaks.join(" "),
            ]);
        }
        table
    }
}

impl fmt::Display for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.table())?;
        let runs = if self.runs == 1 { "1 run".to_owned() } else { format!("{} runs", self.runs) };
        if self.runs > 0 {
            let each = self.duration.map_or_else(String::new, |duration| format!(" of {duration}"));
            writeln!(
                f,
                "\nsimulated: the longest response of {runs}{each}, kernel {}, seed {}",
                self.kernel, self.seed
            )?;
        }
        let mut methods: Vec<_> =
            self.tasks.iter().filter_map(|row| row.bound.as_ref().ok()).map(|bound| bound.method).collect();
        methods.sort_by_key(|method| method.name());
        methods.dedup();
        for method in methods {
            let own: Vec<&str> = self
                .tasks
                .iter()
                .filter(|row| row.bound.as_ref().is_ok_and(|bound| bound.method == method))
                .map(|row| &*row.name)
                .collect();
            writeln!(f, "bound by {}: {}", method.paper(), listed(&own))?;
        }
        for row in &self.tasks {
            if let Err(why) = &row.bound {
                writeln!(f, "no bound for {}: {why}", row.name)?;
            }
        }
        for set in &self.sets {
            let holds = match set.holds {
                Some(true) => " holds",
                Some(false) => " does not hold",
                None => "",
            };
            writeln!(f, "{} of CPUs {} ({}){holds}: {}", set.name, set.cpus, set.paper, set.says)?;
        }
        for group in &self.groups {
            write!(f, "limit of {} ({}): ", group.path, group.max)?;
            if let Some(blackout) = group.blackout {
                write!(f, "stands still for {} at most; ", Human(blackout))?;
            }
            let (period, second) = (Human(group.most_in_a_period), Human(group.most_in_a_second));
            writeln!(f, "takes at most {period} in any period and {second} in any second")?;
        }
        if !self.broken.is_empty() {
            writeln!(f, "\nThe bounds assume what this workload breaks:")?;
        }
        for (at, broken) in self.broken.iter().enumerate() {
            let of = broken.task.as_deref().map_or_else(String::new, |task| format!("{task}: "));
            writeln!(f, "  [{}] {}: {of}{}", at + 1, broken.assumption.name(), broken.reason)?;
        }
        for row in self.exceeded() {
            writeln!(
                f,
                "{} responded later than its bound, and no assumption is broken: this is an error of zerolag; please report the workload",
                row.name
            )?;
        }
        Ok(())
    }
}

/// Returns the first names of a list.
fn listed(names: &[&str]) -> String {
    match names {
        [first @ .., _] if names.len() > NAMES => {
            format!("{} and {} more", first[..NAMES].join(", "), names.len() - NAMES)
        }
        _ => names.join(", "),
    }
}

const NAMES: usize = 6;

//! [`compare`]: two scenarios that must do the same, run beside each other.
//!
//! A monitor knows one rule. A twin knows none: it changes what must not matter, and any
//! difference is a finding. Drafts have twins of each kind in turn; one that cannot have its kind
//! (a machine of several caches has no `Cpus` twin) has none.
//!
//! | twin | differs by | must agree |
//! |---|---|---|
//! | `Names` | the names of the tasks, permuted | every record |
//! | `Cpus` | two more CPUs, isolated: no task may use them | every record of the other CPUs but the allowed CPUs |
//! | `Costs` | `zero` instead of `default` costs | what happens at set times: arrivals, changes of groups, hotplug |
//! | `Idle` | an empty group, and a task that never begins | every record of the others |
//! | `Quota` | twice the limit of a sole group on a sole CPU | no less CPU time, but for the last tick and period |
//! | `Scaled` | all times twice as long | every switch, at twice its time |
//!
//! Both sides of a pair are derived from the draft, so that nothing else differs: random lengths
//! belong to the name of their task, so the `Names` pair has constants instead; granularities and,
//! since 7.3, the weights of groups grow with the CPUs, so both of the `Cpus` pair have
//! `tunable_scaling = none` and `cgroup_mode = smp`.

use super::draft::{Block, Draft, ScenarioLine};
use super::judge::{Finding, Hash, enough};
use super::metamorphic;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zerolag::background::Background;
use zerolag::simulation::Plan;
use zerolag_model::event::RequestStep;
use zerolag_model::{CpuId, Duration, Instant, Record, TraceEvent};
use zerolag_sim::{Sink, Tracing};
use zerolag_trace::TraceWriter;

/// What differs between a scenario and its twin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Twin {
    /// The names of the tasks.
    Names,
    /// CPUs that no task may use.
    Cpus,
    /// The costs of operations.
    Costs,
    /// A group without tasks, and a task that never begins.
    Idle,
    /// The limit of the only group.
    Quota,
    /// The unit of time.
    Scaled,
}

impl Twin {
    /// All kinds. Drafts have them in turn.
    pub const ALL: [Self; 6] = [Self::Names, Self::Costs, Self::Cpus, Self::Idle, Self::Quota, Self::Scaled];
}

/// Runs the two scenarios of a draft's twin; returns the difference that must not be.
///
/// Returns `None` too where the draft has no such twin, and where either run is refused or ends
/// before its time.
#[must_use]
pub fn compare(draft: &Draft) -> Option<Finding> {
    let twin = draft.twin?;
    let (one, other) = pair(draft, twin)?;
    differ(twin, &one, &other)
}

/// Compares two scenarios as a scenario and its twin of this kind.
#[must_use]
pub(super) fn differ(twin: Twin, one: &Draft, other: &Draft) -> Option<Finding> {
    let base = one.plan().ok()?;
    let (meta, nr_cpus) = (base.meta(), base.config.topology.nr_cpus());
    let twins = other.plan().ok()?;
    let said = |what: String| Some(Finding::TwinDiffers(twin, what));
    match twin {
        Twin::Quota => metamorphic::less_with_more_quota(&base, &twins).and_then(said),
        Twin::Scaled => metamorphic::not_scaled(&base, &twins).and_then(said),
        Twin::Names | Twin::Cpus | Twin::Idle => {
            let of =
                |plan| bytes(plan, Nameless { writer: TraceWriter::new(Hash::default(), &meta).ok()?, nr_cpus, twin });
            let (one, other) = (of(&base)?, of(&twins)?);
            if one == other { None } else { said(format!("{} and {} records", one.1, other.1)) }
        }
        Twin::Costs => {
            let (one, other) = (planned(&base)?, planned(&twins)?);
            if let Some(how) = one.changes_differ(&other) {
                return said(how);
            }
            let common = one.arrivals.len().min(other.arrivals.len());
            let late = |due: &Instant| one.end.since(*due) < LATE;
            let rest = one.arrivals[common..].iter().chain(&other.arrivals[common..]);
            let is_same = one.arrivals[..common] == other.arrivals[..common] && rest.into_iter().all(late);
            if is_same { None } else { said(format!("{} and {} arrivals", one.arrivals.len(), other.arrivals.len())) }
        }
    }
}

/// How long before the end an arrival or a change can be missed: it can wait for a CPU to take its
/// interrupt, and the run ends with its last task, which costs make later.
const LATE: Duration = Duration::from_millis(20);

/// Runs a scenario; returns the hash and the number of its records on the first CPUs, without
/// names.
fn bytes(plan: &Plan, mut nameless: Nameless) -> Option<(Hash, u64)> {
    let outcome = plan.build(Tracing::On).ok()?.run_with(&mut nameless, enough);
    let records = nameless.writer.records();
    outcome.why.is_ok().then(|| Some((nameless.writer.finish(outcome.end, 0).ok()?, records)))?
}

/// Writes the records of the first CPUs, and forgets the names of tasks. With isolated CPUs a task
/// that may run anywhere is said to be allowed on the others, so a `Cpus` twin has more such
/// records.
struct Nameless {
    writer: TraceWriter<Hash>,
    nr_cpus: usize,
    twin: Twin,
}

impl Sink for Nameless {
    fn record(&mut self, record: &Record) {
        let says_allowed = matches!(record.event, TraceEvent::Affinity { .. });
        if record.cpu.index() >= self.nr_cpus || says_allowed && self.twin == Twin::Cpus {
            return;
        }
        let mut record = record.clone();
        // The group of an `Idle` twin says that it exists. Its task is never created.
        if self.twin == Twin::Idle && is_of_a_group(&record.event) {
            return;
        }
        if let TraceEvent::TaskNew { name, .. } = &mut record.event {
            *name = Arc::from("");
        }
        self.writer.push(&record).expect("invariant: a hash takes every byte");
    }
}

/// Whether an event says what a group is.
const fn is_of_a_group(event: &TraceEvent) -> bool {
    matches!(event, TraceEvent::GroupNew { .. } | TraceEvent::GroupMax { .. } | TraceEvent::GroupWeight { .. })
}

/// What happens at times that the scenario sets.
#[derive(Default)]
struct Planned {
    changes: BTreeMap<Subject, Vec<(Instant, TraceEvent)>>,
    arrivals: Vec<Instant>,
    end: Instant,
}

/// Changes of one subject happen in the order of their times. Groups are changed on the first CPU,
/// and a CPU goes on- or offline on its own: with costs, changes of two CPUs that are 1 us apart
/// can happen in the other order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Groups,
    Cpu(CpuId),
}

impl Planned {
    /// Compares the changes of each subject; returns the first difference.
    fn changes_differ(&self, other: &Self) -> Option<String> {
        let end = self.end.min(other.end);
        let subjects: BTreeSet<Subject> = self.changes.keys().chain(other.changes.keys()).copied().collect();
        subjects.into_iter().find_map(|subject| {
            let of = |planned: &'_ Self| planned.changes.get(&subject).cloned().unwrap_or_default();
            let (one, other) = (of(self), of(other));
            let common = one.len().min(other.len());
            let is_same = one[..common].iter().zip(&other[..common]).all(|((_, one), (_, other))| one == other);
            let is_late = |at: Instant| end.since(at.min(end)) < LATE;
            let rest = one[common..].iter().chain(&other[common..]);
            let is_fine = is_same && rest.into_iter().all(|(at, _)| is_late(*at));
            (!is_fine).then(|| format!("{} and {} changes at set times", one.len(), other.len()))
        })
    }
}

impl Sink for Planned {
    fn record(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::GroupMax { .. } | TraceEvent::GroupWeight { .. } | TraceEvent::GroupNew { .. } => {
                self.changes.entry(Subject::Groups).or_default().push((record.at, record.event.clone()));
            }
            TraceEvent::Hotplug { .. } => {
                let of_cpu = self.changes.entry(Subject::Cpu(record.cpu)).or_default();
                of_cpu.push((record.at, record.event.clone()));
            }
            TraceEvent::Request { step: RequestStep::Arrive { due }, .. } => self.arrivals.push(*due),
            _ => {}
        }
    }
}

fn planned(plan: &Plan) -> Option<Planned> {
    let mut planned = Planned::default();
    let outcome = plan.build(Tracing::On).ok()?.run_with(&mut planned, enough);
    planned.end = outcome.end;
    outcome.why.is_ok().then_some(planned)
}

/// Returns the two scenarios of a twin, if the draft has this twin.
fn pair(draft: &Draft, twin: Twin) -> Option<(Draft, Draft)> {
    match twin {
        Twin::Names => {
            let mut one = draft.clone();
            one.each_text(&mut |text| *text = constant(text));
            let names: Vec<String> = one.blocks.iter().filter_map(task_name).map(str::to_owned).collect();
            let mut other = one.clone();
            for block in &mut other.blocks {
                rename(block, &names);
            }
            (names.len() > 1).then_some((one, other))
        }
        Twin::Cpus => {
            // Each CPU has threads for its interrupts and timers, its pauses, and a part of each
            // hard limit.
            let is_of_all = |block: &Block| {
                ["[cpuset", "[interrupt", "[pause"].into_iter().any(|head| block.head.starts_with(head))
                    || block.value("\"bandwidth\"").is_some_and(|value| value.contains("hard_limits"))
                    || block.value("\"preempt\"").is_some_and(|value| value.contains("rt"))
            };
            // Nor one that is loaded, or chosen, in mid-run.
            let loads = |block: &Block| {
                let is_chosen = |key: &str| block.value(key).is_some();
                block.head == "[[change]]" && (is_chosen("sched_ext") || is_chosen("\"sched_ext.policy\""))
            };
            let is_plain = !draft.blocks.iter().any(|block| is_of_all(block) || loads(block));
            let machine = draft.blocks.iter().find(|block| block.head == "[machine]")?;
            let cpus: u32 = machine.value("cpus")?.parse().ok()?;
            // Kernel paths of a machine with more CPUs are longer, and each CPU has its threads.
            let mut one = Draft { costs: None, background: Background::None, ..draft.clone() };
            one.blocks.first_mut()?.set("costs", "\"zero\"");
            let settings = one.blocks.iter_mut().find(|block| block.head == "[settings]")?;
            // The kernel loads no scheduler beside `isolcpus` (v6.12 `scx_ops_enable`): for it the
            // CPUs of a twin would be idle ones.
            let known = ["\"isolcpus\"", "\"nohz_full\"", "sched_ext"];
            let is_free = known.into_iter().all(|key| settings.value(key).is_none_or(|value| value == "\"off\""));
            settings.line("tunable_scaling = \"none\"");
            settings.line("cgroup_mode = \"smp\"");
            let mut other = one.clone();
            let more = format!("isolcpus = \"{cpus}-{}\"", cpus + 1);
            other.blocks.iter_mut().find(|block| block.head == "[settings]")?.line(more);
            let machine = other.blocks.iter_mut().find(|block| block.head == "[machine]")?;
            let is_even = machine.lines.iter().all(|line| matches!(line, ScenarioLine::Text(_)));
            machine.set("cpus", &(cpus + 2).to_string());
            (is_plain && is_free && is_even).then_some((one, other))
        }
        Twin::Costs => {
            // Requests that tasks send arrive when these come to it, not at set times.
            if draft.blocks.iter().any(|block| block.lines.iter().any(sends)) {
                return None;
            }
            let with = |costs: &str| {
                let mut draft = Draft { costs: None, ..draft.clone() };
                draft.blocks.first_mut()?.set("costs", &format!("\"{costs}\""));
                Some(draft)
            };
            Some((with("zero")?, with("default")?))
        }
        Twin::Idle => Some((draft.clone(), metamorphic::with_idle(draft)?)),
        Twin::Quota => metamorphic::quotas(draft),
        Twin::Scaled => metamorphic::scaled(draft),
    }
}

/// Returns whether a step of a list sends a request.
fn sends(line: &ScenarioLine) -> bool {
    let ScenarioLine::List("steps", steps) = line else { return false };
    steps.iter().any(|step| step.starts_with("{ call = ") || step.starts_with("{ send = "))
}

fn task_name(block: &Block) -> Option<&str> {
    block.head.strip_prefix("[task.")?.strip_suffix(']')
}

/// Gives a task the name of its mirror image in the list, where it is defined and where it is
/// changed.
fn rename(block: &mut Block, names: &[String]) {
    let mirror = |name: &str| {
        let index = names.iter().position(|other| other == name)?;
        Some(names[names.len() - 1 - index].clone())
    };
    if let Some(name) = task_name(block).and_then(mirror) {
        block.head = format!("[task.{name}]");
    }
    if let Some(name) = block.value("task").and_then(|name| mirror(name.trim_matches('"'))) {
        block.set("task", &format!("\"{name}\""));
    }
    for step in block.lines.iter_mut().flat_map(|line| match line {
        ScenarioLine::List("steps", steps) => &mut steps[..],
        ScenarioLine::Text(_) | ScenarioLine::List(..) => &mut [],
    }) {
        for begin in ["{ resume = \"", "{ fork = \""] {
            let name = step.strip_prefix(begin).and_then(|rest| rest.split('"').next());
            if let Some(other) = name.and_then(mirror) {
                *step = format!("{begin}{other}\" }}");
            }
        }
    }
}

/// Replaces each random time by a constant one: the least of a uniform one, the mean of an
/// exponential one.
pub(super) fn constant(text: &str) -> String {
    let mut text = text.to_owned();
    for (begin, end) in [("{ uniform = { min = ", " } }"), ("{ exponential = { mean = ", " } }")] {
        while let Some(from) = text.find(begin) {
            let inside = from + begin.len();
            let to = text[inside..].find(end).map_or(text.len(), |at| inside + at);
            let value = text[inside..to].split(',').next().unwrap_or_default().to_owned();
            text.replace_range(from..(to + end.len()).min(text.len()), &value);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task of random lengths, one of constant ones, a group and a service.
    const TEXT: &str = "kernel = \"6.12\"\nduration = \"100ms\"\nseed = 1\ncosts = \"default\"\n\n\
        [group.\"/g\"]\n\"cpu.max\" = \"5000 10000\"\n\n\
        [task.a]\ngroup = \"/g\"\nsteps = [{ run = { uniform = { min = \"1ms\", max = \"3ms\" } } }, { sleep = \"2ms\" }]\n\n\
        [task.b]\nsteps = [{ run = \"3ms\" }, { sleep = \"1ms\" }]\n\n\
        [service.web]\narrivals = { poisson = \"500/s\" }\nworkers = 2\nsteps = [{ run = \"100us\" }]\n\n\
        [[change]]\nat = \"50ms\"\ngroup = \"/g\"\n\"cpu.max\" = \"2000 10000\"\n";

    fn differs(twin: Twin, one: &str, other: &str) -> Option<Finding> {
        differ(twin, &Draft::of_text(one), &Draft::of_text(other))
    }

    fn changed(from: &str, to: &str) -> String {
        let text = TEXT.replace(from, to);
        assert!(text != TEXT, "`{from}` is in the text");
        text
    }

    #[test]
    fn names_that_decide_are_found() {
        // Streams of random numbers are named by their tasks: with random lengths, a planted fault.
        let renamed = changed("[task.a]", "[task.z]");
        assert!(matches!(differs(Twin::Names, TEXT, &renamed), Some(Finding::TwinDiffers(Twin::Names, _))));
        let [one, other] = [TEXT, &renamed].map(constant);
        assert_eq!(differs(Twin::Names, &one, &other), None);
    }

    #[test]
    fn steps_that_name_a_task_follow_it() {
        let names = ["a", "b"].map(str::to_owned);
        let mut block = Block::new("[task.a]");
        let steps = ["{ resume = \"b\" }", "{ run = \"1ms\" }", "{ fork = \"a\" }"];
        block.list("steps", steps.map(str::to_owned).to_vec());
        rename(&mut block, &names);
        assert_eq!(block.head, "[task.b]");
        let renamed = ["{ resume = \"a\" }", "{ run = \"1ms\" }", "{ fork = \"b\" }"].map(str::to_owned).to_vec();
        assert_eq!(block.lines, [ScenarioLine::List("steps", renamed)]);
    }

    #[test]
    fn more_cpus_that_are_used_are_found() {
        let with = |cpus, settings: &str| {
            format!("{TEXT}\n[machine]\ncpus = {cpus}\n[settings]\ntunable_scaling = \"none\"\n{settings}")
        };
        assert!(differs(Twin::Cpus, &with(2, ""), &with(4, "")).is_some());
        assert!(differs(Twin::Cpus, &with(2, ""), &with(4, "isolcpus = \"3\"\n")).is_some());
    }

    #[test]
    fn costs_that_move_a_set_time_are_found() {
        let zero = changed("\"default\"", "\"zero\"");
        assert_eq!(differs(Twin::Costs, &zero, TEXT), None);
        for (from, to) in
            [("2000 10000\"\n", "3000 10000\"\n"), ("500/s", "501/s"), ("at = \"50ms\"", "at = \"500ms\"")]
        {
            assert!(differs(Twin::Costs, &zero, &changed(from, to)).is_some(), "{to}");
        }
    }

    #[test]
    fn changes_of_two_cpus_can_happen_in_either_order() {
        let with = |costs: &str| {
            format!(
                "kernel = \"4.1\"\nduration = \"238000us\"\nseed = 2\ncosts = \"{costs}\"\n\n\
                [machine]\nsockets = 2\nllcs_per_socket = 2\ncores_per_llc = 3\n\n\
                [task.t2]\nsteps = [{{ run = \"2213us\" }}]\n\n\
                [task.t3]\npolicy = \"rr\"\npriority = 10\nsteps = [{{ run = \"9000us\" }}]\n\n\
                [[change]]\nat = \"200001us\"\ngroup = \"/g2\"\n\"cpu.max\" = \"300000 100000\"\n\n\
                [[change]]\nat = \"48001us\"\ngroup = \"/g2\"\n\"cpu.max\" = \"25000 100000\"\n\n\
                [[change]]\nat = \"200002us\"\ncpu = 10\nonline = false\n"
            )
        };
        assert_eq!(differs(Twin::Costs, &with("zero"), &with("default")), None);
    }

    #[test]
    fn a_change_at_the_end_of_the_last_task_can_be_missed() {
        let with = |costs: &str, at: &str| {
            format!(
                "kernel = \"7.2\"\nduration = \"145000us\"\ncosts = \"{costs}\"\n\n\
                [task.t0]\nsteps = [{{ run = \"3us\" }}]\n\n\
                [[change]]\nat = \"50ms\"\ntask = \"t0\"\nend = true\n\n\
                [[change]]\nat = \"{at}\"\ncpu = 1\nonline = false\n"
            )
        };
        assert_eq!(differs(Twin::Costs, &with("zero", "50002us"), &with("default", "50002us")), None);
        assert!(differs(Twin::Costs, &with("zero", "10ms"), &with("default", "60ms")).is_some());
    }

    #[test]
    fn a_group_with_a_task_is_found_and_an_empty_one_is_not() {
        let with = |group: &str| format!("{TEXT}\n[group.\"/zz\"]\n[task.zz]\nsteps = [{{ run = \"1ms\" }}]\n{group}");
        assert_eq!(differs(Twin::Idle, TEXT, &with("instances = 0\n")), None);
        assert!(differs(Twin::Idle, TEXT, &with("group = \"/zz\"\n")).is_some());
    }

    #[test]
    fn random_times_become_constant() {
        let text = "{ run = { uniform = { min = \"1us\", max = \"3us\" } } }, { sleep = { exponential = { mean = \"7us\", max = \"20ms\" } } }";
        assert_eq!(constant(text), "{ run = \"1us\" }, { sleep = \"7us\" }");
    }
}

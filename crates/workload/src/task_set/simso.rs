//! Files of SimSo: `<simulation>` with its processors, its scheduler and its tasks.
//!
//! Times of tasks are in milliseconds, the duration is in cycles. Facts: SimSo 0.8,
//! `simso/configuration/parser.py`, `Parser._parse_*` (defaults), `simso/core/Task.py` (what
//! activates a task), `simso/core/etm/ACET.py` (drawn execution times), `simso/schedulers/FP.py`
//! (the larger a priority, the more urgent).

use super::xml::Element;
use super::{Release, SetPolicy, SetTask, TaskSet, note, time_of};
use crate::diagnostic::{Report, Span};
use crate::program::{Action, ResourceKind};
use crate::random::{Bounds, Dist};
use zerolag_model::{CpuId, CpuMask, DlParams, Duration, RtPolicy, Topology};

const MS: Duration = Duration::from_millis(1);

/// A scheduler of SimSo that has an equal or a neighbour in Linux: its class, what it becomes, and
/// what differs.
const SCHEDULERS: &[(&str, SetPolicy, Option<&str>)] = &[
    ("EDF", SetPolicy::Deadline, None),
    ("EDF2", SetPolicy::Deadline, None),
    ("EDF_mono", SetPolicy::Deadline, None),
    ("SCHED_DEADLINE", SetPolicy::Deadline, None),
    ("Fixed_PEDF", SetPolicy::Deadline, None),
    ("P_EDF", SetPolicy::Deadline, Some(PARTITIONED)),
    ("P_EDF2", SetPolicy::Deadline, Some(PARTITIONED)),
    ("P_EDF_WF", SetPolicy::Deadline, Some(PARTITIONED)),
    ("LB_P_EDF", SetPolicy::Deadline, Some(PARTITIONED)),
    ("CC_EDF", SetPolicy::Deadline, Some(FREQUENCY)),
    ("Static_EDF", SetPolicy::Deadline, Some(FREQUENCY)),
    ("RM", SetPolicy::RateMonotonic, None),
    ("RM_mono", SetPolicy::RateMonotonic, None),
    ("P_RM", SetPolicy::RateMonotonic, Some(PARTITIONED)),
    ("FP", SetPolicy::Priority(RtPolicy::Fifo), None),
];

const PARTITIONED: &str = "assigns each task to a processor; here tasks move between all CPUs";
const FREQUENCY: &str = "changes the speed of processors; here it is constant";

/// Reads the root element.
pub(super) fn read(root: Element<'_>, report: &mut Report) -> TaskSet {
    let mut set = TaskSet::default();
    let speeds = processors(root, &mut set, report);
    let scheduler = scheduler(root, report);
    let is_fixed = scheduler.0 == "Fixed_PEDF";
    let mut reader = SimSo {
        fastest: speeds.iter().map(|(_, speed)| *speed).fold(1e-9, f64::max),
        cpus: speeds.iter().map(|(id, _)| *id).collect(),
        policy: scheduler.1,
        is_reserved: scheduler.0 == "SCHED_DEADLINE",
        is_fixed,
        draws: root.attribute("etm").is_some_and(|(etm, _)| etm == "acet"),
        followers: Vec::new(),
        aborted: Vec::new(),
    };
    let tasks: Vec<Element<'_>> = root.within("tasks").filter(|element| element.name() == "task").collect();
    reader.followers = tasks.iter().filter_map(|task| Some(task.attribute("followed_by")?.0)).collect();
    for task in &tasks {
        let read = reader.task(*task, &mut set, report);
        set.tasks.extend(read);
    }
    if let Some((first, span)) = reader.aborted.first() {
        let more = reader.aborted.len() - 1;
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        note(report, *span, format!("task {first}{more}: abort_on_miss: here a late job goes on, as in Linux"));
    }
    set.duration = duration(root, report);
    costs(root, report);
    set
}

/// Reads the processors: the number of each, and its speed.
fn processors<'a>(root: Element<'a>, set: &mut TaskSet, report: &mut Report) -> Vec<(&'a str, f64)> {
    let elements: Vec<Element<'_>> = root.within("processors").filter(|one| one.name() == "processor").collect();
    let mut speeds = Vec::new();
    for one in &elements {
        let speed = number(*one, "speed", report).unwrap_or(1.0);
        if speed <= 0.0 {
            report.error(one.attribute("speed").map_or(one.span(), |(_, span)| span), "a speed is above zero");
            return Vec::new();
        }
        speeds.push((one.attribute("id").map_or("", |(id, _)| id), speed));
    }
    let Some(first) = elements.first() else { return speeds };
    let fastest = speeds.iter().map(|(_, speed)| *speed).fold(0.0, f64::max);
    let capacities: Vec<u16> =
        speeds.iter().map(|(_, speed)| (libm::round(speed / fastest * 1024.0) as u16).max(1)).collect();
    let is_flat = capacities.iter().all(|capacity| *capacity == 1024);
    let made = u32::try_from(speeds.len()).ok().and_then(|count| Topology::flat(count).ok());
    let made = made.and_then(|flat| if is_flat { Some(flat) } else { flat.with_capacities(capacities).ok() });
    match made {
        Some(machine) => set.machine = Some(machine),
        None => report.error(first.span(), format!("a machine with {} processors is too large", speeds.len())),
    }
    speeds
}

/// Returns the class of the scheduler, and what it becomes.
fn scheduler<'a>(root: Element<'a>, report: &mut Report) -> (&'a str, SetPolicy) {
    let sched = root.element("sched");
    let named = sched.and_then(|sched| sched.attribute("class").or_else(|| sched.attribute("className")));
    let Some((name, span)) = named else { return ("", SetPolicy::Deadline) };
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let class = file.strip_suffix(".py").unwrap_or(file).rsplit('.').next().unwrap_or(file);
    match SCHEDULERS.iter().find(|(known, ..)| *known == class) {
        Some((_, policy, differs)) => {
            if let Some(differs) = differs {
                note(report, span, format!("the scheduler {class} {differs}"));
            }
            (class, *policy)
        }
        None => {
            report.warning(span, format!("Linux has no scheduler {class}; tasks get SCHED_DEADLINE (global EDF)"));
            (class, SetPolicy::Deadline)
        }
    }
}

struct SimSo<'a> {
    /// The speed of the fastest processor, which has capacity 1024 here.
    fastest: f64,
    /// The numbers of the processors in the file.
    cpus: Vec<&'a str>,
    policy: SetPolicy,
    /// Whether tasks have a reservation of their own (`cbs_...`).
    is_reserved: bool,
    /// Whether each task names its processor.
    is_fixed: bool,
    /// Whether execution times are drawn.
    draws: bool,
    /// The numbers of the tasks that others activate.
    followers: Vec<&'a str>,
    /// Tasks whose late jobs are aborted.
    aborted: Vec<(&'a str, Span)>,
}

impl<'a> SimSo<'a> {
    fn task(&mut self, element: Element<'a>, set: &mut TaskSet, report: &mut Report) -> Option<SetTask> {
        let Some((name, span)) = element.attribute("name") else {
            report.error(element.span(), "a task has no name");
            return None;
        };
        let mut time = |key: &str| millis(element, key, report);
        let (wcet, period, deadline) = (time("WCET")?, time("period")?, time("deadline")?);
        let (offset, acet) = (time("activationDate")?, time("ACET")?);
        let (Some(wcet), kind) = (wcet, element.attribute("task_type").map_or("Periodic", |(kind, _)| kind)) else {
            report.error_help(span, format!("task {name} has no WCET"), "give it in ms: WCET=\"2.5\"");
            return None;
        };
        let kind = match element.attribute("periodic") {
            Some(("no", _)) if kind == "Periodic" => "APeriodic",
            _ => kind,
        };
        let dates = dates(element, report)?;
        let least = dates.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).filter(|gap| !gap.is_zero()).min();
        let period = period.filter(|period| !period.is_zero()).or(least).or(deadline).filter(|time| !time.is_zero());
        let Some(period) = period else {
            report.error_help(span, format!("task {name} has no period"), "give it in ms: period=\"20\"");
            return None;
        };
        let scaled = |time: Duration| time_of(1.0 / self.fastest, time).unwrap_or(time);
        let params = DlParams::new(scaled(wcet), deadline.unwrap_or(period), period);
        let mut task =
            SetTask { policy: self.policy, offset: offset.unwrap_or_default(), ..SetTask::new(name, span, params) };
        if let (true, Some(acet)) = (self.draws, acet) {
            let deviation = millis(element, "et_stddev", report)?.unwrap_or_default();
            task.job = vec![Action::Run(drawn(scaled(acet), scaled(deviation), scaled(wcet)))];
        }
        self.reservation(element, &mut task, report)?;
        task.priority = number(element, "priority", report).map_or(0, |priority| priority as i64);
        if self.is_fixed {
            task.cpus = self.cpu_of(element, name, span, report)?;
        }
        match kind {
            "Sporadic" if !dates.is_empty() => task.release = Release::At(dates),
            "Periodic" if self.is_followed(element) => {
                note(report, span, format!("task {name} is also activated by another one: only its period is read"));
            }
            "Periodic" => {}
            _ if !self.wakes(element, set, &mut task) => {
                note(report, span, format!("task {name} is left out: nothing activates it"));
                return None;
            }
            _ => {}
        }
        if let Some((follower, _)) = element.attribute("followed_by") {
            task.job.push(Action::SemPost(set.resource(&chain(follower), ResourceKind::Semaphore { initial: 0 })));
        }
        if element.attribute("abort_on_miss").is_none_or(|(word, _)| word == "yes") {
            self.aborted.push((name, span));
        }
        Some(task)
    }

    /// Returns whether another task activates this one.
    fn is_followed(&self, element: Element<'_>) -> bool {
        element.attribute("id").is_some_and(|(id, _)| self.followers.contains(&id))
    }

    /// Makes a task wait for the one that it follows; returns whether there is one.
    fn wakes(&self, element: Element<'_>, set: &mut TaskSet, task: &mut SetTask) -> bool {
        let Some((id, _)) = element.attribute("id").filter(|_| self.is_followed(element)) else { return false };
        task.job.insert(0, Action::SemWait(set.resource(&chain(id), ResourceKind::Semaphore { initial: 0 })));
        task.release = Release::ByTask;
        true
    }

    /// Reads the reservation of a task under SimSo's own SCHED_DEADLINE.
    fn reservation(&self, element: Element<'_>, task: &mut SetTask, report: &mut Report) -> Option<()> {
        if self.is_reserved {
            let mut time = |key: &str| Some(millis(element, key, report)?.filter(|time| !time.is_zero()));
            let (runtime, deadline, period) =
                (time("cbs_maximum_runtime")?, time("cbs_deadline")?, time("cbs_period")?);
            let own = task.params;
            task.params = DlParams::new(
                runtime.unwrap_or(own.runtime),
                deadline.unwrap_or(own.deadline),
                period.unwrap_or(own.period),
            );
        }
        Some(())
    }

    /// Returns the CPU that a task names.
    fn cpu_of(&self, element: Element<'_>, name: &str, span: Span, report: &mut Report) -> Option<Option<CpuMask>> {
        let Some((cpu, place)) = element.attribute("cpu") else {
            report.error(span, format!("task {name} names no processor (cpu=\"...\")"));
            return None;
        };
        let found = self.cpus.iter().position(|id| *id == cpu).and_then(|index| u32::try_from(index).ok());
        if found.is_none() {
            report.error_help(
                place,
                format!("there is no processor {cpu}"),
                format!("known are {}", self.cpus.join(", ")),
            );
        }
        Some(Some(CpuMask::single(CpuId(found?))))
    }
}

/// Returns the name of the semaphore that activates a task.
fn chain(follower: &str) -> String {
    format!("activation-of-{follower}")
}

/// Returns the distribution of execution times around a mean, at most the worst case.
fn drawn(mean: Duration, deviation: Duration, worst: Duration) -> Dist {
    let bounds = Bounds { low: Duration::ZERO, high: worst };
    Dist::normal(mean, deviation, bounds).unwrap_or(Dist::Constant(mean.min(worst)))
}

/// Returns the times at which a sporadic task is activated, in order.
fn dates(element: Element<'_>, report: &mut Report) -> Option<Vec<Duration>> {
    let Some((list, span)) = element.attribute("list_activation_dates") else { return Some(Vec::new()) };
    let mut dates = Vec::new();
    for date in list.split(',').map(str::trim) {
        match date.parse().ok().and_then(|date| time_of(date, MS)) {
            Some(date) => dates.push(date),
            None => {
                report.error_help(span, format!("`{date}` is not a time"), "give times in ms: \"0, 12.5, 40\"");
                return None;
            }
        }
    }
    dates.sort_unstable();
    Some(dates)
}

/// Returns the duration of the simulation.
fn duration(root: Element<'_>, report: &mut Report) -> Option<Duration> {
    let cycles = number(root, "duration", report)?;
    let per_ms = number(root, "cycles_per_ms", report).unwrap_or(1_000_000.0);
    time_of(cycles / per_ms, MS).filter(|time| !time.is_zero())
}

/// Names the costs that a machine here has of a profile, and not of the file.
fn costs(root: Element<'_>, report: &mut Report) {
    const COSTS: [&str; 7] = [
        "overhead",
        "overhead_activate",
        "overhead_terminate",
        "cs_overhead",
        "cl_overhead",
        "migration_overhead",
        "preemption_cost",
    ];
    let mut found: Vec<&str> = Vec::new();
    let mut place = None;
    for element in ["sched", "processors", "processor", "task"].into_iter().flat_map(|name| root.all(name)) {
        for cost in COSTS {
            let given = element.attribute(cost).filter(|(text, _)| text.parse::<f64>().is_ok_and(|cost| cost > 0.0));
            if let Some((_, span)) = given.filter(|_| !found.contains(&cost)) {
                found.push(cost);
                place = place.or(Some(span));
            }
        }
    }
    if let Some((etm, span)) = root.attribute("etm").filter(|(etm, _)| !["wcet", "acet"].contains(etm)) {
        note(report, span, format!("the model of execution times \"{etm}\" is not read: jobs run for their WCET"));
    }
    if let Some(cache) = root.all("cache").next() {
        note(report, cache.span(), "caches are not read: jobs run for their execution time on every CPU");
    }
    if let Some(place) = place {
        note(report, place, format!("costs are those of --costs, not of the file: {}", found.join(", ")));
    }
}

/// Returns a number of an attribute; none if it is missing or no number, which is reported.
fn number(element: Element<'_>, key: &str, report: &mut Report) -> Option<f64> {
    let (text, span) = element.attribute(key)?;
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    if number.is_none() {
        report.error(span, format!("{key}: `{text}` is not a number"));
    }
    number
}

/// Returns a time of an attribute; `None` if it is none, which is reported.
fn millis(element: Element<'_>, key: &str, report: &mut Report) -> Option<Option<Duration>> {
    let Some((text, span)) = element.attribute(key) else { return Some(None) };
    let time = text.parse().ok().and_then(|number| time_of(number, MS));
    if time.is_none() {
        report.error_help(
            span,
            format!("{key}: `{text}` is not a time of 0 up to 10 years"),
            "give milliseconds: \"2.5\"",
        );
    }
    time.map(Some)
}

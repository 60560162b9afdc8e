//! Files of Cheddar: cores with schedulers, processors that have cores, tasks on processors, and
//! resources. Both forms: since version 3 a core has the scheduler, before it a processor.
//!
//! Times are in units of the file's author; one is taken as 1 ms, which a note says. Facts: Cheddar
//! 3, `Supported_Scheduling_Protocol` (`framework/scheduler_interface.ads`: names of schedulers),
//! `cheddar_project.xsl` and the document types of its examples (elements), `mars_pathfinder.xml`
//! (a resource is used from the start of one unit of a task's capacity to the end of another).

use super::xml::Element;
use super::{Release, SetPolicy, SetTask, TaskSet, note, time_of};
use crate::diagnostic::{Report, Span};
use crate::program::{Action, ResourceId, ResourceKind};
use crate::random::Dist;
use std::collections::BTreeMap;
use zerolag_model::{CpuId, CpuMask, DlParams, Duration, RtPolicy, Topology};

/// What a unit of time is taken as.
const UNIT: Duration = Duration::from_millis(1);

/// The schedulers that Linux has.
const SCHEDULERS: [(&str, SetPolicy); 7] = [
    ("RATE_MONOTONIC_PROTOCOL", SetPolicy::RateMonotonic),
    ("DEADLINE_MONOTONIC_PROTOCOL", SetPolicy::DeadlineMonotonic),
    ("EARLIEST_DEADLINE_FIRST_PROTOCOL", SetPolicy::Deadline),
    ("POSIX_1003_HIGHEST_PRIORITY_FIRST_PROTOCOL", SetPolicy::Priority(RtPolicy::Fifo)),
    ("ROUND_ROBIN_PROTOCOL", SetPolicy::Priority(RtPolicy::Rr)),
    ("TIME_SHARING_BASED_ON_WAIT_TIME_PROTOCOL", SetPolicy::Fair),
    ("TIME_SHARING_BASED_ON_CPU_USAGE_PROTOCOL", SetPolicy::Fair),
];

/// The parts of a file that are read; others are named in a note.
const PARTS: [&str; 5] = ["core_units", "processors", "address_spaces", "tasks", "resources"];

/// Reads the root element.
pub(super) fn read(root: Element<'_>, report: &mut Report) -> TaskSet {
    let mut set = TaskSet::default();
    let processors = processors(root, report);
    let cpus = processors.iter().map(|processor| processor.cores.len()).sum::<usize>();
    match u32::try_from(cpus).ok().filter(|cpus| *cpus > 0).and_then(|cpus| Topology::flat(cpus).ok()) {
        Some(machine) => set.machine = Some(machine),
        None if cpus == 0 => {}
        None => report.error(root.span(), format!("a machine with {cpus} cores is too large")),
    }
    let mut unread: Vec<(String, Span)> = Vec::new();
    for element in root.within("tasks") {
        let read = task(element, &processors, &mut unread, report);
        set.tasks.extend(read);
    }
    for resource in root.within("resources") {
        if resource.element("resource_used_by").is_none() {
            unread.push(("resources".to_owned(), resource.span()));
        }
    }
    sections(root, &mut set, report);
    for part in root.elements().filter(|part| !PARTS.contains(&part.name()) && part.elements().next().is_some()) {
        unread.push((part.name().to_owned(), part.span()));
    }
    unread.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.cmp(&other.1)));
    unread.dedup_by(|one, other| one.0 == other.0);
    for (what, span) in unread {
        note(report, span, format!("{what}: not read, and without effect here"));
    }
    if !set.tasks.is_empty() {
        note(report, root.span(), "Cheddar's files have no unit of time: 1 is taken as 1 ms");
    }
    set
}

/// A processor: its name, and its cores.
struct Processor<'a> {
    name: &'a str,
    cores: Vec<Core<'a>>,
    /// Whether tasks stay on their core.
    is_partitioned: bool,
}

/// A core: its number here, its name and its scheduler.
struct Core<'a> {
    cpu: u32,
    name: &'a str,
    policy: SetPolicy,
}

fn processors<'a>(root: Element<'a>, report: &mut Report) -> Vec<Processor<'a>> {
    let units: Vec<(Option<&str>, Element<'_>)> =
        root.within("core_units").map(|unit| (unit.attribute("id").map(|(id, _)| id), unit)).collect();
    let mut next = 0;
    let mut found = Vec::new();
    for processor in root.within("processors") {
        let refs = processor.all("core").filter_map(|core| core.attribute("ref"));
        let mut places: Vec<Element<'_>> = Vec::new();
        for (id, span) in refs {
            match units.iter().find(|(known, _)| *known == Some(id)) {
                Some((_, unit)) => places.push(*unit),
                None => report.error(span, format!("there is no core {id}")),
            }
        }
        if places.is_empty() {
            places.push(processor);
        }
        let cores = places.into_iter().map(|place| {
            next += 1;
            Core { cpu: next - 1, name: place.text_of("name").unwrap_or_default(), policy: scheduler(place, report) }
        });
        let cores = cores.collect();
        let migration = processor.text_of("migration_type");
        let name = processor.text_of("name").unwrap_or_default();
        found.push(Processor { name, cores, is_partitioned: migration == Some("NO_MIGRATION_TYPE") });
    }
    found
}

/// Returns what the scheduler of a core becomes.
fn scheduler(place: Element<'_>, report: &mut Report) -> SetPolicy {
    let parameters = place.element("scheduling").and_then(|one| one.element("scheduling_parameters"));
    let named = parameters.and_then(|one| one.element("scheduler_type")).or_else(|| place.element("scheduler"));
    if let Some(element) = parameters.and_then(|one| one.element("preemptive_type"))
        && element.text() == Some("NOT_PREEMPTIVE")
    {
        report.warning(element.span(), "Linux has no scheduler without preemption: tasks are preempted");
    }
    let Some((element, name)) = named.and_then(|element| Some((element, element.text()?))) else {
        return SetPolicy::Deadline;
    };
    let found = SCHEDULERS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, policy)| *policy);
    found.unwrap_or_else(|| {
        report.warning(element.span(), format!("Linux has no scheduler {name}: tasks get SCHED_DEADLINE (EDF)"));
        SetPolicy::Deadline
    })
}

fn task(
    element: Element<'_>,
    processors: &[Processor<'_>],
    unread: &mut Vec<(String, Span)>,
    report: &mut Report,
) -> Option<SetTask> {
    let place = element.element("name").unwrap_or(element);
    let span = place.span();
    let Some(name) = element.text_of("name") else {
        report.error(span, "a task has no name");
        return None;
    };
    let mut time = |key: &str| units(element, key, report);
    let (capacity, period, deadline) = (time("capacity")?, time("period")?, time("deadline")?);
    let offset = time("start_time")?.unwrap_or_default();
    let Some(capacity) = capacity else {
        report.error_help(span, format!("task {name} has no <capacity>"), "its execution time, in units of time");
        return None;
    };
    let given = |time: Option<Duration>| time.filter(|time| !time.is_zero());
    let kind = element.text_of("task_type").or(element.attribute("task_type").map(|(kind, _)| kind));
    let kind = kind.unwrap_or("PERIODIC_TYPE");
    let is_single = kind == "APERIODIC_TYPE";
    let Some(every) = given(period).or_else(|| is_single.then(|| given(deadline).unwrap_or(capacity))) else {
        report.error_help(span, format!("task {name} has no <period>"), "only an APERIODIC_TYPE may leave it out");
        return None;
    };
    let params = DlParams::new(capacity, given(deadline).unwrap_or(every), every);
    let mut task = SetTask { offset, ..SetTask::new(name, span, params) };
    match kind {
        "PERIODIC_TYPE" => {}
        "APERIODIC_TYPE" => task.release = Release::At(vec![offset]),
        other => {
            note(report, span, format!("task {name}: {other} is released every period, the most often that it can be"));
        }
    }
    for key in ["jitter", "blocking_time", "context_switch_overhead"] {
        let has = element.text_of(key).and_then(|text| text.parse::<f64>().ok()).is_some_and(|number| number > 0.0);
        if has {
            unread.push((format!("<{key}> of tasks"), span));
        }
    }
    if let Some(offsets) = element.element("offsets").filter(|offsets| offsets.elements().next().is_some()) {
        unread.push(("<offsets> of tasks".to_owned(), offsets.span()));
    }
    attributes(element, &mut task, processors, report)?;
    Some(task)
}

/// Reads the processor of a task, its policy and its priority.
fn attributes(
    element: Element<'_>,
    task: &mut SetTask,
    processors: &[Processor<'_>],
    report: &mut Report,
) -> Option<()> {
    if let Some(place) = element.element("priority")
        && let Some(text) = place.text()
    {
        match text.parse() {
            Ok(priority) => task.priority = priority,
            Err(_) => report.error(place.span(), format!("<priority>: `{text}` is not a whole number")),
        }
    }
    let place = element.element("cpu_name");
    let Some((place, name)) = place.and_then(|place| Some((place, place.text()?))) else { return Some(()) };
    let Some(processor) = processors.iter().find(|processor| processor.name == name) else {
        let known = processors.iter().map(|processor| processor.name).collect::<Vec<_>>().join(", ");
        report.error_help(place.span(), format!("there is no processor {name}"), format!("known are {known}"));
        return None;
    };
    let core_name = element.text_of("core_name");
    let cores: Vec<&Core<'_>> = match processor.cores.iter().find(|core| Some(core.name) == core_name) {
        Some(core) => vec![core],
        None => processor.cores.iter().collect(),
    };
    if processor.is_partitioned && cores.len() > 1 {
        let message = format!("task {} names no core of {name}: it may use all of them", task.name);
        note(report, place.span(), message);
    }
    let mut mask = CpuMask::default();
    for core in &cores {
        mask.insert(CpuId(core.cpu));
    }
    let all: usize = processors.iter().map(|processor| processor.cores.len()).sum();
    task.cpus = (mask.count() < all).then_some(mask);
    task.policy = cores.first().map_or(task.policy, |core| core.policy);
    task.policy = match (task.policy, element.text_of("policy")) {
        (SetPolicy::Priority(RtPolicy::Fifo), Some("SCHED_RR")) => SetPolicy::Priority(RtPolicy::Rr),
        (SetPolicy::Priority(RtPolicy::Fifo), Some("SCHED_OTHERS" | "SCHED_OTHER")) => SetPolicy::Fair,
        (policy, _) => policy,
    };
    if task.policy == SetPolicy::Priority(RtPolicy::Rr) && element.text_of("policy") != Some("SCHED_RR") {
        // Cheddar's round robin has no priorities.
        task.priority = 1;
    }
    Some(())
}

/// Reads the critical sections: `TASK FROM TO` in a resource, from the start of a unit of the
/// task's capacity to the end of another; both count from 1.
fn sections(root: Element<'_>, set: &mut TaskSet, report: &mut Report) {
    let mut events: Vec<(usize, Duration, bool, ResourceId)> = Vec::new();
    let names: BTreeMap<String, usize> =
        set.tasks.iter().enumerate().map(|(index, task)| (task.name.clone(), index)).collect();
    for resource in root.within("resources") {
        let Some(name) = resource.text_of("name") else { continue };
        let protocol = resource.element("protocol");
        let named = protocol.and_then(Element::text).unwrap_or_default().to_ascii_uppercase();
        let inherit = !matches!(&*named, "" | "NO_PROTOCOL");
        if let Some(place) = protocol
            && named.contains("CEILING")
        {
            let message = format!("resource {name}: Linux's mutexes have no ceiling: its holder inherits priorities");
            report.warning(place.span(), message);
        }
        for user in resource.within("resource_used_by") {
            let id = set.resource(name, ResourceKind::Mutex { inherit });
            let words: Vec<&str> = user.text().unwrap_or_default().split_whitespace().collect();
            let time = |text: &str| text.parse().ok().and_then(|number| time_of(number, UNIT));
            let read = match words[..] {
                [task, from, to] => time(from).zip(time(to)).map(|(from, to)| (task, from, to)),
                _ => None,
            };
            let task = read.and_then(|(task, ..)| names.get(task).copied());
            let (Some((_, from, to)), Some(task)) = (read, task) else {
                let message = format!("`{}` is no use of a resource", words.join(" "));
                report.error_help(user.span(), message, "write a task, its first and its last unit: `T1 1 2`");
                continue;
            };
            let from = from.saturating_sub(UNIT);
            if from >= to || to > set.tasks[task].params.runtime {
                let message = format!("task {} uses {name} outside its capacity", set.tasks[task].name);
                report.error(user.span(), message);
                continue;
            }
            events.push((task, from, true, id));
            events.push((task, to, false, id));
        }
    }
    // At one time a section ends before the next begins.
    events.sort_by_key(|(task, at, is_lock, id)| (*task, *at, *is_lock, *id));
    for own in events.chunk_by(|(one, ..), (other, ..)| one == other) {
        let task = &mut set.tasks[own[0].0];
        let mut done = Duration::ZERO;
        let mut run = |job: &mut Vec<Action>, upto: Duration| {
            if upto > done {
                job.push(Action::Run(Dist::Constant(upto.saturating_sub(done))));
                done = upto;
            }
        };
        task.job.clear();
        for (_, at, is_lock, id) in own {
            run(&mut task.job, *at);
            task.job.push(if *is_lock { Action::Lock(*id) } else { Action::Unlock(*id) });
        }
        run(&mut task.job, task.params.runtime);
    }
}

/// Returns a time of an element; `None` if it is none, which is reported.
fn units(element: Element<'_>, key: &str, report: &mut Report) -> Option<Option<Duration>> {
    let Some((place, text)) = element.element(key).and_then(|place| Some((place, place.text()?))) else {
        return Some(None);
    };
    let time = text.parse().ok().and_then(|number| time_of(number, UNIT));
    if time.is_none() {
        report.error(place.span(), format!("<{key}>: `{text}` is not a time of 0 up to 10 years"));
    }
    time.map(Some)
}

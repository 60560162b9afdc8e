//! The waits of runs: all of them by cause, then by task, then the longest as examples.

use crate::escape::escape;
use crate::page::{INFALLIBLE, Run};
use crate::{icicle, table};
use std::fmt::Write;
use zerolag_model::{Instant, TaskId};
use zerolag_report::explain::{Explained, RequestTime};
use zerolag_report::human::Human;

/// The number of rows that a table of causes shows; the rest is one row.
const CAUSES_SHOWN: usize = 12;
/// The number of examples that are listed; the others are folded.
const EXAMPLES_SHOWN: usize = 3;

/// Writes the waits of the runs of a page. Of several each is below its name, and all but the first
/// are folded.
pub(crate) fn write(out: &mut String, runs: &[Run<'_>]) {
    if let [run] = runs {
        return write_run(out, 0, run, "");
    }
    for (index, run) in runs.iter().enumerate() {
        let (open, name) = (if index == 0 { " open" } else { "" }, escape(&run.name));
        writeln!(out, "<details class=\"fold\"{open}><summary><h3>{name}</h3></summary>").expect(INFALLIBLE);
        // Each region of a page has a name of its own: several runs have a table each.
        write_run(out, index, run, &format!(", {}", run.name));
        out.push_str("</details>\n");
    }
}

fn write_run(out: &mut String, index: usize, run: &Run<'_>, of: &str) {
    let all = &run.waits.summary;
    if all.total.is_zero() && run.waits.requests.is_empty() {
        out.push_str("<p>No task waited.</p>\n");
        return;
    }
    let level = if of.is_empty() { 3 } else { 4 };
    let heading = |out: &mut String, title: &str| {
        writeln!(out, "<h{level}>{}</h{level}>", escape(title)).expect(INFALLIBLE);
    };
    heading(out, "By cause");
    writeln!(out, "<p>{}.</p>", escape(&all.sentence("waits"))).expect(INFALLIBLE);
    icicle::write(out, &format!("Waiting by cause, task and CPU{of}"), all);
    table::write(out, &format!("Waiting by cause{of}"), &all.causes_table(CAUSES_SHOWN).to_rows());
    heading(out, "By task");
    table::write(out, &format!("Waiting by task{of}"), &all.episodes_table(CAUSES_SHOWN).to_rows());
    for RequestTime { service, summary } in &run.waits.requests {
        heading(out, &format!("Requests of {service}"));
        writeln!(out, "<p>{}.</p>", escape(&summary.sentence("requests"))).expect(INFALLIBLE);
        let label = format!("Requests of {service} by cause{of}");
        table::write(out, &label, &summary.causes_table(CAUSES_SHOWN).to_rows());
    }
    if !run.waits.waits.is_empty() {
        heading(out, "The longest");
        write_examples(out, index, run);
    }
}

fn write_examples(out: &mut String, index: usize, run: &Run<'_>) {
    let shown = run.waits.waits.len();
    writeln!(out, "<p class=\"quiet\">The {shown} longest waits. The times of the causes of a wait add up to it.</p>")
        .expect(INFALLIBLE);
    let (first, rest) = run.waits.waits.split_at(shown.min(EXAMPLES_SHOWN));
    let list = |out: &mut String, waits: &[Explained]| {
        out.push_str("<ol class=\"waits\">\n");
        waits.iter().for_each(|wait| write_wait(out, index, run, wait));
        out.push_str("</ol>\n");
    };
    list(out, first);
    if !rest.is_empty() {
        writeln!(out, "<details class=\"more\"><summary>{} more</summary>", rest.len()).expect(INFALLIBLE);
        list(out, rest);
        out.push_str("</details>\n");
    }
}

fn write_wait(out: &mut String, index: usize, run: &Run<'_>, wait: &Explained) {
    let name = run.waits.name(wait.task);
    let place = |task: TaskId| run.timeline.index_of(task).map_or(String::new(), |index| index.to_string());
    let (from, to) = (wait.from.as_nanos(), wait.to.as_nanos());
    let first = wait.causes.first().map(|(chain, _)| run.waits.clause(chain)).unwrap_or_default();
    writeln!(
        out,
        "<li><details><summary><b class=\"time\">{}</b> <span class=\"who\">{}</span> <span class=\"why\">{}</span></summary>\n\
         <p class=\"quiet\">From {} to {}. <button type=\"button\" class=\"jump\" data-run=\"{index}\" data-task=\"{}\" \
         data-from=\"{from}\" data-to=\"{to}\">Show in the timeline</button></p>",
        Human(wait.length()),
        escape(&name),
        escape(&first),
        stamp(wait.from),
        stamp(wait.to),
        place(wait.task),
    )
    .expect(INFALLIBLE);
    let causes = wait.causes.iter().map(|(chain, time)| vec![Human(*time).to_string(), run.waits.clause(chain)]);
    let head = vec!["time".to_owned(), format!("meanwhile {name}")];
    table::plain(out, "causes", &[head].into_iter().chain(causes).collect::<Vec<_>>());
    // A cause of time that was not seen is a guess: this is said where it is read.
    if let Some(missing) = wait.missing() {
        write!(out, "<p class=\"unseen\">{}</p>", escape(&missing)).expect(INFALLIBLE);
    }
    let places = wait.places();
    if !places.is_empty() {
        let rows = places.into_iter().map(|(time, place)| vec![Human(time).to_string(), place]);
        let head = vec!["time".to_owned(), "the policy had it on".to_owned()];
        table::plain(out, "causes", &[head].into_iter().chain(rows).collect::<Vec<_>>());
    }
    out.push_str("</details></li>\n");
}

fn stamp(at: Instant) -> String {
    format!("{at} s")
}

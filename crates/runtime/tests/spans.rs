//! The `tracing` spans of tasks: what a task logs is in the span of its task.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use zerolag_runtime::{Builder, yield_now};

/// Writes everything down, one line each.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Vec<String>>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("a string");
    }
}

impl Book {
    fn note(&self, begins: &str, visit: impl FnOnce(&mut Fields<'_>)) -> u64 {
        let mut line = begins.to_owned();
        visit(&mut Fields(&mut line));
        let mut book = self.0.lock().expect("nobody panics");
        book.push(line);
        book.len() as u64
    }
}

impl Subscriber for Book {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "zerolag" || metadata.target() == "test"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        Id::from_u64(self.note("span", |fields| span.record(fields)))
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.note("more", |fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.note("event", |fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {
        self.note("enter", |_| {});
    }

    fn exit(&self, _: &Id) {
        self.note("exit", |_| {});
    }
}

#[test]
fn what_a_task_logs_is_in_its_span() {
    let book = Book::default();
    tracing::subscriber::set_global_default(book.clone()).expect("the only test here");
    let rt = Builder::new().cpus(1).build().expect("threads");
    let acme = rt.group("acme").create().expect("a group");
    let line = line!() + 1;
    let task = acme.task().name("imports").spawn(async {
        tracing::info!(target: "test", "first");
        yield_now().await;
        tracing::info!(target: "test", "second");
    });
    rt.block_on(task.expect("room")).expect("a result");
    drop(acme.spawn(async { panic!("nobody joins it") }));
    while rt.stray_panics() == 0 {
        std::thread::yield_now();
    }
    let lines = book.0.lock().expect("nobody panics").clone();
    let expected = [
        format!("span name=\"imports\" file=\"{}\" line={line}", file!()),
        "more group=\"/acme\"".to_owned(),
        "enter".to_owned(),
        "event message=first".to_owned(),
        "exit".to_owned(),
        "enter".to_owned(),
        "event message=second".to_owned(),
        "exit".to_owned(),
    ];
    let first = lines.iter().position(|line| line.starts_with("span name=\"imports\"")).expect("its span");
    assert_eq!(lines[first..first + expected.len()], expected, "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("nobody joins it") && line.starts_with("event")), "{lines:#?}");
}

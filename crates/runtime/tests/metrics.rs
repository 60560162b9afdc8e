//! The figures that a runtime gives to the `metrics` facade.

mod common;

use common::{Gate, compute_until, ms};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use zerolag_runtime::{Builder, TaskState};

/// Keeps the last value of every metric, by name and label.
#[derive(Default)]
struct Book(Mutex<BTreeMap<(String, String), Arc<AtomicU64>>>);

impl Book {
    fn place(&self, key: &Key) -> Arc<AtomicU64> {
        let label = key.labels().map(|label| label.value().to_owned()).collect();
        let mut book = self.0.lock().expect("nobody panics");
        Arc::clone(book.entry((key.name().to_owned(), label)).or_default())
    }

    fn read(&self, name: &str, label: &str) -> Option<u64> {
        let book = self.0.lock().expect("nobody panics");
        book.get(&(name.to_owned(), label.to_owned())).map(|value| value.load(Ordering::Relaxed))
    }
}

impl Recorder for Book {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.place(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.place(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn groups_and_tasks_are_published() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let outer = rt.group("outer").create().expect("a group");
    let inner = outer.group("inner").quota(0.2).period(ms(10)).create().expect("a group");
    let gone = rt.group("gone").create().expect("a group");
    let gate = Gate::new();
    let computes = inner.spawn(compute_until(&gate)).expect("room");
    let asleep = rt.spawn(pending::<()>()).expect("room").abort_on_drop();
    while inner.usage().stat.nr_throttled < 3 || asleep.info().state != TaskState::Asleep {
        std::thread::sleep(ms(1));
    }
    let paths = |rt: &zerolag_runtime::Runtime| rt.usage().into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    assert_eq!(paths(&rt), ["/", "/gone", "/outer", "/outer/inner"]);
    drop(gone);
    assert_eq!(paths(&rt), ["/", "/outer", "/outer/inner"]);

    let book = Book::default();
    let before = inner.usage();
    metrics::with_local_recorder(&book, || rt.publish_metrics());
    let after = inner.usage();
    let read = |name: &str, label: &str| book.read(&format!("zerolag_{name}"), label).expect("it was published");
    let cpu = read("group_cpu_microseconds_total", "/outer/inner");
    let micros = |usage: &zerolag_runtime::Usage| usage.cpu.as_micros() as u64;
    assert!((micros(&before)..=micros(&after)).contains(&cpu), "{cpu}: {before:?}, {after:?}");
    assert!(read("group_cpu_microseconds_total", "/outer") >= cpu);
    assert!(read("group_throttled_periods_total", "/outer/inner") >= 3);
    assert!(read("group_throttled_microseconds_total", "/outer/inner") > 0);
    assert_eq!(book.read("zerolag_group_periods_total", "/gone"), None);
    let states = ["polled", "runnable", "asleep"].map(|state| f64::from_bits(read("tasks", state)));
    assert_eq!((states.iter().sum::<f64>(), states[2]), (2.0, 1.0), "{states:?}");
    assert_eq!(read("stray_panics_total", ""), 0);
    gate.open();
    rt.block_on(computes).expect("a result");
}

//! The figures that a runtime gives to the `metrics` facade.

mod common;

use common::{Gate, compute_until, ms};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use zerolag_runtime::{Builder, TaskState, yield_now};

/// Keeps the last value of every metric, by name and label.
#[derive(Default)]
struct Book(Mutex<BTreeMap<(String, String), Arc<AtomicU64>>>);

impl Book {
    fn place(&self, key: &Key) -> Arc<AtomicU64> {
        let label = key.labels().map(|label| label.value().to_owned()).collect();
        let mut book = self.0.lock().expect("nobody panics");
        Arc::clone(book.entry((key.name().to_owned(), label)).or_default())
    }

    /// Returns the values of a name, by label.
    fn all(&self, name: &str) -> BTreeMap<String, u64> {
        let book = self.0.lock().expect("nobody panics");
        let of = book.iter().filter(|((of, _), _)| of == name);
        of.map(|((_, label), value)| (label.clone(), value.load(Ordering::Relaxed))).collect()
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

/// A task that yields a hundred times: as many waits and polls and one more of each, in buckets
/// that add up as those of Prometheus do.
#[test]
fn waits_and_polls_are_published_as_histograms() {
    let rt = Builder::new().cpus(1).latencies().build().expect("threads");
    let acme = rt.group("acme").create().expect("a group");
    let yields = acme.spawn(async {
        for _ in 0..100 {
            yield_now().await;
        }
    });
    rt.block_on(yields.expect("room")).expect("a result");
    let sleeps = acme.spawn(async { std::thread::sleep(ms(3)) });
    rt.block_on(sleeps.expect("room")).expect("a result");

    let latencies = acme.latencies().expect("they are counted");
    assert_eq!((latencies.queue_wait.count(), latencies.poll.count()), (102, 102));
    assert!(latencies.poll.sum() >= ms(3) && latencies.poll.quantile(1.0).is_none_or(|most| most > ms(3)));
    let book = Book::default();
    metrics::with_local_recorder(&book, || rt.publish_metrics());
    for name in ["queue_wait", "poll"] {
        let name = format!("zerolag_group_{name}_microseconds");
        let buckets: Vec<_> = book.all(&format!("{name}_bucket")).into_iter().collect();
        let of_acme: Vec<_> = buckets.iter().filter(|(label, _)| label.starts_with("/acme")).collect();
        assert_eq!(of_acme.len(), 26, "{buckets:?}");
        assert_eq!(book.read(&format!("{name}_bucket"), "/acme+Inf"), Some(102));
        assert_eq!(book.read(&format!("{name}_count"), "/acme"), Some(102));
        assert!(of_acme.iter().all(|(_, below)| *below <= 102));
    }
    // In relays too: the turn is passed to and fro.
    let pairs = rt.latencies().into_iter().find(|(path, _)| path == "/").expect("the root");
    let before = pairs.1.poll.count();
    let root = rt.root().clone();
    let outer = rt.spawn(async move {
        for _ in 0..10 {
            root.spawn(async {}).expect("room").await.expect("a result");
        }
    });
    rt.block_on(outer.expect("room")).expect("a result");
    let after = rt.root().latencies().expect("they are counted");
    assert!(after.poll.count() >= before + 20 && after.queue_wait.count() == after.poll.count(), "{after:?}");
    assert_eq!(Builder::new().cpus(1).build().expect("threads").latencies(), []);
}

/// Every series that the dashboard draws is one that is published, with the labels that it uses.
#[test]
fn the_dashboard_draws_what_is_published() {
    let rt = Builder::new().cpus(1).latencies().build().expect("threads");
    let book = Book::default();
    metrics::with_local_recorder(&book, || rt.publish_metrics());
    let published: Vec<_> = book.0.lock().expect("nobody panics").keys().map(|(name, _)| name.clone()).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/dashboards/grafana.json");
    let text = std::fs::read_to_string(path).expect("it is in the repository");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut drawn = Vec::new();
    for panel in panels {
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty() && panel["description"].is_string(), "{panel}");
        for target in targets {
            let expression = target["expr"].as_str().expect("an expression");
            let is_of_a_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            drawn.extend(expression.split(|letter| !is_of_a_name(letter)).filter(|word| word.starts_with("zerolag_")));
        }
    }
    drawn.sort_unstable();
    drawn.dedup();
    assert!(drawn.len() >= 8, "{drawn:?}");
    assert!(drawn.iter().all(|name| published.iter().any(|other| other == name)), "{drawn:?} of {published:?}");
}

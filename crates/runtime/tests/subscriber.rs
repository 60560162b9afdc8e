//! A `tracing` subscriber that panics: it ends no thread of the runtime.

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use zerolag_runtime::Builder;

struct Panics;

impl Subscriber for Panics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "zerolag"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        panic!("the subscriber has a fault");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The panic of a task without a handle is logged on the thread of the only CPU.
#[test]
fn a_subscriber_that_panics_ends_no_thread() {
    tracing::subscriber::set_global_default(Panics).expect("the first one");
    let rt = Builder::new().cpus(1).build().expect("threads");
    drop(rt.spawn(async { panic!("nobody waits for it") }).map(drop));
    let counted = async {
        while rt.stray_panics() == 0 {
            zerolag_runtime::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    rt.block_on(counted);
    let next = rt.spawn(async { 7 }).expect("room");
    assert_eq!(rt.block_on(next).expect("the CPU has its thread"), 7);
}

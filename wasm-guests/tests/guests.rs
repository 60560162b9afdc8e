//! A guest that never returns, in a limited group, on one CPU with tasks that are due.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wasmtime::{Engine, Linker, Module, Store};
use zerolag_runtime::model::RtPriority;
use zerolag_runtime::{Builder, JoinError, sleep};
use zerolag_wasm_guests::{Epochs, config, preempt};

/// Counts in a loop without end; the host can read how far it is.
const GUEST: &str = r#"
    (module
      (memory (export "memory") 1)
      (func (export "run")
        (local $n i64)
        (loop $again
          (local.set $n (i64.add (local.get $n) (i64.const 1)))
          (i64.store (i32.const 0) (local.get $n))
          (br $again))))
"#;

#[test]
fn a_guest_that_never_returns_is_preempted_and_limited() {
    let engine = Engine::new(&config()).expect("a compiler");
    let _epochs = Epochs::start(&engine).expect("a thread");
    let module = Module::new(&engine, GUEST).expect("a module");
    let long = Arc::new(Mutex::new(Duration::ZERO));
    let longest = Arc::clone(&long);
    // No CPU is handed over: only what the guest does itself lets others run.
    let rt = Builder::new()
        .cpus(1)
        .hand_off_after(None)
        .on_overrun(Duration::from_millis(1), move |overrun| {
            let mut longest = longest.lock().expect("no panic");
            *longest = overrun.length.max(*longest);
        })
        .build()
        .expect("threads");
    let tenant = rt.group("tenant").quota(0.3).period(Duration::from_millis(20)).create().expect("a group");
    let guest = tenant.spawn(async move {
        let mut store = Store::new(&engine, ());
        preempt(&mut store);
        let linker = Linker::new(&engine);
        let instance = linker.instantiate_async(&mut store, &module).await.expect("an instance");
        let run = instance.get_typed_func::<(), ()>(&mut store, "run").expect("it is exported");
        run.call_async(&mut store, ()).await
    });
    let guest = guest.expect("room");
    let urgent = rt.task().fifo(RtPriority::MIN).spawn(async {
        let mut late = Duration::ZERO;
        for _ in 0..200 {
            let due = Instant::now() + Duration::from_millis(5);
            sleep(Duration::from_millis(5)).await;
            late = late.max(due.elapsed());
        }
        late
    });
    let (before, began) = (tenant.usage(), Instant::now());
    let late = rt.block_on(urgent.expect("room")).expect("a result");
    let (used, elapsed) = (tenant.usage().cpu - before.cpu, began.elapsed());
    println!(
        "the guest used {:.3} CPUs, urgent tasks were late by {late:?} at most",
        used.as_secs_f64() / elapsed.as_secs_f64()
    );
    println!("the longest poll took {:?}", long.lock().expect("no panic"));
    // Its limit, up to one period and one epoch; and not nothing.
    assert!(used <= elapsed.mul_f64(0.3) + Duration::from_millis(8), "{used:?} in {elapsed:?}");
    assert!(used >= Duration::from_millis(20), "{used:?} in {elapsed:?}");
    assert!(!guest.is_finished());
    guest.abort();
    assert!(matches!(rt.block_on(guest), Err(JoinError::Aborted)), "it is dropped in the middle of its loop");
}

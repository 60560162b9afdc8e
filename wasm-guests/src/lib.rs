//! WebAssembly guests as tasks of `zerolag-runtime`: code of others that never yields by itself, and
//! is preempted all the same.
//!
//! A poll cannot be interrupted, so a guest that loops would keep its CPU until it is handed over.
//! wasmtime checks an *epoch* at every loop and call of the guest: one load and one comparison.
//! [`Epochs`] advances it once a millisecond, and the callback of [`preempt`] then asks the
//! scheduler whether the guest's task is to yield: the guest goes on at once, or is suspended in
//! the middle of its loop and continues when its group has a turn and quota again.
//!
//! | | without | with epochs |
//! |---|---|---|
//! | a guest that never returns, beside urgent tasks | its CPU is handed over after 2 to 3 ms, and its thread goes on beside the others | it yields within 1 ms |
//! | its limit | on average | to a millisecond |
//!
//! It is a workspace of its own, and no feature of the runtime: the compiler that wasmtime contains
//! takes longer to build than everything else together.
#![warn(missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wasmtime::{Config, Engine, Store, UpdateDeadline};
use zerolag_runtime::{checkpoint, should_yield};

/// The time between two questions whether a guest is to yield.
pub const EPOCH: Duration = Duration::from_millis(1);

/// Returns the configuration of an engine whose guests can be preempted.
///
/// ```
/// let engine = wasmtime::Engine::new(&zerolag_wasm_guests::config())?;
/// # Ok::<(), wasmtime::Error>(())
/// ```
#[must_use]
pub fn config() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config
}

/// Advances the epoch of an engine until it is dropped.
#[derive(Debug)]
pub struct Epochs {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Epochs {
    /// Starts the thread that does.
    ///
    /// # Errors
    /// The system could not start another thread.
    pub fn start(engine: &Engine) -> std::io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (engine, over) = (engine.weak(), Arc::clone(&is_over));
        let run = move || {
            while !over.load(Ordering::Relaxed)
                && let Some(engine) = engine.upgrade()
            {
                engine.increment_epoch();
                drop(engine);
                thread::sleep(EPOCH);
            }
        };
        let thread = Some(thread::Builder::new().name("zerolag-epochs".to_owned()).spawn(run)?);
        Ok(Self { is_over, thread })
    }
}

impl Drop for Epochs {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Lets the guests of a store yield when the scheduler asks for it. They have to be called with the
/// `*_async` functions, in a task of the runtime.
pub fn preempt<T>(store: &mut Store<T>) {
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|_| {
        Ok(if should_yield() {
            UpdateDeadline::YieldCustom(1, Box::pin(checkpoint()))
        } else {
            UpdateDeadline::Continue(1)
        })
    });
}

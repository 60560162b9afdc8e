//! The progress of a long run, and Ctrl-C.
//!
//! A progress bar is only shown if stderr is a terminal and the run takes longer than a second;
//! results never depend on it.

use super::code;
use super::failure::eprintln_lossy;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Handles Ctrl-C from now on: the first ends the run, the second the process.
pub(crate) fn catch_interrupts() {
    let handler = || {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(code::INTERRUPTED));
        }
    };
    // Without a handler Ctrl-C ends the process at once, without partial results.
    drop(ctrlc::set_handler(handler));
}

/// Returns whether Ctrl-C was pressed.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Says that the work was ended without a result, and returns the exit code.
pub(crate) fn say_interrupted() -> u8 {
    eprintln_lossy("interrupted: no partial results are printed");
    code::INTERRUPTED
}

/// Shows the progress of a run.
#[derive(Debug)]
pub(crate) struct Progress {
    started: std::time::Instant,
    shown: bool,
    quiet: bool,
    total: u64,
    unit: &'static str,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Begins; `total` is in units of `unit`.
    #[expect(clippy::disallowed_methods, reason = "what people see on stderr may depend on the clock; no result does")]
    pub(crate) fn new(total: u64, unit: &'static str, quiet: bool) -> Self {
        Self { started: std::time::Instant::now(), shown: false, quiet, total, unit, bar: None }
    }

    /// Reports the position of the run; ends the run after Ctrl-C.
    pub(crate) fn at(&mut self, position: u64) -> ControlFlow<()> {
        if interrupted() {
            return ControlFlow::Break(());
        }
        if !self.quiet && !self.shown && self.started.elapsed().as_secs() >= 1 {
            self.shown = true;
            if std::io::stderr().is_terminal() {
                let bar = ProgressBar::with_draw_target(Some(self.total), ProgressDrawTarget::stderr());
                let template = format!("{{bar:40}} {{pos}} of {{len}} {}, {{elapsed}}, {{eta}} to go", self.unit);
                if let Ok(style) = ProgressStyle::with_template(&template) {
                    bar.set_style(style);
                }
                self.bar = Some(bar);
            }
        }
        if let Some(bar) = &self.bar {
            bar.set_position(position);
        }
        ControlFlow::Continue(())
    }

    /// Removes the progress bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Does work that has no position, and shows that it is under way from its second second on.
pub(crate) fn busy<T>(what: &'static str, quiet: bool, work: impl FnOnce() -> T) -> T {
    if quiet || !std::io::stderr().is_terminal() {
        return work();
    }
    let (ended, end) = mpsc::channel::<()>();
    let spinner = std::thread::spawn(move || {
        // The channel is closed when the work is done.
        if end.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_message(what);
            bar.enable_steady_tick(SILENCE / 10);
            let _closed = end.recv();
            bar.finish_and_clear();
        }
    });
    let done = work();
    drop(ended);
    // It ends: nothing in it panics.
    drop(spinner.join());
    done
}

/// How long a program may be silent.
const SILENCE: Duration = Duration::from_secs(1);

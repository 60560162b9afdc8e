//! [`TaskSpan`]: the `tracing` span of a task. Every poll of the task is inside it, so what the
//! task logs carries its name, its group and the place that started it; subscribers that measure
//! spans see each poll as one entry.
//!
//! The span is a child of the span in which the task was started. Without the feature `tracing`
//! there is none, and a poll pays nothing; without a subscriber a task pays one load.

use crate::state::info::Overrun;
use std::panic::Location;

/// See the [module](self).
#[derive(Debug)]
#[cfg_attr(not(feature = "tracing"), derive(Default))]
pub(crate) struct TaskSpan {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

/// No span.
#[cfg(feature = "tracing")]
impl Default for TaskSpan {
    fn default() -> Self {
        Self { span: tracing::Span::none() }
    }
}

#[cfg(feature = "tracing")]
impl TaskSpan {
    pub(crate) fn new(name: &str, group: impl FnOnce() -> String, at: &'static Location<'static>) -> Self {
        let span = tracing::info_span!(
            target: "zerolag",
            "task",
            name,
            group = tracing::field::Empty,
            file = at.file(),
            line = at.line()
        );
        if !span.is_disabled() {
            span.record("group", group());
        }
        Self { span }
    }

    /// Returns whether no subscriber wants the span.
    pub(crate) fn is_disabled(&self) -> bool {
        self.span.is_disabled()
    }

    /// Runs a poll, or the drop of the future, inside the span.
    pub(crate) fn around<T>(&self, run: impl FnOnce() -> T) -> T {
        self.span.in_scope(run)
    }
}

#[cfg(not(feature = "tracing"))]
impl TaskSpan {
    pub(crate) fn new(_: &str, _: impl FnOnce() -> String, _: &'static Location<'static>) -> Self {
        Self {}
    }

    #[expect(clippy::unused_self, reason = "with the feature `tracing` it has a span")]
    pub(crate) const fn is_disabled(&self) -> bool {
        true
    }

    #[expect(clippy::unused_self, reason = "with the feature `tracing` it has a span")]
    pub(crate) fn around<T>(&self, run: impl FnOnce() -> T) -> T {
        run()
    }
}

/// Logs a poll that was longer than [`Builder::on_overrun`](crate::Builder::on_overrun) allows.
#[cfg(feature = "tracing")]
pub(crate) fn log_overrun(overrun: &Overrun) {
    tracing::warn!(
        target: "zerolag",
        length = ?overrun.length,
        task = %overrun.task,
        future = overrun.future,
        from = overrun.from.map(tracing::field::display),
        to = overrun.to.map(tracing::field::display),
        "a poll was too long"
    );
}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn log_overrun(_: &Overrun) {}

/// Logs a panic that no handle reports.
#[cfg(feature = "tracing")]
pub(crate) fn log_stray_panic(with: &(dyn std::any::Any + Send)) {
    let text = with.downcast_ref::<&str>().copied();
    let text = text.or_else(|| with.downcast_ref::<String>().map(String::as_str));
    tracing::error!(target: "zerolag", text = text.unwrap_or("no text"), "a panic that no handle reports");
}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn log_stray_panic(_: &(dyn std::any::Any + Send)) {}

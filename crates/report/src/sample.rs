//! Handwritten traces for tests.

use zerolag_trace::Trace;
use zerolag_trace::script::Script;

/// Ten milliseconds on two CPUs, the second idle: `a` 0-4, `f` (FIFO 5) 4-6, `a` 6-8, `b` 8-10. `b`
/// waits from 0 on.
pub(crate) fn two_hogs_and_a_fifo() -> Trace {
    let mut script = Script::new(2);
    let a = script.fair("a");
    let b = script.fair("b");
    let f = script.fifo("f", 5);
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b);
    script.wake(4000, 0, f).preempt(4000, 0, a, f).run(6000, 0, Some(f), Some(a)).preempt(8000, 0, a, b);
    script.end(10_000)
}

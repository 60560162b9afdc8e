//! What a policy does that ends the process: signals, panics, and calls that do not end.
//!
//! Each thread has a [`Slot`] that says which operation of which policy it is in. The handler of
//! signals reads that of its thread, a watching thread reads all.
#![expect(unsafe_code, reason = "signals have no safe interface by which a crash can be caught")]

use crate::abi;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;
use zerolag_policy::Callback;

/// The exit code of a run that failed.
const FAILED: i32 = 1;
/// The number of checks, one a second, after which a call that is still the same does not end.
const CHECKS: u32 = 10;

/// The signals of a crash.
const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGABRT, "SIGABRT, an abort or a panic"),
];

/// Where a thread is.
#[derive(Debug, Default)]
struct Slot {
    /// Odd within a call.
    serial: AtomicU64,
    callback: AtomicU8,
    task: AtomicU32,
    now: AtomicU64,
    /// The file of the policy: a string that is never freed.
    file: AtomicPtr<String>,
}

/// The slots of all threads that have called a policy. They are never freed: a handler can read
/// one at any time.
static SLOTS: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

/// What the signals did before, in the order of [`SIGNALS`].
static BEFORE: OnceLock<[Option<libc::sigaction>; SIGNALS.len()]> = OnceLock::new();

thread_local! {
    static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
}

fn slot() -> &'static Slot {
    SLOT.get().unwrap_or_else(|| {
        let slot: &'static Slot = Box::leak(Box::default());
        SLOT.set(Some(slot));
        SLOTS.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        slot
    })
}

/// This thread begins an operation.
pub(crate) fn enter(file: &'static String, callback: Callback, task: u32, now: u64) {
    let slot = slot();
    slot.callback.store(callback as u8, Ordering::Relaxed);
    slot.task.store(task, Ordering::Relaxed);
    slot.now.store(now, Ordering::Relaxed);
    slot.file.store(std::ptr::from_ref(file).cast_mut(), Ordering::Relaxed);
    slot.serial.store(slot.serial.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// This thread has returned from it.
pub(crate) fn leave() {
    let slot = slot();
    slot.serial.store(slot.serial.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// Ends the process, because a policy cannot go on and cannot be left.
pub(crate) fn stop(why: &str) -> ! {
    let mut text = Text::default();
    // A message that is too long is cut.
    let _ = describe(&mut text, slot(), why);
    text.print();
    std::process::exit(FAILED);
}

/// A text without memory of its own: a handler of signals must not allocate.
struct Text {
    bytes: [u8; 1024],
    len: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self { bytes: [0; 1024], len: 0 }
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.len += count;
        if count == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl Text {
    fn print(&self) {
        // SAFETY: the bytes are ours, and `write` reads no more of them than their number.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, self.bytes.as_ptr().cast::<c_void>(), self.len) };
    }
}

/// Writes what happened where: `error: ./mine.so: SIGSEGV in ops.enqueue() of web-0[0] at 1.5`.
fn describe(text: &mut Text, slot: &Slot, why: &str) -> fmt::Result {
    let file = slot.file.load(Ordering::Relaxed);
    // SAFETY: it is null, or points to a string that is never freed.
    let file = unsafe { file.as_ref() }.map_or("?", |file| file.as_str());
    let callback = Callback::ALL.get(usize::from(slot.callback.load(Ordering::Relaxed)));
    write!(text, "error: {file}: {why} in {}()", callback.map_or("?", |callback| callback.name()))?;
    let task = slot.task.load(Ordering::Relaxed);
    if task != u32::MAX {
        write!(text, " of {}[{task}]", abi::comm_of(task).unwrap_or("task"))?;
    }
    let now = slot.now.load(Ordering::Relaxed);
    writeln!(text, " at {}.{:09}", now / 1_000_000_000, now % 1_000_000_000)?;
    writeln!(text, "  help: compile it with `-g -fsanitize=address,undefined`, or run this under `gdb --args`")
}

/// Catches signals, and watches for calls that do not end, from the first call on.
pub(crate) fn arm() {
    static ARMED: Once = Once::new();
    ARMED.call_once(|| {
        let mut before = [None; SIGNALS.len()];
        for ((signal, _), before) in SIGNALS.iter().zip(&mut before) {
            // SAFETY: the struct is plain data for which zeros are valid; the handler has the
            // signature that `SA_SIGINFO` asks for, and does what its own comment says.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_signal;
                action.sa_sigaction = handler as *const c_void as libc::sighandler_t;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                let mut old: libc::sigaction = std::mem::zeroed();
                libc::sigaction(*signal, &raw const action, &raw mut old);
                *before = Some(old);
            }
        }
        let _ = BEFORE.set(before);
        // Without this thread a policy that loops is not ended, and nothing else changes.
        let _ = std::thread::Builder::new().name("policy-watch".into()).spawn(watch);
    });
}

/// Reports a crash and ends the process. It formats into memory of its own, writes and exits: all
/// of that is allowed in a handler. Reading the name of a task is reading memory that the crashed
/// call had borrowed.
extern "C" fn on_signal(signal: c_int, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    let slot = SLOT.get().filter(|slot| slot.serial.load(Ordering::Acquire) % 2 == 1);
    let Some(slot) = slot else {
        // It is not a policy's. What happened before happens when this returns: the instruction
        // that failed fails again, and `abort` raises the signal a second time.
        let before = SIGNALS.iter().position(|(of, _)| *of == signal).and_then(|at| BEFORE.get()?[at]);
        if let Some(before) = before {
            // SAFETY: the struct is what the system returned.
            unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) };
        }
        return;
    };
    let name = SIGNALS.iter().find(|(of, _)| *of == signal).map_or("a signal", |(_, name)| name);
    let mut text = Text::default();
    let _ = describe(&mut text, slot, name);
    text.print();
    // SAFETY: it ends the process at once, without functions that run at an exit.
    unsafe { libc::_exit(FAILED) };
}

/// Looks once a second whether a call goes on that went on the times before.
fn watch() {
    let mut seen: Vec<(u64, u32)> = Vec::new();
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        seen.resize(slots.len(), (0, 0));
        for (slot, (last, times)) in slots.iter().zip(&mut seen) {
            let serial = slot.serial.load(Ordering::Acquire);
            *times = if serial % 2 == 1 && serial == *last { *times + 1 } else { 0 };
            *last = serial;
            if *times >= CHECKS {
                let mut text = Text::default();
                // The thread is within the policy: the name of its task is not read from here.
                let _ = describe(&mut text, slot, "no end after 10 s");
                text.print();
                // SAFETY: as in the handler; the thread that loops must not run on.
                unsafe { libc::_exit(FAILED) };
            }
        }
    }
}

//! The thread that decides: reads events, lets the policy decide, and does its decisions.

use crate::account::Account;
use crate::clock;
use crate::kernel::{Decider, Events, Kernel, Settings};
use crate::mirror::{Mirror, PathOf};
use crate::realtime;
use crate::table;
use crate::wire::{Decision, Event, Kind, Report};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;
use zerolag_model::{CpuMask, Duration as Span};
use zerolag_policy::Policy;

/// The longest sleep: events that want no answer are read at least so often.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// A thread of real time that always finds events sleeps this long, so often: far below
/// [`realtime::MOST`].
const BREATHER: Duration = Duration::from_micros(50);
const BETWEEN_BREATHERS: u64 = 200_000_000;
/// How often figures are handed over, in nanoseconds.
const BETWEEN_FIGURES: u64 = 200_000_000;
/// How often a move of a task that is not in the queue yet is tried at once.
const AT_ONCE: u32 = 100;

/// What is shown while it runs, and at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) began: u64,
    pub(crate) now: u64,
    pub(crate) accounts: Vec<Account>,
    pub(crate) events: u64,
    pub(crate) decisions: u64,
    /// CPU time of the thread since it was attached.
    pub(crate) cost: u64,
    pub(crate) nr_late: u64,
}

/// What the threads of the program share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The user wants an end.
    pub(crate) stops: AtomicBool,
    pub(crate) figures: Mutex<Figures>,
}

/// How it ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The kernel's half was unloaded, for this reason.
    Unloaded(Report),
    /// The policy broke a rule: what a kernel would print, and where.
    Policy(String),
}

/// Loads the policy into the kernel, and serves it until its end.
pub(crate) fn run(
    policy: Box<dyn Policy>,
    online: &CpuMask,
    settings: &Settings,
    shared: &Shared,
    trace: Option<&Sender<Vec<Event>>>,
) -> Result<End, String> {
    let wants_paths = !policy.texts().is_empty();
    let mut mirror = Mirror::new(policy, online, Span::from_nanos(settings.config.slice_ns))?;
    if wants_paths {
        mirror = mirror.with_paths(paths());
    }
    if let Some(failure) = failure(&mirror) {
        return Ok(End::Policy(failure));
    }
    realtime::enter()?;
    let mut kernel = Kernel::load(settings)?;
    let buffer = kernel.buffer()?;
    let events = Events::new(&buffer)?;
    kernel.attach()?;
    serve(&mut mirror, &kernel, &events, shared, trace)?;
    kernel.unload();
    let failure = failure(&mirror);
    mirror.unload();
    match (failure, kernel.report()) {
        (Some(failure), _) => Ok(End::Policy(failure)),
        (None, Some(report)) => Ok(End::Unloaded(report)),
        (None, None) => Err("the kernel's half has left no report".to_owned()),
    }
}

/// Returns the paths of groups: all are read anew for one that is unknown.
fn paths() -> PathOf {
    let mut known = table::paths();
    Box::new(move |id| {
        if !known.contains_key(&id) {
            known = table::paths();
        }
        known.get(&id).cloned()
    })
}

fn failure(mirror: &Mirror) -> Option<String> {
    mirror.failure().map(|exit| format!("{exit}\n  {}", exit.place()))
}

fn serve(
    mirror: &mut Mirror,
    kernel: &Kernel,
    events: &Events<'_>,
    shared: &Shared,
    trace: Option<&Sender<Vec<Event>>>,
) -> Result<(), String> {
    let mut doer = Doer { decider: kernel.decider()?, decisions: Vec::new(), answered: 0, made: 0 };
    let (began, cost) = (clock::monotonic(), clock::of_this_thread());
    let (mut batch, mut nr_events): (Vec<Event>, u64) = (Vec::new(), 0);
    let (mut slept_at, mut shown_at) = (began, began);
    let (mut timer, mut tries): (Option<u64>, u32) = (None, 0);
    loop {
        let now = clock::monotonic();
        // The kernel waits for whole milliseconds.
        let until = |at: u64| Duration::from_millis(at.saturating_sub(now).div_ceil(1_000_000));
        let timeout = match tries {
            0 => timer.map_or(LONGEST_SLEEP, |at| until(at).min(LONGEST_SLEEP)),
            1..AT_ONCE => Duration::ZERO,
            _ => Duration::from_millis(1),
        };
        if now - slept_at > BETWEEN_BREATHERS {
            std::thread::sleep(BREATHER);
            slept_at = clock::monotonic();
        }
        events.wait(timeout, &mut batch)?;
        nr_events += batch.len() as u64;
        if let Some(trace) = trace.filter(|_| !batch.is_empty()) {
            // If its thread has failed, that is said at the end.
            let _ = trace.send(batch.clone());
        }
        let is_unloaded = batch.iter().any(|event| event.kind == Kind::Exit);
        batch.drain(..).for_each(|event| mirror.handle(&event));
        let now = clock::monotonic();
        if timer.is_some_and(|at| at <= now) {
            timer = None;
            mirror.time(now);
        }
        let stops = is_unloaded || mirror.failure().is_some() || shared.stops.load(Ordering::Relaxed);
        if !stops {
            tries = if doer.act(mirror)? { tries.saturating_add(1) } else { 0 };
            timer = mirror.take_timer().or(timer);
        }
        if stops || now - shown_at > BETWEEN_FIGURES {
            shown_at = now;
            let figures = Figures {
                began,
                now,
                accounts: mirror.accounts.at(now),
                events: nr_events,
                decisions: doer.made,
                cost: clock::of_this_thread() - cost,
                nr_late: kernel.report().map_or(0, |report| report.nr_late),
            };
            // The reader copies: this thread, which is of real time, waits for no other one.
            if stops {
                *shared.figures.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = figures;
            } else if let Ok(mut last) = shared.figures.try_lock() {
                *last = figures;
            }
        }
        if stops {
            return Ok(());
        }
    }
}

/// Does decisions, and counts them.
struct Doer<'a> {
    decider: Decider<'a>,
    decisions: Vec<Decision>,
    answered: u64,
    made: u64,
}

impl Doer<'_> {
    /// Does what follows of the events so far; returns whether something is to be done again.
    fn act(&mut self, mirror: &mut Mirror) -> Result<bool, String> {
        let asked = mirror.nr_asked();
        mirror.settle(&mut self.decisions);
        if self.decisions.is_empty() && asked > self.answered {
            self.decisions.push(Decision::None);
        }
        let mut again = false;
        for decision in &self.decisions {
            let outcome = self.decider.decide(*decision, asked)?;
            let is_again = mirror.done(*decision, outcome);
            self.made += u64::from(!is_again && *decision != Decision::None);
            again |= is_again;
        }
        self.answered = asked;
        Ok(again)
    }
}

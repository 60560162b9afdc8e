//! [`Turn`]: the part of a round that a group has, by its weight, while others want the CPUs too.
//!
//! Deficit round robin (Shreedhar and Varghese, *Efficient fair queuing using deficit round robin*,
//! 1995) at the gate: in every round a group gets [`QUANTUM`] times its weight, a poll that is too
//! long is a deficit that the next rounds pay, and a group that had nothing to do saves nothing up.
//!
//! The executor's queue is not ours, so the layer does not know which groups have something to run.
//! It finds out: of all polls without a turn below a group, the first lets the rest of its thread's
//! queue go first, and looks what that was when it is polled again.
//!
//! | since then, on this thread | so |
//! |---|---|
//! | a poll began that had a turn | it is others' turn: wait on |
//! | none did, and other groups wait | the round is over: all get their next part |
//! | none did, and no other group waits | the thread has nothing else to do: run, until [`SPARE`] is used |
//! | the poll was taken to other threads twice | those had nothing else to do: likewise |
//!
//! The others wait in two queues, that of their group and that of the groups ([`Rounds`]), so a
//! look costs one poll of the executor, however many wait. Shares are kept per thread: an executor
//! that has put the tasks of one group on one thread, and those of another on the other, gives each
//! a CPU.

use crate::queue::Queue;
use std::sync::atomic::{AtomicU64, Ordering};

/// The CPU time of a round per weight, in nanoseconds: 0.5 ms for the weight 100.
const QUANTUM: u64 = 5_000;

/// The CPU time that a thread gives a group without a turn, if it has nothing else to do, until it
/// looks again; in nanoseconds.
pub(crate) const SPARE: u64 = 500_000;

/// How often a poll is taken to another thread until that is a sign of threads without work.
const MOVES: u32 = 2;

/// How often the rest of a thread's queue goes first. tokio polls tasks that have yielded in
/// reverse, so in one pass some are polled twice, and others not at all; in two all are.
const PASSES: u32 = 2;

/// The largest deficit, in nanoseconds.
const DEFICIT_MAX: u64 = 50_000_000;

/// The rounds of the groups below a group.
#[derive(Default)]
pub(crate) struct Rounds {
    number: AtomicU64,
    /// The first polls of groups without a turn.
    pub(crate) queue: Queue,
}

/// What a thread has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Seen {
    pub(crate) thread: u64,
    /// The number of polls that began with a turn.
    pub(crate) begun: u64,
}

/// What a poll without a turn has seen so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Watch {
    /// What the thread had done when it was sent back; `None` before.
    pub(crate) since: Option<Seen>,
    /// How often it was polled since then.
    passes: u32,
    /// How often it has changed threads.
    moves: u32,
}

/// The result of a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// The thread has nothing else to do.
    Spare,
    /// A round begins: those that wait look again.
    NewRound,
    /// It is the turn of others.
    Off,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Turn {
    /// The CPU time of the group, in nanoseconds, at which the turn ends.
    ends: AtomicU64,
    round: AtomicU64,
    pub(crate) queue: Queue,
}

impl Turn {
    /// Returns whether it is the turn of a group that has used so much.
    pub(crate) fn is_on(&self, used: u64) -> bool {
        used < self.ends.load(Ordering::Relaxed)
    }

    /// Takes the group's part of the rounds that have begun; returns whether it is its turn. It can
    /// be a part more or less if the group uses CPU time on another thread meanwhile.
    pub(crate) fn renew(&self, used: u64, weight: u64, rounds: &Rounds) -> bool {
        let (round, had) = (rounds.number.load(Ordering::Relaxed), self.round.load(Ordering::Relaxed));
        let is_new = had < round;
        if is_new && self.round.compare_exchange(had, round, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let part = weight * QUANTUM;
            let ends = self.ends.load(Ordering::Relaxed).max(used.saturating_sub(DEFICIT_MAX));
            let ends = ends.saturating_add(part.saturating_mul(round - had)).min(used + part);
            self.ends.store(ends, Ordering::Relaxed);
        }
        self.is_on(used)
    }
}

impl Rounds {
    /// Looks what the thread has done since a poll was sent back, whose group has no turn. After
    /// [`Look::Off`] the caller sends it back, and sets `since` if there is none.
    pub(crate) fn look(&self, watch: &mut Watch, now: Seen) -> Look {
        let Some(since) = watch.since else { return Look::Off };
        if since.thread != now.thread {
            *watch = Watch { since: None, passes: 0, moves: watch.moves + 1 };
            return if watch.moves < MOVES { Look::Off } else { Look::Spare };
        }
        if since.begun != now.begun {
            *watch = Watch { since: None, passes: 0, moves: watch.moves };
            return Look::Off;
        }
        watch.passes += 1;
        if watch.passes < PASSES {
            return Look::Off;
        }
        if self.queue.len() < 2 {
            return Look::Spare;
        }
        self.number.fetch_add(1, Ordering::Relaxed);
        // The others take their part of this round before the next begins.
        *watch = Watch { since: None, passes: 0, moves: watch.moves };
        Look::NewRound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// Runs a test with one thread: the queue has locks of the model checker.
    fn checked(test: impl Fn() + Send + Sync + 'static) {
        let mut config = shuttle::Config::new();
        config.max_steps = shuttle::MaxSteps::None;
        shuttle::Runner::new(shuttle::scheduler::RandomScheduler::new(1), config).run(test);
    }

    /// One thread with a task of each group in its queue, as a simulation: each has polls of its
    /// own length, and every other pass of the queue can be in reverse. Returns the parts of the
    /// CPU time.
    fn shares(groups: &[(u64, u64)], polls: usize, is_reversed: bool) -> Vec<f64> {
        let (rounds, turns): (_, Vec<Turn>) = (Rounds::default(), groups.iter().map(|_| Turn::default()).collect());
        let mut used = vec![0_u64; groups.len()];
        let mut spare = vec![0_u64; groups.len()];
        let mut waits: Vec<Option<(u64, Watch)>> = vec![None; groups.len()];
        let mut now = Seen::default();
        for n in 0..polls {
            let (pass, place) = (n / groups.len(), n % groups.len());
            let at = if is_reversed && pass % 2 == 1 { groups.len() - 1 - place } else { place };
            let (weight, length) = groups[at];
            if !turns[at].is_on(used[at]) && used[at] >= spare[at] && !turns[at].renew(used[at], weight, &rounds) {
                let (ticket, watch) = waits[at].get_or_insert_with(|| (rounds.queue.join(), Watch::default()));
                let look = match rounds.queue.wait(*ticket, Waker::noop()) {
                    false => Look::Off,
                    true => rounds.look(watch, now),
                };
                let _ = watch.since.get_or_insert(now);
                match look {
                    Look::Spare => spare[at] = used[at] + SPARE,
                    Look::NewRound if turns[at].renew(used[at], weight, &rounds) => {}
                    Look::NewRound | Look::Off => continue,
                }
            }
            if let Some((ticket, _)) = waits[at].take() {
                rounds.queue.leave(ticket);
            }
            now.begun += 1;
            used[at] += length;
        }
        let all: u64 = used.iter().sum();
        used.iter().map(|used| *used as f64 / all as f64).collect()
    }

    #[track_caller]
    fn assert_near(found: &[f64], expected: &[f64]) {
        let is_near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.03);
        assert!(is_near, "{found:?}, expected {expected:?}");
    }

    #[test]
    fn groups_share_by_weight_whatever_their_polls_are() {
        checked(|| {
            let (short, long) = (20_000, 3_000_000);
            for is_reversed in [false, true] {
                let shares = |groups: &[(u64, u64)]| shares(groups, 300_000, is_reversed);
                assert_near(&shares(&[(100, short), (100, short)]), &[0.5, 0.5]);
                assert_near(&shares(&[(100, short), (300, short)]), &[0.25, 0.75]);
                assert_near(&shares(&[(100, long), (300, short)]), &[0.25, 0.75]);
                assert_near(&shares(&[(1000, long), (100, long)]), &[0.91, 0.09]);
                assert_near(&shares(&[(100, short), (200, long), (500, short)]), &[0.125, 0.25, 0.625]);
            }
        });
    }

    fn looks(now: [Seen; 4]) -> [Look; 4] {
        let (rounds, mut watch) = (Rounds::default(), Watch::default());
        now.map(|now| {
            let look = rounds.look(&mut watch, now);
            watch.since.get_or_insert(now);
            look
        })
    }

    #[test]
    fn a_group_alone_is_sent_back_twice_per_spare_time() {
        checked(|| {
            let now = Seen::default();
            let others = Seen { begun: 1, ..now };
            assert_eq!(looks([now; 4]), [Look::Off, Look::Off, Look::Spare, Look::Spare]);
            assert_eq!(looks([now, now, others, others]), [Look::Off; 4], "it begins anew");
        });
    }

    #[test]
    fn a_poll_that_is_taken_to_other_threads_runs_there() {
        checked(|| {
            let on = |thread| Seen { thread, ..Seen::default() };
            assert_eq!(looks([on(1), on(2), on(2), on(3)]), [Look::Off, Look::Off, Look::Off, Look::Spare]);
        });
    }

    #[test]
    fn a_group_that_had_nothing_to_do_saves_nothing_up() {
        checked(|| {
            let (turn, rounds) = (Turn::default(), Rounds::default());
            rounds.number.store(1_000_000, Ordering::Relaxed);
            assert!(turn.renew(5, 100, &rounds));
            assert!(turn.is_on(5 + 100 * QUANTUM - 1) && !turn.is_on(5 + 100 * QUANTUM));
        });
    }

    #[test]
    fn a_deficit_is_bounded() {
        checked(|| {
            let (turn, rounds) = (Turn::default(), Rounds::default());
            rounds.number.store(1, Ordering::Relaxed);
            let used = 100 * DEFICIT_MAX;
            assert!(!turn.renew(used, 100, &rounds));
            rounds.number.store(2 + DEFICIT_MAX / (100 * QUANTUM), Ordering::Relaxed);
            assert!(turn.renew(used, 100, &rounds));
        });
    }
}

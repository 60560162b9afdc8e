//! [`Upkeep`]: whether a thread brings the loan of a task up to date.
//!
//! The loan of a task follows from the waiters for its locks. Threads that change those waiters do
//! so at the same time, and a loan is read in one place and applied in another. If every thread
//! applied what it had read, the older of two values could be applied last and stay for good. One
//! thread at a time therefore reads and applies the loan of a task. A thread that finds another one
//! at work leaves a note, and the other one reads again. No lock is held meanwhile.
//!
//! ```text
//!               begin [1]            begin, by another thread [2]
//!     Rest ------------------> Busy ------------------------------> Stale
//!          <------------------      <------------------------------
//!               end [3]              end: read and apply again [4]
//! ```

/// Whether a thread brings the loan of a task up to date.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Upkeep {
    #[default]
    Rest,
    Busy,
    Stale,
}

impl Upkeep {
    /// Returns whether the caller has to do the work; if not, the thread that does it now repeats
    /// it.
    pub(crate) fn begin(&mut self) -> bool {
        let is_free = *self == Self::Rest;
        *self = if is_free { Self::Busy } else { Self::Stale }; // [1], [2]
        is_free
    }

    /// Returns whether the work is done; if not, the caller has to repeat it.
    pub(crate) fn end(&mut self) -> bool {
        assert!(*self != Self::Rest, "invariant: `end` follows `begin`");
        let is_done = *self == Self::Busy;
        *self = if is_done { Self::Rest } else { Self::Busy }; // [3], [4]
        is_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that changes a value and brings a copy of it up to date, step by step.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum At {
        Change,
        Begin,
        Read,
        Apply(u32),
        End,
        Done,
    }

    #[derive(Clone, Copy)]
    struct World {
        threads: [At; 3],
        upkeep: Upkeep,
        value: u32,
        applied: u32,
    }

    impl World {
        fn step(&mut self, index: usize) {
            self.threads[index] = match self.threads[index] {
                At::Change => {
                    self.value += 1;
                    At::Begin
                }
                At::Begin if self.upkeep.begin() => At::Read,
                At::Begin | At::Done => At::Done,
                At::Read => At::Apply(self.value),
                At::Apply(value) => {
                    self.applied = value;
                    At::End
                }
                At::End if self.upkeep.end() => At::Done,
                At::End => At::Read,
            };
        }

        /// Takes every order of the remaining steps; returns how many there are.
        fn explore(self) -> u32 {
            let live: Vec<_> = (0..self.threads.len()).filter(|index| self.threads[*index] != At::Done).collect();
            if live.is_empty() {
                assert_eq!((self.applied, self.upkeep), (self.value, Upkeep::Rest));
                return 1;
            }
            let follow = |index| {
                let mut next = self;
                next.step(index);
                next.explore()
            };
            live.into_iter().map(follow).sum()
        }
    }

    #[test]
    fn the_last_value_is_the_one_that_stays() {
        let world = World { threads: [At::Change; 3], upkeep: Upkeep::Rest, value: 0, applied: 0 };
        let orders = world.explore();
        assert!(orders > 1_000, "{orders} orders");
    }
}

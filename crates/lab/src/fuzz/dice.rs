//! [`Dice`]: the random numbers of a scenario.

/// splitmix64 (Steele, Lea & Flood 2014).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Starts the numbers of one scenario of a seed.
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let mut dice = Self(seed);
        Self(dice.next() ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Starts the numbers that follow a state.
    #[must_use]
    pub const fn from_state(state: u64) -> Self {
        Self(state)
    }

    /// Returns a number of `low..=high`; `low` is at most `high`.
    pub fn of(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// Returns true once in `of` times.
    pub fn once_in(&mut self, of: u64) -> bool {
        self.next().is_multiple_of(of)
    }

    /// Returns one of these.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.of(0, of.len() as u64 - 1) as usize]
    }
}

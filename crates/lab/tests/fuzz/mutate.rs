//! Damaged copies of valid inputs.

/// Makes inputs out of a corpus.
pub(crate) struct Mutator<'c> {
    state: u64,
    corpus: &'c [Vec<u8>],
    words: Vec<Vec<u8>>,
}

/// Values at which readers tend to have bugs.
const EDGES: [&str; 24] = [
    "0",
    "-1",
    "1",
    "127",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1e999",
    "0.5",
    "nan",
    "\"\"",
    "null",
    "true",
    "{}",
    "[]",
    "\"10y\"",
    "\"0ns\"",
    "\"3650d\"",
    "\u{feff}",
    "\u{1f980}",
    "\0",
];

impl<'c> Mutator<'c> {
    pub(crate) fn new(seed: u64, corpus: &'c [Vec<u8>]) -> Self {
        let mut words: Vec<Vec<u8>> = EDGES.iter().map(|edge| edge.as_bytes().to_vec()).collect();
        for input in corpus {
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.\"".contains(byte);
            words.extend(
                input.split(|byte| !is_word(byte)).filter(|word| (2..40).contains(&word.len())).map(<[u8]>::to_vec),
            );
        }
        words.sort();
        words.dedup();
        Self { state: seed, corpus, words }
    }

    /// splitmix64 (Steele, Lea, Flood 2014).
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number below `n`, which is above zero.
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.draw() % n as u64).expect("invariant: below a usize")
    }

    /// Returns the next input.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let at = self.below(self.corpus.len());
        let mut input = self.corpus[at].clone();
        for _ in 0..=self.below(4) {
            self.damage(&mut input);
        }
        input
    }

    fn damage(&mut self, input: &mut Vec<u8>) {
        if input.is_empty() {
            return;
        }
        let at = self.below(input.len());
        let upto = (at + 1 + self.below(40)).min(input.len());
        match self.below(9) {
            0 => input[at] ^= 1 << self.below(8),
            1 => input[at] = self.draw() as u8,
            2 => input.truncate(at),
            3 => drop(input.drain(at..upto)),
            4 => {
                let copy = input[at..upto].to_vec();
                input.splice(at..at, copy);
            }
            5 | 6 => {
                let word = self.below(self.words.len());
                input.splice(at..at, self.words[word].iter().copied());
            }
            7 => {
                // Replaces one word by another.
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
                let from = input[..at].iter().rposition(|byte| !is_word(byte)).map_or(0, |before| before + 1);
                let upto = input[at..].iter().position(|byte| !is_word(byte)).map_or(input.len(), |length| at + length);
                let word = self.below(self.words.len());
                input.splice(from..upto.max(from), self.words[word].iter().copied());
            }
            _ => {
                let other = self.below(self.corpus.len());
                let other = &self.corpus[other];
                let tail = other[(at * other.len() / input.len()).min(other.len())..].to_vec();
                input.truncate(at);
                input.extend(tail);
            }
        }
    }
}

//! [`Release`]: a release of the kernel, and [`Change`]: a release and the commit in it.

use core::fmt;

/// A release of Linus Torvalds' kernel: `6.13`, and before 3.0 three numbers, `2.6.25`. Releases
/// are in the order of their numbers, which is the order of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Release {
    major: u16,
    minor: u16,
    /// The third number before 3.0; zero since.
    third: u16,
}

impl Release {
    /// Returns the release of a text of two numbers, or three before 3.0.
    ///
    /// # Panics
    /// The text is not of that form. Releases in code are constants, so that is found when it is
    /// compiled.
    #[must_use]
    pub const fn new(text: &str) -> Self {
        match Self::read(text.as_bytes()) {
            Some(release) => release,
            None => panic!("a release is two numbers, or three before 3.0"),
        }
    }

    /// Returns the release of a text of two numbers, or three before 3.0, and nothing else.
    #[must_use]
    pub const fn from_name(text: &str) -> Option<Self> {
        Self::read(text.as_bytes())
    }

    const fn read(text: &[u8]) -> Option<Self> {
        let mut numbers = [0_u16; 3];
        let (mut count, mut at, mut has_digit) = (0, 0, false);
        while at < text.len() {
            match text[at] {
                digit @ b'0'..=b'9' if numbers[count] < 1_000 => {
                    numbers[count] = numbers[count] * 10 + (digit - b'0') as u16;
                    has_digit = true;
                }
                b'.' if has_digit && count < 2 => (count, has_digit) = (count + 1, false),
                _ => return None,
            }
            at += 1;
        }
        let [major, minor, third] = numbers;
        let numbers = if major < 3 { 3 } else { 2 };
        if has_digit && count + 1 == numbers { Some(Self { major, minor, third }) } else { None }
    }

    /// Returns the release of up to three numbers; the third counts before 3.0.
    pub(super) const fn of_numbers([major, minor, third]: [u16; 3]) -> Self {
        Self { major, minor, third: if major < 3 { third } else { 0 } }
    }

    /// Returns whether stable releases are `6.12.85`, not `2.6.32.27`.
    pub(super) const fn has_stable_numbers(self) -> bool {
        self.major >= 3
    }

    /// Returns whether this release is not later than another; `<=` for constants.
    pub(super) const fn is_until(self, other: Self) -> bool {
        self.packed() <= other.packed()
    }

    const fn packed(self) -> u64 {
        (self.major as u64) << 32 | (self.minor as u64) << 16 | self.third as u64
    }

    /// Returns the last release of the same first number, if the first number has changed since:
    /// 6.19 was followed by 7.0.
    pub(super) const fn last_of_major(self) -> Option<Self> {
        match self.major {
            2 => Some(Self { major: 2, minor: 6, third: 39 }),
            3 => Some(Self { major: 3, minor: 19, third: 0 }),
            4 => Some(Self { major: 4, minor: 20, third: 0 }),
            5 => Some(Self { major: 5, minor: 19, third: 0 }),
            6 => Some(Self { major: 6, minor: 19, third: 0 }),
            _ => None,
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.major {
            ..3 => f.pad(&alloc::format!("{}.{}.{}", self.major, self.minor, self.third)),
            3.. => f.pad(&alloc::format!("{}.{}", self.major, self.minor)),
        }
    }
}

/// A change of the scheduler: the release that had it first, and its commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The release.
    pub release: Release,
    /// The first twelve digits of the commit, if one is known. A backport is found by it.
    pub commit: Option<&'static str>,
}

impl Change {
    /// Returns the change of a commit.
    ///
    /// # Panics
    /// `release` is no release, or `commit` is not twelve hexadecimal digits.
    #[must_use]
    pub const fn by(release: &str, commit: &'static str) -> Self {
        assert!(commit.len() == 12, "a commit is twelve digits");
        let mut at = 0;
        while at < commit.len() {
            assert!(matches!(commit.as_bytes()[at], b'0'..=b'9' | b'a'..=b'f'), "a commit is hexadecimal");
            at += 1;
        }
        Self { release: Release::new(release), commit: Some(commit) }
    }

    /// Returns the change of a release whose commit is not known, or is not one.
    ///
    /// # Panics
    /// `release` is no release.
    #[must_use]
    pub const fn with(release: &str) -> Self {
        Self { release: Release::new(release), commit: None }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.commit {
            Some(commit) => write!(f, "{} ({commit})", self.release),
            None => fmt::Display::fmt(&self.release, f),
        }
    }
}

//! [`Lineage`]: the changes that stable releases and distributions took from later releases.
//!
//! A backport is named by its commit. The rows of the settings (`table.rs`) say which release had
//! the commit first and what it changes, so that is not said here once more. One commit can change
//! several rows.
//!
//! A series as a whole (`6.12`) is not its last stable release: its presets are what schedules are
//! compared with, so some recent backports are left out of them ([`Taken::NotInSeries`]), and some
//! are in them without being in a release that was read ([`Taken::SeriesOnly`]).

use super::release::Release;

/// The backports of a series, or of the kernels of a distribution.
#[derive(Debug)]
pub(super) struct Lineage {
    base: Release,
    of: BackportsOf,
    backports: &'static [Backport],
}

/// Whose backports they are, and how far they were read.
#[derive(Debug)]
enum BackportsOf {
    /// A series of kernel.org; the last stable release that was read.
    Stable { read: u16 },
    /// A major release of RHEL; the minor release that was read.
    Rhel { major: u16, read: u16 },
}

/// A change that a kernel took from a later release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backport {
    /// The commit of the change.
    pub commit: &'static str,
    /// Since when.
    pub taken: Taken,
}

/// Since when kernels have a backport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// Since this stable release, or minor release of a distribution.
    Since(u16),
    /// It was read in this one. Earlier ones were not read, and count as without.
    By(u16),
    /// Since this stable release; the series as a whole, a preset, is without.
    NotInSeries(u16),
    /// No release is known to have it, but the series as a whole has it.
    SeriesOnly,
}

impl Taken {
    /// Returns whether the series as a whole has it.
    #[must_use]
    pub const fn is_in_series(self) -> bool {
        match self {
            Self::Since(_) | Self::By(_) | Self::SeriesOnly => true,
            Self::NotInSeries(_) => false,
        }
    }
}

const fn since(patch: u16, commit: &'static str) -> Backport {
    Backport { commit, taken: Taken::Since(patch) }
}

const fn by(patch: u16, commit: &'static str) -> Backport {
    Backport { commit, taken: Taken::By(patch) }
}

const fn not_in_series(patch: u16, commit: &'static str) -> Backport {
    Backport { commit, taken: Taken::NotInSeries(patch) }
}

const fn series_only(commit: &'static str) -> Backport {
    Backport { commit, taken: Taken::SeriesOnly }
}

const fn stable(base: &str, read: u16, backports: &'static [Backport]) -> Lineage {
    Lineage { base: Release::new(base), of: BackportsOf::Stable { read }, backports }
}

const fn rhel(base: &str, (major, read): (u16, u16), backports: &'static [Backport]) -> Lineage {
    Lineage { base: Release::new(base), of: BackportsOf::Rhel { major, read }, backports }
}

/// All lists, the oldest base first.
const LINEAGES: &[Lineage] = &[
    stable(
        "4.4",
        121,
        &[by(121, "4bdced5c9a29"), by(121, "5ac69d37784b"), by(121, "df8eac8cafce"), by(121, "3effcb4247e7")],
    ),
    stable(
        "4.9",
        337,
        &[by(337, "4bdced5c9a29"), by(337, "5ac69d37784b"), by(337, "df8eac8cafce"), by(337, "3effcb4247e7")],
    ),
    stable("4.14", 325, &[by(325, "4bdced5c9a29"), by(325, "de53fd7aedb1"), since(263, "9b58e976b3b3")]),
    rhel(
        "4.18",
        (8, 8),
        &[
            by(8, "de53fd7aedb1"),
            by(8, "9b58e976b3b3"),
            by(8, "2586af1ac187"),
            by(8, "89aafd67f28c"),
            by(8, "70fb5ccf2ebb"),
        ],
    ),
    stable("4.19", 255, &[by(222, "de53fd7aedb1"), since(226, "9b58e976b3b3")]),
    stable("5.4", 286, &[since(174, "9b58e976b3b3"), by(286, "0c18f2ecfcc2"), by(286, "2586af1ac187")]),
    stable(
        "5.10",
        262,
        &[
            since(94, "9b58e976b3b3"),
            since(50, "0c18f2ecfcc2"),
            since(163, "48d5e9daa8b7"),
            not_in_series(252, "94894c9c477e"),
            not_in_series(261, "dd29c017aed6"),
        ],
    ),
    rhel(
        "5.14",
        (9, 3),
        &[
            by(3, "9b58e976b3b3"),
            by(3, "70fb5ccf2ebb"),
            by(3, "c5b0a7eefc70"),
            by(3, "89aafd67f28c"),
            by(3, "48d5e9daa8b7"),
            by(3, "4a74e418881f"),
            by(3, "49a17639508c"),
        ],
    ),
    stable(
        "5.15",
        215,
        &[
            since(17, "9b58e976b3b3"),
            by(148, "70fb5ccf2ebb"),
            by(148, "48d5e9daa8b7"),
            by(215, "49217ea147df"),
            not_in_series(215, "94894c9c477e"),
            not_in_series(215, "dd29c017aed6"),
        ],
    ),
    stable(
        "6.1",
        176,
        &[
            by(176, "48d5e9daa8b7"),
            since(42, "ae2ad293d6be"),
            since(93, "49217ea147df"),
            not_in_series(160, "33cf66d88306"),
            not_in_series(165, "94894c9c477e"),
        ],
    ),
    stable("6.6", 87, &[since(32, "49217ea147df"), not_in_series(120, "33cf66d88306")]),
    stable("6.8", 1, &[series_only("49217ea147df")]),
    stable(
        "6.12",
        118,
        &[
            since(7, "c1f43c342e1f"),
            since(13, "2a77e4be12cb"),
            since(39, "fc975cfb3639"),
            since(43, "155213a2aed4"),
            since(31, "2ae891b82695"),
            since(63, "79104becf42b"),
            since(64, "d206fbad9328"),
            not_in_series(65, "33cf66d88306"),
            since(69, "115135422562"),
            not_in_series(75, "94894c9c477e"),
            since(83, "14a857056466"),
            since(92, "cccb45d7c429"),
            not_in_series(96, "dd29c017aed6"),
            since(103, "1842bf97af10"),
        ],
    ),
    stable(
        "6.18",
        15,
        &[
            since(3, "d206fbad9328"),
            not_in_series(5, "33cf66d88306"),
            not_in_series(15, "94894c9c477e"),
            since(9, "115135422562"),
            since(24, "14a857056466"),
            by(44, "1842bf97af10"),
            by(33, "ac8e69e69363"),
        ],
    ),
    stable("6.19", 0, &[since(14, "14a857056466"), series_only("1842bf97af10")]),
    stable("7.0", 0, &[series_only("1842bf97af10"), since(10, "ac8e69e69363")]),
    stable("7.1", 13, &[by(8, "1842bf97af10"), by(13, "dd29c017aed6")]),
    stable("7.2", 13, &[since(13, "50b101f6e586")]),
];

impl Lineage {
    /// Returns all lists, the oldest base first.
    pub(super) fn all() -> impl Iterator<Item = &'static Self> {
        LINEAGES.iter()
    }

    /// Returns the list of a series: that of kernel.org, or of the distribution that has taken the
    /// number over.
    pub(super) fn of_series(base: Release) -> Option<&'static Self> {
        LINEAGES.iter().find(|list| list.base == base)
    }

    /// Returns the list of the stable releases of a series.
    pub(super) fn of_stable(base: Release) -> Option<&'static Self> {
        LINEAGES.iter().find(|list| list.base == base && matches!(list.of, BackportsOf::Stable { .. }))
    }

    /// Returns the list of a major release of RHEL.
    pub(super) fn of_rhel(wanted: u16) -> Option<&'static Self> {
        LINEAGES.iter().find(|list| matches!(list.of, BackportsOf::Rhel { major, .. } if major == wanted))
    }

    /// Returns the major releases of RHEL, and the minor release of each that was read.
    pub(super) fn all_rhel() -> impl Iterator<Item = (u16, u16)> {
        LINEAGES.iter().filter_map(Self::rhel_read)
    }

    /// Returns the major and minor release that a kernel of RHEL names at the end of its release
    /// (`-362.8.1.el9_3.x86_64`), if these are its backports.
    pub(super) fn rhel_of(&self, rest: &str) -> Option<(u16, u16)> {
        let BackportsOf::Rhel { major, .. } = self.of else { return None };
        let (named, minor) = rest.split_once(".el")?.1.split_once('_')?;
        let minor = &minor[..minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len())];
        (named.parse() == Ok(major)).then_some(())?;
        Some((major, minor.parse().ok()?))
    }

    /// Returns the last stable release that was read, if it is a series of kernel.org.
    pub(super) const fn stable_read(&self) -> Option<u16> {
        match self.of {
            BackportsOf::Stable { read } => Some(read),
            BackportsOf::Rhel { .. } => None,
        }
    }

    /// Returns the major release of RHEL and the minor one that was read, if it is RHEL's.
    pub(super) const fn rhel_read(&self) -> Option<(u16, u16)> {
        match self.of {
            BackportsOf::Rhel { major, read } => Some((major, read)),
            BackportsOf::Stable { .. } => None,
        }
    }

    /// Returns the release that they are added to.
    pub(super) const fn base(&self) -> Release {
        self.base
    }

    /// Returns the backports.
    pub(super) const fn backports(&self) -> &'static [Backport] {
        self.backports
    }
}

//! [`Format`]: the formats that are read, by name.
//!
//! An error of a reader names all formats, and the module that chooses a reader (`open`) names all
//! readers. With the names beside the readers each reader used the module that chooses among them,
//! and 16 of the modules of this crate could only be read together. So the names are here, below
//! the errors; the readers of the formats are in `open`, by exhaustive matches.

/// A format that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Zlt,
    #[cfg(feature = "recordings")]
    PerfData,
    #[cfg(feature = "recordings")]
    TraceDat,
    /// An archive of SchedViz.
    #[cfg(feature = "recordings")]
    SchedViz,
    /// A page of systrace.
    Page,
    Text,
    #[cfg(feature = "recordings")]
    Perfetto,
}

impl Format {
    /// All formats, in the order in which they are tried. Perfetto's has no first bytes of its own,
    /// so it is tried last.
    pub(crate) const ALL: &[Self] = &[
        Self::Zlt,
        #[cfg(feature = "recordings")]
        Self::PerfData,
        #[cfg(feature = "recordings")]
        Self::TraceDat,
        #[cfg(feature = "recordings")]
        Self::SchedViz,
        Self::Page,
        Self::Text,
        #[cfg(feature = "recordings")]
        Self::Perfetto,
    ];

    /// Returns its name in sentences.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Zlt => "zerolag's own (.zlt)",
            #[cfg(feature = "recordings")]
            Self::PerfData => "perf.data",
            #[cfg(feature = "recordings")]
            Self::TraceDat => "trace.dat of trace-cmd",
            #[cfg(feature = "recordings")]
            Self::SchedViz => "archives of SchedViz",
            Self::Page => "systrace (HTML)",
            Self::Text => "the text of tracefs, perf script and trace-cmd report",
            #[cfg(feature = "recordings")]
            Self::Perfetto => "Perfetto",
        }
    }
}

/// Returns the names of all formats that are read.
pub(crate) fn known() -> String {
    Format::ALL.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
}

/// The advice of a program that was built without the readers of recordings.
#[cfg(not(feature = "recordings"))]
pub(crate) const WITHOUT_RECORDINGS: &str =
    "this program was built without its reader: the feature `recordings` of zerolag-trace";

//! What is approximate about a kernel: [`KernelVersion::remarks`].

use super::backports::{Lineage, Taken};
use super::{Change, FairBalance, KernelVersion, Settings};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Since this release groups of CPUs are compared by kinds. No kernel has the rules of before.
const BY_KINDS: Change = Change::by("5.5", "0b0695f2b34a");

impl KernelVersion {
    /// Returns what is approximate about the settings of this kernel, a sentence each; nothing if
    /// all that is known of it is in its settings.
    #[must_use]
    pub fn remarks(self) -> Vec<String> {
        let mut remarks = Vec::new();
        remarks.extend(self.between());
        match (self.lineage(), self.patch(), self.rhel_minor()) {
            (None, Some(1..), _) => {
                remarks.push(format!(
                    "the backports of {} are not known: its rows are those of the release",
                    self.release()
                ));
            }
            (None, None, _) if !self.is_preset() => {
                remarks.push("its stable releases' backports are not known".to_string());
            }
            (None, _, _) => {}
            (Some(list), Some(patch), _) => of_stable(list, patch, &mut remarks),
            (Some(list), None, Some(minor)) => of_rhel(list, minor, &mut remarks),
            (Some(list), None, None) => of_series(list, &mut remarks),
        }
        if self.settings().fair_balance == FairBalance::Kinds && self.release() < BY_KINDS.release && !self.is_of_rhel()
        {
            remarks.push(format!("fair tasks are balanced as since {BY_KINDS}"));
        }
        remarks
    }

    /// Returns between which presets the release is, if it is not that of one.
    fn between(self) -> Option<String> {
        let release = self.release();
        if Self::ALL.iter().any(|preset| preset.release() == release) {
            return None;
        }
        let next = Self::ALL.iter().find(|preset| preset.release() > release)?;
        Some(format!("between the presets {} and {next}; every row is known by release", self.preset()))
    }

    fn is_of_rhel(self) -> bool {
        self.lineage().is_some_and(|list| list.rhel_read().is_some())
    }
}

/// Adds what is not known of a stable release.
fn of_stable(list: &Lineage, patch: u16, remarks: &mut Vec<String>) {
    for (read, settings) in grouped(list, |taken| match taken {
        Taken::By(read) if patch < read => Some(read),
        Taken::By(_) | Taken::Since(_) | Taken::NotInSeries(_) | Taken::SeriesOnly => None,
    }) {
        remarks.push(format!("backports before {}.{read} are not known: without that of {settings}", list.base()));
    }
    let only: Vec<String> =
        grouped(list, |taken| (taken == Taken::SeriesOnly).then_some(0)).map(|(_, text)| text).collect();
    if !only.is_empty() {
        remarks.push(format!("later backports are not known by release: without that of {}", only.join(", ")));
    }
    if let Some(read) = list.stable_read().filter(|read| patch > *read) {
        remarks.push(format!("backports after {}.{read} are not known", list.base()));
    }
}

/// Adds what is not known of a minor release of RHEL.
fn of_rhel(list: &Lineage, minor: u16, remarks: &mut Vec<String>) {
    let Some((major, read)) = list.rhel_read() else { return };
    if minor != read {
        remarks.push(format!("the backports are those of rhel-{major}.{read}, which was read"));
    }
}

/// Adds which backports a series as a whole has not.
fn of_series(list: &Lineage, remarks: &mut Vec<String>) {
    for (since, settings) in grouped(list, |taken| match taken {
        Taken::NotInSeries(since) => Some(since),
        Taken::By(_) | Taken::Since(_) | Taken::SeriesOnly => None,
    }) {
        remarks.push(format!("without the backport of {settings}, which {}.{since} has", list.base()));
    }
    for (_, settings) in grouped(list, |taken| (taken == Taken::SeriesOnly).then_some(0)) {
        remarks.push(format!("with {settings}, which no stable release is known to have"));
    }
    if let Some((major, read)) = list.rhel_read() {
        remarks.push(format!("the kernel of rhel-{major}.{read}, not that of kernel.org"));
    }
}

/// Returns the backports of a list that are wanted: the number that they are wanted for, and the
/// settings with the release and commit that changed them.
fn grouped<'a>(
    list: &'a Lineage,
    wanted: impl Fn(Taken) -> Option<u16> + 'a,
) -> impl Iterator<Item = (u16, String)> + 'a {
    list.backports().iter().filter_map(move |one| Some((wanted(one.taken)?, changed_by(one.commit)?)))
}

/// Returns the settings that a commit changes, and the release that had it first.
fn changed_by(commit: &str) -> Option<String> {
    let change = Settings::change(commit)?;
    let names: Vec<&str> = Settings::changed_by(commit).map(|setting| setting.name).collect();
    Some(format!("{} ({commit} of {})", names.join(", "), change.release))
}

//! Groups that are created and removed: `from` and `until` of a group, `create` and `remove` of a
//! `[[change]]`.
//!
//! All times of changes are known, so changes that are certain to fail are refused here: a group
//! that is created while it exists, removed or limited while it does not, or created below one that
//! does not exist. Actions of tasks (a phase that joins a group) are not checked.

use super::ScenarioReader;
use super::table::Table;
use super::tree::Value;
use crate::change::Change;
use crate::diagnostic::{Diagnostic, Span};
use zerolag_model::Duration;

/// An operation on a group at a time, and its position in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deed {
    at: Duration,
    group: usize,
    what: GroupDeed,
    span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GroupDeed {
    Create,
    Remove,
    /// Its limit or weight is set, or a task moves there.
    Use,
}

/// The state of a group during the walk through time.
#[derive(Clone, Copy, Debug)]
struct GroupLife {
    is_there: bool,
    /// The time and position of its last creation or removal.
    last: Option<(Duration, Span)>,
}

impl ScenarioReader<'_> {
    /// Notes that a group is created.
    pub(super) fn create_group(&mut self, group: usize, at: Duration, span: Span) {
        self.deeds.push(Deed { at, group, what: GroupDeed::Create, span });
        self.assembly.program.change(at, Change::Create { group });
    }

    /// Notes that a group is removed.
    pub(super) fn remove_group(&mut self, group: usize, at: Duration, span: Span) {
        self.deeds.push(Deed { at, group, what: GroupDeed::Remove, span });
        self.assembly.program.change(at, Change::Remove { group });
    }

    /// Notes that a group must exist at a time.
    pub(super) fn use_group(&mut self, group: usize, at: Duration, span: Span) {
        self.deeds.push(Deed { at, group, what: GroupDeed::Use, span });
    }

    /// Reads `create` and `remove` of a change of a group; returns whether there was one.
    pub(super) fn coming_and_going(&mut self, group: usize, at: Duration, table: &Table<'_, '_>) -> bool {
        let said = ["create", "remove"].map(|key| table.get(key).is_some_and(|entry| self.said_true(key, entry.item)));
        match said {
            [true, true] => self.report.error(table.span, "a change both creates and removes a group"),
            [true, false] => self.create_group(group, at, table.span),
            [false, true] => self.remove_group(group, at, table.span),
            [false, false] => {}
        }
        ["create", "remove"].iter().any(|key| table.get(key).is_some())
    }

    /// Reads a key that is `true` or absent.
    pub(super) fn said_true(&mut self, key: &str, item: super::table::Item<'_, '_>) -> bool {
        match item.get_ref() {
            Value::Boolean(true) => true,
            other => {
                let kind = super::table::kind(other);
                self.report.error(super::table::span(item), format!("`{key}` is true or left out, not {kind}"));
                false
            }
        }
    }

    /// Checks all operations on groups, in order of time.
    pub(super) fn check_lives(&mut self) {
        let mut deeds = std::mem::take(&mut self.deeds);
        deeds.sort_by_key(|deed| deed.at);
        let program = &self.assembly.program;
        let begin = |group| GroupLife { is_there: !program.comes_later(group), last: None };
        let mut seen: Vec<GroupLife> = (0..program.groups.len()).map(begin).collect();
        for Deed { at, group, what, span } in deeds {
            let path = &program.groups[group].path;
            let GroupLife { is_there, last } = seen[group];
            let when = last.map_or(String::new(), |(when, _)| format!(" (since {when})"));
            let parent_is_there = program.groups[group].parent.is_none_or(|parent| seen[parent].is_there);
            let wrong = match what {
                GroupDeed::Create if is_there => Some(format!("group `{path}` already exists at {at}{when}")),
                GroupDeed::Create if !parent_is_there => {
                    Some(format!("the group above `{path}` does not exist at {at}"))
                }
                GroupDeed::Create if last.is_some_and(|(gone, _)| gone == at) => Some(format!(
                    "group `{path}` is created at the moment at which it is removed, {at}: its tasks need time to end"
                )),
                GroupDeed::Remove | GroupDeed::Use if !is_there => {
                    Some(format!("group `{path}` does not exist at {at}{when}"))
                }
                GroupDeed::Create | GroupDeed::Remove | GroupDeed::Use => None,
            };
            if let Some(message) = wrong {
                let diagnostic = Diagnostic::error(span, message);
                self.report.push(match last {
                    Some((_, there)) => diagnostic.label(there, "here"),
                    None => diagnostic,
                });
                continue;
            }
            if what == GroupDeed::Use {
                continue;
            }
            for below in (0..program.groups.len()).filter(|below| program.is_within(*below, group)) {
                // A group below it with its own creation waits for that.
                if what == GroupDeed::Remove || program.comes_with(below) == Some(group) {
                    seen[below] = GroupLife { is_there: what == GroupDeed::Create, last: Some((at, span)) };
                }
            }
        }
    }
}

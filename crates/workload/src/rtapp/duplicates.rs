//! The meaning of duplicate keys: [`DuplicatePolicy`].
//!
//! rt-app's own examples write `"run"` twice in one object. Two programs interpret that, and they
//! differ: `doc/workgen` renames the second key (`run1`), so that every event survives; rt-app
//! itself, through json-c, keeps the *first* position and the *last* value, so that one event is
//! lost. The default is the author's intent. Every duplicate is reported with both positions.
//!
//! Cost: O(members log members) per object.

use super::json::{Member, Node, Value, has_duplicates};
use crate::diagnostic::{Diagnostic, Report, Severity, Span};
use core::fmt;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The meaning of duplicate keys in rt-app files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DuplicatePolicy {
    /// As `doc/workgen`: the second `run` becomes `run1`, and all are executed.
    #[default]
    Workgen,
    /// As rt-app alone: the last value, at the position of the first key.
    JsonC,
    /// They are errors.
    Error,
}

impl DuplicatePolicy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Workgen, Self::JsonC, Self::Error];

    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workgen => "workgen",
            Self::JsonC => "json-c",
            Self::Error => "error",
        }
    }

    /// Returns the policy of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

impl fmt::Display for DuplicatePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Resolves the duplicate keys of every object. Recurses into values, whose depth the parser
/// limits.
pub(super) fn resolve(node: &mut Node<'_>, policy: DuplicatePolicy, report: &mut Report) {
    match &mut node.value {
        Value::Object(members) => {
            if has_duplicates(members) {
                match policy {
                    DuplicatePolicy::Workgen | DuplicatePolicy::Error => rename(members, policy, report),
                    DuplicatePolicy::JsonC => replace(members, report),
                }
            }
            for member in members {
                resolve(&mut member.node, policy, report);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| resolve(item, policy, report)),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float | Value::String(_) | Value::Missing => {}
    }
}

/// Renames every second and later `key` to `key1`, `key2`...
fn rename(members: &mut [Member<'_>], policy: DuplicatePolicy, report: &mut Report) {
    let mut seen: BTreeMap<String, (Span, u64)> = BTreeMap::new();
    for member in members {
        let Some((first, mut count)) = seen.get(&*member.key).copied() else {
            seen.insert(member.key.to_string(), (member.key_span, 0));
            continue;
        };
        let new = loop {
            count += 1;
            let candidate = format!("{}{count}", member.key);
            if !seen.contains_key(&candidate) {
                break candidate;
            }
        };
        let message = format!("duplicate key \"{}\"", member.key);
        report.push(match policy {
            DuplicatePolicy::Error => {
                duplicate(Severity::Error, message, member.key_span, first).help(format!("write \"{new}\""))
            }
            DuplicatePolicy::Workgen | DuplicatePolicy::JsonC => duplicate(
                Severity::Warning,
                message,
                member.key_span,
                first,
            )
            .help(format!(
                "read as \"{new}\", as doc/workgen does; rt-app alone would put this value in the place of the first"
            )),
        });
        seen.insert(member.key.to_string(), (first, count));
        seen.insert(new.clone(), (member.key_span, 0));
        member.key = Cow::Owned(new);
        member.renamed = true;
    }
}

/// Puts the value of every later duplicate at the position of the first.
fn replace(members: &mut Box<[Member<'_>]>, report: &mut Report) {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut kept: Vec<Member<'_>> = Vec::with_capacity(members.len());
    for member in core::mem::take(members) {
        let Some(place) = places.get(&*member.key).copied() else {
            places.insert(member.key.to_string(), kept.len());
            kept.push(member);
            continue;
        };
        let message = format!("duplicate key \"{}\"", member.key);
        let diagnostic = duplicate(Severity::Warning, message, member.key_span, kept[place].key_span);
        report.push(
            diagnostic.help("this value takes the place of the first, as in rt-app; doc/workgen would keep both"),
        );
        kept[place].node = member.node;
    }
    *members = kept.into_boxed_slice();
}

fn duplicate(severity: Severity, message: String, here: Span, first: Span) -> Diagnostic {
    Diagnostic::new(severity, message).at(here).label(first, "first here")
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;
    use crate::diagnostic::Source;

    fn keys(text: &str, policy: DuplicatePolicy) -> (Vec<String>, String) {
        let mut report = Report::default();
        let mut node = json::parse(text, &mut report).expect("parses").root;
        resolve(&mut node, policy, &mut report);
        let Value::Object(members) = node.value else { panic!("an object") };
        let keys = members.iter().map(|member| match member.node.value {
            Value::Int(Some(value)) => format!("{}={value}", member.key),
            _ => panic!("whole numbers"),
        });
        (keys.collect(), report.finish(Source::new("f", text)).to_string())
    }

    const TEXT: &str = r#"{"run":1,"sleep":2,"run":3,"run1":4,"run":5}"#;

    #[test]
    fn workgen_keeps_all_under_new_names() {
        let (keys, said) = keys(TEXT, DuplicatePolicy::Workgen);
        assert_eq!(keys, ["run=1", "sleep=2", "run1=3", "run11=4", "run2=5"]);
        assert!(
            said.starts_with("f:1:20: warning: duplicate key \"run\"\n  f:1:2: first here\n  help: read as \"run1\"")
        );
    }

    #[test]
    fn json_c_keeps_the_first_place_and_the_last_value() {
        let (keys, said) = keys(TEXT, DuplicatePolicy::JsonC);
        assert_eq!(keys, ["run=5", "sleep=2", "run1=4"]);
        assert_eq!(said.matches("warning").count(), 2);
    }

    #[test]
    fn error_refuses() {
        let (_, said) = keys(TEXT, DuplicatePolicy::Error);
        assert!(said.contains("f:1:20: error: duplicate key \"run\""), "{said}");
    }

    #[test]
    fn a_million_duplicates_are_fast() {
        let text = format!("{{{}}}", "\"run\":1,".repeat(1_000_000));
        let (keys, said) = keys(&text, DuplicatePolicy::Workgen);
        assert_eq!(keys.last().map(String::as_str), Some("run999999=1"));
        assert!(said.ends_with("and 999899 more warnings"), "{}", &said[said.len() - 60..]);
    }
}

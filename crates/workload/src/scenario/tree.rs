//! [`Node`]: TOML as a tree that borrows from the text, every value and key with its position,
//! members in the order of the text.
//!
//! Why not the tree of the crate `toml` (`DeTable`): on 8.9 MB of generated text it takes 172
//! instructions per byte (204 with members in the order of the text), ours 130, and 619 MB of
//! memory (459), ours 125. Most of its 0.9 CPU-seconds go into page faults; the whole reading,
//! checking and lowering takes 0.46 with our tree and would take twice that. A usual scenario of
//! 1.5 KB shows no difference. Price: about 500 lines in `build`; [`Node`] and [`Members`] would
//! stay, since readers need positions over several files. The figures are in `docs/lab/speed.md`.
//!
//! So the tree is built here from the events of `toml_parser`, the lexer and grammar on which
//! `toml` is built. The error messages are still those of `toml`, so nothing is lost: [`parse`]
//! only reports *that* the text is invalid, and then `toml` reads it again and returns all its
//! errors with their places. Tests compare the two on valid and on damaged texts.
//!
//! A valid text is parsed statement by statement, so that the tokens of only a few statements are
//! in memory.
//!
//! Cost: O(input); tables with many members are searched by hash. Source of the rules for tables
//! that are opened twice: TOML 1.1, *Table*, and the behaviour of `toml` 1.2.

mod build;
#[cfg(test)]
mod tests;

pub(crate) use build::parse;

use crate::diagnostic::Span;
use core::fmt;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A value and its position.
#[derive(Clone, Debug)]
pub(crate) struct Node<'i> {
    value: Value<'i>,
    span: Span,
}

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value<'i> {
    /// A string.
    String(Cow<'i, str>),
    /// A whole number, of any size.
    Integer(Integer<'i>),
    /// Any other number.
    Float(Float<'i>),
    /// `true`, `false`.
    Boolean(bool),
    /// A date, a time or both.
    Datetime,
    /// An array, written as one or as several tables of one name.
    Array(Vec<Node<'i>>),
    /// A table.
    Table(Members<'i>),
}

/// A whole number as written, without the prefix of its base.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Integer<'i> {
    digits: &'i str,
    radix: Radix,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Radix {
    Binary,
    Octal,
    Decimal,
    Hexadecimal,
}

/// A number with a fraction or an exponent, as written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Float<'i>(&'i str);

/// The members of a table.
#[derive(Clone, Debug)]
pub(crate) struct Members<'i> {
    members: Vec<Member<'i>>,
    origin: Origin,
    /// Its index in the builder's list of indices; 0 is none.
    index: u32,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) struct Member<'i> {
    pub(crate) key: Cow<'i, str>,
    pub(crate) key_span: Span,
    pub(crate) item: Node<'i>,
}

/// How a table was created, which decides whether it can be opened again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// `[a.b]`, or the file.
    Header,
    /// `a` of `[a.b]`.
    Implied,
    /// `a` of `a.b = 1`.
    Dotted,
    /// `{ }`.
    Inline,
    /// `a` of `{ a.b = 1 }`.
    InlineDotted,
}

impl<'i> Node<'i> {
    pub(crate) const fn get_ref(&self) -> &Value<'i> {
        &self.value
    }

    pub(crate) const fn get_mut(&mut self) -> &mut Value<'i> {
        &mut self.value
    }

    pub(crate) fn into_inner(self) -> Value<'i> {
        self.value
    }

    pub(crate) const fn span(&self) -> Span {
        self.span
    }
}

impl Integer<'_> {
    /// Returns the digits, without underscores.
    pub(crate) fn as_str(&self) -> Cow<'_, str> {
        plain(self.digits)
    }

    /// Returns the value, if it fits.
    pub(crate) fn value(&self) -> Option<i128> {
        i128::from_str_radix(&self.as_str(), self.radix.value()).ok()
    }
}

impl fmt::Display for Integer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.radix.prefix())?;
        f.write_str(&self.as_str())
    }
}

impl Radix {
    const ALL: [Self; 4] = [Self::Binary, Self::Octal, Self::Decimal, Self::Hexadecimal];

    const fn value(self) -> u32 {
        match self {
            Self::Binary => 2,
            Self::Octal => 8,
            Self::Decimal => 10,
            Self::Hexadecimal => 16,
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Binary => "0b",
            Self::Octal => "0o",
            Self::Decimal => "",
            Self::Hexadecimal => "0x",
        }
    }
}

impl Float<'_> {
    /// Returns the number without underscores.
    pub(crate) fn as_str(&self) -> Cow<'_, str> {
        plain(self.0)
    }
}

impl fmt::Display for Float<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_str())
    }
}

fn plain(number: &str) -> Cow<'_, str> {
    if number.contains('_') { number.replace('_', "").into() } else { number.into() }
}

impl<'i> Members<'i> {
    const fn new(origin: Origin) -> Self {
        Self { members: Vec::new(), origin, index: 0 }
    }

    /// Returns the members, in the order of the text.
    pub(crate) fn as_slice(&self) -> &[Member<'i>] {
        &self.members
    }

    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, Member<'i>> {
        self.members.iter_mut()
    }

    /// Returns the value of a key. O(members).
    pub(crate) fn get(&self, key: &str) -> Option<&Node<'i>> {
        self.find(key).map(|place| &self.members[place].item)
    }

    /// Returns the value of a key. O(members).
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Node<'i>> {
        self.find(key).map(|place| &mut self.members[place].item)
    }

    /// Removes a member and returns it. O(members).
    pub(crate) fn remove(&mut self, key: &str) -> Option<Member<'i>> {
        self.find(key).map(|place| self.members.remove(place))
    }

    /// Adds the members of `base` that are missing here, recursively in tables.
    pub(crate) fn merge(&mut self, base: Self) {
        let places: BTreeMap<Cow<'i, str>, usize> =
            self.members.iter().enumerate().map(|(place, member)| (member.key.clone(), place)).collect();
        for member in base.members {
            match places.get(&member.key) {
                None => self.members.push(member),
                Some(place) => {
                    let known = &mut self.members[*place].item.value;
                    if let (Value::Table(known), Value::Table(more)) = (known, member.item.value) {
                        known.merge(more);
                    }
                }
            }
        }
    }

    /// Sorts all members by position. The depth of tables is limited.
    fn sort(&mut self) {
        self.members.sort_by_key(|member| member.key_span);
        for member in &mut self.members {
            match &mut member.item.value {
                Value::Table(table) => table.sort(),
                Value::Array(items) => items.iter_mut().for_each(|item| {
                    if let Value::Table(table) = &mut item.value {
                        table.sort();
                    }
                }),
                _ => {}
            }
        }
    }

    fn find(&self, key: &str) -> Option<usize> {
        self.members.iter().position(|member| member.key == key)
    }
}

impl<'i> IntoIterator for Members<'i> {
    type Item = Member<'i>;
    type IntoIter = std::vec::IntoIter<Member<'i>>;

    fn into_iter(self) -> Self::IntoIter {
        self.members.into_iter()
    }
}

impl Default for Members<'_> {
    fn default() -> Self {
        Self::new(Origin::Header)
    }
}

/// The text is not TOML: `toml` can say why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wrong;

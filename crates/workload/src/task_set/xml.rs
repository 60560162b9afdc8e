//! What the readers of XML share: the tree with positions, and numbers in it.
//!
//! A document type is allowed, because Cheddar's older files begin with one; entities are expanded
//! ten deep and 255 at once at most, and nothing outside the file is read.

use super::{TaskSet, cheddar, simso};
use crate::diagnostic::{Report, Span};
use roxmltree::{Document, Node, ParsingOptions};

/// The most nodes of a file: attributes, elements and texts.
const NODES_MAX: u32 = 10_000_000;

/// Reads a file of SimSo or Cheddar.
pub(super) fn read(text: &str, report: &mut Report) -> TaskSet {
    let bare = text.trim_start_matches('\u{feff}').trim_start();
    let at = text.len() - bare.len();
    let options = ParsingOptions { allow_dtd: true, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = match Document::parse_with_options(bare, options) {
        Ok(document) => document,
        Err(error) => {
            let pos = error.pos();
            let line = bare.split_inclusive('\n').take(pos.row.saturating_sub(1) as usize).map(str::len).sum::<usize>();
            let column: usize = bare[line..].chars().take(pos.col.saturating_sub(1) as usize).map(char::len_utf8).sum();
            let reason = error.to_string();
            let reason = reason.rsplit_once(" at ").map_or(&*reason, |(reason, _)| reason);
            let place = at + line + column;
            report.error(Span::new(place..place), format!("this is not XML: {reason}"));
            return TaskSet::default();
        }
    };
    let root = Element { node: document.root_element(), at };
    match root.name() {
        "simulation" => simso::read(root, report),
        "cheddar" => cheddar::read(root, report),
        other => {
            report.error_help(
                root.span(),
                format!("<{other}> is no task set that is known"),
                "known are <simulation> of SimSo and <cheddar> of Cheddar",
            );
            TaskSet::default()
        }
    }
}

/// An element, and how far the text of the tree begins in that of the file.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    node: Node<'a, 'a>,
    at: usize,
}

impl<'a> Element<'a> {
    pub(super) fn name(self) -> &'a str {
        self.node.tag_name().name()
    }

    /// Returns the place of its start tag.
    pub(super) fn span(self) -> Span {
        let range = self.node.range();
        let text = &self.node.document().input_text()[range.clone()];
        let end = range.start + text.find('>').map_or(text.len(), |end| end + 1);
        Span::new(self.at + range.start..self.at + end)
    }

    /// Returns its elements.
    pub(super) fn elements(self) -> impl Iterator<Item = Self> {
        self.node.children().filter(Node::is_element).map(move |node| Self { node, at: self.at })
    }

    /// Returns its first element of a name.
    pub(super) fn element(self, name: &str) -> Option<Self> {
        self.elements().find(|element| element.name() == name)
    }

    /// Returns the elements within its element of a name.
    pub(super) fn within(self, name: &str) -> impl Iterator<Item = Self> {
        self.element(name).into_iter().flat_map(Self::elements)
    }

    /// Returns all elements of a name in it, at any depth.
    pub(super) fn all(self, name: &str) -> impl Iterator<Item = Self> {
        self.node.descendants().filter(move |node| node.has_tag_name(name)).map(move |node| Self { node, at: self.at })
    }

    /// Returns its text, trimmed; an empty one is none.
    pub(super) fn text(self) -> Option<&'a str> {
        self.node.text().map(str::trim).filter(|text| !text.is_empty())
    }

    /// Returns the text of its element of a name.
    pub(super) fn text_of(self, name: &str) -> Option<&'a str> {
        self.element(name).and_then(Self::text)
    }

    /// Returns an attribute, trimmed, and its place; an empty one is none.
    pub(super) fn attribute(self, name: &str) -> Option<(&'a str, Span)> {
        let found = self.node.attribute_node(name)?;
        let range = found.range();
        let span = Span::new(self.at + range.start..self.at + range.end);
        Some((found.value().trim(), span)).filter(|(text, _)| !text.is_empty())
    }
}

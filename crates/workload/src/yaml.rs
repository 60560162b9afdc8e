//! YAML as a tree with positions.
//!
//! YAML can name a node and use it again, and ten lines can then stand for a billion nodes. Nodes
//! here are shared, not copied, and depth, number and size are bounded.

use saphyr_parser::{Event, Parser, ScalarStyle};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// The most nodes of a text.
pub const NODES_MAX: usize = 200_000;

/// The deepest nesting.
pub const DEPTH_MAX: usize = 100;

/// A mistake with its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct YamlError {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The mistake.
    pub reason: String,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.reason)
    }
}

/// A node, and its position.
#[derive(Debug)]
pub struct YamlNode {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// Its contents.
    pub what: YamlValue,
}

/// The contents of a node.
#[derive(Debug)]
pub enum YamlValue {
    /// Nothing, `~` or `null`.
    Null,
    /// A text or a number.
    Scalar(String),
    /// A list.
    Sequence(Vec<Rc<YamlNode>>),
    /// Keys and values. Keys that are no scalars are left out.
    Mapping(Vec<(String, Rc<YamlNode>)>),
}

impl YamlNode {
    /// Returns its kind, for messages.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self.what {
            YamlValue::Null => "nothing",
            YamlValue::Scalar(_) => "a value",
            YamlValue::Sequence(_) => "a list",
            YamlValue::Mapping(_) => "a mapping",
        }
    }
}

/// Reads all documents of a text.
///
/// # Errors
/// It is not YAML, has more than [`NODES_MAX`] nodes, is nested deeper than [`DEPTH_MAX`], or a
/// mapping has a key twice.
#[expect(clippy::too_many_lines, reason = "one arm per event of the parser")]
pub fn documents(text: &str) -> Result<Vec<Rc<YamlNode>>, YamlError> {
    struct OpenNode {
        node: YamlNode,
        anchor: usize,
        key: Option<Option<String>>,
    }
    let mut open: Vec<OpenNode> = Vec::new();
    let mut anchors: BTreeMap<usize, Rc<YamlNode>> = BTreeMap::new();
    let mut roots = Vec::new();
    let mut count = 0_usize;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| YamlError {
            line: error.marker().line(),
            column: error.marker().col() + 1,
            reason: format!("this is not YAML: {}", error.info()),
        })?;
        let (line, column) = (span.start.line(), span.start.col() + 1);
        let wrong = |reason: String| YamlError { line, column, reason };
        count += 1;
        if count > NODES_MAX || open.len() > DEPTH_MAX {
            return Err(wrong(format!("the file is too large: at most {NODES_MAX} nodes, {DEPTH_MAX} deep, are read")));
        }
        let begun = |what| YamlNode { line, column, what };
        let node = match event {
            Event::Scalar(text, style, anchor, _) => {
                let is_plain = style == ScalarStyle::Plain;
                let is_null = is_plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let what = if is_null { YamlValue::Null } else { YamlValue::Scalar(text.into_owned()) };
                let node = Rc::new(begun(what));
                anchors.insert(anchor, Rc::clone(&node));
                node
            }
            Event::Alias(anchor) => match anchors.get(&anchor) {
                Some(node) => Rc::clone(node),
                None => return Err(wrong("an alias stands inside the node that it names".to_owned())),
            },
            Event::SequenceStart(anchor, _) => {
                open.push(OpenNode { node: begun(YamlValue::Sequence(Vec::new())), anchor, key: None });
                continue;
            }
            Event::MappingStart(anchor, _) => {
                open.push(OpenNode { node: begun(YamlValue::Mapping(Vec::new())), anchor, key: None });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(done) = open.pop() else { continue };
                let node = Rc::new(done.node);
                anchors.insert(done.anchor, Rc::clone(&node));
                node
            }
            Event::DocumentStart(_) | Event::DocumentEnd | Event::StreamStart | Event::StreamEnd | Event::Nothing => {
                continue;
            }
        };
        let Some(parent) = open.last_mut() else {
            roots.push(node);
            continue;
        };
        match &mut parent.node.what {
            YamlValue::Sequence(items) => items.push(node),
            YamlValue::Mapping(pairs) => match parent.key.take() {
                None => {
                    let key = match &node.what {
                        YamlValue::Scalar(key) => Some(key.clone()),
                        YamlValue::Null | YamlValue::Sequence(_) | YamlValue::Mapping(_) => None,
                    };
                    if let Some(key) = key.as_ref().filter(|key| pairs.iter().any(|(known, _)| known == *key)) {
                        return Err(wrong(format!("`{key}` is given twice")));
                    }
                    parent.key = Some(key);
                }
                Some(Some(key)) => pairs.push((key, node)),
                Some(None) => {}
            },
            YamlValue::Null | YamlValue::Scalar(_) => unreachable!("invariant: only collections are open"),
        }
    }
    Ok(roots)
}

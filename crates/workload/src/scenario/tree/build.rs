//! [`parse`]: builds the tree out of the events of `toml_parser`.

use super::{Float, Integer, Member, Members, Node, Origin, Radix, Value, Wrong};
use crate::diagnostic::Span;
use std::borrow::Cow;
use toml_parser::decoder::{Encoding, ScalarKind};
use toml_parser::lexer::{Token, TokenKind};
use toml_parser::parser::{EventReceiver, parse_document};
use toml_parser::{ErrorSink, ParseError, Raw, Source};

/// The deepest nesting of brackets and the longest dotted key: the limits of `toml`.
const DEPTH_MAX: usize = 80;
/// Tables of up to this many members are searched linearly.
const FEW: usize = 12;
/// The initial capacity of a table below a header.
const USUAL: usize = 4;
/// The least number of tokens that are parsed at once.
const TOKENS: usize = 1024;

/// Parses a text whose positions begin at `base`.
///
/// # Errors
/// The text is invalid; the error does not say why.
pub(crate) fn parse(text: &str, base: usize) -> Result<Members<'_>, Wrong> {
    let mut builder = TreeBuilder::new(text, base);
    let mut is_wrong = false;
    let mut sink = |_: ParseError| is_wrong = true;
    let end = Source::new("").lex().last();
    let mut tokens: Vec<Token> = Vec::with_capacity(2 * TOKENS);
    let mut depth = 0_usize;
    for token in Source::new(text).lex() {
        match token.kind() {
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => depth += 1,
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => depth = depth.saturating_sub(1),
            _ => {}
        }
        tokens.push(token);
        // In a valid text a line that ends outside of brackets ends a statement; where an invalid
        // text is split does not matter.
        if token.kind() == TokenKind::Newline && depth == 0 && tokens.len() >= TOKENS {
            tokens.extend(end);
            parse_document(&tokens, &mut builder, &mut sink);
            tokens.clear();
        }
    }
    parse_document(&tokens, &mut builder, &mut sink);
    let root = builder.finish();
    if is_wrong { Err(Wrong) } else { root }
}

/// Builds the tree out of events.
struct TreeBuilder<'i> {
    text: &'i str,
    base: usize,
    root: Members<'i>,
    /// The table of the last header, or the root's own members before the first.
    current: Members<'i>,
    header: Option<Header<'i>>,
    /// The current header: its start, and whether it is of an array.
    opened: Option<(Span, bool)>,
    /// Keys without a value yet, those of the innermost table last.
    keys: Vec<TreeKey<'i>>,
    /// The open arrays and inline tables.
    frames: Vec<OpenTable<'i>>,
    /// Items of the open arrays, those of the innermost last.
    items: Vec<Node<'i>>,
    indices: Vec<Index>,
    /// Whether a header came after one that implied its table.
    is_reopened: bool,
    is_wrong: bool,
}

/// A key that was read.
#[derive(Clone)]
struct TreeKey<'i> {
    text: Cow<'i, str>,
    span: Span,
}

/// `[path.key]` or `[[path.key]]`.
struct Header<'i> {
    path: Vec<TreeKey<'i>>,
    key: TreeKey<'i>,
    span: Span,
    kind: HeaderKind,
}

enum HeaderKind {
    /// Of an array.
    Item,
    /// Of a table that is new.
    New,
    /// Of a table that longer headers implied, with its member index.
    Implied(usize),
}

/// An open array or inline table.
enum OpenTable<'i> {
    Array { span: Span, first: usize },
    Inline { span: Span, first: usize, table: Members<'i> },
}

impl<'i> TreeBuilder<'i> {
    fn new(text: &'i str, base: usize) -> Self {
        Self {
            text,
            base,
            root: Members::new(Origin::Header),
            current: Members::new(Origin::Header),
            header: None,
            opened: None,
            keys: Vec::new(),
            frames: Vec::new(),
            items: Vec::new(),
            // Index 0 is none.
            indices: vec![Index::default()],
            is_reopened: false,
            is_wrong: false,
        }
    }

    fn finish(mut self) -> Result<Members<'i>, Wrong> {
        self.finish_table();
        if self.is_wrong || !self.frames.is_empty() {
            return Err(Wrong);
        }
        if self.is_reopened {
            self.root.sort();
        }
        Ok(self.root)
    }

    fn place(&self, span: toml_parser::Span) -> Span {
        Span::new(self.base + span.start()..self.base + span.end())
    }

    fn raw(&self, span: toml_parser::Span, encoding: Option<Encoding>) -> Raw<'i> {
        Raw::new_unchecked(self.text.get(span.start()..span.end()).unwrap_or_default(), encoding, span)
    }

    /// Adds a complete value.
    fn complete(&mut self, node: Node<'i>) {
        let put = match self.frames.last_mut() {
            Some(OpenTable::Array { .. }) => {
                self.items.push(node);
                return;
            }
            Some(OpenTable::Inline { first, table, .. }) => {
                put(table, self.keys.drain(*first..), node, Origin::InlineDotted, &mut self.indices)
            }
            None => {
                if self.current.members.capacity() == 0 {
                    self.current.members.reserve_exact(USUAL);
                }
                put(&mut self.current, self.keys.drain(..), node, Origin::Dotted, &mut self.indices)
            }
        };
        self.is_wrong |= put.is_err();
    }

    fn open(&mut self, frame: OpenTable<'i>) -> bool {
        self.frames.push(frame);
        self.is_wrong |= self.frames.len() > DEPTH_MAX;
        !self.is_wrong
    }

    fn open_header(&mut self, span: toml_parser::Span, is_array: bool) {
        self.finish_table();
        self.keys.clear();
        self.opened = Some((self.place(span), is_array));
    }

    fn close_header(&mut self, span: toml_parser::Span) {
        let end = self.place(span).end;
        let (Some((open, is_array)), Some(key)) = (self.opened.take(), self.keys.pop()) else {
            self.is_wrong = true;
            return;
        };
        let path: Vec<TreeKey<'i>> = self.keys.drain(..).collect();
        if path.len() >= DEPTH_MAX {
            self.is_wrong = true;
            return;
        }
        let mut kind = HeaderKind::Item;
        if !is_array {
            kind = HeaderKind::New;
            match descend(&mut self.root, &path, Origin::Implied, &mut self.indices) {
                Err(Wrong) => self.is_wrong = true,
                Ok(parent) => {
                    if let Some(place) = parent.find_by(&key.text, &self.indices) {
                        match &mut parent.members[place].item.value {
                            Value::Table(table) if table.origin == Origin::Implied => {
                                self.current = core::mem::replace(table, Members::new(Origin::Header));
                                kind = HeaderKind::Implied(place);
                            }
                            _ => self.is_wrong = true,
                        }
                    }
                }
            }
        }
        self.current.origin = Origin::Header;
        self.header = Some(Header { path, key, span: Span { start: open.start, end }, kind });
    }

    /// Puts the table of the last header at its position.
    fn finish_table(&mut self) {
        let table = core::mem::replace(&mut self.current, Members::new(Origin::Header));
        let Some(Header { path, key, span, kind }) = self.header.take() else {
            if self.root.members.is_empty() {
                self.root = table;
            } else {
                self.is_wrong |= !table.members.is_empty();
            }
            return;
        };
        let Ok(parent) = descend(&mut self.root, &path, Origin::Implied, &mut self.indices) else {
            self.is_wrong = true;
            return;
        };
        let node = Node { value: Value::Table(table), span };
        match kind {
            HeaderKind::New => parent.push(key, node, &mut self.indices),
            HeaderKind::Implied(place) => {
                self.is_reopened = true;
                parent.members[place] = Member { key: key.text, key_span: key.span, item: node };
            }
            HeaderKind::Item => match parent.find_by(&key.text, &self.indices) {
                None => {
                    let item = Node { value: Value::Array(vec![node]), span };
                    parent.push(key, item, &mut self.indices);
                }
                Some(place) => match &mut parent.members[place].item.value {
                    Value::Array(items) if is_of_headers(items) => items.push(node),
                    _ => self.is_wrong = true,
                },
            },
        }
    }

    fn string(raw: Raw<'i>, encoding: Option<Encoding>) -> Option<&'i str> {
        // Without escapes the value is a part of the text.
        let text = raw.as_str();
        let inner = match encoding {
            Some(Encoding::BasicString) => text.strip_prefix('"')?.strip_suffix('"')?,
            Some(Encoding::LiteralString | Encoding::MlLiteralString | Encoding::MlBasicString) | None => return None,
        };
        inner.bytes().all(|byte| byte >= b' ' && byte != b'\\' && byte != b'"' && byte != 0x7f).then_some(inner)
    }

    fn scalar_of(&mut self, raw: Raw<'i>, encoding: Option<Encoding>, error: &mut dyn ErrorSink) -> Value<'i> {
        if let Some(text) = Self::string(raw, encoding) {
            return Value::String(text.into());
        }
        let text = raw.as_str();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
        if encoding.is_none() && is_plain && !text.is_empty() {
            return Value::Integer(Integer { digits: text, radix: Radix::Decimal });
        }
        let mut decoded = Cow::Borrowed("");
        match raw.decode_scalar(&mut decoded, error) {
            ScalarKind::String => Value::String(decoded),
            ScalarKind::Boolean(value) => Value::Boolean(value),
            ScalarKind::DateTime => {
                self.is_wrong |= toml::de::DeValue::parse(text).is_err();
                Value::Datetime
            }
            ScalarKind::Float => Value::Float(Float(text)),
            ScalarKind::Integer(radix) => {
                let radix =
                    Radix::ALL.into_iter().find(|known| known.value() == radix.value()).unwrap_or(Radix::Decimal);
                let digits = text.strip_prefix(radix.prefix()).unwrap_or(text);
                Value::Integer(Integer { digits, radix })
            }
        }
    }
}

impl EventReceiver for TreeBuilder<'_> {
    fn std_table_open(&mut self, span: toml_parser::Span, _error: &mut dyn ErrorSink) {
        self.open_header(span, false);
    }

    fn std_table_close(&mut self, span: toml_parser::Span, _error: &mut dyn ErrorSink) {
        self.close_header(span);
    }

    fn array_table_open(&mut self, span: toml_parser::Span, _error: &mut dyn ErrorSink) {
        self.open_header(span, true);
    }

    fn array_table_close(&mut self, span: toml_parser::Span, _error: &mut dyn ErrorSink) {
        self.close_header(span);
    }

    fn inline_table_open(&mut self, span: toml_parser::Span, _error: &mut dyn ErrorSink) -> bool {
        let table = Members::new(Origin::Inline);
        self.open(OpenTable::Inline { span: self.place(span), first: self.keys.len(), table })
    }

    fn inline_table_close(&mut self, span: toml_parser::Span, _error: &mut dyn ErrorSink) {
        let end = self.place(span).end;
        match self.frames.pop() {
            Some(OpenTable::Inline { span, first, table }) => {
                // A key without a value is an error of the grammar.
                self.is_wrong |= self.keys.len() != first;
                self.complete(Node { value: Value::Table(table), span: Span { start: span.start, end } });
            }
            Some(OpenTable::Array { .. }) | None => self.is_wrong = true,
        }
    }

    fn array_open(&mut self, span: toml_parser::Span, _error: &mut dyn ErrorSink) -> bool {
        self.open(OpenTable::Array { span: self.place(span), first: self.items.len() })
    }

    fn array_close(&mut self, span: toml_parser::Span, _error: &mut dyn ErrorSink) {
        let end = self.place(span).end;
        match self.frames.pop() {
            Some(OpenTable::Array { span, first }) => {
                let items = self.items.drain(first..).collect();
                self.complete(Node { value: Value::Array(items), span: Span { start: span.start, end } });
            }
            Some(OpenTable::Inline { .. }) | None => self.is_wrong = true,
        }
    }

    fn simple_key(&mut self, span: toml_parser::Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        let raw = self.raw(span, encoding);
        let is_bare = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let text = match Self::string(raw, encoding) {
            Some(text) => Cow::Borrowed(text),
            None if encoding.is_none() && !raw.is_empty() && is_bare(raw.as_str()) => Cow::Borrowed(raw.as_str()),
            None => {
                let mut decoded = Cow::Borrowed("");
                raw.decode_key(&mut decoded, error);
                decoded
            }
        };
        self.keys.push(TreeKey { text, span: self.place(span) });
    }

    fn scalar(&mut self, span: toml_parser::Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        let value = self.scalar_of(self.raw(span, encoding), encoding, error);
        self.complete(Node { value, span: self.place(span) });
    }

    fn comment(&mut self, span: toml_parser::Span, error: &mut dyn ErrorSink) {
        self.raw(span, None).decode_comment(error);
    }

    fn newline(&mut self, span: toml_parser::Span, error: &mut dyn ErrorSink) {
        self.raw(span, None).decode_newline(error);
    }

    fn error(&mut self, _span: toml_parser::Span, _error: &mut dyn ErrorSink) {
        self.is_wrong = true;
    }
}

/// Puts a value below a table at the path of its keys; `origin` is that of tables that the keys
/// imply.
fn put<'i>(
    table: &mut Members<'i>,
    keys: impl DoubleEndedIterator<Item = TreeKey<'i>> + ExactSizeIterator,
    node: Node<'i>,
    origin: Origin,
    indices: &mut Vec<Index>,
) -> Result<(), Wrong> {
    // A deeper tree could not be freed.
    if keys.len() > DEPTH_MAX {
        return Err(Wrong);
    }
    let mut keys = keys;
    let Some(key) = keys.next_back() else { return Err(Wrong) };
    let parent = if keys.len() == 0 {
        table
    } else {
        let path: Vec<TreeKey<'i>> = keys.collect();
        let parent = descend(table, &path, origin, indices)?;
        if !matches!(parent.origin, Origin::Implied | Origin::Dotted | Origin::InlineDotted) {
            return Err(Wrong);
        }
        parent
    };
    if parent.find_by(&key.text, indices).is_some() {
        return Err(Wrong);
    }
    parent.push(key, node, indices);
    Ok(())
}

/// Follows a path, and creates missing tables with `origin`.
fn descend<'t, 'i>(
    mut table: &'t mut Members<'i>,
    path: &[TreeKey<'i>],
    origin: Origin,
    indices: &mut Vec<Index>,
) -> Result<&'t mut Members<'i>, Wrong> {
    for key in path {
        let place = match table.find_by(&key.text, indices) {
            Some(place) => place,
            None => {
                let item = Node { value: Value::Table(Members::new(origin)), span: key.span };
                table.push(key.clone(), item, indices);
                table.members.len() - 1
            }
        };
        table = match &mut table.members[place].item.value {
            Value::Array(items) if origin != Origin::InlineDotted && is_of_headers(items) => {
                match items.last_mut().map(Node::get_mut) {
                    Some(Value::Table(last)) => last,
                    _ => return Err(Wrong),
                }
            }
            Value::Table(inner) => {
                inner.origin = match (origin, inner.origin) {
                    // A header may pass through all tables except inline ones.
                    (Origin::Implied | Origin::Header, known @ (Origin::Header | Origin::Implied | Origin::Dotted)) => {
                        known
                    }
                    // A dotted key may pass through tables without a header, which then cannot get
                    // one.
                    (Origin::Dotted, Origin::Implied | Origin::Dotted) => Origin::Dotted,
                    (Origin::InlineDotted, Origin::InlineDotted) => Origin::InlineDotted,
                    _ => return Err(Wrong),
                };
                inner
            }
            _ => return Err(Wrong),
        };
    }
    Ok(table)
}

/// Returns whether an array was written as tables of one name.
fn is_of_headers(items: &[Node<'_>]) -> bool {
    matches!(items.last().map(Node::get_ref), Some(Value::Table(table)) if table.origin == Origin::Header)
}

impl<'i> Members<'i> {
    /// Adds a member that does not exist yet.
    fn push(&mut self, key: TreeKey<'i>, item: Node<'i>, indices: &mut Vec<Index>) {
        if self.members.len() == self.members.capacity() {
            // Most tables have one member, so no room for four is reserved.
            self.members.reserve_exact(self.members.len().max(1));
        }
        self.members.push(Member { key: key.text, key_span: key.span, item });
        if self.members.len() <= FEW {
            return;
        }
        if self.index == 0 {
            self.index = u32::try_from(indices.len()).expect("invariant: inputs are below 4 GiB");
            indices.push(Index::default());
        }
        indices[self.index as usize].add(&self.members);
    }

    fn find_by(&self, key: &str, indices: &[Index]) -> Option<usize> {
        if self.index == 0 { self.find(key) } else { indices[self.index as usize].find(key, &self.members) }
    }
}

/// The index of a large table: the numbers of its members, from 1, by the hash of their keys.
#[derive(Default)]
struct Index {
    slots: Vec<u32>,
    len: usize,
}

impl Index {
    /// Adds the members that are missing.
    fn add(&mut self, members: &[Member<'_>]) {
        if 2 * members.len() > self.slots.len() {
            self.slots = vec![0; (4 * members.len()).next_power_of_two()];
            self.len = 0;
        }
        for (place, member) in members.iter().enumerate().skip(self.len) {
            let mut slot = self.slot(&member.key);
            while self.slots[slot] != 0 {
                slot = (slot + 1) % self.slots.len();
            }
            self.slots[slot] = u32::try_from(place + 1).expect("invariant: inputs are below 4 GiB");
        }
        self.len = members.len();
    }

    fn find(&self, key: &str, members: &[Member<'_>]) -> Option<usize> {
        let mut slot = self.slot(key);
        while let Some(place) = (self.slots[slot] as usize).checked_sub(1) {
            if members[place].key == key {
                return Some(place);
            }
            slot = (slot + 1) % self.slots.len();
        }
        None
    }

    /// The hash has no random seed: the same text is read in the same way every time.
    fn slot(&self, key: &str) -> usize {
        use std::hash::Hasher;
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(key.as_bytes());
        (hasher.finish() as usize) & (self.slots.len() - 1)
    }
}

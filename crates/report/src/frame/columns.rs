//! [`Frame`]: named columns of equal length.
//!
//! The types are those that every data frame library has. Times are whole nanoseconds, and
//! floating-point numbers occur only for means.

use std::sync::Arc;

/// A table of typed columns.
#[derive(Clone, PartialEq, Debug)]
pub struct Frame {
    name: &'static str,
    rows: usize,
    columns: Vec<Column>,
}

impl Frame {
    /// Returns a frame without columns.
    #[must_use]
    pub const fn new(name: &'static str, rows: usize) -> Self {
        Self { name, rows, columns: Vec::new() }
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the columns, in order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns a column by its name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| *column.name == *name)
    }

    /// Returns the frame with another column.
    ///
    /// # Panics
    /// If the column has another number of rows, or a column of that name exists.
    #[must_use]
    pub fn with(mut self, name: impl Into<Arc<str>>, values: Values) -> Self {
        self.push(name.into(), values, None);
        self
    }

    /// Returns the frame with another column, of which some values do not exist.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[must_use]
    pub fn with_some(mut self, name: impl Into<Arc<str>>, values: Values, known: Vec<bool>) -> Self {
        self.push(name.into(), values, Some(known));
        self
    }

    fn push(&mut self, name: Arc<str>, values: Values, known: Option<Vec<bool>>) {
        assert_eq!(values.len(), self.rows, "column `{name}` has as many rows as the frame");
        assert!(self.column(&name).is_none(), "there is one column `{name}`");
        // A column in which every value exists needs no list of those that do.
        let known = known.filter(|known| known.contains(&false));
        assert!(
            known.as_ref().is_none_or(|known| known.len() == self.rows),
            "column `{name}`: known has a value per row"
        );
        self.columns.push(Column { name, values, known });
    }
}

/// A column.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    name: Arc<str>,
    values: Values,
    known: Option<Vec<bool>>,
}

impl Column {
    /// Returns its name, with its unit.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its values. Those that do not exist are zero, false or empty here.
    #[must_use]
    pub const fn values(&self) -> &Values {
        &self.values
    }

    /// Returns which values exist; `None` if all do.
    #[must_use]
    pub fn known(&self) -> Option<&[bool]> {
        self.known.as_deref()
    }

    /// Returns a number of the column; `None` if it does not exist, or is no whole number.
    #[must_use]
    pub fn u64(&self, row: usize) -> Option<u64> {
        let exists = self.known.as_ref().is_none_or(|known| known.get(row) == Some(&true));
        match &self.values {
            Values::U64(values) => values.get(row).copied().filter(|_| exists),
            Values::I64(_) | Values::F64(_) | Values::Bool(_) | Values::Text(_) => None,
        }
    }

    /// Returns a text of the column; `None` if it does not exist, or is no text.
    #[must_use]
    pub fn text(&self, row: usize) -> Option<&str> {
        let exists = self.known.as_ref().is_none_or(|known| known.get(row) == Some(&true));
        match &self.values {
            Values::Text(values) => values.get(row).map(|text| &**text).filter(|_| exists),
            Values::U64(_) | Values::I64(_) | Values::F64(_) | Values::Bool(_) => None,
        }
    }
}

/// The values of a column.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Values {
    /// Times, counts and ids.
    U64(Vec<u64>),
    /// Numbers that can be negative.
    I64(Vec<i64>),
    /// Means.
    F64(Vec<f64>),
    /// Yes or no.
    Bool(Vec<bool>),
    /// Names.
    Text(Vec<Arc<str>>),
}

impl Values {
    /// Returns how many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::U64(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    /// Returns whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A frame under construction, over rows of one type: a line per column.
#[derive(Debug)]
pub(crate) struct Of<'r, R> {
    frame: Frame,
    rows: &'r [R],
}

impl<'r, R> Of<'r, R> {
    pub(crate) const fn new(name: &'static str, rows: &'r [R]) -> Self {
        Self { frame: Frame::new(name, rows.len()), rows }
    }

    /// Goes on with a frame of the same rows.
    pub(crate) const fn onto(frame: Frame, rows: &'r [R]) -> Self {
        Self { frame, rows }
    }

    pub(crate) fn u64(mut self, name: &'static str, of: impl Fn(&R) -> u64) -> Self {
        self.frame.push(name.into(), Values::U64(self.rows.iter().map(of).collect()), None);
        self
    }

    pub(crate) fn i64(mut self, name: &'static str, of: impl Fn(&R) -> i64) -> Self {
        self.frame.push(name.into(), Values::I64(self.rows.iter().map(of).collect()), None);
        self
    }

    pub(crate) fn some_u64(mut self, name: &'static str, of: impl Fn(&R) -> Option<u64>) -> Self {
        let (values, known) = self.rows.iter().map(|row| of(row).map_or((0, false), |value| (value, true))).unzip();
        self.frame.push(name.into(), Values::U64(values), Some(known));
        self
    }

    pub(crate) fn bool(mut self, name: &'static str, of: impl Fn(&R) -> bool) -> Self {
        self.frame.push(name.into(), Values::Bool(self.rows.iter().map(of).collect()), None);
        self
    }

    pub(crate) fn text(mut self, name: &'static str, of: impl Fn(&R) -> Arc<str>) -> Self {
        self.frame.push(name.into(), Values::Text(self.rows.iter().map(of).collect()), None);
        self
    }

    /// Words of a small set: each is stored once.
    pub(crate) fn word(self, name: &'static str, of: impl Fn(&R) -> &'static str) -> Self {
        let mut words: Vec<Arc<str>> = Vec::new();
        let values = self.rows.iter().map(|row| {
            let word = of(row);
            match words.iter().find(|known| ***known == *word) {
                Some(known) => Arc::clone(known),
                None => {
                    words.push(word.into());
                    word.into()
                }
            }
        });
        let values = Values::Text(values.collect());
        let mut all = self;
        all.frame.push(name.into(), values, None);
        all
    }

    pub(crate) fn some_text(mut self, name: &'static str, of: impl Fn(&R) -> Option<Arc<str>>) -> Self {
        let (values, known): (Vec<Arc<str>>, Vec<bool>) =
            self.rows.iter().map(|row| of(row).map_or((Arc::default(), false), |value| (value, true))).unzip();
        self.frame.push(name.into(), Values::Text(values), Some(known));
        self
    }

    pub(crate) fn done(self) -> Frame {
        self.frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_value_is_no_zero() {
        let frame = Of::new("t", &[Some(3_u64), None]).some_u64("a", |row| *row).bool("b", Option::is_some).done();
        let a = frame.column("a").expect("it was added");
        assert_eq!((a.u64(0), a.u64(1), a.u64(2)), (Some(3), None, None));
        assert_eq!(a.known(), Some(&[true, false][..]));
        assert_eq!(frame.column("b").and_then(Column::known), None);
        assert!(frame.column("c").is_none());
    }

    #[test]
    #[should_panic(expected = "as many rows")]
    fn a_column_of_another_length_is_refused() {
        drop(Frame::new("t", 2).with("a", Values::U64(vec![1])));
    }
}

//! [`Table`]: columns of text, each as wide as its widest cell; [`Titled`]: one under a heading.
//!
//! No borders and no colours: two spaces between columns, a head, rows. The output is stable, so a
//! changed table is a changed result. Cells are counted in characters, not in display width.

use core::fmt;

/// The side on which a column is flush.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table of text.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with these columns.
    #[must_use]
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let columns = columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect();
        Self { columns, rows: Vec::new() }
    }

    /// Appends a row. Missing cells are empty.
    ///
    /// # Panics
    /// If there are more cells than columns.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().collect();
        assert!(cells.len() <= self.columns.len(), "{} cells for {} columns", cells.len(), self.columns.len());
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// Names a column. Text leaves out names that its cells make clear; a page has room for them.
    ///
    /// # Panics
    /// If there is no such column.
    #[must_use]
    pub fn name(mut self, column: usize, name: &str) -> Self {
        name.clone_into(&mut self.columns[column].0);
        self
    }

    /// Returns the head and the rows, for pages.
    #[must_use]
    pub fn to_rows(&self) -> Vec<Vec<String>> {
        let head = self.columns.iter().map(|(name, _)| name.clone()).collect();
        [head].into_iter().chain(self.rows.iter().cloned()).collect()
    }

    /// Returns whether there is no row.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// A table under a heading.
#[derive(Clone, Debug)]
pub struct Titled {
    /// The heading.
    pub title: String,
    /// Sentences below the heading; can be empty.
    pub text: String,
    /// The table.
    pub table: Table,
}

impl Titled {
    /// Puts a table under a heading.
    #[must_use]
    pub fn new(title: impl Into<String>, text: impl Into<String>, table: Table) -> Self {
        Self { title: title.into(), text: text.into(), table }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = |text: &String| text.chars().count();
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, (name, _))| self.rows.iter().map(|row| length(&row[at])).fold(length(name), usize::max))
            .collect();
        let heads: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        for row in [&heads].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for ((cell, (_, align)), width) in row.iter().zip(&self.columns).zip(&widths) {
                if !line.is_empty() || width == &0 {
                    line.push_str("  ");
                }
                match align {
                    Align::Left => line.push_str(&format!("{cell:<width$}")),
                    Align::Right => line.push_str(&format!("{cell:>width$}")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Shortens a text to `width` characters; `~` replaces the rest.
#[must_use]
pub fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "~"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new(&[("task", Align::Left), ("run", Align::Right), ("", Align::Left)]);
        table.push(["a".to_owned(), "10.0ms".to_owned(), "é".to_owned()]);
        table.push(["longer".to_owned(), "1s".to_owned()]);
        assert_eq!(table.to_string(), "task       run\na       10.0ms  é\nlonger      1s\n");
        assert_eq!(table.to_rows()[2], ["longer", "1s", ""]);
        assert_eq!(table.clone().name(2, "note").to_rows()[0], ["task", "run", "note"]);
        assert_eq!(shorten("abcdef", 4), "abc~");
        assert_eq!(shorten("abcd", 4), "abcd");
    }
}

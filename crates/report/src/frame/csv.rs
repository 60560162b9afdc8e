//! A [`Frame`] as CSV (RFC 4180): a head line with the names of the columns, then a line per row.
//!
//! A value that does not exist is an empty field. Hidden characters of names are written as escapes
//! (`\u{1b}`), so that a file can be looked at in a terminal.

use super::{Column, Frame, Values};
use zerolag_model::text;

/// Returns a frame as CSV.
///
/// ```
/// use zerolag_report::frame::{Frame, Values, csv};
/// let frame = Frame::new("t", 2)
///     .with("name", Values::Text(vec!["a,b".into(), "c".into()]))
///     .with_some("max_ns", Values::U64(vec![7, 0]), vec![true, false]);
/// assert_eq!(csv::of(&frame), "name,max_ns\n\"a,b\",7\nc,\n");
/// ```
#[must_use]
pub fn of(frame: &Frame) -> String {
    let line = |fields: Vec<String>| fields.join(",") + "\n";
    let mut out = line(frame.columns().iter().map(|column| field(column.name())).collect());
    for row in 0..frame.rows() {
        out += &line(frame.columns().iter().map(|column| value(column, row)).collect());
    }
    out
}

fn value(column: &Column, row: usize) -> String {
    if column.known().is_some_and(|known| !known[row]) {
        return String::new();
    }
    match column.values() {
        Values::U64(values) => values[row].to_string(),
        Values::I64(values) => values[row].to_string(),
        Values::F64(values) => values[row].to_string(),
        Values::Bool(values) => values[row].to_string(),
        Values::Text(values) => field(&values[row]),
    }
}

/// Returns a text as a field: without hidden characters, quoted if it has a separator.
#[must_use]
pub fn field(text: &str) -> String {
    let text = text::name(text);
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_controls_of_names_break_no_line() {
        let names = ["say \"hi\"", "two\nlines\r", "\u{1b}]0;x\u{7}", ""].map(Into::into);
        let frame = Frame::new("t", 4)
            .with("name", Values::Text(names.into()))
            .with("mean", Values::F64(vec![0.5, 1.0, -2.25, 1e21]))
            .with("is_met", Values::Bool(vec![true, false, true, false]))
            .with("prio", Values::I64(vec![-1, 0, 1, i64::MIN]));
        let expected = "name,mean,is_met,prio\n\"say \"\"hi\"\"\",0.5,true,-1\ntwo\\nlines\\r,1,false,0\n\
                        \\u{1b}]0;x\\u{7},-2.25,true,1\n,1000000000000000000000,false,-9223372036854775808\n";
        assert_eq!(of(&frame), expected);
    }
}

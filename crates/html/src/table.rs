//! Tables: the one way in which a page shows rows. The script makes them sortable, and gives each as
//! CSV.

use crate::escape::escape;
use crate::page::INFALLIBLE;
use std::fmt::Write;

/// The most letters of a text that stays on one line.
const SHORT: usize = 16;

/// Writes rows below their head as a part of the page that scrolls by itself, under a name for
/// readers that do not see it.
pub(crate) fn write(out: &mut String, label: &str, rows: &[Vec<String>]) {
    let label = escape(label);
    writeln!(out, "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{label}, table\">")
        .expect(INFALLIBLE);
    plain(out, "", rows);
    out.push_str("</div>\n");
}

/// Writes rows below their head, as a table of this class. Columns whose texts are numbers stand to
/// the right.
pub(crate) fn plain(out: &mut String, class: &str, rows: &[Vec<String>]) {
    let Some((head, rows)) = rows.split_first() else { return };
    let is_number = |text: &str| {
        let is_factor = text.strip_prefix('x').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        is_factor
            || text.is_empty()
            || text == "-"
            || text.starts_with(|c: char| c.is_ascii_digit() || "-+~<>".contains(c))
    };
    // What is short stays on one line: the room is better given to sentences.
    let is_short = |text: &str| text.chars().count() <= SHORT;
    let class_of = |column: usize| {
        let all = |is: &dyn Fn(&str) -> bool| rows.iter().all(|row| row.get(column).is_none_or(|text| is(text)));
        match (all(&is_number), all(&is_short)) {
            (true, _) => " class=\"n\"",
            (_, true) => " class=\"s\"",
            _ => "",
        }
    };
    let classes: Vec<&str> = (0..head.len()).map(class_of).collect();
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    write!(out, "<table{class}><thead><tr>").expect(INFALLIBLE);
    for (class, name) in classes.iter().zip(head) {
        // Long names of figures break at their points.
        let name = escape(name).replace('.', ".<wbr>").replace('_', "_<wbr>");
        write!(out, "<th scope=\"col\"{class}>{name}</th>").expect(INFALLIBLE);
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (class, text) in classes.iter().zip(row) {
            write!(out, "<td{class}>{}</td>", escape(text)).expect(INFALLIBLE);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>\n");
}

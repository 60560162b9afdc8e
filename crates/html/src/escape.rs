//! Texts that a page can contain.

use zerolag_report::human::is_hidden;

/// Returns a text as HTML, in an element or in a quoted attribute. Control characters, and those
/// that reorder or hide text, become a mark: a name must not look like another.
///
/// ```
/// use zerolag_html::escape::escape;
/// assert_eq!(escape("<a href='x'>\u{1b}]0;"), "&lt;a href=&#39;x&#39;&gt;\u{fffd}]0;");
/// ```
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            _ => out.push(visible(letter)),
        }
    }
    out
}

/// Returns a text for the data of a page, whose script only ever shows it as text.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(visible).collect()
}

/// Returns a character, or a mark in place of one that cannot be seen.
fn visible(letter: char) -> char {
    if is_hidden(letter) { char::REPLACEMENT_CHARACTER } else { letter }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_markup_and_none_is_hidden() {
        let hostile = "</script><script>alert(\"1\")</script> it's &amp; \u{202e}gnp.exe\u{0}\u{7f}\u{9b}31m";
        let safe = escape(hostile);
        assert!(!safe.contains(['<', '>', '"', '\'', '\u{202e}', '\u{0}', '\u{7f}', '\u{9b}']), "{safe}");
        assert!(safe.contains("it&#39;s &amp;amp;"), "{safe}");
        assert_eq!(plain("a\u{1b}b\u{2066}c"), "a\u{fffd}b\u{fffd}c");
    }
}

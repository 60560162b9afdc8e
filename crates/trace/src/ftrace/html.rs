//! The text of ftrace in a page of systrace.
//!
//! ```text
//! <script class="trace-data" type="application/text">      var linuxPerfData = "\
//! # tracer: nop                                            # tracer: nop\n\
//!   a-1 [000] d..2. 1.000001: sched_switch: ...              a-1 [000] d..2. 1.000001: sched_switch: ...\n\
//!   </script>                                              ";
//! ```
//!
//! The page also has its viewer, and other data in the same form. Lines outside of a text of ftrace
//! become empty, so that errors name the lines of the page.

/// Returns whether a file that begins so is a page.
pub(crate) fn is_page(head: &str) -> bool {
    let head = head.trim_start().as_bytes();
    let begins = |with: &[u8]| head.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    begins(b"<!doctype html") || begins(b"<html")
}

/// Returns the texts of ftrace in a page, at their lines; `None` if there is none.
pub(crate) fn text_of(page: &str) -> Option<String> {
    let mut text = String::with_capacity(page.len() / 2);
    let mut inside = Inside::Page;
    let mut has_text = false;
    for line in page.lines() {
        let ends = line.contains("</script>");
        inside = match inside {
            Inside::Page if line.contains(DATA) && !ends => Inside::Data,
            Inside::Page if line.contains(LEGACY) => Inside::Text,
            // The first line of data says what it is.
            Inside::Data if line.starts_with('#') => Inside::Text,
            Inside::Data if !line.trim().is_empty() => Inside::Page,
            Inside::Text if ends => Inside::Page,
            other => other,
        };
        if inside == Inside::Text && !line.contains(LEGACY) && line.trim() != "\";" {
            has_text = true;
            text.push_str(line.strip_suffix("\\n\\").unwrap_or(line));
        }
        text.push('\n');
    }
    has_text.then_some(text)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Page,
    /// Data of any kind, of which no line has come.
    Data,
    Text,
}

const DATA: &str = "class=\"trace-data\"";
const LEGACY: &str = "linuxPerfData = \"";

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "a-1 [000] d..2. 1.5: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120";

    #[test]
    fn both_forms_of_a_page_have_their_text_at_its_lines() {
        let data =
            |text: &str| format!("<script class=\"trace-data\" type=\"application/text\">\n{text}\n  </script>\n");
        let modern = format!(
            "<!DOCTYPE html>\n<body>a-1 [000]\n{}{}</body>\n",
            data("PROCESS DUMP\nx"),
            data(&format!("# tracer: nop\n#\n{SWITCH}"))
        );
        let legacy = format!("<html>\nvar linuxPerfData = \"\\\n# tracer: nop\\n\\\n{SWITCH}\\n\\\n\";\n</script>\n");
        for (page, line) in [(&modern, 10), (&legacy, 4)] {
            assert!(is_page(page));
            let text = text_of(page).expect("a trace");
            assert_eq!(text.lines().position(|found| found == SWITCH), Some(line - 1), "{text}");
            let others = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            assert_eq!(others.count(), 1, "{text}");
        }
        assert_eq!(text_of("<html>\n<body>\n# tracer: nop\n</body>"), None);
        assert!(!is_page("# <html>"));
    }
}

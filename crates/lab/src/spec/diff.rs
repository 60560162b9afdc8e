//! The difference of two short texts, line by line.

use std::fmt::Write;

/// More lines than this on a side are only counted: no spec shows that many.
const MAX_LINES: usize = 2_000;

/// Returns the lines of both texts, each behind ` `, `-` (only in `old`) or `+` (only in `new`).
/// O(old x new).
pub(super) fn lines(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    if old.len().max(new.len()) > MAX_LINES {
        return format!("{} lines expected, {} found", old.len(), new.len());
    }
    // common[i][j]: how many lines old[i..] and new[j..] have in common, in order.
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] =
                if old[i] == new[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut out = String::new();
    while i < old.len() || j < new.len() {
        let (mark, line) = if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
            (' ', old[i - 1])
        } else if j == new.len() || i < old.len() && common[i + 1][j] >= common[i][j + 1] {
            i += 1;
            ('-', old[i - 1])
        } else {
            j += 1;
            ('+', new[j - 1])
        };
        writeln!(out, "  {mark} {line}").expect("invariant: writing to a String cannot fail");
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn common_lines_stay_together() {
        assert_eq!(lines("a\nb\nc\n", "a\nx\nc\nd\n"), "    a\n  - b\n  + x\n    c\n  + d");
        assert_eq!(lines("", "a\n"), "  + a");
        assert_eq!(lines("a\n", ""), "  - a");
    }
}

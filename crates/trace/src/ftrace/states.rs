//! The meaning of states that a text has as numbers.
//!
//! `trace-cmd report -R` writes the number of `prev_state`, and not the kernel that it is of. The
//! numbers tell it, but the first of them need not: unless a comment names the kernel, all are
//! looked at before the events are. A text with letters is not looked at beyond its first switch.

use super::line::{self, Parsed};
use crate::kernel::state::{Seen, States, number};
use std::io::{BufRead, BufReader, Read};

/// Returns the meaning of the numbers of a text.
pub(super) fn of_text(text: &[u8]) -> States {
    let head = &text[..text.len().min(HEAD)];
    let mut seen = Seen::default();
    if let Some(states) = of_release(head) {
        return states;
    }
    if has_numbers(head) {
        text.split(|byte| *byte == b'\n').filter_map(state).for_each(|state| seen.note(state));
    }
    seen.states()
}

/// As [`of_text`], of a text that is not kept; `open` opens it anew.
///
/// # Errors
/// The text cannot be read.
pub(super) fn of_input(mut open: impl FnMut() -> std::io::Result<Box<dyn Read>>) -> std::io::Result<States> {
    let (mut head, mut seen) = (Vec::new(), Seen::default());
    open()?.take(HEAD as u64).read_to_end(&mut head)?;
    if let Some(states) = of_release(&head) {
        return Ok(states);
    }
    if has_numbers(&head) {
        let (mut input, mut line) = (BufReader::new(open()?), Vec::new());
        while input.read_until(b'\n', &mut line)? > 0 {
            state(&line).into_iter().for_each(|state| seen.note(state));
            line.clear();
        }
    }
    Ok(seen.states())
}

/// Returns what the kernel's release in the first comments tells.
fn of_release(head: &[u8]) -> Option<States> {
    let comments = head.split(|byte| *byte == b'\n').take_while(|line| line.starts_with(b"#"));
    comments.filter_map(|line| core::str::from_utf8(line).ok()).find_map(|line| match line::parse(line) {
        Ok(Parsed::Kernel(release)) => States::of_release(release),
        _ => None,
    })
}

fn has_numbers(head: &[u8]) -> bool {
    place(head).and_then(|at| head.get(at)).is_some_and(u8::is_ascii_digit)
}

/// Returns the state of a line, if it is a number.
fn state(line: &[u8]) -> Option<u64> {
    let value = &line[place(line)?..];
    let length = value.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    number(core::str::from_utf8(&value[..length]).ok()?)
}

/// Returns the place behind the first `prev_state=`.
fn place(bytes: &[u8]) -> Option<usize> {
    bytes.windows(KEY.len()).position(|window| window == KEY).map(|at| at + KEY.len())
}

const KEY: &[u8] = b"prev_state=";
/// The first switch is in so much of a text.
const HEAD: usize = 1 << 22;

//! [`States`]: the meaning of the number `prev_state` of a switch.
//!
//! The number says whether a task that leaves its CPU sleeps, has ended or was preempted, and the
//! kernel has moved its bits five times. Read with the bits of another version, every preempted
//! task sleeps: its waits vanish, and it seems to run again without having been woken.
//!
//! ```text
//! kernel       preempted                 ended            source
//! to 3.1       0, as one that yields     0x10 0x20 0x40   sched.h: TASK_STATE_MAX is not recorded
//! 3.2 to 3.8   0x200                     0x10 0x20 0x40   TASK_RUNNING | TASK_STATE_MAX
//! 3.9 to 4.1   0x400   0x200: parked     0x10 0x20 0x40   TASK_PARKED is 512
//! 4.2 to 4.7   0x800   0x400: no load    0x10 0x20 0x40   TASK_NOLOAD is 1024
//! 4.8 to 4.13  0x1000  0x800: new        0x10 0x20 0x40   TASK_NEW is 2048
//! since 4.14   0x100                     0x10 0x20        TASK_REPORT_MAX; 0x40 is parked
//! ```
//!
//! Which row is right says, the first that is known: the format of the trace point in the file
//! (`REC->prev_state & 2048 ? "+" : ""`), which is right for kernels with bits of their own too;
//! the kernel's release; the numbers themselves ([`Seen`]): since 4.14 a number has one bit, and
//! none above 0x100; before, no task sleeps in the state of the highest bit alone.
//!
//! Sources: `include/linux/sched.h` (`TASK_*`, `EXIT_*`, `TASK_STATE_MAX`, `TASK_REPORT_MAX`) and
//! `include/trace/events/sched.h` (`__trace_sched_switch_state`, `TP_printk` of `sched_switch`) of
//! Linux 2.6.35, 3.4, 3.10, 4.1, 4.4, 4.9, 4.14, 4.19 and 6.12.

use zerolag_model::PrevState;

/// The bits of a kernel's `prev_state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct States {
    /// The bit of a preempted task; 0 if it has none.
    preempted: u64,
    /// Those of a task that has ended.
    ended: u64,
}

/// The first kernel of each row of the table, the latest one first.
const ROWS: [([u32; 2], States); 6] = [
    ([4, 14], States { preempted: 0x100, ended: 0x30 }),
    ([4, 8], States { preempted: 0x1000, ended: 0x70 }),
    ([4, 2], States { preempted: 0x800, ended: 0x70 }),
    ([3, 9], States { preempted: 0x400, ended: 0x70 }),
    ([3, 2], States { preempted: 0x200, ended: 0x70 }),
    ([0, 0], States { preempted: 0, ended: 0x70 }),
];

impl Default for States {
    fn default() -> Self {
        ROWS[0].1
    }
}

impl States {
    /// Returns the state of a number. A task that was preempted has only that bit, but for one of a
    /// kernel with more bits of its own.
    pub(crate) const fn state(self, number: u64) -> PrevState {
        match number {
            0 => PrevState::Runnable,
            _ if number & self.preempted != 0 => PrevState::Runnable,
            _ if number & self.ended != 0 => PrevState::Dead,
            _ => PrevState::Blocked,
        }
    }

    /// Returns a number of a state, for a file that names this kernel.
    #[cfg(feature = "recordings")]
    pub(crate) const fn number(self, state: PrevState) -> u64 {
        match state {
            PrevState::Runnable => self.preempted,
            PrevState::Blocked => 1, // TASK_INTERRUPTIBLE
            PrevState::Dead => 0x10, // ended in every row
            PrevState::Idle => 0,
        }
    }

    /// Returns the bits that the `print fmt` of `sched_switch` prints as `+` and as the letters of
    /// an end; `None` if it prints no letters.
    #[cfg(feature = "recordings")]
    pub(crate) fn of_print(print: &str) -> Option<Self> {
        let state = "REC->prev_state";
        let flags = print.split_once(state)?.1.split_once("__print_flags(")?.1;
        let mut ended = 0;
        for pair in flags.split('{').skip(1) {
            let (number, rest) = pair.split_once(',')?;
            let letter = rest.split('"').nth(1)?;
            if matches!(letter, "X" | "Z" | "x") {
                ended |= value(number)?;
            }
        }
        let preempted = match print.split_once("? \"+\"") {
            Some((before, _)) => value(before.rsplit_once(state)?.1.trim_start().strip_prefix('&')?)?,
            None => 0,
        };
        (ended != 0).then_some(Self { preempted, ended })
    }

    /// Returns the bits of a kernel's release: `4.9.223-g5a0d`.
    pub(crate) fn of_release(release: &str) -> Option<Self> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        let of = [numbers.next()?.ok()?, numbers.next()?.ok()?];
        ROWS.iter().find(|(first, _)| *first <= of).map(|(_, states)| *states)
    }
}

/// The numbers of a recording that tells neither a format nor a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    /// The numbers of one bit.
    single: u64,
    /// Whether one has more bits.
    has_more: bool,
}

impl Seen {
    /// Notes a number.
    pub(crate) const fn note(&mut self, number: u64) {
        if number.is_power_of_two() {
            self.single |= number;
        } else {
            self.has_more |= number != 0;
        }
    }

    /// Returns the bits that fit all numbers. A kernel thread that is parked (0x200) is rarer than
    /// a preempted task.
    pub(crate) fn states(self) -> States {
        let row = |bit: u64| ROWS.iter().map(|(_, states)| *states).find(|states| states.preempted == bit);
        let highest = [0x1000, 0x800, 0x400, 0x200].into_iter().find(|bit| self.single & bit != 0);
        match highest.and_then(row) {
            Some(states) => states,
            // More than one bit, and no preempted task.
            None if self.has_more && self.single & 0x100 == 0 => ROWS[1].1,
            None => States::default(),
        }
    }
}

/// Returns the value of an expression of a format: numbers, `|`, `<<`, `+`, `-` and parentheses, as
/// C binds them. What follows it is not looked at.
#[cfg(feature = "recordings")]
fn value(text: &str) -> Option<u64> {
    let mut expression = Expression { rest: text.as_bytes(), depth: 0 };
    expression.or()
}

#[cfg(feature = "recordings")]
struct Expression<'a> {
    rest: &'a [u8],
    depth: u32,
}

#[cfg(feature = "recordings")]
impl Expression<'_> {
    /// Takes an operator, if it comes next.
    fn takes(&mut self, operator: &[u8]) -> bool {
        self.rest = self.rest.trim_ascii_start();
        let rest = self.rest.strip_prefix(operator);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn or(&mut self) -> Option<u64> {
        let mut value = self.shift()?;
        while self.takes(b"|") {
            value |= self.shift()?;
        }
        Some(value)
    }

    fn shift(&mut self) -> Option<u64> {
        let mut value = self.sum()?;
        while self.takes(b"<<") {
            value = value.checked_shl(u32::try_from(self.sum()?).ok()?)?;
        }
        Some(value)
    }

    fn sum(&mut self) -> Option<u64> {
        let mut value = self.atom()?;
        loop {
            if self.takes(b"+") {
                value = value.checked_add(self.atom()?)?;
            } else if self.takes(b"-") {
                value = value.checked_sub(self.atom()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn atom(&mut self) -> Option<u64> {
        if self.takes(b"(") {
            self.depth += 1;
            let value = (self.depth <= DEPTH_MAX).then(|| self.or())??;
            self.depth -= 1;
            return self.takes(b")").then_some(value);
        }
        let word = self.rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let (word, rest) = self.rest.split_at(word);
        self.rest = rest;
        number(core::str::from_utf8(word).ok()?)
    }
}

/// Deeper parentheses are no format of a kernel.
#[cfg(feature = "recordings")]
const DEPTH_MAX: u32 = 32;

/// Returns a number, decimal or `0x1f`.
pub(crate) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PrevState::{Blocked, Dead, Runnable};

    fn seen(numbers: &[u64]) -> States {
        let mut seen = Seen::default();
        numbers.iter().for_each(|number| seen.note(*number));
        seen.states()
    }

    #[cfg(feature = "recordings")]
    #[test]
    fn a_state_is_read_as_it_was_written() {
        for release in ["2.6.33", "3.2.0", "3.10.0", "4.4.0", "4.9.0", "4.14.0", "6.12.0"] {
            let states = States::of_release(release).expect("a release");
            for state in [Runnable, Blocked, Dead] {
                assert_eq!(states.state(states.number(state)), state, "{release}");
            }
        }
    }

    #[test]
    fn a_release_tells_the_bits() {
        for (release, preempted, parked) in [
            ("2.6.35", 0, Dead),
            ("3.1.10", 0, Dead),
            ("3.4.0-g2", 0x200, Dead),
            ("3.10.61", 0x400, Dead),
            ("4.1.0", 0x400, Dead),
            ("4.4.302-android", 0x800, Dead),
            ("4.9.223", 0x1000, Dead),
            ("4.13.0", 0x1000, Dead),
            ("4.14.1", 0x100, Blocked),
            ("5.15.0", 0x100, Blocked),
            ("6.12.95+deb13-amd64", 0x100, Blocked),
        ] {
            let states = States::of_release(release).expect(release);
            assert_eq!(states.preempted, preempted, "{release}");
            let all = [states.state(0), states.state(1), states.state(2), states.state(0x20), states.state(0x40)];
            assert_eq!(all, [Runnable, Blocked, Blocked, Dead, parked], "{release}");
            // Bits of other rows.
            let others = [0x200, 0x400, 0x800, 0x1000].into_iter().filter(|bit| *bit != preempted);
            others.for_each(|bit| assert_eq!(states.state(bit | 2), Blocked, "{release} {bit}"));
        }
        assert_eq!((States::of_release(""), States::of_release("unknown")), (None, None));
    }

    /// The formats of Linux 3.1, 4.4 (a Juno board), and of 4.14 and later.
    #[cfg(feature = "recordings")]
    #[test]
    fn a_format_tells_the_bits() {
        let old = "\"prev_state=%s ==>\", REC->prev_state ? __print_flags(REC->prev_state, \"|\", { 1, \"S\"} , { 2, \
                   \"D\" }, { 16, \"Z\" }, { 32, \"X\" }, { 64, \"x\" }, { 128, \"W\" }) : \"R\", REC->next_comm";
        assert_eq!(States::of_print(old), Some(ROWS[5].1));
        let juno = "\"prev_state=%s%s ==>\", REC->prev_state & (2048-1) ? __print_flags(REC->prev_state & (2048-1), \
                    \"|\", { 1, \"S\"} , { 2, \"D\" }, { 4, \"T\" }, { 8, \"t\" }, { 16, \"Z\" }, { 32, \"X\" }, { 64, \
                    \"x\" }, { 128, \"K\" }, { 256, \"W\" }, { 512, \"P\" }, { 1024, \"N\" }) : \"R\", \
                    REC->prev_state & 2048 ? \"+\" : \"\", REC->next_comm";
        assert_eq!(States::of_print(juno), Some(ROWS[2].1));
        let all = "(0x0000 | 0x0001 | 0x0002 | 0x0004 | 0x0008 | 0x0010 | 0x0020 | 0x0040)";
        let new = format!(
            "\"prev_state=%s%s ==>\", (REC->prev_state & ((({all} + 1) << 1) - 1)) ? __print_flags(REC->prev_state & \
             ((({all} + 1) << 1) - 1), \"|\", {{ 0x0001, \"S\" }}, {{ 0x0002, \"D\" }}, {{ 0x0010, \"X\" }}, \
             {{ 0x0020, \"Z\" }}, {{ 0x0040, \"P\" }}, {{ 0x0080, \"I\" }}) : \"R\", REC->prev_state & (({all} + 1) << \
             1) ? \"+\" : \"\", REC->next_comm"
        );
        assert_eq!(States::of_print(&new), Some(States::default()));
        let deep =
            format!("REC->prev_state __print_flags({{ 1, \"X\" }} REC->prev_state & {}1 ? \"+\"", "(".repeat(99));
        for other in ["", "REC->prev_state", &deep, &new.replace("+ 1)", "- 999)"), &juno.replace("2048", "x")] {
            assert_eq!(States::of_print(other), None, "{other}");
        }
    }

    #[test]
    fn numbers_that_are_impossible_tell_the_kernel() {
        assert_eq!(seen(&[0, 1, 2, 0x100, 0x40]), ROWS[0].1);
        assert_eq!(seen(&[1, 64, 0x1000, 130]), ROWS[1].1);
        assert_eq!(seen(&[1, 0x800, 1026]), ROWS[2].1);
        assert_eq!(seen(&[1, 0x400, 0x200]), ROWS[3].1);
        assert_eq!(seen(&[1, 0x200]), ROWS[4].1);
        // Killable sleep: two bits, which no kernel since 4.14 records.
        assert_eq!(seen(&[1, 130, 64]).state(64), Dead);
        assert_eq!(seen(&[1, 64]).state(64), Blocked);
    }
}

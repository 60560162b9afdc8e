//! [`Rules`]: which threads are of real time or have a reservation, read from a text.
//!
//! One rule per line, or several separated by `;`:
//!
//! ```text
//! # pattern           class
//! comm   audio-*      fifo 80
//! cgroup /control/*   rr 10
//! comm   sensor       deadline 2ms 10ms
//! comm   audio-log    fair
//! ```
//!
//! A pattern is compared with the name of a thread, or with the path of its group; `*` stands for
//! any characters, also `/`, and `?` for one. The first rule that matches counts, so the last one
//! above is never used. A thread that no rule matches is fair.
//!
//! The limits are those of `sched_setattr`: priorities 1 to 99, a period of 100 us to 4 s
//! (`sched_deadline_period_min_us`, `sched_deadline_period_max_us`), a runtime of 1024 ns
//! (`DL_SCALE`) up to the period.
//!
//! Matching costs O(rules * length of the name), when a thread is created or changes its name or
//! its group.

use crate::ops::Mistake;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use zerolag_model::Duration;

/// The most rules.
const MOST: usize = 1000;
const RUNTIME_MIN: Duration = Duration::from_nanos(1024);
const PERIOD_MIN: Duration = Duration::from_micros(100);
const PERIOD_MAX: Duration = Duration::from_secs(4);
const CLASSES: &str = "fifo PRIORITY, rr PRIORITY, deadline RUNTIME PERIOD or fair";

/// How a thread is scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Class {
    /// By weight.
    #[default]
    Fair,
    /// Until it waits (SCHED_FIFO).
    Fifo(u8),
    /// In turns with others of its priority (SCHED_RR).
    Rr(u8),
    /// A runtime in each period (SCHED_DEADLINE).
    Reserved(Reservation),
}

/// A runtime in each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reservation {
    pub(super) runtime: Duration,
    pub(super) period: Duration,
}

/// The rules, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Rule {
    kind: Kind,
    pattern: String,
    class: Class,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Comm,
    Cgroup,
}

/// A mistake of a rule: the word, or `None` for its end, the reason, and what would be right.
type Wrong<'t> = (Option<&'t str>, String, String);

impl Rules {
    /// Reads rules.
    pub(super) fn read(text: &str) -> Result<Self, Vec<Mistake>> {
        let (mut rules, mut wrong) = (Vec::new(), Vec::new());
        for (line, whole) in (1..).zip(text.lines()) {
            let written = whole.split('#').next().unwrap_or("");
            for part in written.split(';') {
                match rule(part) {
                    Ok(None) => {}
                    Ok(Some(rule)) if rules.len() < MOST => rules.push(rule),
                    Ok(Some(_)) => {
                        let (why, help) = (format!("there are more than {MOST} rules"), "use fewer patterns".into());
                        wrong.push(Mistake { line, column: 1, why, help });
                        return Err(wrong);
                    }
                    Err((at, why, help)) => {
                        let at = at.map_or_else(|| part.trim_end().len(), |word| offset(word, part));
                        let column = 1 + whole[..offset(part, whole) + at].chars().count() as u32;
                        wrong.push(Mistake { line, column, why, help });
                    }
                }
            }
        }
        if wrong.is_empty() { Ok(Self(rules)) } else { Err(wrong) }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the class of a thread of this name in the group of this path.
    pub(super) fn class(&self, comm: &str, cgroup: &str) -> Class {
        let matches = |rule: &&Rule| match rule.kind {
            Kind::Comm => is_match(&rule.pattern, comm),
            Kind::Cgroup => is_match(&rule.pattern, cgroup),
        };
        self.0.iter().find(matches).map_or(Class::Fair, |rule| rule.class)
    }
}

/// Returns where a part of a text begins in it, in bytes.
fn offset(part: &str, of: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(of.as_ptr() as usize)
}

/// Reads a rule; `None` if there is none.
fn rule(text: &str) -> Result<Option<Rule>, Wrong<'_>> {
    let mut words = text.split_whitespace();
    let Some(kind) = words.next() else { return Ok(None) };
    let example = || "as in `comm audio-* fifo 80`, `cgroup /control/* rr 10`".to_string();
    let kind = match kind {
        "comm" => Kind::Comm,
        "cgroup" => Kind::Cgroup,
        other => {
            return Err((Some(other), format!("expected `comm` or `cgroup`, not `{other}`"), example()));
        }
    };
    let pattern = words.next().ok_or_else(|| (None, "the pattern is missing".to_string(), example()))?;
    if kind == Kind::Cgroup && !pattern.starts_with(['/', '*', '?']) {
        let why = format!("`{pattern}` is no path of a group");
        return Err((Some(pattern), why, format!("it begins with a slash: /{pattern}")));
    }
    let class = class(&mut words)?;
    if let Some(more) = words.next() {
        return Err((Some(more), format!("`{more}` is one word too many"), format!("a class is {CLASSES}")));
    }
    Ok(Some(Rule { kind, pattern: pattern.into(), class }))
}

fn class<'t>(words: &mut impl Iterator<Item = &'t str>) -> Result<Class, Wrong<'t>> {
    let class = words.next().ok_or_else(|| (None, "the class is missing".to_string(), CLASSES.to_string()))?;
    match class {
        "fair" => Ok(Class::Fair),
        "fifo" => priority(words.next()).map(Class::Fifo),
        "rr" => priority(words.next()).map(Class::Rr),
        "deadline" => {
            let (runtime, runtime_at) = time(words.next(), "runtime")?;
            let (period, period_at) = time(words.next(), "period")?;
            if !(PERIOD_MIN..=PERIOD_MAX).contains(&period) {
                let why = format!("period {period}: expected {PERIOD_MIN} to {PERIOD_MAX}");
                return Err((Some(period_at), why, "the runtime is given first: deadline 2ms 10ms".into()));
            }
            if !(RUNTIME_MIN..=period).contains(&runtime) {
                let why = format!("runtime {runtime}: expected {RUNTIME_MIN} to {period}, the period");
                return Err((Some(runtime_at), why, "the runtime is given first: deadline 2ms 10ms".into()));
            }
            Ok(Class::Reserved(Reservation { runtime, period }))
        }
        other => Err((Some(other), format!("there is no class `{other}`"), format!("known are {CLASSES}"))),
    }
}

fn priority(word: Option<&str>) -> Result<u8, Wrong<'_>> {
    let help = || "the greatest is the most urgent: fifo 80".to_string();
    let word = word.ok_or_else(|| (None, "the priority is missing".to_string(), help()))?;
    let number = word.parse().ok().filter(|priority| (1..=99).contains(priority));
    number.ok_or_else(|| (Some(word), format!("priority {word}: expected 1 to 99"), help()))
}

fn time<'t>(word: Option<&'t str>, what: &str) -> Result<(Duration, &'t str), Wrong<'t>> {
    let help = || "a runtime and a period: deadline 2ms 10ms".to_string();
    let word = word.ok_or_else(|| (None, format!("the {what} is missing"), help()))?;
    let time = word.parse().map_err(|error| (Some(word), format!("{what} {word}: {error}"), help()))?;
    Ok((time, word))
}

/// Returns whether a pattern matches a whole text. O(length of both, multiplied) at worst.
fn is_match(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Behind the last `*`, and what it stands for ends here.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                star = Some((p, t));
            }
            Some(b'?') => (p, t) = (p + 1, t + 1),
            Some(byte) if *byte == text[t] => (p, t) = (p + 1, t + 1),
            Some(_) | None => match &mut star {
                Some((behind, end)) => {
                    *end += 1;
                    (p, t) = (*behind, *end);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text, wanted) in [
            ("audio-*", "audio-12", true),
            ("audio-*", "my-audio-1", false),
            ("*", "", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*io*1", "audio-11", true),
            ("*io*2", "audio-11", false),
            ("/rt/*", "/rt/a/b", true),
            ("/rt", "/rt/a", false),
        ] {
            assert_eq!(is_match(pattern, text), wanted, "{pattern} {text}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let text = "# threads\ncomm audio-log fair; comm audio-* fifo 80\n\ncgroup /control/* rr 10 # later\n\
                    comm sensor deadline 2ms 10ms";
        let rules = Rules::read(text).expect("they are right");
        let class = |comm: &str, cgroup: &str| rules.class(comm, cgroup);
        assert_eq!(class("audio-log", "/control/a"), Class::Fair);
        assert_eq!(class("audio-1", "/control/a"), Class::Fifo(80));
        assert_eq!(class("other", "/control/a"), Class::Rr(10));
        let reserved = Reservation { runtime: Duration::from_millis(2), period: Duration::from_millis(10) };
        assert_eq!(class("sensor", "/"), Class::Reserved(reserved));
        assert_eq!(class("other", "/"), Class::Fair);
    }

    #[test]
    fn mistakes_have_place_reason_and_remedy() {
        let text = "name x fifo 3\ncomm a fifo 0; comm b rr\n cgroup rt fifo 1\ncomm c idle\ncomm d deadline 10ms 2ms\n\
                    comm e deadline 1 2ms\ncomm f fair 3\ncomm";
        let wrong = Rules::read(text).expect_err("every rule is wrong");
        let said: Vec<_> = wrong.iter().map(|wrong| (wrong.line, wrong.column, &*wrong.why)).collect();
        assert_eq!(said[0], (1, 1, "expected `comm` or `cgroup`, not `name`"));
        assert_eq!(said[1], (2, 13, "priority 0: expected 1 to 99"));
        assert_eq!(said[2], (2, 25, "the priority is missing"));
        assert_eq!(said[3], (3, 9, "`rt` is no path of a group"));
        assert_eq!(said[4], (4, 8, "there is no class `idle`"));
        assert_eq!(said[5], (5, 17, "runtime 10ms: expected 1.024us to 2ms, the period"));
        assert_eq!((said[6].0, said[6].1), (6, 17));
        assert_eq!(said[7], (7, 13, "`3` is one word too many"));
        assert_eq!(said[8], (8, 5, "the pattern is missing"));
        assert_eq!(wrong.len(), 9);
        assert!(wrong.iter().all(|wrong| !wrong.help.is_empty()), "{wrong:?}");
    }
}

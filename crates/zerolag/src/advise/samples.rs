//! [`Samples`]: the counters of a CPU limit over time, as they are collected.
//!
//! | form | recognised by |
//! |---|---|
//! | repeated `cpu.stat`, each behind a line with its time | `nr_periods` in the first lines |
//! | one `cpu.stat` without a time: the counters since the group was created | the same |
//! | the answer of Prometheus' `query_range`, or several in a list | `{` or `[` |
//! | CSV or columns: a time, then one counter or more | a head line that names a counter |
//!
//! Names are those of the kernel (`usage_usec`, `nr_periods`, `nr_throttled`, `throttled_usec`) or
//! of cAdvisor (`container_cpu_usage_seconds_total`, `..._cfs_periods_total`,
//! `..._cfs_throttled_periods_total`, `..._cfs_throttled_seconds_total`). Counters of several files
//! are put together by their time.
//!
//! Times are seconds since 1970, or milliseconds, which are more than 10^11.

use crate::error::Error;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::text::visible;

/// A counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Counter {
    /// CPU time, in microseconds.
    Usage,
    /// Periods in which the group was active.
    Periods,
    /// Of these, throttled ones.
    Throttled,
    /// Time for which CPUs were throttled, added up over CPUs, in microseconds.
    ThrottledTime,
}

impl Counter {
    /// Returns the counter of a name, and the factor to its unit.
    fn of(name: &str) -> Option<(Self, f64)> {
        let name = name.trim().trim_matches('"');
        let seconds = 1e6;
        Some(match name {
            "usage_usec" => (Self::Usage, 1.0),
            "nr_periods" => (Self::Periods, 1.0),
            "nr_throttled" => (Self::Throttled, 1.0),
            "throttled_usec" => (Self::ThrottledTime, 1.0),
            // cgroup v1.
            "throttled_time" => (Self::ThrottledTime, 1e-3),
            "cpuacct.usage" => (Self::Usage, 1e-3),
            _ if name.contains("cpu_usage_seconds_total") => (Self::Usage, seconds),
            _ if name.contains("cfs_throttled_periods_total") => (Self::Throttled, 1.0),
            _ if name.contains("cfs_periods_total") => (Self::Periods, 1.0),
            _ if name.contains("cfs_throttled_seconds_total") => (Self::ThrottledTime, seconds),
            _ => return None,
        })
    }
}

/// The counters at one time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sample {
    /// Seconds.
    pub at: f64,
    /// CPU time in microseconds.
    pub usage_us: Option<f64>,
    /// Periods.
    pub periods: Option<f64>,
    /// Throttled periods.
    pub throttled: Option<f64>,
    /// Throttled time in microseconds.
    pub throttled_us: Option<f64>,
}

/// Counters over time, in order of time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Samples {
    by_time: BTreeMap<i64, BTreeMap<Counter, f64>>,
    /// The counters of a `cpu.stat` without a time.
    since_creation: BTreeMap<Counter, f64>,
    /// Whose they are, by the labels of their series.
    owners: BTreeSet<String>,
}

/// Returns whether bytes are samples of counters.
#[must_use]
pub fn are_samples(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(1 << 16)];
    let text = String::from_utf8_lossy(head);
    match text.trim_start().chars().next() {
        Some('{' | '[') => {
            // An error of Prometheus is an answer too.
            text.contains("\"resultType\"")
                || text.contains("\"errorType\"")
                || text.contains("cfs_")
                || text.contains("cpu_usage_seconds")
        }
        Some(_) => text.lines().take(40).any(|line| line.split(is_separator).any(|word| Counter::of(word).is_some())),
        None => false,
    }
}

const fn is_separator(letter: char) -> bool {
    matches!(letter, ',' | ';' | '\t' | ' ')
}

impl Samples {
    /// Adds the samples of a text. `name` stands for the file in messages.
    ///
    /// # Errors
    /// The form is unknown, a line is malformed, or there is too much: the first mistake with its
    /// line.
    pub fn read(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > SIZE_MAX {
            return Err(Error::input(format!("{name}: samples have at most {} MB", SIZE_MAX >> 20)));
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Err(Error::input(format!("{name}: this is not UTF-8 text")));
        };
        let before = self.by_time.len() + self.since_creation.len();
        let read = match text.trim_start().chars().next() {
            Some('{' | '[') => self.json(text),
            _ if text.lines().take(40).any(|line| line.trim_start().starts_with("nr_periods ")) => self.dumps(text),
            _ => self.columns(text),
        };
        read.map_err(|wrong| Error::input(format!("{name}:{wrong}")))?;
        if self.by_time.len() + self.since_creation.len() == before && before == 0 {
            return Err(Error::input_help(format!("{name}: there are no samples"), FORMS));
        }
        Ok(())
    }

    /// Returns the samples in order of time.
    #[must_use]
    pub fn all(&self) -> Vec<Sample> {
        self.by_time.iter().map(|(at, counters)| sample(*at as f64 / 1e3, counters)).collect()
    }

    /// Returns the counters of one `cpu.stat` without a time: what has been counted since the group
    /// was created, `over` that time in seconds. Its `at` is that time. `None` if there is none.
    ///
    /// # Errors
    /// There are samples with times beside it.
    pub fn since_creation(&self, over: f64) -> Result<Option<Sample>, Error> {
        if self.since_creation.is_empty() {
            return Ok(None);
        }
        if !self.by_time.is_empty() {
            return Err(Error::input_help(
                "some counters have times, and some have none",
                format!("collect all with times: {COLLECT}"),
            ));
        }
        Ok(Some(sample(over, &self.since_creation)))
    }

    /// Returns the number of active periods of one `cpu.stat` without a time, if it has them.
    #[must_use]
    pub fn periods_since_creation(&self) -> Option<f64> {
        self.since_creation.get(&Counter::Periods).copied()
    }

    fn add(&mut self, at: f64, counter: Counter, value: f64) {
        // A counter that several series have (one per CPU) is summed.
        *self.by_time.entry((at * 1e3).round() as i64).or_default().entry(counter).or_insert(0.0) += value;
    }

    fn dumps(&mut self, text: &str) -> Result<(), String> {
        let mut at: Option<f64> = None;
        for (line, number) in text.lines().zip(1..) {
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (None, ..) => {}
                (Some(word), None, None) => {
                    at = Some(time(word).ok_or_else(|| format!("{number}: `{}` is not a time", shown(word)))?);
                }
                (Some(key), Some(value), None) => {
                    let value =
                        quantity(value).ok_or_else(|| format!("{number}: `{}` is not a number", shown(value)))?;
                    let Some((counter, factor)) = Counter::of(key) else { continue };
                    match at {
                        Some(at) => self.add(at, counter, value * factor),
                        None if self.since_creation.contains_key(&counter) => {
                            let again = "no time stands before the second cpu.stat; collect with";
                            return Err(format!("{number}: {again}: {COLLECT}"));
                        }
                        None => {
                            self.since_creation.insert(counter, value * factor);
                        }
                    }
                }
                (Some(key), ..) => return Err(format!("{number}: `{}` has more than one value", shown(key))),
            }
        }
        Ok(())
    }

    fn columns(&mut self, text: &str) -> Result<(), String> {
        let mut lines = text.lines().zip(1_u64..).filter(|(line, _)| !line.trim().is_empty());
        let Some((head, _)) = lines.next() else { return Ok(()) };
        let separator: &dyn Fn(char) -> bool = match [',', ';', '\t'].iter().find(|letter| head.contains(**letter)) {
            Some(',') => &|letter| letter == ',',
            Some(';') => &|letter| letter == ';',
            Some(_) => &|letter| letter == '\t',
            None => &|letter| letter == ' ',
        };
        let split = |line: &str| -> Vec<String> {
            // Labels of a series have commas: `{pod="a",container="b"}`.
            let (mut words, mut depth, mut quoted) = (vec![String::new()], 0_u32, false);
            for letter in line.trim().chars() {
                match letter {
                    '"' => quoted = !quoted,
                    '{' => depth += 1,
                    '}' => depth = depth.saturating_sub(1),
                    letter if depth == 0 && !quoted && separator(letter) => {
                        words.push(String::new());
                        continue;
                    }
                    _ => {}
                }
                if letter != '"' {
                    words.last_mut().expect("invariant: one at least").push(letter);
                }
            }
            words.retain(|word| !word.is_empty() || separator(','));
            words
        };
        let columns: Vec<_> = split(head).iter().map(|word| Counter::of(word)).collect();
        if columns.len() < 2 || columns.iter().skip(1).all(Option::is_none) {
            return Err(format!("1: the head line names no counter; {FORMS}"));
        }
        for (line, number) in lines {
            let words = split(line);
            let Some(first) = words.first() else { continue };
            let at = time(first).ok_or_else(|| format!("{number}: `{}` is not a time", shown(first)))?;
            for (word, column) in words.iter().zip(&columns).skip(1) {
                let Some((counter, factor)) = column else { continue };
                if word.is_empty() || word == "NaN" {
                    continue;
                }
                let value = quantity(word).ok_or_else(|| format!("{number}: `{}` is not a number", shown(word)))?;
                self.add(at, *counter, value * factor);
            }
        }
        Ok(())
    }

    fn json(&mut self, text: &str) -> Result<(), String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("{}: {error}", error.line()))?;
        let answers = match &value {
            Value::Array(all) => &all[..],
            one => std::slice::from_ref(one),
        };
        for answer in answers {
            if answer.get("status").and_then(Value::as_str) == Some("error") {
                let why = answer.get("error").and_then(Value::as_str).unwrap_or("it does not say why");
                return Err(format!("1: this is no answer, Prometheus has refused the query: {}", shown_long(why)));
            }
            let result = answer.pointer("/data/result").or_else(|| answer.get("result")).unwrap_or(answer);
            let series = match result {
                Value::Array(all) => &all[..],
                one => std::slice::from_ref(one),
            };
            for one in series {
                let name = one.pointer("/metric/__name__").and_then(Value::as_str).unwrap_or_default();
                let Some((counter, factor)) = Counter::of(name) else { continue };
                if let Some(whose) = owner_of(one) {
                    self.owners.insert(whose);
                }
                let values = one.get("values").and_then(Value::as_array).ok_or("1: a series has no `values`")?;
                for pair in values {
                    let at = pair.get(0).and_then(Value::as_f64).and_then(in_seconds);
                    let value = pair.get(1).and_then(|value| match value {
                        Value::String(text) => quantity(text),
                        other => other.as_f64(),
                    });
                    match (at, value) {
                        (Some(at), Some(value)) => self.add(at, counter, value * factor),
                        _ => return Err(format!("1: a value of {name} is not [time, \"number\"]")),
                    }
                }
            }
        }
        // A limit is that of one: sums of several would be compared with it.
        let owners: Vec<&str> = self.owners.iter().map(String::as_str).collect();
        match owners[..] {
            [] | [_] => Ok(()),
            [first, ..] => Err(format!(
                "1: these are counters of {}: {}; a limit is that of one, so ask for one: {first}",
                owners.len(),
                owners.iter().take(OWNERS_SHOWN).copied().collect::<Vec<_>>().join(", ")
            )),
        }
    }
}

/// Returns whose counters a series has, as a selector: `{pod="web-0",container="app"}`;
/// `None` if it has no such label. Others, as that of the CPU, are parts of one owner.
fn owner_of(series: &Value) -> Option<String> {
    let label = |name: &str| Some((name.to_owned(), series.pointer("/metric")?.get(name)?.as_str()?.to_owned()));
    let of_pod = ["namespace", "pod", "container"].into_iter().filter_map(label);
    let mut labels: Vec<(String, String)> = of_pod.filter(|(_, value)| !value.is_empty()).collect();
    if labels.is_empty() {
        labels.extend(["name", "id"].into_iter().filter_map(label).take(1));
    }
    let text = |(name, value): &(String, String)| format!("{name}=\"{}\"", shown(value));
    let labels: Vec<String> = labels.iter().map(text).collect();
    (!labels.is_empty()).then(|| format!("{{{}}}", labels.join(",")))
}

/// How many owners a message names.
const OWNERS_SHOWN: usize = 5;

fn sample(at: f64, counters: &BTreeMap<Counter, f64>) -> Sample {
    let of = |counter| counters.get(&counter).copied();
    Sample {
        at,
        usage_us: of(Counter::Usage),
        periods: of(Counter::Periods),
        throttled: of(Counter::Throttled),
        throttled_us: of(Counter::ThrottledTime),
    }
}

/// Reads a time.
fn time(text: &str) -> Option<f64> {
    text.trim().trim_matches('"').parse::<f64>().ok().and_then(in_seconds).or_else(|| rfc3339(text.trim()))
}

fn in_seconds(number: f64) -> Option<f64> {
    let seconds = if number.abs() > 1e11 { number / 1e3 } else { number };
    (seconds.is_finite() && (0.0..1e11).contains(&seconds)).then_some(seconds)
}

/// Reads `2026-11-23T10:00:00Z`, also with a blank for the T and parts of seconds.
fn rfc3339(text: &str) -> Option<f64> {
    let (date, clock) = text.split_once(['T', ' '])?;
    let clock = clock.trim_end_matches('Z').trim_end_matches("+00:00");
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut clock = clock.split(':');
    let (hour, minute) = (clock.next()?.parse::<u32>().ok()?, clock.next()?.parse::<u32>().ok()?);
    let second: f64 = clock.next().unwrap_or("0").parse().ok()?;
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970 of the proleptic Gregorian calendar, with years that begin in March.
    let (y, m) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    in_seconds(days as f64 * 86_400.0 + f64::from(hour * 3600 + minute * 60) + second)
}

/// Reads a number that is not negative.
fn quantity(text: &str) -> Option<f64> {
    text.trim().trim_matches('"').parse::<f64>().ok().filter(|value| value.is_finite() && (0.0..1e18).contains(value))
}

/// Returns a word of a file for a message: short, without hidden characters.
fn shown(word: &str) -> String {
    visible(&word.chars().take(40).collect::<String>()).into_owned()
}

/// Returns a sentence of a file for a message.
fn shown_long(text: &str) -> String {
    visible(&text.chars().take(200).collect::<String>()).into_owned()
}

/// How samples of `cpu.stat` are collected.
pub const COLLECT: &str = "while sleep 10; do date +%s.%N; cat /sys/fs/cgroup/PATH/cpu.stat; done > FILE";

const FORMS: &str =
    "give repeated cpu.stat with times, CSV with the names of counters, or JSON of Prometheus' query_range";

/// The largest file.
const SIZE_MAX: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<Vec<Sample>, String> {
        let mut samples = Samples::default();
        for text in texts {
            samples.read("f", text.as_bytes()).map_err(|error| error.to_string())?;
        }
        Ok(samples.all())
    }

    fn answer(pods: &[&str]) -> String {
        let series = |pod: &&str| {
            let metric =
                format!("{{\"__name__\":\"container_cpu_cfs_periods_total\",\"pod\":\"{pod}\",\"container\":\"app\"}}");
            format!("{{\"metric\":{metric},\"values\":[[1700000000,\"10\"],[1700000010,\"20\"]]}}")
        };
        let all: Vec<String> = pods.iter().map(series).collect();
        format!("{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{}]}}}}", all.join(","))
    }

    #[test]
    fn counters_of_several_pods_are_not_added() {
        assert_eq!(read(&[&answer(&["web-0"])]).expect("one pod").len(), 2);
        let refused = read(&[&answer(&["web-0", "web-1"])]).expect_err("two limits");
        let says = "of 2: {pod=\"web-0\",container=\"app\"}, {pod=\"web-1\",container=\"app\"}; a limit is that of one";
        assert!(refused.contains(says), "{refused}");
        assert!(read(&[&answer(&["web-0"]), &answer(&["web-1"])]).is_err(), "in two files");
        let refused = read(&["{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"parse error\"}"]);
        assert!(refused.expect_err("no answer").contains("Prometheus has refused the query: parse error"));
        assert!(are_samples(b"{\"status\":\"error\",\"errorType\":\"bad_data\"}"));
    }

    #[test]
    fn every_form_gives_the_same_samples() {
        let stat = "1700000000.0\nusage_usec 1500000\nuser_usec 1\nnr_periods 10\nnr_throttled 2\nthrottled_usec 30\n\n1700000010\nusage_usec 2500000\nnr_periods 20\nnr_throttled 4\nthrottled_usec 60\n";
        let expected = read(&[stat]).expect("cpu.stat");
        assert_eq!(expected.len(), 2);
        let first = &expected[0];
        assert_eq!((first.at, first.usage_us, first.throttled_us), (1_700_000_000.0, Some(1_500_000.0), Some(30.0)));
        let csv = "time,container_cpu_usage_seconds_total{pod=\"a\",container=\"b\"},container_cpu_cfs_periods_total,container_cpu_cfs_throttled_periods_total,container_cpu_cfs_throttled_seconds_total\n2023-11-14T22:13:20Z,1.5,10,2,0.00003\n1700000010000,2.5,20,4,0.00006\n";
        let json = "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"__name__\":\"container_cpu_usage_seconds_total\"},\"values\":[[1700000000,\"1.5\"],[1700000010,\"2.5\"]]},{\"metric\":{\"__name__\":\"container_cpu_cfs_periods_total\"},\"values\":[[1700000000,\"10\"],[1700000010,\"20\"]]},{\"metric\":{\"__name__\":\"container_cpu_cfs_throttled_periods_total\"},\"values\":[[1700000000,\"2\"],[1700000010,\"4\"]]},{\"metric\":{\"__name__\":\"container_cpu_cfs_throttled_seconds_total\"},\"values\":[[1700000000,\"0.00003\"],[1700000010,\"0.00006\"]]}]}}";
        let apart = [
            "time;usage_usec\n1700000000;1500000\n1700000010;2500000\n",
            "time\tnr_periods\tnr_throttled\tthrottled_usec\n1700000000\t10\t2\t30\n1700000010\t20\t4\t60\n",
        ];
        for texts in [&[csv][..], &[json], &apart] {
            let found = read(texts).expect("samples");
            assert_eq!(found.len(), 2, "{texts:?}");
            for (found, expected) in found.iter().zip(&expected) {
                let of = |sample: &Sample| {
                    [Some(sample.at), sample.usage_us, sample.periods, sample.throttled, sample.throttled_us]
                };
                for (a, b) in of(found).into_iter().zip(of(expected)) {
                    assert!((a.unwrap_or(-1.0) - b.unwrap_or(-2.0)).abs() < 1e-6, "{texts:?}: {found:?} {expected:?}");
                }
            }
            assert!(texts.iter().all(|text| are_samples(text.as_bytes())));
        }
        assert!(are_samples(stat.as_bytes()) && !are_samples(b"[machine]\ncpus = 2\n") && !are_samples(b""));
    }

    #[test]
    fn one_dump_without_a_time_counts_since_the_group_was_created() {
        let mut samples = Samples::default();
        samples.read("f", b"usage_usec 5000\nnr_periods 7\nnr_throttled 2\nthrottled_usec 30\n").expect("one dump");
        assert_eq!((samples.all(), samples.periods_since_creation()), (Vec::new(), Some(7.0)));
        let found = samples.since_creation(0.7).expect("no times beside it").expect("a dump");
        assert_eq!((found.at, found.usage_us, found.throttled_us), (0.7, Some(5000.0), Some(30.0)));
        samples.read("g", b"1\nusage_usec 5000\nnr_periods 7\n").expect("with a time");
        assert!(samples.since_creation(0.7).is_err_and(|error| error.to_string().contains("some have none")));
    }

    #[test]
    fn mistakes_have_their_line() {
        for (text, part) in [
            ("", "no samples"),
            ("usage_usec 1\nnr_periods 2\nusage_usec 3\n", "f:3: no time stands before the second"),
            ("1\nusage_usec x\nnr_periods 1\n", "f:2: `x` is not a number"),
            ("1\nusage_usec 1 2\nnr_periods 1\n", "f:2: `usage_usec` has more than one value"),
            ("time,b\n1,2\n", "names no counter"),
            ("time,nr_throttled,usage_usec\n1,2,3\nsoon,2,3\n", "f:3: `soon` is not a time"),
            ("time,nr_throttled\n1,-2\n", "f:2: `-2` is not a number"),
            ("time,nr_throttled\n1,\u{1b}]0;x\n", "f:2: `?]0;x` is not a number"),
            ("{\"a\":", "f:1: EOF"),
            ("{\"metric\":{\"__name__\":\"nr_periods\"},\"values\":[[1]]}", "is not [time"),
            ("{}", "no samples"),
        ] {
            let error = read(&[text]).expect_err(text);
            assert!(error.contains(part), "{text:?}: {error}");
        }
        let whole = "time,nr_throttled,usage_usec\n1,2,3\n2,2,3\n";
        (0..whole.len()).for_each(|end| drop(read(&[&whole[..end]])));
    }
}

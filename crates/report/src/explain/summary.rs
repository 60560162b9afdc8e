//! [`Summary`]: all waits by cause, before any example.
//!
//! The longest waits are examples. Whether their cause is what the workload suffers from shows only
//! in the sums: over all waits, and over the longest 1 % of them, which decide percentiles. The two
//! can differ: many short waits behind equals, and a few long ones in a throttled group.
//!
//! The tail is known only at the end, and a run has millions of waits. So the sums are kept by
//! length, in buckets of 1/32 of an octave: the memory does not depend on the number of waits.

use super::cause::Kind;
use crate::human::Human;
use crate::table::{Align, Table};
use core::fmt;
use std::collections::BTreeMap;
use zerolag_model::{CpuId, Duration, Instant};

/// The causes of all waits of the selected tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// The number of waits.
    pub count: u64,
    /// Their time together.
    pub total: Duration,
    /// The lower bound of the tail: at least 1 % of the waits are as long, and no more than its
    /// bucket needs.
    pub tail_from: Duration,
    /// The number of waits in the tail.
    pub tail_count: u64,
    /// The time of the tail.
    pub tail: Duration,
    /// The waits that are longer than a goal allows; `None` without a goal.
    pub missed: Option<Missed>,
    /// The causes, the largest total first. Their times add up to the total and to the tail.
    pub causes: Vec<CauseShare>,
    /// The waits of tasks of one definition that have the same main cause, the largest total first.
    pub episodes: Vec<Episodes>,
}

/// The waits that are longer than a goal allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missed {
    /// The goal, as written; several are separated by commas.
    pub goal: String,
    /// Their number.
    pub count: u64,
    /// Their time together.
    pub total: Duration,
}

/// A cause and its part of all waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CauseShare {
    /// The clause, after the name of a waiting task. It names no CPU, instance or time.
    pub says: String,
    /// Its kind.
    pub kind: Kind,
    /// The tasks that it kept, the largest total first. Their times add up to its total.
    pub tasks: Vec<TaskShare>,
    /// Its time over all waits.
    pub total: Duration,
    /// Its time over the waits of the tail.
    pub tail: Duration,
    /// Its time over the waits that are longer than a goal allows.
    pub missed: Duration,
    /// The number of waits in which it occurs.
    pub waits: u64,
    /// Its longest time in one wait.
    pub longest: Duration,
}

/// Tasks of one definition and their part of a cause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskShare {
    /// The tasks: a name, or the part of it that instances share.
    pub tasks: String,
    /// Their time.
    pub total: Duration,
    /// The time by CPU, the largest first; `None` where the cause is about no CPU.
    pub places: Vec<(Option<CpuId>, Duration)>,
}

/// Waits of alike tasks with the same main cause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Episodes {
    /// The tasks: a name, or the part of it that instances share.
    pub tasks: String,
    /// The cause that took the largest part of each wait.
    pub mostly: String,
    /// The number of waits.
    pub waits: u64,
    /// Their time together.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
    /// The start of the first.
    pub first: Instant,
}

/// A time by the length of the waits that it is part of.
type ByLength<T> = BTreeMap<u64, T>;

/// The summary of a trace that is being read.
#[derive(Debug, Default)]
pub(super) struct Counting {
    waits: ByLength<(u64, Duration)>,
    causes: BTreeMap<String, CauseCount>,
    episodes: BTreeMap<(String, String), Episodes>,
    missed: Option<Missed>,
}

/// The causes of one wait by their clause.
pub(super) type Parts = BTreeMap<String, Part>;

/// A cause of one wait: its kind, and its time by CPU.
#[derive(Debug, Default)]
pub(super) struct Part {
    kind: Kind,
    places: BTreeMap<Option<CpuId>, Duration>,
}

impl Part {
    /// Adds a time on a CPU.
    pub(super) fn add(&mut self, kind: Kind, cpu: Option<CpuId>, time: Duration) {
        self.kind = kind;
        *self.places.entry(cpu).or_default() += time;
    }

    fn time(&self) -> Duration {
        self.places.values().copied().sum()
    }
}

#[derive(Debug, Default)]
struct CauseCount {
    kind: Kind,
    tasks: BTreeMap<String, BTreeMap<Option<CpuId>, Duration>>,
    times: ByLength<Duration>,
    missed: Duration,
    waits: u64,
    longest: Duration,
}

impl Counting {
    /// Returns an empty count of waits that a goal is about.
    pub(super) fn with_goal(goal: String) -> Self {
        Self { missed: Some(Missed { goal, count: 0, total: Duration::ZERO }), ..Self::default() }
    }

    /// Counts a wait: its tasks, start, length, the times of its causes, and whether it is longer
    /// than a goal allows.
    pub(super) fn count(&mut self, tasks: String, from: Instant, length: Duration, parts: &Parts, misses: bool) {
        if let Some(missed) = self.missed.as_mut().filter(|_| misses) {
            missed.count += 1;
            missed.total += length;
        }
        let bucket = bucket(length);
        let (count, total) = self.waits.entry(bucket).or_default();
        *count += 1;
        *total += length;
        for (says, part) in parts {
            let cause = entry(&mut self.causes, says);
            let time = part.time();
            *cause.times.entry(bucket).or_default() += time;
            if misses {
                cause.missed += time;
            }
            cause.waits += 1;
            cause.longest = cause.longest.max(time);
            cause.kind = part.kind;
            let places = entry(&mut cause.tasks, &tasks);
            part.places.iter().for_each(|(cpu, time)| *places.entry(*cpu).or_default() += *time);
        }
        // Of equal parts the first by name counts.
        let Some((mostly, _)) = parts.iter().rev().max_by_key(|(_, part)| part.time()) else { return };
        let fresh = Episodes {
            tasks: tasks.clone(),
            mostly: mostly.clone(),
            waits: 0,
            total: Duration::ZERO,
            longest: Duration::ZERO,
            first: from,
        };
        let episodes = self.episodes.entry((tasks, mostly.clone())).or_insert(fresh);
        episodes.waits += 1;
        episodes.total += length;
        episodes.longest = episodes.longest.max(length);
    }

    pub(super) fn finish(self) -> Summary {
        let count = self.waits.values().map(|(count, _)| count).sum::<u64>();
        let (mut tail_count, mut tail, mut tail_from) = (0, Duration::ZERO, 0);
        for (bucket, (waits, time)) in self.waits.iter().rev() {
            if tail_count * 100 >= count {
                break;
            }
            tail_count += waits;
            tail += *time;
            tail_from = *bucket;
        }
        let of_tasks = |(tasks, places): (String, BTreeMap<Option<CpuId>, Duration>)| {
            let total = places.values().copied().sum();
            let mut places: Vec<_> = places.into_iter().collect();
            places.sort_by_key(|(_, time)| core::cmp::Reverse(*time));
            TaskShare { tasks, total, places }
        };
        let by_task = |tasks: BTreeMap<String, BTreeMap<Option<CpuId>, Duration>>| {
            let mut tasks: Vec<TaskShare> = tasks.into_iter().map(of_tasks).collect();
            tasks.sort_by_key(|share| core::cmp::Reverse(share.total));
            tasks
        };
        let share = |(says, cause): (String, CauseCount)| CauseShare {
            says,
            kind: cause.kind,
            tasks: by_task(cause.tasks),
            total: cause.times.values().copied().sum(),
            tail: cause.times.range(tail_from..).map(|(_, time)| *time).sum(),
            missed: cause.missed,
            waits: cause.waits,
            longest: cause.longest,
        };
        let mut causes: Vec<CauseShare> = self.causes.into_iter().map(share).collect();
        causes.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.says.cmp(&b.says)));
        let mut episodes: Vec<Episodes> = self.episodes.into_values().collect();
        episodes.sort_by_key(|episodes| core::cmp::Reverse(episodes.total));
        Summary {
            count,
            total: self.waits.values().map(|(_, time)| *time).sum(),
            tail_from: Duration::from_nanos(tail_from),
            tail_count,
            tail,
            missed: self.missed,
            causes,
            episodes,
        }
    }
}

/// Returns the entry of a key, which is copied only if it is new.
fn entry<'m, T: Default>(map: &'m mut BTreeMap<String, T>, key: &str) -> &'m mut T {
    if !map.contains_key(key) {
        map.insert(key.to_owned(), T::default());
    }
    map.get_mut(key).expect("it has just been inserted")
}

/// Returns the lower bound of the bucket of a length: its six highest bits.
const fn bucket(length: Duration) -> u64 {
    let nanos = length.as_nanos();
    let dropped = (u64::BITS - nanos.leading_zeros()).saturating_sub(6);
    (nanos >> dropped) << dropped
}

/// How many rows of a table the text shows.
pub(super) const SHOWN: usize = 8;
/// How many parts a sentence names.
const REASONS: usize = 3;

impl Summary {
    /// Returns the causes as a table: the largest first, the smallest in one row.
    #[must_use]
    pub fn causes_table(&self, shown: usize) -> Table {
        let missed = self.missed.as_ref().filter(|missed| missed.count > 0);
        let mut heads = vec![("of all", Align::Right), ("of the tail", Align::Right)];
        heads.extend(missed.map(|_| ("of those that miss", Align::Right)));
        let (right, left) = (["total", "longest", "waits"], ("cause", Align::Left));
        heads.extend(right.map(|head| (head, Align::Right)));
        heads.push(left);
        let mut table = Table::new(&heads);
        let human = |time: Duration| Human(time).to_string();
        let mut push = |[total, tail, of_missed]: [Duration; 3], longest, waits: String, says: String| {
            let shares = [percent(total, self.total), percent(tail, self.tail)];
            let of_missed = missed.map(|missed| percent(of_missed, missed.total));
            table.push(shares.into_iter().chain(of_missed).chain([human(total), longest, waits, says]));
        };
        let (first, rest) = self.causes.split_at(shown.min(self.causes.len()));
        for cause in first {
            let times = [cause.total, cause.tail, cause.missed];
            push(times, human(cause.longest), cause.waits.to_string(), cause.says.clone());
        }
        if !rest.is_empty() {
            let sum = |time: fn(&CauseShare) -> Duration| rest.iter().map(time).sum();
            let plural = if rest.len() == 1 { "" } else { "s" };
            let says = format!("{} other cause{plural}", rest.len());
            let times = [sum(|cause| cause.total), sum(|cause| cause.tail), sum(|cause| cause.missed)];
            push(times, String::new(), String::new(), says);
        }
        table
    }

    /// Returns what the sums are of, without a full stop; `what` is waits or requests.
    #[must_use]
    pub fn sentence(&self, what: &str) -> String {
        let Self { count, tail_count, .. } = self;
        if self.total.is_zero() {
            return format!("{count} {what}, none of them takes time");
        }
        let (total, tail_from, tail) = (Human(self.total), Human(self.tail_from), Human(self.tail));
        let missed = self.missed.as_ref().map_or_else(String::new, |Missed { goal, count, total }| match count {
            0 => format!("; none is beyond {goal}"),
            count => format!("; {count} are beyond {goal}, and take {}", Human(*total)),
        });
        format!(
            "{count} {what} take {total} together; the tail, {tail_count} of at least {tail_from}, takes {tail}{missed}"
        )
    }

    /// Returns the largest parts of what is beyond the goal, as a sentence without a full stop;
    /// `None` if nothing is.
    #[must_use]
    pub fn why_missed(&self, what: &str) -> Option<String> {
        let Missed { goal, count, total } = self.missed.as_ref().filter(|missed| missed.count > 0)?;
        let parts = self.largest(*total, |cause| cause.missed);
        Some(format!("{count} of {} {what} are beyond {goal}; of their time {parts}", self.count))
    }

    /// Returns the largest parts of all waits, and of the tail if those are others, as a sentence
    /// without a full stop; `what` is waits or requests. `None` if none takes time.
    #[must_use]
    pub fn mostly(&self, what: &str) -> Option<String> {
        let Self { count, total, tail, tail_count, .. } = self;
        let first = |time: fn(&CauseShare) -> Duration| self.causes.iter().max_by_key(|cause| time(cause));
        let (of_all, of_tail) = (first(|cause| cause.total)?, first(|cause| cause.tail)?);
        let of_tail = match of_tail == of_all {
            true => String::new(),
            false => format!(
                "; {} of the tail, {tail_count} of at least {}, {}",
                percent(of_tail.tail, *tail),
                Human(self.tail_from),
                of_tail.says
            ),
        };
        let parts = self.largest(*total, |cause| cause.total);
        (!total.is_zero()).then(|| format!("{count} {what} take {} together: {parts}{of_tail}", Human(*total)))
    }

    /// Returns the largest parts of a time, those of less than a percent left out.
    fn largest(&self, whole: Duration, time: fn(&CauseShare) -> Duration) -> String {
        let is_large = |cause: &&CauseShare| time(cause).as_nanos() >= whole.as_nanos() / 100;
        let mut causes: Vec<&CauseShare> = self.causes.iter().filter(is_large).collect();
        causes.sort_by_key(|cause| core::cmp::Reverse(time(cause)));
        let part = |cause: &&CauseShare| format!("{} {}", percent(time(cause), whole), cause.says);
        causes.iter().take(REASONS).map(part).collect::<Vec<_>>().join(", ")
    }

    /// Returns the episodes as a table: the largest first, the smallest in one row.
    #[must_use]
    pub fn episodes_table(&self, shown: usize) -> Table {
        let mut table = Table::new(&[
            ("task", Align::Left),
            ("waits", Align::Right),
            ("total", Align::Right),
            ("longest", Align::Right),
            ("first at", Align::Right),
            ("mostly", Align::Left),
        ]);
        let human = |time: Duration| Human(time).to_string();
        let (first, rest) = self.episodes.split_at(shown.min(self.episodes.len()));
        for row in first {
            let Episodes { tasks, mostly, waits, total, longest, first } = row.clone();
            table.push([tasks, waits.to_string(), human(total), human(longest), first.to_string(), mostly]);
        }
        if !rest.is_empty() {
            let waits = rest.iter().map(|row| row.waits).sum::<u64>().to_string();
            let total = human(rest.iter().map(|row| row.total).sum());
            let longest = human(rest.iter().map(|row| row.longest).max().unwrap_or_default());
            table.push(["others".to_owned(), waits, total, longest]);
        }
        table
    }
}

/// Returns a part in percent of a whole; "-" of nothing.
#[must_use]
pub fn percent(part: Duration, whole: Duration) -> String {
    if whole.is_zero() {
        return "-".to_owned();
    }
    let thousandths = u128::from(part.as_nanos()) * 1000 / u128::from(whole.as_nanos());
    format!("{}.{}%", thousandths / 10, thousandths % 10)
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.sentence("waits"))?;
        match self.total.is_zero() {
            true => Ok(()),
            false => write!(f, "\n{}\n{}", self.causes_table(SHOWN), self.episodes_table(SHOWN)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn parts<const N: usize>(parts: [(&str, Kind, u32, Duration); N]) -> Parts {
        let mut found = Parts::new();
        for (says, kind, cpu, time) in parts {
            found.entry(says.to_owned()).or_default().add(kind, Some(CpuId(cpu)), time);
        }
        found
    }

    fn counted() -> Summary {
        let mut counting = Counting::with_goal("batch.wait.max <= 101ms".to_owned());
        let behind = |time| parts([("is queued", Kind::Queued, 0, time)]);
        for at in 0..198 {
            counting.count("web-*".to_owned(), Instant::from_nanos(at), ms(1), &behind(ms(1)), false);
        }
        let throttled = parts([("is queued", Kind::Queued, 1, ms(20)), ("is throttled", Kind::Throttled, 1, ms(80))]);
        counting.count("web-*".to_owned(), Instant::from_nanos(300), ms(100), &throttled, false);
        counting.count("batch".to_owned(), Instant::from_nanos(400), ms(102), &behind(ms(102)), true);
        counting.finish()
    }

    #[test]
    fn causes_add_up_over_all_waits_and_over_the_tail() {
        let found = counted();
        assert_eq!((found.count, found.total), (200, ms(400)));
        assert_eq!((found.tail_count, found.tail), (2, ms(202)));
        assert!(found.tail_from <= ms(100) && found.tail_from > ms(90), "{:?}", found.tail_from);
        assert_eq!(found.causes.iter().map(|cause| cause.total).sum::<Duration>(), found.total);
        assert_eq!(found.causes.iter().map(|cause| cause.tail).sum::<Duration>(), found.tail);
        let first = &found.causes[0];
        assert_eq!((&*first.says, first.total, first.tail), ("is queued", ms(320), ms(122)));
        assert_eq!((first.waits, first.longest), (200, ms(102)));
    }

    #[test]
    fn a_cause_is_divided_by_task_and_by_cpu() {
        let found = counted();
        let [queued, throttled] = &found.causes[..] else { panic!("two causes: {found:?}") };
        assert_eq!((queued.kind, throttled.kind), (Kind::Queued, Kind::Throttled));
        let [web, batch] = &queued.tasks[..] else { panic!("two tasks: {queued:?}") };
        assert_eq!((&*web.tasks, web.total, &*batch.tasks, batch.total), ("web-*", ms(218), "batch", ms(102)));
        assert_eq!(web.places, [(Some(CpuId(0)), ms(198)), (Some(CpuId(1)), ms(20))]);
        for cause in &found.causes {
            assert_eq!(cause.tasks.iter().map(|share| share.total).sum::<Duration>(), cause.total);
        }
        let says = "200 waits take 400ms together: 80.0% is queued, 20.0% is throttled";
        assert_eq!(found.mostly("waits").as_deref(), Some(says));
        let mut counting = Counting::default();
        for (at, length) in [1, 1, 1, 1, 3].iter().cycle().take(99).chain([&90]).enumerate() {
            let (says, kind) =
                if *length < 90 { ("is queued", Kind::Queued) } else { ("is throttled", Kind::Throttled) };
            let at = Instant::from_nanos(at as u64);
            counting.count("a".to_owned(), at, ms(*length), &parts([(says, kind, 0, ms(*length))]), false);
        }
        let other = "100 waits take 227ms together: 60.3% is queued, 39.6% is throttled; \
                     100.0% of the tail, 1 of at least 88.1ms, is throttled";
        assert_eq!(counting.finish().mostly("waits").as_deref(), Some(other));
        assert_eq!(Counting::default().finish().mostly("waits"), None);
    }

    #[test]
    fn waits_are_grouped_by_task_and_main_cause() {
        let found = counted();
        let rows = found.episodes.iter().map(|row| (&*row.tasks, &*row.mostly, row.waits, row.longest));
        let expected = [
            ("web-*", "is queued", 198, ms(1)),
            ("batch", "is queued", 1, ms(102)),
            ("web-*", "is throttled", 1, ms(100)),
        ];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
        assert_eq!(found.episodes[2].first, Instant::from_nanos(300));
    }

    #[test]
    fn the_text_sums_the_causes_that_it_does_not_show() {
        let missed = counted().missed.expect("a goal");
        assert_eq!((missed.count, missed.total), (1, ms(102)));
        let table = counted().causes_table(1).to_string();
        assert!(
            table.contains(" 80.0%        60.3%              100.0%   320ms") && table.contains("1 other cause\n"),
            "{table}"
        );
        assert!(counted().to_string().contains("; 1 are beyond batch.wait.max <= 101ms, and take 102ms\n"));
        assert_eq!(Counting::default().finish().to_string(), "0 waits, none of them takes time\n");
    }

    #[test]
    fn a_bucket_is_at_most_a_32nd_below_the_length() {
        for nanos in [0, 1, 63, 64, 65, 1_000_003, u64::MAX] {
            let low = bucket(Duration::from_nanos(nanos));
            assert!(low <= nanos && nanos - low <= nanos / 32, "{nanos}: {low}");
        }
    }
}

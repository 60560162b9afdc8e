//! [`bisect`]: which settings explain the difference of two variants, and which known bugs matter.
//!
//! Two kernels differ in dozens of settings, and most of them matter to no figure of a workload.
//! The wanted answer is a small set of settings whose switch, from the first kernel's values to
//! the last one's, makes the difference. Neither of the two obvious searches finds it:
//!
//! * Growing a set by the setting that explains most of the rest stalls where no single setting
//!   helps: a bug of the fair server does nothing to a kernel without the server.
//! * Shrinking the full set finds a set from which nothing can be removed, but seldom the smallest
//!   one, and treats settings that add up as one heap.
//!
//! So both are done: the set grows while that helps; if it stalls, the full set is shrunk (delta
//! debugging: Zeller & Hildebrandt 2002, `ddmin`), those settings first that change the figure
//! when they alone are switched, or alone are switched back. Shares can add up to more or less
//! than the whole, because settings interact.
//!
//! A figure is one view of a difference, and another setting can be behind it than the bug that is
//! looked for. So every known bug that only one of the two kernels has is also tried for itself:
//! it matters if switching its setting alone, in the first or the last kernel, changes any figure.
//!
//! Complexity: for `n` settings that differ and `f` bugs, at most `n + f` + [`TRIALS_MAX`]
//! variants are run.
//!
//! Differs: `ddmin` also splits what it could not shrink down to single settings, so its answer is
//! minimal; a search that reaches [`TRIALS_MAX`] is cut and says so.

use super::{ComparedFigure, Comparison, MACHINE, Range, Variant, in_json, run};
use crate::error::Error;
use crate::simulation::Plan;
use crate::variant::Label;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::ControlFlow;
use zerolag_model::Settings;
use zerolag_report::figure::{Amount, Figure, Quantity, Unit};
use zerolag_report::table::{Align, Table};

/// The settings behind the change of a figure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct BisectedFigure<'a> {
    /// The owner of the figure.
    owner: &'a str,
    /// The name of the figure.
    figure: String,
    /// The unit of `first` and `last`: `ns`, `count`, `percent` or `per_second`.
    unit: &'static str,
    /// Its mean under the first variant.
    first: f64,
    /// Its mean under the last variant.
    last: f64,
    /// Whether the settings with a `together_share` explain the difference.
    explained: bool,
    /// Whether the search for more of them ended at its largest number of runs.
    cut: bool,
    /// All settings that differ: those of the answer first, then by their share.
    settings: Vec<SwitchedSetting<'a>>,
    /// The known bugs that only one of the two variants has.
    faults: Vec<TriedFault<'a>>,
}

/// A setting that differs between two variants.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SwitchedSetting<'a> {
    /// Its key, as after `--set`.
    key: &'a str,
    /// Its value in the first variant.
    from: &'a str,
    /// Its value in the last variant.
    to: &'a str,
    /// The share of the difference that switching it alone makes; null if it is refused alone.
    alone_share: Option<f64>,
    /// The share with this setting and those before it, if it is part of the answer.
    together_share: Option<f64>,
}

/// A known bug that one of two variants has.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct TriedFault<'a> {
    /// Its name, as in `zerolag settings --faults`.
    name: &'a str,
    /// The variant that has it: `first` or `last`.
    of: &'static str,
    /// The figure that it changes most; null if it changes none.
    matters: Option<FaultEffect<'a>>,
}

/// The effect of a known bug on a figure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct FaultEffect<'a> {
    /// The owner of the figure.
    owner: &'a str,
    /// The name of the figure.
    figure: String,
    /// The unit of `with` and `without`: `ns`, `count`, `percent` or `per_second`.
    unit: &'static str,
    /// Its mean with the bug.
    with: f64,
    /// Its mean without, everything else the same.
    without: f64,
}

/// A setting that differs between two plans, and the share of a difference that it makes alone.
#[derive(Clone, PartialEq, Debug)]
pub struct Switched {
    /// Its key.
    pub key: String,
    /// Its value in the first plan.
    pub from: String,
    /// Its value in the last plan.
    pub to: String,
    /// The share of the difference that switching it alone makes; 1 is all of it. None if the
    /// simulation refuses it alone.
    pub alone: Option<f64>,
    /// The share with this setting and those before it in the order of the answer, if it is part of
    /// the answer.
    pub together: Option<f64>,
}

/// A known bug that only one of two variants has, tried for itself.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Tried {
    /// Its name, as in `zerolag settings --faults`.
    pub name: String,
    /// Whether the first variant has it; else the last one has.
    pub is_in_first: bool,
    /// The figure that it changes most; `None` if it changes none by more than seeds do.
    pub matters: Option<Effect>,
}

/// The effect of a setting on a figure, everything else being the same.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Effect {
    /// The owner of the figure.
    pub owner: String,
    /// The figure.
    pub figure: Figure,
    /// Its means with the bug and without.
    pub means: (f64, f64),
}

/// Which settings explain the difference of a figure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Bisection {
    /// The owner of the figure.
    pub owner: String,
    /// The figure.
    pub figure: Figure,
    /// Its means under the first and the last variant.
    pub means: (f64, f64),
    /// All settings that differ: those of the answer first, then by their share.
    pub settings: Vec<Switched>,
    /// Whether the answer explains the difference, within [`EXPLAINED`].
    pub is_explained: bool,
    /// Whether the search ended because it had run too many variants.
    pub is_cut: bool,
    /// The known bugs that only one of the two variants has, in the order of
    /// [`Settings::FAULTS`].
    pub faults: Vec<Tried>,
}

/// The share of a difference from which it counts as explained.
pub const EXPLAINED: f64 = 0.9;

/// The least share of the difference that a further setting of an answer explains.
const GAIN: f64 = 0.02;

/// The most settings that an answer grows to; one that is shrunk to can have more.
const GROWN_MAX: usize = 6;

/// The most variants that are run beside those in which one setting is switched.
const TRIALS_MAX: u64 = 300;

/// Below these differences a figure is explained only if no other has changed: times are those of
/// the costs of operations, and no user notices them.
const SMALL_NS: f64 = 100_000.0;
const SMALL_SHARE: f64 = 10_000.0;

/// Figures in the order in which one of the same rank is explained.
const URGENCY: [&str; 12] = [
    "timers.missed",
    "requests.dropped",
    "request_latency.p99",
    "request_latency.max",
    "wait.max",
    "wakeup_latency.max",
    "wakeup_latency.p99",
    "wakeup_latency.p50",
    "throttled",
    "share",
    "preemptions",
    "migrations",
];

/// Returns whether a change can be noticed: a time of 0.1 ms, a share of one point, a deadline, a
/// request.
fn is_noticed(row: &ComparedFigure, by: f64) -> bool {
    match row.figure.unit() {
        Unit::Time => by >= SMALL_NS,
        Unit::Share => by >= SMALL_SHARE,
        Unit::Rate => true,
        Unit::Count => matches!(row.figure.quantity, Quantity::TimersMissed | Quantity::RequestsDropped),
    }
}

/// Compares two changed rows: the one to explain is the greater. In this order: changes that can
/// be noticed; the distance of the two ranges over the seeds, relative to the larger mean, in
/// percent; the urgency of the figure; then the first of the table.
fn by_rank(one: &ComparedFigure, other: &ComparedFigure) -> Ordering {
    let rank = |row: &ComparedFigure| {
        let Some((first, last)) = row.ends() else { return (false, 0, 0) };
        let apart = (last.min - first.max).max(first.min - last.max).max(0.0);
        let relative = apart / first.mean.abs().max(last.mean.abs()).max(f64::MIN_POSITIVE);
        let key = row.figure.key();
        let urgency = URGENCY.iter().rev().position(|known| *known == key).map_or(0, |at| at + 1);
        (is_noticed(row, (first.mean - last.mean).abs()), (relative * 100.0).round() as u64, urgency)
    };
    rank(one).cmp(&rank(other))
}

/// Returns the changed row with the greatest rank, the first of these.
pub(crate) fn most_changed<'r>(rows: impl Iterator<Item = &'r ComparedFigure>) -> Option<&'r ComparedFigure> {
    rows.filter(|row| row.owner != MACHINE && row.has_changed())
        .reduce(|best, row| if by_rank(row, best) == Ordering::Greater { row } else { best })
}

/// A setting that differs: its key and its values.
struct Differing {
    key: &'static str,
    from: String,
    to: String,
}

/// Variants with some settings switched, each run once.
struct Trials<'t, P> {
    first: &'t Variant,
    differing: Vec<Differing>,
    /// The figure that is explained, and its means under the first and the last variant.
    row: &'t ComparedFigure,
    means: (f64, f64),
    runs: u64,
    progress: P,
    /// The rows of each set of settings that was run; `None` if it is refused.
    known: BTreeMap<BTreeSet<usize>, Option<Vec<ComparedFigure>>>,
    /// Variants that can still be run, and whether one more was wanted.
    left: u64,
    is_cut: bool,
}

impl<P: FnMut(u64) -> ControlFlow<()>> Trials<'_, P> {
    /// Returns the figures with these settings switched; `None` if they are refused together, or
    /// too many variants were run.
    fn rows(&mut self, set: &BTreeSet<usize>) -> Result<Option<&[ComparedFigure]>, Error> {
        if !self.known.contains_key(set) {
            if self.left == 0 {
                self.is_cut = true;
                return Ok(None);
            }
            self.left -= 1;
            let rows = self.ran(set)?;
            self.known.insert(set.clone(), rows);
        }
        Ok(self.known.get(set).and_then(|rows| rows.as_deref()))
    }

    fn ran(&mut self, set: &BTreeSet<usize>) -> Result<Option<Vec<ComparedFigure>>, Error> {
        let mut settings: Settings = self.first.plan.config.settings.clone();
        let mut switched = set.iter().map(|at| &self.differing[*at]);
        if switched.any(|setting| settings.set(setting.key, &setting.to).is_err()) {
            return Ok(None);
        }
        let mut plan: Plan = self.first.plan.clone();
        plan.config.settings = settings;
        let variant = Variant { label: Label::of_values(Vec::new(), "switched"), plan };
        let done = self.known.len() as u64 * self.runs;
        match run(std::slice::from_ref(&variant), self.runs, |run| (self.progress)(done + run)) {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(_) => Ok(None),
            Ok(compared) => Ok(Some(compared.rows)),
        }
    }

    /// Returns the share of the difference that switching these settings makes.
    fn share(&mut self, set: &BTreeSet<usize>) -> Result<Option<f64>, Error> {
        let (row, means) = (self.row, self.means);
        let rows = self.rows(set)?;
        Ok(rows.and_then(|rows| value_of(rows, row)).map(|of| (of.mean - means.0) / (means.1 - means.0)))
    }

    fn explains(&mut self, set: &BTreeSet<usize>) -> Result<bool, Error> {
        Ok(self.share(set)?.is_some_and(is_enough))
    }

    fn all(&self) -> BTreeSet<usize> {
        (0..self.differing.len()).collect()
    }

    /// Returns the set with all settings switched but this one.
    fn without(&self, at: usize) -> BTreeSet<usize> {
        (0..self.differing.len()).filter(|other| *other != at).collect()
    }

    /// Grows an answer: each further setting is that which explains most of the rest. Ends when it
    /// is explained, or none of the candidates helps.
    fn grow(&mut self, candidates: &[usize]) -> Result<Vec<(usize, f64)>, Error> {
        let mut answer: Vec<(usize, f64)> = Vec::new();
        while answer.len() < GROWN_MAX {
            let reached = answer.last().map_or(0.0, |(_, share)| *share);
            if is_enough(reached) {
                break;
            }
            let Some((at, share)) = self.next(&answer, candidates)? else { break };
            // A setting that explains nothing of the rest is no part of an answer.
            if distance(share) + GAIN > distance(reached) {
                break;
            }
            answer.push((at, share));
        }
        Ok(answer)
    }

    /// Returns the candidate with which an answer explains most; the first of these.
    fn next(&mut self, answer: &[(usize, f64)], candidates: &[usize]) -> Result<Option<(usize, f64)>, Error> {
        let mut best: Option<(usize, f64)> = None;
        for at in candidates.iter().filter(|at| answer.iter().all(|(chosen, _)| chosen != *at)) {
            let set = answer.iter().map(|(chosen, _)| *chosen).chain([*at]).collect();
            let Some(share) = self.share(&set)? else { continue };
            if best.is_none_or(|(_, least)| distance(share) < distance(least)) {
                best = Some((*at, share));
            }
        }
        Ok(best)
    }

    /// Shrinks a set that explains the difference to one from which no part can be removed. The
    /// order of the set decides which of several is found.
    fn shrink(&mut self, mut set: Vec<usize>) -> Result<Vec<usize>, Error> {
        let mut parts = 2;
        while set.len() > 1 && !self.is_cut {
            let size = set.len().div_ceil(parts);
            let chunks: Vec<Vec<usize>> = set.chunks(size).map(<[usize]>::to_vec).collect();
            let others = |chunk: &Vec<usize>| set.iter().copied().filter(|at| !chunk.contains(at)).collect();
            let rests: Vec<Vec<usize>> = chunks.iter().map(others).collect();
            let smaller = chunks.into_iter().map(|chunk| (chunk, 2)).chain(
                // With two parts the rest of one is the other.
                rests.into_iter().filter(|_| parts > 2).map(|rest| (rest, (parts - 1).max(2))),
            );
            let mut found = None;
            for (candidate, next) in smaller {
                if self.explains(&candidate.iter().copied().collect())? {
                    found = Some((candidate, next));
                    break;
                }
            }
            (set, parts) = match found {
                Some((smaller, next)) => (smaller, next),
                None if parts < set.len() => {
                    let finer = (2 * parts).min(set.len());
                    (set, finer)
                }
                None => break,
            };
        }
        Ok(set)
    }

    /// Shrinks the full set to an answer, in the order in which it grows best; empty if the full
    /// set does not explain the difference: then it is not of settings alone.
    fn shrunk(&mut self, alone: &[Option<f64>]) -> Result<Vec<(usize, f64)>, Error> {
        let all = self.all();
        if !self.explains(&all)? {
            return Ok(Vec::new());
        }
        // How much the figure depends on a setting, alone in the first kernel or in the last.
        let mut weights = Vec::new();
        for (at, alone) in alone.iter().enumerate() {
            let set = self.without(at);
            let back = self.share(&set)?.map_or(0.0, |share| (1.0 - share).abs());
            weights.push((at, alone.map_or(0.0, f64::abs).max(back)));
        }
        weights.sort_by(|a, b| b.1.total_cmp(&a.1));
        let dependent: Vec<usize> = weights.iter().filter(|(_, weight)| *weight >= GAIN).map(|(at, _)| *at).collect();
        let is_among_these = self.explains(&dependent.iter().copied().collect())?;
        let from = if is_among_these { dependent } else { weights.into_iter().map(|(at, _)| at).collect() };
        let mut rest = self.shrink(from)?;
        let mut answer: Vec<(usize, f64)> = Vec::new();
        while !rest.is_empty() {
            // One that is refused without the others stays in the order of the weights.
            let next = if rest.len() > GROWN_MAX { None } else { self.next(&answer, &rest)? };
            let (at, share) = match next {
                Some(next) => next,
                None => {
                    let set = answer.iter().map(|(at, _)| *at).chain([rest[0]]).collect();
                    let reached = answer.last().map_or(0.0, |(_, share)| *share);
                    (rest[0], self.share(&set)?.unwrap_or(reached))
                }
            };
            rest.retain(|other| *other != at);
            answer.push((at, share));
        }
        Ok(answer)
    }

    /// Returns the effect of switching a setting on the figure that it changes most: first switched
    /// alone in the first variant, then switched back in the last one. The means are those with the
    /// first variant's value and the last one's.
    fn effect(&mut self, at: usize, compared: &Comparison) -> Result<Option<Effect>, Error> {
        let last = compared.variants.len() - 1;
        let base = |at: usize| move |row: &ComparedFigure| row.values.get(at).copied().flatten();
        let forward = self.rows(&BTreeSet::from([at]))?.and_then(|rows| changed_by(compared, base(0), rows));
        if let Some(row) = forward {
            return Ok(Some(effect_of(&row, |first, last| (first, last))));
        }
        let set = self.without(at);
        let back = self.rows(&set)?.and_then(|rows| changed_by(compared, base(last), rows));
        Ok(back.map(|row| effect_of(&row, |first, last| (last, first))))
    }
}

/// The values of a figure that is zero in all runs: it has no row.
const ZERO: Range = Range { mean: 0.0, min: 0.0, max: 0.0 };

/// Returns the values of a figure in other rows; `None` if it is not known there.
fn value_of(rows: &[ComparedFigure], row: &ComparedFigure) -> Option<Range> {
    let same = rows.iter().find(|other| other.owner == row.owner && other.figure == row.figure);
    same.map_or(Some(ZERO), |row| row.values.first().copied().flatten())
}

/// Returns the row that differs most between a variant of a comparison and a trial.
fn changed_by(
    compared: &Comparison,
    base: impl Fn(&ComparedFigure) -> Option<Range>,
    trial: &[ComparedFigure],
) -> Option<ComparedFigure> {
    let is_new = |row: &&ComparedFigure| {
        !compared.rows.iter().any(|known| known.owner == row.owner && known.figure == row.figure)
    };
    let known = compared.rows.iter().map(|row| ComparedFigure {
        values: vec![base(row), value_of(trial, row)],
        fresh: Vec::new(),
        ..row.clone()
    });
    let new = trial.iter().filter(is_new).map(|row| ComparedFigure {
        values: vec![Some(ZERO), row.values[0]],
        fresh: Vec::new(),
        ..row.clone()
    });
    let rows: Vec<ComparedFigure> = known.chain(new).collect();
    most_changed(rows.iter()).cloned()
}

fn effect_of(row: &ComparedFigure, order: impl Fn(f64, f64) -> (f64, f64)) -> Effect {
    let (first, last) = row.ends().expect("invariant: a figure that has changed is known");
    Effect { owner: row.owner.clone(), figure: row.figure, means: order(first.mean, last.mean) }
}

fn distance(share: f64) -> f64 {
    (1.0 - share).abs()
}

fn is_enough(share: f64) -> bool {
    distance(share) <= 1.0 - EXPLAINED
}

/// Returns the settings that differ between two variants.
fn differing(first: &Variant, last: &Variant) -> Vec<Differing> {
    let (from, to) = (first.plan.config.settings.entries(), last.plan.config.settings.entries());
    let pairs = from.zip(to).filter(|((_, from), (_, to))| from != to);
    pairs.map(|((row, from), (_, to))| Differing { key: row.name, from, to }).collect()
}

/// Finds the settings that explain the difference of two variants, the first and the last, in the
/// figure that differs most, and the known bugs that matter. `None` if no figure has changed, or no
/// setting differs.
///
/// The figure is that which differs most in relation to its size, beyond the spread of the seeds;
/// of equals a missed deadline before waits, latencies and shares. Changes that no user notices
/// (below 0.1 ms, below a point) come last.
///
/// # Errors
/// A run failed, or `progress` ended it.
pub fn bisect(
    variants: &[Variant],
    compared: &Comparison,
    runs: u64,
    progress: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<Bisection>, Error> {
    let [first, .., last] = variants else { return Ok(None) };
    let Some(row) = most_changed(compared.rows.iter().filter(|row| !compared.cannot_tell(row))) else {
        return Ok(None);
    };
    let (first_range, last_range) = row.ends().expect("invariant: a figure that has changed is known");
    let means = (first_range.mean, last_range.mean);
    let differing = differing(first, last);
    if differing.is_empty() {
        return Ok(None);
    }
    let left = differing.len() as u64;
    let known = BTreeMap::new();
    let mut trials = Trials { first, differing, row, means, runs, progress, known, left, is_cut: false };
    let mut alone = Vec::new();
    for at in 0..trials.differing.len() {
        alone.push(trials.share(&BTreeSet::from([at]))?);
    }
    let faults = tried(&mut trials, first, last, compared)?;
    trials.left = TRIALS_MAX;
    let helps = |at: &usize| alone[*at].is_none_or(|share| share.abs() >= GAIN);
    let candidates: Vec<usize> = (0..alone.len()).filter(helps).collect();
    let mut answer = trials.grow(&candidates)?;
    if !answer.last().is_some_and(|(_, share)| is_enough(*share)) {
        let shrunk = trials.shrunk(&alone)?;
        if !shrunk.is_empty() {
            answer = shrunk;
        }
    }
    let is_explained = answer.last().is_some_and(|(_, share)| is_enough(*share));
    let together = |at: usize| answer.iter().find(|(chosen, _)| *chosen == at).map(|(_, share)| *share);
    let mut order: Vec<usize> = (0..alone.len()).filter(|at| together(*at).is_none()).collect();
    let key = |at: usize| alone[at].unwrap_or(f64::NEG_INFINITY);
    order.sort_by(|a, b| key(*b).total_cmp(&key(*a)));
    let settings = answer.iter().map(|(at, _)| *at).chain(order).map(|at| {
        let Differing { key, from, to } = &trials.differing[at];
        let (from, to) = (from.clone(), to.clone());
        Switched { key: (*key).to_owned(), from, to, alone: alone[at], together: together(at) }
    });
    let settings = settings.collect();
    let (owner, figure) = (row.owner.clone(), row.figure);
    Ok(Some(Bisection { owner, figure, means, settings, is_explained, is_cut: trials.is_cut, faults }))
}

/// Tries each known bug that only one of two variants has for itself.
fn tried<P: FnMut(u64) -> ControlFlow<()>>(
    trials: &mut Trials<'_, P>,
    first: &Variant,
    last: &Variant,
    compared: &Comparison,
) -> Result<Vec<Tried>, Error> {
    let mut faults = Vec::new();
    for fault in Settings::FAULTS {
        let is_in = |variant: &Variant| {
            let settings = &variant.plan.config.settings;
            fault.is_in(variant.plan.kernel, settings) && fault.matters_under(settings)
        };
        let is_in_first = is_in(first);
        if is_in_first == is_in(last) {
            continue;
        }
        // Not switched: the two differ only in whether they count as kernels with the bug.
        let at = trials.differing.iter().position(|setting| setting.key == fault.setting);
        let mut matters = None;
        if let Some(at) = at {
            trials.left = trials.left.max(1);
            matters = trials.effect(at, compared)?;
        }
        if let Some(Effect { means, .. }) = matters.as_mut().filter(|_| !is_in_first) {
            *means = (means.1, means.0);
        }
        faults.push(Tried { name: fault.name(), is_in_first, matters });
    }
    Ok(faults)
}

/// Returns a mean as tables show it.
pub(super) fn shown(figure: Figure, mean: f64) -> String {
    Amount { value: Some(mean), unit: figure.unit() }.to_string()
}

impl Bisection {
    /// Returns it as data.
    pub(super) fn data(&self) -> BisectedFigure<'_> {
        let settings = self.settings.iter().map(|setting| SwitchedSetting {
            key: &setting.key,
            from: &setting.from,
            to: &setting.to,
            alone_share: setting.alone,
            together_share: setting.together,
        });
        let scaled = |figure: Figure, (one, other): (f64, f64)| {
            let (_, _, factor) = in_json(figure.unit());
            (one * factor, other * factor)
        };
        let faults = self.faults.iter().map(|fault| TriedFault {
            name: &fault.name,
            of: if fault.is_in_first { "first" } else { "last" },
            matters: fault.matters.as_ref().map(|of| {
                let (with, without) = scaled(of.figure, of.means);
                let (figure, unit) = (of.figure.label(), in_json(of.figure.unit()).0);
                FaultEffect { owner: &of.owner, figure, unit, with, without }
            }),
        });
        let (first, last) = scaled(self.figure, self.means);
        BisectedFigure {
            owner: &self.owner,
            figure: self.figure.label(),
            unit: in_json(self.figure.unit()).0,
            first,
            last,
            explained: self.is_explained,
            cut: self.is_cut,
            settings: settings.collect(),
            faults: faults.collect(),
        }
    }

    /// Returns which known bugs of one of the two variants matter, a line each, and those that do
    /// not.
    fn faults_text(&self) -> String {
        let mut text = String::new();
        let matters = self.faults.iter().filter_map(|fault| Some((fault, fault.matters.as_ref()?)));
        for (fault, effect) in matters {
            let [with, without] = [effect.means.0, effect.means.1].map(|mean| shown(effect.figure, mean));
            let of = if fault.is_in_first { "first" } else { "last" };
            let (owner, figure) = (&effect.owner, effect.figure.label());
            let name = &fault.name;
            text +=
                &format!("known fault that matters: {name} (the {of}): {owner} {figure} {with}, without {without}\n");
        }
        let others: Vec<&str> =
            self.faults.iter().filter(|fault| fault.matters.is_none()).map(|fault| &*fault.name).collect();
        if !others.is_empty() {
            text += &format!("known faults that change no figure here: {}\n", others.join(", "));
        }
        text
    }
}

impl fmt::Display for Bisection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (shown(self.figure, self.means.0), shown(self.figure, self.means.1));
        writeln!(
            f,
            "the settings behind the largest change: {} {}, {before} to {after}\n",
            self.owner,
            self.figure.label()
        )?;
        let mut table = Table::new(&[
            ("setting", Align::Left),
            ("from", Align::Right),
            ("to", Align::Right),
            ("alone", Align::Right),
            ("with those above", Align::Right),
        ]);
        let percent =
            |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0));
        let is_shown =
            |setting: &&Switched| setting.together.is_some() || setting.alone.is_some_and(|share| share.abs() >= 0.05);
        for setting in self.settings.iter().filter(is_shown) {
            table.push([
                setting.key.clone(),
                setting.from.clone(),
                setting.to.clone(),
                percent(setting.alone),
                setting.together.map_or_else(String::new, |share| percent(Some(share))),
            ]);
        }
        writeln!(f, "{table}")?;
        let rest = self.settings.iter().filter(|setting| !is_shown(setting)).count();
        if rest > 0 {
            writeln!(f, "({rest} more settings differ and change it by less than 5 % of the difference)")?;
        }
        if !self.is_explained {
            writeln!(f, "these settings together do not explain the difference")?;
        }
        if self.is_cut {
            writeln!(f, "the search was cut after {TRIALS_MAX} variants: a smaller answer can exist")?;
        }
        f.write_str(&self.faults_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::variants;

    #[test]
    fn a_change_is_traced_to_its_setting() {
        let go = |_| ControlFlow::Continue(());
        let variants = variants("kernel", ["6.1", "6.12"]);
        let compared = run(&variants, 2, go).expect("it runs");
        let found = bisect(&variants, &compared, 2, go).expect("it runs").expect("a change");
        let first = &found.settings[0];
        assert_eq!((&*first.key, &*first.from, &*first.to), ("fair", "cfs", "eevdf"), "{found}");
        assert!(found.is_explained && first.together.is_some_and(|share| share > 0.5), "{found}");
        assert!(found.settings.iter().any(|setting| setting.together.is_none()), "others make no difference: {found}");
        let ended = bisect(&variants, &compared, 2, |_| ControlFlow::Break(()));
        assert!(matches!(ended, Err(Error::Interrupted)));
    }

    #[test]
    fn one_setting_is_all_of_its_own_difference_and_no_change_needs_none() {
        let go = |_| ControlFlow::Continue(());
        let variants_of_hz = variants("hz", ["100", "1000"]);
        let compared = run(&variants_of_hz, 2, go).expect("it runs");
        let found = bisect(&variants_of_hz, &compared, 2, go).expect("it runs").expect("a change");
        assert_eq!((found.settings.len(), &*found.settings[0].key), (1, "hz"), "{found}");
        assert!(found.is_explained && found.settings[0].alone == Some(1.0), "{found}");
        let same = variants("hz", ["250", "250"]);
        let compared = run(&same, 2, go).expect("it runs");
        assert!(bisect(&same, &compared, 2, go).expect("it runs").is_none());
    }
}

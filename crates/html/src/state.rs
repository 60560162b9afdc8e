//! [`pack`]: the scheduler's own numbers over time, as rows below a timeline, and its decisions.
//!
//! Which tracks share a row, their names and the sentences are decided here; the script only draws.
//!
//! | row | lines |
//! |---|---|
//! | quota of a group | the pool, and each CPU |
//! | budget, and time to deadline, of a CPU | deadline tasks and servers |
//! | real-time tasks | each CPU |
//! | lag of a queue | each entity: eligible from 0 on |
//! | virtual time of a queue | each entity's eligible time, and dashed its virtual deadline, less the average |
//! | vruntime of a queue (CFS) | each entity, less `min_vruntime` |

use crate::escape::plain;
use crate::pack::Pack;
use crate::timeline::Timeline;
use serde_json::{Value, json};
use zerolag_model::state::{Entity, Owner, Quantity, StateHistory, Track, TrackKey};
use zerolag_model::{CpuId, GroupId, ServerKind, TaskId};
use zerolag_report::decision::{Names, sentence};

/// What tracks of one row have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct RowKey {
    kind: RowKind,
    cpu: Option<CpuId>,
    group: Option<GroupId>,
}

/// What a row is of, in the order of rows: those of which there are few come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum RowKind {
    Quota,
    Budget,
    TimeToDeadline,
    RealTimeTasks,
    Lag,
    VirtualTime,
    Vruntime,
}

impl RowKey {
    fn of(key: TrackKey) -> Self {
        let group = match key.owner {
            Owner::Fair(group, _) | Owner::Group(group) => Some(group),
            Owner::Task(_) | Owner::Server(_) | Owner::Cpu => None,
        };
        let (kind, cpu) = match key.quantity {
            Quantity::Lag => (RowKind::Lag, key.cpu),
            Quantity::Eligible | Quantity::VirtualDeadline => (RowKind::VirtualTime, key.cpu),
            Quantity::Vruntime => (RowKind::Vruntime, key.cpu),
            Quantity::Quota => (RowKind::Quota, None),
            Quantity::Budget => (RowKind::Budget, key.cpu),
            Quantity::TimeToDeadline => (RowKind::TimeToDeadline, key.cpu),
            Quantity::RealTimeTasks => (RowKind::RealTimeTasks, None),
        };
        Self { kind, cpu, group }
    }

    fn label(self, timeline: &Timeline) -> String {
        let what = match self.kind {
            RowKind::Lag => "lag",
            RowKind::VirtualTime => "virtual time",
            RowKind::Vruntime => "vruntime",
            RowKind::Quota => "quota",
            RowKind::Budget => "budget",
            RowKind::TimeToDeadline => "to deadline",
            RowKind::RealTimeTasks => "RT tasks",
        };
        let group = self.group.filter(|group| *group != GroupId::ROOT).map(|group| timeline.group_name(group));
        let group = group.map(|path| format!(" {path}")).unwrap_or_default();
        let cpu = self.cpu.map(|cpu| format!(" cpu {cpu}")).unwrap_or_default();
        format!("{what}{cpu}{group}")
    }

    /// Returns what the row says, for readers that meet it the first time.
    const fn says(self) -> &'static str {
        match self.kind {
            RowKind::Lag => "the service that each is owed; eligible from 0 on",
            RowKind::VirtualTime => {
                "eligible time (line) and virtual deadline (dashed) of each request, less the average: eligible up to 0"
            }
            RowKind::Vruntime => "vruntime of each, above the least; the least runs next",
            RowKind::Quota => "quota left in the pool and on each CPU; throttled from 0 down",
            RowKind::Budget => "what is left of the budget of deadline tasks and servers; throttled from 0 down",
            RowKind::TimeToDeadline => "time to the deadline; the earliest runs",
            RowKind::RealTimeTasks => "real-time tasks that run or wait on each CPU",
        }
    }
}

impl Timeline {
    /// Returns the name of a task, or its number.
    fn task_name(&self, task: TaskId) -> String {
        self.index_of(task).map_or_else(|| format!("task {task}"), |index| plain(&self.tasks[index].name))
    }

    /// Returns the path of a group, or its number.
    fn group_name(&self, group: GroupId) -> String {
        if group == GroupId::ROOT {
            return "/".to_owned();
        }
        let index = self.group_ids.iter().rposition(|known| *known == group);
        index.map_or_else(|| format!("group {group}"), |index| plain(&self.groups[index]))
    }
}

/// Packs the numbers; returns their head: the rows, and the sentences of the decisions.
pub(crate) fn pack(history: &StateHistory, timeline: &Timeline, prefix: &str, pack: &mut Pack) -> Value {
    let mut rows: Vec<(RowKey, Vec<&Track>)> = Vec::new();
    for track in &history.tracks {
        let key = RowKey::of(track.key);
        match rows.iter_mut().find(|(known, _)| *known == key) {
            Some((_, tracks)) => tracks.push(track),
            None => rows.push((key, vec![track])),
        }
    }
    // A line that never has a value but one says nothing: a CPU with one task, whose lag is 0.
    rows.retain(|(_, tracks)| tracks.iter().any(|track| is_moving(track)));
    rows.sort_by_key(|(key, _)| *key);
    let (mut times, mut values) = (Vec::new(), Vec::new());
    let heads: Vec<Value> = rows
        .iter()
        .map(|(key, tracks)| {
            let lines: Vec<Value> = tracks
                .iter()
                .map(|track| {
                    let mut last = 0;
                    for (at, value) in &track.points {
                        times.push(at.as_nanos().saturating_sub(last));
                        last = at.as_nanos();
                        // 0 ends a line; the sign is the lowest bit.
                        values.push(value.map_or(0, |value| zigzag(value).saturating_add(1)));
                    }
                    line(track, timeline)
                })
                .collect();
            let unit = if key.kind == RowKind::RealTimeTasks { "" } else { "ns" };
            json!({ "label": key.label(timeline), "says": key.says(), "unit": unit, "lines": lines })
        })
        .collect();
    pack.column(&format!("{prefix}st.at"), times);
    pack.column(&format!("{prefix}st.value"), values);
    let decisions = &history.decisions;
    pack.times(&format!("{prefix}d.at"), decisions.iter().map(|decision| decision.at.as_nanos()));
    pack.column(&format!("{prefix}d.cpu"), decisions.iter().map(|decision| u64::from(decision.cpu.0)));
    let index = |task: TaskId| timeline.index_of(task).map_or(0, |index| index as u64 + 1);
    pack.column(&format!("{prefix}d.task"), decisions.iter().map(|decision| decision.picked.map_or(0, index)));
    let (task, group) = (|task| timeline.task_name(task), |group| timeline.group_name(group));
    let names = Names { task: &task, group: &group };
    let says: Vec<String> = decisions.iter().map(|decision| sentence(decision, names)).collect();
    json!({ "rows": heads, "says": says, "decisions": history.nr_decisions, "stride": history.stride })
}

fn is_moving(track: &Track) -> bool {
    let mut values = track.points.iter().filter_map(|(_, value)| *value);
    let first = values.next();
    values.any(|value| Some(value) != first)
}

/// Returns the head of a line: its name, the index of its task for its colour, and how it is drawn.
fn line(track: &Track, timeline: &Timeline) -> Value {
    let key = track.key;
    let (name, task) = match key.owner {
        Owner::Fair(_, Entity::Task(task)) | Owner::Task(task) => (timeline.task_name(task), timeline.index_of(task)),
        Owner::Fair(_, Entity::Group(group)) => (timeline.group_name(group), None),
        Owner::Group(_) => (key.cpu.map_or_else(|| "pool".to_owned(), |cpu| format!("cpu {cpu}")), None),
        Owner::Server(ServerKind::Fair) => ("fair server".to_owned(), None),
        Owner::Server(ServerKind::Ext) => ("ext server".to_owned(), None),
        Owner::Cpu => (key.cpu.map(|cpu| format!("cpu {cpu}")).unwrap_or_default(), None),
    };
    let name = match key.quantity {
        Quantity::Eligible => format!("{name}, eligible time"),
        Quantity::VirtualDeadline => format!("{name}, virtual deadline"),
        _ => name,
    };
    let is_stepped = key.quantity == Quantity::RealTimeTasks || key.quantity == Quantity::Quota && key.cpu.is_none();
    json!({ "name": name, "task": task, "dash": key.quantity == Quantity::VirtualDeadline, "step": is_stepped,
        "points": track.points.len() })
}

/// Returns a number whose lowest bit is the sign.
const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_of_either_sign_are_short() {
        assert_eq!([0, -1, 1, -2, 2].map(zigzag), [0, 1, 2, 3, 4]);
        assert_eq!(zigzag(i64::MIN), u64::MAX);
    }
}

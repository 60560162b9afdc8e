//! What changes in mid-run, many at awkward instants.

use super::dice::Dice;
use super::draft::{Block, Draft};
use super::draw::{MachineDraw, limit, some_cpus};
use super::tasks::{paths, policy};
use zerolag_model::settings::SchedExtPolicy;

/// Adds changes of tasks, groups, CPUs, limits and servers.
pub(super) fn changes(dice: &mut Dice, world: &MachineDraw, tasks: &[(String, bool)], draft: &mut Draft) {
    for _ in 0..dice.of(0, 6) {
        let mut block = Block::new("[[change]]");
        block.line(format!("at = \"{}us\"", instant(dice, world)));
        match dice.of(0, 8) {
            0..=5 => task(dice, world, tasks, &mut block),
            6 | 7 if !world.groups.is_empty() => group(dice, world, &mut block),
            _ => {
                // Below what servers and deadline tasks have reserved it is refused.
                block.line(format!("sched_rt_runtime_us = {}", dice.pick(&["-1", "950000"])));
            }
        }
        draft.blocks.push(block);
    }
    if world.has_hotplug {
        hotplug(dice, world, draft);
    }
    if dice.once_in(4) {
        let mut block = Block::new("[fair_server]");
        let change = |dice: &mut Dice| {
            let (at, runtime) = (instant(dice, world), dice.of(1, 10));
            format!("{{ at = \"{at}us\", runtime = \"{runtime}ms\", period = \"{}ms\" }}", dice.pick(&[50, 100, 500]))
        };
        let mut all: Vec<String> = (0..dice.of(1, 2)).map(|_| change(dice)).collect();
        all.dedup();
        block.list("changes", all);
        draft.blocks.push(block);
    }
}

/// Returns a time in microseconds: any, or at or next to a tick or the end of a group's period.
fn instant(dice: &mut Dice, world: &MachineDraw) -> u64 {
    let any = dice.of(1, world.length);
    let grid = match dice.of(0, 3) {
        0 => world.tick,
        1 => world.groups.first().map_or(world.tick, |(_, period)| *period),
        _ => return any,
    };
    (any / grid * grid).max(1) + dice.of(0, 2)
}

fn task(dice: &mut Dice, world: &MachineDraw, tasks: &[(String, bool)], block: &mut Block) {
    let (name, is_deadline) = &tasks[dice.of(0, tasks.len() as u64 - 1) as usize];
    block.line(format!("task = \"{name}\""));
    match dice.of(0, 5) {
        0 | 1 => block.lines.extend(policy(dice).into_iter().map(super::draft::ScenarioLine::Text)),
        2 if !world.groups.is_empty() => {
            block.line(format!("group = \"{}\"", dice.pick(&paths(world))));
        }
        3 if !is_deadline => {
            block.line(format!("cpus = \"{}\"", some_cpus(dice, world)));
        }
        4 if !is_deadline => {
            block.line(format!("start = {}", dice.of(1, 3)));
        }
        _ => {
            block.line("end = true");
        }
    }
}

fn group(dice: &mut Dice, world: &MachineDraw, block: &mut Block) {
    let (path, period) = &world.groups[dice.of(0, world.groups.len() as u64 - 1) as usize];
    block.line(format!("group = \"{path}\""));
    if dice.once_in(4) && !world.idle_groups.contains(path) {
        block.line(format!("\"cpu.weight\" = {}", dice.pick(&[1, 100, 10_000])));
    } else if dice.once_in(4) {
        block.line(format!("\"cpu.max\" = \"max {period}\""));
    } else {
        block.line(format!("\"cpu.max\" = \"{} {period}\"", limit(dice, *period)));
        block.line("\"cpu.max.burst\" = 0"); // What it had can be above the new quota.
    }
}

/// Perhaps schedulers are loaded and unloaded in turn. Rarely one is loaded while another one is:
/// that is refused, and ends the run.
pub(super) fn policies(dice: &mut Dice, world: &MachineDraw, draft: &mut Draft) {
    let has_policy = draft.blocks.iter().any(|block| block.value("sched_ext").is_some());
    if !dice.once_in(if has_policy { 2 } else { 12 }) {
        return;
    }
    let mut times: Vec<u64> = (0..dice.of(1, 5)).map(|_| instant(dice, world)).collect();
    times.sort_unstable();
    times.dedup();
    // A run whose first change loads a policy begins without one.
    let mut loads = !has_policy || dice.once_in(2);
    for at in times {
        let is_out_of_turn = dice.once_in(64);
        let tasks = if loads == is_out_of_turn { "off" } else { dice.pick(&["partial", "all", "all"]) };
        let mut block = Block::new("[[change]]");
        block.line(format!("at = \"{at}us\"")).line(format!("sched_ext = \"{tasks}\""));
        if tasks != "off" && dice.once_in(2) {
            block.line(format!("\"sched_ext.policy\" = \"{}\"", dice.pick(SchedExtPolicy::ALL)));
        }
        draft.blocks.push(block);
        loads = !loads;
    }
}

/// One CPU goes offline, and comes back or not; perhaps another one does, too.
fn hotplug(dice: &mut Dice, world: &MachineDraw, draft: &mut Draft) {
    let mut times: Vec<u64> = (0..dice.of(1, 4)).map(|_| instant(dice, world)).collect();
    times.sort_unstable();
    times.dedup();
    let cpu = dice.of(1, world.nr_cpus - 1);
    for (nth, at) in times.into_iter().enumerate() {
        let mut block = Block::new("[[change]]");
        block.line(format!("at = \"{at}us\"")).line(format!("cpu = {cpu}")).line(format!("online = {}", nth % 2 == 1));
        draft.blocks.push(block);
    }
}

//! The tasks and services of a scenario.

use super::dice::Dice;
use super::draft::{Block, Draft};
use super::draw::{World, some_cpus};

/// Adds the tasks; returns their names, and whether each is a deadline task.
pub(super) fn tasks(dice: &mut Dice, world: &World, draft: &mut Draft) -> Vec<(String, bool)> {
    let mut names = Vec::new();
    let mut semaphores = 0;
    // In thousandths of a CPU.
    let mut free = 600 * world.nr_cpus;
    for index in 0..dice.of(1, 6) {
        let name = format!("t{index}");
        let mut block = Block::new(format!("[task.{name}]"));
        let is_deadline = world.has_deadlines && free > 100 && dice.once_in(2);
        if is_deadline {
            free = free.saturating_sub(deadline(dice, &mut block));
        } else {
            block.lines.extend(policy(dice).into_iter().map(super::draft::Line::Text));
            if dice.once_in(3) {
                block.line(format!("cpus = \"{}\"", some_cpus(dice, world)));
            }
            block.line(format!("instances = {}", instances(dice, world)));
        }
        if !world.groups.is_empty() && dice.once_in(2) {
            block.line(format!("group = \"{}\"", dice.pick(&paths(world))));
        }
        if dice.once_in(2) {
            block.line(format!("delay = \"{}us\"", dice.of(0, world.length / 2)));
        }
        let steps = if dice.once_in(6) && !is_deadline {
            semaphores += 1;
            waker(draft, semaphores, dice)
        } else {
            steps(dice)
        };
        block.list("steps", steps);
        draft.blocks.push(block);
        names.push((name, is_deadline));
    }
    names
}

/// Returns the paths of the groups.
pub(super) fn paths(world: &World) -> Vec<&str> {
    world.groups.iter().map(|(path, _)| path.as_str()).collect()
}

fn instances(dice: &mut Dice, world: &World) -> u64 {
    match dice.of(0, 5) {
        0..=2 => 1,
        3 | 4 => dice.of(2, 4),
        _ => dice.of(1, 2 * world.nr_cpus.min(16)),
    }
}

/// Returns the lines of a policy that is not SCHED_DEADLINE.
pub(super) fn policy(dice: &mut Dice) -> Vec<String> {
    let lines: &[String] = &match dice.of(0, 7) {
        0 | 1 => ["policy = \"fifo\"".to_owned(), format!("priority = {}", dice.pick(&[1, 10, 50, 99]))],
        2 => ["policy = \"rr\"".to_owned(), format!("priority = {}", dice.pick(&[1, 10, 50]))],
        3 => ["policy = \"batch\"".to_owned(), "nice = 5".to_owned()],
        4 => ["policy = \"idle\"".to_owned(), "nice = 0".to_owned()],
        _ => ["policy = \"other\"".to_owned(), format!("nice = {}", dice.pick(&["-20", "-5", "0", "0", "7", "19"]))],
    };
    lines.to_vec()
}

/// Adds the parameters of a deadline task; returns its bandwidth.
fn deadline(dice: &mut Dice, block: &mut Block) -> u64 {
    let period = dice.of(2, 40) * 500;
    let share = dice.of(20, 90);
    let runtime = (period * share / 1_000).max(20);
    block.line("policy = \"deadline\"").line(format!("runtime = \"{runtime}us\""));
    if dice.once_in(3) {
        block.line(format!("deadline = \"{}us\"", (period * dice.of(5, 10) / 10).max(runtime)));
    }
    block.line(format!("period = \"{period}us\""));
    if dice.once_in(5) {
        block.line("flags = [\"reclaim\"]");
    }
    2 * share
}

/// Adds a task that posts a semaphore, and returns the steps of one that waits for it.
fn waker(draft: &mut Draft, number: u64, dice: &mut Dice) -> Vec<String> {
    let mut block = Block::new(format!("[task.post{number}]"));
    let pause = dice.of(20, 3_000);
    block.list("steps", vec![format!("{{ sleep = \"{pause}us\" }}"), format!("{{ sem_post = \"s{number}\" }}")]);
    draft.blocks.push(block);
    vec![format!("{{ sem_wait = \"s{number}\" }}"), format!("{{ run = \"{}us\" }}", dice.of(5, 2_000))]
}

/// Returns the steps of a task. Time passes in each; locks are taken in one order, so that no tasks
/// wait in a circle.
fn steps(dice: &mut Dice) -> Vec<String> {
    let mut steps = vec![format!("{{ run = \"{}us\" }}", dice.pick(&[3, 50, 119, 700, 2_213, 9_000]))];
    for _ in 0..dice.of(0, 4) {
        steps.push(step(dice));
    }
    if dice.once_in(12) {
        steps = vec!["{ run = \"1h\" }".to_owned()];
    }
    steps
}

fn time(dice: &mut Dice) -> String {
    let us = dice.of(1, 80) * dice.pick(&[1, 25, 100]);
    match dice.of(0, 5) {
        0 => format!("{{ uniform = {{ min = \"{us}us\", max = \"{}us\" }} }}", 3 * us),
        1 => format!("{{ exponential = {{ mean = \"{us}us\", max = \"20ms\" }} }}"),
        _ => format!("\"{us}us\""),
    }
}

fn step(dice: &mut Dice) -> String {
    let (one, two) = (time(dice), time(dice));
    match dice.of(0, 11) {
        0 | 1 => format!("{{ sleep = {one} }}"),
        2 => format!("{{ run = {one} }}"),
        3 => format!("{{ kernel = {one} }}"),
        4 => "\"yield\"".to_owned(),
        5 => {
            let mode = dice.pick(&["absolute", "relative"]);
            format!("{{ timer = {{ period = {one}, mode = \"{mode}\", name = \"{mode}\" }} }}")
        }
        6 => format!("{{ lock = \"m0\" }}, {{ run = {one} }}, {{ unlock = \"m0\" }}"),
        7 => format!("{{ lock = \"m1\" }}, {{ run = {one} }}, {{ sleep = {two} }}, {{ unlock = \"m1\" }}"),
        8 => format!(
            "{{ lock = \"m0\" }}, {{ lock = \"m1\" }}, {{ run = {one} }}, {{ unlock = \"m1\" }}, {{ unlock = \"m0\" }}"
        ),
        9 => format!("{{ syscall = [{{ down_write = \"rw\" }}, {{ run = {one} }}, {{ up_write = \"rw\" }}] }}"),
        10 => format!("{{ syscall = [{{ run = {one} }}, \"cond_resched\", {{ sleep = {two} }}, {{ run = {two} }}] }}"),
        _ => format!("{{ syscall = [{{ down_read = \"rw\" }}, {{ run = {one} }}, {{ up_read = \"rw\" }}] }}"),
    }
}

/// Adds a service now and then.
pub(super) fn services(dice: &mut Dice, world: &World, draft: &mut Draft) {
    if !dice.once_in(4) {
        return;
    }
    let mut block = Block::new("[service.web]");
    block.line(format!("arrivals = {{ poisson = \"{}/s\" }}", dice.pick(&[50, 500, 2_000])));
    block.line(format!("workers = {}", dice.of(1, 4)));
    if !world.groups.is_empty() && dice.once_in(2) {
        block.line(format!("group = \"{}\"", dice.pick(&paths(world))));
    }
    block.list("steps", vec![format!("{{ run = {} }}", time(dice)), format!("{{ sleep = {} }}", time(dice))]);
    draft.blocks.push(block);
}

//! The tasks and services of a scenario, and the interrupts beside them.

use super::dice::Dice;
use super::draft::{Block, Draft, ScenarioLine};
use super::draw::{MachineDraw, some_cpus};

/// Adds the tasks; returns their names, and whether each is a deadline task.
pub(super) fn tasks(dice: &mut Dice, world: &MachineDraw, draft: &mut Draft) -> Vec<(String, bool)> {
    let mut names = Vec::new();
    let mut partners = 0;
    // In thousandths of a CPU.
    let mut free = 600 * world.nr_cpus;
    for index in 0..dice.of(1, 6) {
        let name = format!("t{index}");
        let mut block = Block::new(format!("[task.{name}]"));
        let is_deadline = world.has_deadlines && free > 100 && dice.once_in(2);
        if is_deadline {
            free = free.saturating_sub(deadline(dice, &mut block));
        } else {
            block.lines.extend(policy(dice).into_iter().map(ScenarioLine::Text));
            if dice.once_in(3) {
                block.line(format!("cpus = \"{}\"", some_cpus(dice, world)));
            }
            block.line(format!("instances = {}", instances(dice, world)));
        }
        if !world.groups.is_empty() && dice.once_in(2) {
            block.line(format!("group = \"{}\"", dice.pick(&paths(world))));
        }
        let delay = if dice.once_in(2) { dice.of(0, world.length / 2) } else { 0 };
        if delay > 0 {
            block.line(format!("delay = \"{delay}us\""));
        }
        if dice.once_in(8) {
            block.line(format!("until = \"{}us\"", dice.of(delay + 2, world.length + 2)));
        }
        let steps = if dice.once_in(4) && !is_deadline {
            partners += 1;
            with_partner(draft, partners, dice, &mut block)
        } else {
            steps(dice, world)
        };
        block.list("steps", steps);
        draft.blocks.push(block);
        names.push((name, is_deadline));
    }
    names
}

/// Returns the paths of the groups.
pub(super) fn paths(world: &MachineDraw) -> Vec<&str> {
    world.groups.iter().map(|(path, _)| path.as_str()).collect()
}

fn instances(dice: &mut Dice, world: &MachineDraw) -> u64 {
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

/// Adds the task that a task needs, and returns the steps of the one that needs it: a poster of its
/// semaphore, a reader of its pipe, the child that it forks, or a task that it resumes.
fn with_partner(draft: &mut Draft, number: u64, dice: &mut Dice, task: &mut Block) -> Vec<String> {
    let (pause, work) = (dice.of(20, 3_000), dice.of(5, 2_000));
    let sleep = format!("{{ sleep = \"{pause}us\" }}");
    let run = format!("{{ run = \"{work}us\" }}");
    let name = format!("partner{number}");
    let mut partner = Block::new(format!("[task.{name}]"));
    let (its_steps, steps) = match dice.of(0, 4) {
        0 => (
            vec![sleep, format!("{{ sem_post = \"s{number}\" }}")],
            vec![format!("{{ sem_wait = \"s{number}\" }}"), run],
        ),
        1 => (vec!["\"suspend\"".to_owned(), run], vec![sleep, format!("{{ resume = \"{name}\" }}")]),
        2 => {
            // Each thread forks a bounded number of children, which end.
            task.line(format!("loop = {}", dice.of(1, 8)));
            partner.line("instances = 0").line("loop = 1");
            partner.lines.extend(policy(dice).into_iter().map(ScenarioLine::Text));
            (vec![run.clone(), sleep], vec![run, format!("{{ fork = \"{name}\" }}")])
        }
        kind => {
            let bytes = dice.pick(&[1, 4_096, 70_000]);
            let write = format!("{{ pipe_write = {{ pipe = \"p{number}\", bytes = {bytes} }} }}");
            let read = format!("{{ pipe_read = {{ pipe = \"p{number}\", bytes = {} }} }}", dice.pick(&[1_000, 70_000]));
            if kind == 3 { (vec![read, run], vec![sleep, write]) } else { (vec![run, write], vec![read, sleep]) }
        }
    };
    partner.list("steps", its_steps);
    draft.blocks.push(partner);
    steps
}

/// Returns the steps of a task. Time passes in each; locks are taken in one order, so that no tasks
/// wait in a circle.
fn steps(dice: &mut Dice, world: &MachineDraw) -> Vec<String> {
    let mut steps = vec![format!("{{ run = \"{}us\" }}", dice.pick(&[3, 50, 119, 700, 2_213, 9_000]))];
    for _ in 0..dice.of(0, 4) {
        steps.push(step(dice));
    }
    if world.has_service && dice.once_in(3) {
        steps.push(format!("{{ {} = \"web\" }}", dice.pick(&["call", "send"])));
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
    match dice.of(0, 16) {
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
        11 => format!("{{ syscall = [{{ down_read = \"rw\" }}, {{ run = {one} }}, {{ up_read = \"rw\" }}] }}"),
        12 => format!("{{ spin = {{ wall = {one}, chunk = \"32us\" }} }}"),
        13 => format!("{{ lock = \"m0\" }}, {{ broadcast = \"c\" }}, {{ run = {one} }}, {{ unlock = \"m0\" }}"),
        14 => format!("{{ syscall = [{{ io = {{ disk = \"sda\", bytes = {} }} }}] }}", dice.pick(&[512, 65_536])),
        15 => format!("{{ syscall = [{{ spin_lock = \"sp\" }}, {{ run = {one} }}, {{ spin_unlock = \"sp\" }}] }}"),
        _ => {
            let section = dice.pick(&["preempt_off", "irqs_off", "bh_off"]);
            format!("{{ syscall = [{{ {section} = {one} }}, {{ run = {two} }}] }}")
        }
    }
}

/// Adds the service, if there is one.
pub(super) fn services(dice: &mut Dice, world: &MachineDraw, draft: &mut Draft) {
    if !world.has_service {
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

/// Adds an interrupt line of a device now and then.
pub(super) fn interrupts(dice: &mut Dice, draft: &mut Draft) {
    if !dice.once_in(3) {
        return;
    }
    let mut block = Block::new("[interrupt.dev]");
    // Never more than half of a CPU: interrupts that come faster than they are served leave nothing
    // to the tasks, and no rule to be checked.
    let every = dice.pick(&[150, 700, 4_000, 9_000]);
    block.line(format!("every = {{ exponential = {{ mean = \"{every}us\" }} }}"));
    block.line(format!("handler = \"{}us\"", dice.of(1, every / 5)));
    if !dice.once_in(3) {
        block.line(format!("softirq = \"{}us\"", dice.of(1, every / 4)));
    }
    if dice.once_in(2) {
        block.line("on_each = true");
    }
    if dice.once_in(4) {
        block.line("no_thread = true");
    }
    if dice.once_in(3) {
        block.line(format!("priority = {}", dice.pick(&[1, 50, 99])));
    }
    draft.blocks.push(block);
}

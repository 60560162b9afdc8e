//! [`around`]: what surrounds a workload: the costs of the machine, the kernel's own threads,
//! standstills, and times that are no round numbers.
//!
//! A fault is often a matter of a nanosecond or of an operation that is longer than the next timer,
//! and neither is drawn with the costs of one server and times in microseconds.

use super::dice::Dice;
use super::draft::{Block, Draft};
use zerolag::background::Background;

/// The most that one operation costs in a drawn profile, in nanoseconds: some 20 times what the
/// slowest machine was measured at. Above that a kernel path is longer than a tick, and nothing
/// else is left to be seen.
const MOST: u64 = 20_000;

/// The keys of operations, all of them times.
const OPERATIONS: [&str; 32] = [
    "context_switch",
    "fair_switch",
    "pick",
    "fair_pick",
    "wakeup_local",
    "wakeup_remote",
    "fair_wakeup",
    "group_wakeup",
    "queued_wakeup",
    "syscall",
    "waiting_call",
    "sleep_call",
    "call_rest",
    "boost",
    "unboost",
    "pipe_io",
    "pipe_alone",
    "ipi_send",
    "ipi_handler",
    "inner_lock",
    "timer_irq",
    "tick",
    "fair_tick",
    "hrtick",
    "rq_lock_hold",
    "migrate_task",
    "throttle",
    "policy_call",
    "idle_exit",
    // These are charged once for each CPU or task that is looked at, so they are shorter.
    "scan_per_cpu",
    "scan_per_task",
    "cpupri_search",
];

/// The keys of times by distance.
const DISTANCES: [&str; 6] = ["ipi_latency", "ipi_work", "line_read", "line_write", "rq_lock_transfer", "cache_refill"];

/// The keys of tails.
const TAILS: [&str; 4] = ["timer_late", "switch_late", "wakeup_late", "migrate_late"];

/// Profiles that were measured, as the lines of their files.
const MEASURED: [&str; 2] = [
    // A virtual machine of one CPU in virtual time, Linux 6.12, 2026-11-28, without its tails
    // (`scripts/in-vm/run.sh 6.12 calibrate`).
    "context_switch = \"8433ns\"\nfair_switch = \"554ns\"\nwakeup_local = \"7124ns\"\n\
     wakeup_remote = \"11398ns\"\nfair_wakeup = \"2748ns\"\nqueued_wakeup = \"2961ns\"\n\
     syscall = \"1965ns\"\nwaiting_call = \"1712ns\"\nsleep_call = \"3061ns\"\nboost = \"10400ns\"\n\
     unboost = \"11092ns\"\npipe_io = \"3078ns\"\ntimer_irq = \"3948ns\"\ntick = \"10156ns\"\n\
     fair_tick = \"1488ns\"\nrq_lock_hold = \"200ns\"\nscan_per_cpu = \"10ns\"\nscan_per_task = \"15ns\"\n\
     migrate_task = \"250ns\"\npick = \"1001ns\"\nfair_pick = \"1527ns\"\ngroup_wakeup = \"3611ns\"\n\
     call_rest = \"3400ns\"",
    // The runtime of this project as a machine (`crates/runtime/simulated/costs.toml`).
    "context_switch = \"268ns\"\nwakeup_local = \"330ns\"\nwakeup_remote = \"330ns\"\nrq_lock_hold = \"60ns\"\n\
     inner_lock = \"70ns\"\nscan_per_cpu = \"8ns\"\nscan_per_task = \"10ns\"\nmigrate_task = \"150ns\"\n\
     ipi_send = \"900ns\"\nipi_handler = \"0ns\"\nidle_exit = \"5us\"\ntick = \"0ns\"\ntimer_irq = \"0ns\"\nthrottle = \"200ns\"",
];

/// Draws what surrounds the workload.
pub(super) fn around(dice: &mut Dice, draft: &mut Draft) {
    draft.background = match dice.of(0, 7) {
        0 => Background::Kernel,
        1 => Background::Idle,
        2 => Background::None,
        _ => Background::Profile,
    };
    draft.costs = match dice.of(0, 5) {
        0 => Some(measured(dice)),
        1 => Some(drawn(dice)),
        _ => None,
    };
    if dice.once_in(2) {
        odd_times(dice, draft);
    }
}

/// Returns a measured profile, or one that is so many times as slow.
fn measured(dice: &mut Dice) -> Block {
    let mut block = Block::new("");
    for line in dice.pick(&MEASURED).lines() {
        block.line(line);
    }
    let percent = dice.pick(&[100, 100, 10, 300, 1_000]);
    block.each_text(&mut |text| scale(text, |nanos| nanos * percent / 100));
    tails(dice, &mut block);
    block
}

/// Returns a profile whose every entry is drawn: zero, usual, or as long as an operation can be.
fn drawn(dice: &mut Dice) -> Block {
    let mut block = Block::new("");
    let mut cost = |most: u64| match dice.of(0, 3) {
        0 => 0,
        1 => dice.of(0, most),
        _ => dice.of(0, most / 40),
    };
    for key in OPERATIONS {
        let most = if key.starts_with("scan") { MOST / 100 } else { MOST };
        block.line(format!("{key} = \"{}ns\"", cost(most)));
    }
    for key in DISTANCES {
        let all = ["smt", "llc", "socket", "remote"].map(|name| format!("{name} = \"{}ns\"", cost(MOST)));
        block.line(format!("{key} = {{ {} }}", all.join(", ")));
    }
    if dice.once_in(2) {
        block.line(format!("smt_speed_percent = {}", dice.pick(&[1, 50, 65, 100])));
    }
    if dice.once_in(2) {
        let polling = if dice.once_in(2) { ", polling = true" } else { "" };
        let deep = dice.pick(&["100us", "3ms"]);
        let shallow = format!("{{ residency = \"{}us\", exit = \"1us\"{polling} }}", dice.of(0, 1));
        block.list("idle_states", vec![shallow, format!("{{ residency = \"1ms\", exit = \"{deep}\" }}")]);
    }
    tails(dice, &mut block);
    block
}

/// Adds tails of operations, standstills of one CPU and of all of them (SMI).
fn tails(dice: &mut Dice, block: &mut Block) {
    for key in TAILS {
        if dice.once_in(4) {
            let (usual, longest) = (dice.of(0, 3_000), dice.pick(&[20_000, 300_000]));
            block.line(format!("{key} = [[0, \"0ns\"], [990000, \"{usual}ns\"], [1000000, \"{longest}ns\"]]"));
        }
    }
    for key in ["stolen", "smi"] {
        if dice.once_in(4) {
            // At most a tenth of the time.
            let gap = dice.pick(&[50_000, 1_000_000, 20_000_000]);
            let (least, most) = (dice.of(1, gap / 100), gap / 10);
            block.line(format!(
                "{key} = {{ gap = [[0, \"{gap}ns\"], [1000000, \"{}ns\"]], length = [[0, \"{least}ns\"], [1000000, \"{most}ns\"]] }}",
                gap * 3
            ));
        }
    }
}

/// Gives times that are written in microseconds some nanoseconds more. Those that are compared with
/// each other (a deadline and its period) keep their value.
fn odd_times(dice: &mut Dice, draft: &mut Draft) {
    const COMPARED: [&str; 5] = ["runtime", "deadline", "period", "duration", "capacity"];
    for block in &mut draft.blocks {
        block.each_text(&mut |text| {
            if COMPARED.iter().any(|key| text.starts_with(key)) || text.contains("runtime = ") {
                return;
            }
            scale(text, |nanos| {
                let is_whole = nanos > 0 && nanos < 10_000_000_000 && nanos.is_multiple_of(1_000);
                nanos + if is_whole && dice.once_in(2) { dice.of(1, 999) } else { 0 }
            });
        });
    }
}

/// Changes every quoted time of a text: `"700us"` to `"1400000ns"`. One that stays is not touched.
pub(super) fn scale(text: &mut String, mut to: impl FnMut(u64) -> u64) {
    let mut out = String::with_capacity(text.len());
    for (nth, part) in text.split('"').enumerate() {
        if nth > 0 {
            out.push('"');
        }
        // What is between two quotation marks has an odd number.
        match nanos(part).filter(|_| nth % 2 == 1).map(|from| (from, to(from))) {
            Some((from, to)) if from != to => out.push_str(&format!("{to}ns")),
            Some(_) | None => out.push_str(part),
        }
    }
    *text = out;
}

/// Reads a time as scenarios of the generator write it.
fn nanos(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let unit = match &text[digits..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

/// Adds times in which all CPUs, or one, run nothing of the workload.
pub(super) fn pauses(dice: &mut Dice, has_hotplug: bool, draft: &mut Draft) {
    if !dice.once_in(6) {
        return;
    }
    let every = dice.pick(&[3_000, 20_000, 70_000]);
    let mut block = Block::new("[pause.gc]");
    block.line(format!("every = \"{every}us\""));
    block.line(format!("length = {{ uniform = {{ min = \"1us\", max = \"{}us\" }} }}", every / 10));
    // Only CPUs that stay online can have one.
    if has_hotplug {
        block.line("cpus = \"0\"");
    }
    if dice.once_in(2) {
        block.line("together = false");
    }
    draft.blocks.push(block);
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_sim::Costs;

    #[test]
    fn every_cost_of_the_reader_is_drawn() {
        let known: Vec<&str> = Costs::zero().shown().iter().map(|(key, _)| *key).collect();
        let text = drawn(&mut Dice::from_state(3));
        let missing: Vec<&&str> = known.iter().filter(|key| text.value(key).is_none()).collect();
        // These come now and then; threads are those of `--background`.
        let rare = ["idle_states", "smt_speed_percent", "stolen", "smi", "threads"];
        assert!(missing.iter().all(|key| rare.contains(key) || TAILS.contains(key)), "{missing:?}");
    }

    #[test]
    fn every_profile_is_read() {
        for state in 0..200 {
            for block in [measured(&mut Dice::from_state(state)), drawn(&mut Dice::from_state(state))] {
                let draft = Draft { costs: Some(block), ..Draft::default() };
                let text = draft.costs().expect("it has costs");
                let costs = Costs::from_toml("drawn", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
                // The deepest exits of two CPUs, tails, and some twenty operations.
                assert!(costs.longest_path(8).as_nanos() < 9_000_000, "{text}");
            }
        }
    }

    #[test]
    fn times_are_scaled_where_they_stand() {
        let mut text = "{ spin = { wall = \"7us\", chunk = \"32us\" } }, \"yield\", { lock = \"m0\" }".to_owned();
        scale(&mut text, |nanos| 2 * nanos);
        assert_eq!(text, "{ spin = { wall = \"14000ns\", chunk = \"64000ns\" } }, \"yield\", { lock = \"m0\" }");
        scale(&mut text, |nanos| nanos);
        assert!(text.contains("14000ns"), "{text}");
    }
}

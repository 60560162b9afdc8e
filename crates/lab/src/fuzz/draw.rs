//! [`draw`](fn@draw): the machine, its settings, groups, partitions and locks; then tasks and
//! changes.

use super::aim::aim;
use super::around::{around, pauses};
use super::changes::{changes, policies};
use super::dice::Dice;
use super::draft::{Block, Draft, ScenarioLine};
use super::tasks::{interrupts, services, tasks};
use super::trip::Trip;
use super::twin::Twin;
use zerolag_model::KernelVersion;
use zerolag_model::settings::SchedExtPolicy;

/// What tasks and changes of a scenario can refer to.
#[derive(Debug)]
pub(super) struct MachineDraw {
    pub(super) nr_cpus: u64,
    /// Length of a run in microseconds.
    pub(super) length: u64,
    /// Length of a tick in microseconds.
    pub(super) tick: u64,
    /// The groups, with the periods of their limits in microseconds.
    pub(super) groups: Vec<(String, u64)>,
    /// Groups with `cpu.idle`, which have no weight.
    pub(super) idle_groups: Vec<String>,
    /// The partitions that change, as `[cpuset.NAME]`, and the CPUs of each.
    pub(super) cpusets: Vec<(String, u64, u64)>,
    /// CPUs can go offline; each task may then use CPU 0, which stays.
    pub(super) has_hotplug: bool,
    pub(super) has_deadlines: bool,
    /// There is `[service.web]`, which tasks can call.
    pub(super) has_service: bool,
}

/// Returns scenario `number` of a seed, for one kernel, or else for any.
///
/// Same arguments, same text, on every machine.
#[must_use]
pub fn draw(seed: u64, number: u64, kernel: Option<KernelVersion>) -> Draft {
    let dice = &mut Dice::new(seed, number);
    let kernel = kernel.unwrap_or_else(|| dice.pick(KernelVersion::ALL));
    let twin = Some(Twin::ALL[(number % Twin::ALL.len() as u64) as usize]);
    let mut draft = Draft { twin, trip: Trip::of(number), ..Draft::default() };
    let (machine, nr_cpus) = machine(dice);
    // What a machine does in a time grows with its CPUs.
    let length = match nr_cpus {
        0..=16 => dice.of(60, 500),
        17..64 => dice.of(20, 80),
        _ => dice.of(2, 15),
    } * 1_000;
    let hz = dice.pick(&[100, 250, 250, 1000]);
    let costs = dice.pick(&["zero", "default"]);
    let mut top = Block::new("");
    top.line(format!("kernel = \"{kernel}\"")).line(format!("duration = \"{length}us\""));
    top.line(format!("seed = {}", dice.of(0, 9))).line(format!("costs = \"{costs}\""));
    // By its number, so that other draws stay what they are.
    if number % 2 == 1 {
        top.line("on_refused = \"continue\"");
    }
    let mut disk = Block::new("[disk.sda]");
    disk.line(format!("latency = \"{}us\"", dice.pick(&[80, 900, 5_000])));
    draft.blocks.extend([top, machine, settings(dice, hz, nr_cpus), disk]);
    let mut world = MachineDraw {
        nr_cpus,
        length,
        tick: 1_000_000 / hz,
        groups: Vec::new(),
        idle_groups: Vec::new(),
        cpusets: Vec::new(),
        has_hotplug: nr_cpus > 1 && dice.once_in(3),
        has_deadlines: dice.once_in(3),
        has_service: dice.once_in(4),
    };
    groups(dice, &mut world, &mut draft);
    cpusets(dice, &mut world, &mut draft);
    let mut protocol = |name: &str, inherits| {
        let mut block = Block::new(format!("[mutex.{name}]"));
        block.line(format!("protocol = \"{inherits}\""));
        draft.blocks.push(block);
    };
    protocol("m0", "inherit");
    protocol("m1", dice.pick(&["inherit", "none"]));
    let names = tasks(dice, &world, &mut draft);
    services(dice, &world, &mut draft);
    interrupts(dice, &mut draft);
    changes(dice, &world, &names, &mut draft);
    pauses(dice, world.has_hotplug, &mut draft);
    around(dice, &mut draft);
    if dice.once_in(2) {
        aim(dice, &mut draft);
    }
    // Dice of their own: the rest is what it was before there were processes.
    processes(&mut Dice::new(!seed, number), &mut draft);
    // So are these.
    loaded(&mut Dice::new(seed.rotate_left(32), number), &mut draft);
    policies(&mut Dice::new(seed.rotate_left(24), number), &world, &mut draft);
    readers(&mut Dice::new(seed.rotate_left(16), number), &mut draft);
    lives(&mut Dice::new(seed.rotate_left(48), number), length, &mut draft);
    rt_groups(&mut Dice::new(seed.rotate_left(8), number), &mut draft);
    rt_servers(&mut Dice::new(seed.rotate_left(56), number), length, &mut draft);
    user_spins(&mut Dice::new(seed.rotate_left(40), number), &mut draft);
    triggers(&mut Dice::new(seed.rotate_left(4), number), &mut draft);
    draft
}

/// Puts triggers on the pressure of the machine and of groups: those that a stall of a microsecond
/// sets off, and some that nothing does.
fn triggers(dice: &mut Dice, draft: &mut Draft) {
    if !dice.once_in(6) {
        return;
    }
    let mut trigger = |stalls: &[&str]| {
        let window = dice.pick(&[1_000, 10_001, 500_000, 700_001, 1_000_000, 2_000_000, 10_000_000]);
        let threshold = dice.pick(&[1, 1_000, 30_000, window / 2, window]).min(window);
        let text = format!("\"{} {threshold} {window}\"", dice.pick(stalls));
        if window % 2_000_000 == 0 && dice.once_in(2) { format!("{{ unprivileged = {text} }}") } else { text }
    };
    let mut root = Block::new("[group.\"/\"]");
    if draft.blocks.iter().all(|block| block.head != root.head) {
        root.list("\"cpu.pressure\"", vec![trigger(&["some"]), trigger(&["some"])]);
        draft.blocks.push(root);
    }
    for block in
        draft.blocks.iter_mut().filter(|block| block.head.starts_with("[group.\"/") && block.head != "[group.\"/\"]")
    {
        block.list("\"cpu.pressure\"", vec![trigger(&["some", "full"]), trigger(&["some", "full"])]);
    }
}

/// Makes fair tasks share a spinning lock of user space, with time slice extensions or without.
fn user_spins(dice: &mut Dice, draft: &mut Draft) {
    if !dice.once_in(8) {
        return;
    }
    let mut lock = Block::new("[user_spin_lock.shared]");
    lock.line(format!("slice_extension = \"{}\"", dice.pick(&["ask", "none"])));
    for block in &mut draft.blocks {
        if block.head == "[settings]" {
            block.line(format!("rseq_slice_ext = \"{}\"", dice.pick(&["on", "off"])));
            block.line(format!("\"rseq.slice_ext_nsec\" = \"{}us\"", dice.pick(&[5, 20, 50])));
        }
        let is_fair = block.value("policy").is_none_or(|policy| ["\"other\"", "\"batch\""].contains(&policy));
        if !block.head.starts_with("[task.") || !is_fair {
            continue;
        }
        for line in &mut block.lines {
            if let ScenarioLine::List("steps", steps) = line
                && dice.once_in(2)
            {
                steps.push("{ user_spin_lock = \"shared\" }".to_owned());
                steps.push(format!("{{ run = \"{}us\" }}", dice.of(1, 60)));
                if dice.once_in(2) {
                    steps.push(format!("{{ kernel = \"{}us\" }}", dice.of(1, 20)));
                }
                steps.push("{ user_spin_unlock = \"shared\" }".to_owned());
            }
        }
    }
    draft.blocks.push(lock);
}

/// Lets a group end in mid-run with its tasks, and perhaps begin there.
fn lives(dice: &mut Dice, length: u64, draft: &mut Draft) {
    if dice.once_in(2) {
        return;
    }
    // One that is changed, or joined, after its end is refused.
    let said = |block: &Block| block.value("group").map(|path| path.trim_matches('"').to_owned());
    let is_change = |block: &&Block| block.head == "[[change]]";
    let changed: Vec<String> = draft.blocks.iter().filter(is_change).filter_map(said).collect();
    let is_within = |path: &String, above: &str| {
        path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let path = |block: &Block| Some(block.head.strip_prefix("[group.\"")?.strip_suffix("\"]")?.to_owned());
    let is_free =
        |block: &&mut Block| path(block).is_some_and(|above| !changed.iter().any(|path| is_within(path, &above)));
    if let Some(block) = draft.blocks.iter_mut().find(is_free) {
        let until = dice.of(2, length);
        if dice.once_in(3) {
            block.line(format!("from = \"{}us\"", dice.of(1, until - 1)));
        }
        block.line(format!("until = \"{until}us\""));
    }
}

/// Makes tasks readers of RCU, or lets them wait for a grace period.
fn readers(dice: &mut Dice, draft: &mut Draft) {
    if !dice.once_in(6) {
        return;
    }
    for block in &mut draft.blocks {
        if block.head == "[settings]" {
            if dice.once_in(2) {
                block.set("\"preempt\"", "\"rt\"");
            }
            for (key, values) in RCU_SETTINGS {
                if dice.once_in(2) {
                    block.line(format!("\"{key}\" = {}", dice.pick(values)));
                }
            }
        }
        if !block.head.starts_with("[task.") {
            continue;
        }
        for line in &mut block.lines {
            if let ScenarioLine::List("steps", steps) = line
                && !dice.once_in(3)
            {
                let step = match dice.of(0, 2) {
                    0 => "\"synchronize_rcu\"".to_owned(),
                    _ => format!("{{ rcu_read = \"{}us\" }}", dice.of(1, 80) * dice.pick(&[1, 25, 100])),
                };
                steps.push(format!("{{ syscall = [{step}] }}"));
            }
        }
    }
}

const RCU_SETTINGS: [(&str, &[&str]); 3] = [
    ("rcu.boost", &["\"on\"", "\"off\""]),
    ("rcu.boost_delay", &["\"0ms\"", "\"8ms\"", "\"50ms\""]),
    ("rcu.kthread_prio", &["0", "1", "50", "99"]),
];

/// Loads a scheduler, and gives some fair tasks its policy.
fn loaded(dice: &mut Dice, draft: &mut Draft) {
    if !dice.once_in(6) {
        return;
    }
    for block in &mut draft.blocks {
        if block.head == "[settings]" {
            block.line(format!("sched_ext = \"{}\"", dice.pick(&["partial", "partial", "all", "off"])));
            if dice.once_in(3) {
                block.line(format!("\"sched_ext.policy\" = \"{}\"", dice.pick(SchedExtPolicy::ALL)));
            }
            for (key, values) in EXT_SETTINGS {
                if dice.once_in(3) {
                    block.line(format!("\"{key}\" = \"{}\"", dice.pick(values)));
                }
            }
        }
        let is_fair = |policy: &str| ["\"other\"", "\"batch\"", "\"idle\""].contains(&policy);
        if block.value("policy").is_some_and(is_fair) && !dice.once_in(3) {
            block.set("policy", "\"ext\"");
        }
    }
}

const EXT_SETTINGS: [(&str, &[&str]); 5] = [
    ("sched_ext.slice", &["1ms", "5ms", "20ms"]),
    ("ext_server", &["off", "immediate", "deferred"]),
    ("ext_server.runtime", &["1ms", "5ms", "50ms"]),
    ("ext_server.period", &["50ms", "100ms", "1s"]),
    ("ext_server.booked", &["both", "needed"]),
];

/// The kind of machine with more than 64 CPUs.
const LARGE: u64 = 10;

fn machine(dice: &mut Dice) -> (Block, u64) {
    let mut block = Block::new("[machine]");
    let kind = if dice.once_in(40) { LARGE } else { dice.of(0, 9) };
    let nr_cpus = match kind {
        0..=4 => {
            let cpus = dice.of(1, 8);
            block.line(format!("cpus = {cpus}"));
            cpus
        }
        5 => {
            let capacity = |dice: &mut Dice| dice.pick(&["1024", "512", "200"]).to_owned();
            if dice.once_in(2) {
                let cpus = dice.of(2, 4);
                block.line(format!("cpus = {cpus}"));
                block.list("capacities", (0..cpus).map(|_| capacity(dice)).collect());
                return (block, cpus);
            }
            // Cores of different capacity, with threads, under one or several caches.
            let [llcs, cores] = dice.pick(&[[1, 2], [1, 3], [2, 1], [2, 2], [3, 1]]);
            for (key, count) in [("llcs_per_socket", llcs), ("cores_per_llc", cores), ("smt", 2)] {
                block.line(format!("{key} = {count}"));
            }
            let of_cores: Vec<String> = (0..llcs * cores).map(|_| capacity(dice)).collect();
            block.list("capacities", of_cores.into_iter().flat_map(|of| [of.clone(), of]).collect());
            llcs * cores * 2
        }
        kind => {
            let counts = match kind {
                // More CPUs than one word of a mask has.
                LARGE => dice.pick(&[[1, 8, 8, 1], [2, 4, 8, 2], [4, 8, 8, 1], [4, 8, 8, 2], [3, 2, 11, 1]]),
                6 => [1, 1, dice.of(2, 4), 2],
                7 => [dice.of(2, 3), 1, dice.of(1, 3), 1],
                8 => [2, 2, dice.of(1, 3), dice.of(1, 2)],
                _ => [dice.of(1, 4), dice.of(1, 2), 8, dice.of(1, 2)],
            };
            for (key, count) in ["sockets", "llcs_per_socket", "cores_per_llc", "smt"].into_iter().zip(counts) {
                block.line(format!("{key} = {count}"));
            }
            counts.into_iter().product()
        }
    };
    (block, nr_cpus)
}

/// The settings that decide about interactions, with their values.
const SETTINGS: [(&str, &[&str]); 58] = [
    ("preempt", &["none", "voluntary", "full", "lazy", "rt"]),
    ("enforce.fair", &["tick", "hrtick", "exact"]),
    ("enforce.rt", &["tick", "exact"]),
    ("enforce.dl", &["tick", "hrtick", "exact"]),
    ("fair", &["cfs", "eevdf"]),
    ("throttle", &["immediate", "boost_on_wakeup", "boost_in_kernel", "boost_groups", "at_user_return"]),
    ("fair_server", &["off", "immediate", "deferred"]),
    ("fair_server.runtime", &["1ms", "5ms", "50ms"]),
    ("fair_server.period", &["50ms", "100ms", "1s"]),
    ("rt_throttling", &["on", "off"]),
    ("sched_rt_runtime_us", &["100000", "500000", "949999"]),
    ("features.RUN_TO_PARITY", &["on", "off"]),
    ("features.RT_RUNTIME_SHARE", &["on", "off"]),
    ("rt_push_skip_stuck", &["on", "off"]),
    ("rt_select_on_wake", &["on", "off"]),
    ("rt_select_beside_dl", &["on", "off"]),
    ("rt_balance", &["pull_locked", "ipi_per_cpu", "ipi_root_domain", "pull_claimed"]),
    ("rt_overload", &["queued", "pushable"]),
    ("features.DELAY_DEQUEUE", &["on", "off"]),
    ("proxy_exec", &["on", "off"]),
    ("nohz", &["on", "off"]),
    ("isolcpus", &["", "1"]),
    ("nohz_full", &["", "1-2"]),
    ("bandwidth", &["pool", "hard_limits"]),
    ("hard_limits.borrow", &["always", "once_per_period", "never"]),
    ("throttle_at", &["switch", "charge"]),
    ("cgroup_shares", &["continuous", "at_balance", "at_balance_unthrottled"]),
    ("cfs_bandwidth_interleave", &["on", "off"]),
    ("cfs_bandwidth_slack", &["on", "off"]),
    ("newidle_min_idle", &["on", "off"]),
    ("irq_time_accounting", &["on", "off"]),
    ("timer_slack_ns", &["0", "50000"]),
    ("threadirqs", &["on", "off"]),
    ("softirq.timer_threads", &["on", "off"]),
    ("softirq.bh_lock", &["on", "off"]),
    ("fair_server.start", &["fair", "rt_and_fair"]),
    ("fair_server.stop", &["picked", "unneeded"]),
    ("hierarchical_running", &["on", "off"]),
    ("fair_balance", &["kinds", "load_per_task", "load_above_capacity"]),
    ("smt_balance", &["on", "off"]),
    ("features.NI_RANDOM", &["on", "off"]),
    ("fair_hierarchy", &["nested", "flat"]),
    ("cgroup_mode", &["smp", "up", "max", "concur", "tasks"]),
    ("asym_idle_core", &["on", "off"]),
    ("asym_sis_util", &["on", "off"]),
    ("asym_prefer_sibling", &["on", "off"]),
    ("nohz_idle_core", &["on", "off"]),
    ("fault.asym_strong_hides", &["on", "off"]),
    ("fault.asym_misfit_hides", &["on", "off"]),
    ("fault.asym_thread_stays", &["on", "off"]),
    ("balance_eligible", &["on", "off"]),
    ("request_scaled", &["on", "off"]),
    ("features.PICK_BUDDY", &["on", "off"]),
    ("features.NEXT_BUDDY", &["on", "off"]),
    ("features.LAST_BUDDY", &["on", "off"]),
    ("wakeup_after_buddy", &["on", "off"]),
    ("fault.buddy_before_short", &["on", "off"]),
    ("fault.group_move_unnoticed", &["on", "off"]),
];

/// Makes tasks and services threads of processes, on a machine with several caches.
fn processes(dice: &mut Dice, draft: &mut Draft) {
    let counts = ["sockets", "llcs_per_socket"];
    let has_caches = |block: &Block| block.head == "[machine]" && counts.iter().any(|key| block.value(key) > Some("1"));
    if !draft.blocks.iter().any(has_caches) || dice.once_in(2) {
        return;
    }
    for block in &mut draft.blocks {
        if block.head == "[settings]" {
            for (key, values) in CACHE_SETTINGS {
                if dice.once_in(2) {
                    block.line(format!("\"{key}\" = {}", dice.pick(values)));
                }
            }
        }
        if (block.head.starts_with("[task.") || block.head.starts_with("[service.")) && !dice.once_in(3) {
            block.lines.insert(0, ScenarioLine::Text(format!("process = \"shared{}\"", dice.of(0, 1))));
        }
    }
}

const CACHE_SETTINGS: [(&str, &[&str]); 6] = [
    ("llc_balancing", &["\"on\"", "\"on\"", "\"off\""]),
    ("llc_balancing.aggr_tolerance", &["0", "1", "2", "100"]),
    ("llc_balancing.epoch_period", &["\"1ms\"", "\"10ms\"", "\"50ms\""]),
    ("llc_balancing.epoch_affinity_timeout", &["0", "1", "5"]),
    ("llc_balancing.overaggr_pct", &["0", "50", "100"]),
    ("llc_balancing.imb_pct", &["0", "20", "300"]),
];

fn settings(dice: &mut Dice, hz: u64, nr_cpus: u64) -> Block {
    let mut block = Block::new("[settings]");
    block.line(format!("hz = {hz}"));
    for (key, values) in SETTINGS {
        if dice.once_in(5) {
            let value = match (key, dice.pick(values), nr_cpus) {
                // These name CPUs, which must exist.
                ("isolcpus" | "nohz_full", _, 1) => "",
                ("nohz_full", "1-2", 2) => "1",
                (_, value, _) => value,
            };
            let value = if value.parse::<u64>().is_ok() && !key.contains("cpus") {
                value.to_owned()
            } else {
                format!("\"{value}\"")
            };
            block.line(format!("\"{key}\" = {value}"));
        }
    }
    block
}

/// Gives every group a real-time runtime that the root has room for, small enough to be used up.
fn rt_groups(dice: &mut Dice, draft: &mut Draft) {
    if !dice.once_in(6) {
        return;
    }
    let is_settings = |block: &&mut Block| block.head == "[settings]";
    let Some(settings) = draft.blocks.iter_mut().find(is_settings) else { return };
    settings.line("rt_group_sched = \"on\"");
    settings.unset("\"sched_rt_runtime_us\"");
    if dice.once_in(2) {
        settings.unset("\"features.RT_RUNTIME_SHARE\"");
        settings.line("\"features.RT_RUNTIME_SHARE\" = \"on\"");
    }
    // The root group keeps what it had at the start: a lower limit of all would be refused.
    draft.blocks.retain(|block| block.value("sched_rt_runtime_us") != Some("950000"));
    for block in draft.blocks.iter_mut().filter(|block| block.head.starts_with("[group.\"")) {
        let is_nested = block.head.matches('/').count() > 1;
        let period = dice.pick(&[1_000, 3_000, 10_000, 33_000, 100_000]);
        // At most three groups: 0.9 of a CPU in all, and two below one of 0.2.
        let share = if is_nested { dice.of(1, 10) } else { dice.of(20, 30) };
        block.line(format!("\"cpu.rt_period_us\" = {period}"));
        block.line(format!("\"cpu.rt_runtime_us\" = {}", period * share / 100));
    }
}

/// Gives groups deadline servers for their real-time tasks, which perhaps change in mid-run.
fn rt_servers(dice: &mut Dice, length: u64, draft: &mut Draft) {
    let is_settings = |block: &&mut Block| block.head == "[settings]";
    let Some(settings) = draft.blocks.iter_mut().find(is_settings) else { return };
    if settings.value("rt_group_sched").is_some() || !dice.once_in(6) {
        return;
    }
    settings.line("rt_group_sched = \"hcbs\"");
    let budget = |dice: &mut Dice, is_nested: bool| {
        let period = dice.pick(&[1_000, 3_000, 10_000, 33_000, 100_000]);
        let share = if is_nested { dice.of(1, 8) } else { dice.of(16, 20) };
        format!("\"cpu.rt.max\" = \"{} {period}\"", period * share / 100)
    };
    let mut with_budget = Vec::new();
    for block in draft.blocks.iter_mut().filter(|block| block.head.starts_with("[group.\"")) {
        let path = block.head["[group.\"".len()..].trim_end_matches("\"]").to_owned();
        let is_nested = path.matches('/').count() > 1;
        if dice.once_in(4) {
            block.line("\"cpu.rt.max\" = \"max\"");
        } else if !dice.once_in(4) {
            block.line(budget(dice, is_nested));
            if block.value("until").is_none() && block.value("from").is_none() {
                with_budget.push((path, is_nested));
            }
        }
    }
    // The part that is set apart for all groups: enough for three of 0.2 of a CPU, or not.
    if dice.once_in(8) {
        let mut root = Block::new("[group.\"/\"]");
        root.line(format!("\"cpu.rt.max\" = \"{} 100000\"", dice.pick(&[60_000, 60_000, 65_000, 30_000])));
        draft.blocks.push(root);
    }
    if let Some((path, is_nested)) = with_budget.first().filter(|_| dice.once_in(2)) {
        let mut change = Block::new("[[change]]");
        change.line(format!("at = \"{}us\"", dice.of(1, length)));
        change.line(format!("group = \"{path}\""));
        change.line(budget(dice, *is_nested));
        draft.blocks.push(change);
    }
}

fn groups(dice: &mut Dice, world: &mut MachineDraw, draft: &mut Draft) {
    for index in 0..dice.of(0, 3) {
        let nested = index > 0 && dice.once_in(2);
        let path = if nested { format!("{}/g{index}", world.groups[0].0) } else { format!("/g{index}") };
        let mut block = Block::new(format!("[group.\"{path}\"]"));
        // The kernel takes no period below 1 ms (`min_cfs_quota_period`).
        let period = dice.pick(&[1_000, 1_001, 1_733, 5_000, 10_000, 20_000, 50_000, 100_000, 100_000]);
        if !dice.once_in(3) {
            let quota = limit(dice, period);
            block.line(format!("\"cpu.max\" = \"{quota} {period}\""));
            if dice.once_in(4) {
                block.line(format!("\"cpu.max.burst\" = {}", quota / dice.pick(&[1, 2, 10])));
            }
        }
        match dice.of(0, 5) {
            0 | 1 => {
                block.line(format!("\"cpu.weight\" = {}", dice.pick(&[1, 20, 100, 1000, 10_000])));
            }
            2 => {
                block.line("\"cpu.idle\" = 1");
                world.idle_groups.push(path.clone());
            }
            _ => {}
        }
        draft.blocks.push(block);
        world.groups.push((path, period));
    }
}

/// Returns a quota in microseconds: often less than one CPU, now and then several.
pub(super) fn limit(dice: &mut Dice, period: u64) -> u64 {
    let percent = dice.pick(&[3, 10, 25, 50, 90, 100, 150, 300]);
    (period * percent / 100).max(1_000)
}

fn cpusets(dice: &mut Dice, world: &mut MachineDraw, draft: &mut Draft) {
    if world.nr_cpus < 4 || world.has_hotplug || world.has_deadlines || !dice.once_in(5) {
        return;
    }
    let first = dice.of(1, world.nr_cpus - 2);
    let last = dice.of(first, world.nr_cpus - 2);
    let mut block = Block::new("[cpuset.part]");
    block.line(format!("cpus = \"{first}-{last}\""));
    let change = |dice: &mut Dice, to| {
        let at = dice.of(1, world.length);
        format!("{{ at = \"{at}us\", partition = \"{to}\" }}")
    };
    block.list("changes", vec![change(dice, "root")]);
    draft.blocks.push(block);
    world.cpusets.push(("part".to_owned(), first, last));
}

/// Returns a list of CPUs.
pub(super) fn some_cpus(dice: &mut Dice, world: &MachineDraw) -> String {
    let first = if world.has_hotplug { 0 } else { dice.of(0, world.nr_cpus - 1) };
    format!("{first}-{}", dice.of(first, world.nr_cpus - 1))
}

//! [`Variation`]: the first line of an output block: how the run differs from the scenario, and
//! which part is shown.

use super::STEP;
use zerolag::error::ValueError;
use zerolag::simulation::Plan;
use zerolag_check::monitors;
use zerolag_model::settings::nearest;
use zerolag_model::{Duration, KernelVersion, Settings, Topology};
use zerolag_report::events::KINDS;
use zerolag_report::timeline::Rows;
use zerolag_sim::Costs;
use zerolag_sim::costs::{ByDistance, IdleState};
use zerolag_sim::sketch::{Sketch, Standstills};
use zerolag_workload::Scenario;

/// How a run differs from its scenario, and which part of it is shown.
#[derive(Clone, Debug)]
pub(super) struct Variation {
    settings: Vec<(String, String)>,
    /// Values of the policy.
    policy: Vec<(String, String)>,
    pub(super) kernel: Option<KernelVersion>,
    pub(super) machine: Option<Topology>,
    duration: Option<Duration>,
    seed: Option<u64>,
    costs: Option<String>,
    cost_entries: Vec<(String, String)>,
    /// Monitors that must find something.
    pub(super) violates: Vec<String>,
    /// How long the machine must be quiet before the monitors expect order.
    pub(super) settle: Option<Duration>,
    /// The kinds of events that are listed; all if empty.
    pub(super) only: Vec<String>,
    /// Start and end of a timeline, from the run's start.
    pub(super) from: Option<Duration>,
    pub(super) to: Option<Duration>,
    /// The column of a timeline.
    pub(super) step: Duration,
    pub(super) rows: Rows,
}

impl Variation {
    /// Reads the words after a block's kind.
    pub(super) fn read(info: &str) -> Result<Self, String> {
        let mut variation = Self {
            settings: Vec::new(),
            policy: Vec::new(),
            kernel: None,
            machine: None,
            duration: None,
            seed: None,
            costs: None,
            cost_entries: Vec::new(),
            violates: Vec::new(),
            settle: None,
            only: Vec::new(),
            from: None,
            to: None,
            step: STEP,
            rows: Rows::Cpus,
        };
        for word in words(info)? {
            match word.split_once('=') {
                None if word == "tasks" => variation.rows = Rows::CpusAndTasks,
                None => return Err(format!("unknown word `{word}`; known are `tasks` and KEY=VALUE")),
                Some((key, value)) => variation.read_pair(key, value)?,
            }
        }
        Ok(variation)
    }

    fn read_pair(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "kernel" => {
                let known = value.parse::<KernelVersion>();
                self.kernel = Some(known.map_err(|error| error.to_string())?);
            }
            "cpus" => {
                let cpus = value.parse().map_err(|_| format!("`cpus`: `{value}` is not a number"))?;
                self.machine = Some(Topology::flat(cpus).map_err(|error| format!("`cpus`: {error}"))?);
            }
            "seed" => self.seed = Some(value.parse().map_err(|_| format!("`seed`: `{value}` is not a number"))?),
            "costs" => self.costs = Some(value.to_owned()),
            "duration" => self.duration = Some(time(key, value)?),
            "from" => self.from = Some(time(key, value)?),
            "to" => self.to = Some(time(key, value)?),
            "settle" => self.settle = Some(time(key, value)?),
            "step" => self.step = time(key, value)?,
            "violates" => {
                let known: Vec<&str> = monitors::TABLE.iter().map(|rule| rule.name).collect();
                self.violates = list("monitor", value, &known)?;
            }
            "only" => self.only = list("kind", value, KINDS)?,
            _ if key.starts_with("policy.") => self.policy.push((key.to_owned(), value.to_owned())),
            _ => match key.strip_prefix("cost.") {
                Some(entry) => {
                    cost(&mut Costs::zero(), entry, value)?;
                    self.cost_entries.push((entry.to_owned(), value.to_owned()));
                }
                None => {
                    Settings::default().set(key, value).map_err(|error| error.to_string())?;
                    self.settings.push((key.to_owned(), value.to_owned()));
                }
            },
        }
        Ok(())
    }

    /// Applies the variation to a scenario.
    pub(super) fn apply_to_scenario(&self, scenario: &mut Scenario) {
        scenario.settings.extend(self.settings.iter().cloned());
        scenario.seed = self.seed.or(scenario.seed);
        scenario.duration = self.duration.or(scenario.duration);
        if let Some(costs) = &self.costs {
            scenario.costs = Some(costs.clone());
        }
    }

    /// Applies values of the policy and single entries of the cost profile to a plan.
    pub(super) fn apply_to_plan(&self, plan: &mut Plan) -> Result<(), String> {
        for (entry, value) in &self.cost_entries {
            cost(&mut plan.config.costs, entry, value)?;
        }
        if !self.policy.is_empty() {
            let said = |wrong: Vec<ValueError>| {
                wrong.iter().map(|wrong| format!("{}: {}", wrong.key, wrong.message)).collect::<Vec<_>>().join("\n")
            };
            plan.set_policy_values(&self.policy).map_err(said)?;
        }
        if !self.cost_entries.is_empty() {
            plan.config.costs.name.push_str(", changed");
        }
        Ok(())
    }
}

/// Splits the words of a line; white space within double quotes, which are left out, is part of a
/// word.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            c if c.is_whitespace() && !is_quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    if is_quoted {
        return Err("a double quote is not closed".to_owned());
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    Ok(words)
}

fn time(key: &str, value: &str) -> Result<Duration, String> {
    let value: Duration = value.parse().map_err(|error| format!("`{key}`: {error}"))?;
    if value.is_zero() && key == "step" {
        return Err("`step`: a column must be longer than zero".to_owned());
    }
    Ok(value)
}

fn list(what: &str, value: &str, known: &[&str]) -> Result<Vec<String>, String> {
    let words = value.split(',').map(|word| {
        if known.contains(&word) {
            return Ok(word.to_owned());
        }
        match nearest(word, known.iter().copied()) {
            Some(near) => Err(format!("unknown {what} `{word}`; did you mean `{near}`?")),
            None => Err(format!("unknown {what} `{word}`; known are {}", known.join(", "))),
        }
    });
    words.collect()
}

/// Sets one entry of a cost profile; entries by distance get the same value at every distance.
fn cost(costs: &mut Costs, entry: &str, value: &str) -> Result<(), String> {
    if entry == "smt_speed_percent" {
        let percent = value.parse().ok().filter(|percent| (1..=100).contains(percent));
        costs.smt_speed_percent = percent.ok_or_else(|| format!("`{entry}`: `{value}` is outside 1..=100 percent"))?;
        return Ok(());
    }
    if entry == "idle_states" {
        costs.idle_states = value.split(',').map(idle_state).collect::<Result<_, _>>()?;
        return Ok(());
    }
    if let "stolen" | "smi" = entry {
        let of = if entry == "stolen" { &mut costs.stolen } else { &mut costs.smi };
        *of = standstills(entry, value)?;
        return Ok(());
    }
    let value = time(entry, value)?;
    let everywhere = ByDistance { smt: value, llc: value, socket: value, remote: value };
    match entry {
        "context_switch" => costs.context_switch = value,
        "fair_switch" => costs.fair_switch = value,
        "pick" => costs.pick = value,
        "fair_pick" => costs.fair_pick = value,
        "wakeup_local" => costs.wakeup_local = value,
        "wakeup_remote" => costs.wakeup_remote = value,
        "fair_wakeup" => costs.fair_wakeup = value,
        "group_wakeup" => costs.group_wakeup = value,
        "queued_wakeup" => costs.queued_wakeup = value,
        "syscall" => costs.syscall = value,
        "waiting_call" => costs.waiting_call = value,
        "sleep_call" => costs.sleep_call = value,
        "call_rest" => costs.call_rest = value,
        "boost" => costs.boost = value,
        "unboost" => costs.unboost = value,
        "pipe_io" => costs.pipe_io = value,
        "pipe_alone" => costs.pipe_alone = value,
        "ipi_send" => costs.ipi_send = value,
        "ipi_latency" => costs.ipi_latency = everywhere,
        "ipi_handler" => costs.ipi_handler = value,
        "ipi_work" => costs.ipi_work = everywhere,
        "inner_lock" => costs.inner_lock = value,
        "timer_irq" => costs.timer_irq = value,
        "tick" => costs.tick = value,
        "fair_tick" => costs.fair_tick = value,
        "hrtick" => costs.hrtick = value,
        "line_read" => costs.line_read = everywhere,
        "cpupri_search" => costs.cpupri_search = value,
        "line_write" => costs.line_write = everywhere,
        "rq_lock_hold" => costs.rq_lock_hold = value,
        "rq_lock_transfer" => costs.rq_lock_transfer = everywhere,
        "scan_per_cpu" => costs.scan_per_cpu = value,
        "scan_per_task" => costs.scan_per_task = value,
        "migrate_task" => costs.migrate_task = value,
        "policy_call" => costs.policy_call = value,
        "throttle" => costs.throttle = value,
        "cache_refill" => costs.cache_refill = everywhere,
        "idle_exit" => costs.idle_exit = value,
        _ => return Err(format!("unknown cost `{entry}`")),
    }
    Ok(())
}

/// Reads standstills: `GAP:LENGTH`, each a time or `LEAST..MOST` of which all are as likely.
fn standstills(entry: &str, text: &str) -> Result<Standstills, String> {
    let (gap, length) = text.split_once(':').ok_or_else(|| format!("`{entry}`: `{text}` is not GAP:LENGTH"))?;
    let times = |text: &str| match text.split_once("..") {
        None => Ok(Sketch::constant(time(entry, text)?)),
        Some((least, most)) => Sketch::uniform(time(entry, least)?, time(entry, most)?),
    };
    Standstills::new(times(gap)?, times(length)?).map_err(|error| format!("`{entry}`: {error}"))
}

/// Reads an idle state: `RESIDENCY:EXIT`, `RESIDENCY:EXIT:polling`, or with `:LATENCY` after that.
fn idle_state(text: &str) -> Result<IdleState, String> {
    let read = |value: &str| time("idle_states", value);
    let (residency, exit, polling, latency) = match *text.split(':').collect::<Vec<_>>() {
        [residency, exit] => (residency, exit, false, None),
        [residency, exit, "polling"] => (residency, exit, true, None),
        [residency, exit, "polling", latency] => (residency, exit, true, Some(read(latency)?)),
        _ => return Err(format!("`idle_states`: `{text}` is not RESIDENCY:EXIT[:polling[:LATENCY]]")),
    };
    let ipi_latency = latency.map(|time| ByDistance { smt: time, llc: time, socket: time, remote: time });
    Ok(IdleState { residency: read(residency)?, exit: read(exit)?, polling, ipi_latency })
}

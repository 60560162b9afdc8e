//! [`Spelling`]: the kernel's names of settings, with the values that its files take.
//!
//! A setting has the kernel's name where it had one when it was added. Kernels name the same value
//! several times over the years (`kernel.sched_migration_cost`, `sched_migration_cost_ns`, debugfs
//! `migration_cost_ns`), write a mode as a number, and no limit as -1. A line of `sysctl.d` or a
//! path below `/sys` is to be copied, not translated by hand, so each name is accepted wherever a
//! setting is: in `[settings]`, by `--set`, in sweeps.
//!
//! A row says which setting a name means and how its numbers become values of that setting. Files
//! that exist once per CPU (`fair_server/cpu3/runtime`) change that CPU's entry of
//! `fair_server.cpus`. A file of the kernel that is not modelled is refused by name, with what to
//! use instead: "unknown" would send its user looking for a misspelling.
//!
//! Traces have the settings, never the spelling.
//!
//! Sources: Linux v2.6.23, v3.10, v5.10 `kernel/sysctl.c`; v6.12 `kernel/sched/debug.c`,
//! `sched_init_debug`, `debugfs_fair_server_init`; `kernel/sched/rt.c`, `sched_rr_handler` (0 and
//! less is the default), `sched_rt_global_constraints`; the patches of 2023 that became the fair
//! server (7/7, "add a per_rq interface for the knobs").

use super::{CpuServer, FairServer, SettingError, Settings};
use crate::cpumask::CpuMask;
use crate::ids::CpuId;
use crate::time::Duration;
use alloc::format;
use alloc::string::{String, ToString};

/// A kernel's name of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spelling {
    /// The name, without directories.
    pub key: &'static str,
    /// The name of the setting.
    pub setting: &'static str,
    /// Values of the kernel that are not values of the setting, and what they become.
    pub values: &'static [(&'static str, &'static str)],
    /// Where the kernel has it.
    pub place: &'static str,
}

const SYSCTL: &str = "/proc/sys/kernel";
const DEBUGFS: &str = "/sys/kernel/debug/sched";
const BOOT: &str = "boot option";
const PATCHES: &str = "patches of 2023";
const VARIABLE: &str = "variable";
const CONFIG: &str = "configuration";

/// Directories that may stand before a name, and the prefix of `sysctl`.
const PREFIXES: [&str; 3] = ["/proc/sys/kernel/", "/sys/kernel/debug/sched/", "kernel."];

const fn row(key: &'static str, setting: &'static str, place: &'static str) -> Spelling {
    Spelling { key, setting, values: &[], place }
}

/// A runtime that is above every period: no limit.
const NO_LIMIT: &str = "4194305us";

/// Every kernel's name that differs from the setting's, or takes other values.
pub(super) const SPELLINGS: [Spelling; 30] = [
    Spelling { values: &[("-1", NO_LIMIT)], ..row("sched_rt_runtime_us", "sched_rt_runtime_us", SYSCTL) },
    Spelling {
        values: &[("-1", "100ms"), ("0", "100ms")],
        ..row("sched_rr_timeslice_ms", "sched_rr_timeslice_ms", SYSCTL)
    },
    Spelling { values: SCALINGS, ..row("sched_tunable_scaling", "tunable_scaling", SYSCTL) },
    Spelling { values: SCALINGS, ..row("tunable_scaling", "tunable_scaling", DEBUGFS) },
    row("sched_migration_cost_ns", "migration_cost_ns", SYSCTL),
    row("sched_migration_cost", "migration_cost_ns", SYSCTL),
    row("sched_nr_migrate", "nr_migrate", SYSCTL),
    row("latency_ns", "sched_latency_ns", DEBUGFS),
    row("min_granularity_ns", "sched_min_granularity_ns", DEBUGFS),
    row("wakeup_granularity_ns", "sched_wakeup_granularity_ns", DEBUGFS),
    row("fair_server_runtime", "fair_server.runtime", PATCHES),
    row("fair_server_period", "fair_server.period", PATCHES),
    Spelling { values: &[("0", "immediate"), ("1", "deferred")], ..row("fair_server_defer", "fair_server", PATCHES) },
    row("sched_proxy_exec", "proxy_exec", BOOT),
    // Variables: articles and patches name them instead of the files.
    row("sysctl_sched_cfs_bandwidth_slice", "sched_cfs_bandwidth_slice_us", VARIABLE),
    row("sysctl_sched_rt_period", "sched_rt_period_us", VARIABLE),
    Spelling { values: &[("-1", NO_LIMIT)], ..row("sysctl_sched_rt_runtime", "sched_rt_runtime_us", VARIABLE) },
    row("sysctl_sched_latency", "sched_latency_ns", VARIABLE),
    row("sysctl_sched_min_granularity", "sched_min_granularity_ns", VARIABLE),
    row("sysctl_sched_wakeup_granularity", "sched_wakeup_granularity_ns", VARIABLE),
    row("sysctl_sched_migration_cost", "migration_cost_ns", VARIABLE),
    row("sysctl_sched_nr_migrate", "nr_migrate", VARIABLE),
    // Lines of a kernel's configuration that is known from `/boot/config-*`.
    Spelling { values: &[("y", "none")], ..row("CONFIG_PREEMPT_NONE", "preempt", CONFIG) },
    Spelling { values: &[("y", "voluntary")], ..row("CONFIG_PREEMPT_VOLUNTARY", "preempt", CONFIG) },
    Spelling { values: &[("y", "full")], ..row("CONFIG_PREEMPT", "preempt", CONFIG) },
    Spelling { values: &[("y", "lazy")], ..row("CONFIG_PREEMPT_LAZY", "preempt", CONFIG) },
    Spelling { values: &[("y", "rt")], ..row("CONFIG_PREEMPT_RT", "preempt", CONFIG) },
    Spelling { values: &[("y", "cpuset"), ("n", "global")], ..row("CONFIG_CPUSETS", "overload_scope", CONFIG) },
    Spelling { values: &[("y", "on"), ("n", "off")], ..row("CONFIG_RT_GROUP_SCHED", "rt_group_sched", CONFIG) },
    row("CONFIG_HZ", "hz", CONFIG),
];

const SCALINGS: &[(&str, &str)] = &[("0", "none"), ("1", "logarithmic"), ("2", "linear")];

/// Files of the kernel without a setting, and what to do instead.
const NOT_MODELLED: [(&str, &str); 14] = [
    ("cpuset.mems", "memory has no nodes here, leave it out"),
    ("sched_util_clamp_min", "use cpu.uclamp.min of a group, uclamp_min of a task"),
    ("sched_util_clamp_max", "use cpu.uclamp.max of a group, uclamp_max of a task"),
    ("sched_util_clamp_min_rt_default", "use uclamp_min of a task"),
    ("sched_deadline_period_min_us", "every period is admitted, leave it out"),
    ("sched_deadline_period_max_us", "every period is admitted, leave it out"),
    ("sched_autogroup_enabled", "use [group.\"/path\"] for each session"),
    ("sched_child_runs_first", "tasks start at given times, leave it out"),
    ("sched_energy_aware", "tasks are placed as without an energy model"),
    ("sched_itmt_enabled", "use capacities of [machine]"),
    ("sched_schedstats", "everything is counted, leave it out"),
    ("sched_shares_window", "see load_tracking"),
    ("sched_shares_window_ns", "see load_tracking"),
    ("sched_time_avg_ms", "see load_tracking"),
];

/// The name of a file that each CPU has, with the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ServerFile {
    Runtime(CpuId),
    Period(CpuId),
    Defer(CpuId),
}

impl ServerFile {
    /// Returns the file of a name such as `fair_server/cpu3/runtime`, or of the patches before
    /// v6.12 `rq/CPU3/fair_server_runtime`.
    pub(super) fn of(key: &str) -> Option<Self> {
        let key = bare(key);
        let (cpu, file) = match key.strip_prefix("rq/") {
            Some(of_queue) => {
                let (cpu, file) = of_queue.split_once('/')?;
                let cpu = cpu.strip_prefix("CPU").or_else(|| cpu.strip_prefix("cpu"))?;
                (cpu, file.strip_prefix("fair_server_")?)
            }
            None => key.strip_prefix("fair_server/cpu")?.split_once('/')?,
        };
        let is_number = !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit());
        let cpu = CpuId(cpu.parse().ok().filter(|_| is_number)?);
        match file {
            "runtime" => Some(Self::Runtime(cpu)),
            "period" => Some(Self::Period(cpu)),
            "defer" => Some(Self::Defer(cpu)),
            _ => None,
        }
    }

    const fn cpu(self) -> CpuId {
        match self {
            Self::Runtime(cpu) | Self::Period(cpu) | Self::Defer(cpu) => cpu,
        }
    }

    /// Returns the server that its CPU has after a value was written, with those of the settings
    /// for what was not written.
    fn written(self, settings: &Settings, value: &str) -> Result<CpuServer, String> {
        let cpu = self.cpu();
        let of_all = (settings.fair_server_runtime, settings.fair_server_period);
        let before = settings.fair_server_cpus.0.iter().rev().find(|one| one.cpus.contains(cpu));
        let mut server = before.map_or(settings.fair_server, |one| one.server);
        let (mut runtime, mut period) = before.and_then(|one| one.budget).unwrap_or(of_all);
        match self {
            Self::Runtime(_) => {
                runtime = super::read_duration(value, Duration::from_nanos(1))?;
                // A runtime of zero is the kernel's way to stop a server, any other starts it.
                if server == FairServer::Off && !runtime.is_zero() {
                    server = FairServer::Deferred;
                }
            }
            Self::Period(_) => period = super::read_duration(value, Duration::from_nanos(1))?,
            Self::Defer(_) => {
                server = match value {
                    "0" => FairServer::Immediate,
                    "1" => FairServer::Deferred,
                    _ => return Err(format!("`{value}` is neither 0 nor 1")),
                }
            }
        }
        let mut cpus = CpuMask::new();
        cpus.insert(cpu);
        Ok(CpuServer { cpus, server, budget: Some((runtime, period)) })
    }

    /// Changes the entry of its CPU; checks as `fair_server.cpus` does.
    fn set(self, settings: &mut Settings, value: &str) -> Result<(), SettingError> {
        let refuse = |reason| SettingError::BadValue { key: "fair_server.cpus", reason };
        let mut all = settings.fair_server_cpus.clone();
        let entry = self.written(settings, value).map_err(refuse)?;
        all.0.retain(|one| one.cpus != entry.cpus);
        all.0.push(entry);
        settings.set("fair_server.cpus", &super::SettingValue::show(&all))
    }
}

/// Returns a key without the directory of the kernel's file.
fn bare(key: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix)).unwrap_or(key)
}

/// Returns what a key and a value of the kernel are as a setting.
fn meant<'a>(key: &'a str, value: &'a str) -> (&'a str, &'a str) {
    let key = bare(key);
    let Some(row) = SPELLINGS.iter().find(|row| row.key == key) else { return (key, value) };
    let known = row.values.iter().find(|(theirs, _)| *theirs == value);
    (row.setting, known.map_or(value, |(_, ours)| ours))
}

impl Settings {
    /// Every kernel's name of a setting that differs from the setting's, or takes other values.
    pub const SPELLINGS: &'static [Spelling] = &SPELLINGS;

    /// Sets one setting from its text. The key and the value may be the kernel's
    /// ([`SPELLINGS`](Self::SPELLINGS)).
    ///
    /// ```
    /// use zerolag_model::Settings;
    ///
    /// let mut settings = Settings::default();
    /// settings.set("fair_server/cpu3/runtime", "20000000")?;
    /// settings.set("kernel.sched_rt_runtime_us", "-1")?;
    /// assert_eq!(settings.rt_bandwidth().runtime, None);
    /// # Ok::<(), zerolag_model::settings::SettingError>(())
    /// ```
    ///
    /// # Errors
    /// The key is unknown or the value is not one it takes; nothing is changed then.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        if let Some(file) = ServerFile::of(key) {
            return file.set(self, value.trim());
        }
        let (name, value) = meant(key, value.trim());
        let Some(setting) = Self::TABLE.iter().find(|setting| setting.name == name || setting.key == name) else {
            if let Some((key, instead)) = NOT_MODELLED.iter().find(|(known, _)| *known == name) {
                return Err(SettingError::NotModelled { key, instead });
            }
            return Err(SettingError::UnknownKey { key: key.to_string(), near: Self::nearest(key) });
        };
        (setting.read)(self, value).map_err(|reason| SettingError::BadValue { key: setting.name, reason })
    }

    /// Returns the name of the setting that a key means; a file that each CPU has, and an unknown
    /// key, stay as they are.
    #[must_use]
    pub fn name_of(key: &str) -> &str {
        let (name, _) = meant(key, "");
        Self::TABLE.iter().find(|setting| setting.key == name).map_or(name, |setting| setting.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TunableScaling;
    use crate::settings::nearest;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    fn set(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        let mut settings = Settings::default();
        pairs.iter().try_for_each(|(key, value)| settings.set(key, value)).map_err(|error| error.to_string())?;
        Ok(settings)
    }

    #[test]
    fn every_spelling_sets_its_setting_like_the_settings_own_key() {
        let keys: BTreeSet<&str> = SPELLINGS.iter().map(|row| row.key).collect();
        assert_eq!(keys.len(), SPELLINGS.len(), "no key has two meanings");
        for row in SPELLINGS {
            let name = row.setting;
            let setting = Settings::TABLE.iter().find(|setting| setting.name == name).expect(name);
            let own = setting.value(&Settings::default());
            let values = row.values.iter().copied().chain([(&*own, &*own)]);
            for (theirs, ours) in values {
                let expected = set(&[(name, ours)]);
                for key in PREFIXES.iter().map(|prefix| format!("{prefix}{}", row.key)).chain([row.key.to_string()]) {
                    assert_eq!(set(&[(&key, theirs)]), expected, "{key}={theirs}");
                    assert_eq!(Settings::name_of(&key), name);
                }
                assert!(expected.is_ok(), "{name}={ours}");
            }
        }
    }

    #[test]
    fn minus_one_is_no_limit_until_a_limit_is_set() {
        let without = set(&[("sched_rt_runtime_us", "-1"), ("sched_rt_period_us", "4194304")]).expect("both");
        assert_eq!(without.rt_bandwidth().runtime, None, "also with the longest period");
        let again = set(&[("sched_rt_runtime_us", "-1"), ("sched_rt_runtime_us", "950000")]).expect("both");
        assert_eq!(again.rt_bandwidth().runtime, Some(Duration::from_millis(950)));
        let shown =
            without.entries().find(|(setting, _)| setting.name == "sched_rt_runtime_us").expect("it is there").1;
        assert_eq!(set(&[("sched_rt_runtime_us", &shown)]).expect("traces are read").rt_bandwidth().runtime, None);
        assert!(set(&[("sched_rt_runtime_us", "-2")]).is_err());
        assert_eq!(set(&[("sched_tunable_scaling", "2")]).expect("a mode").tunable_scaling, TunableScaling::Linear);
    }

    #[test]
    fn the_files_of_a_cpu_change_its_server_only() {
        let shown = |pairs: &[(&str, &str)]| {
            set(pairs).map(|settings| super::super::SettingValue::show(&settings.fair_server_cpus))
        };
        let runtime = ("fair_server/cpu3/runtime", "20000000");
        assert_eq!(shown(&[runtime]), Ok("3=deferred:20ms/1s".to_string()));
        let all =
            [runtime, ("/sys/kernel/debug/sched/fair_server/cpu3/period", "100ms"), ("fair_server/cpu3/defer", "0")];
        assert_eq!(shown(&all), Ok("3=immediate:20ms/100ms".to_string()));
        assert_eq!(shown(&[("fair_server", "off"), runtime]), Ok("3=deferred:20ms/1s".to_string()));
        assert_eq!(
            shown(&[("fair_server.cpus", "2-3=immediate:10ms/50ms"), ("fair_server/cpu2/period", "1s")]),
            Ok("2-3=immediate:10ms/50ms;2=immediate:10ms/1s".to_string())
        );
        let settings = set(&[("fair_server/cpu3/defer", "1")]).expect("a CPU");
        assert_eq!(settings.missing_cpu("fair_server/cpu3/defer", 3), Some(CpuId(3)));
        assert_eq!(settings.missing_cpu("fair_server/cpu3/defer", 4), None);
        for wrong in
            [("fair_server/cpu3/runtime", "2s"), ("fair_server/cpu3/defer", "2"), ("fair_server/cpu/defer", "1")]
        {
            assert!(set(&[wrong]).is_err(), "{wrong:?}");
        }
        assert!(set(&[("fair_server/cpu+3/defer", "1")]).is_err());
        let patches = [
            ("/sys/kernel/debug/sched/rq/CPU3/fair_server_runtime", "20000000"),
            ("rq/cpu3/fair_server_period", "100ms"),
            ("rq/CPU3/fair_server_defer", "0"),
        ];
        assert_eq!(shown(&patches), shown(&all));
        assert!(set(&[("rq/CPU3/fair_server_defers", "1")]).is_err());
    }

    #[test]
    fn what_is_not_modelled_is_named_and_what_is_misspelt_has_a_suggestion() {
        for (key, _) in NOT_MODELLED {
            assert!(set(&[(key, "1")]).expect_err(key).contains("is not modelled: "), "{key}");
        }
        let error = set(&[("sched_util_clamp_mim", "1")]).expect_err("a misspelling");
        assert!(error.contains("unknown setting"), "{error}");
        assert!(
            set(&[("sched_nr_migrat", "1")]).expect_err("a misspelling").contains("did you mean `sched_nr_migrate`?")
        );
        let names: Vec<&str> = Settings::TABLE.iter().map(|setting| setting.name).collect();
        assert_eq!(nearest("fair_server_runtim", names.into_iter()), Some("fair_server.runtime"));
    }
}

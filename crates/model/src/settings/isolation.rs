//! CPUs that are reserved for few tasks: `isolcpus` and `nohz_full`, under their names on the
//! kernel's command line.

use super::spellings::ServerFile;
use super::{SettingValue, Settings};
use crate::cpumask::CpuMask;
use crate::ids::CpuId;
use alloc::format;
use alloc::string::{String, ToString};

impl SettingValue for CpuMask {
    const VALUES: &'static str = "a list of CPUs";
    fn show(&self) -> String {
        self.to_string()
    }
    fn read(text: &str) -> Result<Self, String> {
        let list = text.trim();
        let list = list.strip_prefix("domain,").unwrap_or(list);
        if list.is_empty() { Ok(Self::new()) } else { list.parse().map_err(|error| format!("`{list}`: {error}")) }
    }
}

impl Settings {
    /// Returns the first CPU that a setting names and a machine does not have. The kernel ignores
    /// such CPUs on its command line; for a user of a simulation they are a slip of the pen.
    #[must_use]
    pub fn missing_cpu(&self, key: &str, nr_cpus: usize) -> Option<CpuId> {
        let beyond = |cpus: &CpuMask| cpus.next_from(CpuId::from_index(nr_cpus));
        match key {
            "isolcpus" => beyond(&self.isolcpus),
            "nohz_full" => beyond(&self.nohz_full),
            "irqaffinity" => beyond(&self.irqaffinity),
            key if key == "fair_server.cpus" || ServerFile::of(key).is_some() => {
                self.fair_server_cpus.0.iter().find_map(|one| beyond(&one.cpus))
            }
            _ => None,
        }
    }

    /// Returns the CPUs of a machine that are isolated from load balancing.
    #[must_use]
    pub fn isolated_cpus(&self, nr_cpus: usize) -> CpuMask {
        leave_one(&self.isolcpus, nr_cpus)
    }

    /// Returns whether a cpuset of these CPUs cannot be a partition because of isolated CPUs ("root
    /// invalid (partition config conflicts with housekeeping setup)"): Linux v6.12
    /// `kernel/cgroup/cpuset.c`, `prstate_housekeeping_conflict`.
    #[must_use]
    pub fn forbids_partition(&self, cpus: &CpuMask, nr_cpus: usize) -> bool {
        self.isolcpus_conflict && !cpus.and(&self.isolated_cpus(nr_cpus)).is_empty()
    }

    /// Returns the CPUs of a machine whose tick stops while one task runs: none with `nohz` = off
    /// (Linux v5.15 `kernel/time/tick-sched.c`, `tick_nohz_full_update_tick`).
    #[must_use]
    pub fn full_dynticks_cpus(&self, nr_cpus: usize) -> CpuMask {
        if !self.nohz {
            return CpuMask::new();
        }
        leave_one(&self.nohz_full, nr_cpus)
    }
}

/// Drops CPUs that the machine does not have; if none is left for other tasks, CPU 0 is freed
/// ("must include one present CPU, using boot CPU").
fn leave_one(cpus: &CpuMask, nr_cpus: usize) -> CpuMask {
    let mut cpus = cpus.and(&CpuMask::first_n(nr_cpus));
    if cpus.count() == nr_cpus {
        cpus.remove(CpuId(0));
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_on_the_command_line_and_leave_a_cpu() {
        let mut settings = Settings::default();
        settings.set("isolcpus", "domain,2-3,9").expect("a list");
        assert_eq!(settings.isolcpus.show(), "2-3,9");
        assert_eq!(settings.isolated_cpus(4).show(), "2-3");
        settings.set("isolcpus", "0-3").expect("a list");
        assert_eq!(settings.isolated_cpus(4).show(), "1-3");
        settings.set("isolcpus", "").expect("none");
        assert!(settings.isolated_cpus(4).is_empty());
        settings.set("nohz_full", "1-2").expect("a list");
        assert_eq!(settings.full_dynticks_cpus(4).show(), "1-2");
        settings.set("nohz", "off").expect("a switch");
        assert!(settings.full_dynticks_cpus(4).is_empty(), "no tick stops");
        for wrong in ["x", "nohz,1", "3-1"] {
            assert!(settings.set("isolcpus", wrong).is_err(), "{wrong}");
        }
    }
}

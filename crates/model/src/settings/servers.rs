//! The behaviour of deadline servers: [`FairServer`], [`ServerBooking`], [`ServerStart`],
//! [`ServerStop`], [`ServerWakeup`]; and [`CpuServers`], the value of `fair_server.cpus`, which
//! names the CPUs with a different fair server.

use super::table::NS;
use super::{SchedExt, SettingValue, Settings, read_duration};
use crate::cpumask::CpuMask;
use crate::ids::CpuId;
use crate::server::{Activation, ServerKind, ServerParams};
use crate::time::Duration;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

switch! {
    /// The deadline server of a class on each CPU.
    FairServer {
        /// None.
        Off = "off",
        /// It competes with real-time tasks as soon as it is started.
        Immediate = "immediate",
        /// It competes at zero laxity, if the fair tasks have not got their share by then.
        Deferred = "deferred",
    }
}

switch! {
    /// Which deadline servers have bandwidth.
    ServerBooking {
        /// Both, whether or not a scheduler is loaded (7.0).
        Both = "both",
        /// That of the loaded scheduler while one is loaded, and then that of the fair class only
        /// if the class has tasks (`sched_ext = partial`; 7.2, commit e7b63427fdb4).
        Needed = "needed",
    }
}

switch! {
    /// When the fair server is started.
    ServerStart {
        /// When real-time and fair tasks are queued (2023).
        RtAndFair = "rt_and_fair",
        /// When fair tasks are queued (6.12).
        Fair = "fair",
    }
}

switch! {
    /// When the fair server is stopped.
    ServerStop {
        /// When no fair task is queued any more (6.12 to 6.16; 6.12.91).
        Empty = "empty",
        /// When it is picked and has no task to serve (6.18; 6.12.92): fair tasks that sleep often
        /// start and stop no timer. Commits cccb45d7c429, a3a70caf7906.
        Picked = "picked",
        /// Then, and at its zero-laxity instant if its CPU has idled for its runtime and idles
        /// still (6.19). Commits e636ffb9e31b, f5a538c07df2.
        Idle = "idle",
        /// When no real-time or no fair task is queued any more (patches of 2023, v4, patch 6,
        /// `sched_fair_server_needed`). Such a server is started only with both, is deferred once
        /// per start (`dl_server_start`), and is charged only for the tasks that it runs.
        Unneeded = "unneeded",
    }
}

switch! {
    /// What a deferred server does if it is started with a job that it may not continue: the
    /// deadline has passed, or more of the runtime is left than its bandwidth allows until then.
    ServerWakeup {
        /// It begins a new period, and runs at once if it was running when it was stopped (6.12;
        /// until 6.12.68).
        Stuck = "stuck",
        /// It begins a new period and is deferred (6.12.69, commit 115135422562).
        NewPeriod = "new_period",
        /// Before its deadline it runs at once, with its runtime cut to its bandwidth, whether or
        /// not its tasks have starved (6.12.83, commit 14a857056466).
        RevisedAlways = "revised_always",
        /// As `revised_always`, but only if it was running when it was stopped (6.12.103, 7.2,
        /// commit 1842bf97af10).
        Revised = "revised",
    }
}

impl ServerWakeup {
    /// Returns whether a server whose deadline is ahead runs at once with less runtime, given
    /// whether it was running when it was stopped.
    #[must_use]
    pub const fn cuts(self, was_running: bool) -> bool {
        match self {
            Self::Stuck | Self::NewPeriod => false,
            Self::RevisedAlways => true,
            Self::Revised => was_running,
        }
    }
}

/// The fair servers of some CPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuServer {
    /// The CPUs.
    pub cpus: CpuMask,
    /// Their server.
    pub server: FairServer,
    /// Runtime and period, if they differ.
    pub budget: Option<(Duration, Duration)>,
}

/// The fair servers of CPUs that differ from the others; of two entries for one CPU the later
/// counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuServers(pub Vec<CpuServer>);

impl Settings {
    /// Returns the parameters of the fair server of a CPU. O(CPUs whose server differs).
    #[must_use]
    pub fn fair_server_params(&self, cpu: CpuId) -> ServerParams {
        self.fair_server_params_with(cpu, self.sched_ext)
    }

    fn fair_server_params_with(&self, cpu: CpuId, loaded: SchedExt) -> ServerParams {
        let own = (self.fair_server, (self.fair_server_runtime, self.fair_server_period));
        let (server, (runtime, period)) = match self.fair_server_cpus.0.iter().rev().find(|one| one.cpus.contains(cpu))
        {
            None => own,
            Some(one) => (one.server, one.budget.unwrap_or(own.1)),
        };
        let (runtime, activation) = match server {
            FairServer::Off => (Duration::ZERO, Activation::Deferred),
            FairServer::Immediate => (runtime, Activation::Immediate),
            FairServer::Deferred => (runtime, Activation::Deferred),
        };
        let is_detached = self.books_needed() && loaded == SchedExt::All;
        ServerParams { runtime: if is_detached { Duration::ZERO } else { runtime }, period, activation }
    }

    /// Returns whether there are two servers, of which only the needed ones have bandwidth.
    #[must_use]
    pub const fn books_needed(&self) -> bool {
        !matches!(self.ext_server, FairServer::Off) && matches!(self.ext_server_booked, ServerBooking::Needed)
    }

    /// Returns the parameters of the deadline server of a loaded scheduler's tasks, on every CPU.
    #[must_use]
    pub const fn ext_server_params(&self) -> ServerParams {
        self.ext_server_params_with(self.sched_ext)
    }

    const fn ext_server_params_with(&self, loaded: SchedExt) -> ServerParams {
        let is_detached = matches!(loaded, SchedExt::Off) && self.books_needed();
        let (runtime, activation) = match self.ext_server {
            FairServer::Off => (Duration::ZERO, Activation::Deferred),
            FairServer::Immediate => (self.ext_server_runtime, Activation::Immediate),
            FairServer::Deferred => (self.ext_server_runtime, Activation::Deferred),
        };
        let runtime = if is_detached { Duration::ZERO } else { runtime };
        ServerParams { runtime, period: self.ext_server_period, activation }
    }

    /// Returns the initial parameters of a deadline server of a CPU.
    #[must_use]
    pub fn server_params(&self, cpu: CpuId, kind: ServerKind) -> ServerParams {
        self.server_params_with(cpu, kind, self.sched_ext)
    }

    /// Returns the parameters that a deadline server of a CPU has once a loaded scheduler has these
    /// tasks.
    #[must_use]
    pub fn server_params_with(&self, cpu: CpuId, kind: ServerKind, loaded: SchedExt) -> ServerParams {
        match kind {
            ServerKind::Fair => self.fair_server_params_with(cpu, loaded),
            ServerKind::Ext => self.ext_server_params_with(loaded),
        }
    }
}

impl SettingValue for CpuServers {
    const VALUES: &'static str = "CPUS=off|immediate|deferred[:RUNTIME/PERIOD]; ...";
    fn show(&self) -> String {
        let one = |one: &CpuServer| match one.budget {
            None => format!("{}={}", one.cpus, one.server),
            Some((runtime, period)) => format!("{}={}:{runtime}/{period}", one.cpus, one.server),
        };
        self.0.iter().map(one).collect::<Vec<_>>().join(";")
    }
    fn read(text: &str) -> Result<Self, String> {
        let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(read_cpu_server).collect::<Result<_, _>>().map(Self)
    }
}

/// Reads `0-3=immediate` or `2=deferred:20ms/200ms`.
fn read_cpu_server(entry: &str) -> Result<CpuServer, String> {
    let (cpus, rest) = entry.split_once('=').ok_or_else(|| format!("`{entry}` is not CPUS=SERVER"))?;
    let cpus = cpus.trim().parse().map_err(|error| format!("`{cpus}`: {error}"))?;
    let (server, budget) = match rest.split_once(':') {
        None => (rest, None),
        Some((server, budget)) => (server, Some(budget)),
    };
    let read = |text: &str| read_duration(text.trim(), NS.length);
    let budget = match budget.map(|budget| (budget, budget.split_once('/'))) {
        None => None,
        Some((budget, None)) => return Err(format!("`{budget}` is not RUNTIME/PERIOD")),
        Some((_, Some((runtime, period)))) => Some((read(runtime)?, read(period)?)),
    };
    if let Some((runtime, period)) = budget {
        let params = ServerParams { runtime, period, activation: Activation::Deferred };
        if !params.is_valid() {
            return Err(format!("runtime {runtime} is above period {period}, or the period is out of range"));
        }
    }
    Ok(CpuServer { cpus, server: SettingValue::read(server.trim())?, budget })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::KernelVersion;

    #[test]
    fn the_servers_that_no_class_needs_have_no_bandwidth_since_7_2() {
        let on = |kernel: KernelVersion, sched_ext| {
            let settings = Settings { sched_ext, ..kernel.settings() };
            ServerKind::ALL.map(|kind| settings.server_params(CpuId(0), kind).is_on()).to_vec()
        };
        let (off, partial, all) = (SchedExt::Off, SchedExt::Partial, SchedExt::All);
        let (old, new) = (KernelVersion::V7_0, KernelVersion::V7_2);
        assert_eq!([off, partial, all].map(|loaded| on(KernelVersion::V6_18, loaded)), [[true, false]; 3]);
        assert_eq!([off, partial, all].map(|loaded| on(old, loaded)), [[true, true]; 3]);
        assert_eq!([off, partial, all].map(|loaded| on(new, loaded)), [[true, false], [true, true], [false, true]]);
    }

    #[test]
    fn servers_of_single_cpus_are_read_and_shown() {
        let mut settings = Settings::default();
        settings.set("fair_server.cpus", "0-3=immediate; 2=deferred:20ms/200ms").expect("two entries");
        assert_eq!(settings.fair_server_cpus.show(), "0-3=immediate;2=deferred:20ms/200ms");
        let of = |cpu| settings.fair_server_params(CpuId(cpu));
        assert_eq!(of(1), ServerParams { activation: Activation::Immediate, ..ServerParams::DEFAULT });
        assert_eq!(of(2).runtime, Duration::from_millis(20));
        assert_eq!(of(4), ServerParams::DEFAULT);
        for wrong in ["0-3", "0=now", "x=off", "0=off:1s", "0=deferred:2s/1s"] {
            assert!(settings.set("fair_server.cpus", wrong).is_err(), "{wrong}");
        }
    }
}

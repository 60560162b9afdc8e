//! The machine, its scheduler, and how long it runs.

use crate::failure::Failure;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use zerolag::Simulation;
use zerolag::manifest::Manifest;
use zerolag::model::figure::Figure;
use zerolag::model::{Duration, KernelVersion, Topology};
use zerolag::risk::{RISK, Rule};
use zerolag::sim::Costs;
use zerolag::values::{self, cpus, duration, kernel, machine, setting};

/// The heading of the options that a simulation depends on. Each option names its heading: one that
/// is set for a struct also applies to the options after it.
pub(crate) const MACHINE: &str = "Machine and scheduler";

/// Returns the keys of `--set` for help texts: the limits are those of the table.
pub(crate) fn keys_of_set() -> String {
    format!(
        "\
Keys of --set: a parameter of the scenario, a setting (`zerolag settings`, or its name in the kernel), kernel, cpus, seed, \
policy, workers, and every limit or weight of a group; OWNER: before it if it is ambiguous (/web:cpu.max, web:workers):
{}",
        zerolag::workload::limits::help()
    )
}

/// The machine, and values of settings and parameters.
#[derive(Clone, Debug, Args)]
pub(crate) struct MachineArgs {
    /// A machine of N CPUs under one cache
    #[arg(help_heading = MACHINE, long, value_name = "N", value_parser = cpus, allow_negative_numbers = true, conflicts_with = "machine")]
    pub(crate) cpus: Option<Topology>,
    /// A machine by its shape: sockets x LLCs per socket x cores per LLC x threads per core
    #[arg(help_heading = MACHINE, long, value_name = "SxLxCxT", value_parser = machine)]
    pub(crate) machine: Option<Topology>,
    /// Change a parameter of the scenario, a limit (`cpu.max`, `limits.cpu`, `CPUQuota`, `--cpus`,
    /// `/web:cpu.weight`; `zerolag sweep --help` lists them), `workers`, or a setting of the
    /// scheduler (`zerolag settings` lists them)
    #[arg(help_heading = MACHINE, long = "set", value_name = "KEY=VALUE", value_parser = setting, allow_hyphen_values = true)]
    pub(crate) set: Vec<(String, String)>,
}

impl MachineArgs {
    /// Returns the requested machine.
    pub(crate) fn topology(&self) -> Option<Topology> {
        self.cpus.clone().or_else(|| self.machine.clone())
    }
}

/// The options of every subcommand that runs a workload.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimArgs {
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    /// The costs of operations: zero, default, or a TOML file [default: the file's, else default]
    #[arg(help_heading = MACHINE, long, value_name = "PROFILE")]
    pub(crate) costs: Option<OsString>,
    /// Seed of all random numbers [default: the file's, else 0]
    #[arg(help_heading = MACHINE, long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// The kernel's own threads besides the workload
    #[arg(help_heading = MACHINE, long, value_enum, value_name = "THREADS", default_value = "profile")]
    pub(crate) background: Background,
    /// Run it even if that takes more than ten minutes or 2 GB by the estimate made before each run
    #[arg(help_heading = MACHINE, long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) quiet: QuietArgs,
}

/// The threads besides a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Background {
    /// Those of the cost profile: a calibrated one has those of its host, others have none, but
    /// tools of measurement those of `idle`
    Profile,
    /// None
    None,
    /// kworker, kcompactd and rcu_preempt, as measured on an idle machine
    Idle,
    /// kworker, ksoftirqd and rcu_preempt, as measured on a loaded machine
    Kernel,
}

impl Background {
    pub(crate) const fn threads(self) -> zerolag::background::Background {
        match self {
            Self::Profile => zerolag::background::Background::Profile,
            Self::None => zerolag::background::Background::None,
            Self::Idle => zerolag::background::Background::Idle,
            Self::Kernel => zerolag::background::Background::Kernel,
        }
    }
}

impl SimArgs {
    /// Returns whether notes and progress are not to be printed.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.quiet.quiet
    }

    /// Returns the requested cost profile.
    pub(crate) fn costs(&self) -> Result<Option<Costs>, Failure> {
        Ok(self.costs.as_deref().map(values::costs).transpose()?)
    }
}

/// Less output.
#[derive(Clone, Debug, Args)]
pub(crate) struct QuietArgs {
    /// Print no notes and no progress; `run` prints only its summary
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Limits from the file that sets them on a real machine.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManifestArgs {
    /// Take the limits and weights of groups from a Kubernetes manifest or a Compose file; a
    /// container belongs to the group of its name
    #[arg(help_heading = MACHINE, short = 'f', long, value_name = "FILE.yaml")]
    pub(crate) manifest: Option<PathBuf>,
}

impl ManifestArgs {
    /// Returns the simulation under these limits.
    pub(crate) fn apply(&self, simulation: Simulation) -> Result<Simulation, Failure> {
        Ok(match &self.manifest {
            Some(path) => simulation.manifest(Manifest::file(path)?),
            None => simulation,
        })
    }
}

/// The kernel of a subcommand that runs one.
#[derive(Clone, Debug, Args)]
pub(crate) struct KernelArgs {
    /// The kernel to simulate [default: the file's, else 7.3]
    #[arg(help_heading = MACHINE, long, value_name = "VERSION", value_parser = kernel)]
    pub(crate) kernel: Option<KernelVersion>,
}

/// The duration of a run.
#[derive(Clone, Debug, Args)]
pub(crate) struct DurationArgs {
    /// Duration of each run [default: the file's, else until all tasks end, else 10s]
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) duration: Option<Duration>,
}

/// Everything that a run of one workload on one kernel depends on, besides the workload.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) sim: SimArgs,
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
    #[command(flatten)]
    pub(crate) duration: DurationArgs,
    #[command(flatten)]
    pub(crate) manifest: ManifestArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// The scheduler that a user has loaded.
#[derive(Clone, Debug, Args)]
pub(crate) struct PolicyArgs {
    /// Load a scheduler of sched_ext for the fair tasks: a value of `sched_ext.policy`, as vtime,
    /// or a shared object. `--set policy.NAME=VALUE` sets a parameter of it. With `--set
    /// sched_ext=partial` for tasks of SCHED_EXT only
    #[arg(help_heading = MACHINE, long, value_name = "NAME|FILE.so")]
    pub(crate) policy: Option<String>,
}

/// Figures besides those that are shown anyway.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowArgs {
    /// Figures, as in goals, separated by commas, also any percentile: `web.request_latency.p95`
    /// [default: of a sweep those of services, of limits, else of tasks]
    #[arg(long, value_name = "FIGURE,...", value_delimiter = ',')]
    pub(crate) show: Vec<String>,
}

impl ShowArgs {
    /// Refuses names that are no figures, before anything runs.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        for name in self.show.iter().map(|name| name.trim()) {
            Figure::parse(name)
                .map_err(|help| Failure::input_help(format!("--show: there is no figure `{name}`"), help))?;
        }
        Ok(())
    }
}

/// How often a value may miss a goal, and how many runs show it.
#[derive(Clone, Debug, Args)]
pub(crate) struct RuleArgs {
    /// The share of all seeds that may miss a goal; judged by fresh seeds, with a confidence of
    /// 95 % [default: 5%]
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    pub(crate) risk: Option<f64>,
    /// The most runs of a value: fresh seeds of a search [default: three times those that a value
    /// without a miss needs], or with --until [default: 200]
    #[arg(long = "most", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) most: Option<u64>,
}

impl RuleArgs {
    /// Returns the rule, with so many seeds of a search.
    pub(crate) fn rule(&self, search: Option<u64>) -> Result<Rule, Failure> {
        let risk = self.risk.unwrap_or(RISK);
        Rule::new(risk, search, self.most).map_err(|why| {
            let help = "a larger --risk needs fewer runs, --most allows more";
            Failure::input_help(format!("--risk {}%: {why}", 100.0 * risk), help)
        })
    }
}

/// Reads a percentage below 100.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(percent) if (0.0..100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("expected a percentage below 100, as in 5%".to_owned()),
    }
}

/// The number of runs of each variant.
///
/// The default is one for all subcommands that compare; a search has that of its risk.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunsArgs {
    /// Runs per variant, or seeds of a search; each run adds 1 to the seed [default: 5; of a search
    /// 41 with a risk of 5 %]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) runs: Option<u64>,
}

impl RunsArgs {
    /// Returns the runs of a variant.
    pub(crate) fn per_variant(&self) -> u64 {
        self.runs.unwrap_or(5)
    }
}

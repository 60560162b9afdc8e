//! Options that several subcommands share, and the parsing of their values.

use super::failure::{Failure, eprintln_lossy};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::path::{Path, PathBuf};
use zerolag::model::settings::nearest;
use zerolag::model::{CpuMask, Duration, KernelVersion, Settings, Topology};
use zerolag::sim::Costs;
use zerolag::workload::builtin::PeriodicPolicy;
use zerolag::workload::random::MAX_TIME;
use zerolag::workload::{DuplicatePolicy, Includes, LoadOptions};

/// The workload and how its file is read.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkloadArgs {
    /// The workload: scenario TOML, rt-app JSON or a CSV task set (task,runtime,period,deadline);
    /// `-` is the standard input
    #[arg(value_name = "WORKLOAD")]
    pub(crate) file: PathBuf,
    /// The meaning of a duplicate key in an object of an rt-app file
    #[arg(long, value_name = "POLICY", default_value = "workgen", value_parser = duplicates())]
    rtapp_duplicates: DuplicatePolicy,
    /// How the tasks of a CSV task set are scheduled: by deadline, or by SCHED_FIFO in rate
    /// monotonic order
    #[arg(long, value_name = "POLICY", default_value = "deadline", value_parser = task_set())]
    task_set: PeriodicPolicy,
}

impl WorkloadArgs {
    /// Returns the options of reading the file.
    pub(crate) fn load_options(&self, machine: &MachineArgs) -> LoadOptions {
        LoadOptions {
            machine_override: machine.topology(),
            duplicates: self.rtapp_duplicates,
            task_set: self.task_set,
            parameters: machine.set.clone(),
            includes: Some(Includes::new(|path| super::input::read_bytes(Path::new(path)))),
        }
    }
}

/// The machine and its scheduler.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Machine and scheduler")]
pub(crate) struct MachineArgs {
    /// A machine of N CPUs under one cache
    #[arg(long, value_name = "N", value_parser = cpus, allow_negative_numbers = true, conflicts_with = "machine")]
    pub(crate) cpus: Option<Topology>,
    /// A machine by its shape: sockets x LLCs per socket x cores per LLC x threads per core
    #[arg(long, value_name = "SxLxCxT", value_parser = machine)]
    pub(crate) machine: Option<Topology>,
    /// The kernel to simulate [default: the file's, else 6.12]
    #[arg(long, value_name = "VERSION", value_parser = kernel)]
    pub(crate) kernel: Option<KernelVersion>,
    /// Change a setting of the scheduler (`zerolag settings` lists them), or a parameter of the
    /// scenario
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) set: Vec<(String, String)>,
    /// The costs of operations: zero, default, or a TOML file [default: the file's, else default]
    #[arg(long, value_name = "PROFILE")]
    pub(crate) costs: Option<String>,
    /// Seed of all random numbers [default: the file's, else 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
}

impl MachineArgs {
    /// Returns the requested machine.
    pub(crate) fn topology(&self) -> Option<Topology> {
        self.cpus.clone().or_else(|| self.machine.clone())
    }

    /// Applies the settings given on the command line.
    pub(crate) fn apply_settings(&self, settings: &mut Settings) -> Result<(), Failure> {
        self.apply_settings_but(&[], settings)
    }

    /// Applies the settings given on the command line, except parameters of the scenario.
    pub(crate) fn apply_settings_but(&self, parameters: &[String], settings: &mut Settings) -> Result<(), Failure> {
        for (key, value) in self.set.iter().filter(|(key, _)| !parameters.contains(key)) {
            settings.set(key, value).map_err(|error| Failure::input(format!("--set {key}={value}: {error}")))?;
            if let Some(name) = Settings::renamed(key) {
                eprintln_lossy(&format!("note: `{key}` is now called `{name}`"));
            }
        }
        Ok(())
    }

    /// Returns the requested cost profile.
    pub(crate) fn costs(&self) -> Result<Option<Costs>, Failure> {
        self.costs.as_deref().map(costs).transpose()
    }
}

/// Returns a profile by its name or from its file.
pub(crate) fn costs(name: &str) -> Result<Costs, Failure> {
    if let Some(costs) = Costs::named(name) {
        return Ok(costs);
    }
    let path = Path::new(name);
    if !path.exists() && !name.contains(['/', '.']) {
        let near = nearest(name, ["zero", "default"].into_iter());
        let help = near.map_or_else(
            || "known are `zero` and `default`; anything else is the path of a TOML file".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        return Err(Failure::input_help(format!("--costs: there is no profile or file `{name}`"), help));
    }
    let bytes = std::fs::read(path).map_err(|error| Failure::reading(name, &error))?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::input(format!("{name}: this is not UTF-8 text")))?;
    let stem = path.file_stem().map_or_else(|| name.into(), |stem| stem.to_string_lossy());
    Costs::from_toml(&stem, &text).map_err(|error| Failure::input(format!("{name}: {}", error.to_string().trim_end())))
}

/// Reads a number of CPUs.
pub(crate) fn cpus(text: &str) -> Result<Topology, String> {
    let count: u64 = text.parse().map_err(|_| match text.parse::<CpuMask>() {
        Ok(_) => "expected the number of CPUs, 1..=4096, not a list (timerlat, osnoise: -c)",
        Err(_) => "expected a number of CPUs, 1..=4096",
    })?;
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    Topology::flat(count).map_err(|error| match count {
        0 => "a machine has at least one CPU".to_owned(),
        _ => error.to_string(),
    })
}

fn machine(text: &str) -> Result<Topology, String> {
    let counts: Option<Vec<u32>> = text.split('x').map(|count| count.trim().parse().ok()).collect();
    match counts.as_deref() {
        Some(&[sockets, llcs, cores, smt]) => {
            Topology::new(sockets, llcs, cores, smt).map_err(|error| error.to_string())
        }
        _ => Err("expected four numbers, as in 2x1x8x2: 2 sockets of 1 LLC of 8 cores of 2 threads".to_owned()),
    }
}

/// Reads the version of a kernel.
pub(crate) fn kernel(text: &str) -> Result<KernelVersion, String> {
    KernelVersion::from_name(text).ok_or_else(|| {
        let known: Vec<&str> = KernelVersion::ALL.iter().map(|version| version.name()).collect();
        format!("known are {}", known.join(", "))
    })
}

/// Reads a setting and its value.
pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, as in rt_balance=passive")?;
    let (key, value) = (key.trim(), value.trim());
    Ok((key.to_owned(), value.to_owned()))
}

/// Reads a duration.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if text.starts_with('-') {
        return Err("a duration is not negative".to_owned());
    }
    let duration: Duration = text.parse().map_err(|error| format!("{error}, as in 10s or 500ms"))?;
    if duration.is_zero() {
        return Err("the duration must be above zero".to_owned());
    }
    if duration > MAX_TIME {
        return Err(format!("at most {MAX_TIME} (10 years) can be simulated"));
    }
    Ok(duration)
}

/// Reads the meaning of duplicate keys in rt-app files.
fn duplicates() -> impl TypedValueParser<Value = DuplicatePolicy> {
    PossibleValuesParser::new(DuplicatePolicy::ALL.map(DuplicatePolicy::name))
        .map(|name| DuplicatePolicy::from_name(&name).unwrap_or_default())
}

/// Reads the scheduling of a CSV task set.
fn task_set() -> impl TypedValueParser<Value = PeriodicPolicy> {
    PossibleValuesParser::new(["deadline", "fifo"]).map(|name| match &*name {
        "fifo" => PeriodicPolicy::RateMonotonicFifo,
        _ => PeriodicPolicy::Deadline,
    })
}

//! The values that a caller writes: versions of kernels, machines, durations, cost profiles.
//!
//! Every front end reads them here, so a mistake is refused in the same words everywhere.

use crate::error::Error;
use std::ffi::OsStr;
use std::path::Path;
use zerolag_model::settings::{KernelError, SchedExtPolicy, nearest};
use zerolag_model::{CpuMask, Duration, KernelVersion, Topology};
use zerolag_sim::Costs;
use zerolag_workload::random::MAX_TIME;

/// Returns a cost profile by its name or from its file.
///
/// # Errors
/// There is no profile or file of that name, or the file is no cost profile.
pub fn costs(name: impl AsRef<OsStr>) -> Result<Costs, Error> {
    let path = Path::new(name.as_ref());
    // A file can have a name that is no text, a profile cannot.
    let name = &*path.to_string_lossy();
    if let Some(costs) = Costs::named(name) {
        return Ok(costs);
    }
    if !path.exists() && !name.contains(['/', '.']) {
        let names = || Costs::NAMED.iter().map(|(known, ..)| *known);
        let near = nearest(name, names());
        let known = names().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
        let help = near.map_or_else(
            || format!("known are {known}; anything else is the path of a TOML file"),
            |near| format!("did you mean `{near}`?"),
        );
        return Err(Error::input_help(format!("costs: there is no profile or file `{name}`"), help));
    }
    let bytes = std::fs::read(path).map_err(|error| Error::reading(name, &error))?;
    let text = String::from_utf8(bytes).map_err(|_| Error::input(format!("{name}: this is not UTF-8 text")))?;
    let stem = path.file_stem().map_or_else(|| name.into(), |stem| stem.to_string_lossy());
    Costs::from_toml(&stem, &text).map_err(|error| Error::input(format!("{name}: {}", error.to_string().trim_end())))
}

/// Reads a number of CPUs, 1..=4096, as a machine under one cache.
///
/// # Errors
/// The reason.
pub fn cpus(text: &str) -> Result<Topology, String> {
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

/// Reads the shape of a machine: sockets x LLCs per socket x cores per LLC x threads per core.
///
/// # Errors
/// The reason.
pub fn machine(text: &str) -> Result<Topology, String> {
    let counts: Option<Vec<u32>> = text.split('x').map(|count| count.trim().parse().ok()).collect();
    match counts.as_deref() {
        Some(&[sockets, llcs, cores, smt]) => {
            Topology::new(sockets, llcs, cores, smt).map_err(|error| error.to_string())
        }
        _ => Err("expected four numbers, as in 2x1x8x2: 2 sockets of 1 LLC of 8 cores of 2 threads".to_owned()),
    }
}

/// Reads a kernel: a preset, any release, stable release or distribution's kernel that is known.
///
/// # Errors
/// The reason, and the likely intended kernel or the presets.
pub fn kernel(text: &str) -> Result<KernelVersion, String> {
    text.parse().map_err(|error: KernelError| match error.near {
        Some(near) => format!("it {}; did you mean `{near}`?", error.reason),
        None => format!("it {}; presets are {}", error.reason, KernelVersion::NAMES.join(", ")),
    })
}

/// Reads the name of a built-in policy of `sched_ext`.
///
/// # Errors
/// The likely intended policy, or all.
pub fn policy(text: &str) -> Result<SchedExtPolicy, String> {
    let names = || SchedExtPolicy::ALL.iter().map(|policy| policy.name());
    SchedExtPolicy::from_name(text).ok_or_else(|| match nearest(text, names()) {
        Some(near) => format!("there is no policy `{text}`; did you mean `{near}`?"),
        None => format!("there is no policy `{text}`; known are {}", names().collect::<Vec<_>>().join(", ")),
    })
}

/// Reads a key and its value: `hz=250`.
///
/// # Errors
/// A valid form.
pub fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, as in rt_balance=passive")?;
    let (key, value) = (key.trim(), value.trim());
    Ok((key.to_owned(), value.to_owned()))
}

/// Reads the duration of a run, above zero and at most 10 years.
///
/// # Errors
/// The reason.
pub fn duration(text: &str) -> Result<Duration, String> {
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

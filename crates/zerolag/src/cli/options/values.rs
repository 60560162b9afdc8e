//! The parsing of options' values.

use crate::cli::failure::Failure;
use std::path::Path;
use zerolag::model::settings::nearest;
use zerolag::model::{CpuMask, Duration, KernelVersion, Topology};
use zerolag::sim::Costs;
use zerolag::workload::random::MAX_TIME;

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

/// Reads the shape of a machine.
pub(crate) fn machine(text: &str) -> Result<Topology, String> {
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

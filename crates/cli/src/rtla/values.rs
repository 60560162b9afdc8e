//! The values of rtla's options.

use crate::options;
use std::path::PathBuf;
use zerolag::model::{CpuMask, DlParams, Duration, Nice, RtPriority, SchedAttr};

/// rtla's action at a threshold or at the end (`--on-threshold`, `--on-end`): the only one that a
/// simulation supports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SaveTrace(pub(crate) Option<PathBuf>);

/// Reads an action.
pub(crate) fn action(text: &str) -> Result<SaveTrace, String> {
    match text.split_once(',').map_or((text, None), |(kind, rest)| (kind, Some(rest))) {
        ("trace", None) => Ok(SaveTrace(None)),
        ("trace", Some(rest)) => match rest.strip_prefix("file=") {
            Some(file) if !file.is_empty() => Ok(SaveTrace(Some(file.into()))),
            _ => Err(format!("`{rest}` is not file=FILE")),
        },
        ("signal", _) => Err("a simulation sends no signals".to_owned()),
        ("shell", _) => {
            Err("a simulation starts no programs: look at the exit code, which is 2 at a threshold".to_owned())
        }
        ("continue", _) => Err("a simulation ends at its threshold: leave the threshold out".to_owned()),
        _ => Err(format!("`{text}` is not trace[,file=FILE]; rtla's signal, shell and continue are refused")),
    }
}

/// Reads a list of CPUs.
pub(crate) fn cpu_list(text: &str) -> Result<CpuMask, String> {
    text.parse().map_err(|error: zerolag::model::cpumask::ParseCpuListError| error.to_string())
}

/// Reads whole seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let count: u32 = text.parse().map_err(|_| format!("`{text}` is not a whole number of seconds"))?;
    Ok(Duration::from_secs(u64::from(count)))
}

/// Reads whole microseconds.
pub(crate) fn micros(text: &str) -> Result<Duration, String> {
    let count: u32 = text.parse().map_err(|_| format!("`{text}` is not a whole number of microseconds"))?;
    Ok(Duration::from_micros(u64::from(count)))
}

/// Reads rtla's durations: seconds, or a number with s, m, h, d.
pub(crate) fn rtla_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 's' | 'S')) => (&text[..at], 1),
        Some((at, 'm' | 'M')) => (&text[..at], 60),
        Some((at, 'h' | 'H')) => (&text[..at], 3_600),
        Some((at, 'd' | 'D')) => (&text[..at], 86_400),
        _ => (text, 1),
    };
    let count: u32 = number.parse().map_err(|_| format!("`{text}` is not a duration: 10, 10s, 10m, 1h or 1d"))?;
    match count {
        0 => Err("the duration must be above zero".to_owned()),
        count => Ok(Duration::from_secs(u64::from(count) * unit)),
    }
}

/// Reads rtla's `-P`: `o:0`, `r:50`, `f:95`, `d:RUNTIME:PERIOD` with `us` or `ms`.
pub(crate) fn priority(text: &str) -> Result<SchedAttr, String> {
    let wrong = || format!("`{text}` is not one of o:NICE, r:PRIO, f:PRIO, d:RUNTIME:PERIOD (with us or ms)");
    let (policy, rest) = text.split_once(':').ok_or_else(wrong)?;
    let rt = || rest.parse().ok().and_then(RtPriority::new).ok_or_else(|| format!("`{rest}` is outside 1..=99"));
    match policy {
        "f" | "F" => Ok(SchedAttr::fifo(rt()?)),
        "r" | "R" => Ok(SchedAttr::rr(rt()?)),
        "o" | "O" => {
            let nice = rest.parse().ok().and_then(Nice::new).ok_or_else(|| format!("`{rest}` is outside -20..=19"))?;
            Ok(SchedAttr::nice(nice))
        }
        "d" | "D" => {
            let (runtime, period) = rest.split_once(':').ok_or_else(wrong)?;
            let (runtime, period) = (options::duration(runtime)?, options::duration(period)?);
            Ok(SchedAttr::Deadline(DlParams::new(runtime, period, period)))
        }
        _ => Err(wrong()),
    }
}

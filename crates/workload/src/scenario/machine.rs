//! The machine, the kernel and its settings in a scenario.

use super::table::{Item, Table, TableEntry, kind, leaves, span};
use super::tree::Value;
use crate::check;
use crate::diagnostic::{Diagnostic, Report, Span};
use zerolag_model::settings::{KernelError, SettingError};
use zerolag_model::{KernelVersion, MAX_CPUS, Settings, Topology};

pub(super) const KEYS: [&str; 6] = ["cpus", "sockets", "llcs_per_socket", "cores_per_llc", "smt", "capacities"];

/// Reads `[machine]`.
pub(super) fn machine(entry: TableEntry<'_, '_>, report: &mut Report) -> Option<Topology> {
    let table = Table::of("machine", entry.item, report)?;
    table.refuse_unknown(&KEYS, "[machine]", report);
    let mut count =
        |key| table.int(key, 1..=MAX_CPUS as u64, report).map(|(value, _)| u32::try_from(value).unwrap_or(1));
    let cpus = count("cpus");
    let parts = [count("sockets"), count("llcs_per_socket"), count("cores_per_llc"), count("smt")];
    let [sockets, llcs, cores, smt] = parts.map(|part| part.unwrap_or(1));
    let shape = match (cpus, parts.iter().any(Option::is_some)) {
        (Some(_), true) => {
            report.error(entry.key_span, "the machine names both `cpus` and its parts");
            return None;
        }
        (Some(cpus), false) => Topology::flat(cpus),
        (None, true) => Topology::new(sockets, llcs, cores, smt),
        (None, false) => {
            if !KEYS[..5].iter().any(|key| table.get(key).is_some()) {
                report.error_help(entry.key_span, "the machine has no CPUs", "write cpus = 4");
            }
            return None;
        }
    };
    let machine = shape.and_then(|shape| match table.get("capacities") {
        None => Ok(shape),
        Some(entry) => match capacities(entry, report) {
            Some(capacities) => shape.with_capacities(capacities),
            None => Ok(shape),
        },
    });
    match machine {
        Ok(machine) => Some(machine),
        Err(error) => {
            report.error(entry.key_span, error.to_string());
            None
        }
    }
}

fn capacities(entry: TableEntry<'_, '_>, report: &mut Report) -> Option<Vec<u16>> {
    let Value::Array(items) = entry.item.get_ref() else {
        report.error(span(entry.item), "`capacities` is an array of one number of 1..=1024 per CPU");
        return None;
    };
    let read = |item| super::table::int("capacities", item, 1..=1024, report);
    let values: Vec<u64> = items.iter().filter_map(read).collect();
    (values.len() == items.len()).then(|| values.into_iter().filter_map(|value| u16::try_from(value).ok()).collect())
}

/// Reads `kernel`.
pub(super) fn kernel(entry: TableEntry<'_, '_>, report: &mut Report) -> Option<KernelVersion> {
    let presets = || format!("presets are {}", KernelVersion::NAMES.join(", "));
    let text = match entry.item.get_ref() {
        Value::String(text) => text,
        Value::Float(number) => {
            let message = format!("`kernel` is a string: {number} as a number could not tell 6.1 from 6.10");
            report.error_help(span(entry.item), message, format!("write kernel = \"{number}\""));
            return None;
        }
        other => {
            report.error_help(span(entry.item), format!("`kernel` is a string, not {}", kind(other)), presets());
            return None;
        }
    };
    let refuse = |error: KernelError| {
        let help = error.near.map_or_else(presets, |near| format!("did you mean \"{near}\"?"));
        report.error_help(span(entry.item), format!("kernel \"{text}\" {}", error.reason), help);
    };
    text.parse().map_err(refuse).ok()
}

/// Reads `[settings]`: checks each key and value against the settings of the kernel, and CPUs
/// against those of the machine.
pub(super) fn settings(
    entry: TableEntry<'_, '_>,
    kernel: KernelVersion,
    nr_cpus: usize,
    report: &mut Report,
) -> Vec<(String, String)> {
    let Some(table) = Table::of("settings", entry.item, report) else { return Vec::new() };
    let mut scratch = kernel.settings();
    let mut seen: std::collections::BTreeMap<String, Span> = std::collections::BTreeMap::new();
    let mut accepted = Vec::new();
    for leaf in leaves(&table) {
        let Some(text) = setting_text(&leaf.path, leaf.item, report) else { continue };
        let name = Settings::name_of(&leaf.path);
        if let Some(first) = seen.insert(name.to_owned(), leaf.span) {
            let message = format!("setting `{name}` is set twice");
            report.push(Diagnostic::error(leaf.span, message).label(first, "first here"));
            continue;
        }
        match scratch.set(&leaf.path, &text) {
            Ok(()) => {
                if let Some(name) = Settings::renamed(&leaf.path) {
                    report.warning(leaf.span, format!("setting `{}` is now called `{name}`", leaf.path));
                }
                if let Some(cpu) = scratch.missing_cpu(&leaf.path, nr_cpus) {
                    report.push(check::no_such_cpu(span(leaf.item), i64::from(cpu.0), nr_cpus));
                }
                accepted.push((leaf.path, text));
            }
            Err(SettingError::UnknownKey { key, near }) => {
                let diagnostic = Diagnostic::error(leaf.span, format!("unknown setting `{key}`"));
                report.push(match near {
                    Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                    None => diagnostic.help(known_settings()),
                });
            }
            Err(error) => report.error(span(leaf.item), error.to_string()),
        }
    }
    accepted
}

fn known_settings() -> String {
    let keys: Vec<&str> = Settings::TABLE.iter().map(|setting| setting.name).collect();
    format!("known are {}", keys.join(", "))
}

/// Returns a setting's value as text: settings are read from text everywhere.
fn setting_text(key: &str, item: Item<'_, '_>, report: &mut Report) -> Option<String> {
    match item.get_ref() {
        Value::String(text) => Some(text.to_string()),
        Value::Boolean(value) => Some(if *value { "on" } else { "off" }.to_string()),
        Value::Integer(number) => Some(number.value().map_or(number.to_string(), |value| value.to_string())),
        Value::Float(number) => Some(number.as_str().to_string()),
        other => {
            report.error(span(item), format!("setting `{key}` is one value, not {}", kind(other)));
            None
        }
    }
}

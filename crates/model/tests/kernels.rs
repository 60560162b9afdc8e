//! Kernels by name: the settings of the presets as they were recorded, kernels between them, what
//! is told of them, and the tables of the documentation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use zerolag_model::settings::{Backport, Taken};
use zerolag_model::{KernelVersion, Settings};

const PRESETS: &str = include_str!("data/presets.txt");

fn kernel(name: &str) -> KernelVersion {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn values(name: &str) -> BTreeMap<&'static str, String> {
    kernel(name).settings().entries().map(|(setting, value)| (setting.name, value)).collect()
}

#[test]
fn the_presets_are_as_recorded() {
    let mut wrong = String::new();
    let mut expected: BTreeMap<&str, &str> = BTreeMap::new();
    let mut name = None;
    let mut compare = |name: Option<&str>, expected: &BTreeMap<&str, &str>| {
        let Some(name) = name else { return };
        let now = values(name);
        for (key, value) in expected {
            if now.get(key).map(String::as_str) != Some(value) {
                wrong += &format!("{name}: {key} is {:?}, recorded {value:?}\n", now.get(key));
            }
        }
        for key in now.keys().filter(|key| !expected.contains_key(*key)) {
            wrong += &format!("{name}: {key} is not recorded\n");
        }
    };
    for line in PRESETS.lines().filter(|line| !line.starts_with('#')) {
        if let Some(next) = line.strip_prefix("kernel ") {
            compare(name, &expected);
            name = Some(next);
        } else {
            let (key, value) = line.split_once(" =").expect("KEY = VALUE");
            expected.insert(key, value.trim_start());
        }
    }
    compare(name, &expected);
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_kernel_between_presets_has_the_values_of_its_release() {
    for (name, key, value) in [
        // The preset before 6.16 has the value of 6.12, and so had 6.16 when rows named presets.
        ("6.13", "fault.cfs_bandwidth_hotplug_bypass", "on"),
        ("6.14", "fault.cfs_bandwidth_hotplug_bypass", "off"),
        ("6.16", "fault.cfs_bandwidth_hotplug_bypass", "off"),
        ("6.12.0", "softirq.timer_threads", "off"),
        ("6.16", "softirq.timer_threads", "on"),
        ("6.16", "throttle", "immediate"),
        ("6.16", "fair_server.wakeup", "stuck"),
        ("6.17", "newidle_cost_bump", "on"),
        ("5.13", "fault.uclamp_min_limit", "on"),
        ("5.16", "newidle_min_idle", "off"),
        ("2.6.33", "sched_latency_ns", "5ms"),
    ] {
        assert_eq!(values(name)[key], value, "{key} of {name}");
    }
}

#[test]
fn a_stable_release_has_the_backports_up_to_it() {
    for (name, key, value) in [
        ("6.12.38", "fair_server.scaled", "on"),
        ("6.12.39", "fair_server.scaled", "off"),
        ("6.12.42", "newidle_cost_bump", "off"),
        ("6.12.43", "newidle_cost_bump", "on"),
        ("6.12.63", "newidle_cost_bump", "on"),
        ("6.12.64", "newidle_cost_bump", "off"),
        ("6.12.68", "fair_server.wakeup", "stuck"),
        ("6.12.69", "fair_server.wakeup", "new_period"),
        ("6.12.83", "fair_server.wakeup", "revised_always"),
        ("6.12.103", "fair_server.wakeup", "revised"),
        ("6.12.91", "fair_server.stop", "empty"),
        ("6.12.92", "fair_server.stop", "picked"),
        ("6.12.64", "features.NI_RANDOM", "off"),
        ("6.12.65", "features.NI_RANDOM", "on"),
        ("6.12", "features.NI_RANDOM", "off"),
        // Of kernel.org, not of RHEL.
        ("4.18.20", "features.SIS_UTIL", "off"),
        ("rhel-9.4", "features.SIS_UTIL", "on"),
    ] {
        assert_eq!(values(name)[key], value, "{key} of {name}");
    }
}

#[test]
fn what_is_approximate_is_told() {
    for (name, remarks) in [
        ("7.3", ""),
        ("6.12.12", ""),
        (
            "5.18",
            "between the presets 5.15 and 6.1; every row is known by release\n\
             its stable releases' backports are not known",
        ),
        (
            "5.18.5",
            "between the presets 5.15 and 6.1; every row is known by release\n\
             the backports of 5.18 are not known: its rows are those of the release",
        ),
        ("5.18.0", "between the presets 5.15 and 6.1; every row is known by release"),
        ("6.12.999", "backports after 6.12.118 are not known"),
        (
            "5.15.147",
            "backports before 5.15.148 are not known: without that of features.SIS_UTIL, features.SIS_PROP \
             (70fb5ccf2ebb of 6.0)\n\
             backports before 5.15.148 are not known: without that of uclamp (48d5e9daa8b7 of 6.2)\n\
             backports before 5.15.215 are not known: without that of fault.cfs_burst_cut (49217ea147df of 6.10)",
        ),
        ("rhel-9.4", "the backports are those of rhel-9.3, which was read"),
        ("rhel-9.3", ""),
        ("5.14", "the kernel of rhel-9.3, not that of kernel.org"),
        ("6.6", "without the backport of features.NI_RANDOM (33cf66d88306 of 6.19), which 6.6.120 has"),
    ] {
        assert_eq!(kernel(name).remarks().join("\n"), remarks, "{name}");
    }
}

/// Returns the line of a backport in the documentation.
fn backport(kernel: KernelVersion, backport: &Backport) -> String {
    let change = Settings::change(backport.commit).expect("a commit of a row");
    let names: Vec<String> = Settings::changed_by(backport.commit).map(|row| format!("`{}`", row.name)).collect();
    let first = KernelVersion::first_with(backport.commit);
    let first = first.iter().find(|first| first.release() == kernel.release());
    let first = first.map(|first| first.to_string()).unwrap_or_default();
    let taken = match backport.taken {
        Taken::Since(_) => format!("since {first}"),
        Taken::By(_) => format!("read in {first}"),
        Taken::NotInSeries(_) => format!("since {first}, not in the preset"),
        Taken::SeriesOnly => "in the preset only".to_owned(),
    };
    format!("| {kernel} | {} | {} | {} | {taken} |", names.join(", "), backport.commit, change.release)
}

fn documentation() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/kernels.md");
    std::fs::read_to_string(path).expect("the documentation")
}

#[test]
fn the_documentation_says_how_far_each_series_was_read() {
    let text = documentation();
    for series in KernelVersion::lineages() {
        // The last release that was read is told of a later one.
        let remarks = kernel(&format!("{}.9999", series.release())).remarks();
        let read =
            remarks.iter().find_map(|remark| remark.strip_prefix("backports after ")?.strip_suffix(" are not known"));
        let Some(read) = read.filter(|read| !read.ends_with(".0")) else { continue };
        let name = series.to_string();
        let is_its =
            |line: &&str| line.split('|').nth(1).is_some_and(|names| names.trim().split(", ").any(|one| one == name));
        let row = text.lines().find(is_its).unwrap_or_else(|| panic!("{series} is in no table"));
        assert!(row.contains(read), "{series} was read up to {read}: {row}");
    }
}

#[test]
fn the_documentation_has_the_table_of_backports() {
    let text = documentation();
    let mut table = "\n\n| series | settings | commit | first in | backport |\n|---|---|---|--:|---|\n".to_owned();
    for kernel in KernelVersion::lineages() {
        for one in kernel.backports() {
            writeln!(table, "{}", backport(kernel, one)).expect("a string takes everything");
        }
    }
    table.push('\n');
    let (before, rest) = text.split_once("<!-- backports -->").expect("its begin");
    let (now, after) = rest.split_once("<!-- /backports -->").expect("its end");
    if now == table {
        return;
    }
    let written = concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels.md");
    std::fs::write(written, format!("{before}<!-- backports -->{table}<!-- /backports -->{after}"))
        .expect("a directory");
    panic!("docs/reference/kernels.md has another table; copy {written} to it");
}

//! Tests of the texts that settings accept and refuse.

use super::*;
use alloc::vec::Vec;

#[test]
fn every_setting_reads_back_what_it_shows() {
    for version in KernelVersion::ALL {
        let settings = version.settings();
        let mut copy = Settings { hz: 100, ..settings.clone() };
        for (setting, text) in settings.entries() {
            copy.set(setting.key, &text).expect(setting.key);
        }
        assert_eq!(copy, settings, "{version}");
    }
}

#[test]
fn refusals_name_what_would_be_right() {
    let mut settings = Settings::default();
    let refused = |result: Result<(), SettingError>| result.expect_err("refused").to_string();
    assert_eq!(
        refused(settings.set("rt_balanc", "passive")),
        "unknown setting `rt_balanc`; did you mean `rt_balance`?"
    );
    assert_eq!(refused(settings.set("fair", "bfs")), "`fair`: unknown value `bfs`; known are cfs, eevdf");
    assert_eq!(refused(settings.set("hz", "0")), "`hz`: 0 is outside 1..=10000");
    assert_eq!(refused(settings.set("base_slice_ns", "1ns")), "`base_slice_ns`: 1ns is outside 100us..=1s");
    assert_eq!(settings, Settings::default());
}

#[test]
fn a_bare_number_is_in_the_unit_that_the_key_names() {
    let mut settings = Settings::default();
    settings.set("base_slice_ns", "3000000").expect("3 ms in ns");
    assert_eq!(settings.base_slice, Duration::from_millis(3));
    settings.set("sched_rr_timeslice_ms", "30").expect("30 ms");
    assert_eq!(settings.rr_timeslice, Duration::from_millis(30));
    settings.set("base_slice_ns", "3ms").expect("with its own unit");
}

#[test]
fn traces_have_each_setting_once() {
    let settings = Settings::default();
    let mut recorded: Vec<&str> = settings.recorded().map(|(key, _)| key).collect();
    let mut keys: Vec<&str> = Settings::TABLE.iter().map(|setting| setting.key).collect();
    recorded.sort_unstable();
    keys.sort_unstable();
    assert_eq!(recorded, keys, "a fault is recorded after a key that exists");
}

#[test]
fn faults_are_a_group_and_keep_their_earlier_names() {
    let faults = || Settings::TABLE.iter().filter(|setting| setting.name != setting.key);
    assert_eq!(faults().count(), 4);
    let mut section = Settings::TABLE.iter().skip_while(|setting| !setting.name.starts_with("fault."));
    assert!(section.all(|setting| setting.name.starts_with("fault.")), "faults are the last section");
    for fault in faults() {
        assert!(fault.name.starts_with("fault."), "{fault:?}");
        assert_eq!(Settings::renamed(fault.key), Some(fault.name));
        assert_eq!(Settings::renamed(fault.name), None);
        let mut by_name = KernelVersion::V6_18.settings();
        let mut by_key = by_name.clone();
        let other = if (fault.show)(&by_name) == "on" { "off" } else { "on" };
        by_name.set(fault.name, other).expect("its name");
        by_key.set(fault.key, other).expect("its earlier name");
        assert_eq!(by_name, by_key, "{fault:?}");
        assert_ne!(by_name, KernelVersion::V6_18.settings(), "{fault:?}");
    }
}

#[test]
fn a_kernel_is_found_by_what_it_calls_itself() {
    for (release, kernel) in [
        ("6.18.44-x", Some("6.18.44")),
        ("6.17.1", Some("6.17.1")),
        ("6.16", Some("6.16")),
        ("6.16.0", Some("6.16.0")),
        ("6.16.0-rc3-next", Some("6.16")),
        ("5.13", Some("5.13")),
        ("4.18.0-553.el8_10.x86_64", Some("rhel-8.10")),
        ("5.14.0-362.8.1.el9_3.x86_64", Some("rhel-9.3")),
        ("5.14.0-611.el9.x86_64", Some("5.14")),
        ("5.15.0-200.131.27.el9uek.x86_64", Some("5.15")),
        ("5.14.21-150500.55-default", Some("5.14.21")),
        ("6.1.0-40-amd64", Some("6.1")),
        ("6.12.48+deb13-amd64", Some("6.12.48")),
        ("2.6.32-754.el6.x86_64", Some("2.6.32")),
        ("2.6.32.27", Some("2.6.32")),
        ("7.2.4", Some("7.2.4")),
        ("rhel-9.4", Some("rhel-9.4")),
        ("2.4.20", None),
        ("", None),
        ("6", None),
    ] {
        let found = KernelVersion::of_release(release).map(KernelVersion::name);
        assert_eq!(found.as_deref(), kernel, "{release}");
    }
    assert_eq!(KernelVersion::of_release("99.0-rc1"), Some(KernelVersion::default()), "the newest that is known");
}

#[test]
fn a_wrong_kernel_is_refused_with_what_would_be_right() {
    for (text, refusal) in [
        ("6.20", "was never released: the last of its number was 6.19"),
        ("2.6.22", "is before 2.6.23, the first that is known"),
        ("v6.12", "is no release (6.16, 6.12.85) or distribution's kernel (rhel-9.4); did you mean `6.12`?"),
        ("6.12.85-amd64", "is no release (6.16, 6.12.85) or distribution's kernel (rhel-9.4); did you mean `6.12.85`?"),
        ("6.12.85.3", "is no release (6.16, 6.12.85) or distribution's kernel (rhel-9.4); did you mean `6.12.85`?"),
        ("6.12.", "is no release (6.16, 6.12.85) or distribution's kernel (rhel-9.4); did you mean `6.12`?"),
        ("6.12.+3", "is no release (6.16, 6.12.85) or distribution's kernel (rhel-9.4); did you mean `6.12`?"),
        ("newest", "is no release (6.16, 6.12.85) or distribution's kernel (rhel-9.4)"),
        ("rhel9.3", "is no release (6.16, 6.12.85) or distribution's kernel (rhel-9.4); did you mean `rhel-9.3`?"),
        ("rhel-9", "is no release (6.16, 6.12.85) or distribution's kernel (rhel-9.4); did you mean `rhel-9.3`?"),
        (
            "rhel-7.9",
            "has backports that are not known; known are rhel-8.0 and later, read in 8.8, rhel-9.0 and later, read in \
             9.3; did you mean `rhel-8.8`?",
        ),
    ] {
        let error = text.parse::<KernelVersion>().expect_err(text);
        assert_eq!(error.to_string(), format!("kernel `{text}` {refusal}"));
    }
}

#[test]
fn names_are_read_back() {
    let others = ["6.16", "6.12.0", "6.12.85", "2.6.32", "rhel-8.8", "rhel-9.10", "3.19"];
    for name in KernelVersion::NAMES.iter().chain(&others) {
        assert_eq!(KernelVersion::from_name(name).map(KernelVersion::name).as_deref(), Some(*name));
    }
    let same = |one: &str, other: &str| {
        let of = |name| KernelVersion::from_name(name).expect("a kernel").settings();
        assert_eq!(of(one), of(other), "{one} and {other}");
    };
    same("4.18", "rhel-8.8");
    same("5.14", "rhel-9.3");
    assert_eq!(format!("{:>6}|", KernelVersion::V6_12), "  6.12|");
}

#[test]
fn each_backport_is_of_a_change_that_its_base_has_not() {
    let mut series: Vec<Release> = Vec::new();
    for kernel in KernelVersion::lineages() {
        for backport in kernel.backports() {
            let change = Settings::change(backport.commit);
            let change = change.unwrap_or_else(|| panic!("{kernel}: no row names {}", backport.commit));
            assert!(change.release > kernel.release(), "{kernel} is not before {change}");
        }
        series.push(kernel.release());
    }
    assert!(series.is_sorted(), "{series:?}");
}

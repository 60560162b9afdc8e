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
fn the_preset_of_a_release_is_not_later() {
    for (release, kernel) in [
        ("6.18.44-x", Some("6.18")),
        ("6.17.1", Some("6.12")),
        ("5.13", Some("5.10")),
        ("5.14.0-362.8.1.el9_3.x86_64", Some("5.14")),
        ("6.1.0-40-amd64", Some("6.1")),
        ("2.6.32", Some("2.6.25")),
        ("7.3.4", Some("7.3")),
        ("8.0-rc1", Some("7.3")),
        ("2.4.20", None),
        ("", None),
    ] {
        assert_eq!(KernelVersion::of_release(release).map(KernelVersion::name), kernel, "{release}");
    }
}

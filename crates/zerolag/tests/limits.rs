//! A spelling that is legal in one place is legal in all: each key of a group's limit, and each
//! kernel's name of a setting, in a scenario, set over one, and as the axis of a sweep.

use zerolag::limit::Limit;
use zerolag::sweep::{Axis, prepare};
use zerolag::workload::limits::LimitPart;
use zerolag::workload::program::GroupDef;
use zerolag::{Simulation, Workload};
use zerolag_model::Settings;

fn simulation(head: &str, group: &str) -> Simulation {
    let text =
        format!("{head}\n[group.\"/web\"]\n{group}\n[task.a]\ngroup = \"/web\"\nsteps = [{{ run = \"1ms\" }}]\n");
    Simulation::new(Workload::toml(&text)).duration("1ms".parse().expect("a time"))
}

fn limits(simulation: &Simulation) -> Result<(GroupDef, Vec<Limit>), String> {
    let plan = simulation.plan().map_err(|error| error.to_string())?.plan;
    Ok((plan.program.groups[0].clone(), Limit::all(&plan.program)))
}

/// Returns what a sweep over one value runs.
fn swept(simulation: &Simulation, key: &str, value: &str) -> Result<(GroupDef, Vec<Limit>), String> {
    let axis = Axis { key: key.to_owned(), values: vec![value.to_owned()] };
    let cells = prepare(simulation, &[axis]).map_err(|error| error.to_string())?;
    let [cell] = &cells[..] else { panic!("one value is one cell") };
    Ok((cell.plan.program.groups[0].clone(), Limit::all(&cell.plan.program)))
}

/// Returns the keys without which a part means nothing.
fn base(part: LimitPart) -> &'static str {
    match part {
        LimitPart::Period | LimitPart::Burst | LimitPart::Slice => "\"cpu.max\" = \"200000\"",
        LimitPart::Conversion => "\"requests.cpu\" = \"500m\"",
        // In a file it would be the request, too: `a_limit_of_a_pod_is_a_request_in_a_file_only`.
        LimitPart::PodLimit => "\"requests.cpu\" = \"500m\"",
        LimitPart::Weight
        | LimitPart::Nice
        | LimitPart::Shares
        | LimitPart::Request
        | LimitPart::Idle
        | LimitPart::ClampMin
        | LimitPart::ClampMax
        | LimitPart::Max
        | LimitPart::Quota
        | LimitPart::Cpus
        | LimitPart::Percent
        | LimitPart::RtRuntime
        | LimitPart::RtMax => "",
        LimitPart::RtPeriod => "\"cpu.rt_runtime_us\" = 10000",
    }
}

#[test]
fn every_spelling_of_a_limit_gives_the_same_in_files_when_set_and_in_sweeps() {
    for row in LimitPart::TABLE {
        let base = base(row.sets);
        let without = limits(&simulation("", base));
        for (key, _) in row.spellings {
            let in_file = limits(&simulation("", &format!("{base}\n\"{key}\" = \"{}\"", row.example)));
            assert!(in_file.is_ok(), "{key}: {in_file:?}");
            assert_ne!(in_file, without, "{key} has an effect");
            let over_it = simulation("", base);
            for key in [(*key).to_owned(), format!("/web:{key}")] {
                assert_eq!(limits(&over_it.clone().set(&*key, row.example)), in_file, "{key} set");
                assert_eq!(swept(&over_it, &key, row.example), in_file, "{key} swept");
            }
        }
    }
}

#[test]
fn a_limit_of_a_pod_is_a_request_in_a_file_only() {
    let requests = |simulation: Simulation| limits(&simulation).expect("valid").1[0].requests_cpu_milli;
    assert_eq!(requests(simulation("", "\"limits.cpu\" = \"750m\"")), Some(750));
    assert_eq!(requests(simulation("", "").set("limits.cpu", "750m")), None, "as a pod that is resized");
    assert_eq!(requests(simulation("", "\"limits.cpus\" = \"0.75\"")), None, "Compose has no requests");
}

#[test]
fn the_kernel_refuses_the_same_in_files_and_when_set() {
    let of_file = |group: &str| limits(&simulation("", group)).expect_err(group);
    let of_set = |pairs: &[(&str, &str)]| {
        let set = pairs.iter().fold(simulation("", ""), |simulation, (key, value)| simulation.set(*key, *value));
        limits(&set).expect_err("refused")
    };
    assert!(of_file("\"cpu.idle\" = 1\n\"cpu.weight\" = 5").contains("EINVAL"));
    assert!(of_set(&[("cpu.idle", "1"), ("cpu.weight", "5")]).contains("EINVAL"));
    for row in LimitPart::TABLE {
        let reason = row.sets.read("x").expect_err("no value is x").reason;
        for (key, _) in row.spellings {
            assert!(of_file(&format!("\"{key}\" = \"x\"")).contains(&reason), "{key}");
            assert!(of_set(&[(key, "x")]).contains(&reason), "{key}");
        }
    }
}

#[test]
fn an_unknown_key_has_the_same_suggestion_everywhere() {
    for (wrong, near) in [("cpu.wieght", "cpu.weight"), ("cpuquota", "CPUQuota"), ("limit.cpus", "limits.cpus")] {
        let said = |error: String| assert!(error.contains(&format!("did you mean `{near}`?")), "{wrong}: {error}");
        said(limits(&simulation("", &format!("\"{wrong}\" = 1"))).expect_err("unknown"));
        said(limits(&simulation("", "").set(wrong, 1)).expect_err("unknown"));
        said(swept(&simulation("", ""), wrong, "1").expect_err("unknown"));
    }
    let owned = limits(&simulation("", "").set("/web:cpu.maxx", 1)).expect_err("unknown");
    assert!(owned.contains("did you mean `/web:cpu.max`?"), "{owned}");
}

fn settings(simulation: &Simulation) -> Result<Settings, String> {
    Ok(simulation.plan().map_err(|error| error.to_string())?.plan.config.settings)
}

#[test]
fn every_kernels_name_of_a_setting_gives_the_same_in_files_when_set_and_in_sweeps() {
    let per_cpu =
        [("fair_server/cpu3/runtime", "20000000"), ("fair_server/cpu3/period", "2s"), ("fair_server/cpu3/defer", "0")];
    let of_table = Settings::SPELLINGS.iter().map(|row| {
        let own = Settings::default().entries().find(|(setting, _)| setting.name == row.setting).expect("a setting").1;
        (row.key, row.values.last().map_or(own, |(theirs, _)| (*theirs).to_owned()))
    });
    let all = of_table.chain(per_cpu.map(|(key, value)| (key, value.to_owned())));
    for (key, value) in all {
        let set = settings(&simulation("", "").set(key, &value));
        assert!(set.is_ok(), "{key}: {set:?}");
        assert_eq!(settings(&simulation(&format!("[settings]\n\"{key}\" = \"{value}\""), "")), set, "{key} in a file");
        let axis = Axis { key: key.to_owned(), values: vec![value.clone()] };
        let cells = prepare(&simulation("", ""), &[axis]).expect(key);
        assert_eq!(Ok(cells[0].plan.config.settings.clone()), set, "{key} swept");
    }
}

#[test]
fn a_setting_by_two_names_is_set_twice() {
    let error = settings(&simulation("[settings]\nnr_migrate = 8\nsched_nr_migrate = 16", "")).expect_err("twice");
    assert!(error.contains("setting `nr_migrate` is set twice"), "{error}");
    let beyond = settings(&simulation("", "").set("fair_server/cpu9/defer", 1)).expect_err("4 CPUs");
    assert!(beyond.contains("CPU 9 does not exist"), "{beyond}");
}

//! The workloads that come with zerolag load, and lower to the intended tasks.

use std::path::Path;
use zerolag_workload::{LoadOptions, Scenario, load};

fn example(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let bytes = std::fs::read(&path).expect(name);
    load(name, &bytes, &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn every_example_loads_without_a_warning() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"))
        .filter(|name| name.ends_with(".json") || name.ends_with(".toml"))
        .collect();
    names.sort();
    assert!(names.len() >= 6, "{names:?}");
    for name in names {
        let scenario = example(&name);
        assert!(scenario.warnings.is_empty(), "{}", scenario.warnings);
        assert!(scenario.duration.is_some(), "{name} has a duration");
    }
}

#[test]
fn they_have_the_tasks_that_they_describe() {
    let threads = |name: &str| {
        let program = example(name).program;
        program.tasks.iter().map(|task| format!("{}x{}", task.name, task.instances)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(threads("audio.json"), "audiox1 mixer-leftx1 mixer-rightx1 decoderx1 interfacex1 indexerx8");
    assert_eq!(threads("rt-overload.toml"), "t2x1 t3x1 t4x1 t5x1 t6x1");
    assert_eq!(threads("web-build.toml"), "requestx16 collectorx1 compilerx12 linkerx1");
    let cpusets = example("cpusets.toml").program.cpusets;
    assert_eq!(
        cpusets.iter().map(|set| (set.cpus.to_string(), set.partition)).collect::<Vec<_>>(),
        [("0-1".to_string(), true), ("2-7".to_string(), false)]
    );
}

//! Generated whole scenarios (`zerolag fuzz`): none panics, breaks a rule, differs from its own
//! second run, from a run without a trace, or from its twin.

use zerolag_lab::fuzz::{Judged, draw, judge, judge_draft};

/// The scenarios of seed 1 that are run. A finding beyond them: `zerolag fuzz`.
const COUNT: u64 = 480;

#[test]
fn generated_scenarios_keep_every_rule() {
    let (mut events, mut refused) = (0, 0);
    for number in 0..COUNT {
        let draft = draw(1, number, None);
        match judge_draft(&draft) {
            Judged::Fine(these) => events += these,
            Judged::Refused(_) => refused += 1,
            Judged::Wrong(finding) => panic!(
                "number {number}: {finding}\n{draft}\n`zerolag fuzz --seed 1 --from {number} --count 1` makes it smaller"
            ),
        }
    }
    assert!(events > 1_000_000, "only {events} events");
    // 2 % of 3000: kernels with deadline servers, which promise bandwidth, are seven of 25.
    assert!(refused < COUNT / 30, "{refused} of {COUNT} were refused");
}

#[test]
fn a_scenario_is_a_function_of_seed_and_number() {
    let text = |seed, number| draw(seed, number, None).to_string();
    assert_eq!(text(1, 7), text(1, 7));
    assert!(text(1, 7) != text(1, 8) && text(1, 7) != text(2, 7));
    let of = |kernel| draw(1, 7, Some(kernel)).to_string();
    assert!(of(zerolag::model::KernelVersion::V6_1).starts_with("kernel = \"6.1\"\n"));
}

#[test]
fn a_wrong_scenario_is_refused() {
    assert!(matches!(judge("[task.a]\nsteps = [{ rum = \"1ms\" }]\n"), Judged::Refused(_)));
}

//! What the playground calls, on this host. `browser/` tests the same in a browser.

use serde_json::Value;
use std::ops::ControlFlow;
use zerolag::check::{Options, check};
use zerolag::html::escape::escape;
use zerolag::simulation::verdicts;
use zerolag::trace::Trace;
use zerolag::trace::script::Script;
use zerolag_wasm::play;

fn run(text: &str, values: &str) -> Value {
    play::run(text, values, "test", |_| ControlFlow::Continue(()))
}

fn lessons() -> Vec<Value> {
    serde_json::from_str(include_str!("../web/lessons.json")).expect("the lessons are JSON")
}

#[test]
fn every_lesson_can_be_answered_and_none_is_from_the_start() {
    let lessons = lessons();
    assert_eq!(lessons.len(), 16);
    // Those with a policy are answered in a browser: it is written in JavaScript.
    for lesson in lessons.into_iter().filter(|lesson| lesson["policy"].is_null()) {
        let (title, text) = (lesson["title"].as_str().unwrap(), lesson["text"].as_str().unwrap());
        let found = run(text, "{}");
        assert_eq!(found["ok"], true, "{title}: {}", found["messages"]);
        let met = |found: &Value| found["goals"].as_array().unwrap().iter().all(|goal| goal["met"] == true);
        match lesson["solution"].as_array() {
            None => {
                let (choices, right) = (lesson["choices"].as_array().unwrap(), lesson["right"].as_u64().unwrap());
                assert!((right as usize) < choices.len(), "{title}");
            }
            Some(changes) => {
                assert!(!met(&found), "{title}: the goals are met before anything is changed");
                let solved = changes.iter().fold(text.to_owned(), |text, change| {
                    let (from, to) = (change[0].as_str().unwrap(), change[1].as_str().unwrap());
                    assert!(text.contains(from), "{title}: there is no `{from}`");
                    text.replace(from, to)
                });
                let found = run(&solved, "{}");
                assert!(met(&found), "{title}: {}", found["goals"]);
            }
        }
    }
}

#[test]
fn mistakes_have_places_and_advice() {
    let found = play::check("[machine]\ncpus = 2\n[task.a]\nsteps = [{ rum = \"1ms\" }]\n", "{}");
    let first = &found["messages"][0];
    assert_eq!((&found["ok"], &first["severity"]), (&Value::Bool(false), &"error".into()));
    assert_eq!((&first["places"][0]["line"], &first["places"][0]["length"]), (&4.into(), &3.into()));
    let values = play::check(
        "[task.a]\nsteps = [{ run = \"1ms\" }]\n",
        r#"{"kernel":"1.0","set":[["hzz","1"]],"duration":"5"}"#,
    );
    assert!(values["messages"].as_array().is_some_and(|all| !all.is_empty()), "{values}");
    let long = play::check("[task.a]\nsteps = [{ run = \"1ms\" }]\n", r#"{"duration":"1h"}"#);
    assert!(long["messages"][0]["says"].as_str().unwrap().contains("too long"), "{long}");
}

#[test]
fn a_run_tells_its_progress_and_can_be_ended() {
    let text = "[machine]\ncpus = 1\n[task.a]\ninstances = 2\nsteps = [{ run = \"100us\" }, { sleep = \"50us\" }]\n";
    let mut calls = 0;
    let found = play::run(text, r#"{"duration":"60s"}"#, "x", |part| {
        calls += 1;
        assert!((0.0..=1.0).contains(&part));
        ControlFlow::Break(())
    });
    assert_eq!((calls, &found["good"]), (1, &Value::Bool(false)));
}

#[test]
fn a_trace_is_that_of_the_program_and_its_page_opens() {
    let text = include_str!("../../../examples/rt-hog.toml");
    let bytes = play::trace(text, r#"{"duration":"2s"}"#).unwrap();
    assert_eq!(bytes, play::trace(text, r#"{"duration":"2s"}"#).unwrap());
    let found = play::report("t.zlt", &bytes);
    assert!(found["html"].as_str().unwrap().contains("spinner"));
    assert_eq!(play::report("t.zlt", b"hello")["ok"], false);
}

#[test]
fn a_dropped_trace_is_judged_by_the_monitors_and_gaps_are_not() {
    let bytes = include_bytes!("../../trace/tests/data/lost-2cpu.perf.data.gz");
    let lost = play::report("lost.gz", bytes);
    let html = lost["html"].as_str().unwrap();
    assert!(html.contains("in 57 gaps were not judged: events are missing"), "the gaps of the recording");
    assert!(html.contains("3628 events were lost: 66 gaps, "), "what the figures lack, beside the answer");
    assert!(html.contains("<p class=\"unseen\">Events of its CPU are missing for "), "a wait in a gap");
    let report = check(&Trace::from_bytes(bytes).unwrap(), &Options::default());
    assert!(!report.verdicts.is_empty());
    let mut rest = &html[html.find(">Checks<").expect("the page has the verdicts")..];
    for cell in verdicts::table(&report).to_rows().iter().flatten() {
        let said = format!(">{}<", escape(cell));
        let at = rest.find(&said).unwrap_or_else(|| panic!("the page lacks `{cell}`, or has it elsewhere"));
        rest = &rest[at + said.len() - 1..];
    }
    let line = lost["checks"].as_str().unwrap();
    assert!(line.starts_with("checks: ") && html.contains(line), "{line}");

    let mut script = Script::new(2);
    let a = script.fair("a");
    script.wake(0, 0, a).run(0, 0, None, Some(a)).run(5, 1, None, Some(a));
    let mut bytes = Vec::new();
    script.end(10).write(&mut bytes).unwrap();
    let broken = play::report("broken.zlt", &bytes);
    assert_eq!((&broken["ok"], &broken["good"]), (&true.into(), &false.into()));
    assert!(broken["html"].as_str().unwrap().contains("The trace breaks rules of scheduling."));
    assert!(broken["html"].as_str().unwrap().contains("runs on cpu 1 while it runs on cpu 0"));
}

#[test]
fn perfetto_gets_the_same_trace_of_a_run_and_of_its_file() {
    let (text, values) = (include_str!("../../../examples/noisy-neighbour.toml"), r#"{"duration":"500ms"}"#);
    let of_run = play::run_for_perfetto(text, values).unwrap();
    let of_file = play::trace_for_perfetto(&play::trace(text, values).unwrap()).unwrap();
    assert!(of_run.len() > of_file.len() + 10_000, "a run has the scheduler's own numbers too");
    assert_eq!(Trace::from_bytes(&of_run).unwrap().records, Trace::from_bytes(&of_file).unwrap().records);
    let read = Trace::from_bytes(&of_run).unwrap();
    assert!(read.records.len() > 100, "{} records", read.records.len());
    assert!(play::trace_for_perfetto(b"hello").is_err());
    assert!(play::run_for_perfetto("[task.a]", values).is_err());
}

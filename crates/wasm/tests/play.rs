//! What the playground calls, on this host. `browser/` tests the same in a browser.

use serde_json::Value;
use std::ops::ControlFlow;
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
    assert_eq!(lessons.len(), 10);
    for lesson in lessons {
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

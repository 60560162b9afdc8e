//! Prints the report of a trace file, as tables or, with `--json`, as JSON.

use std::path::Path;
use zerolag_report::{Metrics, json, text};

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let as_json = arguments.iter().any(|argument| argument == "--json");
    arguments.retain(|argument| !argument.starts_with("--"));
    for name in arguments {
        let summary = Metrics::of(&zerolag_trace::open(Path::new(&name))?);
        if as_json {
            println!("{}", json::render(&summary)?);
        } else {
            println!("{}", text::render(&summary, text::Limits::default()));
        }
    }
    Ok(())
}

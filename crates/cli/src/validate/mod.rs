//! `zerolag validate`: compares simulation results with recorded kernels, or with this host.

mod args;
#[cfg(target_os = "linux")]
mod live;

use super::failure::Failure;
use super::output::HtmlArgs;
use super::progress::{Progress, catch_interrupts};
use super::{Done, code, output};
pub(crate) use args::Args;
use args::failure;
use std::ops::ControlFlow;
use zerolag::page;
use zerolag_lab::validate::{self, Case};

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    args.html.check()?;
    let mut paths = Vec::new();
    for path in &args.cases {
        if path.is_dir() {
            paths.extend(validate::find(path).map_err(failure)?);
        } else {
            paths.push(path.clone());
        }
    }
    let cases = paths.iter().map(|path| Case::read(path)).collect::<Vec<_>>();
    let wrong: Vec<String> = cases.iter().filter_map(|case| case.as_ref().err()).map(ToString::to_string).collect();
    if !wrong.is_empty() {
        return Err(Failure::input(wrong.join("\n")));
    }
    #[cfg(target_os = "linux")]
    if args.live {
        return live::run(args, &cases.into_iter().flatten().collect::<Vec<_>>());
    }
    catch_interrupts();
    let mut progress = Progress::new(paths.len() as u64, "cases", args.quiet.quiet);
    let mut comparisons = Vec::new();
    for (done, case) in cases.into_iter().flatten().enumerate() {
        if progress.at(done as u64) == ControlFlow::Break(()) {
            return Ok(code::INTERRUPTED);
        }
        comparisons.extend(validate::run(&case).map_err(failure)?);
    }
    progress.finish();
    let inside = comparisons.iter().filter(|comparison| comparison.is_inside()).count();
    let answer = format!("{inside} of {} comparisons with recorded kernels are inside their bands.", comparisons.len());
    let text = || validate::text(&comparisons);
    args.html.publish(|| Ok(page::of_figures(validate::shown(answer, &comparisons), &HtmlArgs::about("validate"))))?;
    if args.markdown {
        output::print(&validate::markdown(&comparisons))?;
    } else {
        args.json.publish(text, || validate::json::json(&comparisons))?;
    }
    Ok(if comparisons.iter().all(validate::Comparison::is_inside) { code::OK } else { code::GOAL_MISSED })
}

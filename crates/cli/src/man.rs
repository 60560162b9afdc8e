//! `zerolag man`: manual pages.

use super::failure::Failure;
use super::{Cli, Done, code, output};
use clap::CommandFactory;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use zerolag::model::settings::nearest;

/// Arguments of `zerolag man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write one page per subcommand into this directory [default: print the page of zerolag
    /// itself]
    #[arg(long, value_name = "DIR", conflicts_with = "subcommand")]
    dir: Option<PathBuf>,
    /// Print the page of this subcommand: `zerolag man run`, `zerolag man repro rt-balance`
    #[arg(value_name = "SUBCOMMAND")]
    subcommand: Vec<String>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    let mut command = Cli::command();
    command.build();
    match &args.dir {
        None => {
            let mut page = Vec::new();
            render(named(&command, &args.subcommand)?, &mut page).expect("invariant: memory takes it");
            output::print(&String::from_utf8_lossy(&page))?;
        }
        Some(dir) => {
            output::check_target(&dir.join("zerolag.1"))?;
            write_pages(&command, dir)?;
        }
    }
    Ok(code::OK)
}

/// Returns the subcommand of these names.
fn named<'c>(command: &'c clap::Command, names: &[String]) -> Result<&'c clap::Command, Failure> {
    names.iter().try_fold(command, |command, name| {
        command.find_subcommand(name).ok_or_else(|| {
            let all: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
            let message = format!("`{}` has no subcommand `{name}`", command.get_name());
            let help = match nearest(name, all.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if all.is_empty() => "leave it out".to_owned(),
                None => format!("it has {}", all.join(", ")),
            };
            Failure::input_help(message, help)
        })
    })
}

/// Writes the page of a command and those of its subcommands.
fn write_pages(command: &clap::Command, dir: &Path) -> Result<(), Failure> {
    let page = clap_mangen::Man::new(command.clone());
    output::write_file(&dir.join(page.get_filename()), |out| page.render(out))?;
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.into_iter().try_for_each(|command| write_pages(command, dir))
}

fn render(command: &clap::Command, out: &mut impl Write) -> io::Result<()> {
    clap_mangen::Man::new(command.clone()).render(out)
}

//! `zerolag man`: manual pages.

use super::failure::Failure;
use super::{Cli, Done, code, output};
use clap::CommandFactory;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Arguments of `zerolag man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write one page per subcommand into this directory [default: print the page of zerolag
    /// itself]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    let mut command = Cli::command();
    command.build();
    match &args.dir {
        None => {
            let mut page = Vec::new();
            render(&command, &mut page).expect("invariant: memory takes it");
            output::print(&String::from_utf8_lossy(&page))?;
        }
        Some(dir) => {
            output::check_target(&dir.join("zerolag.1"))?;
            write_pages(&command, dir)?;
        }
    }
    Ok(code::OK)
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

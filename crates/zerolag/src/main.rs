//! The command line of zerolag.
mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}

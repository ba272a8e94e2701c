//! The `eclusa` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    eclusa::cli::main(std::env::args_os())
}

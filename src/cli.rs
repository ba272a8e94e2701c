//! Verbs, flags and exit codes.

use std::{ffi::OsString, process::ExitCode};

/// Runs one command and gives its exit code.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let _ = args;
    todo!()
}

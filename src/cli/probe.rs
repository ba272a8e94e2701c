//! `eclusa probe`: what `eclusa doctor` runs inside its sandboxes.

use std::{fs, io, io::Write, path::Path, process::ExitCode};

use super::CliError;
use crate::doctor::probe::{self, PROGRAM, Sacrifice};

/// `eclusa probe`
#[derive(Debug, clap::Args)]
pub(crate) struct ProbeArgs {
    /// What to do.
    #[arg(value_enum)]
    part: Part,
    /// How much memory to take.
    #[arg(long, default_value_t = 0)]
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Every attempt, by the orders on standard input.
    All,
    /// Be a neighbour, until standard input ends.
    Listen,
    Namespaces,
    FileSize,
    Memory,
}

/// Does it, inside of a sandbox made of our image and nowhere else: it fills what it can write.
pub(crate) fn run(args: &ProbeArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if fs::read_link("/proc/self/exe")? != Path::new(PROGRAM) {
        let why = "probes are made inside of a sandbox; run eclusa doctor";
        return Err(CliError::Usage(why.to_owned()).into());
    }
    match args.part {
        Part::All => probe::all(io::stdin(), out)?,
        Part::Listen => probe::listen(io::stdin(), out)?,
        Part::Namespaces => probe::sacrifice(Sacrifice::Namespaces, out)?,
        Part::FileSize => probe::sacrifice(Sacrifice::FileSize, out)?,
        Part::Memory => probe::sacrifice(Sacrifice::Memory(args.bytes), out)?,
    }
    Ok(ExitCode::SUCCESS)
}

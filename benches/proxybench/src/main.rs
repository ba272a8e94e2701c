//! The far side and the load of `make bench`.
//!
//! `proxybench origin` serves what is behind the proxies; `proxybench load WORK` drives one of them
//! and prints one line of `key=value` pairs. Both run on one thread, so that the other core of the
//! smallest machine is left to what is measured.

mod load;
mod origin;
mod process;
mod tunnel;

use std::{error::Error, process::ExitCode};

use clap::Parser;

#[derive(Parser)]
enum Command {
    /// Serve the far side until it is stopped; prints where, once it listens.
    Origin(origin::Arguments),
    /// Drive a proxy, and print what it did.
    Load(load::Arguments),
    /// Print the processor time that a process and those it started have used so far.
    Cost { pid: u32 },
}

fn main() -> ExitCode {
    let command = Command::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let outcome: Result<(), Box<dyn Error>> = runtime.map_err(Into::into).and_then(|runtime| {
        runtime.block_on(async {
            match command {
                Command::Origin(arguments) => origin::serve(arguments).await,
                Command::Load(arguments) => load::run(arguments).await,
                Command::Cost { pid } => {
                    println!("cpu_s={:.2}", process::processor_time(pid).as_secs_f64());
                    Ok(())
                }
            }
        })
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("proxybench: {error}");
            ExitCode::FAILURE
        }
    }
}

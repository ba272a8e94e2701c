//! `eclusa completions`: what a shell completes a command line with.

use std::{io::Write, process::ExitCode};

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};

use super::Cli;

/// `eclusa completions`
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that reads it.
    pub(crate) shell: Shell,
}

/// Prints the script, which the shell reads at its start.
pub(crate) fn run(args: &CompletionsArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    generate(
        args.shell,
        &mut visible(&Cli::command()),
        "eclusa",
        &mut script,
    );
    out.write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// The command without its hidden verbs, which the generators would offer too.
fn visible(whole: &Command) -> Command {
    let verbs = whole.get_subcommands().filter(|verb| !verb.is_hide_set());
    Command::new("eclusa")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(whole.is_propagate_version_set())
        .args(whole.get_arguments())
        .subcommands(verbs.cloned())
}

#[cfg(test)]
mod tests {
    use std::{fs, process};

    use clap::ValueEnum;

    use super::*;
    use crate::cli::tests::eclusa;

    #[test]
    fn every_shell_gets_every_verb_and_no_hidden_one() {
        for shell in Shell::value_variants() {
            let ran = eclusa(&["completions", &shell.to_string()]);
            assert_eq!((ran.code, &*ran.err), (ExitCode::SUCCESS, ""), "{shell}");
            for verb in Cli::command().get_subcommands() {
                let name = verb.get_name();
                // As every one of them writes a verb: a word of its own.
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                let is_there = ran.out.split(|c| !is_word(c)).any(|word| word == name);
                assert_eq!(is_there, !verb.is_hide_set(), "{shell} {name}");
            }
            assert!(ran.out.contains("verify"), "{shell} knows options");
        }
    }

    #[test]
    fn bash_takes_the_script_and_completes_verbs_and_options() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("eclusa.bash");
        fs::write(&script, eclusa(&["completions", "bash"]).out).unwrap();
        let ask = "source \"$1\" && complete -p eclusa && \
                   complete_with() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                   _eclusa eclusa \"${!#}\" \"${@: -2:1}\"; echo \"${COMPREPLY[@]}\"; } && \
                   complete_with eclusa lo && complete_with eclusa logs --ver";
        let bash = process::Command::new("bash")
            .args(["--norc", "-euc", ask, "bash"])
            .arg(&script)
            .output()
            .unwrap();
        let said = String::from_utf8(bash.stdout).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert!(
            bash.status.success(),
            "{said}{}",
            String::from_utf8_lossy(&bash.stderr)
        );
        assert!(lines[0].ends_with(" eclusa"), "{said}");
        assert_eq!(&lines[1..], ["logs", "--verify --version"], "{said}");
    }
}

//! `eclusa man`: the manual pages, one for each verb.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::{Cli, CliError};

/// `eclusa man`
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// A folder for the pages of eclusa and of every verb, for example
    /// /usr/local/share/man/man1; made where it is not there. Default: print the page of eclusa.
    pub(crate) folder: Option<PathBuf>,
}

/// Prints a page, or writes all of them.
pub(crate) fn run(args: &ManArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    match &args.folder {
        None => out.write_all(&page(&command)?)?,
        Some(folder) => write_all(&command, folder).map_err(|error| {
            CliError::Failed(format!("failed to write to {}: {error}", folder.display()))
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write_all(command: &Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for command in [command].into_iter().chain(verbs) {
        let name = command
            .get_display_name()
            .unwrap_or_else(|| command.get_name());
        fs::write(folder.join(format!("{name}.1")), page(command)?)?;
    }
    Ok(())
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone())
        .manual("Eclusa")
        .render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{
        Exit,
        tests::{Ran, eclusa},
    };

    /// A page's text without its markup.
    fn plain(page: &str) -> String {
        page.replace("\\-", "-")
            .replace("\\fB", "")
            .replace("\\fR", "")
    }

    #[test]
    fn every_verb_has_a_page_that_names_each_of_its_options() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("share/man1");
        let ran = eclusa(&["man", pages.to_str().unwrap()]);
        assert_eq!((ran.code, ran.err), (ExitCode::SUCCESS, String::new()));
        let mut command = Cli::command();
        command.build();
        let mut expected = vec!["eclusa.1".to_owned()];
        for verb in command.get_subcommands() {
            if verb.is_hide_set() || verb.get_name() == "help" {
                continue;
            }
            let file = format!("eclusa-{}.1", verb.get_name());
            let page = plain(&fs::read_to_string(pages.join(&file)).unwrap());
            assert!(page.contains(".TH eclusa-"), "{page}");
            for option in verb.get_opts().filter_map(|option| option.get_long()) {
                assert!(page.contains(&format!("--{option}")), "{file} --{option}");
            }
            expected.push(file);
        }
        let mut written: Vec<String> = fs::read_dir(&pages)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        written.sort();
        expected.sort();
        assert_eq!(written, expected);
    }

    #[test]
    fn the_page_of_eclusa_is_printed_and_names_every_verb() {
        let Ran { code, out, .. } = eclusa(&["man"]);
        assert_eq!(code, ExitCode::SUCCESS);
        for verb in ["serve", "run", "logs", "completions"] {
            assert!(plain(&out).contains(&format!("eclusa-{verb}(1)")), "{out}");
        }
        assert!(!out.contains("eclusa\\-hold"), "{out}");
        let ran = eclusa(&["man", "/dev/null/below"]);
        assert_eq!(ran.code, Exit::Denied.into());
        assert!(ran.err.contains("/dev/null/below"), "{}", ran.err);
    }
}

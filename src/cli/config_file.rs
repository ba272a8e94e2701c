//! Where the configuration is, and reading it. A file in the working directory is never read by
//! itself: a checked-out repository must not configure us.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::Environment;
use crate::config::{Config, Launcher, Problems};

/// Where the configuration is when neither `-c` nor `ECLUSA_CONFIG` says.
pub(crate) const DEFAULT: &str = "/etc/eclusa/eclusa.toml";

/// The longest file that is read, in bytes: some two million patterns.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Why there is no configuration.
// Security: each is fatal. A missing or empty file is never "no filter".
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigFileError {
    #[error(
        "there is no configuration: {DEFAULT} does not exist; name a file with -c FILE or in \
         ECLUSA_CONFIG"
    )]
    NoDefault,
    #[error("failed to read the configuration {}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("failed to read the configuration {}: it is a directory", .0.display())]
    Directory(PathBuf),
    #[error("failed to read the configuration {}: it is larger than 64 MiB", .0.display())]
    TooLarge(PathBuf),
    #[error("failed to read the configuration {}: line {line} is not UTF-8 text", .path.display())]
    NotText { path: PathBuf, line: usize },
    #[error("{} in {}\n{problems}", count(.problems), .path.display())]
    Invalid { path: PathBuf, problems: Problems },
}

/// A configuration and the file that it stands in.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Reads the configuration where there is one: a file that is named must be there, the default one
/// need not.
pub(crate) fn load_if_any(
    flag: Option<&Path>,
    environment: &Environment,
) -> Result<Option<Loaded>, ConfigFileError> {
    let path = locate(flag, environment);
    let text = match read(&path) {
        Ok(text) => text,
        Err(ConfigFileError::NoDefault) if flag.is_none() => return Ok(None),
        Err(error) => return Err(error),
    };
    let config = parse(&path, &text)?;
    Ok(Some(Loaded { config, path, text }))
}

/// What `[launcher]` says, or its defaults where there is no configuration.
pub(crate) fn launcher(loaded: Option<&Loaded>) -> Launcher {
    loaded.map_or_else(Launcher::default, |loaded| loaded.config.launcher.clone())
}

/// The file that `-c` names, else `ECLUSA_CONFIG`, else the default.
pub(crate) fn locate(flag: Option<&Path>, environment: &Environment) -> PathBuf {
    flag.or(environment.config.as_deref())
        .unwrap_or_else(|| Path::new(DEFAULT))
        .to_owned()
}

/// Reads and validates the file at `path`.
pub(crate) fn load(path: &Path) -> Result<Config, ConfigFileError> {
    parse(path, &read(path)?)
}

fn parse(path: &Path, text: &str) -> Result<Config, ConfigFileError> {
    Config::parse(text).map_err(|problems| ConfigFileError::Invalid {
        path: path.to_owned(),
        problems,
    })
}

fn read(path: &Path) -> Result<String, ConfigFileError> {
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound if path == Path::new(DEFAULT) => ConfigFileError::NoDefault,
        io::ErrorKind::IsADirectory => ConfigFileError::Directory(path.to_owned()),
        _ => ConfigFileError::Unreadable {
            path: path.to_owned(),
            source,
        },
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_BYTES) {
        return Err(ConfigFileError::TooLarge(path.to_owned()));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error
            .as_bytes()
            .iter()
            .take(error.utf8_error().valid_up_to());
        ConfigFileError::NotText {
            path: path.to_owned(),
            line: 1 + valid.filter(|byte| **byte == b'\n').count(),
        }
    })
}

fn count(problems: &Problems) -> String {
    match problems.0.len() {
        1 => "1 problem".to_owned(),
        more => format!("{more} problems"),
    }
}

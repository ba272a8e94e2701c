//! The configuration that the proxy container runs under: the user's, with what depends on where it
//! runs replaced by what holds in the container.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    ADMIN_SOCKET, AUDIT_FILE, CONFIG_FILE, CONFIG_FOLDER,
    archive::{Entry, archive},
};
use crate::config::{Config, Problems, fingerprint};

/// Where the proxy listens in its container: a wildcard serves the sandboxes' networks alone.
const LISTEN: &[(&str, &str)] = &[
    ("proxy", "0.0.0.0:3128"),
    ("dns", "0.0.0.0:53"),
    ("https", "0.0.0.0:443"),
    ("http", "0.0.0.0:80"),
];

/// A valid configuration for the container, and the files that it needs.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxySettings {
    text: String,
    /// Of `text`.
    fingerprint: String,
    /// Of the text that this one was made from.
    written: Option<String>,
    authorities: Option<Authorities>,
    drain_timeout: Duration,
    connections: usize,
}

/// The file of `resolver.ca`.
#[derive(Clone, PartialEq, Eq)]
struct Authorities {
    /// Named by its content, so that a change of it is a change of the configuration.
    name: String,
    content: Vec<u8>,
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum ProxySettingsError {
    /// The configuration is not valid.
    #[error("the configuration is not valid\n{0}")]
    Invalid(Problems),
    /// It cannot be taken apart although it is valid.
    #[error("the configuration cannot be rewritten for the proxy's container: {0}")]
    Rewrite(String),
    /// `resolver.ca` names a file that cannot be read.
    #[error("failed to read {}, which resolver.ca names", .path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl ProxySettings {
    /// What a proxy gets where the user has no configuration: no profile and no client, so that
    /// only registered runs reach anything, and only what each may.
    pub fn built_in() -> Result<Self, ProxySettingsError> {
        Self::render(toml::Table::new(), None, None)
    }

    /// The user's configuration; `read` reads the file that `resolver.ca` names.
    pub fn of(
        text: &str,
        read: impl FnOnce(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Self, ProxySettingsError> {
        let config = Config::parse(text).map_err(ProxySettingsError::Invalid)?;
        let table = text
            .parse::<toml::Table>()
            .map_err(|error| ProxySettingsError::Rewrite(error.to_string()))?;
        let authorities = match config.resolver.ca {
            None => None,
            Some(path) => Some(read(&path).map_or_else(
                |source| Err(ProxySettingsError::Authorities { path, source }),
                |content| Ok(Authorities::of(content)),
            )?),
        };
        Self::render(table, authorities, Some(config.fingerprint))
    }

    fn render(
        mut table: toml::Table,
        authorities: Option<Authorities>,
        written: Option<String>,
    ) -> Result<Self, ProxySettingsError> {
        // Whole: `dangerously_listen_on_uplink` is about another place than the container.
        table.remove("listen");
        for (key, address) in LISTEN {
            set(&mut table, "listen", key, vec![*address])?;
        }
        set(&mut table, "listen", "admin", ADMIN_SOCKET)?;
        set(&mut table, "audit", "file", AUDIT_FILE)?;
        if let Some(authorities) = &authorities {
            let path = format!("{CONFIG_FOLDER}/{}", authorities.name);
            set(&mut table, "resolver", "ca", path)?;
        }
        let text = toml::to_string(&table)
            .map_err(|error| ProxySettingsError::Rewrite(error.to_string()))?;
        let config = Config::parse(&text).map_err(ProxySettingsError::Invalid)?;
        Ok(Self {
            text,
            fingerprint: config.fingerprint,
            written,
            authorities,
            drain_timeout: config.limits.drain_timeout,
            connections: config.limits.connections,
        })
    }

    /// The configuration itself.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it is told from others by, as `GET /healthz` has it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Whether a proxy with this configuration in force does what these settings say: it is theirs,
    /// or the user gave the file itself to a proxy of their own.
    pub fn are_in_force(&self, fingerprint: &str) -> bool {
        self.fingerprint == fingerprint || self.written.as_deref() == Some(fingerprint)
    }

    /// `limits.drain_timeout`.
    pub fn drain_timeout(&self) -> Duration {
        self.drain_timeout
    }

    /// `limits.connections`.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// Its files, to be unpacked in `CONFIG_FOLDER`; they are root's, so that the proxy cannot
    /// change them.
    ///
    /// # Errors
    /// None in practice: it is made in memory.
    pub fn archive(&self) -> io::Result<Vec<u8>> {
        let file = |path, content| Entry::File {
            path,
            mode: 0o644,
            content,
        };
        let authorities = self.authorities.as_ref();
        let mut entries: Vec<_> = authorities
            .map(|file_of| file(&*file_of.name, &*file_of.content))
            .into_iter()
            .collect();
        // Last: what it names is there when it is read.
        entries.push(file(CONFIG_FILE, self.text.as_bytes()));
        archive(&entries)
    }
}

impl std::fmt::Debug for ProxySettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ProxySettings")
            .field(&self.fingerprint)
            .finish()
    }
}

impl Authorities {
    fn of(content: Vec<u8>) -> Self {
        Self {
            name: format!("ca-{}.pem", fingerprint(&content)),
            content,
        }
    }
}

/// Sets `section.key`, in a section that may be missing.
fn set(
    table: &mut toml::Table,
    section: &str,
    key: &str,
    to: impl Into<toml::Value>,
) -> Result<(), ProxySettingsError> {
    let entry = table.entry(section);
    let empty = || toml::Value::Table(toml::Table::new());
    match entry.or_insert_with(empty) {
        toml::Value::Table(section) => {
            section.insert(key.to_owned(), to.into());
            Ok(())
        }
        _ => Err(ProxySettingsError::Rewrite(format!(
            "[{section}] is no table"
        ))),
    }
}

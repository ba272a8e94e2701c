//! What `eclusa up` and `eclusa down` did.

use serde::Serialize;

/// What `eclusa up` did, and what runs now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Up {
    /// What it took.
    pub action: Action,
    /// The container's name.
    pub container: String,
    /// Its id.
    pub id: String,
    /// Its image's id.
    pub image: String,
    /// Its address on the uplink.
    pub address: Option<String>,
    /// The fingerprint of the configuration in force.
    pub config: String,
    /// Where the audit log is.
    pub audit: AuditPlace,
    /// What changed in the configuration in force.
    pub changes: Vec<String>,
}

/// What `eclusa up` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// There was no proxy that could run.
    Started,
    /// All was as asked.
    None,
    /// The configuration was changed under the running proxy.
    Reloaded,
    /// The container was made anew: for another binary, or for keys that need a restart.
    Replaced,
}

/// Where the audit log is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditPlace {
    /// The volume.
    pub volume: String,
    /// The volume's folder on the engine's host.
    pub mountpoint: Option<String>,
    /// The file in the volume.
    pub file: &'static str,
}

/// What `eclusa down` did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Down {
    /// What it removed, by kind and name.
    pub removed: Vec<String>,
    /// The volume of the audit log, which stays.
    pub kept: Option<String>,
}

//! What the launcher tells the proxy of a run, the same on both sides of the socket.

use std::{
    net::{IpAddr, Ipv4Addr},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::config;

/// How long a registration may hold: a launcher repeats its own well within a day.
const EXPIRY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);

/// The body of `PUT /v1/runs/{run}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The addresses that the run has for itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<IpAddr>,
    /// The proxy's address on the run's network: what our DNS answers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<Ipv4Addr>,
    /// Instead of both: whatever an idle slot of this pool has, which the answer tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Arc<str>>,
    /// Its profile; its own list alone holds where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Arc<str>>,
    /// Its own list, patterns as in a profile's `allow`.
    #[serde(default)]
    pub allow: Vec<String>,
    /// How long it holds unless it is repeated, 1 s to 24 h, written as the configuration writes
    /// times.
    #[serde(serialize_with = "show", deserialize_with = "read")]
    pub expires_in: Duration,
}

/// The body of `PUT /v1/slots/{slot}`, and what a run that claims one is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotRequest {
    /// Who may claim it: whoever names this pool.
    pub pool: Arc<str>,
    /// The addresses that its run will have for itself.
    pub sources: Vec<IpAddr>,
    /// The proxy's address on its network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<Ipv4Addr>,
}

/// A slot as `GET /v1/slots` lists it, and the answer of a `PUT` that claimed one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotLine {
    /// Its id.
    pub slot: String,
    /// The registered run that has it; none while it is idle.
    #[serde(default)]
    pub run: Option<String>,
    /// Whether that run's time is over.
    #[serde(default)]
    pub ended: bool,
    /// What it is.
    #[serde(flatten)]
    pub of: SlotRequest,
}

fn show<S: Serializer>(expires_in: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&config::show_duration(*expires_in))
}

fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    config::duration(&text, &EXPIRY)
        .map_err(|problem| D::Error::custom(format_args!("expires_in: {problem}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_writes_the_other_reads() {
        for expires_in in [Duration::from_secs(90), Duration::from_millis(1500)] {
            let request = RunRequest {
                sources: vec![IpAddr::from([10, 231, 0, 3])],
                listener: Some(Ipv4Addr::new(10, 231, 0, 2)),
                pool: None,
                profile: Some("default".into()),
                allow: vec!["api.example.com".to_owned()],
                expires_in,
            };
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<RunRequest>(&text).unwrap(), request);
        }
    }
}

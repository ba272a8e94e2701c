//! A line of the log as read back.

use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::{SCHEMA, encode};
use crate::destination::{Destination, Host, Scheme};

/// One event as it stands in the log. Codes stay text, and fields that are not known here are
/// passed over, so that a log with later additions can be read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "the fields are those that CONTRACTS lists")]
#[non_exhaustive]
pub struct Line {
    pub schema: u32,
    #[serde(deserialize_with = "timestamp")]
    pub ts: Timestamp,
    pub event: String,
    pub id: Option<String>,
    pub run: Option<String>,
    pub profile: Option<String>,
    pub client: Option<IpAddr>,
    pub via: Option<String>,
    pub method: Option<String>,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub path: Option<String>,
    pub target: Option<String>,
    pub decision: Option<String>,
    pub reason: Option<String>,
    pub rule: Option<String>,
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    pub status: Option<u16>,
    pub upstream: Option<SocketAddr>,
    pub sni: Option<String>,
    pub ech: Option<bool>,
    pub outcome: Option<String>,
    pub bytes_up: Option<u64>,
    pub bytes_down: Option<u64>,
    pub duration_ms: Option<u64>,
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub record_type: Option<String>,
    pub answer: Option<String>,
    pub count: Option<u64>,
    #[serde(default)]
    pub samples: Vec<String>,
    #[serde(default)]
    pub allow: Vec<String>,
    pub cut: Option<u64>,
    pub version: Option<String>,
    #[serde(default)]
    pub listeners: Vec<String>,
    pub generation: Option<u64>,
    pub applied: Option<bool>,
    #[serde(default)]
    pub changes: Vec<String>,
    pub since: Option<String>,
}

/// Why a line cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It is torn, or of another program.
    #[error("not a record")]
    Foreign(#[from] serde_json::Error),
    /// It was written by a version after this one.
    #[error("schema {0} is newer than this program")]
    Newer(u32),
}

impl Line {
    /// The time of a line of ours, read without the rest of it.
    pub fn time_of(line: &[u8]) -> Option<Timestamp> {
        encode::time(line)
    }

    /// Reads one line, with or without its newline.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        let line: Self = serde_json::from_slice(line)?;
        if line.schema > SCHEMA {
            return Err(LineError::Newer(line.schema));
        }
        Ok(line)
    }

    /// Where a `decision` wanted to go, spoken to as its road speaks: a CONNECT is a tunnel but to
    /// port 80, where plain HTTP is read inside. None where the proxy could read no destination.
    pub fn destination(&self) -> Option<Destination> {
        let host = Host::parse(self.host.as_deref()?).ok()?;
        let port = self.port?;
        let scheme = match self.via.as_deref()? {
            "http" | "host" => Scheme::Http,
            "connect" if port == 80 => Scheme::Http,
            "connect" | "sni" => Scheme::Https,
            _ => return None,
        };
        Some(Destination { scheme, host, port })
    }
}

fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_and_events_are_read_and_foreign_lines_are_not() {
        let line = Line::parse(
            br#"{"schema":1,"ts":"2026-01-02T03:04:05.678Z","event":"later","new":{"a":[1]}}"#,
        )
        .unwrap();
        assert_eq!((line.event.as_str(), line.run), ("later", None));
        for foreign in [
            "",
            "\n",
            "{",
            "null",
            "[]",
            r#"{"schema":1,"event":"close"}"#,
            r#"{"schema":1,"ts":"yesterday","event":"close"}"#,
            r#"{"schema":1,"ts":"2026-01-02T03:04:05.678Z","event":"close"}{"#,
        ] {
            let error = Line::parse(foreign.as_bytes()).unwrap_err();
            assert!(matches!(error, LineError::Foreign(_)), "{foreign}");
        }
    }

    #[test]
    fn a_destination_is_judged_by_the_way_that_its_road_speaks() {
        for (via, host, port, scheme) in [
            ("connect", "a.example", 443, Some(Scheme::Https)),
            ("connect", "a.example", 80, Some(Scheme::Http)),
            ("connect", "a.example", 8080, Some(Scheme::Https)),
            ("http", "a.example", 8080, Some(Scheme::Http)),
            ("host", "[2001:db8::1]", 80, Some(Scheme::Http)),
            ("sni", "a.example", 443, Some(Scheme::Https)),
            ("later", "a.example", 443, None),
            ("connect", "a b", 443, None),
        ] {
            let line = serde_json::json!({"schema": 1, "ts": "2026-01-02T03:04:05.678Z",
                "event": "decision", "via": via, "host": host, "port": port});
            let line = Line::parse(line.to_string().as_bytes()).unwrap();
            let expected = scheme.map(|scheme| Destination {
                scheme,
                host: Host::parse(host).unwrap(),
                port,
            });
            assert_eq!(line.destination(), expected, "{via} {host} {port}");
        }
    }

    #[test]
    fn a_later_schema_is_not_guessed_at() {
        let line = br#"{"schema":2,"ts":"2026-01-02T03:04:05.678Z","event":"close"}"#;
        let error = Line::parse(line).unwrap_err();
        assert_eq!(error.to_string(), "schema 2 is newer than this program");
    }
}

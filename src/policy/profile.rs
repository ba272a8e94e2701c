//! A profile as configured: lists of rules, before they are compiled into a `Policy`.

use std::sync::Arc;

use ipnet::IpNet;

use super::Pattern;

/// Whether refusals are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// What is not allowed is refused.
    #[default]
    Enforce,
    /// `not_allowlisted` and `port_not_allowed` are let through and recorded as `would_deny`.
    Report,
}

/// What happens to a ClientHello with Encrypted Client Hello (RFC 9849), whose visible name is
/// only the outer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EchMode {
    /// The tunnel is cut: `ech_refused`.
    #[default]
    Refuse,
    /// Let through when the outer name is the destination's; recorded either way.
    Allow,
}

/// A named set of rules.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The name under `[profiles]`; none for a run's own list.
    pub name: Option<Arc<str>>,
    /// Whether refusals are enforced.
    pub mode: Mode,
    /// What happens to Encrypted Client Hello.
    pub ech: EchMode,
    /// What is allowed: the `allow` list and the long-form rules.
    pub allow: Vec<Rule>,
    /// What is denied, whatever is allowed; `addresses` and `opaque` stay empty here.
    pub deny: Vec<Rule>,
}

/// One rule: a pattern and what it opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where it stands, e.g. `profiles.default.rules[0].hosts[1]`.
    pub place: Arc<str>,
    /// Which destinations.
    pub pattern: Pattern,
    /// Blocked ranges into which its hosts may resolve.
    pub addresses: Vec<IpNet>,
    /// Whether the tunnel need not be TLS.
    pub opaque: bool,
}

/// Two equally specific rules that cover a common destination and differ in what they grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{first} and {second} name the same host and port but differ in `addresses` or `opaque`")]
pub struct RuleConflict {
    /// Where the first stands.
    pub first: Arc<str>,
    /// Where the second stands.
    pub second: Arc<str>,
}

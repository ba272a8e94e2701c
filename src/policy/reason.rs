//! Why something was allowed or refused: one stable code for the agent, the record and the metric.

use std::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $code:literal,)+) => {
        /// A stable reason code (`CONTRACTS`, "Reason codes"); it never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum Reason {
            $($(#[doc = $doc])+ #[serde(rename = $code)] $variant,)+
        }

        impl Reason {
            /// Every reason, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The code as it stands in records, metrics and answers.
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$variant => $code,)+
                }
            }
        }
    };
}

reasons! {
    /// A rule allows it.
    Allowlisted = "allowlisted",
    /// No rule allows the host.
    NotAllowlisted = "not_allowlisted",
    /// A deny rule names it.
    DeniedByRule = "denied_by_rule",
    /// The host is allowed, this port of it is not.
    PortNotAllowed = "port_not_allowed",
    /// The method is never forwarded (TRACE), or not under this rule.
    MethodNotAllowed = "method_not_allowed",
    /// An IP literal that is not written out in the list.
    IpLiteral = "ip_literal",
    /// The name resolves to an address that no sandbox may reach.
    AddressBlocked = "address_blocked",
    /// The way leads back to this proxy.
    LoopDetected = "loop_detected",
    /// No run is registered for the source, and no client range holds it.
    UnknownClient = "unknown_client",
    /// The message is malformed or ambiguous.
    BadRequest = "bad_request",
    /// Host names another destination than the request target.
    HostMismatch = "host_mismatch",
    /// The head is over the limit.
    HeaderTooLarge = "header_too_large",
    /// More bytes up than the limit.
    BudgetExceeded = "budget_exceeded",
    /// More requests, queries or names than the rate allows.
    RateLimited = "rate_limited",
    /// Too many connections, of this client or in all.
    OverCapacity = "over_capacity",
    /// The decision cannot be recorded.
    AuditUnavailable = "audit_unavailable",
    /// The proxy is draining.
    ShuttingDown = "shutting_down",
    /// The name does not resolve.
    ResolveFailed = "resolve_failed",
    /// No answer from the resolver in time.
    ResolveTimeout = "resolve_timeout",
    /// No vetted address accepted a connection.
    ConnectFailed = "connect_failed",
    /// No vetted address answered in time.
    ConnectTimeout = "connect_timeout",
    /// The origin does not speak HTTP as it must.
    UpstreamError = "upstream_error",
    /// The ClientHello names another host.
    SniMismatch = "sni_mismatch",
    /// The ClientHello names no host.
    SniMissing = "sni_missing",
    /// The tunnel does not begin with a TLS ClientHello.
    NotTls = "not_tls",
    /// The ClientHello hides its name (RFC 9849).
    EchRefused = "ech_refused",
    /// A DNS query type that is never answered.
    QueryTypeRefused = "query_type_refused",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

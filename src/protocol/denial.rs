//! A refusal as the agent sees it: status, `Proxy-Status` (RFC 9209) and a problem document
//! (RFC 9457). It says what was refused and what to ask for, never the allowlist.

use std::time::Duration;

use crate::{
    destination::Destination,
    policy::Reason,
    record::{Id, RunId},
};

/// A refusal; it is recorded by whoever made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Why.
    pub reason: Reason,
    /// The id of its record.
    pub id: Id,
    /// The client's run.
    pub run: Option<RunId>,
    /// Where the request wanted to go, where that could be read.
    pub destination: Option<Destination>,
    /// What is wrong, beyond the reason: for malformed requests and failures. A fragment without
    /// a full stop, made of our own words.
    pub detail: Option<String>,
    /// For `rate_limited`: when to try again.
    pub retry_after: Option<Duration>,
    /// For `connect_failed`: no way leads to the destination, so that it refused nothing.
    pub is_unroutable: bool,
}

impl Denial {
    /// The HTTP status of `reason`; none where the connection is cut without one.
    pub fn status_of(reason: Reason) -> Option<u16> {
        row_of(reason).map(|row| row.status)
    }

    /// The whole HTTP/1.1 response, which says `Connection: close`; to HEAD without its body. It
    /// is empty where the connection is cut without one.
    ///
    /// The reason phrase carries the code too: of a refused CONNECT, many clients show their user
    /// the phrase and nothing else.
    pub fn to_response(&self, method: &str) -> Vec<u8> {
        let Some(row) = self.row() else {
            return Vec::new();
        };
        let (phrase, title) = phrase_and_title(row.status);
        let (code, body) = (self.reason.code(), self.document(row, title));
        let mut head = format!(
            "HTTP/1.1 {} {phrase} ({code})\r\n\
             Connection: close\r\n\
             Content-Type: application/problem+json\r\n\
             Content-Length: {}\r\n\
             Cache-Control: no-store\r\n\
             Proxy-Status: eclusa; error={}; details=\"{code}\"\r\n",
            row.status,
            body.len(),
            row.error,
        );
        if row.status == 405 {
            // RFC 9110 section 15.5.6: a 405 names what is allowed.
            head.push_str("Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n");
        }
        if let Some(seconds) = self.retry_after_seconds() {
            head.push_str("Retry-After: ");
            head.push_str(&seconds.to_string());
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        if method != "HEAD" {
            head.push_str(&body);
        }
        head.into_bytes()
    }

    fn row(&self) -> Option<&'static Row> {
        if self.is_unroutable && self.reason == UNROUTABLE.reason {
            return Some(&UNROUTABLE);
        }
        row_of(self.reason)
    }

    fn document(&self, row: &Row, title: &'static str) -> String {
        let problem = Problem {
            kind: "about:blank",
            title,
            status: row.status,
            reason: self.reason,
            host: self.destination.as_ref().map(|d| d.host.to_string()),
            port: self.destination.as_ref().map(|d| d.port),
            id: self.id.to_string(),
            run: self.run.as_ref().map(RunId::as_str),
            detail: self.explanation(row),
        };
        // It cannot fail: there are no maps, and every key is a string.
        serde_json::to_string(&problem).unwrap_or_default()
    }

    /// What was refused, what exactly is wrong, what to do.
    fn explanation(&self, row: &Row) -> String {
        let fill = |template: &str| match &self.destination {
            Some(destination) => template
                .replace("{host}", &destination.host.to_string())
                .replace("{target}", &destination.to_string()),
            None => template
                .replace("{host}", "the destination")
                .replace("{target}", "the destination"),
        };
        let (what, advice) = (fill(row.what), fill(row.advice));
        match &self.detail {
            Some(detail) => format!("{what}: {detail}. {advice}"),
            None => format!("{what}. {advice}"),
        }
    }

    /// Whole seconds, rounded up, at least one; always there on 429.
    fn retry_after_seconds(&self) -> Option<u64> {
        let wait = match (self.retry_after, self.reason) {
            (None, Reason::RateLimited) => Duration::ZERO,
            (wait, _) => wait?,
        };
        let started = u64::from(wait.subsec_nanos() > 0);
        Some(wait.as_secs().saturating_add(started).max(1))
    }
}

/// The problem document, in the order in which it is written.
#[derive(serde::Serialize)]
struct Problem<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    reason: Reason,
    host: Option<String>,
    port: Option<u16>,
    id: String,
    run: Option<&'a str>,
    detail: String,
}

/// How one reason is told.
struct Row {
    reason: Reason,
    status: u16,
    /// A proxy error type (RFC 9209 section 2.3).
    error: &'static str,
    /// What happened, with `{host}` and `{target}`, without its full stop.
    what: &'static str,
    /// What to do about it.
    advice: &'static str,
}

const fn row(
    reason: Reason,
    status: u16,
    error: &'static str,
    what: &'static str,
    advice: &'static str,
) -> Row {
    Row {
        reason,
        status,
        error,
        what,
        advice,
    }
}

/// Every reason that is answered in HTTP. A reason without a row is never answered: the connection
/// is cut.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(Reason::NotAllowlisted, 403, "http_request_denied",
        "{host} is not on this sandbox's allowlist",
        "Retrying will not help; ask the operator to allow {target}."),
    row(Reason::DeniedByRule, 403, "http_request_denied",
        "{host} is denied by a rule",
        "Retrying will not help; only the operator can change that rule."),
    row(Reason::PortNotAllowed, 403, "http_request_denied",
        "{host} is on this sandbox's allowlist, but {target} is not",
        "Retrying will not help; ask the operator to allow {target}."),
    row(Reason::IpLiteral, 403, "http_request_denied",
        "{host} is an address, not a name, and is not on this sandbox's allowlist",
        "Retrying will not help; use the name of the host, or ask the operator to allow {target}."),
    row(Reason::UnknownClient, 403, "http_request_denied",
        "The proxy does not know this client",
        "Retrying will not help; ask the operator to register it."),
    row(Reason::MethodNotAllowed, 405, "http_request_denied",
        "This method is not forwarded",
        "Retrying will not help; use another method."),
    row(Reason::AddressBlocked, 403, "destination_ip_prohibited",
        "{host} leads to an address that no sandbox may reach (private, local or reserved)",
        "Retrying will not help; if it is meant to be reached, ask the operator for an address exception for {host}."),
    row(Reason::LoopDetected, 403, "destination_ip_prohibited",
        "The way to {target} leads back to this proxy",
        "Retrying will not help; address the destination itself."),
    row(Reason::BadRequest, 400, "http_request_error",
        "The request is malformed or could be read in two ways",
        "Retrying will not help; send it in its plain form."),
    row(Reason::HostMismatch, 400, "http_request_error",
        "The Host field names another destination than the request",
        "Retrying will not help; let both name the same host and port."),
    row(Reason::HeaderTooLarge, 431, "http_request_error",
        "The head of the request is too large",
        "Retrying will not help; send fewer or shorter fields."),
    row(Reason::BudgetExceeded, 413, "http_request_denied",
        "The upload is larger than this sandbox may send",
        "Retrying will not help; send less, or ask the operator to raise the limit."),
    row(Reason::RateLimited, 429, "http_request_denied",
        "This sandbox asks more often than it may",
        "Wait as long as Retry-After says, then go on more slowly."),
    row(Reason::OverCapacity, 503, "proxy_internal_response",
        "Too many connections are open, of this sandbox or in all",
        "Close some, then retry."),
    row(Reason::AuditUnavailable, 503, "proxy_internal_response",
        "The proxy cannot write its record, and lets nothing through unrecorded",
        "Retry later; the operator must look at the audit log."),
    row(Reason::ShuttingDown, 503, "proxy_internal_response",
        "The proxy is stopping",
        "Retry later."),
    row(Reason::ResolveFailed, 502, "dns_error",
        "{host} is allowed, but does not resolve",
        "Check the name; if it is right, retry later."),
    row(Reason::ResolveTimeout, 504, "dns_timeout",
        "{host} is allowed, but no resolver answered in time",
        "Retry later."),
    row(Reason::ConnectFailed, 502, "connection_refused",
        "{target} is allowed, but accepts no connection",
        "Check the port; if it is right, retry later."),
    row(Reason::ConnectTimeout, 504, "connection_timeout",
        "{target} is allowed, but did not answer in time",
        "Retry later."),
    row(Reason::UpstreamError, 502, "http_protocol_error",
        "{target} is allowed, but its answer is not acceptable HTTP",
        "Retry later; if it stays so, whoever runs {host} must mend it."),
];

/// `connect_failed` where no way leads to the destination.
#[rustfmt::skip]
static UNROUTABLE: Row =
    row(Reason::ConnectFailed, 502, UNROUTABLE_ERROR,
        "{target} is allowed, but cannot be reached from here",
        "Retry later; if it stays so, ask the operator whether the proxy's network leads there.");

/// The proxy error type of a destination to which no way leads.
pub const UNROUTABLE_ERROR: &str = "destination_ip_unroutable";

fn row_of(reason: Reason) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.reason == reason)
}

/// The reason phrase and the document's title.
fn phrase_and_title(status: u16) -> (&'static str, &'static str) {
    match status {
        400 => ("Bad Request", "Malformed request"),
        405 => ("Method Not Allowed", "Egress denied"),
        413 => ("Content Too Large", "Limit reached"),
        429 => ("Too Many Requests", "Limit reached"),
        431 => ("Request Header Fields Too Large", "Malformed request"),
        502 => ("Bad Gateway", "Destination failed"),
        503 => ("Service Unavailable", "Proxy unavailable"),
        504 => ("Gateway Timeout", "Destination failed"),
        _ => ("Forbidden", "Egress denied"),
    }
}

#[cfg(test)]
mod tests;

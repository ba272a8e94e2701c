//! Dials a `Permit`: the only place that opens a connection for a sandbox.

use tokio::net::TcpStream;

use super::Permit;
use crate::policy::Reason;

/// Why no vetted address could be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Every vetted address refused or was unreachable.
    #[error("no address of {destination} accepted a connection: {last}")]
    Failed {
        /// The destination.
        destination: String,
        /// What the last attempt said.
        last: std::io::Error,
    },
    /// `limits.connect_timeout` was over.
    #[error("no address of {destination} answered within {limit:?}")]
    Timeout {
        /// The destination.
        destination: String,
        /// The budget of all attempts together.
        limit: std::time::Duration,
    },
}

impl ConnectError {
    /// `connect_failed` or `connect_timeout`.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Failed { .. } => Reason::ConnectFailed,
            Self::Timeout { .. } => Reason::ConnectTimeout,
        }
    }
}

/// Connects to one of the permit's vetted addresses, racing them as RFC 8305 (happy eyeballs)
/// says, and notes the one that won.
pub async fn connect(permit: &Permit) -> Result<TcpStream, ConnectError> {
    let _ = permit;
    todo!()
}

//! Dials a `Permit`: the only place that opens a connection for a sandbox.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use tokio::{
    net::{TcpSocket, TcpStream},
    sync::{Semaphore, SemaphorePermit},
    time::{self, Instant},
};

use super::{Permit, is_exhausted};
use crate::policy::Reason;

/// RFC 8305 section 5: how long an attempt goes on alone.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// How many addresses of one answer are tried, and how many at a time: an answer may be the
/// attacker's own, and every attempt holds a descriptor.
const MOST_TRIED: usize = 8;
const MOST_AT_ONCE: usize = 4;

/// Attempts beyond the first of their exchange, in the whole process; where none is left, an
/// exchange waits for its own attempt to fail.
pub const FURTHER_ATTEMPTS: usize = 256;
static FURTHER: Semaphore = Semaphore::const_new(FURTHER_ATTEMPTS);

/// Why no vetted address could be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Every vetted address refused or was unreachable.
    #[error("no address of {destination} accepted a connection: {last}")]
    Failed {
        /// The destination.
        destination: String,
        /// What an address that answered said, else what the last attempt said.
        last: io::Error,
    },
    /// `limits.connect_timeout` was over.
    #[error("no address of {destination} answered within {limit:?}")]
    Timeout {
        /// The destination.
        destination: String,
        /// The budget of all attempts together.
        limit: Duration,
    },
}

impl ConnectError {
    /// `connect_failed` or `connect_timeout`; `over_capacity` where this process has no descriptor
    /// left, which says nothing of the destination.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Failed { last, .. } if is_exhausted(last) => Reason::OverCapacity,
            Self::Failed { .. } => Reason::ConnectFailed,
            Self::Timeout { .. } => Reason::ConnectTimeout,
        }
    }

    /// The `Proxy-Status` error type (RFC 9209 section 2.3).
    pub fn proxy_status_error(&self) -> &'static str {
        match self {
            Self::Failed { last, .. } if is_exhausted(last) => "proxy_internal_response",
            Self::Failed { last, .. } if has_answered(last) => "connection_refused",
            Self::Failed { .. } => "destination_ip_unroutable",
            Self::Timeout { .. } => "connection_timeout",
        }
    }
}

/// Connects to one of the permit's vetted addresses, racing them as RFC 8305 (happy eyeballs)
/// says, and notes the one that won. Nothing is looked up, and attempts that lost are closed, also
/// when this is cancelled.
pub async fn connect(permit: &Permit) -> Result<TcpStream, ConnectError> {
    let limit = permit.limits().connect_timeout;
    let destination = || permit.destination().to_string();
    let stream = race(permit.addresses().as_slice(), limit, dial)
        .await
        .map_err(|error| match error {
            RaceError::Failed(last) => ConnectError::Failed {
                destination: destination(),
                last,
            },
            RaceError::Timeout => ConnectError::Timeout {
                destination: destination(),
                limit,
            },
        })?;
    // Security: what is connected is one of the addresses that were vetted, and no other.
    match stream.peer_addr() {
        Ok(peer) if permit.addresses().contains(peer) => {
            permit.note_upstream(peer);
            Ok(stream)
        }
        other => Err(ConnectError::Failed {
            destination: destination(),
            last: other.map_or_else(
                |error| error,
                |peer| io::Error::other(format!("{peer} is not a vetted address")),
            ),
        }),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that dials; the addresses were vetted"
)]
async fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    settle(socket.connect(address).await?, address)
}

/// Makes a new connection to `address` ready for use.
fn settle(stream: TcpStream, address: SocketAddr) -> io::Result<TcpStream> {
    // Security: a connect to a port of this host at which nobody listens can meet itself (the
    // simultaneous open of RFC 9293 section 3.5); then there is no origin.
    if stream.local_addr()? == address {
        let what = "the connection met itself";
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, what));
    }
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[derive(Debug)]
enum RaceError {
    /// Every address failed.
    Failed(io::Error),
    /// The limit was over.
    Timeout,
}

/// Dials `addresses` in RFC 8305 order, a further one whenever the newest attempt has failed or
/// has gone on for `ATTEMPT_DELAY`, until one succeeds, `MOST_TRIED` have failed, or `limit` is
/// over.
async fn race<T, F, A>(addresses: &[SocketAddr], limit: Duration, dial: F) -> Result<T, RaceError>
where
    F: Fn(SocketAddr) -> A,
    A: Future<Output = io::Result<T>> + Send,
{
    let deadline = Instant::now() + limit;
    let mut waiting = interleave(addresses);
    waiting.truncate(MOST_TRIED);
    let mut attempts = Attempts(Vec::new());
    let mut failure = None;
    while let Some(&address) = waiting.front() {
        let begun = attempts.place().map(|place| {
            attempts.0.push((Box::pin(dial(address)), place));
            waiting.pop_front();
        });
        // The last attempt has all the time that is left, and so have those that block the next.
        let until = if waiting.is_empty() || begun.is_none() {
            deadline
        } else {
            deadline.min(Instant::now() + ATTEMPT_DELAY)
        };
        let all = waiting.is_empty();
        match attempts.first_success(until, all, &mut failure).await {
            Some(connection) => return Ok(connection),
            None if Instant::now() >= deadline => return Err(RaceError::Timeout),
            None => {}
        }
    }
    Err(failure.map_or(RaceError::Timeout, RaceError::Failed))
}

/// Connection attempts under way; dropping them ends them.
struct Attempts<A>(Vec<(Pin<Box<A>>, Place)>);

/// A place among the attempts of the process; the first attempt of an exchange needs none.
type Place = Option<SemaphorePermit<'static>>;

impl<T, A: Future<Output = io::Result<T>>> Attempts<A> {
    /// A place for one more attempt, if there is one.
    fn place(&self) -> Option<Place> {
        match self.0.len() {
            0 => Some(None),
            1..MOST_AT_ONCE => FURTHER.try_acquire().ok().map(Some),
            _ => None,
        }
    }

    /// Waits for a connection until `until`. Gives up sooner once an attempt fails, or when `all`
    /// is set once all have failed, and notes in `failure` what they said.
    async fn first_success(
        &mut self,
        until: Instant,
        all: bool,
        failure: &mut Option<io::Error>,
    ) -> Option<T> {
        let mut timer = pin!(time::sleep_until(until));
        loop {
            let ended = tokio::select! {
                biased;
                ended = self.next() => ended?,
                () = timer.as_mut() => return None,
            };
            match ended {
                Ok(connection) => return Some(connection),
                Err(error) => {
                    note(failure, error);
                    if !all {
                        return None;
                    }
                }
            }
        }
    }

    /// What the next attempt to end came to; none when none is under way.
    async fn next(&mut self) -> Option<A::Output> {
        poll_fn(|context| {
            for (at, (attempt, _)) in self.0.iter_mut().enumerate() {
                if let Poll::Ready(output) = attempt.as_mut().poll(context) {
                    drop(self.0.swap_remove(at));
                    return Poll::Ready(Some(output));
                }
            }
            if self.0.is_empty() {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        })
        .await
    }
}

/// Keeps the error that says most: an address that answered says more than one without a route.
fn note(failure: &mut Option<io::Error>, error: io::Error) {
    if !failure.as_ref().is_some_and(has_answered) {
        *failure = Some(error);
    }
}

fn has_answered(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
    )
}

/// RFC 8305 section 4: families take turns, IPv6 first; within one the order of the answer stays.
fn interleave(addresses: &[SocketAddr]) -> VecDeque<SocketAddr> {
    let mut ipv6 = addresses.iter().filter(|address| address.is_ipv6());
    let mut ipv4 = addresses.iter().filter(|address| address.is_ipv4());
    let mut order = VecDeque::with_capacity(addresses.len());
    while order.len() < addresses.len() {
        order.extend(ipv6.next());
        order.extend(ipv4.next());
    }
    order
}

#[cfg(test)]
mod tests;

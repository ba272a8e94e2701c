//! Copies both ways until both sides are done, something ends the exchange, or nothing flows.

use std::{
    future::poll_fn,
    io::ErrorKind,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::{
    io::AsyncWriteExt,
    net::tcp::{ReadHalf, WriteHalf},
    task::yield_now,
};

use super::{
    Permit,
    activity::Activity,
    peer::{Peer, Received},
    permit::BudgetExceeded,
    splice::Pipe,
};
use crate::{policy::Reason, record::Outcome};

/// What counts as bulk, in bytes received at once: from here on moving is cheaper than copying.
const BULK: usize = 32 * 1024;

/// So many receipts of bulk begin moving, and so many small ones end it.
const TURNS: u32 = 4;

/// A small receipt, in bytes.
const SMALL: usize = 4 * 1024;

/// How many bytes are moved before others have their turn: where both ends keep up, moving never
/// waits, and would hold the thread of whoever waits behind it.
const TURN: usize = 1024 * 1024;

/// Two connections that may be joined, and what allows it.
#[derive(Debug)]
pub struct Tunnel {
    /// The client.
    pub client: Peer,
    /// The origin.
    pub upstream: Peer,
    /// The exchange, which ends with the tunnel.
    pub permit: Permit,
}

/// Relays between client and origin and closes the permit. Each direction's end is passed on as a
/// half-close; what was received before goes first. Bytes are counted before they are sent on.
pub async fn relay(mut tunnel: Box<Tunnel>) {
    let activity = Activity::new();
    let Tunnel {
        client,
        upstream,
        permit,
    } = &mut *tunnel;
    let permit = &*permit;
    let copying = copy(
        (client, upstream),
        &activity,
        |bytes| permit.add_up(bytes),
        |bytes| permit.add_down(bytes),
    );
    let outcome = tokio::select! {
        // In this order: a busy tunnel uses up its turn, and the clocks would never have theirs.
        biased;
        outcome = permit.ended_or_idle(&activity) => outcome,
        outcome = copying => outcome,
    };
    end(*tunnel, outcome);
}

fn end(tunnel: Tunnel, outcome: Outcome) {
    let Tunnel {
        client,
        upstream,
        permit,
    } = tunnel;
    let ended_by_peers = match outcome {
        // What a peer sent before it went away is still delivered.
        Outcome::Done | Outcome::ClientClosed | Outcome::UpstreamClosed => true,
        Outcome::Refused
        | Outcome::Idle
        | Outcome::Lifetime
        | Outcome::Budget
        | Outcome::PolicyChanged
        | Outcome::RunEnded
        | Outcome::Shutdown
        | Outcome::Error
        | Outcome::Crash => false,
    };
    if !ended_by_peers {
        client.abort();
        upstream.abort();
    }
    if outcome == Outcome::Budget {
        // The client was told 200 long ago, so there is no one to give the denial to.
        drop(permit.fail(outcome, Reason::BudgetExceeded, None));
    } else {
        permit.finish(outcome);
    }
}

/// Copies both ways until both directions ended or one broke.
async fn copy(
    (client, upstream): (&mut Peer, &mut Peer),
    activity: &Activity,
    count_up: impl Fn(u64) -> Result<(), BudgetExceeded>,
    count_down: impl Fn(u64),
) -> Outcome {
    let (client_read, client_received, client_write) = client.split();
    let (upstream_read, upstream_received, upstream_write) = upstream.split();
    let one_ended = &AtomicBool::new(false);
    let up = Flow {
        from: client_read,
        received: client_received,
        to: upstream_write,
        activity,
        one_ended,
    };
    let down = Flow {
        from: upstream_read,
        received: upstream_received,
        to: client_write,
        activity,
        one_ended,
    };
    let up = async {
        let copied = up.run(count_up).await;
        copied.map_err(|broken| match broken {
            Broken::Source => Outcome::ClientClosed,
            Broken::Sink => Outcome::UpstreamClosed,
            Broken::Budget => Outcome::Budget,
        })
    };
    let down = async {
        let counted = |bytes| {
            count_down(bytes);
            Ok(())
        };
        let copied = down.run(counted).await;
        copied.map_err(|broken| match broken {
            Broken::Source => Outcome::UpstreamClosed,
            Broken::Sink => Outcome::ClientClosed,
            Broken::Budget => Outcome::Budget,
        })
    };
    match tokio::try_join!(up, down) {
        Ok(((), ())) => Outcome::Done,
        Err(outcome) => outcome,
    }
}

/// One direction.
struct Flow<'a> {
    from: ReadHalf<'a>,
    received: &'a mut Received,
    to: WriteHalf<'a>,
    activity: &'a Activity,
    /// Set by the direction that ends first.
    one_ended: &'a AtomicBool,
}

/// Why a direction ended before its end.
#[derive(Debug, PartialEq, Eq)]
enum Broken {
    Source,
    Sink,
    Budget,
}

impl From<BudgetExceeded> for Broken {
    fn from(_: BudgetExceeded) -> Self {
        Self::Budget
    }
}

impl Flow<'_> {
    /// Copies to the end of the stream and passes it on; bulk is moved inside the kernel.
    async fn run(
        mut self,
        count: impl Fn(u64) -> Result<(), BudgetExceeded>,
    ) -> Result<(), Broken> {
        let mut bulk = 0;
        loop {
            if self.received.is_empty() {
                if bulk >= TURNS {
                    // On the heap: few tunnels carry bulk, and all of them have this task.
                    match Box::pin(self.splice(&count)).await? {
                        Moved::ToTheEnd => break,
                        Moved::ForNow => bulk = 0,
                    }
                }
                let received = self.received.fill(&mut self.from).await;
                if received.map_err(|_| Broken::Source)? == 0 {
                    break;
                }
            }
            self.activity.touch();
            let mut bytes = self.received.unread();
            let length = bytes.len();
            bulk = if length >= BULK { bulk + 1 } else { 0 };
            // Security: counted first; of what is over the budget nothing is sent.
            count(u64::try_from(length).unwrap_or(u64::MAX))?;
            while !bytes.is_empty() {
                let sent = self.to.write(bytes).await.map_err(|_| Broken::Sink)?;
                self.activity.touch();
                bytes = bytes.get(sent..).unwrap_or_default();
            }
            self.received.consume(length);
        }
        self.activity.touch();
        if self.one_ended.swap(true, Ordering::Relaxed) {
            // Both connections are closed next, which says the same.
            return Ok(());
        }
        self.to.shutdown().await.map_err(|_| Broken::Sink)
    }

    /// Moves what comes without looking at it, for as long as it comes in bulk.
    async fn splice(
        &mut self,
        count: &impl Fn(u64) -> Result<(), BudgetExceeded>,
    ) -> Result<Moved, Broken> {
        let (from, to) = (self.from.as_ref(), self.to.as_ref());
        let (mut small, mut turn) = (0, 0);
        while small < TURNS {
            // No pipe is taken before there is something to read.
            let readable = poll_fn(|cx| from.poll_read_ready(cx)).await;
            readable.map_err(|_| Broken::Source)?;
            let Some(mut pipe) = Pipe::borrow() else {
                return Ok(Moved::ForNow);
            };
            let taken = match pipe.fill(from) {
                Ok(0) => return Ok(Moved::ToTheEnd),
                Ok(taken) => taken,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(Moved::ForNow),
                Err(_) => return Err(Broken::Source),
            };
            self.activity.touch();
            // Security: counted first; of what is over the budget nothing is sent.
            count(u64::try_from(taken).unwrap_or(u64::MAX))?;
            let drained = pipe.drain(to, || self.activity.touch()).await;
            drained.map_err(|_| Broken::Sink)?;
            small = if taken < SMALL { small + 1 } else { 0 };
            turn += taken;
            if turn >= TURN {
                turn = 0;
                yield_now().await;
            }
        }
        Ok(Moved::ForNow)
    }
}

/// How far a direction was moved.
enum Moved {
    /// It is at its end.
    ToTheEnd,
    /// What comes now is better copied.
    ForNow,
}

#[cfg(test)]
mod tests;

//! One request and its response between two connections: both are framed anew, and flow at the
//! same time, because origins answer early.

mod ended;

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::{
    io::AsyncWriteExt,
    net::tcp::{ReadHalf, WriteHalf},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use self::ended::Stop;
pub(super) use self::ended::{Failed, Finished};
use super::{
    body::{self, Broken, Incoming, Outgoing},
    client_watch,
    head::{self, NoHead},
};
use crate::{
    egress::{Activity, BudgetExceeded, Peer, Permit, Received},
    policy::Reason,
    protocol::{
        Framing, RequestHead, ResponseHead, Version,
        forwarding::{self, Then},
    },
    record::Outcome,
};

/// The most interim responses (1xx) before one response.
const MOST_INTERIM: usize = 16;

/// A request that is being forwarded.
pub(super) struct Exchange<'a> {
    judged: Judged<'a>,
    stopping: &'a CancellationToken,
    activity: Activity,
    /// The whole request is on its way to the origin.
    sent: AtomicBool,
    /// The origin has answered something.
    heard: AtomicBool,
    /// The client is being told the origin's response: it is too late for a denial.
    told: AtomicBool,
}

/// A request and what judged it.
#[derive(Clone, Copy)]
pub(super) struct Judged<'a> {
    pub(super) head: &'a RequestHead,
    pub(super) framing: Framing,
    pub(super) permit: &'a Permit,
    /// From when on the client's connection takes no other request.
    pub(super) closes_at: Instant,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(judged: Judged<'a>, stopping: &'a CancellationToken) -> Self {
        Self {
            judged,
            stopping,
            activity: Activity::new(),
            sent: AtomicBool::new(false),
            heard: AtomicBool::new(false),
            told: AtomicBool::new(false),
        }
    }

    /// Forwards the request, with `sent_head` as the origin gets it, and its response.
    pub(super) async fn run(
        &self,
        sent_head: Vec<u8>,
        client: &mut Peer,
        upstream: &mut Peer,
    ) -> Result<Finished, Failed> {
        let (client_read, client_received, client_write) = client.split();
        let (upstream_read, upstream_received, upstream_write) = upstream.split();
        let incoming = Incoming {
            from: client_read,
            received: client_received,
            framing: self.judged.framing,
        };
        let flowing = async {
            tokio::select! {
                stop = self.send(sent_head, incoming, upstream_write) => Err(stop),
                done = self.receive(upstream_read, upstream_received, client_write) => done,
            }
        };
        let ended = tokio::select! {
            // In this order: a busy exchange uses up its turn, and the clocks would never have
            // theirs.
            biased;
            outcome = self.judged.permit.ended_or_idle(&self.activity) => Err(match outcome {
                Outcome::Idle => self.idle(),
                outcome => Stop::quietly(outcome),
            }),
            ended = flowing => ended,
        };
        ended.map_err(|stop| Failed {
            outcome: stop.outcome,
            reason: stop.reason,
            detail: stop.detail,
            told: self.told.load(Ordering::Relaxed),
            unheard: stop.unheard,
        })
    }

    /// Sends the request, then watches the client. It comes back only with a failure: the end of
    /// an exchange is the end of its response.
    async fn send(&self, head: Vec<u8>, mut incoming: Incoming<'_>, to: WriteHalf<'_>) -> Stop {
        if self.count_up(head.len()).is_err() {
            return Stop::because(Outcome::Budget, Reason::BudgetExceeded, OVER_BUDGET);
        }
        let mut outgoing = Outgoing::new(to, head, self.judged.framing, &self.activity);
        let sent = body::stream(&mut incoming, &mut outgoing, |length| self.count_up(length));
        match sent.await {
            Ok(()) => self.sent.store(true, Ordering::Relaxed),
            // The origin may have answered before it closed: the response decides.
            Err(Broken::Sink) => {}
            Err(Broken::Truncated) => return Stop::quietly(Outcome::ClientClosed),
            Err(Broken::Malformed(error)) => {
                return Stop::because(Outcome::Refused, error.reason(), error.to_string());
            }
            Err(Broken::Budget) => {
                return Stop::because(Outcome::Budget, Reason::BudgetExceeded, OVER_BUDGET);
            }
        }
        client_watch::gone(&mut incoming.from).await;
        Stop::quietly(Outcome::ClientClosed)
    }

    /// Receives the response and passes it to the client.
    async fn receive(
        &self,
        mut from: ReadHalf<'_>,
        received: &mut Received,
        mut to: WriteHalf<'_>,
    ) -> Result<Finished, Stop> {
        let head = self.final_head(&mut from, received, &mut to).await?;
        let framing = Framing::of_response(&head, &self.judged.head.method)
            .map_err(|error| Stop::upstream(error.to_string()))?;
        let framed = framing.towards(self.judged.head.version);
        let then = self.then(&head, framed);
        let bytes = forwarding::response_head(&head, framed, then);
        self.told.store(true, Ordering::Relaxed);
        self.judged.permit.note_status(head.status);
        let leaves_reusable = framing != Framing::UntilClose && self.leaves_reusable(&head);
        // The body may take long, and its head is on its way.
        drop(head);
        let mut outgoing = Outgoing::new(to, bytes, framed, &self.activity);
        let mut incoming = Incoming {
            from,
            received,
            framing,
        };
        let passed = body::stream(&mut incoming, &mut outgoing, |length| {
            self.count_down(length);
            Ok(())
        });
        match passed.await {
            Ok(()) => Ok(Finished {
                client: then,
                upstream_is_reusable: leaves_reusable
                    && then != Then::WebSocket
                    && received.is_empty()
                    && self.sent.load(Ordering::Relaxed),
            }),
            Err(Broken::Sink | Broken::Budget) => Err(Stop::quietly(Outcome::ClientClosed)),
            Err(Broken::Truncated) => Err(Stop {
                outcome: Outcome::UpstreamClosed,
                ..Stop::upstream("the origin closed within the response")
            }),
            Err(Broken::Malformed(error)) => Err(Stop {
                outcome: Outcome::Error,
                ..Stop::upstream(error.to_string())
            }),
        }
    }

    /// The first response that is not interim; interim ones are passed on.
    async fn final_head(
        &self,
        from: &mut ReadHalf<'_>,
        received: &mut Received,
        to: &mut WriteHalf<'_>,
    ) -> Result<ResponseHead, Stop> {
        for _ in 0..=MOST_INTERIM {
            let head = self.response_head(from, received).await?;
            forwarding::check_response(&head, self.judged.head)
                .map_err(|error| Stop::upstream(error.to_string()))?;
            if !head.is_interim() {
                return Ok(head);
            }
            // RFC 9110 section 15.2: a client of HTTP/1.0 does not know them.
            if self.judged.head.version == Version::Http11 {
                let bytes = forwarding::response_head(&head, Framing::Empty, Then::KeepAlive);
                // Security: behind the half of one, a denial would be read as its fields.
                self.told.store(true, Ordering::Relaxed);
                to.write_all(&bytes)
                    .await
                    .map_err(|_| Stop::quietly(Outcome::ClientClosed))?;
                self.told.store(false, Ordering::Relaxed);
            }
        }
        Err(Stop::upstream("the origin sent too many interim responses"))
    }

    async fn response_head(
        &self,
        from: &mut ReadHalf<'_>,
        received: &mut Received,
    ) -> Result<ResponseHead, Stop> {
        let limit = self.judged.permit.limits().max_header_bytes;
        let touched = || {
            self.heard.store(true, Ordering::Relaxed);
            self.activity.touch();
        };
        match head::receive(from, received, limit, ResponseHead::parse, touched).await {
            Ok((head, length)) => {
                self.count_down(length);
                Ok(head)
            }
            Err(NoHead::Invalid(error)) => Err(Stop::upstream(error.to_string())),
            Err(NoHead::Ended) => Err(Stop {
                unheard: !self.heard.load(Ordering::Relaxed),
                ..Stop::upstream("the origin closed the connection without a response")
            }),
        }
    }

    /// Whether the heads allow another request on the origin's connection.
    ///
    /// Security: one that is logged in would serve the next request as that user.
    fn leaves_reusable(&self, head: &ResponseHead) -> bool {
        let asked = &self.judged.head.fields;
        !head.wants_close()
            && !forwarding::logs_in_connection(asked, "authorization")
            && !forwarding::logs_in_connection(&head.fields, "www-authenticate")
    }

    /// What becomes of the client's connection, as its response says.
    fn then(&self, head: &ResponseHead, framed: Framing) -> Then {
        let closes = self.judged.head.wants_close()
            || framed == Framing::UntilClose
            // What is left of the request will not be read: the origin has decided without it.
            || !self.sent.load(Ordering::Relaxed)
            || self.stopping.is_cancelled()
            || Instant::now() >= self.judged.closes_at;
        if head.status == 101 {
            Then::WebSocket
        } else if closes {
            Then::Close
        } else {
            Then::KeepAlive
        }
    }

    fn idle(&self) -> Stop {
        if self.sent.load(Ordering::Relaxed) {
            let detail = "the origin sent nothing for too long";
            Stop::because(Outcome::Idle, Reason::UpstreamError, detail)
        } else {
            let detail = "the request body did not arrive in time";
            Stop::because(Outcome::Idle, Reason::BadRequest, detail)
        }
    }

    fn count_up(&self, length: usize) -> Result<(), BudgetExceeded> {
        self.activity.touch();
        self.judged
            .permit
            .add_up(u64::try_from(length).unwrap_or(u64::MAX))
    }

    fn count_down(&self, length: usize) {
        self.activity.touch();
        self.judged
            .permit
            .add_down(u64::try_from(length).unwrap_or(u64::MAX));
    }
}

/// What the client is told of a spent budget.
pub(super) const OVER_BUDGET: &str = "more bytes than one connection may send";

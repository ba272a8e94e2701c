//! One client connection: its heads in, its refusals out.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::{
    Proxy,
    head::{self, NoHead},
    linger, target,
};
use crate::{
    egress::{Connection, Peer},
    policy::Reason,
    protocol::{Denial, RequestHead},
    record::{Asked, Via},
};

/// A client connection that was admitted.
pub(super) struct Session {
    pub(super) proxy: Arc<Proxy>,
    pub(super) connection: Arc<Connection>,
    pub(super) client: Peer,
    /// The road of its requests: `Http` on the proxy port, else `Host` or `Sni`.
    pub(super) via: Via,
    /// When `limits.lifetime` of the connection is over: no request begins after that.
    pub(super) closes_at: Instant,
}

/// How long to wait for a head.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    /// The head must be whole at this moment.
    Until(Instant),
    /// The first byte within `limits.idle_timeout`, the rest within `limits.header_timeout`.
    NextRequest,
}

impl Session {
    /// Receives the next request head. None ends the connection: it was refused, answered and
    /// recorded, or it ended where it may end.
    pub(super) async fn next_head(mut self, patience: Patience) -> Option<(Self, RequestHead)> {
        let limits = self.proxy.authorizer.limits();
        let deadline = match patience {
            Patience::Until(deadline) => {
                self.first_byte(deadline).await?;
                deadline
            }
            Patience::NextRequest => {
                let idle = Instant::now() + limits.idle_timeout;
                self.first_byte(idle.min(self.closes_at)).await?;
                Instant::now() + limits.header_timeout
            }
        };
        let (mut read, received, _) = self.client.split();
        let receiving = head::receive(
            &mut read,
            received,
            limits.max_header_bytes,
            RequestHead::parse,
            || (),
        );
        let ended = match timeout_at(deadline, receiving).await {
            Ok(Ok((head, _))) => return Some((self, head)),
            Ok(Err(NoHead::Invalid(error))) if self.begins_like_http() => {
                let asked = target::unread(self.via());
                let detail = Some(error.to_string());
                self.refuse(asked, "", error.reason(), detail).await;
                return None;
            }
            Ok(Err(NoHead::Invalid(_))) => "this is not HTTP; SOCKS and TLS are not spoken here",
            Ok(Err(NoHead::Ended)) => "the connection ended within the head",
            Err(_) => "the head was not complete in time",
        };
        tracing::debug!(client = %self.connection.from().peer, "{ended}");
        let asked = target::unread(self.via());
        let authorizer = &self.proxy.authorizer;
        authorizer.refuse_silently(&self.connection, asked, Reason::BadRequest);
        None
    }

    /// Refuses what could not be authorised: records, answers and closes.
    pub(super) async fn refuse(
        self,
        asked: Asked,
        method: &str,
        reason: Reason,
        detail: Option<String>,
    ) {
        let authorizer = &self.proxy.authorizer;
        let denial = authorizer.refuse(&self.connection, asked, reason, detail);
        self.deny(&denial, method).await;
    }

    /// Answers with a refusal that is recorded, and closes. Nothing more is parsed.
    pub(super) async fn deny(self, denial: &Denial, method: &str) {
        linger::send_and_close(self.client, &denial.to_response(method)).await;
    }

    /// Waits for the client to say something. None when it does not, or when a drain begins: a
    /// connection that said nothing was a probe, or is done, and leaves no record.
    pub(super) async fn first_byte(&mut self, deadline: Instant) -> Option<()> {
        if !self.client.received.is_empty() {
            return Some(());
        }
        let stopping = self.proxy.tasks.stopping();
        let is_late = || stopping.is_cancelled() || Instant::now() >= deadline;
        if is_late() {
            return None;
        }
        // What is there already is taken without a clock being set.
        let count = tokio::select! {
            biased;
            count = self.client.fill() => count.ok()?,
            () = stopping.cancelled() => return None,
            () = sleep_until(deadline) => return None,
        };
        // Asked again: what came in the same turn as the end came too late.
        (count > 0 && !is_late()).then_some(())
    }

    fn begins_like_http(&self) -> bool {
        // A method is a token (RFC 9110 section 9.1), and an empty line before it is common.
        self.client
            .received
            .unread()
            .first()
            .is_some_and(|first| first.is_ascii_graphic() || matches!(first, b'\r' | b'\n'))
    }

    fn via(&self) -> Via {
        if self.client.received.unread().starts_with(b"CONNECT ") {
            Via::Connect
        } else {
            self.via
        }
    }
}

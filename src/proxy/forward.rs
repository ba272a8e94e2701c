//! Plain HTTP: every request is authorised by itself and forwarded, one after the other.

use std::mem::take;

use super::{
    exchange::{Exchange, Failed, Finished, Judged, OVER_BUDGET},
    linger,
    pool::Key,
    session::{Patience, Session},
    target,
    tunnel::{Undialled, dial},
};
use crate::{
    destination::Destination,
    egress::{Peer, Permit, Tunnel},
    policy::Reason,
    protocol::{
        Framing, RequestHead, Route,
        forwarding::{self, Then},
        request_target::RouteError,
        route_absolute, route_origin,
    },
    record::Outcome,
};

/// The fields of a request by which its response is judged.
const FIELDS_FOR_THE_RESPONSE: &[&str] = &[
    "authorization",
    "connection",
    "content-length",
    "sec-websocket-key",
    "transfer-encoding",
    "upgrade",
];

/// How the requests of a connection say where to.
#[derive(Clone, Debug)]
pub(super) enum Form {
    /// In absolute form, on the proxy port.
    Absolute,
    /// By Host, on the transparent port.
    Origin,
    /// In origin form inside a CONNECT to this destination.
    Within(Destination),
}

impl Form {
    fn route(&self, head: &RequestHead) -> Result<Route, RouteError> {
        match self {
            Self::Absolute => route_absolute(head),
            Self::Origin => route_origin(head, None),
            Self::Within(destination) => route_origin(head, Some(destination)),
        }
    }
}

/// What the requests of a connection led to.
pub(super) enum Served {
    /// A CONNECT on the proxy port.
    Connect(Session, RequestHead),
    /// Both ends speak WebSocket from here on.
    Tunnel(Box<Tunnel>),
}

/// What follows a request.
enum Next {
    Request(Session),
    Tunnel(Box<Tunnel>),
}

/// Serves requests until the connection ends, or until one makes something else of it.
pub(super) async fn serve(
    mut session: Session,
    form: Form,
    mut patience: Patience,
) -> Option<Served> {
    loop {
        let (next, head) = session.next_head(patience).await?;
        patience = Patience::NextRequest;
        if matches!(form, Form::Absolute) && &*head.method == "CONNECT" {
            return Some(Served::Connect(next, head));
        }
        // Boxed, so that a connection between two requests is small.
        match Box::pin(request(next, &form, head)).await? {
            Next::Request(next) => session = next,
            Next::Tunnel(tunnel) => return Some(Served::Tunnel(tunnel)),
        }
    }
}

/// Serves one request; none when the connection ends with it.
async fn request(session: Session, form: &Form, mut head: RequestHead) -> Option<Next> {
    let (route, framing) = match judge(form, &head) {
        Ok(judged) => judged,
        Err(error) => {
            let asked = target::unrouted(session.via, &head, error.destination);
            let detail = Some(error.detail);
            session
                .refuse(asked, &head.method, error.reason, detail)
                .await;
            return None;
        }
    };
    let asked = target::routed(session.via, &head, &route);
    let authorizer = &session.proxy.authorizer;
    match authorizer.authorize(&session.connection, asked).await {
        Ok(permit) => {
            let sent_head = forwarding::request_head(&head, &route, framing);
            // The exchange may take long, and of the rest it needs no more than this.
            drop(route);
            head.target = Box::default();
            head.fields.keep_only(FIELDS_FOR_THE_RESPONSE);
            let request = Request {
                head,
                sent_head,
                framing,
            };
            request.serve(session, permit).await
        }
        Err(denial) => {
            session.deny(&denial, &head.method).await;
            None
        }
    }
}

fn judge(form: &Form, head: &RequestHead) -> Result<(Route, Framing), RouteError> {
    let framing = Framing::of_request(head)?;
    let route = form.route(head)?;
    if forwarding::is_loop(head) {
        return Err(RouteError {
            reason: Reason::LoopDetected,
            detail: "this request has come through here before".to_owned(),
            destination: Some(route.destination),
        });
    }
    Ok((route, framing))
}

/// A request whose way is known.
struct Request {
    head: RequestHead,
    /// The head as the origin gets it, until it is on its way for the last time.
    sent_head: Vec<u8>,
    framing: Framing,
}

impl Request {
    /// Forwards it; none when the connection ends with it.
    async fn serve(mut self, mut session: Session, permit: Permit) -> Option<Next> {
        if permit
            .upload_left()
            .is_some_and(|left| self.length() > left)
        {
            let detail = Some(OVER_BUDGET.to_owned());
            let denial = permit.fail(Outcome::Budget, Reason::BudgetExceeded, detail);
            session.deny(&denial, &self.head.method).await;
            return None;
        }
        let key = Key::of(&permit);
        let (permit, upstream, result) = match self.exchange(&mut session, &key, permit).await {
            Ok(ended) => ended,
            Err(Undialled::Denied(denial)) => {
                session.deny(&denial, &self.head.method).await;
                return None;
            }
            Err(Undialled::Ended) => {
                session.client.abort();
                return None;
            }
        };
        match result {
            Ok(finished) => finish(session, permit, (upstream, key), finished).await,
            Err(failed) => {
                // Security: by reset, so that the origin cannot take a part for the whole.
                upstream.abort();
                self.fail(session, permit, failed).await;
                None
            }
        }
    }

    /// Exchanges it for a response on a connection that is idle, or on a new one.
    async fn exchange(
        &mut self,
        session: &mut Session,
        key: &Key,
        permit: Permit,
    ) -> Result<(Permit, Peer, Result<Finished, Failed>), Undialled> {
        if let Some(mut upstream) = self.reused(session, key, &permit) {
            let sent_head = if self.can_be_repeated() {
                self.sent_head.clone()
            } else {
                take(&mut self.sent_head)
            };
            let result = self
                .forward(sent_head, session, (&mut upstream, &permit))
                .await;
            let unheard = result.as_ref().is_err_and(|failed| failed.unheard);
            if !(unheard && self.can_be_repeated()) {
                return Ok((permit, upstream, result));
            }
            // It closed while the request was on its way, so the request is sent anew.
            upstream.abort();
        }
        let (mut upstream, permit) = dial(permit, &mut session.client).await?;
        let sent_head = take(&mut self.sent_head);
        let result = self
            .forward(sent_head, session, (&mut upstream, &permit))
            .await;
        Ok((permit, upstream, result))
    }

    /// The bytes that the origin gets, as far as they are known: a chunked body is counted as it
    /// flows.
    fn length(&self) -> u64 {
        let head = u64::try_from(self.sent_head.len()).unwrap_or(u64::MAX);
        match self.framing {
            Framing::Length(length) => head.saturating_add(length),
            Framing::Empty | Framing::Chunked | Framing::UntilClose => head,
        }
    }

    async fn forward(
        &self,
        sent_head: Vec<u8>,
        session: &mut Session,
        (upstream, permit): (&mut Peer, &Permit),
    ) -> Result<Finished, Failed> {
        let judged = Judged {
            head: &self.head,
            framing: self.framing,
            permit,
            closes_at: session.closes_at,
        };
        let exchange = Exchange::new(judged, session.proxy.tasks.stopping());
        exchange.run(sent_head, &mut session.client, upstream).await
    }

    fn reused(&self, session: &Session, key: &Key, permit: &Permit) -> Option<Peer> {
        if self.head.is_websocket_upgrade() {
            return None;
        }
        let stream = session.proxy.pool.take(key, self.can_be_repeated())?;
        permit.note_upstream(stream.peer_addr().ok()?);
        Some(Peer::new(stream))
    }

    /// Whether sending it twice is as good as once (RFC 9110 section 9.2.2) and possible.
    fn can_be_repeated(&self) -> bool {
        let bodyless = matches!(self.framing, Framing::Empty | Framing::Length(0));
        bodyless
            && matches!(
                &*self.head.method,
                "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE"
            )
    }

    /// Ends a broken exchange. A response that has begun is cut, never ended.
    async fn fail(&self, session: Session, permit: Permit, failed: Failed) {
        let Some(reason) = failed.reason else {
            permit.finish(failed.outcome);
            session.client.abort();
            return;
        };
        let denial = permit.fail(failed.outcome, reason, failed.detail);
        if failed.told {
            session.client.abort();
        } else {
            session.deny(&denial, &self.head.method).await;
        }
    }
}

/// Ends an exchange that went well, unless it becomes a tunnel; none when the connection ends.
async fn finish(
    session: Session,
    permit: Permit,
    (upstream, key): (Peer, Key),
    finished: Finished,
) -> Option<Next> {
    match finished.client {
        Then::WebSocket => {
            let client = session.client;
            return Some(Next::Tunnel(Box::new(Tunnel {
                client,
                upstream,
                permit,
            })));
        }
        Then::KeepAlive | Then::Close => {}
    }
    // Before its record says that it ended: who waits for that finds the connection.
    if finished.upstream_is_reusable {
        session.proxy.pool.keep(key, upstream.stream);
    }
    permit.finish(Outcome::Done);
    if finished.client == Then::KeepAlive {
        return Some(Next::Request(session));
    }
    linger::send_and_close(session.client, &[]).await;
    None
}

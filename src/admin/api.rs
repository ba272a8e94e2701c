//! The routes of the admin socket and their JSON.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, Response, StatusCode, body::Incoming, header};
use serde::{Serialize, de::DeserializeOwned};

use super::{Admin, metrics, reload::ReloadError, request::RunRequest, slots};
use crate::{
    egress::{Registration, RegistrationError, SlotError, runs::Run},
    policy::{Pattern, PatternError},
    record::{RunId, RunIdError},
};

/// The largest body of a request, in bytes: room for some ten thousand patterns.
const MAX_BODY: usize = 1024 * 1024;

/// A run as `GET /v1/runs` lists it.
#[derive(Debug, Serialize)]
struct RunLine {
    run: String,
    sources: Vec<IpAddr>,
    listener: Option<Ipv4Addr>,
    profile: Option<Arc<str>>,
    allow: Vec<String>,
    expires_in_ms: u128,
    ended: bool,
}

/// Why a call is refused; each becomes a problem document.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("there is nothing at {0}")]
    NotFound(String),
    #[error("{0} is not answered here")]
    MethodNotAllowed(Method),
    #[error("there is no run {0}")]
    NoRun(RunId),
    #[error("there is no idle slot {0}")]
    NoSlot(RunId),
    #[error(transparent)]
    RunId(#[from] RunIdError),
    #[error("the body is not what is asked for: {0}")]
    Body(String),
    #[error("allow[{at}] {text:?}: {source}")]
    Pattern {
        at: usize,
        text: String,
        source: PatternError,
    },
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    #[error(transparent)]
    Slot(#[from] SlotError),
    #[error(transparent)]
    Reload(#[from] ReloadError),
}

impl Problem {
    fn status(&self) -> StatusCode {
        match self {
            Self::NotFound(_) | Self::NoRun(_) | Self::NoSlot(_) => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::RunId(_) | Self::Body(_) | Self::Pattern { .. } => StatusCode::BAD_REQUEST,
            Self::Reload(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Registration(error) => of_registration(error),
            Self::Slot(error) => match error {
                SlotError::Known(_)
                | SlotError::AddressTaken(_)
                | SlotError::TooMany
                | SlotError::NoneIdle(_) => StatusCode::CONFLICT,
                SlotError::NoSource => StatusCode::BAD_REQUEST,
                SlotError::Registration(error) => of_registration(error),
            },
        }
    }
}

fn of_registration(error: &RegistrationError) -> StatusCode {
    match error {
        RegistrationError::SourceTaken { .. }
        | RegistrationError::SourceConfigured(_)
        | RegistrationError::Ending(_) => StatusCode::CONFLICT,
        RegistrationError::NoSource
        | RegistrationError::Profile(_)
        | RegistrationError::BeyondCeiling(_) => StatusCode::BAD_REQUEST,
        RegistrationError::Audit(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

pub(super) type Answer = Response<Full<Bytes>>;

/// Answers one request of the admin socket.
pub(super) async fn respond(admin: &Admin, request: Request<Incoming>) -> Answer {
    route(admin, request)
        .await
        .unwrap_or_else(|problem| problem_document(&problem))
}

/// Answers one request of the Prometheus listener, which knows `/metrics` and nothing else.
pub(super) fn metrics_only<B>(admin: &Admin, request: &Request<B>) -> Answer {
    if request.uri().path() != "/metrics" {
        return problem_document(&Problem::NotFound(request.uri().path().to_owned()));
    }
    if *request.method() != Method::GET {
        return problem_document(&Problem::MethodNotAllowed(request.method().clone()));
    }
    metrics_text(admin)
}

async fn route(admin: &Admin, request: Request<Incoming>) -> Result<Answer, Problem> {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    match (path.as_str(), &method) {
        ("/healthz", &Method::GET) => Ok(healthz(admin)),
        ("/metrics", &Method::GET) => Ok(metrics_text(admin)),
        ("/v1/audit", &Method::GET) => Ok(json(StatusCode::OK, &admin.authorizer.audit().head())),
        ("/v1/reload", &Method::POST) => reload(admin),
        ("/v1/runs", &Method::GET) => {
            let runs: Vec<RunLine> = admin
                .authorizer
                .runs()
                .all()
                .iter()
                .map(|run| line(run))
                .collect();
            Ok(json(StatusCode::OK, &runs))
        }
        ("/v1/slots", &Method::GET) => Ok(slots::list(admin)),
        ("/healthz" | "/metrics" | "/v1/audit" | "/v1/reload" | "/v1/runs" | "/v1/slots", _) => {
            Err(Problem::MethodNotAllowed(method))
        }
        _ => {
            if let Some(run) = path.strip_prefix("/v1/runs/") {
                one_run(admin, RunId::parse(run)?, request).await
            } else if let Some(slot) = path.strip_prefix("/v1/slots/") {
                slots::one(admin, RunId::parse(slot)?, request).await
            } else {
                Err(Problem::NotFound(path))
            }
        }
    }
}

async fn one_run(admin: &Admin, run: RunId, request: Request<Incoming>) -> Result<Answer, Problem> {
    let runs = &admin.authorizer;
    match *request.method() {
        Method::GET => {
            let found = runs.runs().find(&run).ok_or(Problem::NoRun(run))?;
            Ok(json(StatusCode::OK, &found.summary().network()))
        }
        Method::PUT => {
            let (pool, registration) = registration(run, read_body(request).await?)?;
            if let Some(pool) = pool {
                return slots::claim(admin, &pool, &registration);
            }
            runs.register(registration)?;
            Ok(json(StatusCode::OK, &serde_json::json!({})))
        }
        Method::DELETE => {
            let summary = runs.remove_run(&run).await.ok_or(Problem::NoRun(run))?;
            Ok(json(StatusCode::OK, &summary))
        }
        _ => Err(Problem::MethodNotAllowed(request.method().clone())),
    }
}

/// The body of a request, which is JSON of one shape.
pub(super) async fn read_body<T: DeserializeOwned>(
    request: Request<Incoming>,
) -> Result<T, Problem> {
    let body = Limited::new(request.into_body(), MAX_BODY).collect().await;
    let body = body.map_err(|error| Problem::Body(error.to_string()))?;
    serde_json::from_slice(&body.to_bytes()).map_err(|error| Problem::Body(error.to_string()))
}

/// The pool that it claims from, where it does, and the rest.
fn registration(
    run: RunId,
    request: RunRequest,
) -> Result<(Option<Arc<str>>, Registration), Problem> {
    let mut allow = Vec::with_capacity(request.allow.len());
    for (at, text) in request.allow.into_iter().enumerate() {
        match Pattern::parse_allow(&text) {
            Ok(pattern) => allow.push(pattern),
            Err(source) => return Err(Problem::Pattern { at, text, source }),
        }
    }
    let sources = request.sources.iter().map(IpAddr::to_canonical).collect();
    let registration = Registration {
        run,
        sources,
        listener: request.listener,
        profile: request.profile,
        allow,
        expires_in: request.expires_in,
    };
    Ok((request.pool, registration))
}

fn line(run: &Run) -> RunLine {
    let registration = run.registration();
    RunLine {
        run: registration.run.to_string(),
        sources: registration.sources.clone(),
        listener: registration.listener,
        profile: registration.profile.clone(),
        allow: registration.allow.iter().map(ToString::to_string).collect(),
        expires_in_ms: run.expires_in().as_millis(),
        ended: run.is_ended(),
    }
}

fn healthz(admin: &Admin) -> Answer {
    let report = admin.health.report(&admin.authorizer);
    let status = if report.is_ok() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    json(status, &report)
}

fn reload(admin: &Admin) -> Result<Answer, Problem> {
    match admin.reloader.reload() {
        Ok(reloaded) => Ok(json(StatusCode::OK, &reloaded)),
        Err(error) => Err(error.into()),
    }
}

fn metrics_text(admin: &Admin) -> Answer {
    let text = metrics::render(admin);
    answer(
        StatusCode::OK,
        "text/plain; version=0.0.4; charset=utf-8",
        text.into_bytes(),
    )
}

/// RFC 9457.
fn problem_document(problem: &Problem) -> Answer {
    let status = problem.status();
    let mut body = serde_json::json!({
        "type": "about:blank",
        "title": status.canonical_reason(),
        "status": status.as_u16(),
        "detail": problem.to_string(),
    });
    if let (Problem::Reload(ReloadError::NeedsRestart(keys)), Some(members)) =
        (problem, body.as_object_mut())
    {
        members.insert("needs_restart".to_owned(), keys.as_slice().into());
    }
    answer(
        status,
        "application/problem+json",
        body.to_string().into_bytes(),
    )
}

pub(super) fn json<T: Serialize>(status: StatusCode, value: &T) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => answer(status, "application/json", body),
        Err(error) => {
            tracing::error!(%error, "an admin answer cannot be written as JSON");
            answer(
                StatusCode::INTERNAL_SERVER_ERROR,
                "application/json",
                b"{}".to_vec(),
            )
        }
    }
}

fn answer(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static(content_type),
    );
    answer
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(body: &str) -> Result<Registration, String> {
        let run = RunId::parse("01JD").unwrap();
        let request = serde_json::from_str(body).map_err(|error| error.to_string())?;
        let read = registration(run, request).map_err(|problem| problem.to_string());
        read.map(|(_, registration)| registration)
    }

    #[test]
    fn a_registration_is_read_strictly() {
        let whole = r#"{"sources": ["10.231.0.3", "::ffff:10.231.0.4"], "listener": "10.231.0.2",
                        "profile": "default", "allow": ["api.example.com"], "expires_in": "90s"}"#;
        let read_whole = read(whole).unwrap();
        assert_eq!(read_whole.expires_in, Duration::from_secs(90));
        assert_eq!(read_whole.sources[1], IpAddr::from([10, 231, 0, 4]));
        for (body, expected) in [
            ("", "EOF while parsing"),
            (r#"{"sources": []}"#, "missing field `expires_in`"),
            (
                r#"{"sources": ["x"], "expires_in": "1s"}"#,
                "invalid IP address",
            ),
            (
                r#"{"source": [], "expires_in": "1s"}"#,
                "unknown field `source`",
            ),
            (
                r#"{"sources": [], "expires_in": "0s"}"#,
                "out of range: write 1s to 1d",
            ),
            (
                r#"{"sources": [], "expires_in": "-5s"}"#,
                "is not a duration",
            ),
            (
                r#"{"sources": [], "expires_in": "25h"}"#,
                "out of range: write 1s to 1d",
            ),
            (
                r#"{"sources": [], "expires_in": "90"}"#,
                "has no unit; write \"90s\" for seconds",
            ),
            (
                r#"{"sources": [], "allow": ["*"], "expires_in": "9s"}"#,
                "allow[0] \"*\"",
            ),
        ] {
            let problem = read(body).unwrap_err();
            assert!(problem.contains(expected), "{body}: {problem}");
        }
    }
}

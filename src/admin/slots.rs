//! The routes of slots: offered, listed, withdrawn; a run claims one by its own `PUT`.

use std::{net::IpAddr, sync::Arc};

use hyper::{Method, Request, StatusCode, body::Incoming};

use super::{
    Admin, SlotLine, SlotRequest,
    api::{Answer, Problem, json, read_body},
};
use crate::{
    egress::{Registration, Slot},
    record::RunId,
};

/// `GET /v1/slots`
pub(super) fn list(admin: &Admin) -> Answer {
    let runs = admin.authorizer.runs();
    let slots = admin.authorizer.slots().all().into_iter();
    let lines = slots.map(|(slot, run)| {
        let ended = run.as_ref().and_then(|run| runs.find(run));
        let ended = ended.is_some_and(|run| run.is_ended() || run.expires_in().is_zero());
        line(slot, run.as_ref(), ended)
    });
    json(StatusCode::OK, &lines.collect::<Vec<_>>())
}

/// `PUT` and `DELETE /v1/slots/{slot}`
pub(super) async fn one(
    admin: &Admin,
    id: RunId,
    request: Request<Incoming>,
) -> Result<Answer, Problem> {
    let slots = admin.authorizer.slots();
    match *request.method() {
        Method::PUT => {
            let SlotRequest {
                pool,
                sources,
                listener,
            } = read_body(request).await?;
            slots.offer(Slot {
                id,
                pool,
                sources: sources.iter().map(IpAddr::to_canonical).collect(),
                listener,
            })?;
            Ok(json(StatusCode::OK, &serde_json::json!({})))
        }
        Method::DELETE if slots.withdraw(&id) => Ok(json(StatusCode::OK, &serde_json::json!({}))),
        Method::DELETE => Err(Problem::NoSlot(id)),
        _ => Err(Problem::MethodNotAllowed(request.method().clone())),
    }
}

/// Gives a run an idle slot of a pool, and registers it there.
pub(super) fn claim(
    admin: &Admin,
    pool: &Arc<str>,
    asked: &Registration,
) -> Result<Answer, Problem> {
    if !asked.sources.is_empty() || asked.listener.is_some() {
        let why = "a run has either a pool or sources and a listener of its own";
        return Err(Problem::Body(why.to_owned()));
    }
    let slot = admin.authorizer.claim(pool, asked)?;
    Ok(json(StatusCode::OK, &line(slot, Some(&asked.run), false)))
}

fn line(slot: Slot, run: Option<&RunId>, ended: bool) -> SlotLine {
    SlotLine {
        slot: slot.id.to_string(),
        run: run.map(ToString::to_string),
        ended,
        of: SlotRequest {
            pool: slot.pool,
            sources: slot.sources,
            listener: slot.listener,
        },
    }
}

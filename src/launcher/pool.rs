//! Slots, made ahead of the runs that will have them: `eclusa up --pool N` makes the first, a run
//! claims one at the proxy, and `eclusa keep`, which a run leaves behind, makes another for it.
//!
//! A slot is used once. What became of each is told by the proxy, which gives it once, and by the
//! labels of what is attached to it; a proxy that was started anew knows none, and so all of them go.

mod sizes;
mod survey;
mod turn;

use std::{path::Path, time::Duration};

use ipnet::Ipv4Net;
use jiff::Timestamp;
use serde::Serialize;

pub(super) use self::sizes::size;
use self::{
    sizes::remember,
    survey::{Kept, Spent, survey},
};
pub use self::{
    sizes::{forget, is_wanted},
    turn::Turn,
};
use super::{
    LaunchError, RegistrationError, Settings,
    backend::{AdminCall, Backend, BackendError, Engine, Object, Proxy},
    plan::{self, Labels, Owner, Slot},
    registration::refusal,
    slices,
};
use crate::{
    admin::{SlotLine, SlotRequest},
    record::RunId,
};

/// The most slots of a pool: each is a network and a container that waits.
pub const MOST: u32 = 64;

/// How long a slot may be in the making before it is taken for an orphan.
const MAKING: Duration = Duration::from_mins(5);

/// How many ranges are tried for a slot.
const ATTEMPTS: u32 = 16;

/// What was done to a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Filled {
    /// How many slots are idle now.
    pub idle: usize,
    /// How many of them were made for this.
    pub made: usize,
    /// How many were removed: used, left by others, or too many.
    pub removed: usize,
}

/// The slots of one owner at the proxy of one engine.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'a, B> {
    backend: &'a B,
    settings: &'a Settings,
}

/// A slot that a run has been given.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) id: RunId,
    pub(super) range: Ipv4Net,
}

impl<'a, B: Backend> Pool<'a, B> {
    /// The pool of the owner that `settings` name.
    pub fn new(backend: &'a B, settings: &'a Settings) -> Self {
        Self { backend, settings }
    }

    /// How many slots the proxy that runs is to have; none where there is no pool.
    ///
    /// # Errors
    /// The engine cannot be asked.
    pub async fn size(&self) -> Result<Option<u32>, LaunchError> {
        let proxy = self.backend.running_proxy().await?;
        Ok(proxy.and_then(|proxy| size(self.settings, &proxy)))
    }

    /// Has `size` slots idle at the proxy that runs, and has it stay so; 0 is the end of the pool.
    ///
    /// # Errors
    /// No proxy runs, or a slot cannot be made.
    pub async fn fill(&self, size: u32) -> Result<Filled, LaunchError> {
        let _turn = Turn::wait(self.settings)
            .await
            .map_err(LaunchError::State)?;
        let Some(proxy) = self.backend.running_proxy().await? else {
            return Err(BackendError::Proxy("does not run".to_owned()).into());
        };
        remember(self.settings, &proxy, size).map_err(LaunchError::State)?;
        self.bring_to(Some(size), &proxy).await
    }

    /// Replaces what runs have used since; nothing where there is no pool, or another waits already
    /// to do just this.
    ///
    /// # Errors
    /// A slot cannot be made or removed.
    pub async fn keep(&self) -> Result<Filled, LaunchError> {
        let turn = Turn::next(self.settings).await;
        let Some(_turn) = turn.map_err(LaunchError::State)? else {
            return Ok(Filled::default());
        };
        let proxy = self.backend.running_proxy().await?;
        match proxy.map(|proxy| (size(self.settings, &proxy), proxy)) {
            // Nobody asked for slots at this proxy; what is left of them goes all the same.
            Some((size, proxy)) => self.bring_to(size, &proxy).await,
            None => Ok(Filled::default()),
        }
    }

    /// Removes what is spent, and has `size` slots idle, or as many as there are. What cannot be
    /// removed does not keep the others waiting.
    async fn bring_to(&self, size: Option<u32>, proxy: &Proxy) -> Result<Filled, LaunchError> {
        // In this order: what is offered after the first answer is in the second.
        let objects = self.backend.objects().await?;
        let lines = self.offered(proxy).await?;
        let now = Timestamp::now();
        let found = survey(objects, &lines, &self.settings.owner, now);
        let size = size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let size = size.unwrap_or(found.idle.len());
        let mut filled = Filled::default();
        let mut failure = None;
        for spent in &found.spent {
            match self.clear(spent, proxy).await {
                Ok(()) => filled.removed += 1,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let mut idle = found.idle;
        while idle.len() > size {
            let Some(kept) = idle.pop() else { break };
            // A run may have claimed it just now; then it is no longer ours to remove.
            if self.withdraw(&kept, proxy).await? {
                self.reap(&kept.objects).await?;
                filled.removed += 1;
            }
        }
        filled.idle = idle.len();
        while filled.idle < size {
            self.make(proxy).await?;
            filled.idle += 1;
            filled.made += 1;
        }
        failure.map_or(Ok(filled), Err)
    }

    /// Makes a slot and offers it.
    async fn make(&self, proxy: &Proxy) -> Result<(), LaunchError> {
        let range = self.settings.pool;
        let mut used = self.backend.subnets().await?;
        for attempt in 0..ATTEMPTS {
            let id = RunId::from(ulid::Ulid::generate());
            let subnet = slices::choose(range, &used, &id, attempt)
                .ok_or(LaunchError::PoolExhausted(range))?;
            let slot = plan::slot(&id, subnet, has_ipv6(self.backend.engine()))?;
            let Err(error) = self.make_and_offer(&slot, proxy).await else {
                return Ok(());
            };
            self.unmake(&id).await?;
            if !error.is_contended() {
                return Err(error);
            }
            used.push(subnet.into());
        }
        Err(LaunchError::PoolExhausted(range))
    }

    async fn make_and_offer(&self, slot: &Slot, proxy: &Proxy) -> Result<(), LaunchError> {
        let now = Timestamp::now();
        let labels = Labels {
            run: slot.id.clone(),
            slot: Some(slot.id.clone()),
            owner: self.settings.owner.clone(),
            process: self.settings.process,
            started: now,
            deadline: now.saturating_add(MAKING).unwrap_or(Timestamp::MAX),
            image: String::new(),
        };
        self.backend.make_slot(slot, &labels, proxy).await?;
        let offer = SlotRequest {
            pool: name(&self.settings.owner).into(),
            sources: vec![slot.slice.sandbox.into()],
            listener: Some(slot.slice.proxy),
        };
        let body = serde_json::to_string(&offer)
            .map_err(|error| RegistrationError::Refused(error.to_string()))?;
        match self.call(proxy, "PUT", &path_of(&slot.id), &body).await? {
            (200, _) => Ok(()),
            (status, answer) => Err(refusal(status, &answer).into()),
        }
    }

    /// Removes what there is of a slot that nobody was offered.
    async fn unmake(&self, id: &RunId) -> Result<(), LaunchError> {
        let mut objects = self.backend.objects().await?;
        objects.retain(|object| {
            Labels::from_map(&object.labels)
                .is_some_and(|labels| labels.is_slot() && labels.run == *id)
        });
        self.reap(&objects).await
    }

    async fn clear(&self, spent: &Spent, proxy: &Proxy) -> Result<(), LaunchError> {
        self.reap(&spent.objects).await?;
        // Only now: until its network is gone, an address must not become anybody else's.
        if let Some(run) = &spent.run {
            let path = format!("/v1/runs/{run}");
            self.call(proxy, "DELETE", &path, "").await?;
        }
        Ok(())
    }

    async fn reap(&self, objects: &[Object]) -> Result<(), LaunchError> {
        for object in objects {
            self.backend.reap(object).await?;
        }
        Ok(())
    }

    async fn withdraw(&self, kept: &Kept, proxy: &Proxy) -> Result<bool, LaunchError> {
        let (status, _) = self.call(proxy, "DELETE", &path_of(&kept.slot), "").await?;
        Ok(status == 200)
    }

    async fn offered(&self, proxy: &Proxy) -> Result<Vec<SlotLine>, LaunchError> {
        let (status, body) = self.call(proxy, "GET", "/v1/slots", "").await?;
        let read = serde_json::from_slice(&body);
        read.map_err(|_| BackendError::Proxy(format!("does not list its slots: {status}")).into())
    }

    async fn call(
        &self,
        proxy: &Proxy,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<(u16, bytes::Bytes), BackendError> {
        let call = AdminCall { method, path, body };
        self.backend.admin(proxy, call).await
    }
}

impl Claimed {
    /// What the proxy says of a slot; none where that is none of ours.
    pub(super) fn read(line: &SlotLine) -> Option<Self> {
        let id = RunId::parse(&line.slot).ok()?;
        let range = slices::around(line.of.listener?)?;
        let slice = plan::slot(&id, range, false).ok()?.slice;
        let is_as_planned =
            line.of.listener == Some(slice.proxy) && line.of.sources == [slice.sandbox];
        is_as_planned.then_some(Self { id, range })
    }
}

/// What an owner's pool is called at the proxy.
pub(super) fn name(owner: &Owner) -> String {
    owner.to_string()
}

/// Whether a sandbox of this engine may have IPv6, which must then be switched off.
pub(super) fn has_ipv6(engine: &Engine) -> bool {
    !engine.is_local || Path::new("/proc/sys/net/ipv6").exists()
}

fn path_of(slot: &RunId) -> String {
    format!("/v1/slots/{slot}")
}

//! The proxy container: found, or made where there is none. Its name is the lock: an engine gives it
//! once, so of many that make it at the same time one does, and the others wait for it.

mod admin;
mod body;
mod container;
mod down;
mod exec;
mod image;
mod make;
mod up;

use std::time::Duration;

use tokio::time::{Instant, sleep};

use self::{
    admin::{Live, Silence},
    container::{Found, Stage},
};
use super::Docker;
use crate::launcher::{
    backend::{BackendError, Proxy},
    proxy::ProxyOptions,
};

/// The longest that is waited for a proxy, whoever makes it.
const SETTLE_LIMIT: Duration = Duration::from_mins(2);

/// How long a container may stand there without being started; then whoever made it is taken to be
/// gone.
const MAKE_LIMIT: Duration = Duration::from_secs(30);

/// Which containers are taken for the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// The one that is made here.
    Ours,
    /// Without that one, also one that somebody started by hand, as a sidecar.
    Anybodys,
}

/// A proxy that answers, and whether it was made for this.
struct Settled {
    live: Live,
    is_new: bool,
}

impl Docker {
    /// Says how the proxy is found and made.
    #[must_use]
    pub fn with_proxy(mut self, options: ProxyOptions) -> Self {
        self.proxy = options;
        self
    }

    /// The proxy, where one runs and answers, however it is.
    pub(super) async fn find_proxy(&self) -> Result<Option<Proxy>, BackendError> {
        match self.find_container(Whose::Anybodys).await? {
            Some(found) => self.answering(&found).await,
            None => Ok(None),
        }
    }

    /// Finds the proxy, or starts it.
    pub(super) async fn find_or_start_proxy(&self) -> Result<Proxy, BackendError> {
        self.refuse_networks()?;
        let live = self.settle(Whose::Anybodys).await?.live;
        let settings = self.proxy.settings.as_ref();
        if settings.is_some_and(|own| !own.are_in_force(&live.health.config)) {
            return Err(BackendError::Proxy(format!(
                "{} runs with another configuration; `eclusa up` applies this one",
                live.found.name
            )));
        }
        if live.health.version != env!("CARGO_PKG_VERSION") {
            tracing::warn!(
                version = live.health.version,
                "the proxy is of another version; `eclusa up` replaces it"
            );
        }
        Ok(live.proxy)
    }

    /// A proxy that answers and is well: the one that runs, else a new one. One of ours that does
    /// not get well is ended where ours is asked for.
    async fn settle(&self, whose: Whose) -> Result<Settled, BackendError> {
        let mut patience = Patience::new(SETTLE_LIMIT);
        let (mut made, mut has_retired) = (None, false);
        loop {
            let Some(found) = self.find_container(whose).await? else {
                self.refuse_proxy_outside().await?;
                made = self.make_proxy().await?.or(made);
                patience.pause().await.map_err(|()| too_slow())?;
                continue;
            };
            let is_new = made.as_ref() == Some(&found.id);
            let why = match self.approach(&found, &mut patience).await {
                Ok(live) => return Ok(Settled { live, is_new }),
                Err(Silence::Final(error)) => return Err(error),
                Err(Silence::NotYet(why)) => why,
            };
            if !found.starts_in_vain() && patience.pause().await.is_ok() {
                continue;
            }
            if whose == Whose::Anybodys || is_new || has_retired {
                return Err(self.give_up(&found, &why, is_new).await);
            }
            let what = format!("does not get healthy ({why})");
            self.retire(&found, &what).await?;
            (patience, has_retired) = (Patience::new(SETTLE_LIMIT), true);
        }
    }

    /// Brings a container that was found nearer to a proxy that answers.
    async fn approach(&self, found: &Found, patience: &mut Patience) -> Result<Live, Silence> {
        match found.stage {
            Stage::Running => self.ask_health(found, patience.with(found)).await,
            Stage::Restarting => Err(Silence::NotYet("it starts again and again".to_owned())),
            Stage::Leaving => Err(Silence::NotYet(
                "the one before is being removed".to_owned(),
            )),
            Stage::Made if patience.with(found) < MAKE_LIMIT => {
                Err(Silence::NotYet("another eclusa is making it".to_owned()))
            }
            // A network that was removed in the meantime would keep it from starting, and its image
            // and configuration may be old: what it knows is in its volumes.
            Stage::Made | Stage::Stopped => {
                self.remove_stopped(found).await.map_err(Silence::Final)?;
                Err(Silence::NotYet("it is being made anew".to_owned()))
            }
            Stage::Paused => Err(Silence::Final(BackendError::Proxy(format!(
                "{name} is paused; `docker unpause {name}`, or `eclusa down` and `eclusa up`",
                name = found.name
            )))),
        }
    }

    /// Why a proxy is not to be had, in its own words; one that was made for this goes away, lest it
    /// be started again and again.
    async fn give_up(&self, found: &Found, why: &str, is_new: bool) -> BackendError {
        let log = self.last_lines(&found.id).await;
        let mut text = format!("{} does not get healthy: {why}", found.name);
        if is_new {
            if let Err(error) = self.remove_by_force(&found.id).await {
                tracing::warn!(%error, "a proxy that does not run cannot be removed");
            }
        } else {
            text.push_str("; `eclusa up` makes it anew");
        }
        if !log.is_empty() {
            text.push_str("; the last lines of its log:\n");
            text.push_str(&log);
        }
        BackendError::Proxy(text)
    }
}

fn too_slow() -> BackendError {
    BackendError::Proxy(format!(
        "was being made by others for {} s and did not come up",
        SETTLE_LIMIT.as_secs()
    ))
}

/// How long it is worth to wait, in growing pauses.
struct Patience {
    begun: Instant,
    limit: Duration,
    rounds: u32,
    /// The container that is waited for, in that stage, and since when.
    waited_for: Option<(String, Stage, Instant)>,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Self {
            begun: Instant::now(),
            limit,
            rounds: 0,
            waited_for: None,
        }
    }

    /// How long this container has been waited for in its stage.
    fn with(&mut self, found: &Found) -> Duration {
        match &self.waited_for {
            Some((id, stage, since)) if *id == found.id && *stage == found.stage => since.elapsed(),
            Some(_) | None => {
                self.waited_for = Some((found.id.clone(), found.stage, Instant::now()));
                Duration::ZERO
            }
        }
    }

    /// Waits for 10 ms, then twice as long each time up to a third of a second.
    async fn pause(&mut self) -> Result<(), ()> {
        if self.begun.elapsed() >= self.limit {
            return Err(());
        }
        sleep(Duration::from_millis(10) * 2_u32.pow(self.rounds.min(5))).await;
        self.rounds = self.rounds.saturating_add(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn patience_pauses_longer_and_longer_and_ends() {
        let mut patience = Patience::new(Duration::from_secs(10));
        let mut pauses = Vec::new();
        loop {
            let before = Instant::now();
            if patience.pause().await.is_err() {
                break;
            }
            pauses.push(before.elapsed().as_millis());
        }
        assert_eq!(pauses.first_chunk(), Some(&[10, 20, 40, 80, 160, 320, 320]));
        assert!(patience.begun.elapsed() < Duration::from_secs(11));
    }

    #[tokio::test(start_paused = true)]
    async fn each_container_is_waited_for_anew_and_so_is_each_stage_of_it() {
        let mut patience = Patience::new(Duration::from_secs(10));
        let running = container::tests::found("eclusa-01");
        assert_eq!(patience.with(&running), Duration::ZERO);
        sleep(Duration::from_secs(3)).await;
        assert_eq!(patience.with(&running), Duration::from_secs(3));
        let made = Found {
            stage: Stage::Made,
            ..running.clone()
        };
        assert_eq!(patience.with(&made), Duration::ZERO);
        sleep(Duration::from_secs(3)).await;
        let another = Found {
            id: "decaf".to_owned(),
            ..made
        };
        assert_eq!(patience.with(&another), Duration::ZERO);
    }
}

//! A backend that does nothing but write down what it is asked, and fails where it is told to.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use ipnet::IpNet;
use tokio::sync::Notify;

use crate::launcher::{
    backend::{
        AdminCall, Backend, BackendError, ByteStream, Chunk, Ended, Engine, EngineKind, Image,
        Object, Proxy, Streams, Usage,
    },
    plan::{Labels, Network, Plan, Slot, Volume},
    spec::Pull,
};

/// What goes wrong, and how the command behaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// How long the command runs; for ever where there is none.
    pub(super) runs_for: Option<Duration>,
    pub(super) ended: Ended,
    pub(super) output: Vec<Chunk>,
    /// How many ranges are taken before one is free.
    pub(super) taken_ranges: u32,
    /// How many registrations meet another run's address.
    pub(super) taken_addresses: u32,
    pub(super) fails: Option<&'static str>,
    pub(super) panics: Option<&'static str>,
    pub(super) objects: Vec<Object>,
    /// How many slots can be claimed.
    pub(super) slots: u32,
    /// Whether they are not as they were planned.
    pub(super) are_spoilt: bool,
}

pub(super) struct Fake {
    engine: Engine,
    script: Script,
    calls: Mutex<Vec<String>>,
    killed: Arc<Notify>,
    dead: Arc<Notify>,
    ranges: AtomicU32,
    addresses: AtomicU32,
    slots: AtomicU32,
}

impl Fake {
    pub(super) fn new(script: Script) -> Self {
        Self {
            engine: Engine {
                kind: EngineKind::Docker,
                version: "28.0.0".to_owned(),
                runtime_version: None,
                is_local: true,
                socket: None,
            },
            ranges: AtomicU32::new(script.taken_ranges),
            addresses: AtomicU32::new(script.taken_addresses),
            slots: AtomicU32::new(script.slots),
            script,
            calls: Mutex::default(),
            killed: Arc::default(),
            dead: Arc::default(),
        }
    }

    /// What was asked, in order.
    pub(super) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    fn called(&self, what: &str) -> Result<(), BackendError> {
        self.calls.lock().unwrap().push(what.to_owned());
        let verb = what.split(' ').next().unwrap();
        assert_ne!(self.script.panics, Some(verb), "told to panic");
        if self.script.fails == Some(verb) {
            return Err(BackendError::Gone {
                doing: verb.to_owned(),
                why: "told to".to_owned(),
            });
        }
        Ok(())
    }
}

fn countdown(counter: &AtomicU32) -> bool {
    let down = |left: u32| left.checked_sub(1);
    counter
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, down)
        .is_ok()
}

/// What a run that claims one is told.
const SLOT: &str = r#"{"slot": "01JS", "run": "01JD", "ended": false, "pool": "machine:1000",
    "sources": ["10.231.0.11"], "listener": "10.231.0.10"}"#;

impl Backend for &Fake {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    async fn image(&self, reference: &str, _: Pull) -> Result<Image, BackendError> {
        self.called("image")?;
        Ok(Image {
            id: format!("sha256:{reference}"),
            ..Image::default()
        })
    }

    async fn subnets(&self) -> Result<Vec<IpNet>, BackendError> {
        self.called("subnets").map(|()| Vec::new())
    }

    async fn running_proxy(&self) -> Result<Option<Proxy>, BackendError> {
        self.proxy().await.map(Some)
    }

    async fn proxy(&self) -> Result<Proxy, BackendError> {
        self.called("proxy")?;
        Ok(Proxy {
            id: "proxy".to_owned(),
            name: "eclusa-proxy".to_owned(),
            image: "sha256:proxy".to_owned(),
            hostname: "proxy".to_owned(),
            socket: None,
            config: None,
        })
    }

    async fn admin(&self, _: &Proxy, call: AdminCall<'_>) -> Result<(u16, Bytes), BackendError> {
        self.called(call.method)?;
        if call.method == "PUT" && countdown(&self.addresses) {
            return Ok((409, Bytes::from(r#"{"detail": "another run's"}"#)));
        }
        if call.method == "PUT" && call.body.contains(r#""pool":"machine:1000","profile""#)
            || call.body.contains(r#""pool":"machine:1000","allow""#)
        {
            return Ok(if countdown(&self.slots) {
                (200, Bytes::from(SLOT))
            } else {
                (409, Bytes::from(r#"{"detail": "none is idle"}"#))
            });
        }
        if call.path == "/v1/slots" {
            return Ok((200, Bytes::from("[]")));
        }
        let summary = r#"{"allowed": [], "denied": [], "dns": [], "more": 7}"#;
        Ok((200, Bytes::from(summary)))
    }

    async fn create(&self, plan: &Plan, _: Option<&Proxy>) -> Result<(), BackendError> {
        self.called("create")?;
        match &plan.network {
            Network::Slot(slot) if self.script.are_spoilt => Err(BackendError::NotApplied {
                what: slot.slice.name.clone(),
                planned: "one".to_owned(),
                got: "another".to_owned(),
            }),
            Network::Slice(slice) if countdown(&self.ranges) => {
                Err(BackendError::SubnetTaken(slice.subnet.into()))
            }
            Network::Slice(_) | Network::Slot(_) | Network::None | Network::Named { .. } => Ok(()),
        }
    }

    async fn make_slot(&self, _: &Slot, _: &Labels, _: &Proxy) -> Result<(), BackendError> {
        self.called("make_slot")
    }

    async fn fill(&self, _: &Plan, _: &Volume, _: ByteStream) -> Result<(), BackendError> {
        self.called("fill")
    }

    async fn start(&self, _: &Plan) -> Result<Streams, BackendError> {
        self.called("start")?;
        let output = stream::iter(self.script.output.clone()).map(Ok);
        let (killed, dead) = (Arc::clone(&self.killed), Arc::clone(&self.dead));
        let is_endless = self.script.runs_for.is_none();
        // As an engine does, which tells of a death once somebody has taken what was written.
        let last_words = async move {
            if is_endless {
                killed.notified().await;
            }
            dead.notify_one();
        };
        let last_words = stream::once(last_words).filter_map(async |()| None);
        Ok(Streams {
            output: Box::pin(output.chain(last_words)),
            input: None,
        })
    }

    async fn wait(&self, _: &Plan) -> Result<Ended, BackendError> {
        self.called("wait")?;
        if let Some(time) = self.script.runs_for {
            tokio::time::sleep(time).await;
            return Ok(self.script.ended.clone());
        }
        self.dead.notified().await;
        Ok(Ended {
            exit_code: 137,
            ..Ended::default()
        })
    }

    async fn usage(&self, _: &Plan) -> Result<Usage, BackendError> {
        Ok(Usage { pids: Some(64) })
    }

    async fn kill(&self, _: &Plan) -> Result<(), BackendError> {
        self.called("kill")?;
        self.killed.notify_one();
        Ok(())
    }

    fn collect(&self, _: &Plan, _: &Volume) -> ByteStream {
        let called = self.called("collect");
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.set_size(2);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, "output/answer", &b"42"[..])
            .unwrap();
        let bytes = called.map(|()| Bytes::from(archive.into_inner().unwrap()));
        Box::pin(stream::iter([bytes]))
    }

    async fn remove(&self, _: &Plan, _: Option<&Proxy>) -> Result<(), BackendError> {
        self.called("remove")
    }

    async fn objects(&self) -> Result<Vec<Object>, BackendError> {
        Ok(self.script.objects.clone())
    }

    async fn reap(&self, object: &Object) -> Result<bool, BackendError> {
        self.called(&format!("reap {}", object.id)).map(|()| true)
    }
}

//! The examination: a neighbour that listens, a sandbox that tries, and one that outstays its time.

mod sandboxes;

use std::{io, path::PathBuf};

use serde::Serialize;

use super::{
    Ground, Probe, Versions,
    host::Bait,
    judge::{Finding, Verdict, judge},
};
use crate::launcher::{
    LaunchError, Launcher, Settings, Stop,
    backend::{Backend as _, EngineKind, docker::Docker},
    spec::NetworkChoice,
};

/// Examines one engine.
#[derive(Debug)]
pub struct Doctor {
    launcher: Launcher<Docker>,
    /// A folder for the output of the sandbox, which is empty.
    output: PathBuf,
    image: String,
    network: NetworkChoice,
    ground: Ground,
    is_local: bool,
    versions: Versions,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Examination {
    /// The version of this shape.
    pub schema: u32,
    /// What the sandbox was on.
    pub ground: Ground,
    /// The name of that network, where its user made it.
    pub network: Option<String>,
    /// What it ran on.
    pub versions: Versions,
    /// What is known of these versions.
    pub advice: Vec<String>,
    /// What was not tried, and what holds besides.
    pub notes: Vec<String>,
    /// Whether every boundary held.
    pub held: bool,
    /// Every probe.
    pub probes: Vec<Finding>,
}

/// Why there is no examination.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// A sandbox could not be made.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A sandbox ended in another way than it should.
    #[error("the {which} failed: {why}")]
    Sandbox {
        /// The sandbox.
        which: &'static str,
        /// As its record has it.
        why: String,
    },
    /// This host cannot be asked.
    #[error("failed to look at this host")]
    Host(#[from] io::Error),
}

impl Doctor {
    /// A doctor for the engine behind `docker`, on a private network or on `network`. Our image is
    /// made where the engine lacks it.
    pub async fn new(
        docker: Docker,
        settings: Settings,
        network: Option<String>,
    ) -> Result<Self, DoctorError> {
        let image = docker.own_image().await.map_err(LaunchError::from)?;
        let engine = docker.engine();
        let (ground, network) = match (network, engine.kind) {
            (Some(name), _) => {
                let dangerously_allow = true;
                (
                    Ground::Shared,
                    NetworkChoice::Named {
                        name,
                        dangerously_allow,
                    },
                )
            }
            (None, EngineKind::Docker) => (Ground::Private, NetworkChoice::Egress),
            (None, EngineKind::Podman) => (Ground::None, NetworkChoice::None),
        };
        Ok(Self {
            output: settings
                .state
                .join(format!("doctor-{}", ulid::Ulid::generate())),
            image,
            network,
            ground,
            is_local: engine.is_local,
            versions: Versions::of(engine),
            launcher: Launcher::new(docker, settings),
        })
    }

    /// Makes every probe; `progress` is told what is under way.
    pub async fn examine(
        &self,
        stop: &Stop,
        progress: &dyn Fn(&str),
    ) -> Result<Examination, DoctorError> {
        let bait = Bait::lay().await?;
        let (late, seen) = tokio::join!(
            Box::pin(self.outstay(stop)),
            Box::pin(self.beside_a_neighbour(&bait, stop, progress)),
        );
        let arrivals = bait.lift().await;
        let mut seen = seen?;
        seen.push(late?);
        let probes = self.probes();
        let mut findings = judge(self.ground, &probes, &seen);
        for finding in &mut findings {
            if finding.probe == Probe::HostTcp && arrivals > 0 && finding.verdict == Verdict::Held {
                finding.verdict = Verdict::NotHeld;
                finding.happened = format!("the listener on the host was reached {arrivals} times");
            }
        }
        Ok(Examination {
            schema: 1,
            ground: self.ground,
            network: match &self.network {
                NetworkChoice::Named { name, .. } => Some(name.clone()),
                NetworkChoice::Egress | NetworkChoice::None => None,
            },
            advice: self.versions.advice(),
            versions: self.versions.clone(),
            notes: self.notes(&findings),
            held: findings
                .iter()
                .all(|finding| finding.verdict != Verdict::NotHeld),
            probes: findings,
        })
    }

    /// The probes that are made on such a ground.
    fn probes(&self) -> Vec<Probe> {
        let is_made = |probe: &Probe| match probe {
            Probe::HostTcp | Probe::HostUdp | Probe::EnginePorts | Probe::Ipv6LinkLocal => {
                self.is_local
            }
            Probe::Neighbour | Probe::DnsTypes | Probe::DnsEmbedded => self.ground != Ground::None,
            Probe::ByProxy | Probe::DnsDenied => self.ground == Ground::Private,
            _ => true,
        };
        Probe::ALL.iter().copied().filter(is_made).collect()
    }

    fn notes(&self, findings: &[Finding]) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.is_local {
            notes.push(
                "the engine is on another machine, whose addresses are not known here: run `eclusa \
                 doctor` there to try them"
                    .to_owned(),
            );
        }
        match self.ground {
            Ground::Private => {}
            Ground::Shared => notes.push(
                "what a container's own options give it, the launcher's gave here: a container that \
                 is started by hand has only what it was started with"
                    .to_owned(),
            ),
            Ground::None => notes.push(
                "on Podman a run has no network, so the probes of a private network, of a neighbour \
                 and of the proxy were not made"
                    .to_owned(),
            ),
        }
        if findings
            .iter()
            .any(|finding| finding.verdict == Verdict::Open)
        {
            notes.push(
                "a shared bridge leaves open that sandboxes reach each other; only `eclusa run` \
                 gives each a network of its own"
                    .to_owned(),
            );
        }
        notes
    }
}

//! What is made before a command starts: checked input, image, proxy, private network, sandbox.

use std::path::{Path, PathBuf};

use ipnet::{IpNet, Ipv4Net};
use rustix::process::{Resource, getrlimit};

use super::{Execution, advice};
use crate::{
    config::fingerprint,
    launcher::{
        LaunchError,
        backend::{Backend, ByteStream, EngineKind, Image, Proxy},
        input,
        output::Target,
        plan::{Facts, Filter, InputFacts, Network, Plan, PodmanFacts, Slice, plan},
        pool::{self, Claimed},
        slices,
        spec::{Input, NetworkChoice},
        state,
    },
};

/// How many ranges are tried before the pool counts as contended beyond hope.
const SLICE_ATTEMPTS: u32 = 16;

/// What a run needs until its end.
pub(super) struct Ready {
    pub(super) target: Option<Target>,
}

/// Where a run's network is.
pub(super) enum Ground {
    /// It has none of its own.
    None,
    /// Made for it, at this range.
    Own(Ipv4Net),
    /// Made ahead.
    Slot(Claimed),
}

/// The input, checked, and its content where it is copied.
type Given = (Option<InputFacts>, Option<ByteStream>);

impl<B: Backend> Execution<'_, B> {
    pub(super) async fn set_up(&mut self) -> Result<Ready, LaunchError> {
        let (facts, archive) = self.input().await?;
        let target = self
            .spec
            .output
            .as_deref()
            .map(Target::prepare)
            .transpose()?;
        let backend = self.backend;
        let egress = async {
            if self.spec.network != NetworkChoice::Egress {
                return Ok((None, None));
            }
            if pool::is_wanted(self.settings) {
                return Ok((Some(backend.proxy().await?), None));
            }
            let (proxy, subnets) = tokio::try_join!(backend.proxy(), backend.subnets())?;
            Ok((Some(proxy), Some(subnets)))
        };
        let image = backend.image(&self.spec.image, self.spec.pull);
        let (image, (proxy, subnets)) = tokio::try_join!(image, egress)?;
        self.record.image.clone_from(&image.id);
        self.record
            .warnings
            .extend(advice::warnings(self.spec, &image, backend.engine()));
        self.record.proxy = proxy.as_ref().map(|proxy| proxy.name.clone());
        self.proxy = proxy;
        self.clock.mark("prepared");
        if !self.create_at_slot(&image, facts.as_ref()).await? {
            self.create(&image, subnets, facts).await?;
        }
        if let (Some(plan), Some(archive)) = (&self.plan, archive)
            && let Some(volume) = plan.volume_at("/input")
        {
            backend.fill(plan, volume, archive).await?;
        }
        Ok(Ready { target })
    }

    /// Judges the input on a thread of its own: it may be a large tree on a slow disk.
    async fn input(&self) -> Result<Given, LaunchError> {
        let Some(given) = self.spec.input.clone() else {
            return Ok((None, None));
        };
        let engine = self.backend.engine();
        if let (Input::Bind(path), false) = (&given, engine.is_local) {
            return Err(LaunchError::RemoteInput(path.clone()));
        }
        let user = self.spec.user;
        // Security: what the engine listens on, and what is bound into every sandbox.
        let mut guarded = vec![self.settings.state.clone()];
        guarded.extend(engine.socket.clone());
        let judged = tokio::task::spawn_blocking(move || {
            let guarded: Vec<&Path> = guarded.iter().map(PathBuf::as_path).collect();
            Ok(match given {
                Input::Bind(path) => {
                    let path = input::bindable(&path, user, &guarded)?;
                    (Some(InputFacts::Bind(path)), None)
                }
                Input::Copy(path) => {
                    let copy = input::copy(&path, &guarded)?;
                    let facts = InputFacts::Copy {
                        size: copy.size,
                        inodes: copy.inodes,
                    };
                    (Some(facts), Some(copy.archive))
                }
            })
        });
        judged.await.unwrap_or(Err(LaunchError::Panicked))
    }

    /// Makes everything, in another range of the pool where somebody was quicker.
    async fn create(
        &mut self,
        image: &Image,
        used: Option<Vec<IpNet>>,
        input: Option<InputFacts>,
    ) -> Result<(), LaunchError> {
        let is_egress = self.spec.network == NetworkChoice::Egress;
        let mut used = match used {
            None if is_egress => self.backend.subnets().await?,
            known => known.unwrap_or_default(),
        };
        for attempt in 0..SLICE_ATTEMPTS {
            let ground = self.ground(&used, attempt)?;
            let plan = self.plan(image, input.clone(), ground)?;
            let taken = match &plan.network {
                Network::Slice(slice) => Some(slice.subnet),
                Network::None | Network::Slot(_) | Network::Named { .. } => None,
            };
            self.plan = Some(plan);
            let Err(error) = self.make().await else {
                return Ok(());
            };
            match taken {
                Some(subnet) if error.is_contended() && attempt + 1 < SLICE_ATTEMPTS => {
                    self.remove().await;
                    used.push(subnet.into());
                }
                Some(_) | None => return Err(error),
            }
        }
        Err(LaunchError::PoolExhausted(self.settings.pool))
    }

    /// Where a network of the run's own is made, if it has one.
    fn ground(&self, used: &[IpNet], attempt: u32) -> Result<Ground, LaunchError> {
        let range = self.settings.pool;
        match self.spec.network {
            NetworkChoice::Egress => slices::choose(range, used, &self.labels.run, attempt)
                .map(Ground::Own)
                .ok_or(LaunchError::PoolExhausted(range)),
            NetworkChoice::None | NetworkChoice::Named { .. } => Ok(Ground::None),
        }
    }

    pub(super) fn plan(
        &self,
        image: &Image,
        input: Option<InputFacts>,
        ground: Ground,
    ) -> Result<Plan, LaunchError> {
        let (slice, slot) = match ground {
            Ground::None => (None, None),
            Ground::Own(range) => (Some(range), None),
            Ground::Slot(claimed) => (Some(claimed.range), Some(claimed.id)),
        };
        let engine = self.backend.engine();
        let is_local = engine.is_local;
        let mut facts = Facts {
            labels: self.labels,
            image,
            slice,
            slot,
            resolv_conf: None,
            input,
            has_ipv6: pool::has_ipv6(engine),
            podman: None,
        };
        if is_local {
            let draft = plan(self.spec, &facts)?;
            facts.resolv_conf = self.resolv_conf(&draft).map_err(LaunchError::State)?;
            if engine.kind == EngineKind::Podman {
                let podman = self.podman_facts(&draft).map_err(LaunchError::State)?;
                facts.podman = Some(podman);
            }
        }
        Ok(plan(self.spec, &facts)?)
    }

    /// The file that is bound at `/etc/resolv.conf`; its name says its content, so that runs share
    /// it and none needs to remove it.
    fn resolv_conf(&self, plan: &Plan) -> std::io::Result<Option<PathBuf>> {
        let (name, content) = match &plan.network {
            Network::None => (
                "none".to_owned(),
                "# this sandbox has no network\n".to_owned(),
            ),
            Network::Slice(slice) => resolver(slice),
            Network::Slot(slot) => resolver(&slot.slice),
            Network::Named { .. } => return Ok(None),
        };
        let path = self.settings.state.join("resolv").join(name + ".conf");
        state::place(&path, &content)?;
        Ok(Some(path))
    }

    /// The files that Podman takes, whose names say their content likewise, and this machine's
    /// limit, which is its own.
    fn podman_facts(&self, plan: &Plan) -> std::io::Result<PodmanFacts> {
        let folder = &self.settings.state;
        let seccomp = match &plan.sandbox.seccomp {
            Filter::File(path) => path.clone(),
            Filter::Inline(filter) => {
                let name = fingerprint(filter.as_bytes()) + ".json";
                let path = folder.join("seccomp").join(name);
                state::place(&path, filter)?;
                path
            }
        };
        let hosts = folder.join("hosts").join(&plan.sandbox.hostname);
        let names = format!("127.0.0.1 localhost {}\n", plan.sandbox.hostname);
        state::place(&hosts, &names)?;
        Ok(PodmanFacts {
            seccomp,
            hosts,
            nproc: most_processes()?,
        })
    }

    /// Makes what the plan says, and registers the run meanwhile.
    pub(super) async fn make(&mut self) -> Result<(), LaunchError> {
        let Some(plan) = &self.plan else {
            return Ok(());
        };
        let proxy: Option<&Proxy> = self.proxy.as_ref();
        let create = async { Ok(self.backend.create(plan, proxy).await?) };
        // Who claimed a slot is registered already.
        let registration = plan.registration.as_ref().filter(|_| !self.registered);
        self.registered |= registration.is_some();
        let register = async {
            match self.registered_run().zip(registration) {
                Some((run, registration)) => Ok(run.put(registration).await?),
                None => Ok(()),
            }
        };
        // Neither is given up half-way: what an engine is making can only be removed once it is
        // made.
        let (created, registered) = tokio::join!(create, register);
        created.and(registered)
    }
}

/// The name of a resolver's file, and its content.
fn resolver(slice: &Slice) -> (String, String) {
    let content = format!("nameserver {}\noptions timeout:5 attempts:2\n", slice.proxy);
    (slice.proxy.to_string(), content)
}

/// The most processes that a user can have: as many as may be allowed here, and as the kernel has
/// numbers for (proc_sys_kernel(5)).
fn most_processes() -> std::io::Result<u64> {
    let numbers = std::fs::read_to_string("/proc/sys/kernel/pid_max")?;
    let numbers = numbers.trim().parse().map_err(std::io::Error::other)?;
    let allowed = getrlimit(Resource::Nproc).maximum;
    Ok(allowed.map_or(numbers, |allowed| allowed.min(numbers)))
}

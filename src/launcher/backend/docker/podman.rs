//! Podman's dialect of the API: what it is told otherwise than Docker, what its reports say
//! otherwise, and what it is not trusted with.
//!
//! Held against 4.3. It reports neither kernel settings nor hidden paths nor the cgroup namespace of
//! a container, and tells one IPC namespace not from another; that these hold is proven from inside,
//! by `tests/sandbox/podman.rs`.

mod report;

use std::{os::unix::ffi::OsStrExt, path::PathBuf};

use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType};

pub(super) use self::report::heard;
use super::{
    Docker,
    container::Container,
    error::{CallError, call},
};
use crate::launcher::{
    backend::{BackendError, EngineKind},
    plan::{self as planned, MountSource, Network, Plan},
};

/// How it mounts a volume: unlike Docker it gives one its own flags, without `noexec` unless asked.
const VOLUME_FLAGS: &str = "noexec,nosuid,nodev,nocopy";

/// And a path: without what is mounted below it.
const BIND_FLAGS: &str = "bind,rprivate";

impl Docker {
    /// Refuses what Podman cannot do or has not been proven to; whatever Docker is told, it does.
    pub(super) async fn check_podman(&self, plan: &Plan) -> Result<(), BackendError> {
        if self.engine.kind == EngineKind::Docker {
            return Ok(());
        }
        if plan.network != Network::None {
            return self.refuse_networks();
        }
        if let Some(path) = plan.sandbox.mounts.iter().find_map(unsayable) {
            return unsupported(&format!(
                "{} has a comma and a colon in it, which Podman's API cannot say; use --input-copy",
                path.display()
            ));
        }
        if !self.engine.is_local {
            return unsupported(
                "Podman takes the system call filter only as a path of its own host; name the \
                 socket of one on this machine, or use Docker",
            );
        }
        let info = call(self.client.info()).await;
        let info = info.map_err(|error| error.during("ask what Podman is"))?;
        let options = info.security_options.unwrap_or_default();
        if options.iter().any(|option| option == "name=rootless") {
            return unsupported(
                "Podman without root mounts no volume in memory, and has no other cap on the \
                 number of files; use the machine's (unix:///run/podman/podman.sock), or Docker",
            );
        }
        Ok(())
    }

    /// Refuses networks on Podman: its bridges give the host an address on each of them.
    pub(super) fn refuse_networks(&self) -> Result<(), BackendError> {
        match self.engine.kind {
            EngineKind::Docker => Ok(()),
            EngineKind::Podman => unsupported(
                "on Podman a sandbox has no network yet: that a private one keeps the host out of \
                 reach is not proven there; leave out --allow, --profile and --network, or use \
                 Docker (--host unix:///var/run/docker.sock)",
            ),
        }
    }
}

fn unsupported(why: &str) -> Result<(), BackendError> {
    Err(BackendError::Unsupported(why.to_owned()))
}

/// Why a container was not made; without an init there is none, and Podman's is another package.
pub(super) fn not_created(name: &str, error: CallError) -> BackendError {
    if error.says("container-init binary not found") {
        return BackendError::Unsupported(
            "Podman has no init for a sandbox; install the package catatonit on its machine"
                .to_owned(),
        );
    }
    error.during(format!("create container {name}"))
}

/// A container as Podman is told of it.
pub(super) fn told(container: &Container) -> ContainerCreateBody {
    let mut body = container.body.clone();
    // Security: a name alone would bring the variable of Podman's own environment in, and keeps the
    // image's; an empty one stands over both.
    for variable in body.env.iter_mut().flatten() {
        if !variable.contains('=') {
            variable.push('=');
        }
    }
    if let Some(host) = &mut body.host_config {
        tell_host(host);
    }
    body
}

fn tell_host(host: &mut HostConfig) {
    let mounts = host.mounts.take().into_iter().flatten();
    let (long, short): (Vec<Mount>, Vec<Mount>) = mounts.partition(|mount| {
        let source = mount.source.as_deref().unwrap_or_default();
        source.contains(':')
    });
    host.mounts = Some(long);
    host.binds = Some(short.iter().map(bind).collect());
    // It reads no list of hidden paths but this one, to which it adds its own.
    let masked = host.masked_paths.iter().flatten();
    let masked: Vec<&str> = masked.map(String::as_str).collect();
    let options = host.security_opt.get_or_insert_default();
    options.push(format!("mask={}", masked.join(":")));
}

/// A path in which neither form can be told: the long one ends a field at a comma, the short one at
/// a colon.
fn unsayable(mount: &planned::Mount) -> Option<&PathBuf> {
    match &mount.source {
        MountSource::Bind(path) => {
            let bytes = path.as_os_str().as_bytes();
            (bytes.contains(&b',') && bytes.contains(&b':')).then_some(path)
        }
        MountSource::Volume(_) => None,
    }
}

/// The short form, `SOURCE:TARGET:FLAG,FLAG`; only it takes flags for a volume.
fn bind(mount: &Mount) -> String {
    let source = mount.source.as_deref().unwrap_or_default();
    let target = mount.target.as_deref().unwrap_or_default();
    let access = match mount.read_only {
        Some(true) => "ro",
        Some(false) | None => "rw",
    };
    let flags = match mount.typ {
        Some(MountType::VOLUME) => VOLUME_FLAGS,
        _ => BIND_FLAGS,
    };
    format!("{source}:{target}:{access},{flags}")
}

#[cfg(test)]
mod tests;

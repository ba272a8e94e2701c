//! The file systems of a sandbox: what is in memory, what is mounted, and who keeps it.

use std::collections::BTreeMap;

use super::{
    Facts, Holder, InputFacts, Mount, MountSource, Network, Plan, PlanError, Tmpfs, Volume,
    build::owned,
    hardening::{self, MASKED_PATHS, READONLY_PATHS},
};
use crate::{
    launcher::spec::{Limits, RunSpec, User},
    record::RunId,
};

/// Whose the volumes are that the launcher fills or empties.
const ROOT: User = User { uid: 0, gid: 0 };

/// The size of a file system that only covers what would else stand there, in bytes.
const COVER: u64 = 1024 * 1024;

/// The volumes by where they are mounted.
pub(super) fn volumes(spec: &RunSpec, facts: &Facts<'_>) -> BTreeMap<&'static str, Volume> {
    let run = &facts.labels.run;
    let mut volumes = BTreeMap::new();
    if let Some(InputFacts::Copy { size, inodes }) = facts.input {
        let volume = Volume {
            name: format!("eclusa-input-{run}"),
            size,
            inodes,
            mode: 0o755,
            owner: ROOT,
        };
        volumes.insert("/input", volume);
    }
    // A slot has its own.
    if spec.output.is_some() && facts.slot.is_none() {
        volumes.insert("/output", output(run, spec.limits.output));
    }
    volumes
}

/// The volume at `/output` of a run or a slot.
pub(super) fn output(of: &RunId, size: u64) -> Volume {
    Volume {
        name: format!("eclusa-output-{of}"),
        size,
        inodes: hardening::inodes(size),
        mode: 0o1777,
        owner: ROOT,
    }
}

/// Who keeps the volumes of a run or a slot, by where they are mounted.
pub(super) fn holder<'a>(
    of: &RunId,
    limits: &Limits,
    volumes: impl IntoIterator<Item = (&'static str, &'a Volume)>,
) -> Holder {
    let volumes = volumes.into_iter();
    Holder {
        name: format!("eclusa-holder-{of}"),
        volumes: volumes
            .map(|(target, volume)| (volume.name.clone(), target.to_owned()))
            .collect(),
        ulimits: hardening::ulimits(limits),
        masked_paths: owned(MASKED_PATHS),
        readonly_paths: owned(READONLY_PATHS),
        namespace: None,
    }
}

/// The file systems in memory; `mounts` is what stands elsewhere already.
pub(super) fn tmpfs(
    spec: &RunSpec,
    facts: &Facts<'_>,
    mounts: &[Mount],
) -> Result<Vec<Tmpfs>, PlanError> {
    let of = |target: &str, size: u64| Tmpfs {
        target: target.to_owned(),
        size,
        inodes: hardening::inodes(size),
    };
    let mut tmpfs = vec![
        // Security: the engine's own has a size, but as many files as memory holds, and a million
        // of them take a kernel seconds to remove.
        of("/dev/shm", hardening::SHM.min(spec.limits.memory)),
        of("/workspace", spec.limits.workspace),
        of("/tmp", spec.limits.tmp),
    ];
    // Security: unhandled, an image's VOLUME is an unbounded directory of the host's disk from which
    // programs can be run.
    for path in &facts.image.volumes {
        let path = volume_path(path)?;
        let is_mounted = mounts.iter().any(|mount| mount.target == path);
        if !is_mounted && tmpfs.iter().all(|known| known.target != path) {
            tmpfs.push(of(&path, spec.limits.tmp));
        }
    }
    Ok(tmpfs)
}

/// The file systems in memory of a plan as volumes and their mounts; and over each of `covered`
/// where nothing stands yet one that only root may write.
pub(super) fn in_volumes(plan: &Plan, covered: &[&str]) -> (Vec<Volume>, Vec<Mount>) {
    let Plan { run, sandbox, .. } = plan;
    let is_free = |target: &&&str| {
        let mut mounts = sandbox.mounts.iter().map(|mount| &mount.target);
        let mut tmpfs = sandbox.tmpfs.iter().map(|tmpfs| &tmpfs.target);
        mounts.all(|taken| taken != **target) && tmpfs.all(|taken| taken != **target)
    };
    let tmpfs = sandbox.tmpfs.iter().cloned();
    let tmpfs = tmpfs.map(|tmpfs| (tmpfs, 0o1777, sandbox.user));
    let covers = covered.iter().filter(is_free).map(|target| Tmpfs {
        target: (*target).to_owned(),
        size: COVER,
        inodes: hardening::inodes(COVER),
    });
    let all = tmpfs.chain(covers.map(|tmpfs| (tmpfs, 0o755, ROOT)));
    all.enumerate()
        .map(|(at, (tmpfs, mode, owner))| {
            let name = format!("eclusa-memory-{at}-{run}");
            let Tmpfs {
                target,
                size,
                inodes,
            } = tmpfs;
            let mount = Mount {
                source: MountSource::Volume(name.clone()),
                target,
                read_only: false,
            };
            let volume = Volume {
                name,
                size,
                inodes,
                mode,
                owner,
            };
            (volume, mount)
        })
        .unzip()
}

/// The path of an image's volume in its plain spelling.
fn volume_path(path: &str) -> Result<String, PlanError> {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    let forbidden = ["proc", "sys", "dev"];
    let is_plain = path.starts_with('/')
        && !path.contains(['\0', ',', ':'])
        && !parts.contains(&"..")
        && parts
            .first()
            .is_some_and(|first| !forbidden.contains(first));
    if !is_plain {
        return Err(PlanError::ImageVolume(path.to_owned()));
    }
    Ok(format!("/{}", parts.join("/")))
}

/// What is mounted from outside.
pub(super) fn mounts(spec: &RunSpec, facts: &Facts<'_>, network: &Network) -> Vec<Mount> {
    let mut mounts = Vec::new();
    let read_only = |source, target: &str| Mount {
        source,
        target: target.to_owned(),
        read_only: true,
    };
    match network {
        Network::None | Network::Slice(_) | Network::Slot(_) => {
            if let Some(path) = &facts.resolv_conf {
                mounts.push(read_only(
                    MountSource::Bind(path.clone()),
                    "/etc/resolv.conf",
                ));
            }
        }
        Network::Named { .. } => {}
    }
    match &facts.input {
        Some(InputFacts::Bind(path)) => {
            mounts.push(read_only(MountSource::Bind(path.clone()), "/input"));
        }
        Some(InputFacts::Copy { .. }) => {
            let name = format!("eclusa-input-{}", facts.labels.run);
            mounts.push(read_only(MountSource::Volume(name), "/input"));
        }
        None => {}
    }
    if spec.output.is_some() {
        let of = facts.slot.as_ref().unwrap_or(&facts.labels.run);
        mounts.push(Mount {
            source: MountSource::Volume(format!("eclusa-output-{of}")),
            target: "/output".to_owned(),
            read_only: false,
        });
    }
    mounts
}

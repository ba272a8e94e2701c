//! What the sandboxes run on, and which of it is known to let them out.

use serde::Serialize;

use crate::launcher::{
    backend::{Engine, EngineKind},
    runtime_escapes,
};

/// What the sandboxes run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Versions {
    /// The engine and its version.
    pub engine: String,
    /// The version of its default runtime, where it says so.
    pub runtime: Option<String>,
    /// The kernel's release, where the engine is on this machine.
    pub kernel: Option<String>,
}

/// Releases of Docker whose resolver lets names out of an internal network (CVE-2024-29018): the
/// first without it of each major version that has one.
const FIXED_RESOLVER: &[[u32; 3]] = &[[23, 0, 11], [25, 0, 4]];
const ALL_FIXED_FROM: u32 = 26;

/// Releases of Linux without Dirty Pipe (CVE-2022-0847), which came with 5.8.
const FIXED_PIPES: &[[u32; 3]] = &[[5, 10, 102], [5, 15, 25], [5, 16, 11]];

impl Versions {
    /// Those of an engine.
    pub(super) fn of(engine: &Engine) -> Self {
        let name = match engine.kind {
            EngineKind::Docker => "Docker",
            EngineKind::Podman => "Podman",
        };
        let kernel = rustix::system::uname();
        let kernel = kernel.release().to_string_lossy().into_owned();
        Self {
            engine: format!("{name} {}", engine.version),
            runtime: engine.runtime_version.clone(),
            kernel: engine.is_local.then_some(kernel),
        }
    }

    /// What is known of them, in words.
    pub(super) fn advice(&self) -> Vec<String> {
        let runtime = self.runtime.as_deref().and_then(runtime_escapes);
        let docker = self.engine.strip_prefix("Docker ");
        let resolver = docker.filter(|version| lets_names_out(version)).map(|version| {
            format!(
                "Docker {version} may look names up outside for an internal network \
                 (CVE-2024-29018), which the probes of DNS would show; update it to 23.0.11, 25.0.4, \
                 26.0.0 or later"
            )
        });
        let kernel = self
            .kernel
            .as_deref()
            .filter(|release| has_dirty_pipe(release));
        let kernel = kernel.map(|release| {
            format!(
                "Linux {release} has a known escape (CVE-2022-0847); update it to 5.10.102, 5.15.25, \
                 5.16.11 or later, unless your distribution has fixed it"
            )
        });
        [runtime, resolver, kernel].into_iter().flatten().collect()
    }
}

fn lets_names_out(version: &str) -> bool {
    let [major, minor, patch] = numbers(version);
    let fixed = FIXED_RESOLVER
        .iter()
        .find(|fixed| fixed.starts_with(&[major]));
    match fixed {
        Some(fixed) => [major, minor, patch] < *fixed,
        None => major < ALL_FIXED_FROM,
    }
}

fn has_dirty_pipe(release: &str) -> bool {
    let version = numbers(release);
    let [major, minor, _] = version;
    let fixed = FIXED_PIPES
        .iter()
        .find(|fixed| fixed.starts_with(&[major, minor]));
    match fixed {
        Some(fixed) => version < *fixed,
        None => ([5, 8, 0]..[5, 17, 0]).contains(&version),
    }
}

/// The first three numbers of a version; what is not there is 0.
fn numbers(version: &str) -> [u32; 3] {
    let mut parts = version
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse().unwrap_or_default());
    [(); 3].map(|()| parts.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_docker_whose_resolver_lets_names_out_are_known() {
        for (version, expected) in [
            ("20.10.24+dfsg1", true),
            ("23.0.10", true),
            ("23.0.11", false),
            ("24.0.9", true),
            ("25.0.3", true),
            ("25.0.4", false),
            ("26.0.0", false),
            ("28.5.2", false),
        ] {
            assert_eq!(lets_names_out(version), expected, "{version}");
        }
    }

    #[test]
    fn kernels_with_a_known_escape_are_known() {
        for (release, expected) in [
            ("5.7.19", false),
            ("5.8.0", true),
            ("5.10.101-1-amd64", true),
            ("5.10.102", false),
            ("5.16.10", true),
            ("5.17.0", false),
            ("6.1.0-40-amd64", false),
            ("4.18.0-553.el8", false),
        ] {
            assert_eq!(has_dirty_pipe(release), expected, "{release}");
        }
    }

    #[test]
    fn advice_names_what_is_known_to_leak() {
        let versions = Versions {
            engine: "Docker 20.10.24".to_owned(),
            runtime: Some("1.1.5".to_owned()),
            kernel: Some("5.8.1".to_owned()),
        };
        let advice = versions.advice();
        for (told, named) in advice
            .iter()
            .zip(["runc 1.1.5", "CVE-2024-29018", "CVE-2022-0847"])
        {
            assert!(told.contains(named), "{told}");
        }
        assert_eq!(advice.len(), 3);
        let versions = Versions {
            engine: "Podman 5.2.0".to_owned(),
            runtime: None,
            kernel: None,
        };
        assert_eq!(versions.advice(), Vec::<String>::new());
    }
}

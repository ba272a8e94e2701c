//! What a caller should know although the run goes on.

use crate::launcher::{
    backend::{Engine, EngineKind, Image},
    spec::{NetworkChoice, RunSpec, looks_like_a_credential},
};

/// The releases of runc that close the escapes of November 2025 (CVE-2025-31133, CVE-2025-52565,
/// CVE-2025-52881), by their minor version.
const FIXED_RUNC: &[[u32; 3]] = &[[1, 2, 8], [1, 3, 3], [1, 4, 0]];

/// Warnings on what was asked for and where it runs.
pub(super) fn warnings(spec: &RunSpec, image: &Image, engine: &Engine) -> Vec<String> {
    let mut warnings = Vec::new();
    if !is_pinned(&spec.image) {
        warnings.push(format!(
            "image {} is not pinned: another one may bear that name tomorrow; name it as {}",
            spec.image, image.id
        ));
    }
    for (name, value) in &image.env {
        if let Some(why) = looks_like_a_credential(name, value) {
            warnings.push(format!(
                "the image holds a credential in its environment, {name} ({why}); it is not passed \
                 on, but whoever has the image has it"
            ));
        }
    }
    warnings.extend(engine.runtime_version.as_deref().and_then(runtime_escapes));
    if engine.kind == EngineKind::Podman && is_silent_on_memory(&engine.version) {
        warnings.push(format!(
            "Podman {} does not say when the kernel kills for memory (5.0 does): such an end reads \
             as exit code 137 and no more",
            engine.version
        ));
    }
    if spec.dangerously_run_as_root {
        warnings.push(
            "--dangerously-run-as-root is in force: among others it can write and execute in /dev, \
             which is in memory and up to 64 MiB"
                .to_owned(),
        );
    }
    if spec.dangerously_allow_secret_env {
        warnings.push("--dangerously-allow-secret-env is in force".to_owned());
    }
    if let NetworkChoice::Named {
        dangerously_allow: true,
        ..
    } = spec.network
    {
        warnings.push("--dangerously-allow-network is in force".to_owned());
    }
    warnings
}

/// What is known of a release of runc that lets a sandbox out.
pub fn runtime_escapes(version: &str) -> Option<String> {
    is_escapable(version).then(|| {
        format!(
            "runc {version} has known escapes (CVE-2025-31133, CVE-2025-52565, CVE-2025-52881); \
             update it to 1.2.8, 1.3.3, 1.4.0 or later, unless your distribution has fixed it"
        )
    })
}

/// Whether a reference names one image for ever: by digest, or by id.
fn is_pinned(reference: &str) -> bool {
    let hex = reference
        .rsplit_once("sha256:")
        .map_or(reference, |(_, hex)| hex);
    hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Before 5.0 Podman looks for the word of its monitor where that does not leave it.
fn is_silent_on_memory(version: &str) -> bool {
    let major = version.split('.').next().unwrap_or_default();
    major.parse::<u32>().is_ok_and(|major| major < 5)
}

fn is_escapable(version: &str) -> bool {
    let digits = version.split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<u32> = digits
        .take(3)
        .filter_map(|part| part.parse().ok())
        .collect();
    let [major, minor, patch] = numbers.as_slice() else {
        return false;
    };
    let fixed = FIXED_RUNC
        .iter()
        .find(|fixed| fixed.starts_with(&[*major, *minor]));
    match fixed {
        Some([_, _, fixed]) => patch < fixed,
        None => (*major, *minor) < (1, 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_pinned_by_digest_or_id() {
        let hex = "0".repeat(64);
        for (reference, expected) in [
            (format!("registry.example.com/a@sha256:{hex}"), true),
            (format!("sha256:{hex}"), true),
            (hex, true),
            ("a:latest".to_owned(), false),
            ("a@sha256:00".to_owned(), false),
        ] {
            assert_eq!(is_pinned(&reference), expected, "{reference}");
        }
    }

    #[test]
    fn podman_says_when_the_kernel_kills_from_5_0_on() {
        for (version, expected) in [("4.9.4", true), ("5.0.0", false), ("5.8.1-rc1", false)] {
            assert_eq!(is_silent_on_memory(version), expected, "{version}");
        }
    }

    #[test]
    fn runtimes_with_known_escapes_are_named() {
        for (version, expected) in [
            ("1.1.5+ds1", true),
            ("1.2.7", true),
            ("1.2.8", false),
            ("1.3.2", true),
            ("1.3.3+ds", false),
            ("1.4.0", false),
            ("2.0.0", false),
            ("unknown", false),
        ] {
            assert_eq!(is_escapable(version), expected, "{version}");
        }
    }
}

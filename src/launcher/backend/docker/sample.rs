//! Plans with everything that a plan can have, for tests.

use std::path::PathBuf;

use crate::launcher::{
    backend::Image,
    plan::{Facts, InputFacts, Labels, Plan, PodmanFacts, plan},
    spec::{Input, NetworkChoice, RunSpec, Seccomp},
};

/// On a slice, with an input that is bound, an output, standard input, and an image with a volume
/// and an environment.
pub(super) fn plan_with_everything() -> Plan {
    planned(NetworkChoice::Egress, None)
}

/// The same for Podman, so without a network.
pub(super) fn plan_for_podman() -> Plan {
    let podman = PodmanFacts {
        seccomp: PathBuf::from("/srv/seccomp.json"),
        hosts: PathBuf::from("/srv/hosts"),
        nproc: 32768,
    };
    planned(NetworkChoice::None, Some(podman))
}

fn planned(network: NetworkChoice, podman: Option<PodmanFacts>) -> Plan {
    let spec = RunSpec {
        network,
        input: Some(Input::Bind(PathBuf::from("/srv/input"))),
        output: Some(PathBuf::from("out")),
        seccomp: Seccomp::Custom(r#"{"defaultAction":"SCMP_ACT_ALLOW"}"#.to_owned()),
        stdin: true,
        ..RunSpec::new("sample", ["/bin/sh", "-c", "exit 0"])
    };
    let labels = Labels {
        image: "sample".to_owned(),
        ..Labels::sample()
    };
    let variable = |name: &str| (name.to_owned(), "x".to_owned());
    let image = Image {
        id: "sha256:00".to_owned(),
        env: vec![variable("FOO"), variable("BAZ")],
        volumes: vec!["/data".to_owned()],
    };
    let facts = Facts {
        labels: &labels,
        image: &image,
        slice: Some("10.240.0.0/29".parse().unwrap()),
        slot: None,
        resolv_conf: Some(PathBuf::from("/srv/resolv.conf")),
        input: Some(InputFacts::Bind(PathBuf::from("/srv/input"))),
        has_ipv6: true,
        podman,
    };
    plan(&spec, &facts).unwrap()
}

use std::path::PathBuf;

use super::*;
use crate::launcher::{
    backend::docker::sample::plan_with_everything,
    plan::{Mount, MountSource},
};

/// The request as an operator would read it: JSON with sorted keys.
fn shown(container: &Container) -> String {
    let body = serde_json::to_value(&container.body).unwrap();
    format!("{}\n{body:#}", container.name)
}

#[test]
fn a_sandbox_states_every_field_that_it_could_inherit() {
    insta::assert_snapshot!(shown(&sandbox(&plan_with_everything()).unwrap()));
}

#[test]
fn a_holder_has_no_network_and_no_privilege() {
    let plan = plan_with_everything();
    let holder = holder(&plan, plan.holder.as_ref().unwrap(), "sha256:11").unwrap();
    insta::assert_snapshot!(shown(&holder));
}

#[test]
fn each_kind_of_network_has_its_mode_and_endpoints() {
    let named = Network::Named {
        name: "shared".to_owned(),
        dangerously_allow: false,
    };
    let slice = plan_with_everything().network;
    for (network, mode, address) in [
        (Network::None, "none", None),
        (named, "shared", Some(None)),
        (slice, "agent-egress-01JD", Some(Some("10.240.0.3"))),
    ] {
        let (got, endpoints) = attachment(&network);
        assert_eq!(got, mode);
        let fixed = endpoints.get(mode).map(|endpoint| {
            let config = endpoint.ipam_config.as_ref();
            config.and_then(|config| config.ipv4_address.as_deref())
        });
        assert_eq!(fixed, address, "{mode}");
        assert_eq!(endpoints.len(), usize::from(address.is_some()), "{mode}");
    }
}

#[test]
fn what_the_api_cannot_say_is_refused() {
    use std::os::unix::ffi::OsStringExt;

    let odd = PathBuf::from(std::ffi::OsString::from_vec(b"/srv/\xff".to_vec()));
    let mut plan = plan_with_everything();
    plan.sandbox.mounts.push(Mount {
        source: MountSource::Bind(odd),
        target: "/odd".to_owned(),
        read_only: true,
    });
    let error = sandbox(&plan).unwrap_err().to_string();
    assert!(error.contains("is not UTF-8"), "{error}");

    let mut plan = plan_with_everything();
    plan.sandbox.memory = u64::MAX;
    let error = sandbox(&plan).unwrap_err().to_string();
    assert!(
        error.starts_with("memory 18446744073709551615 is more"),
        "{error}"
    );
}

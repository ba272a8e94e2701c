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
    let holder = holder(&plan.labels, plan.holder.as_ref().unwrap(), "sha256:11").unwrap();
    insta::assert_snapshot!(shown(&holder));
}

fn slot() -> crate::launcher::plan::Slot {
    let id = crate::record::RunId::parse("01JS").unwrap();
    crate::launcher::plan::slot(&id, "10.240.0.0/29".parse().unwrap(), true).unwrap()
}

#[test]
fn the_holder_of_a_slot_has_its_address_and_nothing_else_besides() {
    let labels = plan_with_everything().labels;
    insta::assert_snapshot!(shown(
        &holder(&labels, &slot().holder, "sha256:11").unwrap()
    ));
}

#[test]
fn a_sandbox_joins_the_holder_that_was_checked() {
    let plan = Plan {
        network: Network::Slot(slot().into()),
        ..plan_with_everything()
    };
    let joined = sandbox(&plan).unwrap().joining("0123456789abcdef");
    let host = joined.body.host_config.as_ref().unwrap();
    let mode = host.network_mode.as_deref();
    assert_eq!(mode, Some("container:0123456789abcdef"));
    assert_eq!(joined.body.hostname, None);
    let made = joined.made_as("fedcba9876543210");
    assert_eq!(made.body.hostname.as_deref(), Some("fedcba987654"));
    // One of its own stands.
    let own = sandbox(&plan_with_everything()).unwrap();
    assert_eq!(own.made_as("fedcba9876543210"), own);
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
        (
            Network::Slot(slot().into()),
            "container:eclusa-holder-01JS",
            None,
        ),
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

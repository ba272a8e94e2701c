use bollard::models::EndpointResource;

use super::*;
use crate::launcher::{backend::docker::sample::plan_with_everything, plan::Network};

type Change = fn(&mut NetworkInspect);

fn engine(kind: EngineKind, version: &str) -> Engine {
    Engine {
        kind,
        version: version.to_owned(),
        runtime_version: None,
        is_local: true,
        socket: None,
    }
}

fn proxy() -> Proxy {
    Proxy {
        id: "0123".to_owned(),
        name: "eclusa-proxy".to_owned(),
        image: "sha256:00".to_owned(),
        hostname: "0123".to_owned(),
        socket: None,
        config: None,
    }
}

fn asked(engine: &Engine) -> (Slice, NetworkCreateRequest) {
    let plan = plan_with_everything();
    let Network::Slice(slice) = &plan.network else {
        panic!("the sample is on a slice");
    };
    (slice.clone(), slice_request(&plan.labels, slice, engine))
}

/// What an engine reports that did all of it.
fn report(asked: &NetworkCreateRequest) -> NetworkInspect {
    let member = EndpointResource {
        ipv4_address: Some("10.240.0.2/29".to_owned()),
        ..EndpointResource::default()
    };
    NetworkInspect {
        name: Some(asked.name.clone()),
        driver: asked.driver.clone(),
        internal: asked.internal,
        enable_ipv6: Some(false),
        ipam: asked.ipam.clone(),
        options: asked.options.clone(),
        labels: asked.labels.clone(),
        containers: Some(HashMap::from([("0123".to_owned(), member)])),
        ..NetworkInspect::default()
    }
}

#[test]
fn a_slice_keeps_the_host_off_it_in_every_way_that_the_engine_knows() {
    for (kind, version, isolated) in [
        (EngineKind::Docker, "20.10.24+dfsg1", false),
        (EngineKind::Docker, "27.5.1", false),
        (EngineKind::Docker, "28.0.0", true),
        (EngineKind::Docker, "29.1.0-rc.1", true),
        (EngineKind::Docker, "dev", false),
        (EngineKind::Podman, "28.0.0", false),
    ] {
        let (_, request) = asked(&engine(kind, version));
        let mut expected = HashMap::from([(INHIBIT.to_owned(), "true".to_owned())]);
        if isolated {
            expected.insert(GATEWAY_MODE.to_owned(), "isolated".to_owned());
        }
        assert_eq!(request.options, Some(expected), "{version}");
        assert_eq!(request.internal, Some(true));
        assert_eq!(request.enable_ipv6, Some(false));
    }
}

#[test]
fn a_slice_that_is_not_as_asked_is_refused_and_the_field_named() {
    let (slice, request) = asked(&engine(EngineKind::Docker, "28.5.2"));
    let proxy = proxy();
    let members = [(&*proxy.id, slice.proxy)];
    hold(&slice, &request, &report(&request), &members).unwrap();
    let changes: [(&str, Change); 10] = [
        ("Name", |got| got.name = Some("other".to_owned())),
        ("Driver", |got| got.driver = Some("macvlan".to_owned())),
        ("Internal", |got| got.internal = Some(false)),
        ("EnableIPv6", |got| got.enable_ipv6 = Some(true)),
        ("IPAM", |got| got.ipam = None),
        ("Options", |got| {
            got.options.as_mut().unwrap().remove(INHIBIT);
        }),
        ("Options", |got| {
            got.options.as_mut().unwrap().remove(GATEWAY_MODE);
        }),
        ("Labels", |got| got.labels = None),
        ("members", |got| got.containers = None),
        ("members", |got| {
            let member = EndpointResource::default();
            let members = got.containers.as_mut().unwrap();
            members.insert("4567".to_owned(), member);
        }),
    ];
    for (field, change) in changes {
        let mut got = report(&request);
        change(&mut got);
        let error = hold(&slice, &request, &got, &members).unwrap_err();
        let expected = format!("did not apply network agent-egress-01JD: {field}:");
        assert!(error.to_string().contains(&expected), "{field}: {error}");
    }
}

#[test]
fn only_an_internal_network_without_the_host_is_joined() {
    let network = |driver: &str, internal: bool, options: &[(&str, &str)]| NetworkInspect {
        name: Some("shared".to_owned()),
        driver: Some(driver.to_owned()),
        internal: Some(internal),
        options: Some(
            options
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        ),
        ..NetworkInspect::default()
    };
    let apart = [(INHIBIT, "true")];
    let isolated = [(GATEWAY_MODE, "isolated")];
    let ipv6 = NetworkInspect {
        enable_ipv6: Some(true),
        ..network("bridge", true, &apart)
    };
    for (network, expected, dangerously) in [
        (network("bridge", true, &apart), "", ""),
        (network("bridge", true, &isolated), "", ""),
        (network("bridge", true, &[]), "the host has an address", ""),
        (
            network("bridge", true, &[(INHIBIT, "false")]),
            "the host has an address",
            "",
        ),
        (
            network("bridge", true, &[(GATEWAY_MODE, "nat")]),
            "the host has an address",
            "",
        ),
        (
            network("macvlan", true, &apart),
            "the host has an address",
            "",
        ),
        (network("bridge", false, &apart), "it is not internal", ""),
        (ipv6, "it has IPv6", ""),
        (network("host", false, &[]), "never joined", "never joined"),
    ] {
        for (allowed, expected) in [(false, expected), (true, dangerously)] {
            match judge("shared", &network, allowed) {
                Ok(()) => assert_eq!(expected, "", "{network:?} {allowed}"),
                Err(why) => {
                    assert!(
                        !expected.is_empty() && why.contains(expected),
                        "{network:?}: {why}"
                    );
                }
            }
        }
    }
    let by_id = judge("0123", &network("bridge", true, &apart), true).unwrap_err();
    assert!(by_id.contains("write shared"), "{by_id}");
}

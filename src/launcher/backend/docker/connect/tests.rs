use bollard::models::SystemVersionComponents;

use super::*;

fn version(api: &str, oldest: &str) -> SystemVersion {
    SystemVersion {
        version: Some("28.5.2".to_owned()),
        api_version: Some(api.to_owned()),
        min_api_version: Some(oldest.to_owned()),
        ..SystemVersion::default()
    }
}

#[test]
fn an_engine_is_named_by_a_socket_or_a_host_and_port() {
    for (host, expected) in [
        ("unix:///run/docker.sock", Ok("unix:///run/docker.sock")),
        ("tcp://192.0.2.1:2375", Ok("tcp://192.0.2.1:2375")),
        (
            "tcp://engine.example.com:2375/",
            Ok("tcp://engine.example.com:2375"),
        ),
        ("http://[2001:db8::1]:2375", Ok("tcp://[2001:db8::1]:2375")),
        ("unix://run/docker.sock", Err("absolute")),
        ("tcp://192.0.2.1", Err("tcp://HOST:PORT")),
        ("tcp://192.0.2.1:0", Err("tcp://HOST:PORT")),
        ("tcp://:2375", Err("tcp://HOST:PORT")),
        ("tcp://user@192.0.2.1:2375", Err("tcp://HOST:PORT")),
        ("tcp://192.0.2.1:2375/v1.41", Err("tcp://HOST:PORT")),
        ("ssh://user@engine.example.com", Err("ssh is not spoken")),
        ("https://engine.example.com", Err("TLS to an engine")),
        (
            "npipe:////./pipe/docker_engine",
            Err("unix:///PATH or tcp://HOST:PORT"),
        ),
        ("/run/docker.sock", Err("unix:///PATH or tcp://HOST:PORT")),
        ("", Err("unix:///PATH or tcp://HOST:PORT")),
    ] {
        let parsed = Endpoint::parse(host);
        match (&parsed, expected) {
            (Ok(endpoint), Ok(expected)) => assert_eq!(endpoint.to_string(), expected),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "{host}: {error}");
            }
            _ => panic!("{host}: {parsed:?}"),
        }
    }
}

#[test]
fn the_first_socket_that_exists_is_the_engine_though_it_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let candidates = [path("docker.sock"), path("podman.sock")];
    let error = Endpoint::first_of(&candidates).unwrap_err().to_string();
    assert!(
        error.contains("docker.sock or ") && error.contains("podman.sock: "),
        "{error}"
    );
    std::fs::write(path("podman.sock"), "").unwrap();
    let found = Endpoint::first_of(&candidates).unwrap();
    assert_eq!(found, Endpoint::Unix(path("podman.sock")));
    std::fs::write(path("docker.sock"), "").unwrap();
    let found = Endpoint::first_of(&candidates).unwrap();
    assert_eq!(found, Endpoint::Unix(path("docker.sock")));
}

#[tokio::test]
async fn what_does_not_answer_is_unreachable_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docker.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let error = Endpoint::Unix(path.clone()).open().await.unwrap_err();
    let BackendError::Unreachable { endpoint, why } = error else {
        panic!("{error}");
    };
    assert_eq!(endpoint, format!("unix://{}", path.display()));
    assert!(why.contains("refused"), "{why}");
}

#[test]
fn the_newest_version_that_both_know_is_spoken() {
    for (api, oldest, expected) in [
        ("1.41", "1.12", Ok("1.41")),
        ("1.45", "1.24", Ok("1.45")),
        ("1.51", "1.24", Ok("1.51")),
        ("1.52", "1.44", Ok("1.51")),
        ("1.40", "1.12", Err("it speaks API 1.40; 1.41 or later")),
        ("1.9", "1.1", Err("it speaks API 1.9; 1.41 or later")),
        (
            "1.60",
            "1.52",
            Err("it speaks API 1.52 and later, eclusa up to 1.51"),
        ),
        ("", "", Err("does not say")),
        ("1", "1", Err("does not say")),
    ] {
        let outcome = negotiate(&version(api, oldest));
        match (&outcome, expected) {
            (Ok(version), Ok(expected)) => assert_eq!(version.to_string(), expected),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "{api}: {error}");
            }
            _ => panic!("{api}: {outcome:?}"),
        }
    }
}

#[test]
fn every_request_names_the_version() {
    for (uri, expected) in [
        (
            "unix://2f61/containers/json?all=true",
            "unix://2f61/v1.44/containers/json?all=true",
        ),
        (
            "http://192.0.2.1:2375/version",
            "http://192.0.2.1:2375/v1.44/version",
        ),
    ] {
        let body = bollard::body_full(bytes::Bytes::new());
        let request = hyper::Request::builder().uri(uri).body(body).unwrap();
        let request = versioned(request, ApiVersion(1, 44));
        assert_eq!(request.uri().to_string(), expected);
    }
}

#[test]
fn podman_is_told_from_docker_by_its_components() {
    let part = |name: &str, version: &str| SystemVersionComponents {
        name: name.to_owned(),
        version: version.to_owned(),
        details: None,
    };
    for (parts, kind, runtime) in [
        (
            vec![part("Engine", "28.5.2"), part("runc", "1.3.6")],
            EngineKind::Docker,
            Some("1.3.6"),
        ),
        (
            vec![
                part("Podman Engine", "5.4.2"),
                part("OCI Runtime (crun)", "crun 1.21"),
            ],
            EngineKind::Podman,
            None,
        ),
        (
            vec![
                part("Podman Engine", "4.3.1"),
                part(
                    "OCI Runtime (runc)",
                    "runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1",
                ),
            ],
            EngineKind::Podman,
            Some("1.1.5+ds1"),
        ),
        (Vec::new(), EngineKind::Docker, None),
    ] {
        let version = SystemVersion {
            components: Some(parts),
            ..version("1.41", "1.12")
        };
        let expected = Engine {
            kind,
            version: "28.5.2".to_owned(),
            runtime_version: runtime.map(str::to_owned),
            is_local: false,
            socket: None,
        };
        let endpoint = Endpoint::Tcp("192.0.2.1:2375".to_owned());
        assert_eq!(endpoint.engine(version), expected);
    }
}

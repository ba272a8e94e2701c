use std::{future, io::Write, net::SocketAddr};

use super::*;

const BUDGET: Duration = Duration::from_secs(5);

#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands in tables beside failures"
)]
fn found(list: &[&str], ttl: u64) -> Result<Found, LookupError> {
    Ok(Found {
        addresses: list
            .iter()
            .map(|address| address.parse().unwrap())
            .collect(),
        ttl: Duration::from_secs(ttl),
    })
}

fn answered(list: &[&str], ttl: u64) -> Result<Answer, LookupError> {
    found(list, ttl).map(|found| answer(found.addresses, found.ttl))
}

fn failed() -> LookupError {
    LookupError::Failed("the resolver answered: Server Failure".to_owned())
}

#[test]
fn both_families_make_one_answer() {
    let (v4, v6) = ("192.0.2.1", "2001:db8::1");
    let no_address = || Err(LookupError::NoAddress);
    for (a, aaaa, expected) in [
        (found(&[v4], 60), found(&[v6], 30), answered(&[v4, v6], 30)),
        (found(&[v4], 60), no_address(), answered(&[v4], 60)),
        (no_address(), found(&[v6], 60), answered(&[v6], 60)),
        (found(&[v4], 60), Err(failed()), answered(&[v4], 30)),
        (
            Err(LookupError::Timeout),
            found(&[v6], 60),
            answered(&[v6], 30),
        ),
        (found(&[v4], 0), Err(failed()), answered(&[v4], 0)),
        (no_address(), no_address(), Err(LookupError::NoAddress)),
        (no_address(), Err(failed()), Err(failed())),
        (Err(failed()), no_address(), Err(failed())),
        (
            Err(LookupError::Timeout),
            no_address(),
            Err(LookupError::Timeout),
        ),
        (Err(failed()), Err(LookupError::Timeout), Err(failed())),
    ] {
        assert_eq!(merge(a.clone(), aaaa.clone()), expected, "{a:?} {aaaa:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_family_that_does_not_answer_is_waited_for_a_second() {
    let late = |ms: u64, result: Result<Found, LookupError>| async move {
        time::sleep(Duration::from_millis(ms)).await;
        result
    };
    let no_address = || Err(LookupError::NoAddress);
    for (a, aaaa, expected, expected_ms) in [
        (
            (100, found(&["192.0.2.1"], 60)),
            (900, found(&["::1"], 60)),
            answered(&["192.0.2.1", "::1"], 60),
            900,
        ),
        (
            (100, found(&["192.0.2.1"], 60)),
            (4_000, found(&["::1"], 60)),
            answered(&["192.0.2.1"], 30),
            1_100,
        ),
        (
            (4_500, found(&["192.0.2.1"], 60)),
            (100, no_address()),
            answered(&["192.0.2.1"], 60),
            4_500,
        ),
        (
            (9_000, no_address()),
            (100, no_address()),
            Err(LookupError::Timeout),
            5_000,
        ),
        (
            (9_000, no_address()),
            (4_900, found(&["::1"], 60)),
            answered(&["::1"], 30),
            5_000,
        ),
    ] {
        let begun = Instant::now();
        let answer = both(
            late(a.0, a.1.clone()),
            late(aaaa.0, aaaa.1.clone()),
            begun + BUDGET,
        );
        assert_eq!(answer.await, expected, "{a:?} {aaaa:?}");
        assert_eq!(
            begun.elapsed(),
            Duration::from_millis(expected_ms),
            "{a:?} {aaaa:?}"
        );
    }
    let silent = || future::pending::<Result<Found, LookupError>>();
    let begun = Instant::now();
    assert_eq!(
        both(silent(), silent(), begun + BUDGET).await,
        Err(LookupError::Timeout)
    );
}

fn settings(servers: Vec<Upstream>) -> config::Resolver {
    config::Resolver {
        servers,
        ca: None,
        timeout: BUDGET,
    }
}

fn tls(name: &str) -> Upstream {
    Upstream::Tls {
        address: "127.0.0.1:853".parse().unwrap(),
        name: Arc::from(name),
    }
}

#[test]
fn what_cannot_work_is_an_error_at_the_start() {
    let mut empty = tempfile::NamedTempFile::new().unwrap();
    let with_ca = |path: &std::path::Path| config::Resolver {
        ca: Some(path.to_owned()),
        ..settings(vec![tls("dns.example")])
    };
    for (settings, expected) in [
        (settings(Vec::new()), "no server is configured"),
        (settings(vec![tls("not a name")]), "not a name"),
        (
            with_ca("/nowhere/ca.pem".as_ref()),
            "resolver.ca /nowhere/ca.pem: ",
        ),
        (with_ca(empty.path()), "holds no certificate"),
    ] {
        let error = HickoryLookup::new(&settings).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    empty
        .write_all(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    let error = HickoryLookup::new(&with_ca(empty.path()))
        .unwrap_err()
        .to_string();
    assert!(error.contains("resolver.ca"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_three_times_in_a_row_is_asked_last_for_a_while() {
    let address: SocketAddr = "127.0.0.1:53".parse().unwrap();
    let lookup =
        HickoryLookup::new(&settings(vec![Upstream::Udp(address), tls("dns.example")])).unwrap();
    let server = &lookup.servers[0];
    let now = Instant::now();
    for down in [false, false, true] {
        server.note_failure("no answer in time", now);
        assert_eq!(server.is_down(now), down);
    }
    assert!(server.is_down(now + Duration::from_secs(29)));
    assert!(!server.is_down(now + Duration::from_secs(30)));
    server.note_answer();
    server.note_failure("no answer in time", now);
    assert!(!server.is_down(now));
    assert_eq!(format!("{server:?}"), "Server(\"udp://127.0.0.1:53\")");
}

//! Looking up for real: UDP, TCP, DNS over TLS and over HTTPS against servers that may be silent,
//! slow, broken or lying. Nothing but the configured servers is ever asked.

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use eclusa::{
    config::{self, Upstream},
    destination::{AddressGuard, Destination, Name, Scheme, Surroundings},
    resolver::{Answer, HickoryLookup, Lookup, LookupError, ResolveError, Resolver},
};
use hickory_net::proto::{op::ResponseCode, rr::RecordType};
use tempfile::TempDir;
use tokio::{task::JoinSet, time::Instant};

use super::support::{
    PATIENCE,
    dns_upstream::{DnsUpstream, Reply, Transport},
    origin::Authority,
};

const BUDGET: Duration = Duration::from_secs(10);
const NAME: &str = "allowed.example";
const SERVER_NAME: &str = "dns.example";
const V4: &str = "192.0.2.1";
const V6: &str = "2001:db8::1";

fn udp(server: &DnsUpstream) -> Upstream {
    Upstream::Udp(server.address)
}

fn tls(server: &DnsUpstream, name: &str) -> Upstream {
    Upstream::Tls {
        address: server.tls.unwrap(),
        name: Arc::from(name),
    }
}

fn https(server: &DnsUpstream, name: &str) -> Upstream {
    Upstream::Https {
        address: server.https.unwrap(),
        name: Arc::from(name),
        path: Arc::from("/dns-query"),
    }
}

fn lookup(servers: Vec<Upstream>, ca: Option<PathBuf>, timeout: Duration) -> Arc<HickoryLookup> {
    let settings = config::Resolver {
        servers,
        ca,
        timeout,
    };
    Arc::new(HickoryLookup::new(&settings).unwrap())
}

fn over_udp(server: &DnsUpstream) -> Arc<HickoryLookup> {
    lookup(vec![udp(server)], None, BUDGET)
}

async fn ask(lookup: &HickoryLookup, name: &str) -> Result<Vec<String>, LookupError> {
    let name = Name::parse(name).unwrap();
    let Answer { addresses, .. } = lookup.lookup(&name).await?;
    Ok(addresses.iter().map(IpAddr::to_string).collect())
}

/// A certificate authority, its file, and a server of its that knows `NAME`.
struct Secured {
    _folder: TempDir,
    ca: PathBuf,
    server: DnsUpstream,
}

fn secured() -> Secured {
    let authority = Authority::new(&[SERVER_NAME]);
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, &authority.pem).unwrap();
    let server = DnsUpstream::with_certificate(&authority);
    server.set_addresses(NAME, &[V4, V6]);
    Secured {
        _folder: folder,
        ca,
        server,
    }
}

#[tokio::test]
async fn both_families_are_asked_for_the_absolute_name_alone() {
    let server = DnsUpstream::start();
    server.set_addresses(NAME, &[V4, "192.0.2.2", V6]);
    server.set_addresses("_dmarc.allowed.example", &[V4]);
    let lookup = over_udp(&server);
    assert_eq!(ask(&lookup, NAME).await.unwrap(), [V4, "192.0.2.2", V6]);
    let mut kinds: Vec<String> = server
        .questions()
        .iter()
        .map(|question| format!("{} {}", question.name, question.kind))
        .collect();
    kinds.sort();
    assert_eq!(kinds, ["allowed.example. A", "allowed.example. AAAA"]);
    assert_eq!(ask(&lookup, "_dmarc.allowed.example").await.unwrap(), [V4]);
}

#[tokio::test]
async fn neither_a_search_list_nor_the_hosts_file_is_consulted() {
    let server = DnsUpstream::start();
    // Names that the hosts file of nearly every host has, and one that a search list would extend.
    server.set_addresses("localhost", &[V4]);
    let lookup = over_udp(&server);
    assert_eq!(ask(&lookup, "localhost").await.unwrap(), [V4]);
    for name in ["ip6-localhost", "printer", "metadata.google.internal"] {
        assert_eq!(
            ask(&lookup, name).await,
            Err(LookupError::NoAddress),
            "{name}"
        );
        assert_eq!(server.asked(name), 2, "{name}");
    }
    assert_eq!(server.questions().len(), 8);
}

#[tokio::test]
async fn a_truncated_answer_is_asked_for_again_over_tcp() {
    let server = DnsUpstream::start();
    let many: Vec<String> = (1..=200).map(|n| format!("192.0.2.{n}")).collect();
    let many: Vec<&str> = many.iter().map(|address| &**address).collect();
    let whole = Box::new(Reply::addresses(NAME, &many));
    server.set(NAME, RecordType::A, Reply::Truncated(whole));
    let lookup = over_udp(&server);
    assert_eq!(ask(&lookup, NAME).await.unwrap(), many);
    let transports: Vec<Transport> = server
        .questions()
        .iter()
        .filter(|question| question.kind == RecordType::A)
        .map(|question| question.transport)
        .collect();
    assert_eq!(transports, [Transport::Udp, Transport::Tcp]);
}

#[tokio::test]
async fn dns_over_tls_and_over_https_are_verified_and_used() {
    let Secured {
        _folder,
        ca,
        server,
    } = secured();
    for (upstream, transport) in [
        (tls(&server, SERVER_NAME), Transport::Tls),
        (https(&server, SERVER_NAME), Transport::Https),
    ] {
        let lookup = lookup(vec![upstream], Some(ca.clone()), BUDGET);
        let before = server.questions().len();
        assert_eq!(ask(&lookup, NAME).await.unwrap(), [V4, V6], "{transport:?}");
        assert_eq!(
            ask(&lookup, "evil.example").await,
            Err(LookupError::NoAddress)
        );
        let questions = server.questions();
        let after = &questions[before..];
        assert_eq!(after.len(), 4, "{transport:?}");
        assert!(after.iter().all(|question| question.transport == transport));
    }
}

#[tokio::test]
async fn a_certificate_of_another_name_or_authority_is_refused() {
    let Secured {
        _folder,
        ca,
        server,
    } = secured();
    for (upstream, ca) in [
        (tls(&server, "other.example"), Some(ca.clone())),
        (https(&server, "other.example"), Some(ca)),
        (tls(&server, SERVER_NAME), None),
        (https(&server, SERVER_NAME), None),
    ] {
        let what = format!("{upstream:?} {ca:?}");
        let lookup = lookup(vec![upstream], ca, BUDGET);
        let error = ask(&lookup, NAME).await.unwrap_err();
        assert!(matches!(error, LookupError::Failed(_)), "{what}: {error:?}");
    }
    assert_eq!(server.questions(), []);
}

#[tokio::test]
async fn many_look_ups_share_few_connections_and_survive_their_end() {
    let Secured {
        _folder,
        ca,
        server,
    } = secured();
    for n in 0..200 {
        server.set_addresses(&format!("n{n}.example"), &[V4]);
    }
    server.set_idle(Duration::from_millis(200));
    for upstream in [tls(&server, SERVER_NAME), https(&server, SERVER_NAME)] {
        let what = format!("{upstream:?}");
        let lookup = lookup(vec![upstream], Some(ca.clone()), BUDGET);
        ask(&lookup, NAME).await.unwrap();
        let before = server.streams_ever();
        let mut waiting = JoinSet::new();
        for n in 0..200 {
            let lookup = Arc::clone(&lookup);
            waiting.spawn(async move { ask(&lookup, &format!("n{n}.example")).await });
        }
        for result in waiting.join_all().await {
            assert_eq!(result.unwrap(), [V4], "{what}");
        }
        assert_eq!(server.streams_ever(), before, "{what}");
        // The server closes what is idle (RFC 7766 section 6.2.3); that is no failure.
        let begun = Instant::now();
        while server.open_streams() > 0 {
            assert!(begun.elapsed() < PATIENCE, "the streams stay open");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(ask(&lookup, NAME).await.unwrap(), [V4, V6], "{what}");
    }
}

#[tokio::test]
async fn a_silent_server_is_a_timeout_within_the_budget() {
    let Secured {
        _folder,
        ca,
        server,
    } = secured();
    server.set_silent(true);
    let other = DnsUpstream::start();
    let budget = Duration::from_millis(500);
    for upstream in [
        udp(&server),
        tls(&server, SERVER_NAME),
        https(&server, SERVER_NAME),
    ] {
        let what = format!("{upstream:?}");
        let lookup = lookup(vec![upstream], Some(ca.clone()), budget);
        let begun = Instant::now();
        assert_eq!(
            ask(&lookup, NAME).await,
            Err(LookupError::Timeout),
            "{what}"
        );
        assert!(
            begun.elapsed() < budget * 3,
            "{what}: {:?}",
            begun.elapsed()
        );
    }
    assert!(server.asked(NAME) >= 6);
    assert_eq!(other.questions(), []);
}

#[tokio::test]
async fn servers_are_asked_in_order_and_the_next_one_only_when_one_fails() {
    let (first, second) = (DnsUpstream::start(), DnsUpstream::start());
    second.set_addresses(NAME, &[V4]);
    let ask_both = async |budget| {
        let lookup = lookup(vec![udp(&first), udp(&second)], None, budget);
        ask(&lookup, NAME).await
    };
    // What the first one says of a name that does not exist, or has no address, holds.
    assert_eq!(ask_both(BUDGET).await, Err(LookupError::NoAddress));
    first.set(NAME, RecordType::A, Reply::Records(Vec::new()));
    assert_eq!(ask_both(BUDGET).await, Err(LookupError::NoAddress));
    assert_eq!(second.questions(), []);
    for code in [ResponseCode::ServFail, ResponseCode::Refused] {
        first.set(NAME, RecordType::A, Reply::Code(code));
        assert_eq!(ask_both(BUDGET).await.unwrap(), [V4], "{code}");
    }
    first.set_silent(true);
    let begun = Instant::now();
    assert_eq!(ask_both(Duration::from_secs(1)).await.unwrap(), [V4]);
    assert!(
        begun.elapsed() >= Duration::from_millis(400),
        "{:?}",
        begun.elapsed()
    );
    drop(first);
    let dead: Upstream = Upstream::Udp("127.0.0.1:1".parse().unwrap());
    let lookup = lookup(vec![dead, udp(&second)], None, Duration::from_secs(1));
    assert_eq!(ask(&lookup, NAME).await.unwrap(), [V4]);
}

#[tokio::test]
async fn a_server_that_says_it_failed_is_a_failure() {
    let server = DnsUpstream::start();
    for (reply, expected) in [
        (
            Reply::Code(ResponseCode::ServFail),
            "the resolver answered: Server Failure",
        ),
        (
            Reply::Code(ResponseCode::Refused),
            "the resolver answered: Query Refused",
        ),
        (Reply::Garbage, "the resolver cannot be used"),
    ] {
        let what = format!("{reply:?}");
        server
            .set(NAME, RecordType::A, reply.clone())
            .set(NAME, RecordType::AAAA, reply);
        let error = ask(&over_udp(&server), NAME).await.unwrap_err();
        assert_eq!(error, LookupError::Failed(expected.to_owned()), "{what}");
    }
}

#[tokio::test]
async fn a_slow_answer_is_waited_for() {
    let server = DnsUpstream::start();
    let late = |reply| Reply::Late(Duration::from_millis(700), Box::new(reply));
    server.set(NAME, RecordType::A, late(Reply::addresses(NAME, &[V4])));
    server.set(NAME, RecordType::AAAA, late(Reply::addresses(NAME, &[V6])));
    assert_eq!(ask(&over_udp(&server), NAME).await.unwrap(), [V4, V6]);
}

#[tokio::test]
async fn one_family_is_enough_when_the_other_fails() {
    let server = DnsUpstream::start();
    server.set(NAME, RecordType::A, Reply::addresses(NAME, &[V4]));
    for reply in [
        Reply::Code(ResponseCode::ServFail),
        Reply::Silent,
        Reply::Records(Vec::new()),
    ] {
        let what = format!("{reply:?}");
        server.set(NAME, RecordType::AAAA, reply);
        assert_eq!(ask(&over_udp(&server), NAME).await.unwrap(), [V4], "{what}");
    }
}

#[tokio::test]
async fn aliases_are_followed_but_not_round_and_round() {
    let server = DnsUpstream::start();
    let link = |n: usize| format!("{n}.chain.example");
    let chain: Vec<(String, u32, String)> = (0..30)
        .map(|n| (link(n), 60, link(n + 1)))
        .chain([(link(30), 60, V4.to_owned())])
        .collect();
    server
        .set(
            "whole.example",
            RecordType::A,
            Reply::Records(vec![
                ("whole.example".to_owned(), 60, "cdn.example".to_owned()),
                ("cdn.example".to_owned(), 60, V4.to_owned()),
            ]),
        )
        .set(
            "open.example",
            RecordType::A,
            Reply::alias("open.example", "cdn.example"),
        )
        .set(
            "cdn.example",
            RecordType::A,
            Reply::addresses("cdn.example", &[V4]),
        )
        .set(
            "loop.example",
            RecordType::A,
            Reply::alias("loop.example", "pool.example"),
        )
        .set(
            "pool.example",
            RecordType::A,
            Reply::alias("pool.example", "loop.example"),
        )
        .set(&link(0), RecordType::A, Reply::Records(chain.clone()));
    for (n, part) in chain.iter().enumerate().skip(1) {
        server.set(&link(n), RecordType::A, Reply::Records(vec![part.clone()]));
    }
    let lookup = over_udp(&server);
    for name in ["whole.example", "open.example"] {
        assert_eq!(ask(&lookup, name).await.unwrap(), [V4], "{name}");
    }
    let begun = Instant::now();
    for name in ["loop.example", &link(0), &link(1)] {
        let error = ask(&lookup, name).await.unwrap_err();
        assert!(matches!(error, LookupError::Failed(_)), "{name}: {error:?}");
    }
    assert!(begun.elapsed() < BUDGET);
    assert!(
        server.questions().len() < 100,
        "{}",
        server.questions().len()
    );
    // Fourteen aliases are fine.
    assert_eq!(ask(&lookup, &link(16)).await.unwrap(), [V4]);
}

#[tokio::test]
async fn forged_and_foreign_records_are_passed_over() {
    let server = DnsUpstream::start();
    let honest = Reply::addresses(NAME, &[V4]);
    server
        .set(NAME, RecordType::A, Reply::Forged(Box::new(honest)))
        .set(
            "foreign.example",
            RecordType::A,
            Reply::addresses("evil.example", &["10.6.6.6"]),
        );
    let lookup = over_udp(&server);
    assert_eq!(ask(&lookup, NAME).await.unwrap(), [V4]);
    assert_eq!(
        ask(&lookup, "foreign.example").await,
        Err(LookupError::NoAddress)
    );
}

#[tokio::test]
async fn each_connection_has_one_look_up_and_what_it_vetted() {
    let server = DnsUpstream::start();
    let (public, metadata) = ("1.2.3.4", "169.254.169.254");
    server.set(
        NAME,
        RecordType::A,
        Reply::InTurn(vec![
            Reply::with_ttl(NAME, 0, &[public]),
            Reply::with_ttl(NAME, 0, &[metadata]),
        ]),
    );
    let resolver = Resolver::new(over_udp(&server), BUDGET);
    let destination = Destination::parse_authority(Scheme::Https, "allowed.example:443").unwrap();
    let (guard, surroundings) = (AddressGuard::default(), Surroundings::default());
    let first = resolver
        .resolve(&destination, &guard, &surroundings, &[])
        .await
        .unwrap();
    assert_eq!(first.vetted.as_slice(), ["1.2.3.4:443".parse().unwrap()]);
    let second = resolver
        .resolve(&destination, &guard, &surroundings, &[])
        .await;
    assert!(
        matches!(second, Err(ResolveError::Blocked { .. })),
        "{second:?}"
    );
    let asked = server.questions();
    assert_eq!(
        asked
            .iter()
            .filter(|question| question.kind == RecordType::A)
            .count(),
        2
    );
}

#[tokio::test]
async fn an_alias_to_an_inside_address_is_refused_by_its_address() {
    let server = DnsUpstream::start();
    server.set(
        NAME,
        RecordType::A,
        Reply::Records(vec![
            (NAME.to_owned(), 60, "x.corp.internal".to_owned()),
            ("x.corp.internal".to_owned(), 60, "10.0.0.1".to_owned()),
        ]),
    );
    let resolver = Resolver::new(over_udp(&server), BUDGET);
    let destination = Destination::parse_authority(Scheme::Https, "allowed.example:443").unwrap();
    let (guard, surroundings) = (AddressGuard::default(), Surroundings::default());
    let refused = resolver
        .resolve(&destination, &guard, &surroundings, &[])
        .await;
    let Err(ResolveError::Blocked { answer, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(answer, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
}

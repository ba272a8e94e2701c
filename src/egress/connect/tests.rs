use std::sync::Mutex;

use proptest::prelude::*;

use self::Script::{Accepts, Refuses, Silent, Unroutable};
use super::*;

const REFUSED: Option<io::ErrorKind> = Some(io::ErrorKind::ConnectionRefused);
const UNROUTABLE: Option<io::ErrorKind> = Some(io::ErrorKind::NetworkUnreachable);
const LIMIT: Duration = Duration::from_secs(10);

/// What a scripted address does, and after how long.
#[derive(Clone, Copy, Debug)]
enum Script {
    Accepts(u64),
    Refuses(u64),
    Unroutable,
    Silent,
}

/// Races addresses that behave as scripted; gives what came of it and when each was dialled.
async fn scripted(
    scripts: &[(&str, Script)],
    limit: Duration,
) -> (Result<SocketAddr, RaceError>, Vec<(String, u64)>) {
    let begun = Instant::now();
    let addresses: Vec<SocketAddr> = scripts
        .iter()
        .map(|(address, _)| address.parse().unwrap())
        .collect();
    let dialled = Mutex::new(Vec::new());
    let result = race(&addresses, limit, |address| {
        let after = u64::try_from(begun.elapsed().as_millis()).unwrap();
        dialled.lock().unwrap().push((address.to_string(), after));
        let at = addresses
            .iter()
            .position(|other| *other == address)
            .unwrap();
        let script = scripts[at].1;
        async move {
            match script {
                Accepts(ms) => {
                    time::sleep(Duration::from_millis(ms)).await;
                    Ok(address)
                }
                Refuses(ms) => {
                    time::sleep(Duration::from_millis(ms)).await;
                    Err(io::ErrorKind::ConnectionRefused.into())
                }
                Unroutable => Err(io::ErrorKind::NetworkUnreachable.into()),
                Silent => std::future::pending().await,
            }
        }
    })
    .await;
    (result, dialled.into_inner().unwrap())
}

fn kind(result: Result<SocketAddr, RaceError>) -> Result<String, Option<io::ErrorKind>> {
    match result {
        Ok(address) => Ok(address.to_string()),
        Err(RaceError::Failed(error)) => Err(Some(error.kind())),
        Err(RaceError::Timeout) => Err(None),
    }
}

const V4: &str = "192.0.2.1:443";
const OTHER_V4: &str = "192.0.2.2:443";
const V6: &str = "[2001:db8::1]:443";

/// The answer; what comes of it (none: the limit); what is dialled after how many milliseconds.
type Case = (
    &'static [(&'static str, Script)],
    Result<&'static str, Option<io::ErrorKind>>,
    &'static [(&'static str, u64)],
);

const RACES: &[Case] = &[
    // One address.
    (&[(V4, Accepts(9_000))], Ok(V4), &[(V4, 0)]),
    (&[(V4, Refuses(9_000))], Err(REFUSED), &[(V4, 0)]),
    (&[(V4, Silent)], Err(None), &[(V4, 0)]),
    // IPv6 goes first, alone for 250 ms.
    (&[(V4, Accepts(0)), (V6, Accepts(100))], Ok(V6), &[(V6, 0)]),
    (
        &[(V4, Accepts(10)), (V6, Silent)],
        Ok(V4),
        &[(V6, 0), (V4, 250)],
    ),
    // An attempt that was begun earlier can still win.
    (
        &[(V4, Accepts(300)), (V6, Accepts(400))],
        Ok(V6),
        &[(V6, 0), (V4, 250)],
    ),
    // A failure starts the next one at once.
    (
        &[(V4, Accepts(10)), (V6, Unroutable)],
        Ok(V4),
        &[(V6, 0), (V4, 0)],
    ),
    (
        &[(V4, Refuses(10)), (OTHER_V4, Accepts(10))],
        Ok(OTHER_V4),
        &[(V4, 0), (OTHER_V4, 10)],
    ),
    // Families take turns.
    (
        &[(V4, Silent), (OTHER_V4, Accepts(0)), (V6, Silent)],
        Ok(OTHER_V4),
        &[(V6, 0), (V4, 250), (OTHER_V4, 500)],
    ),
    // The last attempt does not cut short those before it.
    (
        &[(V6, Accepts(5_000)), (V4, Refuses(10))],
        Ok(V6),
        &[(V6, 0), (V4, 250)],
    ),
    // What an address that answered said counts most, whatever came last.
    (
        &[(V6, Refuses(10)), (V4, Unroutable)],
        Err(REFUSED),
        &[(V6, 0), (V4, 10)],
    ),
    (
        &[(V6, Unroutable), (V4, Unroutable)],
        Err(UNROUTABLE),
        &[(V6, 0), (V4, 0)],
    ),
    // One that stays silent makes it a timeout.
    (
        &[(V6, Silent), (V4, Refuses(10))],
        Err(None),
        &[(V6, 0), (V4, 250)],
    ),
];

#[tokio::test(start_paused = true)]
async fn addresses_are_raced_as_rfc_8305_says() {
    for (scripts, expected, expected_dialled) in RACES {
        let begun = Instant::now();
        let (result, dialled) = scripted(scripts, LIMIT).await;
        let timed_out = matches!(result, Err(RaceError::Timeout));
        let result = kind(result);
        assert_eq!(
            &result.as_deref().map_err(|kind| *kind),
            expected,
            "{scripts:?}"
        );
        let dialled: Vec<(&str, u64)> = dialled
            .iter()
            .map(|(address, at)| (&**address, *at))
            .collect();
        assert_eq!(&dialled, expected_dialled, "{scripts:?}");
        assert_eq!(begun.elapsed() == LIMIT, timed_out, "{scripts:?}");
    }
}

/// An answer may be the attacker's own: it must not take descriptors by its length.
#[tokio::test(start_paused = true)]
async fn a_long_answer_is_tried_in_part_and_a_few_at_a_time() {
    let answer: Vec<String> = (1..=256)
        .map(|n| format!("192.0.2.{}:{n}", n % 250 + 1))
        .collect();
    let all = |script| -> Vec<(&str, Script)> {
        answer
            .iter()
            .map(|address| (address.as_str(), script))
            .collect()
    };
    let (result, dialled) = scripted(&all(Refuses(1)), LIMIT).await;
    assert_eq!((kind(result), dialled.len()), (Err(REFUSED), MOST_TRIED));
    let (result, dialled) = scripted(&all(Silent), LIMIT).await;
    assert_eq!((kind(result), dialled.len()), (Err(None), MOST_AT_ONCE));
}

#[tokio::test(start_paused = true)]
async fn all_attempts_together_stay_within_the_limit() {
    let addresses: Vec<String> = (1..=100).map(|n| format!("192.0.2.{n}:443")).collect();
    let scripts: Vec<(&str, Script)> = addresses
        .iter()
        .map(|address| (&**address, Silent))
        .collect();
    let begun = Instant::now();
    let (result, dialled) = scripted(&scripts, Duration::from_secs(1)).await;
    assert_eq!(kind(result), Err(None));
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
    assert_eq!(dialled.len(), 4);
}

proptest! {
    #[test]
    fn every_address_is_dialled_once_and_nothing_else(
        families in proptest::collection::vec(any::<bool>(), 0..20)
    ) {
        let addresses: Vec<SocketAddr> = (1_u16..)
            .zip(families)
            .map(|(port, ipv6)| if ipv6 {
                SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port))
            } else {
                SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port))
            })
            .collect();
        let mut order: Vec<SocketAddr> = interleave(&addresses).into();
        if let Some(first) = order.first() {
            prop_assert_eq!(first.is_ipv6(), addresses.iter().any(SocketAddr::is_ipv6));
        }
        order.sort_unstable_by_key(SocketAddr::port);
        prop_assert_eq!(order, addresses);
    }
}

/// A listening socket on loopback.
fn listening() -> (std::net::TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::test]
async fn a_dead_address_gives_way_to_a_live_one() {
    let (dead, dead_address) = listening();
    drop(dead);
    let (_live, address) = listening();
    let stream = race(&[dead_address, address], LIMIT, dial).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), address);
    assert!(stream.nodelay().unwrap());
    let error = race(&[dead_address], LIMIT, dial).await.unwrap_err();
    assert!(
        matches!(&error, RaceError::Failed(error) if error.kind() == io::ErrorKind::ConnectionRefused),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_silent_address_is_given_up_at_the_limit() {
    // A queue for one connection that nobody accepts: the kernel drops what comes after.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut queued = Vec::new();
    let limit = Duration::from_millis(100);
    let error = loop {
        match race(&[address], limit, dial).await {
            Ok(stream) => queued.push(stream),
            Err(error) => break error,
        }
        assert!(queued.len() < 100, "the queue never fills");
    };
    assert!(matches!(error, RaceError::Timeout), "{error:?}");
}

#[tokio::test]
async fn a_connection_that_meets_itself_is_refused() {
    // The kernel may choose the very port that is dialled as the source port; binding that port
    // first makes it certain.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    let own = socket.local_addr().unwrap();
    socket.connect(&own).unwrap();
    socket.set_nonblocking(true).unwrap();
    let met = TcpStream::from_std(socket.into()).unwrap();
    let error = settle(met, own.as_socket().unwrap()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn the_error_says_what_proxy_status_says() {
    let failed = |kind: io::ErrorKind| ConnectError::Failed {
        destination: "allowed.example:443".to_owned(),
        last: kind.into(),
    };
    let timeout = ConnectError::Timeout {
        destination: "allowed.example:443".to_owned(),
        limit: LIMIT,
    };
    let exhausted = ConnectError::Failed {
        destination: "allowed.example:443".to_owned(),
        last: io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error()),
    };
    assert_eq!(exhausted.reason(), Reason::OverCapacity);
    for (error, expected) in [
        (
            failed(io::ErrorKind::ConnectionRefused),
            "connection_refused",
        ),
        (
            failed(io::ErrorKind::NetworkUnreachable),
            "destination_ip_unroutable",
        ),
        (
            failed(io::ErrorKind::HostUnreachable),
            "destination_ip_unroutable",
        ),
        (timeout, "connection_timeout"),
        (exhausted, "proxy_internal_response"),
    ] {
        assert_eq!(error.proxy_status_error(), expected, "{error}");
    }
}

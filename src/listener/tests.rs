use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};

use super::*;
use crate::workers::{Workers, tests::assert_passes_alone};

/// Runs a listener and gives what it accepts.
fn running(listener: Listener, tasks: &Tasks) -> mpsc::UnboundedReceiver<Accepted> {
    let (accepted, received) = mpsc::unbounded_channel();
    let stopping = tasks.clone();
    tasks.spawn(listener.run(stopping, move |connection| {
        accepted.send(connection).unwrap();
    }));
    received
}

#[expect(clippy::disallowed_methods, reason = "a test dials as a client")]
async fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect(address).await
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[tokio::test]
async fn a_connection_comes_with_its_ends_and_without_delay() {
    let tasks = Tasks::new();
    let listener = Listener::bind(loopback(0), false).unwrap();
    let address = listener.local_addr().unwrap();
    let mut received = running(listener, &tasks);
    let client = dial(address).await.unwrap();
    let accepted = received.recv().await.unwrap();
    assert_eq!(accepted.peer, client.local_addr().unwrap());
    assert_eq!(accepted.local, address);
    assert!(accepted.stream.nodelay().unwrap());
}

#[tokio::test]
async fn both_wildcards_can_be_bound_to_one_port() {
    let tasks = Tasks::new();
    let first = Listener::bind("0.0.0.0:0".parse().unwrap(), false).unwrap();
    let port = first.local_addr().unwrap().port();
    let Ok(second) = Listener::bind(
        SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port)),
        false,
    ) else {
        // No IPv6 here, or another process holds that port of it.
        return;
    };
    let mut received = running(second, &tasks);
    let client = dial(SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port)))
        .await
        .unwrap();
    let accepted = received.recv().await.unwrap();
    assert_eq!(accepted.peer, client.local_addr().unwrap());
}

#[tokio::test]
async fn each_worker_accepts_its_part_and_nobody_else_binds_the_address() {
    let tasks = Tasks::new();
    let workers = [(); 3].map(|()| Arc::new(Worker::here()));
    let (address, listeners) = Listener::bind_each(loopback(0), false, &workers).unwrap();
    assert_eq!(listeners.len(), 3);
    for taken in [
        Listener::bind(address, false).map(|_| 1),
        Listener::bind_each(address, false, &workers).map(|(_, all)| all.len()),
    ] {
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
    let mut received: Vec<_> = listeners
        .into_iter()
        .map(|listener| running(listener, &tasks))
        .collect();
    let [first, second, third] = received.as_mut_slice() else {
        panic!("there are three")
    };
    // The kernel picks one of three by chance: that none of 200 comes to one of them has odds of
    // 1 in 10^35.
    let mut parts = [0; 3];
    let mut clients = Vec::new();
    for _ in 0..200 {
        clients.push(dial(address).await.unwrap());
        let at = tokio::select! {
            _ = first.recv() => 0,
            _ = second.recv() => 1,
            _ = third.recv() => 2,
        };
        parts[at] += 1;
    }
    assert!(parts.iter().all(|part| *part > 0), "{parts:?}");
}

#[tokio::test]
async fn a_connection_can_be_served_by_another_worker() {
    let tasks = Tasks::new();
    let listener = Listener::bind(loopback(0), false).unwrap();
    let address = listener.local_addr().unwrap();
    let mut received = running(listener, &tasks);
    let mut client = dial(address).await.unwrap();
    let accepted = received.recv().await.unwrap();
    let workers = Workers::start(1).unwrap();
    let worker = &workers.all()[0];
    let mut accepted = accepted.moved_to(worker).unwrap();
    assert_eq!(accepted.peer, client.local_addr().unwrap());
    drop(worker.runtime().spawn(async move {
        let byte = accepted.stream.read_u8().await.unwrap();
        accepted.stream.write_u8(byte + 1).await.unwrap();
    }));
    client.write_u8(7).await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), 8);
}

#[tokio::test]
async fn a_wildcard_listener_serves_loopback_and_resets_the_uplink() {
    let uplink = interfaces::read()
        .unwrap()
        .iter()
        .find(|address| !address.sandbox_side && address.network.addr().is_ipv4())
        .map(|address| address.network.addr());
    let tasks = Tasks::new();
    let listener = Listener::bind("0.0.0.0:0".parse().unwrap(), false).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut received = running(listener, &tasks);
    if let Some(uplink) = uplink {
        // The connection stays on this host; only its local address is that of the uplink.
        let mut client = dial(SocketAddr::new(uplink, port)).await.unwrap();
        let error = client.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
    let client = dial(loopback(port)).await.unwrap();
    let accepted = received.recv().await.unwrap();
    assert_eq!(accepted.peer, client.local_addr().unwrap());
}

#[tokio::test]
async fn a_wildcard_listener_that_serves_the_uplink_serves_every_address() {
    let tasks = Tasks::new();
    let listener = Listener::bind("0.0.0.0:0".parse().unwrap(), true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut received = running(listener, &tasks);
    for address in interfaces::read().unwrap().iter() {
        if address.network.addr().is_ipv4() {
            let to = SocketAddr::new(address.network.addr(), port);
            let _client = dial(to).await.unwrap();
            // The client's address may be translated on the way, by rules of a container engine.
            assert_eq!(received.recv().await.unwrap().local, to);
        }
    }
}

#[tokio::test]
async fn a_drain_closes_the_socket_at_once_and_keeps_what_is_open() {
    let tasks = Tasks::new();
    let listener = Listener::bind(loopback(0), false).unwrap();
    let address = listener.local_addr().unwrap();
    let mut received = running(listener, &tasks);
    let mut client = dial(address).await.unwrap();
    let mut accepted = received.recv().await.unwrap();
    tasks.drain(Duration::from_secs(10)).await;
    assert!(received.recv().await.is_none());
    let error = dial(address).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    client.write_u8(7).await.unwrap();
    assert_eq!(accepted.stream.read_u8().await.unwrap(), 7);
}

#[test]
fn only_errors_of_one_connection_are_passed_over_without_rest() {
    for (error, expected) in [
        (Errno::CONNABORTED, true),
        (Errno::PROTO, true),
        (Errno::PERM, true),
        (Errno::MFILE, false),
        (Errno::NFILE, false),
        (Errno::NOBUFS, false),
        (Errno::NOMEM, false),
        (Errno::INVAL, false),
    ] {
        let raw = io::Error::from_raw_os_error(error.raw_os_error());
        assert_eq!(concerns_one_connection(&raw), expected, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_failures_is_logged_once() {
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let writer = Arc::clone(&lines);
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || Lines(Arc::clone(&writer)))
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let error = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
    let mut failed_at = None;
    for _ in 0..300 {
        log_once_per_burst(&error, &mut failed_at);
        tokio::time::advance(BACKOFF).await;
    }
    tokio::time::advance(BURST).await;
    log_once_per_burst(&error, &mut failed_at);
    let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
    assert_eq!(
        text.matches("cannot accept connections").count(),
        2,
        "{text}"
    );
}

#[test]
fn running_out_of_descriptors_is_survived() {
    // The other tests need descriptors too.
    assert_passes_alone("listener::tests::in_a_process_without_descriptors");
}

#[tokio::test]
#[ignore = "run by running_out_of_descriptors_is_survived"]
async fn in_a_process_without_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let tasks = Tasks::new();
    let listener = Listener::bind(loopback(0), false).unwrap();
    let address = listener.local_addr().unwrap();
    let client = tokio::net::TcpSocket::new_v4().unwrap();
    let limit = Rlimit {
        current: Some(64),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut hoard = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        hoard.push(file);
    }
    let mut received = running(listener, &tasks);
    #[expect(clippy::disallowed_methods, reason = "a test dials as a client")]
    let mut client = client.connect(address).await.unwrap();
    let nothing = tokio::time::timeout(4 * BACKOFF, received.recv()).await;
    assert!(nothing.is_err(), "accepted without a descriptor");
    hoard.clear();
    let mut accepted = received.recv().await.unwrap();
    client.write_u8(7).await.unwrap();
    assert_eq!(accepted.stream.read_u8().await.unwrap(), 7);
}

/// Log lines kept in memory.
struct Lines(Arc<std::sync::Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

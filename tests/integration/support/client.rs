//! Raw clients: bytes out, bytes in, nothing interpreted.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
};

use super::PATIENCE;

/// Connects with deadlines on every read and write.
#[expect(clippy::disallowed_methods, reason = "a test is the client")]
pub fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("the proxy accepts");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends `bytes` and reads until the other side closes: its whole answer.
pub fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = dial(address);
    send(&mut stream, bytes);
    read_to_close(&mut stream)
}

/// Writes; a peer that has already closed is no failure, its answer is what counts.
pub fn send(stream: &mut TcpStream, bytes: &[u8]) {
    match stream.write_all(bytes) {
        Ok(()) => {}
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
            ) => {}
        Err(error) => panic!("cannot send: {error}"),
    }
}

/// Reads until the other side closes or resets.
pub fn read_to_close(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return answer,
            Ok(n) => answer.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return answer,
            // A process that was stopped for a moment meets this in a read with a deadline.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("the peer neither answered nor closed: {error}"),
        }
    }
}

/// Reads up to and with `end`, e.g. a head up to its empty line.
pub fn read_until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(end) {
        match stream.read(&mut byte) {
            Ok(0) => panic!("closed after {:?}", String::from_utf8_lossy(&answer)),
            Ok(_) => answer.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&answer)),
        }
    }
    answer
}

/// The status of an HTTP answer; none when there is no answer.
pub fn status(answer: &[u8]) -> Option<u16> {
    let text = String::from_utf8_lossy(answer);
    text.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()
}

/// The body of an HTTP answer as JSON.
pub fn problem(answer: &[u8]) -> serde_json::Value {
    let text = String::from_utf8_lossy(answer);
    let body = text
        .split_once("\r\n\r\n")
        .map(|(_, body)| body)
        .unwrap_or_default();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

/// A ClientHello as rustls writes it for `name`.
pub fn client_hello(name: &str) -> Vec<u8> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from(name.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(std::sync::Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

/// Connects from a source address of this host's loopback.
pub fn dial_from(source: &str, address: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let source = SocketAddr::new(source.parse().unwrap(), 0);
    socket.bind(&source.into()).expect("a loopback address");
    socket
        .connect_timeout(&address.into(), PATIENCE)
        .expect("the proxy accepts");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

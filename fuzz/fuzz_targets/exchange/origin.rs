//! The origins: what the proxy opened to them, and what came by it.

use std::{
    io::ErrorKind,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use eclusa::{destination::Host, protocol::HelloReader, record::Line};
use tokio::{
    io::AsyncWrite,
    net::{TcpListener, TcpStream},
};

use super::{records::Records, requests};

/// A listening socket.
pub struct Origin {
    listener: TcpListener,
    address: SocketAddr,
    speaks: Speaks,
}

/// What may be spoken with an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    Http,
    Tls,
    Anything,
}

impl Origin {
    pub fn at(address: impl Into<SocketAddr>, speaks: Speaks) -> Self {
        let address = address.into();
        let listener = std::net::TcpListener::bind(address)
            .unwrap_or_else(|error| panic!("{address}: {error}; the web's ports need privileges"));
        listener.set_nonblocking(true).unwrap();
        Self {
            listener: TcpListener::from_std(listener).unwrap(),
            address,
            speaks,
        }
    }
}

/// Every connection that was opened for one input.
#[derive(Default)]
pub struct Connections(Vec<Connection>);

struct Connection {
    /// None once it was reset from here.
    stream: Option<TcpStream>,
    address: SocketAddr,
    speaks: Speaks,
    received: Vec<u8>,
    /// How many of the bytes received are counted as sent.
    counted: usize,
    /// What was answered began with a 101.
    switched: bool,
    ended: bool,
}

impl Connections {
    /// Takes in what was opened and sent since, and holds it against the records.
    pub fn look(&mut self, origins: &[Origin], records: &mut Records) {
        let mut context = Context::from_waker(Waker::noop());
        for origin in origins {
            while let Poll::Ready(accepted) = origin.listener.poll_accept(&mut context) {
                let (stream, _) = accepted.unwrap();
                self.opened(stream, origin, records);
            }
        }
        for connection in &mut self.0 {
            connection.look(records);
        }
    }

    fn opened(&mut self, stream: TcpStream, origin: &Origin, records: &mut Records) {
        records.read();
        stream.set_zero_linger().unwrap();
        self.0.push(Connection {
            stream: Some(stream),
            address: origin.address,
            speaks: origin.speaks,
            received: Vec::new(),
            counted: 0,
            switched: false,
            ended: false,
        });
        let here = |other: &&Connection| other.address == origin.address;
        let dialled = self.0.iter().filter(here).count();
        let permits = records.allowed(origin.address).len();
        assert!(
            dialled <= permits,
            "{} was dialled unrecorded",
            origin.address
        );
    }

    /// Sends on the connection that was opened last.
    pub fn send(&mut self, bytes: &[u8]) {
        if let Some(connection) = self.0.last_mut() {
            connection.switched |= bytes.starts_with(b"HTTP/1.1 101 ");
            if let Some(stream) = &connection.stream {
                // It may have been closed meanwhile.
                let _ = stream.try_write(bytes);
            }
        }
    }

    /// Ends the direction from the origin on the connection that was opened last.
    pub fn end_last(&mut self) {
        if let Some(connection) = self.0.last_mut() {
            connection.end();
        }
    }

    /// Ends that direction on all of them.
    pub fn end_all(&mut self) {
        self.0.iter_mut().for_each(Connection::end);
    }

    /// Resets the connection that was opened last.
    pub fn reset_last(&mut self) {
        if let Some(connection) = self.0.last_mut() {
            connection.stream = None;
        }
    }

    /// Whether every connection is closed.
    pub fn are_closed(&self) -> bool {
        let is_closed = |connection: &Connection| connection.ended || connection.stream.is_none();
        self.0.iter().all(is_closed)
    }

    /// What came by the connections to an origin was counted.
    pub fn check_counts(&self, records: &Records) {
        for connection in &self.0 {
            let address = connection.address;
            let same = self.0.iter().filter(|other| other.address == address);
            let received: usize = same.map(|other| other.counted).sum();
            let counted = records.counted_up(address);
            assert!(
                u64::try_from(received).unwrap() <= counted,
                "{received} > {counted}"
            );
        }
    }
}

impl Connection {
    fn end(&mut self) {
        if let Some(stream) = &mut self.stream {
            let mut context = Context::from_waker(Waker::noop());
            let _ = Pin::new(stream).poll_shutdown(&mut context);
        }
    }

    fn look(&mut self, records: &mut Records) {
        let before = self.received.len();
        while let Some(stream) = self.stream.as_ref().filter(|_| !self.ended) {
            let mut room = [0; 4096];
            match stream.try_read(&mut room) {
                Ok(0) => self.ended = true,
                Ok(count) => self.received.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.ended = true,
            }
        }
        if self.received.len() == before {
            return;
        }
        records.read();
        let allowed = records.allowed(self.address);
        self.counted = match self.speaks {
            Speaks::Http => requests::read(&self.received, self.switched, &allowed),
            Speaks::Tls => {
                check_hello(&self.received, &allowed);
                self.received.len()
            }
            Speaks::Anything => self.received.len(),
        };
    }
}

/// A tunnel begins with a ClientHello that names the host, or with the beginning of one.
fn check_hello(received: &[u8], allowed: &[&Line]) {
    if let Some(hello) = HelloReader::new().push(received).unwrap() {
        let name = Host::parse(&hello.server_name.unwrap())
            .unwrap()
            .to_string();
        let is_recorded = allowed.iter().any(|line| line.host.as_ref() == Some(&name));
        assert!(is_recorded && !hello.ech, "{name} is none of {allowed:?}");
    }
}

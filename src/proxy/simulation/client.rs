//! A client: a tunnel whose bytes tell their place, or requests one after the other.

use tokio::net::TcpStream;

use super::{
    chance::Chance,
    wire::{Wire, pattern},
    world::{Kind, World},
};

/// The length of what a tunnel begins with: whose it is.
pub(super) const TAG: usize = 8;

/// A part of what a client sends in a tunnel.
pub(super) fn up(id: u64, from: u64, length: usize) -> Vec<u8> {
    let mut bytes = pattern(id, from, length);
    let skipped = usize::try_from(from).unwrap().min(TAG);
    let tag = id.to_be_bytes();
    let rest = tag.iter().skip(skipped);
    bytes
        .iter_mut()
        .zip(rest)
        .for_each(|(byte, of_tag)| *byte = *of_tag);
    bytes
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) host: String,
    pub(super) kind: Kind,
    id: u64,
    pub(super) wire: Wire,
    /// What it has yet to send before anything else: a head and its content.
    waiting: Vec<u8>,
    /// How many bytes of a tunnel were sent.
    pub(super) sent: u64,
    received: Vec<u8>,
    /// How many bytes came by a tunnel.
    pub(super) got: u64,
    answered: bool,
    requests: usize,
}

impl Client {
    pub(super) fn new(id: u64, kind: Kind, stream: TcpStream) -> Self {
        Self {
            host: format!("c{id}{}", kind.zone()),
            kind,
            id,
            wire: Wire::new(stream, true),
            waiting: Vec::new(),
            sent: 0,
            received: Vec::new(),
            got: 0,
            answered: false,
            requests: 0,
        }
    }

    /// Says something, as far as the kernel takes it.
    pub(super) fn speak(&mut self, world: &World, chance: &mut Chance) {
        if self.waiting.is_empty() {
            match self.kind {
                Kind::Tunnel if self.requests > 0 => self.send_data(chance),
                Kind::Tunnel => {
                    let (host, port) = (&self.host, world.port);
                    let head = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}\r\n\r\n");
                    self.ask(head.into());
                }
                Kind::Plain if self.requests > 0 && !self.answered => {}
                Kind::Plain => self.ask_for_more(world, chance),
            }
        }
        let most = if chance.one_in(4) {
            chance.length().min(self.waiting.len())
        } else {
            self.waiting.len()
        };
        let sent = self.wire.send(&self.waiting[..most]);
        self.waiting.drain(..sent);
    }

    fn ask(&mut self, message: Vec<u8>) {
        self.waiting = message;
        self.requests += 1;
        self.answered = false;
    }

    fn ask_for_more(&mut self, world: &World, chance: &mut Chance) {
        let (host, port, number) = (&self.host, world.port, self.requests);
        let length = if chance.one_in(2) { 0 } else { chance.length() };
        let method = if length == 0 { "GET" } else { "POST" };
        let mut message = format!(
            "{method} http://{host}:{port}/{number} HTTP/1.1\r\nHost: {host}:{port}\r\n\
             Content-Length: {length}\r\n\r\n"
        )
        .into_bytes();
        message.resize(message.len() + length, b'x');
        self.ask(message);
    }

    fn send_data(&mut self, chance: &mut Chance) {
        let data = up(self.id, self.sent, chance.length().max(TAG));
        self.sent += u64::try_from(self.wire.send(&data)).unwrap();
    }

    /// Takes in what came.
    pub(super) fn look(&mut self) {
        self.wire.receive(&mut self.received);
        match self.kind {
            Kind::Tunnel => self.take_data(),
            Kind::Plain => self.take_answer(),
        }
    }

    fn take_data(&mut self) {
        if !self.answered {
            let Some(end) = head_end(&self.received) else {
                return;
            };
            if !self.received.starts_with(b"HTTP/1.1 200 ") {
                return;
            }
            self.received.drain(..end);
            self.answered = true;
        }
        let length = self.received.len();
        assert!(
            self.received == pattern(0, self.got, length),
            "{}",
            self.host
        );
        self.got += u64::try_from(length).unwrap();
        self.received.clear();
    }

    /// Takes the answer of the origin, which bears the number of its request, once it is whole.
    fn take_answer(&mut self) {
        let Some(end) = head_end(&self.received) else {
            return;
        };
        let head = String::from_utf8_lossy(&self.received[..end]).to_lowercase();
        if self.answered || !head.starts_with("http/1.1 200 ") {
            return;
        }
        let number = field(&head, "x-number").unwrap();
        assert_eq!(number + 1, self.requests, "{}", self.host);
        let length = field(&head, "content-length").unwrap();
        if self.received.len() >= end + length {
            let whole: Vec<u8> = self.received.drain(..end + length).collect();
            assert!(whole[end..] == pattern(0, 0, length), "{}", self.host);
            self.answered = true;
        }
    }
}

/// Where a head ends.
pub(super) fn head_end(received: &[u8]) -> Option<usize> {
    memchr::memmem::find(received, b"\r\n\r\n").map(|at| at + 4)
}

/// A number in a head in lower case.
pub(super) fn field(head: &str, name: &str) -> Option<usize> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    let (_, value) = fields.find(|(found, _)| *found == name)?;
    value.parse().ok()
}

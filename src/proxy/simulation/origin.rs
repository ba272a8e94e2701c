//! The origins: they check what they get, answer, and fail.

use std::collections::BTreeMap;

use tokio::net::TcpStream;

use super::{
    chance::Chance,
    client::{TAG, field, head_end, up},
    wire::{Wire, pattern},
    world::Kind,
};

/// One connection that the proxy made.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) wire: Wire,
    /// What is not understood yet.
    received: Vec<u8>,
    speaks: Speaks,
    /// What is to be sent before anything else.
    waiting: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Speaks {
    Nothing,
    Tunnel {
        host: String,
        id: u64,
        got: u64,
        sent: u64,
    },
    Plain {
        host: String,
    },
}

/// How many bytes every host got and sent.
#[derive(Debug, Default)]
pub(super) struct Totals(BTreeMap<String, (u64, u64)>);

impl Totals {
    fn count(&mut self, host: &str, got: usize, sent: usize) {
        let of_host = self.0.entry(host.to_owned()).or_default();
        of_host.0 += u64::try_from(got).unwrap();
        of_host.1 += u64::try_from(sent).unwrap();
    }

    /// What the origins of `host` got and sent.
    pub(super) fn of(&self, host: &str) -> (u64, u64) {
        self.0.get(host).copied().unwrap_or_default()
    }
}

impl Connection {
    pub(super) fn new(stream: TcpStream, chance: &mut Chance) -> Self {
        Self {
            wire: Wire::new(stream, !chance.one_in(4)),
            received: Vec::new(),
            speaks: Speaks::Nothing,
            waiting: Vec::new(),
        }
    }

    /// Takes in what came, and checks that it is what the client sent.
    pub(super) fn look(&mut self, totals: &mut Totals) {
        self.wire.receive(&mut self.received);
        while self.understand(totals).is_some() {}
    }

    /// Takes in the next piece that makes sense; none where there is none.
    fn understand(&mut self, totals: &mut Totals) -> Option<()> {
        match &mut self.speaks {
            Speaks::Tunnel { host, id, got, .. } => {
                let count = self.received.len();
                assert!(self.received == up(*id, *got, count), "{host} at {got}");
                *got += u64::try_from(count).unwrap();
                self.received.clear();
                totals.count(host, count, 0);
                None
            }
            // A tag begins with a zero.
            Speaks::Nothing if self.received.first() == Some(&0) => {
                let tag = self.received.first_chunk::<TAG>()?;
                let id = u64::from_be_bytes(*tag);
                let host = format!("c{id}{}", Kind::Tunnel.zone());
                let (got, sent) = (0, 0);
                self.speaks = Speaks::Tunnel {
                    host,
                    id,
                    got,
                    sent,
                };
                Some(())
            }
            Speaks::Nothing | Speaks::Plain { .. } => self.take_request(totals),
        }
    }

    /// Takes one whole request.
    fn take_request(&mut self, totals: &mut Totals) -> Option<()> {
        let end = head_end(&self.received)?;
        let head = String::from_utf8(self.received[..end].to_vec())
            .unwrap()
            .to_lowercase();
        let length = field(&head, "content-length").unwrap_or(0);
        let whole = self.received.get(..end + length)?;
        assert!(whole[end..].iter().all(|byte| *byte == b'x'));
        let target = head.split(' ').nth(1).unwrap();
        let number: usize = target.trim_start_matches('/').parse().unwrap();
        let host = head
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .unwrap();
        let (host, _port) = host.split_once(':').unwrap();
        assert!(host.ends_with(Kind::Plain.zone()), "{head}");
        totals.count(host, end + length, 0);
        let content = pattern(0, 0, number * 1000);
        let answer = format!(
            "HTTP/1.1 200 OK\r\nX-Number: {number}\r\nContent-Length: {}\r\n\r\n",
            content.len()
        );
        self.waiting.extend_from_slice(answer.as_bytes());
        self.waiting.extend_from_slice(&content);
        let host = host.to_owned();
        self.speaks = Speaks::Plain { host };
        self.received.drain(..end + length);
        Some(())
    }

    /// Says something, as far as the kernel takes it.
    pub(super) fn speak(&mut self, chance: &mut Chance, totals: &mut Totals) {
        match &mut self.speaks {
            Speaks::Nothing => {}
            Speaks::Tunnel { host, sent, .. } => {
                let data = pattern(0, *sent, chance.length());
                let count = self.wire.send(&data);
                *sent += u64::try_from(count).unwrap();
                totals.count(host, 0, count);
            }
            Speaks::Plain { host } => {
                let most = chance.length().min(self.waiting.len());
                let count = self.wire.send(&self.waiting[..most]);
                self.waiting.drain(..count);
                totals.count(host, 0, count);
            }
        }
    }
}

//! The outer end of a connection: the client's, or the origin's.

use std::{io::ErrorKind, sync::LazyLock};

use tokio::{io::AsyncWriteExt, net::TcpStream};

/// How long it takes the pattern to repeat: a prime, so that no buffer has it by chance.
const PERIOD: usize = 65_521;

static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let byte = |at: usize| u8::try_from((at * 31 + (at >> 8) * 7) % 251).unwrap();
    (0..PERIOD).map(byte).collect()
});

/// A part of a stream in which bytes tell their place, so that one which is lost, doubled or moved
/// is seen.
pub(super) fn pattern(stream: u64, from: u64, length: usize) -> Vec<u8> {
    let begin = usize::try_from(stream * 1009 + from).unwrap() % PERIOD;
    let mut bytes = PATTERN[begin..].to_vec();
    while bytes.len() < length {
        bytes.extend_from_slice(&PATTERN);
    }
    bytes.truncate(length);
    bytes
}

#[derive(Debug)]
pub(super) struct Wire {
    /// None once it was closed from here.
    stream: Option<TcpStream>,
    reads: bool,
    saw_the_end: bool,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, reads: bool) -> Self {
        Self {
            stream: Some(stream),
            reads,
            saw_the_end: false,
        }
    }

    /// Receives what is there, unless this end does not read.
    pub(super) fn receive(&mut self, received: &mut Vec<u8>) {
        let mut room = [0; 16 * 1024];
        while let Some(stream) = &self.stream {
            if self.saw_the_end || !self.reads {
                break;
            }
            match stream.try_read(&mut room) {
                Ok(0) => self.saw_the_end = true,
                Ok(count) => received.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.saw_the_end = true,
            }
        }
    }

    /// Sends as much as the kernel takes, and gives how much that is.
    pub(super) fn send(&self, bytes: &[u8]) -> usize {
        let sent = self.stream.as_ref().map(|stream| stream.try_write(bytes));
        sent.and_then(Result::ok).unwrap_or_default()
    }

    /// Reads no more, or again.
    pub(super) fn toggle(&mut self) {
        self.reads = !self.reads;
    }

    /// Reads from here on, to the end.
    pub(super) fn listen(&mut self) {
        self.reads = true;
    }

    /// Ends its direction.
    pub(super) async fn end(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.shutdown().await.unwrap_or_default();
        }
    }

    /// Closes both.
    pub(super) fn close(&mut self, by_reset: bool) {
        if let Some(stream) = self.stream.take()
            && by_reset
        {
            stream.set_zero_linger().unwrap();
        }
    }

    /// Whether either end closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.stream.is_none() || self.saw_the_end
    }
}

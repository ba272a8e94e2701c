//! A connection and what was received on it and not yet passed on. Buffers are borrowed only
//! while they hold bytes, so that thousands of silent connections cost almost nothing.

use std::{
    cell::RefCell,
    fmt, io, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
};

/// The size of a buffer in bytes: the most that one direction of a connection holds.
pub const BUFFER: usize = 64 * 1024;

/// The most unused buffers that one worker thread keeps.
const KEPT: usize = 8;

thread_local! {
    static UNUSED: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// One end of an exchange: the client or the origin.
#[derive(Debug)]
pub struct Peer {
    /// The connection.
    pub stream: TcpStream,
    /// What it sent and nobody took yet.
    pub received: Received,
}

/// Bytes received and not yet passed on.
#[derive(Default)]
pub struct Received {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Peer {
    /// A connection of which nothing was read yet.
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            received: Received::default(),
        }
    }

    /// The reading side, what it received, and the writing side.
    pub fn split(&mut self) -> (ReadHalf<'_>, &mut Received, WriteHalf<'_>) {
        let (read, write) = self.stream.split();
        (read, &mut self.received, write)
    }

    /// Receives more and gives the number of bytes; 0 is the end of the stream.
    pub async fn fill(&mut self) -> io::Result<usize> {
        let (mut read, received, _) = self.split();
        received.fill(&mut read).await
    }

    /// Closes by reset, so that the peer cannot take what it got for the whole.
    pub fn abort(self) {
        if let Err(error) = self.stream.set_zero_linger() {
            tracing::debug!(%error, "cannot close a connection by reset");
        }
    }
}

impl Received {
    /// The bytes.
    pub fn unread(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Takes the first `count` bytes as passed on.
    pub fn consume(&mut self, count: usize) {
        self.start = self.start.saturating_add(count).min(self.end);
        if self.is_empty() {
            self.release();
        }
    }

    /// Puts `bytes` before the others.
    pub fn put_back(&mut self, mut bytes: Vec<u8>) {
        bytes.extend_from_slice(self.unread());
        self.replace(bytes.into_boxed_slice());
    }

    /// Receives more and gives the number of bytes; 0 is the end of the stream. It is safe to
    /// cancel.
    pub async fn fill(&mut self, from: &mut ReadHalf<'_>) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll_fill(cx, from)).await
    }

    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut ReadHalf<'_>,
    ) -> Poll<io::Result<usize>> {
        let readable = from.as_ref().poll_read_ready(cx);
        if readable.is_pending() {
            self.settle();
        }
        // No buffer is taken before there is something to read.
        ready!(readable)?;
        self.make_room();
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        let mut room = ReadBuf::new(room);
        let polled = Pin::new(from).poll_read(cx, &mut room);
        let count = room.filled().len();
        self.end += count;
        if count == 0 {
            self.settle();
        }
        polled.map_ok(|()| count)
    }

    /// Makes sure that at least one byte fits behind those that are there.
    fn make_room(&mut self) {
        if self.end < self.buffer.len() {
            return;
        }
        let held = self.unread().len();
        let mut larger = if held < BUFFER {
            borrow()
        } else {
            vec![0; held + BUFFER].into_boxed_slice()
        };
        if let Some(front) = larger.get_mut(..held) {
            front.copy_from_slice(self.unread());
        }
        self.replace(larger);
        self.end = held;
    }

    /// Keeps few bytes that wait for more in a buffer of their own size.
    fn settle(&mut self) {
        if self.is_empty() {
            self.release();
        } else if self.unread().len() <= self.buffer.len() / 2 {
            let own = self.unread().into();
            self.replace(own);
        }
    }

    fn release(&mut self) {
        self.replace(Box::default());
    }

    fn replace(&mut self, buffer: Box<[u8]>) {
        self.start = 0;
        self.end = buffer.len();
        give_back(mem::replace(&mut self.buffer, buffer));
    }
}

impl fmt::Debug for Received {
    /// Says how much, never what.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Received({} bytes)", self.unread().len())
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        give_back(mem::take(&mut self.buffer));
    }
}

fn borrow() -> Box<[u8]> {
    UNUSED
        .with_borrow_mut(Vec::pop)
        .unwrap_or_else(|| vec![0; BUFFER].into_boxed_slice())
}

fn give_back(buffer: Box<[u8]>) {
    if buffer.len() != BUFFER {
        return;
    }
    // A thread that is ending has no list any more; the buffer is freed then.
    let kept = UNUSED.try_with(|unused| {
        let mut unused = unused.borrow_mut();
        if unused.len() < KEPT {
            unused.push(buffer);
        }
    });
    if kept.is_err() {
        tracing::trace!("buffer freed by an ending thread");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(text: &str) -> Received {
        let mut received = Received::default();
        received.put_back(text.into());
        received
    }

    #[test]
    fn bytes_are_taken_in_order_and_the_buffer_goes_with_the_last() {
        let mut received = received("later");
        received.put_back(b"sooner ".to_vec());
        assert_eq!(received.unread(), b"sooner later");
        received.consume(7);
        assert_eq!(received.unread(), b"later");
        received.consume(99);
        assert_eq!((received.unread(), received.buffer.len()), (&b""[..], 0));
    }

    #[test]
    fn room_is_made_behind_what_waits() {
        for held in [0, 1, BUFFER - 1, BUFFER, 3 * BUFFER] {
            let mut received = received(&"x".repeat(held));
            received.make_room();
            assert!(received.buffer.len() > received.end, "{held}");
            assert_eq!(received.unread(), "x".repeat(held).as_bytes(), "{held}");
        }
    }

    #[test]
    fn few_waiting_bytes_hold_no_large_buffer() {
        let mut received = received("GET / HT");
        received.make_room();
        received.settle();
        assert_eq!(
            (received.unread(), received.buffer.len()),
            (&b"GET / HT"[..], 8)
        );
    }
}

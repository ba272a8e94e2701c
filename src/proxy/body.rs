//! Streams the body of a message: off its framing here, into ours there. Nothing is kept back:
//! whatever arrived is sent before more is waited for.

use std::{
    io::{self, IoSlice},
    num::NonZeroUsize,
};

use tokio::{
    io::AsyncWriteExt,
    net::tcp::{ReadHalf, WriteHalf},
};

use crate::{
    egress::{Activity, BudgetExceeded, Received},
    protocol::{
        BodyDecoder, Framing, HeadError,
        body::{CHUNK_END, Decoded, LAST_CHUNK, chunk_header},
    },
};

/// Content up to this length waits for what else was received with it, up to `GATHERED` bytes:
/// many small chunks do not cost a write each.
const SMALL: usize = 1024;
const GATHERED: usize = 16 * 1024;

/// Where a body comes from.
pub(super) struct Incoming<'a> {
    pub(super) from: ReadHalf<'a>,
    pub(super) received: &'a mut Received,
    pub(super) framing: Framing,
}

/// Where it goes to: behind a head, which leaves together with the first bytes.
pub(super) struct Outgoing<'a> {
    to: WriteHalf<'a>,
    /// What leaves before anything else: the head, small content with its framing.
    waiting: Vec<u8>,
    framing: Framing,
    activity: &'a Activity,
}

/// Why a body did not reach its end.
#[derive(Debug)]
pub(super) enum Broken {
    /// The sender went away before the end.
    Truncated,
    /// Its framing is malformed.
    Malformed(HeadError),
    /// It is larger than what may be sent.
    Budget,
    /// The receiver went away.
    Sink,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Sink
    }
}

impl From<BudgetExceeded> for Broken {
    fn from(_: BudgetExceeded) -> Self {
        Self::Budget
    }
}

/// Streams to the end of the body. `passing` is asked before content is sent on, with its length.
pub(super) async fn stream(
    incoming: &mut Incoming<'_>,
    outgoing: &mut Outgoing<'_>,
    passing: impl Fn(usize) -> Result<(), BudgetExceeded>,
) -> Result<(), Broken> {
    let received = &mut *incoming.received;
    let mut decoder = BodyDecoder::new(incoming.framing);
    loop {
        let decoded = decoder
            .decode(received.unread())
            .map_err(Broken::Malformed)?;
        let (skip, data) = match decoded {
            Decoded::End { skip } => {
                received.consume(skip);
                return Ok(outgoing.end().await?);
            }
            Decoded::Data { skip, data } => (skip, data),
            Decoded::More { skip } => (skip, 0),
        };
        received.consume(skip);
        if data > 0 {
            let content = received.unread().get(..data).unwrap_or_default();
            // Security: counted first; of what is over the budget nothing is sent.
            passing(content.len())?;
            outgoing.send(content).await?;
            received.consume(data);
        } else if skip == 0 || received.is_empty() {
            outgoing.flush().await?;
            match received.fill(&mut incoming.from).await {
                Ok(0) if decoder.is_whole_at_end_of_stream() => {
                    return Ok(outgoing.end().await?);
                }
                Ok(0) | Err(_) => return Err(Broken::Truncated),
                Ok(_) => outgoing.activity.touch(),
            }
        }
    }
}

impl<'a> Outgoing<'a> {
    /// A message that begins with `head`; its body will be framed as `framing` says, and every
    /// byte on its way restarts the clock of `activity`.
    pub(super) fn new(
        to: WriteHalf<'a>,
        head: Vec<u8>,
        framing: Framing,
        activity: &'a Activity,
    ) -> Self {
        Self {
            to,
            waiting: head,
            framing,
            activity,
        }
    }

    /// Sends what waits.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.send(&[]).await
    }

    async fn send(&mut self, content: &[u8]) -> io::Result<()> {
        let length = NonZeroUsize::new(content.len()).filter(|_| self.framing == Framing::Chunked);
        let before = length.map(chunk_header).unwrap_or_default();
        let after = length.map(|_| CHUNK_END).unwrap_or_default();
        if (1..=SMALL).contains(&content.len()) && self.waiting.len() < GATHERED {
            for part in [before.as_bytes(), content, after] {
                self.waiting.extend_from_slice(part);
            }
            return Ok(());
        }
        let mut slices = [
            IoSlice::new(&self.waiting),
            IoSlice::new(before.as_bytes()),
            IoSlice::new(content),
            IoSlice::new(after),
        ];
        let mut left = slices.as_mut_slice();
        // Removes the empty ones in front: writing nothing looks like a peer that takes nothing.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let sent = self.to.write_vectored(left).await?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.activity.touch();
            IoSlice::advance_slices(&mut left, sent);
        }
        if !self.waiting.is_empty() {
            self.waiting = Vec::new();
        }
        Ok(())
    }

    async fn end(&mut self) -> io::Result<()> {
        if self.framing == Framing::Chunked {
            self.waiting.extend_from_slice(LAST_CHUNK);
        }
        self.flush().await
    }
}

#[cfg(test)]
mod tests;

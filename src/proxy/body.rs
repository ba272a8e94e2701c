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
    egress::{BudgetExceeded, Received},
    protocol::{
        BodyDecoder, Framing, HeadError,
        body::{CHUNK_END, Decoded, LAST_CHUNK, chunk_header},
    },
};

/// Where a body comes from.
pub(super) struct Incoming<'a> {
    pub(super) from: ReadHalf<'a>,
    pub(super) received: &'a mut Received,
    pub(super) framing: Framing,
}

/// Where it goes to: behind a head, which leaves together with the first bytes.
pub(super) struct Outgoing<'a> {
    to: WriteHalf<'a>,
    head: Vec<u8>,
    framing: Framing,
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

/// Streams to the end of the body. `passing` is asked before content is sent on, with its length,
/// and told of everything that arrives, with 0.
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
                Ok(_) => passing(0)?,
            }
        }
    }
}

impl<'a> Outgoing<'a> {
    /// A message that begins with `head`; its body will be framed as `framing` says.
    pub(super) fn new(to: WriteHalf<'a>, head: Vec<u8>, framing: Framing) -> Self {
        Self { to, head, framing }
    }

    /// Sends what waits.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if !self.head.is_empty() {
            self.to.write_all(&self.head).await?;
            self.head = Vec::new();
        }
        Ok(())
    }

    async fn send(&mut self, content: &[u8]) -> io::Result<()> {
        let length = NonZeroUsize::new(content.len()).filter(|_| self.framing == Framing::Chunked);
        let before = length.map(chunk_header).unwrap_or_default();
        let after = length.map(|_| CHUNK_END).unwrap_or_default();
        let mut slices = [
            IoSlice::new(&self.head),
            IoSlice::new(before.as_bytes()),
            IoSlice::new(content),
            IoSlice::new(after),
        ];
        write_all(&mut self.to, &mut slices).await?;
        if !self.head.is_empty() {
            self.head = Vec::new();
        }
        Ok(())
    }

    async fn end(&mut self) -> io::Result<()> {
        if self.framing == Framing::Chunked {
            self.head.extend_from_slice(LAST_CHUNK);
        }
        self.flush().await
    }
}

async fn write_all(to: &mut WriteHalf<'_>, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    // Removes the empty ones in front: writing nothing looks like a peer that takes nothing.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let sent = to.write_vectored(slices).await?;
        if sent == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut slices, sent);
    }
    Ok(())
}

#[cfg(test)]
mod tests;

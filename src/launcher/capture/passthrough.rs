//! A stream of a sandbox shown while it comes.

use std::{fmt, io};

use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::length;
use crate::record::escape::{Layout, escaped};

/// Copies a stream to a writer as it comes, up to a limit.
pub struct Passthrough<W> {
    to: W,
    stream: StreamName,
    rendering: Rendering,
    limit: u64,
    /// How much of it was written, or waits in `held`.
    taken: u64,
    /// The beginning of something that the next piece completes.
    held: Vec<u8>,
    is_within_line: bool,
    is_broken: bool,
}

/// One of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a stream is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rendering {
    /// Byte by byte, for a file or a program.
    Raw,
    /// For a terminal: control characters and bidirectional controls are escaped, so that hostile
    /// code cannot drive it.
    Terminal,
}

impl<W: AsyncWrite + Unpin> Passthrough<W> {
    /// Shows the first `limit` bytes of `stream` at `to`.
    pub fn new(to: W, stream: StreamName, rendering: Rendering, limit: usize) -> Self {
        Self {
            to,
            stream,
            rendering,
            limit: u64::try_from(limit).unwrap_or(u64::MAX),
            taken: 0,
            held: Vec::new(),
            is_within_line: false,
            is_broken: false,
        }
    }

    /// Shows the next piece of the stream; beyond the limit nothing. A call that is dropped half-way
    /// may have shown a part of its piece.
    ///
    /// # Errors
    /// The writer's error, once: nothing is written after it.
    pub async fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        let room = self.limit.saturating_sub(self.taken);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let (head, _) = chunk.split_at_checked(room).unwrap_or((chunk, &[]));
        if head.is_empty() || self.is_broken {
            return Ok(());
        }
        self.taken = self.taken.saturating_add(length(head));
        let mut piece = std::mem::take(&mut self.held);
        piece.extend_from_slice(head);
        self.held = piece.split_off(piece.len().saturating_sub(self.to_hold(&piece)));
        self.write(&piece).await
    }

    /// Shows what is left, and where the stream was cut, one line that says so. `total` is the
    /// stream's true length, of which not everything beyond the limit need have been pushed.
    ///
    /// # Errors
    /// The writer's error, where none was returned before.
    pub async fn finish(mut self, total: u64) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        if total <= self.taken {
            return self.write(&held).await;
        }
        // What is held back here is the half of a character that the cut left.
        let shown = self.taken.saturating_sub(length(&held));
        let line_end = if self.is_within_line { "\n" } else { "" };
        let marker = format!(
            "{line_end}[eclusa: {} cut after {shown} bytes; {} bytes in all]\n",
            self.stream, total
        );
        self.write(marker.as_bytes()).await
    }

    /// How many bytes at the end of `piece` wait for the next one: half a character where the cut
    /// would leave it so, or where it would be taken for bytes that are not UTF-8; and on a
    /// terminal a carriage return, which may stand only before a line feed.
    fn to_hold(&self, piece: &[u8]) -> usize {
        let half = half_character(piece);
        match self.rendering {
            Rendering::Terminal if piece.ends_with(b"\r") => 1,
            Rendering::Terminal => half,
            // A program that waits for an answer to what it wrote would wait for ever if its last
            // bytes were held back; so only those are that may lie across the limit.
            Rendering::Raw if self.limit.saturating_sub(self.taken) < 3 => half,
            Rendering::Raw => 0,
        }
    }

    async fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let Some(last) = piece.last() else {
            return Ok(());
        };
        if self.is_broken {
            return Ok(());
        }
        self.is_within_line = *last != b'\n';
        let written = match self.rendering {
            Rendering::Raw => self.to.write_all(piece).await,
            Rendering::Terminal => {
                let text = escaped(piece, Layout::Page);
                self.to.write_all(text.as_bytes()).await
            }
        };
        let written = match written {
            Ok(()) => self.to.flush().await,
            Err(error) => Err(error),
        };
        self.is_broken = written.is_err();
        written
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdout => "standard output",
            Self::Stderr => "standard error",
        })
    }
}

/// The length of a character's beginning at the end of `bytes` whose rest is not there.
fn half_character(bytes: &[u8]) -> usize {
    (1..=3)
        .find(|length| {
            let tail = bytes
                .len()
                .checked_sub(*length)
                .and_then(|at| bytes.get(at..));
            tail.is_some_and(|tail| {
                str::from_utf8(tail)
                    .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
            })
        })
        .unwrap_or(0)
}

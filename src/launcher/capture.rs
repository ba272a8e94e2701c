//! What a sandbox writes to standard output and standard error: kept up to a limit and counted
//! beyond it, and shown while it comes.

mod passthrough;

pub use passthrough::{Passthrough, Rendering, StreamName};

use base64::{Engine as _, prelude::BASE64_STANDARD};

/// What one stream of a run wrote, up to a limit. Its memory is bounded by the limit, whatever the
/// stream holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    limit: usize,
    kept: Vec<u8>,
    bytes: u64,
}

/// One whole stream, as it stands in the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// What was kept; bytes that are not UTF-8 are replaced by U+FFFD.
    pub text: String,
    /// What was kept, in base64, exactly where `text` had to replace bytes.
    pub base64: Option<String>,
    /// The true length of the stream.
    pub bytes: u64,
    /// Whether `text` is only its beginning.
    pub truncated: bool,
}

impl Capture {
    /// Keeps at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes the next piece of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        self.bytes = self.bytes.saturating_add(length(chunk));
        let room = self.limit.saturating_sub(self.kept.len());
        let (head, _) = chunk.split_at_checked(room).unwrap_or((chunk, &[]));
        self.make_room(head.len());
        self.kept.extend_from_slice(head);
    }

    /// The true length of the stream so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether more was written than is kept.
    pub fn is_truncated(&self) -> bool {
        self.bytes > length(&self.kept)
    }

    /// The stream has ended.
    pub fn finish(mut self) -> Captured {
        let truncated = self.is_truncated();
        if truncated && let Err(error) = str::from_utf8(&self.kept) {
            // Only the cut is to blame for half a character at the end of text. Where anything
            // before it is not UTF-8, this is no text, and every byte of it stays.
            if error.error_len().is_none() {
                self.kept.truncate(error.valid_up_to());
            }
        }
        let (text, base64) = match String::from_utf8(self.kept) {
            Ok(text) => (text, None),
            Err(error) => {
                let kept = error.as_bytes();
                let text = String::from_utf8_lossy(kept).into_owned();
                (text, Some(BASE64_STANDARD.encode(kept)))
            }
        };
        Captured {
            text,
            base64,
            bytes: self.bytes,
            truncated,
        }
    }

    /// Makes room for `more` bytes: twice what there is, as a vector does by itself, but never
    /// more than the limit.
    fn make_room(&mut self, more: usize) {
        let (length, capacity) = (self.kept.len(), self.kept.capacity());
        let needed = length.saturating_add(more);
        if needed > capacity {
            let wanted = needed.max(capacity.saturating_mul(2)).min(self.limit);
            self.kept.reserve_exact(wanted.saturating_sub(length));
        }
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

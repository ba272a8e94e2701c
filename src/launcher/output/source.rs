//! An archive as it comes from an engine, as blocking reads with a bound on each.

use std::{cell::Cell, io, rc::Rc};

use bytes::{Buf as _, Bytes};
use tokio::sync::mpsc;

use super::Caps;
use crate::launcher::backend::BackendError;

/// A piece of an archive.
pub(super) type Piece = Result<Bytes, BackendError>;

/// What a tar header and everything that extends it may take; the reader of archives holds it in
/// memory as a whole. A path has up to 4 KiB, an extended attribute up to 64 KiB.
const MAX_HEADERS: u64 = 1024 * 1024;

/// What headers take for a file at most, in an archive that is no attack.
const HEADERS: u64 = 8 * 1024;

/// An archive in pieces.
pub(super) struct Source {
    pieces: mpsc::Receiver<Piece>,
    piece: Bytes,
    bounds: Rc<Bounds>,
}

/// What may still be read, shared with whoever reads entry by entry.
#[derive(Debug)]
pub(super) struct Bounds {
    /// Up to the next word of the reader.
    now: Cell<u64>,
    /// Of the whole archive.
    left: Cell<u64>,
    reached: Cell<Option<Bound>>,
    has_ended: Cell<bool>,
}

/// A bound that was reached: the rest of the archive is not read, because the hostile code chose
/// its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Bound {
    #[error("the headers of one entry take more than {MAX_HEADERS} bytes")]
    Headers,
    #[error(
        "the archive is too long for what may be collected (--output-size), as sparse files make it"
    )]
    Archive,
}

impl Source {
    /// Reads what comes through `pieces`. Twice the bytes that are collected are read, and room for
    /// headers, so that what is skipped hides little behind it.
    pub(super) fn new(pieces: mpsc::Receiver<Piece>, caps: Caps) -> Self {
        let left = caps.files.saturating_mul(HEADERS);
        let left = left.saturating_add(caps.bytes.saturating_mul(2));
        Self {
            pieces,
            piece: Bytes::new(),
            bounds: Rc::new(Bounds {
                now: Cell::new(0),
                left: Cell::new(left.saturating_add(MAX_HEADERS)),
                reached: Cell::new(None),
                has_ended: Cell::new(false),
            }),
        }
    }

    /// The bounds of what is read here.
    pub(super) fn bounds(&self) -> Rc<Bounds> {
        Rc::clone(&self.bounds)
    }
}

impl Bounds {
    /// From here on `data` bytes of an entry may be read.
    pub(super) fn allow_data(&self, data: u64) {
        self.now.set(data);
    }

    /// From here on the rest of an entry, `unread` bytes of it, may be read, and the headers of the
    /// next.
    pub(super) fn allow_headers(&self, unread: u64) {
        self.now.set(unread.saturating_add(MAX_HEADERS));
    }

    /// The bound that a read ran into.
    pub(super) fn reached(&self) -> Option<Bound> {
        self.reached.get()
    }

    /// Whether the archive's last byte was read, and more was asked for.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    fn room(&self) -> io::Result<u64> {
        let bound = match (self.now.get(), self.left.get()) {
            (_, 0) => Bound::Archive,
            (0, _) => Bound::Headers,
            (now, left) => return Ok(now.min(left)),
        };
        self.reached.set(Some(bound));
        Err(io::Error::other(bound))
    }

    fn take(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.now.set(self.now.get().saturating_sub(bytes));
        self.left.set(self.left.get().saturating_sub(bytes));
    }
}

impl io::Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let Some(piece) = self.pieces.blocking_recv() else {
                self.bounds.has_ended.set(true);
                return Ok(0);
            };
            self.piece = piece.map_err(io::Error::other)?;
        }
        let room = usize::try_from(self.bounds.room()?).unwrap_or(usize::MAX);
        let bytes = room.min(self.piece.len()).min(into.len());
        if let Some(into) = into.get_mut(..bytes) {
            self.piece.copy_to_slice(into);
        }
        self.bounds.take(bytes);
        Ok(bytes)
    }
}

//! What a log says after the fact: its files in their order, its lines, and what is made of them
//! for a person. Reads files and opens no sockets.

pub mod difference;
pub mod entry;
pub mod exchanges;
pub mod faults;
pub mod filter;
pub mod follow;
pub mod judge;
pub mod render;
pub mod replay;
pub mod scan;
pub mod source;
pub mod suggest;
pub mod summary;
pub mod verify;

pub use crate::audit::lines::{Extent, Lines, RawLine};

/// `1 event`, `2 events`.
pub(crate) fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

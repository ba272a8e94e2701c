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
use crate::record::encode;

/// The longest name that is kept, in bytes.
const MAX_NAME: usize = 255;

/// `1 event`, `2 events`.
pub(crate) fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Text of others as it is kept: a line may hold a megabyte of it.
pub(crate) fn name(text: &str) -> String {
    encode::clipped(text, MAX_NAME).to_string()
}

#[cfg(test)]
mod tests;

//! What a log says after the fact: its files in their order, its lines, and what is made of them
//! for a person. Reads files and opens no sockets.

pub mod difference;
pub mod entry;
pub mod exchanges;
pub mod faults;
pub mod judge;
pub mod render;
pub mod replay;
pub mod source;
pub mod suggest;
pub mod verify;

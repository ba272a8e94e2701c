//! This host's interfaces, their addresses, and which of them face the uplink, read afresh.

use std::{io, sync::Arc};

use crate::destination::guard::InterfaceAddress;

/// Every address of every interface that is up. An interface that holds a default route (IPv4 or
/// IPv6) faces the uplink; loopback and every other one is the sandbox side.
///
/// # Errors
/// What the kernel says; the caller refuses, since it cannot know what is ours.
pub fn read() -> io::Result<Arc<[InterfaceAddress]>> {
    todo!()
}

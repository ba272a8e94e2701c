//! Word from the kernel that an address, a link or a route changed (rtnetlink(7)).

use std::{io, os::fd::OwnedFd};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SocketFlags, SocketType, bind, netlink::SocketAddrNetlink, recv,
        socket_with,
    },
};

/// rtnetlink(7): `RTMGRP_LINK`, and `IFADDR` and `ROUTE` of IPv4 and IPv6.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// A netlink socket that hears of changes. What they are does not matter, and is not read.
#[derive(Debug)]
pub(super) struct Changes(OwnedFd);

impl Changes {
    /// Hears of every change from now on.
    pub(super) fn subscribe() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Protocol 0 of the family is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Self(socket))
    }

    /// Takes what was heard since the last call, and says whether that was anything. An error says
    /// that something may have been missed: netlink(7) reports an overrun as `ENOBUFS`.
    pub(super) fn take(&self) -> bool {
        let mut heard = false;
        // A message longer than the buffer is cut short, and is gone as a whole.
        let mut buffer = [0_u8; 1];
        loop {
            match recv(&self.0, &mut buffer, RecvFlags::DONTWAIT) {
                Ok(_) | Err(Errno::NOBUFS) => heard = true,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return heard,
                Err(_) => return true,
            }
        }
    }
}

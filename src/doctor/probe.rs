//! What runs inside the sandbox. It tries and tells, one JSON line an attempt, and judges nothing.

mod account;
mod arp;
mod dns;
mod files;
mod kernel;
mod limits;
mod neighbour;
mod network;
mod together;

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub use self::neighbour::{Listening, listen};
use self::together::Attempts;
use super::{Ground, Observation, Probe};
use crate::resolver;

/// What the inside cannot know by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// What the sandbox is on.
    pub ground: Ground,
    /// The host's addresses, loopback and link-local ones excepted.
    pub host: Vec<IpAddr>,
    /// The host's link-local addresses of IPv6.
    pub link_local: Vec<IpAddr>,
    /// Where doctor listens on every address of the host, by TCP and by UDP.
    pub listener: (u16, u16),
    /// The host's own name servers.
    pub name_servers: Vec<SocketAddr>,
    /// The neighbour, by TCP and by UDP.
    pub neighbour: Vec<(SocketAddr, SocketAddr)>,
    /// The writable places, and how many bytes each may hold.
    pub rooms: Vec<(String, u64)>,
    /// The memory of the sandbox in bytes.
    pub memory: u64,
}

/// An attempt that may end the process that makes it, so that it is made in one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sacrifice {
    /// Leaves its namespaces.
    Namespaces,
    /// Writes a file beyond every limit.
    FileSize,
    /// Takes this many bytes of memory.
    Memory(u64),
}

/// How long an answer is waited for: longer than the kernel takes to find out that an address is
/// nobody's (arp(7): three questions, a second each), so that silence means somebody was there.
const PATIENCE: Duration = Duration::from_secs(4);

/// The most bytes of orders.
const MOST_ORDERS: u64 = 1024 * 1024;

/// Where our image has its only program.
pub const PROGRAM: &str = "/eclusa";

/// Reads orders and makes every attempt.
///
/// # Errors
/// The orders are none, or nobody reads what is told.
pub fn all(orders: impl Read, out: &mut dyn Write) -> io::Result<()> {
    let orders: Orders = serde_json::from_reader(orders.take(MOST_ORDERS))?;
    let mut notes = Notes { out };
    account::try_all(&mut notes)?;
    kernel::try_all(&mut notes)?;
    files::try_all(&orders, &mut notes)?;
    let mut attempts = Attempts::default();
    network::try_all(&orders, &mut attempts, &mut notes)?;
    dns::try_all(&orders, &mut attempts);
    attempts.make(&mut notes)?;
    limits::try_all(&orders, &mut notes)
}

/// Makes one that may be the last thing that this process does.
///
/// # Errors
/// Nobody reads what is told.
pub fn sacrifice(which: Sacrifice, out: &mut dyn Write) -> io::Result<()> {
    let mut notes = Notes { out };
    match which {
        Sacrifice::Namespaces => kernel::leave_namespaces(&mut notes),
        Sacrifice::FileSize => limits::write_too_much(),
        Sacrifice::Memory(bytes) => limits::take_memory(bytes),
    }
}

/// What is told, a line each.
struct Notes<'w> {
    out: &'w mut dyn Write,
}

impl Notes<'_> {
    fn tell(
        &mut self,
        probe: Probe,
        what: impl Into<String>,
        result: impl Into<String>,
    ) -> io::Result<()> {
        let observation = Observation {
            probe,
            what: what.into(),
            result: result.into(),
        };
        serde_json::to_writer(&mut *self.out, &observation)?;
        writeln!(self.out)?;
        self.out.flush()
    }

    /// Tells of a call: `done` where it went through, else its error.
    fn tell_call<T, E: Into<io::Error>>(
        &mut self,
        probe: Probe,
        what: impl Into<String>,
        done: &str,
        result: Result<T, E>,
    ) -> io::Result<()> {
        let result = match result {
            Ok(_) => done.to_owned(),
            Err(error) => code(&error.into()),
        };
        self.tell(probe, what, result)
    }
}

/// The name of an error as errno(3) has it.
fn code(error: &io::Error) -> String {
    const NAMES: &[(Errno, &str)] = &[
        (Errno::PERM, "EPERM"),
        (Errno::NOENT, "ENOENT"),
        (Errno::AGAIN, "EAGAIN"),
        (Errno::NOMEM, "ENOMEM"),
        (Errno::ACCESS, "EACCES"),
        (Errno::NOTDIR, "ENOTDIR"),
        (Errno::INVAL, "EINVAL"),
        (Errno::MFILE, "EMFILE"),
        (Errno::FBIG, "EFBIG"),
        (Errno::NOSPC, "ENOSPC"),
        (Errno::ROFS, "EROFS"),
        (Errno::NXIO, "ENXIO"),
        (Errno::NOSYS, "ENOSYS"),
        (Errno::NOEXEC, "ENOEXEC"),
        (Errno::PROTONOSUPPORT, "EPROTONOSUPPORT"),
        (Errno::SOCKTNOSUPPORT, "ESOCKTNOSUPPORT"),
        (Errno::AFNOSUPPORT, "EAFNOSUPPORT"),
        (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
        (Errno::NETUNREACH, "ENETUNREACH"),
        (Errno::HOSTUNREACH, "EHOSTUNREACH"),
        (Errno::CONNRESET, "ECONNRESET"),
        (Errno::CONNREFUSED, "ECONNREFUSED"),
        (Errno::TIMEDOUT, "ETIMEDOUT"),
    ];
    match Errno::from_io_error(error) {
        Some(errno) => NAMES.iter().find(|(known, _)| *known == errno).map_or_else(
            || format!("errno {}", errno.raw_os_error()),
            |(_, name)| (*name).to_owned(),
        ),
        None if error.kind() == io::ErrorKind::TimedOut => "ETIMEDOUT".to_owned(),
        None => error.kind().to_string(),
    }
}

/// The name server that the sandbox was given; on a private network it is the proxy.
fn name_server() -> Option<SocketAddr> {
    resolver::name_servers().ok()?.first().copied()
}

/// The proxy of a private network.
fn proxy(orders: &Orders) -> Option<Ipv4Addr> {
    match (orders.ground, name_server()) {
        (Ground::Private, Some(SocketAddr::V4(server))) => Some(*server.ip()),
        (Ground::Private | Ground::Shared | Ground::None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_bear_the_names_of_errno() {
        for (number, expected) in [
            (1, "EPERM"),
            (11, "EAGAIN"),
            (13, "EACCES"),
            (101, "ENETUNREACH"),
            (111, "ECONNREFUSED"),
            (40, "errno 40"),
        ] {
            assert_eq!(code(&io::Error::from_raw_os_error(number)), expected);
        }
        assert_eq!(code(&io::ErrorKind::TimedOut.into()), "ETIMEDOUT");
    }

    #[test]
    fn a_note_is_a_line_that_reads_back() {
        let mut out = Vec::new();
        let mut notes = Notes { out: &mut out };
        let refused: io::Result<()> = Err(io::Error::from_raw_os_error(1));
        notes
            .tell_call(Probe::Mounts, "mount", "mounted", refused)
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "{\"probe\":\"mounts\",\"what\":\"mount\",\"result\":\"EPERM\"}\n"
        );
        let expected = Observation {
            probe: Probe::Mounts,
            what: "mount".to_owned(),
            result: "EPERM".to_owned(),
        };
        assert_eq!(
            serde_json::from_str::<Observation>(&text).unwrap(),
            expected
        );
    }
}

//! Another sandbox, which whoever is not its proxy must not reach.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket},
    thread,
};

use serde::{Deserialize, Serialize};

/// Where a neighbour listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The port by TCP.
    pub tcp: u16,
    /// The port by UDP.
    pub udp: u16,
}

/// The neighbour: listens, says where, answers everybody, and ends with its standard input.
///
/// # Errors
/// It cannot listen, or nobody reads what is told.
pub fn listen(mut until: impl Read, out: &mut dyn Write) -> io::Result<()> {
    let stream = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let datagram = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let addresses = if_addrs::get_if_addrs()?
        .into_iter()
        .map(|interface| interface.ip());
    let listening = Listening {
        addresses: addresses.filter(|address| !address.is_loopback()).collect(),
        tcp: stream.local_addr()?.port(),
        udp: datagram.local_addr()?.port(),
    };
    serde_json::to_writer(&mut *out, &listening)?;
    writeln!(out)?;
    out.flush()?;
    // The kernel takes connections while nobody accepts them, and both end with the process.
    drop(thread::spawn(move || {
        let mut question = [0; 64];
        while let Ok((length, from)) = datagram.recv_from(&mut question) {
            datagram
                .send_to(question.get(..length).unwrap_or_default(), from)
                .ok();
        }
    }));
    io::copy(&mut until, &mut io::sink())?;
    drop(stream);
    Ok(())
}

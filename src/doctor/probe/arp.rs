//! Whether the kernel found somebody to give a datagram to; a socket for datagrams is not told.

use std::{fs, io, net::IpAddr};

use crate::listener::interfaces;

/// linux/if_arp.h: the hardware address is known.
const ATF_COM: u32 = 0x02;

/// Whether the kernel asked who has `to`, or the gateway, and nobody said so.
pub(super) fn found_nobody(to: IpAddr) -> io::Result<bool> {
    let gateways = interfaces::ipv4_gateways()?.into_iter().map(IpAddr::V4);
    let hops: Vec<IpAddr> = gateways.chain([to]).collect();
    Ok(is_unanswered(&fs::read_to_string("/proc/net/arp")?, &hops))
}

/// A headline, then `address type flags hardware-address mask device` (proc_pid_net(5)).
fn is_unanswered(table: &str, hops: &[IpAddr]) -> bool {
    let entries = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace();
        let address: IpAddr = fields.next()?.parse().ok()?;
        let flags = fields.nth(1)?.strip_prefix("0x")?;
        Some((address, u32::from_str_radix(flags, 16).ok()?))
    });
    let mut asked = entries
        .filter(|(address, _)| hops.contains(address))
        .peekable();
    asked.peek().is_some() && asked.all(|(_, flags)| flags & ATF_COM == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_found_where_a_question_has_no_answer() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                     192.0.2.1        0x1         0x0         00:00:00:00:00:00     *        eth0\n\
                     192.0.2.2        0x1         0x2         02:42:c0:00:02:02     *        eth0\n";
        for (hops, expected) in [
            (&["192.0.2.1"][..], true),
            (&["192.0.2.2"], false),
            (&["192.0.2.1", "192.0.2.2"], false),
            // Nobody was asked, so there is nothing to conclude.
            (&["192.0.2.3"], false),
            (&[], false),
        ] {
            let hops: Vec<IpAddr> = hops.iter().map(|hop| hop.parse().unwrap()).collect();
            assert_eq!(is_unanswered(table, &hops), expected, "{hops:?}");
        }
    }
}

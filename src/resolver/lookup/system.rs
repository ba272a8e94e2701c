//! The name servers of `/etc/resolv.conf`, and nothing else of it: no search list, no options.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
};

use super::LookupSetupError;

const PATH: &str = "/etc/resolv.conf";

/// The port of DNS over UDP and TCP (RFC 1035 section 4.2).
const PORT: u16 = 53;

/// The system's name servers, in order.
///
/// # Errors
/// The file cannot be read, or names none.
pub fn name_servers() -> Result<Vec<SocketAddr>, LookupSetupError> {
    let text = fs::read_to_string(PATH)
        .map_err(|error| LookupSetupError(format!("resolver.servers: {PATH}: {error}")))?;
    let servers = parse(&text);
    if servers.is_empty() {
        return Err(LookupSetupError(format!(
            "resolver.servers: {PATH} names no server; name one in place of \"system\""
        )));
    }
    Ok(servers)
}

/// resolv.conf(5): the keyword begins the line, the address follows after white space.
fn parse(text: &str) -> Vec<SocketAddr> {
    text.lines()
        .filter_map(|line| {
            let value = line.strip_prefix("nameserver")?;
            let address = value.strip_prefix([' ', '\t'])?.split_whitespace().next()?;
            match address.parse::<IpAddr>() {
                Ok(address) => Some(SocketAddr::new(address, PORT)),
                Err(error) => {
                    tracing::warn!(%address, %error, "name server of {PATH} passed over");
                    None
                }
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_name_servers_are_read() {
        let text = "# nameserver 192.0.2.1\n; nameserver 192.0.2.2\nsearch corp.example\n\
                    options ndots:5 rotate\nnameserver 127.0.0.53\nnameserver\t2001:db8::53  # x\n\
                    nameserver fe80::1%eth0\nnameserver\nnameservers 192.0.2.3\n\
                    domain example.com\nnameserver 192.0.2.4";
        let servers: Vec<String> = parse(text).iter().map(ToString::to_string).collect();
        assert_eq!(
            servers,
            ["127.0.0.53:53", "[2001:db8::53]:53", "192.0.2.4:53"]
        );
        assert_eq!(parse(""), []);
    }
}

//! What names tell the sandbox's program, and whom it can ask.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use hickory_net::proto::{op, rr};

use super::{Orders, name_server, network, together::Attempts};
use crate::doctor::{Ground, Probe};

const PORT: u16 = 53;

/// A name that exists in the world, so that an answer without it comes from elsewhere (RFC 6761
/// section 6.5).
const NAME: &str = "example.com.";

/// What tunnels carry data in.
const TYPES: &[&str] = &["TXT", "NULL", "ANY", "MX", "CNAME", "SRV", "AAAA", "HTTPS"];

/// Docker's resolver in every network of its making.
const EMBEDDED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 11);

pub(super) fn try_all(orders: &Orders, attempts: &mut Attempts) {
    for server in orders.name_servers.clone() {
        let by = |transport| format!("{server} by {transport}");
        attempts.add(Probe::DnsElsewhere, by("UDP"), move || query(server, "A"));
        attempts.add(Probe::DnsElsewhere, by("TCP"), move || network::tcp(server));
    }
    // So that there is one to ask wherever the host asks itself (RFC 5737).
    let nobody = SocketAddr::from((Ipv4Addr::new(203, 0, 113, 53), PORT));
    attempts.add(Probe::DnsElsewhere, nobody.to_string(), move || {
        query(nobody, "A")
    });
    if orders.ground == Ground::None {
        return;
    }
    let mut add = |probe, kind: &'static str, server| {
        attempts.add(probe, format!("{kind} at {server}"), move || {
            query(server, kind)
        });
    };
    let embedded = SocketAddr::from((EMBEDDED, PORT));
    for kind in ["A", "TXT"] {
        add(Probe::DnsEmbedded, kind, embedded);
    }
    if let Some(own) = name_server() {
        if orders.ground == Ground::Private {
            add(Probe::DnsDenied, "A", own);
        }
        for kind in TYPES {
            add(Probe::DnsTypes, kind, own);
        }
    }
}

/// `NXDOMAIN` and the like, or `NOERROR` and the number of answers.
fn query(server: SocketAddr, kind: &str) -> String {
    ask(server, kind).unwrap_or_else(|error| network::silence(server, &error))
}

fn ask(server: SocketAddr, kind: &str) -> io::Result<String> {
    let name = rr::Name::from_ascii(NAME).map_err(io::Error::other)?;
    let kind: rr::RecordType = kind.parse().map_err(io::Error::other)?;
    let mut question = op::Message::query();
    question.metadata.recursion_desired = true;
    question.add_query(op::Query::query(name, kind));
    let question = question.to_vec().map_err(io::Error::other)?;
    let answer = network::ask(server, &question)?;
    let answer = op::Message::from_vec(&answer).map_err(io::Error::other)?;
    Ok(in_words(
        answer.metadata.response_code,
        answer.answers.len(),
    ))
}

fn in_words(code: op::ResponseCode, answers: usize) -> String {
    match code {
        op::ResponseCode::NoError => format!("NOERROR {answers}"),
        op::ResponseCode::NXDomain => "NXDOMAIN".to_owned(),
        op::ResponseCode::Refused => "REFUSED".to_owned(),
        op::ResponseCode::ServFail => "SERVFAIL".to_owned(),
        other => format!("RCODE {}", u16::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_code_and_how_much_it_holds() {
        for (code, answers, expected) in [
            (op::ResponseCode::NoError, 0, "NOERROR 0"),
            (op::ResponseCode::NoError, 2, "NOERROR 2"),
            (op::ResponseCode::NXDomain, 0, "NXDOMAIN"),
            (op::ResponseCode::Refused, 0, "REFUSED"),
            (op::ResponseCode::NotImp, 0, "RCODE 4"),
        ] {
            assert_eq!(in_words(code, answers), expected);
        }
    }

    #[test]
    fn every_type_is_one() {
        for kind in TYPES {
            assert!(kind.parse::<rr::RecordType>().is_ok(), "{kind}");
        }
    }
}

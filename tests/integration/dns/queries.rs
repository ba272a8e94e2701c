//! What is asked and what is answered, by the eyes of dig and in raw octets.

use super::*;

/// Runs dig once against the server; `+tries=1` makes silence a failure.
fn dig(server: SocketAddr, arguments: &[&str]) -> String {
    let mut dig = Command::new("dig");
    dig.arg(format!("@{}", server.ip()))
        .args([
            "-p",
            &server.port().to_string(),
            "+tries=1",
            "+time=5",
            "+norec",
        ])
        .args(arguments);
    output_of(&mut dig)
}

/// `STATUS answers authorities` of dig's output.
fn counts(output: &str) -> String {
    let after = |key: &str| {
        let (_, rest) = output.split_once(key).unwrap_or(("", "?"));
        rest.split([',', '\n', ' '])
            .next()
            .unwrap_or("?")
            .to_owned()
    };
    format!(
        "{} {} {}",
        after("status: "),
        after("ANSWER: "),
        after("AUTHORITY: ")
    )
}

const TYPES: &[&str] = &[
    "TYPE10",
    "TXT",
    "CNAME",
    "MX",
    "SRV",
    "KEY",
    "TYPE65399",
    "HTTPS",
    "SVCB",
    "AAAA",
    "NS",
];

#[test]
fn an_allowed_name_has_one_address_and_a_denied_one_does_not_exist() {
    let dns = DnsProxy::start(LOOPBACK_CLIENTS);
    let server = dns.at(unique_loopback());
    for transport in ["+notcp", "+tcp"] {
        let ask = |name: &str, kind: &str| counts(&dig(server, &[transport, "-t", kind, name]));
        assert_eq!(ask("allowed.example", "A"), "NOERROR 1 0", "{transport}");
        assert_eq!(ask("eclusa", "A"), "NOERROR 1 0", "{transport}");
        assert_eq!(ask("evil.example", "A"), "NXDOMAIN 0 1", "{transport}");
        for kind in TYPES {
            let told = (ask("allowed.example", kind), ask("evil.example", kind));
            let expected = ("NOERROR 0 1".to_owned(), "NXDOMAIN 0 1".to_owned());
            assert_eq!(told, expected, "{transport} {kind}");
        }
        let told = (ask("allowed.example", "ANY"), ask("evil.example", "ANY"));
        let expected = ("REFUSED 0 0".to_owned(), "NXDOMAIN 0 1".to_owned());
        assert_eq!(told, expected, "{transport}");
    }
    dns.assert_nothing_went_upstream();
}

#[test]
fn names_are_matched_as_the_proxy_matches_them() {
    let dns = DnsProxy::start(LOOPBACK_CLIENTS);
    let (here, server) = (unique_loopback(), dns.at(unique_loopback()));
    let client = Client::at(here);
    let address = server.ip().to_string();
    let allowed = format!("NoError {address}");
    let mut recorded = Vec::new();
    for (name, expected, record) in [
        ("allowed.example", &*allowed, "allow allowlisted listener"),
        ("aLLoWeD.eXaMpLe", &allowed, "allow allowlisted listener"),
        ("a.b.c.wild.example", &allowed, "allow allowlisted listener"),
        ("EcLuSa", &allowed, "allow allowlisted listener"),
        ("wild.example", "NXDomain", "deny not_allowlisted nxdomain"),
        (
            "data.allowed.example",
            "NXDomain",
            "deny not_allowlisted nxdomain",
        ),
        (
            "c2VjcmV0LWRhdGE.evil.example",
            "NXDomain",
            "deny not_allowlisted nxdomain",
        ),
        ("DENIED.Example", "NXDomain", "deny denied_by_rule nxdomain"),
        (
            "secret.wild.example",
            "NXDomain",
            "deny denied_by_rule nxdomain",
        ),
        ("", "NXDomain", "deny bad_request nxdomain"),
    ] {
        let question = query(7, name, 1);
        let answer = client.ask(server, &question);
        assert_eq!(summary(&answer), expected, "{name}");
        assert_eq!(answer[12..question.len()], question[12..], "{name}");
        let name = if name.is_empty() { "." } else { name };
        let (decision, rest) = record.split_once(' ').unwrap();
        recorded.push(format!("{name} A {decision} {rest}"));
    }
    assert_eq!(dns.records_of(here), recorded);
    dns.assert_nothing_went_upstream();
}

#[test]
fn edns_is_answered_in_kind() {
    let dns = DnsProxy::start(LOOPBACK_CLIENTS);
    let server = dns.at(unique_loopback());
    for (arguments, wanted, unwanted) in [
        (&["+noedns", "allowed.example"][..], "NOERROR", "EDNS"),
        (
            &["+edns=0", "allowed.example"],
            "EDNS: version: 0, flags:; udp: 1232",
            "EDE",
        ),
        (
            &["+edns=1", "+noednsneg", "allowed.example"],
            "BADVERS",
            "IN\tA\t127",
        ),
        (
            &["+ednsopt=65001:00ff", "allowed.example"],
            "NOERROR",
            "OPT=65001",
        ),
        (
            &["+subnet=198.51.100.0/24", "allowed.example"],
            "NOERROR",
            "CLIENT-SUBNET",
        ),
        (
            &["+cookie", "+dnssec", "allowed.example"],
            "NOERROR",
            "COOKIE: ",
        ),
        (
            &["evil.example"],
            "EDE: 15 (Blocked): (not_allowlisted)",
            "ANSWER SECTION",
        ),
        (
            &["denied.example"],
            "EDE: 15 (Blocked): (denied_by_rule)",
            "ANSWER SECTION",
        ),
        (
            &["+notcp", "-t", "ANY", "allowed.example"],
            "EDE: 18 (Prohibited)",
            "ANSWER SECTION",
        ),
    ] {
        let output = dig(server, arguments);
        // dig repeats its own query only in the command line, which bears no option values.
        assert!(output.contains(wanted), "{arguments:?}: {output}");
        assert!(!output.contains(unwanted), "{arguments:?}: {output}");
    }
    dns.assert_nothing_went_upstream();
}

#[test]
fn what_is_no_lookup_is_refused_in_its_way() {
    let dns = DnsProxy::start(LOOPBACK_CLIENTS);
    let server = dns.at(unique_loopback());
    for (arguments, wanted) in [
        (
            &["-c", "CH", "-t", "TXT", "version.bind"][..],
            "REFUSED 0 0",
        ),
        (&["-c", "CH", "-t", "TXT", "id.server"], "REFUSED 0 0"),
        (&["-c", "ANY", "allowed.example"], "REFUSED 0 0"),
        (&["+opcode=notify", "allowed.example"], "NOTIMP 0 0"),
        (&["+opcode=update", "allowed.example"], "NOTIMP 0 0"),
        (&["+opcode=status", "allowed.example"], "NOTIMP 0 0"),
        (&["+opcode=15", "allowed.example"], "NOTIMP 0 0"),
    ] {
        assert_eq!(counts(&dig(server, arguments)), wanted, "{arguments:?}");
    }
    for transfer in ["axfr", "ixfr=1"] {
        let output = dig(server, &[transfer, "allowed.example"]);
        assert!(output.contains("Transfer failed"), "{output}");
    }
    let client = Client::at(unique_loopback());
    for record_type in [251, 252] {
        let answer = client.ask(server, &query(1, "allowed.example", record_type));
        assert_eq!(summary(&answer), "Refused", "{record_type}");
    }
    dns.assert_nothing_went_upstream();
}

/// What a message is, the message, and the response code; none where it is dropped.
fn odd_messages() -> Vec<(&'static str, Vec<u8>, Option<&'static str>)> {
    let good = query(1, "allowed.example", 1);
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut message = good.clone();
        change(&mut message);
        message
    };
    let response = changed(&|message| message[2] |= 0x80);
    let pointer = |target: u8| [&good[..12], &[0xC0, target, 0, 1, 0, 1]].concat();
    vec![
        ("nothing", vec![], None),
        ("11 octets", good[..11].to_vec(), None),
        ("a response", response, None),
        ("a header alone", good[..12].to_vec(), Some("FormErr")),
        ("half a question", good[..20].to_vec(), Some("FormErr")),
        ("a pointer to itself", pointer(0x0C), Some("FormErr")),
        ("a pointer forward", pointer(0x20), Some("FormErr")),
        ("a pointer into the header", pointer(0x00), Some("FormErr")),
        (
            "no question",
            changed(&|message| message[5] = 0),
            Some("FormErr"),
        ),
        (
            "two questions",
            changed(&|message| message[5] = 2),
            Some("FormErr"),
        ),
        (
            "an octet too many",
            changed(&|message| message.push(0)),
            Some("FormErr"),
        ),
        (
            "a dot in a label",
            changed(&|message| message[12 + 3] = b'.'),
            Some("NXDomain"),
        ),
        (
            "a NUL in a label",
            changed(&|message| message[12 + 3] = 0),
            Some("NXDomain"),
        ),
        (
            "not UTF-8",
            changed(&|message| message[12 + 3] = 0xFF),
            Some("NXDomain"),
        ),
    ]
}

#[test]
fn malformed_messages_are_told_so_or_dropped() {
    let dns = DnsProxy::start(LOOPBACK_CLIENTS);
    let server = dns.at(unique_loopback());
    let client = Client::at(unique_loopback());
    for (what, message, expected) in odd_messages() {
        client.send(server, &message);
        client.send(server, &query(0x7777, "allowed.example", 1));
        // The answer to the good query follows the one before it, if there is one.
        let mut answers = vec![client.receive().0];
        if expected.is_some() {
            answers.push(client.receive().0);
        }
        let last = answers.pop().unwrap();
        assert_eq!(last[..2], [0x77, 0x77], "{what}");
        let told = answers.pop().map(|answer| summary(&answer));
        assert_eq!(told.as_deref(), expected, "{what}");
    }
    // Nor does a response from a server's port begin a conversation.
    let peer = Client::from_port(unique_loopback(), 53);
    let mut response = query(1, "allowed.example", 1);
    response[2] |= 0x80;
    peer.send(server, &response);
    let answer = peer.ask(server, &query(2, "allowed.example", 1));
    assert_eq!(answer[..2], [0, 2]);
}

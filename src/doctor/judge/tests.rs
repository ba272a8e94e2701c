use super::{
    Ground::{Private, Shared},
    Verdict::{Held, NotHeld, Open},
    *,
};

fn seen(probe: Probe, what: &str, result: &str) -> Observation {
    Observation {
        probe,
        what: what.to_owned(),
        result: result.to_owned(),
    }
}

fn verdict(ground: Ground, probe: Probe, what: &str, result: &str) -> Verdict {
    finding(ground, probe, vec![seen(probe, what, result)]).verdict
}

/// A ground, a probe, what it is made with, what happens, and what comes of it.
const CASES: &[(Ground, Probe, &str, &str, Verdict)] = &[
    (Private, Probe::HostTcp, "192.0.2.1:80", "ENETUNREACH", Held),
    (Private, Probe::HostTcp, "192.0.2.1:80", "ETIMEDOUT", Held),
    (
        Private,
        Probe::HostTcp,
        "192.0.2.1:80",
        "connected",
        NotHeld,
    ),
    // A refusal is an answer: the host is within reach.
    (
        Private,
        Probe::EnginePorts,
        "192.0.2.1:2375",
        "ECONNREFUSED",
        NotHeld,
    ),
    (Private, Probe::HostUdp, "192.0.2.1:80", "answered", NotHeld),
    // Silence of what is nobody's shows that a packet left.
    (
        Private,
        Probe::DirectTcp,
        "192.0.2.1:443",
        "ETIMEDOUT",
        NotHeld,
    ),
    (
        Private,
        Probe::DirectUdp,
        "192.0.2.1:443",
        "ETIMEDOUT",
        NotHeld,
    ),
    (
        Private,
        Probe::DirectUdp,
        "192.0.2.1:443",
        "ENETUNREACH",
        Held,
    ),
    (Private, Probe::Gateway, "the routing table", "none", Held),
    (
        Shared,
        Probe::Gateway,
        "172.20.0.1:80",
        "ECONNREFUSED",
        NotHeld,
    ),
    (
        Private,
        Probe::Neighbour,
        "10.231.0.3:4000",
        "connected",
        NotHeld,
    ),
    (
        Shared,
        Probe::Neighbour,
        "172.20.0.3:4000",
        "connected",
        Open,
    ),
    (
        Shared,
        Probe::Neighbour,
        "172.20.0.3:4000",
        "EHOSTUNREACH",
        Held,
    ),
    (Private, Probe::ByProxy, "example.com:443", "403", Held),
    (Private, Probe::ByProxy, "example.com:443", "200", NotHeld),
    (Private, Probe::DnsDenied, "A", "NXDOMAIN", Held),
    (Private, Probe::DnsDenied, "A", "NOERROR 1", NotHeld),
    (Private, Probe::DnsTypes, "TXT", "ETIMEDOUT", NotHeld),
    (Shared, Probe::DnsTypes, "TXT", "ETIMEDOUT", Held),
    (Shared, Probe::DnsTypes, "TXT", "NOERROR 2", NotHeld),
    (Shared, Probe::DnsEmbedded, "TXT", "SERVFAIL", Held),
    (Ground::None, Probe::Ipv6Addresses, "eth0", "fe80", NotHeld),
    (Ground::None, Probe::RawSockets, "AF_PACKET", "EPERM", Held),
    (
        Ground::None,
        Probe::RawSockets,
        "AF_PACKET",
        "made",
        NotHeld,
    ),
    (Ground::None, Probe::Identity, "Uid", "0 0 0 0", NotHeld),
    (
        Ground::None,
        Probe::Capabilities,
        "CapBnd",
        "00000000a80425fb",
        NotHeld,
    ),
    (Ground::None, Probe::Seccomp, "Seccomp", "0", NotHeld),
    (Ground::None, Probe::NoExec, "/tmp", "ENOEXEC", NotHeld),
    (Ground::None, Probe::RootFileSystem, "/", "rw", NotHeld),
    (Ground::None, Probe::Room, "/tmp", "no end of it", NotHeld),
    (
        Ground::None,
        Probe::Environment,
        "AWS_REGION",
        "set",
        NotHeld,
    ),
    (
        Ground::None,
        Probe::HostAliases,
        "host.docker.internal",
        "192.0.2.1",
        NotHeld,
    ),
    (
        Ground::None,
        Probe::HostAliases,
        "localhost",
        "127.0.0.1",
        Held,
    ),
    (Ground::None, Probe::Devices, "kvm", "there", NotHeld),
    (
        Ground::None,
        Probe::Memory,
        "twice the memory",
        "went through",
        NotHeld,
    ),
];

#[test]
fn each_boundary_holds_by_its_own_results_and_no_other() {
    for (ground, probe, what, result, expected) in CASES {
        let got = verdict(*ground, *probe, what, result);
        assert_eq!(got, *expected, "{ground:?} {probe:?} {what} {result}");
    }
}

#[test]
fn what_was_not_told_of_has_not_held() {
    for finding in judge(Private, Probe::ALL, &[]) {
        assert_eq!(finding.verdict, NotHeld, "{}", finding.probe);
        assert_eq!(finding.happened, "nothing was told of it");
    }
}

#[test]
fn one_attempt_of_many_is_enough_and_is_named() {
    let mut all: Vec<Observation> = (1..=5)
        .map(|last| seen(Probe::HostTcp, &format!("192.0.2.{last}:80"), "connected"))
        .collect();
    all.push(seen(Probe::HostTcp, "192.0.2.9:80", "ENETUNREACH"));
    let found = finding(Shared, Probe::HostTcp, all);
    assert_eq!(
        found.happened,
        "192.0.2.1:80: connected, 192.0.2.2:80: connected, 192.0.2.3:80: connected, and 2 more"
    );
    assert_eq!(found.observations.len(), 6);
    assert!(found.remedy.unwrap().contains("--internal"));
}

#[test]
fn what_held_is_counted() {
    let results = ["EPERM", "EAFNOSUPPORT", "EPERM"];
    let all = results.map(|result| seen(Probe::OtherSockets, "socket", result));
    let found = finding(Ground::None, Probe::OtherSockets, all.into());
    assert_eq!(found.happened, "EAFNOSUPPORT, EPERM (2)");
    assert_eq!((found.verdict, found.remedy), (Held, None));
}

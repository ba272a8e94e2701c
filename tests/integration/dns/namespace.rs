//! Which interfaces a wildcard listener answers on, in network namespaces of the test's own.

use super::*;
use crate::support::namespace::{self, Outside, assert_fresh, ip};

/// dig's short answer, `timeout` or `reset`.
fn dig(outside: &Outside, server: &str, transport: &str) -> String {
    let mut dig = outside.command("dig");
    dig.arg(format!("@{server}"));
    dig.args([
        transport,
        "+tries=1",
        "+time=1",
        "+short",
        "allowed.example",
    ]);
    let output = dig.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.contains("timed out") {
        "timeout".to_owned()
    } else if text.contains("connection reset") || text.contains("end of file") {
        "reset".to_owned()
    } else {
        text.trim().to_owned()
    }
}

#[test]
fn the_uplink_is_not_served_unless_configured() {
    namespace::run("dns::namespace::an_uplink_and_a_sandbox_side");
}

#[test]
#[ignore = "runs in namespaces of its own, which the test above makes"]
fn an_uplink_and_a_sandbox_side() {
    assert_fresh();
    let outside = Outside::new();
    outside.cable("uplink", &["192.0.2.2/24"], &["192.0.2.1/24"]);
    outside.cable(
        "sandbox",
        &["172.30.0.2/24", "2001:db8::2/64"],
        &["172.30.0.3/24", "2001:db8::3/64"],
    );
    ip("route add default via 192.0.2.1");
    // Everyone is a client here: what keeps the uplink out is the interface alone.
    let clients = ["192.0.2.0/24", "172.30.0.0/24", "2001:db8::/64"]
        .map(|source| format!("[[clients]]\nsource = \"{source}\"\nprofile = \"default\"\n"))
        .concat();
    {
        let dns = DnsProxy::on("0.0.0.0:53".parse().unwrap(), &clients);
        for (server, transport, expected) in [
            ("172.30.0.2", "+notcp", "172.30.0.2"),
            ("172.30.0.2", "+tcp", "172.30.0.2"),
            ("192.0.2.2", "+notcp", "timeout"),
            ("192.0.2.2", "+tcp", "reset"),
        ] {
            let told = dig(&outside, server, transport);
            assert_eq!(told, expected, "{server} {transport}");
        }
        // What the sandbox side sends to the uplink's address is not served either.
        let route = "route add 192.0.2.2/32 via 172.30.0.2";
        output_of(outside.command("ip").args(route.split(' ')));
        assert_eq!(dig(&outside, "192.0.2.2", "+notcp"), "timeout");
        let route = "route del 192.0.2.2/32 via 172.30.0.2";
        output_of(outside.command("ip").args(route.split(' ')));
        // Nor what the uplink sends to the sandbox side's address.
        let route = "route replace 172.30.0.2/32 via 192.0.2.2 src 192.0.2.1";
        output_of(outside.command("ip").args(route.split(' ')));
        assert_eq!(dig(&outside, "172.30.0.2", "+notcp"), "timeout");
        let route = "route del 172.30.0.2/32 via 192.0.2.2";
        output_of(outside.command("ip").args(route.split(' ')));
        dns.assert_nothing_went_upstream();
    }
    {
        let dns = DnsProxy::on("[::]:53".parse().unwrap(), &clients);
        for transport in ["+notcp", "+tcp"] {
            // The IPv4 address of the same interface.
            assert_eq!(
                dig(&outside, "2001:db8::2", transport),
                "172.30.0.2",
                "{transport}"
            );
        }
        dns.assert_nothing_went_upstream();
    }
    let dns = DnsProxy::on("192.0.2.2:53".parse().unwrap(), &clients);
    assert_eq!(dig(&outside, "192.0.2.2", "+notcp"), "192.0.2.2");
    assert_eq!(dig(&outside, "192.0.2.2", "+tcp"), "192.0.2.2");
    dns.assert_nothing_went_upstream();
}

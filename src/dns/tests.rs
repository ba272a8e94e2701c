use super::*;

#[test]
fn an_ipv6_client_is_given_the_ipv4_address_of_the_same_interface() {
    let interfaces: Vec<InterfaceAddress> = [
        (1, "127.0.0.1/8"),
        (1, "::1/128"),
        (2, "192.0.2.2/24"),
        (3, "2001:db8::3/64"),
        (3, "172.30.0.2/24"),
        (3, "172.30.0.3/24"),
        (4, "2001:db8::4/64"),
    ]
    .into_iter()
    .map(|(index, network)| InterfaceAddress {
        index,
        network: network.parse().unwrap(),
        sandbox_side: true,
    })
    .collect();
    for (local, expected) in [
        ("2001:db8::3", Some("172.30.0.2")),
        ("::1", Some("127.0.0.1")),
        // No IPv4 there, and not an address of ours.
        ("2001:db8::4", None),
        ("2001:db8::5", None),
    ] {
        let expected = expected.map(|address| address.parse().unwrap());
        assert_eq!(
            beside(local.parse().unwrap(), &interfaces),
            expected,
            "{local}"
        );
    }
    let asked = Ipv4Addr::new(198, 51, 100, 7);
    assert_eq!(own_address(asked.into()), Some(asked));
}

//! A head is read alike in pieces and in one; what is routed goes to one destination, and the head
//! that is sent on says that destination, that framing and nothing of the client's identity.

#![no_main]

use eclusa::{
    destination::Destination,
    protocol::{
        Framing, RequestHead, ResponseHead, Route, forwarding, route_absolute, route_connect,
        route_origin,
    },
};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((head, length))) = ResponseHead::parse(bytes, LIMIT) {
        assert!(length <= LIMIT && (100..=599).contains(&head.status));
        Framing::of_response(&head, "GET").unwrap();
    }
    let parsed = RequestHead::parse(bytes, LIMIT);
    let Ok(Some((head, length))) = &parsed else {
        return;
    };
    assert_eq!(RequestHead::parse(&bytes[..*length], LIMIT), parsed);
    for end in [0, 1, length / 2, length - 1] {
        assert_eq!(RequestHead::parse(&bytes[..end], LIMIT), Ok(None), "{end}");
    }
    let framing = Framing::of_request(head).unwrap();
    for route in [
        route_connect(head),
        route_absolute(head),
        route_origin(head, None),
    ]
    .into_iter()
    .flatten()
    {
        check(head, &route, framing);
    }
});

fn check(head: &RequestHead, route: &Route, framing: Framing) {
    let destination = &route.destination;
    let again = Destination::parse_authority(destination.scheme, &destination.to_string());
    assert_eq!(again.as_ref(), Ok(destination));
    let path = route.path.as_deref().unwrap_or_default();
    assert!(!path.contains('?'));
    // What we add may be over the number of fields that we take.
    let crowded = head.fields.iter().count() > 120;
    let last_hop = head.fields.all("max-forwards").next().is_some();
    if route.origin_form.is_empty() || crowded || last_hop {
        return;
    }
    let sent = forwarding::request_head(head, route, framing);
    let (sent, _) = RequestHead::parse(&sent, usize::MAX).unwrap().unwrap();
    assert_eq!(sent.method, head.method);
    assert_eq!(sent.target, route.origin_form);
    assert_eq!(Framing::of_request(&sent), Ok(framing));
    assert_eq!(sent.is_websocket_upgrade(), head.is_websocket_upgrade());
    let at_origin = route_origin(&sent, Some(destination)).unwrap();
    assert_eq!(at_origin.destination, *destination);
    assert!(forwarding::is_loop(&sent));
    for name in [
        "forwarded",
        "x-forwarded-for",
        "x-real-ip",
        "proxy-authorization",
        "proxy-connection",
        "keep-alive",
        "te",
        "trailer",
        "http2-settings",
    ] {
        assert!(sent.fields.all(name).next().is_none(), "{name}");
    }
}

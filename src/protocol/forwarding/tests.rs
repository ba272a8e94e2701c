use super::*;
use crate::protocol::route_absolute;

fn request(text: &str) -> RequestHead {
    let (head, _) = RequestHead::parse(text.as_bytes(), 64 * 1024)
        .unwrap()
        .unwrap();
    head
}

fn response(text: &str) -> ResponseHead {
    let (head, _) = ResponseHead::parse(text.as_bytes(), 64 * 1024)
        .unwrap()
        .unwrap();
    head
}

fn sent(head: &RequestHead) -> String {
    let route = route_absolute(head).unwrap();
    let framing = Framing::of_request(head).unwrap();
    String::from_utf8(request_head(head, &route, framing)).unwrap()
}

fn answered(text: &str, framing: Framing, then: Then) -> String {
    let head = response(text);
    String::from_utf8(response_head(&head, framing, then)).unwrap()
}

/// C12, J05, A10, A13: only these lines reach the origin.
#[test]
fn the_origin_gets_end_to_end_fields_alone() {
    let head = request(
        "POST http://Allowed.example/a?b=c HTTP/1.1\r\nHost: ALLOWED.example:80\r\n\
         User-Agent: curl/8\r\nAuthorization: Bearer t\r\nCookie: a=b\r\nCookie: c=d\r\n\
         Proxy-Authorization: Basic eDp5\r\nProxy-Connection: keep-alive\r\n\
         Proxy-Authenticate: Basic\r\nProxy-Anything: x\r\nProxy: http://evil.example\r\n\
         Connection: keep-alive, X-Hop, Upgrade, HTTP2-Settings, Connection, Host, \
         Content-Length\r\n\
         X-Hop: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nTrailer: X\r\n\
         Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n\
         Via: 1.1 corporate\r\nForwarded: for=10.0.0.9\r\nX-Forwarded-For: 10.0.0.9\r\n\
         X-Forwarded-Host: evil.example\r\nX-Real-IP: 10.0.0.9\r\nTrue-Client-IP: 10.0.0.9\r\n\
         CF-Connecting-IP: 10.0.0.9\r\nX-Client-IP: 10.0.0.9\r\nX-Sandbox-Id: other\r\n\
         X-Eclusa-Run: other\r\nX-Host: evil.example\r\nX-Original-URL: /admin\r\n\
         X_Forwarded_For: 10.0.0.9\r\nX-Real_IP: 10.0.0.9\r\nContent_Length: 9\r\n\
         Transfer_Encoding: chunked\r\nProxy_Authorization: x\r\napi_key: kept\r\n\
         Content-Length: 3\r\nAccept: */*\r\n\r\n",
    );
    assert_eq!(
        sent(&head),
        "POST /a?b=c HTTP/1.1\r\nhost: allowed.example\r\nuser-agent: curl/8\r\n\
         authorization: Bearer t\r\ncookie: a=b\r\ncookie: c=d\r\n\
         api_key: kept\r\naccept: */*\r\nvia: 1.1 eclusa\r\ncontent-length: 3\r\n\r\n"
    );
}

#[test]
fn host_is_the_destination_without_port_80() {
    for (target, host) in [
        ("http://ALLOWED.example./", "allowed.example"),
        ("http://allowed.example:80/", "allowed.example"),
        ("http://allowed.example:8080/", "allowed.example:8080"),
        ("http://[2001:DB8::1]/", "[2001:db8::1]"),
        ("http://[2001:db8::1]:81/", "[2001:db8::1]:81"),
    ] {
        let head = request(&format!("GET {target} HTTP/1.0\r\n\r\n"));
        let expected = format!("GET / HTTP/1.1\r\nhost: {host}\r\nvia: 1.0 eclusa\r\n\r\n");
        assert_eq!(sent(&head), expected, "{target}");
    }
}

#[test]
fn expect_and_chunked_go_on_and_max_forwards_counts_down() {
    for (fields, expected) in [
        (
            "Expect: 100-continue\r\nTransfer-Encoding: Chunked\r\n",
            "expect: 100-continue\r\nvia: 1.1 eclusa\r\ntransfer-encoding: chunked\r\n",
        ),
        (
            "Content-Length: 0\r\n",
            "via: 1.1 eclusa\r\ncontent-length: 0\r\n",
        ),
        (
            "Max-Forwards: 10\r\n",
            "max-forwards: 9\r\nvia: 1.1 eclusa\r\n",
        ),
    ] {
        let head = request(&format!(
            "OPTIONS http://a.example HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"
        ));
        let expected = format!("OPTIONS * HTTP/1.1\r\nhost: a.example\r\n{expected}\r\n");
        assert_eq!(sent(&head), expected, "{fields}");
    }
}

const UPGRADE: &str = "GET http://a.example/chat HTTP/1.1\r\nHost: a.example\r\n\
                       Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                      Upgrade: WebSocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

#[test]
fn websocket_is_asked_for_and_switched_to_by_name() {
    assert_eq!(
        sent(&request(UPGRADE)),
        "GET /chat HTTP/1.1\r\nhost: a.example\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nvia: 1.1 eclusa\r\n\
         connection: upgrade\r\nupgrade: websocket\r\n\r\n"
    );
    assert_eq!(
        answered(SWITCH, Framing::Empty, Then::WebSocket),
        "HTTP/1.1 101 Switching Protocols\r\n\
         sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nvia: 1.1 eclusa\r\n\
         connection: upgrade\r\nupgrade: websocket\r\n\r\n"
    );
}

/// J06, A10.
#[test]
fn an_origin_neither_plays_the_proxy_nor_switches_unasked() {
    let plain = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned();
    let h2c = UPGRADE.replace("websocket\r", "h2c\r");
    for (asked, answer, fits) in [
        (UPGRADE, SWITCH.to_owned(), true),
        (&plain, SWITCH.to_owned(), false),
        (&h2c, SWITCH.to_owned(), false),
        (UPGRADE, SWITCH.replace("WebSocket\r", "h2c\r"), false),
        (
            UPGRADE,
            SWITCH.replace("Connection: Upgrade\r\n", ""),
            false,
        ),
        (
            UPGRADE,
            SWITCH.replace("HTTP/1.1 101", "HTTP/1.0 101"),
            false,
        ),
        (UPGRADE, "HTTP/1.1 426 x\r\n\r\n".to_owned(), true),
        (&plain, "HTTP/1.1 407 x\r\n\r\n".to_owned(), false),
        (&plain, "HTTP/1.1 401 x\r\n\r\n".to_owned(), true),
        (&plain, "HTTP/1.1 103 x\r\n\r\n".to_owned(), true),
    ] {
        let checked = check_response(&response(&answer), &request(asked));
        assert_eq!(checked.is_ok(), fits, "{asked} {answer}");
    }
}

/// H11, J06.
#[test]
fn the_client_gets_end_to_end_fields_alone() {
    let text = "HTTP/1.1 200 Fine\r\nContent-Type: text/plain\r\nSet-Cookie: a=b\r\n\
                Set-Cookie: c=d\r\nVia: 1.1 cdn\r\nAlt-Svc: h3=\":443\"\r\n\
                Proxy-Authenticate: Basic\r\nProxy-Status: eclusa; error=x\r\n\
                Proxy-Authentication-Info: x\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\n\
                Keep-Alive: timeout=5\r\nTrailer: X\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\n";
    assert_eq!(
        answered(text, Framing::Length(3), Then::KeepAlive),
        "HTTP/1.1 200 Fine\r\ncontent-type: text/plain\r\nset-cookie: a=b\r\n\
         set-cookie: c=d\r\nvia: 1.1 cdn\r\nvia: 1.1 eclusa\r\ncontent-length: 3\r\n\r\n"
    );
}

/// What follows Via in the head of a response.
fn told(response: &str, framing: Framing, then: Then) -> String {
    let head = answered(&format!("HTTP/1.1 {response}\r\n\r\n"), framing, then);
    let (_, told) = head.split_once("via: 1.1 eclusa\r\n").unwrap();
    told.replace("\r\n", "|")
}

#[test]
fn the_framing_told_is_the_framing_sent() {
    use Then::{Close, KeepAlive};
    for (response, framing, then, expected) in [
        (
            "200 x",
            Framing::Chunked,
            KeepAlive,
            "transfer-encoding: chunked||",
        ),
        ("200 x", Framing::UntilClose, Close, "connection: close||"),
        (
            "200 x",
            Framing::Length(0),
            KeepAlive,
            "content-length: 0||",
        ),
        (
            "200 x",
            Framing::Length(9),
            Close,
            "connection: close|content-length: 9||",
        ),
    ] {
        assert_eq!(told(response, framing, then), expected, "{framing:?}");
    }
}

#[test]
fn a_response_without_a_body_tells_only_a_length_that_means_something() {
    for (response, expected) in [
        ("200 x\r\nContent-Length: 7", "content-length: 7||"),
        ("200 x\r\nTransfer-Encoding: chunked", "|"),
        ("304 x\r\nContent-Length: 7", "content-length: 7||"),
        ("204 x\r\nContent-Length: 7", "|"),
        ("103 x\r\nLink: <a>", "|"),
        ("100 x\r\nContent-Length: 7", "|"),
    ] {
        let told = told(response, Framing::Empty, Then::KeepAlive);
        assert_eq!(told, expected, "{response}");
    }
    assert_eq!(told("103 x", Framing::Empty, Then::Close), "|");
}

#[test]
fn a_request_that_passed_here_before_is_a_loop() {
    for (via, expected) in [
        ("", false),
        ("Via: 1.1 corporate\r\n", false),
        ("Via: 1.1 not-eclusa\r\n", false),
        ("Via: 1.1 eclusa\r\n", true),
        ("Via: 1.0 a, HTTP/1.1\tEclusa (comment)\r\n", true),
        ("Via: 1.1 a\r\nVia: 1.1 eclusa\r\n", true),
    ] {
        let head = request(&format!("GET / HTTP/1.1\r\nHost: a.example\r\n{via}\r\n"));
        assert_eq!(is_loop(&head), expected, "{via}");
    }
    let first = request("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert!(is_loop(&request(&sent(&first))));
}

#[test]
fn the_tables_are_sorted_for_their_search() {
    for name in ["connection", "http2-settings", "proxy", "upgrade", "te"] {
        assert!(is_hop_by_hop(name), "{name}");
    }
    assert!(HOP_BY_HOP.is_sorted());
    assert!(IDENTITY.is_sorted());
}

#[test]
fn what_is_sent_parses_to_what_was_meant() {
    let head = request(
        "PUT http://a.example:8080/x?y HTTP/1.1\r\nHost: a.example\r\n\
         X: caf\u{e9}\t\"1\"\r\nEmpty:\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    let again = request(&sent(&head));
    assert_eq!((&*again.method, &*again.target), ("PUT", "/x?y"));
    assert_eq!(Framing::of_request(&again), Ok(Framing::Chunked));
    for name in ["x", "empty"] {
        assert_eq!(again.fields.one(name), head.fields.one(name), "{name}");
    }
}

#[test]
fn schemes_that_log_in_the_connection_are_known() {
    for (value, expected) in [
        ("NTLM TlRMTVNTUAAB", true),
        ("negotiate", true),
        ("Basic realm=\"x\", NTLM", true),
        ("Bearer ntlm", false),
        ("NTLMx", false),
        ("Basic bnRsbTpudGxt", false),
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: a.example\r\nAuthorization: {value}\r\n\r\n");
        let (head, _) = RequestHead::parse(text.as_bytes(), 65_536)
            .unwrap()
            .unwrap();
        let found = logs_in_connection(&head.fields, "authorization");
        assert_eq!(found, expected, "{value}");
    }
}

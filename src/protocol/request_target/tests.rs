use proptest::prelude::*;

use super::*;

fn head(text: &str) -> RequestHead {
    let (head, _) = RequestHead::parse(text.as_bytes(), 64 * 1024)
        .unwrap()
        .unwrap_or_else(|| panic!("{text:?} is not whole"));
    head
}

/// A request with its Host lines as given.
fn request(line: &str, hosts: &[&str]) -> RequestHead {
    let hosts: String = hosts
        .iter()
        .flat_map(|host| ["Host: ", host, "\r\n"])
        .collect();
    head(&format!("{line}\r\n{hosts}\r\n"))
}

/// `scheme://host:port origin-form`, or the reason.
fn told(route: Result<Route, RouteError>) -> Result<String, Reason> {
    let route = route.map_err(|error| error.reason)?;
    let Destination { scheme, host, port } = &route.destination;
    let path = route.origin_form.split('?').next().unwrap_or_default();
    assert_eq!(route.path.as_deref(), (!path.is_empty()).then_some(path));
    Ok(format!(
        "{}://{host}:{port} {}",
        scheme.as_str(),
        route.origin_form
    ))
}

fn connect(target: &str, hosts: &[&str]) -> Result<String, Reason> {
    told(route_connect(&request(
        &format!("CONNECT {target} HTTP/1.1"),
        hosts,
    )))
}

fn absolute(method: &str, target: &str, host: &str) -> Result<String, Reason> {
    told(route_absolute(&request(
        &format!("{method} {target} HTTP/1.1"),
        &[host],
    )))
}

/// CASES B01 to B20, R01, R02.
#[test]
fn connect_takes_a_host_and_a_port_in_one_spelling() {
    const BAD: Result<&str, Reason> = Err(Reason::BadRequest);
    for (target, expected) in [
        ("allowed.example:443", Ok("https://allowed.example:443 ")),
        ("ALLOWED.Example.:443", Ok("https://allowed.example:443 ")),
        ("allowed.example:80", Ok("http://allowed.example:80 ")),
        ("allowed.example:8443", Ok("https://allowed.example:8443 ")),
        ("198.51.100.7:443", Ok("https://198.51.100.7:443 ")),
        ("[2606:4700:0::1]:443", Ok("https://[2606:4700::1]:443 ")),
        ("[allowed.example]:443", BAD),
        ("[::1]tail:443", BAD),
        ("[::1%25.allowed.example]:443", BAD),
        ("[fe80::1%25eth0]:443", BAD),
        ("2606:4700::1:443", BAD),
        ("allowed.example..:443", BAD),
        ("allowed.example@evil.example:443", BAD),
        ("a@b@allowed.example:443", BAD),
        ("user:pass@allowed.example:443", BAD),
        ("allowed.example", BAD),
        ("allowed.example:", BAD),
        ("allowed.example:0", BAD),
        ("allowed.example:+443", BAD),
        ("allowed.example:0443", BAD),
        ("allowed.example:65979", BAD),
        ("allowed.example:4294967739", BAD),
        ("allowed.example:443:443", BAD),
        ("allowed.example:443/", BAD),
        ("allowed.example:443?x", BAD),
        ("allowed.example:443#x", BAD),
        ("http://allowed.example:443", BAD),
        ("https://allowed.example/", BAD),
        ("/", BAD),
        ("*", BAD),
        (":443", BAD),
        ("2130706433:80", BAD),
        ("0x7f.1:80", BAD),
        ("127.1:80", BAD),
        ("0177.0.0.1:80", BAD),
        ("0:80", BAD),
        ("evil.example%00.allowed.example:443", BAD),
        ("allowed.example\\@evil.example:443", BAD),
        ("allowed.example,evil.example:443", BAD),
        ("allowed.example;evil.example:443", BAD),
    ] {
        let line = format!("CONNECT {target} HTTP/1.0");
        let routed = told(route_connect(&request(&line, &[])));
        assert_eq!(routed.as_deref().map_err(|e| *e), expected, "{target}");
    }
}

#[test]
fn the_host_of_a_connect_names_the_same_or_nothing_flows() {
    const OK: Result<(), Reason> = Ok(());
    for (hosts, expected) in [
        (&["allowed.example:443"][..], OK),
        (&["allowed.example"], OK),
        (&["Allowed.EXAMPLE."], OK),
        (&["evil.example:443"], Err(Reason::HostMismatch)),
        (&["evil.example"], Err(Reason::HostMismatch)),
        (&["x.allowed.example"], Err(Reason::HostMismatch)),
        (&["allowed.example:80"], Err(Reason::HostMismatch)),
        (&["allowed.example:8443"], Err(Reason::HostMismatch)),
        (&["198.51.100.7:443"], Err(Reason::HostMismatch)),
        (&[""], Err(Reason::BadRequest)),
        (&["allowed.example:"], Err(Reason::BadRequest)),
        (&["allowed.example:0443"], Err(Reason::BadRequest)),
        (&["allowed.example, evil.example"], Err(Reason::BadRequest)),
        (&["a@allowed.example:443"], Err(Reason::BadRequest)),
        (&["http://allowed.example"], Err(Reason::BadRequest)),
        (&["[allowed.example]"], Err(Reason::BadRequest)),
    ] {
        let routed = connect("allowed.example:443", hosts).map(|_| ());
        assert_eq!(routed, expected, "{hosts:?}");
    }
}

#[test]
fn a_connect_with_a_body_is_refused() {
    for (fields, fits) in [
        ("Content-Length: 0\r\n", true),
        ("Content-Length: 1\r\n", false),
        ("Transfer-Encoding: chunked\r\n", false),
    ] {
        let text = format!("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
        let routed = told(route_connect(&head(&text))).map(|_| ());
        assert_eq!(routed.is_ok(), fits, "{fields}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    for (line, hint) in [
        ("CONNECT allowed.example HTTP/1.0", "the port is missing"),
        ("CONNECT https://allowed.example/ HTTP/1.0", "not a URL"),
        ("GET https://allowed.example/x HTTP/1.0", "use CONNECT"),
        ("GET /x HTTP/1.0", "forward proxy"),
        ("connect allowed.example:443 HTTP/1.0", "write CONNECT"),
        ("GET bücher HTTP/1.0", ""),
    ] {
        let Ok(Some((head, _))) = RequestHead::parse(format!("{line}\r\n\r\n").as_bytes(), 999)
        else {
            assert_eq!(hint, "", "{line}");
            continue;
        };
        let route = match &*head.method {
            "CONNECT" => route_connect(&head),
            _ => route_absolute(&head),
        };
        let detail = route.unwrap_err().detail;
        assert!(detail.contains(hint), "{line}: {detail}");
    }
}

/// What becomes of an absolute-form target; none where the head itself is refused.
fn got(target: &str) -> Option<Result<String, Reason>> {
    let text = format!("GET {target} HTTP/1.0\r\n\r\n");
    let (head, _) = RequestHead::parse(text.as_bytes(), 999).ok()??;
    Some(told(route_absolute(&head)))
}

#[test]
fn absolute_form_keeps_its_path_and_query_as_sent() {
    for (target, expected) in [
        ("http://a.example/", "http://a.example:80 /"),
        ("http://a.example", "http://a.example:80 /"),
        ("HTTP://A.example:80/a", "http://a.example:80 /a"),
        (
            "http://a.example.:8080/a?b=c",
            "http://a.example:8080 /a?b=c",
        ),
        (
            "http://a.example?q=/x://y",
            "http://a.example:80 /?q=/x://y",
        ),
        (
            "http://a.example/%2e//a/../b",
            "http://a.example:80 /%2e//a/../b",
        ),
        (
            "http://a.example/|{}^\"<>`\\",
            "http://a.example:80 /|{}^\"<>`\\",
        ),
        ("http://a.example/a@b:c", "http://a.example:80 /a@b:c"),
        (
            "http://a.example//b.example/",
            "http://a.example:80 //b.example/",
        ),
    ] {
        assert_eq!(got(target), Some(Ok(expected.to_owned())), "{target}");
    }
}

/// CASES C.
#[test]
fn other_targets_are_refused_on_the_proxy_port() {
    for target in [
        "https://allowed.example/x",
        "HTTPS://allowed.example/x",
        "ftp://allowed.example/x",
        "gopher://allowed.example/x",
        "ws://allowed.example/x",
        "file:///etc/passwd",
        "http:allowed.example/",
        "http:/allowed.example/",
        "http:///allowed.example/",
        "http://",
        "//allowed.example/",
        "/",
        "/http://allowed.example/",
        "*",
        "allowed.example",
        "allowed.example:80",
        "http://allowed.example#evil.example/",
        "http://allowed.example/#x",
        "http://allowed.example@evil.example/",
        "http://u:p@allowed.example/",
        "http://allowed.example:/",
        "http://allowed.example:080/",
        "http://allowed.example:65616/",
        "http://allowed.example\\@evil.example/",
        "http://allowed.example\\.evil.example/",
        "http://allowed.example%2eevil.example/",
        "http://[allowed.example]/",
        "http://2130706433/",
        "http://allowed.example;evil.example/",
    ] {
        assert_eq!(got(target), Some(Err(Reason::BadRequest)), "{target}");
    }
    for target in [
        "http:// allowed.example/",
        "http://b\u{fc}cher.example/",
        "",
    ] {
        assert_eq!(got(target), None, "{target}");
    }
}

#[test]
fn the_host_of_an_absolute_form_names_the_same() {
    const OK: Result<(), Reason> = Ok(());
    const MISMATCH: Result<(), Reason> = Err(Reason::HostMismatch);
    for (target, host, expected) in [
        ("http://allowed.example/", "allowed.example", OK),
        ("http://allowed.example/", "allowed.example:80", OK),
        ("http://allowed.example:80/", "allowed.example", OK),
        ("http://allowed.example:8080/", "allowed.example:8080", OK),
        ("http://allowed.example:8080/", "allowed.example", OK),
        (
            "http://allowed.example:8080/",
            "allowed.example:80",
            MISMATCH,
        ),
        ("http://allowed.example/", "allowed.example:443", MISMATCH),
        ("http://allowed.example/", "evil.example", MISMATCH),
        ("http://192.0.2.1/", "allowed.example", MISMATCH),
        ("http://allowed.example/", "", Err(Reason::BadRequest)),
        (
            "http://allowed.example/",
            "http://allowed.example/",
            Err(Reason::BadRequest),
        ),
    ] {
        assert_eq!(
            absolute("GET", target, host).map(|_| ()),
            expected,
            "{target} {host}"
        );
    }
}

#[test]
fn methods_that_are_not_forwarded() {
    const URL: &str = "http://a.example/";
    const NOT_ALLOWED: Option<Reason> = Some(Reason::MethodNotAllowed);
    let within = Destination::parse_authority(Scheme::Http, "a.example:80").unwrap();
    for (method, expected) in [
        ("TRACE", NOT_ALLOWED),
        ("trace", NOT_ALLOWED),
        ("CONNECT", NOT_ALLOWED),
        ("connect", Some(Reason::BadRequest)),
        ("get", None),
        ("PROPFIND", None),
        ("M-SEARCH", None),
    ] {
        assert_eq!(
            absolute(method, URL, "a.example").err(),
            expected,
            "{method}"
        );
        for within in [None, Some(&within)] {
            let head = request(&format!("{method} / HTTP/1.1"), &["a.example"]);
            assert_eq!(
                told(route_origin(&head, within)).err(),
                expected,
                "{method}"
            );
        }
    }
    for target in ["a.example:443", "/", "*", "https://a.example/"] {
        assert_eq!(
            absolute("TRACE", target, "a.example").err(),
            NOT_ALLOWED,
            "{target}"
        );
    }
}

#[test]
fn options_asks_for_the_server_or_a_path() {
    for (target, expected) in [
        ("http://a.example", "http://a.example:80 *"),
        ("http://a.example/", "http://a.example:80 /"),
        ("http://a.example?x", "http://a.example:80 /?x"),
    ] {
        assert_eq!(
            absolute("OPTIONS", target, "a.example").as_deref(),
            Ok(expected),
            "{target}"
        );
    }
    for (left, fits) in [
        ("0", false),
        ("1", true),
        ("007", true),
        ("00", false),
        ("x", false),
        ("", false),
    ] {
        let text = format!(
            "OPTIONS http://a.example HTTP/1.1\r\nHost: a.example\r\nMax-Forwards: {left}\r\n\r\n"
        );
        assert_eq!(route_absolute(&head(&text)).is_ok(), fits, "{left}");
    }
}

#[test]
fn on_the_transparent_road_host_is_the_destination() {
    for (line, host, expected) in [
        ("GET /a?b HTTP/1.1", "A.example", "http://a.example:80 /a?b"),
        ("GET /a HTTP/1.0", "a.example:80", "http://a.example:80 /a"),
        ("GET // HTTP/1.1", "a.example", "http://a.example:80 //"),
        (
            "GET /?u=http://x HTTP/1.1",
            "a.example",
            "http://a.example:80 /?u=http://x",
        ),
        (
            "GET http://a.example/b HTTP/1.1",
            "a.example",
            "http://a.example:80 /b",
        ),
        ("OPTIONS * HTTP/1.1", "a.example", "http://a.example:80 *"),
    ] {
        let routed = told(route_origin(&request(line, &[host]), None));
        assert_eq!(routed.as_deref(), Ok(expected), "{line} {host}");
    }
}

#[test]
fn on_the_transparent_road_all_else_is_refused() {
    use Reason::{BadRequest, HostMismatch};
    for (line, host, expected) in [
        (
            "GET http://evil.example/ HTTP/1.1",
            "a.example",
            HostMismatch,
        ),
        (
            "GET http://a.example:8080/ HTTP/1.1",
            "a.example",
            HostMismatch,
        ),
        ("GET / HTTP/1.1", "a.example:8080", HostMismatch),
        ("GET / HTTP/1.1", "a.example:443", HostMismatch),
        ("GET * HTTP/1.1", "a.example", BadRequest),
        ("GET a.example:80 HTTP/1.1", "a.example", BadRequest),
        ("GET https://a.example/ HTTP/1.1", "a.example", BadRequest),
        ("GET /#x HTTP/1.1", "a.example", BadRequest),
        ("GET / HTTP/1.1", "a.example/evil", BadRequest),
        ("GET / HTTP/1.1", "a b", BadRequest),
        ("GET / HTTP/1.1", "évil.example", BadRequest),
        ("GET / HTTP/1.1", "", BadRequest),
        ("GET / HTTP/1.1", "0x7f.1", BadRequest),
    ] {
        let routed = told(route_origin(&request(line, &[host]), None));
        assert_eq!(routed, Err(expected), "{line} {host}");
    }
    let nameless = told(route_origin(&request("GET / HTTP/1.0", &[]), None));
    assert_eq!(nameless, Err(BadRequest));
}

/// B17.
#[test]
fn inside_a_tunnel_every_request_stays_with_its_host() {
    const MISMATCH: Result<&str, Reason> = Err(Reason::HostMismatch);
    let within = Destination::parse_authority(Scheme::Http, "allowed.example:80").unwrap();
    for (line, hosts, expected) in [
        (
            "GET /a HTTP/1.1",
            &["allowed.example"][..],
            Ok("http://allowed.example:80 /a"),
        ),
        ("GET /a HTTP/1.0", &[], Ok("http://allowed.example:80 /a")),
        ("GET / HTTP/1.1", &["evil.example"], MISMATCH),
        ("GET / HTTP/1.1", &["allowed.example:8080"], MISMATCH),
        (
            "GET http://evil.example/ HTTP/1.1",
            &["allowed.example"],
            MISMATCH,
        ),
        (
            "GET http://evil.example/ HTTP/1.1",
            &["evil.example"],
            MISMATCH,
        ),
        ("GET http://evil.example/ HTTP/1.0", &[], MISMATCH),
    ] {
        let routed = told(route_origin(&request(line, hosts), Some(&within)));
        assert_eq!(
            routed.as_deref().map_err(|e| *e),
            expected,
            "{line} {hosts:?}"
        );
    }
}

/// K02: what cannot be routed may be a secret in the wrong place.
#[test]
fn refusals_repeat_nothing_that_the_client_sent() {
    for line in [
        "GET http://s3cret:s3cret@allowed.example/ HTTP/1.1",
        "GET https://allowed.example/?token=s3cret HTTP/1.1",
        "GET s3cret://allowed.example/ HTTP/1.1",
        "GET http://s3cret^/ HTTP/1.1",
        "GET http://a.example:s3cret/ HTTP/1.1",
        "GET /s3cret HTTP/1.1",
        "CONNECT s3cret@allowed.example:443 HTTP/1.1",
        "CONNECT s3cret HTTP/1.1",
        "CONNECT s3cret^:443 HTTP/1.1",
        "TRACE /s3cret HTTP/1.1",
    ] {
        for host in ["s3cret:s3cret@a.example", "s3cret^", "s3cret.example", ""] {
            let head = request(line, &[host]);
            for route in [
                route_connect(&head),
                route_absolute(&head),
                route_origin(&head, None),
            ] {
                if let Err(error) = route {
                    assert!(!error.detail.contains("s3cret"), "{line}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_refusal_names_the_destination_wherever_it_could_be_read() {
    let tunnel = Destination::parse_authority(Scheme::Https, "t.example:80").unwrap();
    let absolute = |line: &str, host: &str| route_absolute(&request(line, &[host]));
    let origin = |line: &str, host: &str| route_origin(&request(line, &[host]), None);
    let within = |line: &str, host: &str| route_origin(&request(line, &[host]), Some(&tunnel));
    for (route, reason, destination) in [
        (
            route_connect(&request("CONNECT a.example:443 HTTP/1.1", &["b.example"])),
            Reason::HostMismatch,
            Some("a.example:443"),
        ),
        (
            absolute("GET http://a.example/ HTTP/1.1", "b.example"),
            Reason::HostMismatch,
            Some("a.example:80"),
        ),
        (
            absolute("TRACE http://a.example:81/ HTTP/1.1", "a.example:81"),
            Reason::MethodNotAllowed,
            Some("a.example:81"),
        ),
        (
            absolute("track http://a.example/ HTTP/1.1", "a.example"),
            Reason::MethodNotAllowed,
            Some("a.example:80"),
        ),
        (
            absolute("TRACE http://a@a.example/ HTTP/1.1", "a.example"),
            Reason::MethodNotAllowed,
            None,
        ),
        (
            origin("GET / HTTP/1.1", "a.example:81"),
            Reason::HostMismatch,
            Some("a.example:80"),
        ),
        (
            origin("GET http://b.example/ HTTP/1.1", "a.example"),
            Reason::HostMismatch,
            Some("a.example:80"),
        ),
        (
            origin("TRACK / HTTP/1.1", "a.example"),
            Reason::MethodNotAllowed,
            Some("a.example:80"),
        ),
        (origin("GET / HTTP/1.1", "a@b"), Reason::BadRequest, None),
        (
            within("GET / HTTP/1.1", "a.example"),
            Reason::HostMismatch,
            Some("t.example:80"),
        ),
    ] {
        let error = route.unwrap_err();
        let named = error.destination.as_ref().map(ToString::to_string);
        assert_eq!(
            (error.reason, named.as_deref()),
            (reason, destination),
            "{error}"
        );
    }
}

proptest! {
    #[test]
    fn every_road_gives_one_host_one_destination(
        host in "[a-cA-C.\\[\\]:0-2@%-]{1,12}",
        port in "(:[0-9+]{0,6})?",
    ) {
        let target = format!("http://{host}{port}/");
        let authority = format!("{host}{port}");
        let by_url = route_absolute(&request(&format!("GET {target} HTTP/1.0"), &[]));
        let by_host = route_origin(&request("GET / HTTP/1.1", &[&authority]), None);
        if let Ok(by_host) = by_host {
            prop_assert_eq!(&by_url, &Ok(by_host));
        }
        let by_connect = route_connect(&request(&format!("CONNECT {authority} HTTP/1.0"), &[]));
        if let (Ok(by_connect), Ok(by_url)) = (by_connect, by_url) {
            prop_assert_eq!(by_connect.destination.host, by_url.destination.host);
            prop_assert_eq!(by_connect.destination.port, by_url.destination.port);
        }
    }
}

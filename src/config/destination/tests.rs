//! The spellings of a destination.

use super::parse;
use crate::destination::Scheme;

#[test]
fn destinations_are_read_as_people_write_them() {
    for (text, scheme, canonical) in [
        ("https://a.example/path?q#f", Scheme::Https, "a.example:443"),
        ("https://A.Example:8443", Scheme::Https, "a.example:8443"),
        ("http://a.example", Scheme::Http, "a.example:80"),
        ("http://a.example:8080/x", Scheme::Http, "a.example:8080"),
        ("a.example", Scheme::Https, "a.example:443"),
        ("a.example.", Scheme::Https, "a.example:443"),
        ("a.example:80", Scheme::Http, "a.example:80"),
        ("a.example:22", Scheme::Https, "a.example:22"),
        ("192.0.2.1", Scheme::Https, "192.0.2.1:443"),
        ("[2001:db8::1]:80", Scheme::Http, "[2001:db8::1]:80"),
    ] {
        let destination = parse(text).unwrap();
        assert_eq!(
            (destination.scheme, &*destination.to_string()),
            (scheme, canonical),
            "{text}"
        );
    }
    for (text, hint) in [
        ("", "the host is empty"),
        ("https://", "the host is empty"),
        ("ftp://a.example", "\"ftp\" is neither http nor https"),
        ("a.example/path", "write https://a.example/path"),
        ("::1", "write an IPv6 address in brackets: [::1]:443"),
        ("https://u:p@a.example", "user information"),
        ("a.example:0443", "the port is not a number"),
        ("a.example:", "the port is not a number"),
        ("127.1", "looks like an address"),
        ("a example", "a space or a control character"),
        ("*.a.example", "a character that a DNS name cannot have"),
    ] {
        let found = parse(text).unwrap_err();
        assert!(found.contains(hint), "{text}: {found}");
    }
}

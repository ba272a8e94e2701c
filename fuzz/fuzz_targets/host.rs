//! A host has one canonical form, which parses to itself and which nothing else reads as an address.

#![no_main]

use std::net::IpAddr;

use eclusa::destination::{Destination, Host, Scheme};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(host) = Host::parse(text) {
        let canonical = host.to_string();
        assert_eq!(Host::parse(&canonical), Ok(host.clone()));
        if let Some(name) = host.name() {
            let name = name.as_str();
            assert!(name.parse::<IpAddr>().is_err());
            assert!(!name.ends_with('.') && name.len() <= 253);
            let plain = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
            assert!(name.bytes().all(plain));
            let last = name.rsplit('.').next().unwrap_or_default();
            assert!(!last.bytes().all(|b| b.is_ascii_digit()) && !last.starts_with("0x"));
        }
    }
    if let Ok(destination) = Destination::parse_authority(Scheme::Https, text) {
        let again = Destination::parse_authority(Scheme::Https, &destination.to_string());
        assert_eq!(again, Ok(destination));
    }
});

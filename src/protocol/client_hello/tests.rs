use std::sync::Arc;

use proptest::prelude::*;

use super::*;

const SERVER_NAME: u16 = 0;
const SIGNATURE_ALGORITHMS: (u16, &[u8]) = (13, &[0, 2, 4, 3]);
const ECH: u16 = 0xfe0d;
const PADDING: u16 = 21;

fn vector16(body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap();
    [&length.to_be_bytes()[..], body].concat()
}

/// A `server_name` extension with these entries.
fn names(entries: &[(u8, &[u8])]) -> Vec<u8> {
    let entries: Vec<u8> = entries
        .iter()
        .flat_map(|(kind, name)| [vec![*kind], vector16(name)].concat())
        .collect();
    vector16(&entries)
}

/// A ClientHello message of TLS 1.2 with these extensions.
fn message(extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let extensions: Vec<u8> = extensions
        .iter()
        .flat_map(|(kind, body)| [kind.to_be_bytes().to_vec(), vector16(body)].concat())
        .collect();
    let hello = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &[0, 2, 0xc0, 0x2f],
        &[1, 0],
        &vector16(&extensions),
    ]
    .concat();
    let length = u32::try_from(hello.len()).unwrap().to_be_bytes();
    [&[1][..], &length[1..], &hello].concat()
}

/// The message in records of at most `size` bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    message
        .chunks(size)
        .flat_map(|part| [vec![0x16, 3, 1], vector16(part)].concat())
        .collect()
}

fn hello(extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let all = [&[SIGNATURE_ALGORITHMS], extensions].concat();
    records(&message(&all), 16_384)
}

fn named(name: &str) -> Vec<u8> {
    hello(&[(SERVER_NAME, &names(&[(0, name.as_bytes())]))])
}

/// The first answer of a reader that gets `bytes` in pieces of these lengths, and all it kept.
fn fed(bytes: &[u8], pieces: &[usize]) -> (Result<Option<ClientHello>, Reason>, Vec<u8>) {
    let (mut reader, mut rest) = (HelloReader::new(), bytes);
    let mut answer = Ok(None);
    for piece in pieces.iter().cycle() {
        let (now, later) = rest.split_at((*piece).min(rest.len()));
        rest = later;
        if answer == Ok(None) {
            answer = reader.push(now);
        } else if answer.is_ok() {
            assert_eq!(reader.push(now), answer);
        }
        if rest.is_empty() {
            break;
        }
    }
    (answer, reader.into_bytes())
}

fn read(bytes: &[u8]) -> Result<Option<ClientHello>, Reason> {
    fed(bytes, &[bytes.len().max(1)]).0
}

#[expect(clippy::unnecessary_wraps, reason = "it is what `push` gives")]
fn shows(server_name: Option<&str>, ech: bool) -> Result<Option<ClientHello>, Reason> {
    let server_name = server_name.map(str::to_owned);
    Ok(Some(ClientHello { server_name, ech }))
}

/// What rustls itself sends as a client.
fn of_a_real_client(name: &'static str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = name.try_into().unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_real_client_is_read() {
    let bytes = of_a_real_client("allowed.example");
    assert_eq!(read(&bytes), shows(Some("allowed.example"), false));
    assert_eq!(read(&of_a_real_client("192.0.2.1")), shows(None, false));
}

#[test]
fn the_server_name_is_told_as_it_stands_there() {
    for (name, told) in [
        ("allowed.example", true),
        ("ALLOWED.Example", true),
        ("allowed.example.", true),
        ("_x.allowed.example", true),
        ("192.0.2.1", true),
        ("2001:db8::1", true),
        ("allowed.example..", false),
        (".allowed.example", false),
        ("", false),
        ("*", false),
        ("*.allowed.example", false),
        ("allowed.example\0", false),
        ("evil.example\0.allowed.example", false),
        ("allowed.example:443", false),
        ("[2001:db8::1]", false),
        ("fe80::1%eth0", false),
        ("allowed example", false),
        ("bücher.example", false),
        ("①②⑦.0.0.1", false),
        ("\x1b[2J", false),
        ("127.1", false),
    ] {
        let expected = if told {
            shows(Some(name), false)
        } else {
            Err(Reason::NotTls)
        };
        assert_eq!(read(&named(name)), expected, "{name:?}");
    }
}

#[test]
fn more_names_than_one_are_refused() {
    let (a, b) = (&b"allowed.example"[..], &b"evil.example"[..]);
    for entries in [
        &[(0, a), (0, b)][..],
        &[(0, a), (0, a)],
        &[(0, a), (1, b)],
        &[(1, b), (0, a)],
        &[(1, a)],
        &[],
    ] {
        let bytes = hello(&[(SERVER_NAME, &names(entries))]);
        assert_eq!(read(&bytes), Err(Reason::NotTls), "{entries:?}");
    }
    let (a, b) = (names(&[(0, a)]), names(&[(0, b)]));
    let twice = hello(&[(SERVER_NAME, &a), (SERVER_NAME, &b)]);
    assert_eq!(read(&twice), Err(Reason::NotTls));
    let trailing = [&a[..], &b"x"[..]].concat();
    assert_eq!(
        read(&hello(&[(SERVER_NAME, &trailing)])),
        Err(Reason::NotTls)
    );
}

/// H02.
#[test]
fn no_server_name_is_none() {
    assert_eq!(read(&hello(&[])), shows(None, false));
}

/// H04.
#[test]
fn encrypted_client_hello_is_seen_wherever_it_stands() {
    let name = names(&[(0, b"allowed.example")]);
    for (kind, ech) in [
        (ECH, true),
        (0xfe08, true),
        (0xff02, true),
        (0xffce, true),
        (0xfafa, false),
        (0xff01, false),
        (0xfd00, false),
    ] {
        for body in [&[0][..], &[1], &[0; 200]] {
            let body = if kind == 0xff01 { &[0] } else { body };
            let before = hello(&[(kind, body), (SERVER_NAME, &name)]);
            let after = hello(&[(SERVER_NAME, &name), (PADDING, &[0; 9]), (kind, body)]);
            for bytes in [before, after] {
                match read(&bytes) {
                    // rustls may refuse a body that is not ECH; it never hides one.
                    Err(reason) => assert_eq!(reason, Reason::NotTls),
                    told => assert_eq!(told, shows(Some("allowed.example"), ech), "{kind:#x}"),
                }
            }
        }
    }
    let grease = hello(&[
        (SERVER_NAME, &name),
        (ECH, &[0, 0, 1, 0, 1, 7, 0, 1, 9, 0, 1, 8]),
    ]);
    assert_eq!(read(&grease), shows(Some("allowed.example"), true));
}

/// H05: one byte a record, one byte a read.
#[test]
fn a_hello_in_pieces_is_read_and_kept_whole() {
    let all = [
        SIGNATURE_ALGORITHMS,
        (SERVER_NAME, &names(&[(0, b"allowed.example")])),
    ];
    for size in [1, 2, 5, 16_000] {
        let bytes = records(&message(&all), size);
        for pieces in [&[1][..], &[5], &[3, 100], &[100_000]] {
            let (told, kept) = fed(&bytes, pieces);
            assert_eq!(
                told,
                shows(Some("allowed.example"), false),
                "{size} {pieces:?}"
            );
            assert_eq!(kept, bytes, "{size} {pieces:?}");
        }
        let cut = &bytes[..bytes.len() - 1];
        assert_eq!(read(cut), Ok(None), "{size}");
    }
}

#[test]
fn what_follows_the_hello_is_kept_for_the_origin() {
    let bytes = [named("allowed.example"), vec![0x17, 3, 3, 0, 1, 9]].concat();
    for pieces in [&[1][..], &[100_000]] {
        let (told, kept) = fed(&bytes, pieces);
        assert_eq!(told, shows(Some("allowed.example"), false));
        assert_eq!(kept, bytes);
    }
    let early_data = [named("allowed.example"), vec![7; 2 * MAX_HELLO]].concat();
    let (told, kept) = fed(&early_data, &[early_data.len()]);
    assert_eq!(told, shows(Some("allowed.example"), false));
    assert_eq!(kept, early_data);
}

/// H12.
#[test]
fn a_hello_may_be_large_but_not_without_end() {
    let name = names(&[(0, b"allowed.example")]);
    let of_size = |size: usize| {
        let overhead = hello(&[(SERVER_NAME, &name), (PADDING, &[])]).len();
        hello(&[(SERVER_NAME, &name), (PADDING, &vec![0; size - overhead])])
    };
    for (size, fits) in [
        (1_900, true),
        (16_000, true),
        (MAX_HELLO, true),
        (MAX_HELLO + 1, false),
        (60_000, false),
    ] {
        let expected = if fits {
            shows(Some("allowed.example"), false)
        } else {
            Err(Reason::NotTls)
        };
        let bytes = of_size(size);
        for pieces in [&[1][..], &[1000], &[100_000]] {
            assert_eq!(fed(&bytes, pieces).0, expected, "{size}");
        }
    }
}

/// H07: refused at the first byte that no ClientHello has there.
#[test]
fn what_is_not_tls_is_refused_at_once() {
    for (bytes, at) in [
        (&b"SSH-2.0-x\r\n"[..], 1),
        (b"GET / HTTP/1.1\r\n", 1),
        (b"\x05\x01\x00", 1),
        (b"\0", 1),
        (b"\x80\x2e\x01\x03\x01", 1),
        (b"\x15\x03\x01\x00\x02\x01\x00", 1),
        (b"\x17\x03\x03\x00\x01\x00", 1),
        (b"\x14\x03\x03\x00\x01\x01", 1),
        (b"\x16\xfe\xfd\x00\x00", 2),
        (b"\x16\x02\x00\x00\x05\x01", 2),
        (b"\x16\x03\x01\x00\x05\x02\x00\x00\x00\x00", 6),
        (b"\x16\x03\x01\x00\x04\x00\x00\x00\x00", 6),
    ] {
        let pieces = [1];
        assert_eq!(fed(&bytes[..at - 1], &pieces).0, Ok(None), "{bytes:?}");
        assert_eq!(
            fed(&bytes[..at], &pieces).0,
            Err(Reason::NotTls),
            "{bytes:?}"
        );
        assert_eq!(read(bytes), Err(Reason::NotTls), "{bytes:?}");
    }
    let empty_record = [&[0x16, 3, 1, 0, 0][..], &named("allowed.example")].concat();
    assert_eq!(read(&empty_record), Err(Reason::NotTls));
    assert_eq!(
        read(b"\x16\x03\x01\x00\x04\x01\x00\x00\x00"),
        Err(Reason::NotTls)
    );
}

/// What `check` says to a hello with this name for this destination.
fn checked(
    destination: &str,
    server_name: Option<&str>,
    ech: Option<EchMode>,
) -> Result<(), Reason> {
    let hello = ClientHello {
        server_name: server_name.map(str::to_owned),
        ech: ech.is_some(),
    };
    let destination = Destination::parse_authority(Scheme::Https, destination).unwrap();
    hello.check(&destination, ech.unwrap_or_default())
}

/// H01, H02.
#[test]
fn a_tunnel_begins_only_with_the_name_of_its_destination() {
    const OK: Result<(), Reason> = Ok(());
    const MISMATCH: Result<(), Reason> = Err(Reason::SniMismatch);
    let (name, address) = ("allowed.example:443", "192.0.2.1:443");
    for (destination, server_name, expected) in [
        (name, Some("allowed.example"), OK),
        (name, Some("ALLOWED.example."), OK),
        (name, Some("evil.example"), MISMATCH),
        (name, Some("x.allowed.example"), MISMATCH),
        (name, Some("192.0.2.1"), MISMATCH),
        (name, Some(""), MISMATCH),
        (name, None, Err(Reason::SniMissing)),
        (address, None, OK),
        (address, Some("allowed.example"), MISMATCH),
        (address, Some("192.0.2.1"), MISMATCH),
    ] {
        let told = checked(destination, server_name, None);
        assert_eq!(told, expected, "{destination} {server_name:?}");
    }
}

/// H04.
#[test]
fn with_ech_allowed_the_outer_name_must_be_the_destination_still() {
    const REFUSED: Result<(), Reason> = Err(Reason::EchRefused);
    let allowed = Some("allowed.example");
    for (server_name, refuse, allow) in [
        (allowed, REFUSED, Ok(())),
        (Some("evil.example"), REFUSED, Err(Reason::SniMismatch)),
        (None, REFUSED, Err(Reason::SniMissing)),
    ] {
        let told = |mode| checked("allowed.example:443", server_name, Some(mode));
        assert_eq!(told(EchMode::Refuse), refuse, "{server_name:?}");
        assert_eq!(told(EchMode::Allow), allow, "{server_name:?}");
    }
    let told = checked("192.0.2.1:443", None, Some(EchMode::Refuse));
    assert_eq!(told, REFUSED);
}

#[test]
fn on_the_transparent_road_the_name_is_the_destination() {
    for (server_name, expected) in [
        (Some("Allowed.example."), Ok("allowed.example:443")),
        (None, Err(Reason::SniMissing)),
        (Some("192.0.2.1"), Err(Reason::SniMissing)),
        (Some("2001:db8::1"), Err(Reason::SniMissing)),
    ] {
        let hello = ClientHello {
            server_name: server_name.map(str::to_owned),
            ech: false,
        };
        let told = hello.destination().map(|d| d.to_string());
        assert_eq!(told.as_deref().map_err(|e| *e), expected, "{server_name:?}");
    }
}

#[test]
fn the_alert_is_one_fatal_unrecognized_name() {
    let [kind, major, minor, high, low, level, description] = UNRECOGNIZED_NAME;
    assert_eq!((kind, major, minor), (21, 3, 3));
    assert_eq!(u16::from_be_bytes([high, low]), 2);
    assert_eq!((level, description), (2, 112));
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        name in "[a-z]{1,9}(\\.[a-z]{1,9}){0,3}",
        record in 1_usize..300,
        pieces in proptest::collection::vec(1_usize..60, 1..6),
        flip in proptest::option::of((0_usize..400, any::<u8>())),
        tail in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let entry = names(&[(0, name.as_bytes())]);
        let all = [SIGNATURE_ALGORITHMS, (SERVER_NAME, &entry), (ECH, &[0, 0, 1, 0, 1, 7, 0, 1, 9, 0, 1, 8])];
        let mut bytes = records(&message(&all), record);
        bytes.extend(tail);
        if let Some((at, value)) = flip
            && let Some(byte) = bytes.get_mut(at)
        {
            *byte = value;
        }
        let (in_one, kept) = fed(&bytes, &[bytes.len()]);
        let (in_pieces, _) = fed(&bytes, &pieces);
        if in_one.is_ok() {
            prop_assert_eq!(kept, bytes);
        }
        // A second message in the same flight is refused where it is seen, which is later in
        // pieces; neither reading gives another name.
        if let (Ok(Some(a)), Ok(Some(b))) = (&in_one, &in_pieces) {
            prop_assert_eq!(a, b);
        } else if flip.is_none() {
            prop_assert_eq!(in_one, in_pieces);
        }
    }

    #[test]
    fn any_bytes_give_an_answer(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let framed = records(&[&[1, 0, 1, 0][..], &bytes].concat(), 100);
        for bytes in [&bytes, &framed] {
            if let Ok(Some(hello)) = read(bytes) {
                prop_assert!(hello.server_name.is_none_or(|name| name.is_ascii()));
            }
        }
    }
}

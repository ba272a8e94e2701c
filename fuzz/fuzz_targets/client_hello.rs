//! A ClientHello is read without a panic, keeps every byte for the origin, and shows the same name
//! however it arrives.

#![no_main]

use eclusa::{
    policy::EchMode,
    protocol::{ClientHello, HelloReader},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    let in_one = read(bytes, usize::MAX);
    let in_pieces = read(bytes, usize::from(piece).max(1));
    if let (Some(in_one), Some(in_pieces)) = (&in_one, in_pieces) {
        assert_eq!(*in_one, in_pieces);
    }
    let Some(hello) = in_one else {
        return;
    };
    if let Ok(destination) = hello.destination() {
        hello.check(&destination, EchMode::Allow).unwrap();
        assert_eq!(
            hello.check(&destination, EchMode::Refuse).is_ok(),
            !hello.ech
        );
    }
});

fn read(bytes: &[u8], piece: usize) -> Option<ClientHello> {
    let mut reader = HelloReader::new();
    let mut found = None;
    for piece in bytes.chunks(piece) {
        found = reader.push(piece).ok()?;
    }
    assert_eq!(reader.into_bytes(), bytes);
    found
}

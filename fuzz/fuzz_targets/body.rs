//! A chunked body is decoded alike in pieces and in one.

#![no_main]

use eclusa::protocol::{BodyDecoder, Framing, body::Decoded};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, wire) = input;
    assert_eq!(
        decode(wire, usize::from(piece).max(1)),
        decode(wire, usize::MAX)
    );
});

/// The content and the length of the body, or none where it is refused.
fn decode(wire: &[u8], piece: usize) -> Option<(Vec<u8>, Option<usize>)> {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    let (mut content, mut at, mut given) = (Vec::new(), 0, 0);
    loop {
        match decoder.decode(&wire[at..given]).ok()? {
            Decoded::Data { skip, data } => {
                content.extend_from_slice(&wire[at + skip..at + skip + data]);
                at += skip + data;
            }
            Decoded::End { skip } => return Some((content, Some(at + skip))),
            Decoded::More { skip } => {
                at += skip;
                assert_eq!(at, given);
                if given == wire.len() {
                    return Some((content, None));
                }
                given = given.saturating_add(piece).min(wire.len());
            }
        }
    }
}

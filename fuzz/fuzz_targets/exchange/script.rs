//! An input as a script: what the client, the origin and the clock do, in this order.

use std::time::Duration;

use eclusa::proxy::Road;

/// Begins a step; the byte behind it says which.
const MARK: u8 = 0xFF;

/// What an input says.
#[derive(Debug)]
pub struct Script<'a> {
    pub road: Road,
    pub steps: Vec<Step<'a>>,
}

/// Something that happens outside of the proxy.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The client sends these bytes in a segment of their own.
    Client(&'a [u8]),
    /// The origin sends these bytes on the connection that it was given last.
    Origin(&'a [u8]),
    /// The client ends its direction.
    ClientEnds,
    /// The client resets the connection.
    ClientResets,
    /// The origin ends its direction.
    OriginEnds,
    /// The origin resets the connection.
    OriginResets,
    /// So much time passes.
    Wait(Duration),
    /// A configuration is put in force that allows nothing.
    Forbid,
    /// The proxy is told to stop, and drains.
    Drain,
}

impl<'a> Script<'a> {
    /// The first byte is the road; the rest is the client's first segment, up to the first mark.
    pub fn read(input: &'a [u8]) -> Self {
        let (road, rest) = input.split_first().unwrap_or((&b'f', &[]));
        let mut parts = rest.split(|byte| *byte == MARK);
        let first = parts.next().map(Step::Client);
        Self {
            road: match road {
                b's' => Road::Https,
                b'h' => Road::Http,
                _ => Road::Forward,
            },
            steps: first.into_iter().chain(parts.map(Step::read)).collect(),
        }
    }
}

impl<'a> Step<'a> {
    fn read(part: &'a [u8]) -> Self {
        let (kind, rest) = part.split_first().unwrap_or((&b'e', &[]));
        match kind {
            b'o' => Self::Origin(rest),
            b'e' => Self::ClientEnds,
            b'r' => Self::ClientResets,
            b'E' => Self::OriginEnds,
            b'R' => Self::OriginResets,
            b'w' => {
                let tenths = u64::from(rest.first().copied().unwrap_or(1));
                Self::Wait(Duration::from_millis(100 * tenths))
            }
            b'f' => Self::Forbid,
            b'd' => Self::Drain,
            _ => Self::Client(rest),
        }
    }
}

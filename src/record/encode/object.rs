//! One line in the making: a JSON object of printable ASCII, one field after the other.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{
    place,
    text::{clipped, escape},
};
use crate::record::MAX_FIELD;

/// Bytes of an ordinary line.
const LINE: usize = 512;

/// Entries of one list; a longer list is cut and ends in `…(N more)`. 128 entries of `MAX_FIELD`
/// bytes, each escaped to six, stay below the 1 MiB that a reader takes.
const MAX_ITEMS: usize = 128;

/// An object whose fields are appended. Their names are ours, and need no escape.
pub(super) struct Object(Vec<u8>);

/// Where one value is written, once.
#[must_use]
pub(super) struct Value<'o>(&'o mut Vec<u8>);

impl Object {
    /// The line of an event, up to what differs from event to event.
    pub(super) fn begin(event: &'static str) -> Self {
        let mut line = Vec::with_capacity(LINE);
        place::begin(&mut line);
        let mut object = Self(line);
        object.field("event").code(event);
        object
    }

    /// A field, never the first of a line.
    pub(super) fn field(&mut self, name: &'static str) -> Value<'_> {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
        Value(&mut self.0)
    }

    /// A field that is left out where there is nothing to say.
    pub(super) fn some<'o, T>(
        &'o mut self,
        name: &'static str,
        value: Option<T>,
        write: impl FnOnce(Value<'o>, T),
    ) {
        if let Some(value) = value {
            write(self.field(name), value);
        }
    }

    /// A field that is `null` where there is nothing to say.
    pub(super) fn or_null<'o, T>(
        &'o mut self,
        name: &'static str,
        value: Option<T>,
        write: impl FnOnce(Value<'o>, T),
    ) {
        match value {
            Some(value) => write(self.field(name), value),
            None => self.field(name).0.extend_from_slice(b"null"),
        }
    }

    /// The line, with its newline.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"}\n");
        self.0
    }
}

impl Value<'_> {
    /// A code of ours, which needs no escape.
    pub(super) fn code(self, code: &'static str) {
        self.quoted(|out| out.extend_from_slice(code.as_bytes()));
    }

    /// Text as it is.
    pub(super) fn text(self, text: &str) {
        self.quoted(|out| escape(out, text));
    }

    /// Text of a client's choice, cut at `MAX_FIELD`.
    pub(super) fn clip(self, text: &str) {
        if text.len() <= MAX_FIELD {
            self.text(text);
        } else {
            self.text(&clipped(text, MAX_FIELD).to_string());
        }
    }

    pub(super) fn number(self, number: impl itoa::Integer) {
        digits(self.0, number);
    }

    pub(super) fn flag(self, flag: bool) {
        self.0
            .extend_from_slice(if flag { b"true" } else { b"false" });
    }

    pub(super) fn address(self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.quoted(|out| octets(out, address)),
            IpAddr::V6(address) => self.text(&address.to_string()),
        }
    }

    pub(super) fn socket(self, socket: SocketAddr) {
        match socket {
            SocketAddr::V4(socket) => self.quoted(|out| {
                octets(out, *socket.ip());
                out.push(b':');
                digits(out, socket.port());
            }),
            SocketAddr::V6(socket) => self.text(&socket.to_string()),
        }
    }

    /// A list, each entry of it written by `write`.
    pub(super) fn list<T>(
        self,
        entries: impl IntoIterator<Item = T>,
        write: impl Fn(Value<'_>, T),
    ) {
        self.0.push(b'[');
        for (at, entry) in entries.into_iter().enumerate() {
            if at > 0 {
                self.0.push(b',');
            }
            write(Value(self.0), entry);
        }
        self.0.push(b']');
    }

    /// A list of texts, each cut, and cut as a whole at `MAX_ITEMS`.
    pub(super) fn clips(self, texts: &[String]) {
        let more = texts.len().saturating_sub(MAX_ITEMS);
        let mark = (more > 0).then(|| format!("…({more} more)"));
        let texts = texts.iter().take(MAX_ITEMS).chain(&mark);
        self.list(texts, |entry, text| entry.clip(text));
    }

    fn quoted(self, write: impl FnOnce(&mut Vec<u8>)) {
        self.0.push(b'"');
        write(self.0);
        self.0.push(b'"');
    }
}

fn octets(out: &mut Vec<u8>, address: Ipv4Addr) {
    for (at, octet) in address.octets().into_iter().enumerate() {
        if at > 0 {
            out.push(b'.');
        }
        digits(out, octet);
    }
}

fn digits(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;

    fn written(write: impl FnOnce(Value<'_>)) -> String {
        let mut out = Vec::new();
        write(Value(&mut out));
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn values_are_written_as_serde_json_writes_them(
            number in any::<u64>(),
            flag in any::<bool>(),
            v4 in any::<Ipv4Addr>(),
            v6 in any::<Ipv6Addr>(),
            port in any::<u16>(),
        ) {
            let json = |value: serde_json::Value| value.to_string();
            let addresses = [v4.into(), v6.into()];
            let sockets = addresses.map(|address| SocketAddr::new(address, port));
            prop_assert_eq!(written(|value| value.number(number)), json(number.into()));
            prop_assert_eq!(written(|value| value.number(port)), json(port.into()));
            prop_assert_eq!(written(|value| value.flag(flag)), json(flag.into()));
            prop_assert_eq!(
                written(|value| value.list(&addresses, |entry, address| entry.address(*address))),
                serde_json::to_string(&addresses).unwrap()
            );
            prop_assert_eq!(
                written(|value| value.list(&sockets, |entry, socket| entry.socket(*socket))),
                serde_json::to_string(&sockets).unwrap()
            );
        }
    }
}

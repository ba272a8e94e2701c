//! A line as far as conditions look at it. In our own encoding (`record::encode`) each line begins
//! with the same fields in the same order, and text has no bare quote in it, so that a field is
//! found by its bytes.

use std::net::IpAddr;

use jiff::Timestamp;
use memchr::{memchr, memmem::Finder};
use ulid::Ulid;

use crate::record::{Digest, Line};

/// The width of every time.
const TIME: usize = "2026-01-02T03:04:05.678Z".len();

/// The width of the link to the line before, which older logs do not have.
const LINK: usize = Digest::LEN;

/// The fields that are found behind the head.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) host: Field,
    pub(super) port: Field,
    pub(super) decision: Field,
    pub(super) reason: Field,
    pub(super) name: Field,
}

/// One field: how it is found in bytes, and in a parsed line.
#[derive(Debug)]
pub(super) struct Field {
    key: Finder<'static>,
    of: fn(&Line) -> Option<&str>,
}

impl Default for Fields {
    fn default() -> Self {
        let field = |key, of| Field {
            key: Finder::new(key),
            of,
        };
        Self {
            host: field("\"host\":\"", |line| line.host.as_deref()),
            // Not a text; a parsed line has it at hand.
            port: field("\"port\":", |_| None),
            decision: field("\"decision\":\"", |line| line.decision.as_deref()),
            reason: field("\"reason\":\"", |line| line.reason.as_deref()),
            name: field("\"name\":\"", |line| line.name.as_deref()),
        }
    }
}

/// A moment, also as lines write it: the width is fixed, so that text compares as time does.
#[derive(Debug)]
pub(super) struct Moment {
    at: Timestamp,
    text: String,
}

impl Moment {
    pub(super) fn of(at: Timestamp) -> Self {
        // Lines have milliseconds. A year before 0 or with five digits is beyond every line.
        let at = at.clamp(Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let at = Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at);
        Self {
            at,
            text: format!("{at:.3}"),
        }
    }
}

/// The line.
pub(super) enum Glance<'l> {
    /// In our own encoding.
    Encoded(Head<'l>),
    /// In another one.
    Parsed(&'l Line),
}

/// What every line begins with.
pub(super) struct Head<'l> {
    time: &'l [u8],
    event: &'l [u8],
    id: &'l [u8],
    run: Option<&'l [u8]>,
    profile: Option<&'l [u8]>,
    client: Option<&'l [u8]>,
    rest: &'l [u8],
}

impl<'l> Glance<'l> {
    /// None where the line is not in our own encoding, or not whole.
    pub(super) fn at(line: &'l [u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let mut scan = Scan(line.strip_suffix(b"}")?);
        scan.skip(br#"{"schema":1,"ts":""#)?;
        let time = scan.take(TIME)?;
        if !(time.ends_with(b"Z") && time.get(10) == Some(&b'T')) {
            return None;
        }
        scan.skip(br#"",""#)?;
        if scan.skip(br#"prev":""#).is_some() {
            scan.take(LINK)?;
            scan.skip(br#"",""#)?;
        }
        scan.skip(br#"event":""#)?;
        let event = scan.text()?;
        scan.skip(br#","id":""#)?;
        let id = scan.text()?;
        scan.skip(br#","run":"#)?;
        let TextOrNull(run) = scan.text_or_null()?;
        scan.skip(br#","profile":"#)?;
        let TextOrNull(profile) = scan.text_or_null()?;
        scan.skip(br#","client":"#)?;
        let TextOrNull(client) = scan.text_or_null()?;
        Some(Self::Encoded(Head {
            time,
            event,
            id,
            run,
            profile,
            client,
            rest: scan.0,
        }))
    }

    pub(super) fn of(line: &'l Line) -> Self {
        Self::Parsed(line)
    }

    pub(super) fn event(&self) -> &'l [u8] {
        match self {
            Self::Encoded(head) => head.event,
            Self::Parsed(line) => line.event.as_bytes(),
        }
    }

    pub(super) fn id(&self) -> Option<Ulid> {
        let id = match self {
            Self::Encoded(head) => str::from_utf8(head.id).ok(),
            Self::Parsed(line) => line.id.as_deref(),
        };
        Ulid::from_string(id?).ok()
    }

    pub(super) fn run(&self) -> Option<&'l [u8]> {
        match self {
            Self::Encoded(head) => head.run,
            Self::Parsed(line) => line.run.as_deref().map(str::as_bytes),
        }
    }

    pub(super) fn profile(&self) -> Option<&'l [u8]> {
        match self {
            Self::Encoded(head) => head.profile,
            Self::Parsed(line) => line.profile.as_deref().map(str::as_bytes),
        }
    }

    pub(super) fn client(&self) -> Option<IpAddr> {
        match self {
            Self::Encoded(head) => str::from_utf8(head.client?).ok()?.parse().ok(),
            Self::Parsed(line) => line.client,
        }
    }

    pub(super) fn is_before(&self, moment: &Moment) -> bool {
        match self {
            Self::Encoded(head) => head.time < moment.text.as_bytes(),
            Self::Parsed(line) => line.ts < moment.at,
        }
    }

    /// A field that is a text.
    pub(super) fn text(&self, field: &Field) -> Option<&'l [u8]> {
        match self {
            Self::Encoded(head) => behind(head.rest, field).text(),
            Self::Parsed(line) => (field.of)(line).map(str::as_bytes),
        }
    }

    /// The port.
    pub(super) fn number(&self, field: &Field) -> Option<u16> {
        match self {
            Self::Encoded(head) => {
                let digits = behind(head.rest, field).0;
                let end = digits.iter().position(|b| !b.is_ascii_digit());
                let digits = digits.get(..end.unwrap_or(digits.len()))?;
                str::from_utf8(digits).ok()?.parse().ok()
            }
            Self::Parsed(line) => line.port,
        }
    }
}

/// What stands behind the key of `field`; nothing where it is absent.
fn behind<'l>(rest: &'l [u8], field: &Field) -> Scan<'l> {
    let at = field.key.find(rest).map(|at| at + field.key.needle().len());
    Scan(at.and_then(|at| rest.get(at..)).unwrap_or_default())
}

/// A value that is a text or null.
struct TextOrNull<'l>(Option<&'l [u8]>);

/// Bytes not looked at yet.
struct Scan<'l>(&'l [u8]);

impl<'l> Scan<'l> {
    fn skip(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    fn take(&mut self, length: usize) -> Option<&'l [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// What stands before the closing quote, and the quote; none where something is escaped.
    fn text(&mut self) -> Option<&'l [u8]> {
        let text = self.take(memchr(b'"', self.0)?)?;
        self.skip(b"\"")?;
        (!text.contains(&b'\\')).then_some(text)
    }

    fn text_or_null(&mut self) -> Option<TextOrNull<'l>> {
        if self.skip(b"null").is_some() {
            return Some(TextOrNull(None));
        }
        self.skip(b"\"")?;
        let text = self.text()?;
        Some(TextOrNull(Some(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        policy::Reason,
        record::{DnsAnswer, DnsRecord, Id, Subject, encode},
    };

    /// A query for `name` in our own encoding.
    fn query(name: &str) -> Vec<u8> {
        let record = DnsRecord {
            subject: Subject {
                run: None,
                profile: Some("default".into()),
                client: Some("2001:db8::1".parse().unwrap()),
            },
            name: name.to_owned(),
            record_type: "A".to_owned(),
            decision: crate::policy::Decision::Deny,
            reason: Reason::NotAllowlisted,
            rule: None,
            answer: DnsAnswer::NxDomain,
        };
        let mut line = encode::query(Id(Ulid(7)), &record, None);
        encode::stamp(&mut line, "2026-01-02T03:04:05.678Z".parse().unwrap());
        line
    }

    #[test]
    fn bytes_say_what_the_parsed_line_says() {
        let fields = Fields::default();
        for name in [
            "a.example.",
            "host",
            r#"","decision":"allow"#,
            r#"decision":"allow","x":"#,
            "\\\"reason\":\"x",
        ] {
            let line = query(name);
            let parsed = Line::parse(&line).unwrap();
            let (bytes, exact) = (Glance::at(&line).unwrap(), Glance::of(&parsed));
            let both = [&bytes, &exact];
            for field in [&fields.decision, &fields.reason, &fields.host] {
                let [left, right] = both.map(|glance| glance.text(field));
                assert_eq!(
                    left,
                    right,
                    "{name} {:?}",
                    field.key.needle().escape_ascii()
                );
            }
            assert_eq!(bytes.id(), Some(Ulid(7)));
            assert_eq!(both.map(Glance::event), [b"dns", b"dns"]);
            assert_eq!(both.map(Glance::run), [None, None]);
            assert_eq!(both.map(Glance::profile), [Some(&b"default"[..]); 2]);
            let [left, right] = both.map(Glance::client);
            assert_eq!(left, right);
        }
        let line = query("a.example.");
        let glance = Glance::at(&line).unwrap();
        assert_eq!(glance.text(&fields.name), Some(&b"a.example."[..]));
    }

    #[test]
    fn a_link_to_the_line_before_may_be_there_or_not() {
        let line = String::from_utf8(query("a.example.")).unwrap();
        let (before, rest) = line.split_once(r#""prev":""#).unwrap();
        let unchained = format!("{before}{}", rest.split_at(LINK + r#"","#.len()).1);
        for line in [&line, &unchained] {
            let glance = Glance::at(line.as_bytes()).unwrap();
            assert_eq!(glance.event(), b"dns", "{line}");
        }
    }

    #[test]
    fn what_is_torn_or_written_otherwise_is_not_judged_by_its_bytes() {
        let line = String::from_utf8(query("a.example.")).unwrap();
        for other in [
            line.trim_end_matches(['}', '\n']),
            &line.replace(':', ": "),
            &line.replace("schema\":1", "schema\":2"),
            &line.replace("default", "def\\u0061ult"),
            "",
            "}",
        ] {
            assert!(Glance::at(other.as_bytes()).is_none(), "{other}");
        }
    }

    #[test]
    fn times_compare_as_text_as_they_do_as_times() {
        let line = query("a.example.");
        let parsed = Line::parse(&line).unwrap();
        for (moment, expected) in [
            ("2026-01-02T03:04:05.678Z", false),
            ("2026-01-02T03:04:05.6789Z", false),
            ("2026-01-02T03:04:05.679Z", true),
            ("2026-01-02T04:04:05.678+01:00", false),
            ("1960-01-01T00:00:00Z", false),
            ("9999-01-01T00:00:00Z", true),
        ] {
            let moment = Moment::of(moment.parse().unwrap());
            assert_eq!(Glance::at(&line).unwrap().is_before(&moment), expected);
            assert_eq!(Glance::of(&parsed).is_before(&moment), expected);
        }
    }
}

//! Follows the aliases of an answer from the name that was asked for to its addresses.

use std::{net::IpAddr, time::Duration};

use hickory_net::proto::{
    op::{Message, ResponseCode},
    rr::{DNSClass, Name, RData, RecordType},
};

/// The most aliases followed, whether they stand in one answer or in several.
const MAX_ALIASES: usize = 16;

/// The way from a name to its addresses.
#[derive(Debug)]
pub(super) struct Chain {
    /// The name that the way has come to.
    pub(super) tail: Name,
    aliases: usize,
    ttl: u32,
}

/// Where an answer leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To the addresses of the tail.
    Addresses(Vec<IpAddr>, Duration),
    /// To an alias whose addresses are to be asked for: the new tail.
    Ask,
    /// To nothing.
    NoAddress,
    /// Round and round, or too far.
    TooLong,
}

impl Chain {
    /// Begins at `name`.
    pub(super) fn new(name: &Name) -> Self {
        Self {
            tail: name.clone(),
            aliases: 0,
            ttl: u32::MAX,
        }
    }

    /// Goes on through the answer to a question for `kind` of the tail. Records of other names are
    /// passed over: only what the tail leads to is an answer.
    pub(super) fn follow(&mut self, response: &Message, kind: RecordType) -> Step {
        let asked = self.aliases;
        loop {
            let of_tail = || {
                let tail = &self.tail;
                response
                    .answers
                    .iter()
                    .filter(move |record| record.name == *tail && record.dns_class == DNSClass::IN)
            };
            let mut ttl = self.ttl;
            let addresses: Vec<IpAddr> = of_tail()
                .filter(|record| record.record_type() == kind)
                .filter_map(|record| {
                    ttl = ttl.min(record.ttl);
                    record.data.ip_addr()
                })
                .collect();
            if !addresses.is_empty() {
                return Step::Addresses(addresses, Duration::from_secs(ttl.into()));
            }
            let alias = of_tail().find_map(|record| match &record.data {
                RData::CNAME(target) => Some((target.0.clone(), record.ttl)),
                _ => None,
            });
            let Some((target, ttl)) = alias else { break };
            if self.aliases == MAX_ALIASES {
                return Step::TooLong;
            }
            tracing::debug!(name = %self.tail, alias_of = %target, "alias followed");
            self.aliases += 1;
            self.ttl = self.ttl.min(ttl);
            self.tail = target;
        }
        // RFC 2308 section 2: NXDOMAIN and NODATA speak of the end of the chain, and NODATA comes
        // with the SOA. Without one, a server that does not recurse left the alias to us.
        let negative = response.metadata.response_code == ResponseCode::NXDomain
            || response
                .authorities
                .iter()
                .any(|record| record.record_type() == RecordType::SOA);
        if self.aliases > asked && !negative {
            Step::Ask
        } else {
            Step::NoAddress
        }
    }
}

#[cfg(test)]
mod tests {
    use hickory_net::proto::{
        op::OpCode,
        rr::{
            Record,
            rdata::{A, AAAA, CNAME, NS},
        },
    };

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    /// An owner, a TTL, and an address or the name that the owner is an alias of.
    type Entry<'a> = (&'a str, u32, &'a str);

    fn record((owner, ttl, data): Entry<'_>) -> Record {
        let data = match data.parse() {
            Ok(IpAddr::V4(address)) => RData::A(A(address)),
            Ok(IpAddr::V6(address)) => RData::AAAA(AAAA(address)),
            Err(_) => RData::CNAME(CNAME(name(data))),
        };
        Record::from_rdata(name(owner), ttl, data)
    }

    fn response(answers: &[Entry<'_>]) -> Message {
        let mut response = Message::response(0, OpCode::Query);
        response.answers = answers.iter().copied().map(record).collect();
        response
    }

    #[test]
    fn only_what_the_name_leads_to_is_an_answer() {
        let addresses = |list: &[&str], ttl: u64| {
            let list = list
                .iter()
                .map(|address| address.parse().unwrap())
                .collect();
            Step::Addresses(list, Duration::from_secs(ttl))
        };
        let cases: &[(&[Entry<'_>], Step)] = &[
            (
                &[("a.example.", 60, "192.0.2.1")],
                addresses(&["192.0.2.1"], 60),
            ),
            (
                &[("A.Example.", 60, "192.0.2.1")],
                addresses(&["192.0.2.1"], 60),
            ),
            (
                &[
                    ("a.example.", 60, "192.0.2.1"),
                    ("a.example.", 30, "192.0.2.2"),
                ],
                addresses(&["192.0.2.1", "192.0.2.2"], 30),
            ),
            // Another name's address, and another family's.
            (&[("b.example.", 60, "192.0.2.1")], Step::NoAddress),
            (&[("a.example.", 60, "2001:db8::1")], Step::NoAddress),
            (
                &[
                    ("a.example.", 60, "192.0.2.1"),
                    ("b.example.", 5, "10.0.0.1"),
                ],
                addresses(&["192.0.2.1"], 60),
            ),
            // Aliases in any order; the shortest TTL of the way counts.
            (
                &[
                    ("c.example.", 300, "192.0.2.1"),
                    ("a.example.", 300, "b.example."),
                    ("b.example.", 20, "c.example."),
                ],
                addresses(&["192.0.2.1"], 20),
            ),
            // The end is left to us.
            (&[("a.example.", 300, "b.example.")], Step::Ask),
            // A loop, of one, of two.
            (&[("a.example.", 300, "a.example.")], Step::TooLong),
            (
                &[
                    ("a.example.", 300, "b.example."),
                    ("b.example.", 300, "a.example."),
                ],
                Step::TooLong,
            ),
            (&[], Step::NoAddress),
        ];
        for (answers, expected) in cases {
            let step = Chain::new(&name("a.example.")).follow(&response(answers), RecordType::A);
            assert_eq!(&step, expected, "{answers:?}");
        }
    }

    #[test]
    fn sixteen_aliases_are_followed_and_no_more_in_one_answer_or_several() {
        for length in [16, 17, 30] {
            let link = |n: usize| format!("{n}.example.");
            let owned: Vec<(String, String)> = (0..length)
                .map(|n| (link(n), link(n + 1)))
                .chain([(link(length), "192.0.2.1".to_owned())])
                .collect();
            let whole: Vec<Entry<'_>> = owned
                .iter()
                .map(|(owner, data)| (&**owner, 60, &**data))
                .collect();
            let mut chain = Chain::new(&name("0.example."));
            let at_once = chain.follow(&response(&whole), RecordType::A);
            let mut chain = Chain::new(&name("0.example."));
            let one_by_one = whole
                .iter()
                .map(|part| chain.follow(&response(&[*part]), RecordType::A))
                .find(|step| *step != Step::Ask)
                .unwrap();
            assert_eq!(at_once, one_by_one, "{length}");
            assert_eq!(at_once == Step::TooLong, length > 16, "{length}");
        }
    }

    #[test]
    fn a_negative_answer_ends_the_chain() {
        let mut nxdomain = response(&[("a.example.", 60, "b.example.")]);
        nxdomain.metadata.response_code = ResponseCode::NXDomain;
        let mut referral = response(&[("a.example.", 60, "b.example.")]);
        let ns = RData::NS(NS(name("ns.example.")));
        referral.authorities = vec![Record::from_rdata(name("example."), 60, ns)];
        for (response, expected) in [(nxdomain, Step::NoAddress), (referral, Step::Ask)] {
            let step = Chain::new(&name("a.example.")).follow(&response, RecordType::A);
            assert_eq!(step, expected);
        }
    }
}

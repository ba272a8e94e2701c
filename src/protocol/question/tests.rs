use super::*;

/// A query's header: id 0x1234, RD, and the counts of the four sections.
fn header(flags: [u8; 2], counts: [u8; 4]) -> Vec<u8> {
    let mut octets = vec![0x12, 0x34, flags[0], flags[1]];
    octets.extend(counts.into_iter().flat_map(|count| [0, count]));
    octets
}

fn query(counts: [u8; 4], body: &[u8]) -> Vec<u8> {
    [&header([0x01, 0x00], counts), body].concat()
}

/// `allowed.example` with a type and a class.
fn question(record_type: u16, class: u16) -> Vec<u8> {
    let [type_0, type_1] = record_type.to_be_bytes();
    let [class_0, class_1] = class.to_be_bytes();
    let mut octets = b"\x07allowed\x07example\x00".to_vec();
    octets.extend([type_0, type_1, class_0, class_1]);
    octets
}

/// An OPT record of `version` with `options`.
fn opt(version: u8, options: &[u8]) -> Vec<u8> {
    let mut octets = vec![0, 0, 41, 0x04, 0xD0, 0, version, 0x80, 0, 0];
    octets.push(u8::try_from(options.len()).unwrap());
    octets.extend(options);
    octets
}

const SOA: &[u8] = b"\xC0\x0C\x00\x06\x00\x01\x00\x00\x00\x00\x00\x16\
    \x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";

fn fault(message: &[u8]) -> Option<Fault> {
    Query::read(message).unwrap().fault
}

#[test]
fn a_query_is_read_as_it_stands() {
    let body = [question(1, 1), opt(0, &[])].concat();
    let message = [header([0x01, 0x10], [1, 0, 0, 1]), body].concat();
    let read = Query::read(&message).unwrap();
    assert_eq!(
        (
            read.id,
            read.opcode,
            read.recursion_desired,
            read.checking_disabled
        ),
        (0x1234, 0, true, true)
    );
    assert_eq!((read.has_edns, read.fault), (true, None));
    let asked = read.question.unwrap();
    assert_eq!(asked.octets, question(1, 1));
    assert_eq!((asked.record_type, asked.class), (RecordType::A, 1));
    assert_eq!(asked.name.to_string(), "allowed.example");
}

#[test]
fn what_is_no_query_is_not_answered() {
    let response = [header([0x81, 0x80], [1, 0, 0, 0]), question(1, 1)].concat();
    for message in [&b""[..], &[0; 11], &response, &response[..12]] {
        assert_eq!(Query::read(message), None, "{message:02x?}");
    }
}

#[test]
fn a_query_is_one_question_and_at_most_one_opt() {
    let (a, edns) = (question(1, 1), opt(0, &[]));
    let format = Some(Fault::Format);
    for (counts, parts, expected) in [
        ([1, 0, 0, 0], vec![&a[..]], None),
        ([1, 0, 0, 1], vec![&a, &edns], None),
        // Counted, but not there.
        ([1, 0, 0, 0], vec![], format),
        ([1, 0, 0, 1], vec![&a], format),
        // None, two, and cut short.
        ([0, 0, 0, 0], vec![], format),
        ([2, 0, 0, 0], vec![&a, &a], format),
        ([1, 0, 0, 0], vec![&a[..a.len() - 1]], format),
        // Records of an answer, an authority, and another one than OPT.
        ([1, 1, 0, 0], vec![&a, SOA], format),
        ([1, 0, 1, 0], vec![&a, SOA], format),
        ([1, 0, 0, 1], vec![&a, SOA], format),
        ([1, 0, 0, 2], vec![&a, &edns, &edns], format),
        ([1, 0, 0, 1], vec![&a, b"\x01a", &edns], format),
        // Octets behind the end.
        ([1, 0, 0, 0], vec![&a, b"\x00"], format),
        ([1, 0, 0, 1], vec![&a, &edns, b"\x00"], format),
    ] {
        let message = query(counts, &parts.concat());
        assert_eq!(fault(&message), expected, "{counts:?} {parts:02x?}");
    }
    // RFC 1995 section 3: IXFR carries a SOA record.
    let ixfr = [&question(251, 1), SOA].concat();
    assert_eq!(fault(&query([1, 0, 1, 0], &ixfr)), None);
}

#[test]
fn options_have_their_shape_and_else_say_nothing() {
    for (options, expected) in [
        (
            &b"\x00\x0A\x00\x08\x01\x02\x03\x04\x05\x06\x07\x08"[..],
            None,
        ),
        (b"\x00\x08\x00\x07\x00\x01\x18\x00\xC6\x33\x64", None),
        (b"\xFD\xE9\x00\x00", None),
        (
            b"\x00\x0A\x00\x09\x01\x02\x03\x04\x05\x06\x07\x08",
            Some(Fault::Format),
        ),
        (b"\x00\x0A\x00", Some(Fault::Format)),
    ] {
        let body = [question(1, 1), opt(0, options)].concat();
        assert_eq!(
            fault(&query([1, 0, 0, 1], &body)),
            expected,
            "{options:02x?}"
        );
    }
}

#[test]
fn only_class_in_and_edns_version_0_are_served() {
    for (class, version, expected) in [
        (1, 0, None),
        (3, 0, Some(Fault::Class)),
        (255, 0, Some(Fault::Class)),
        (0, 0, Some(Fault::Class)),
        (1, 1, Some(Fault::EdnsVersion)),
        (3, 255, Some(Fault::EdnsVersion)),
    ] {
        let body = [question(16, class), opt(version, &[])].concat();
        let message = query([1, 0, 0, 1], &body);
        assert_eq!(fault(&message), expected, "{class} {version}");
    }
    // Another version may shape its options in another way.
    let body = [question(1, 1), opt(1, b"x")].concat();
    assert_eq!(fault(&query([1, 0, 0, 1], &body)), Some(Fault::EdnsVersion));
    let ixfr = question(251, 3);
    assert_eq!(fault(&query([1, 0, 0, 0], &ixfr)), Some(Fault::Class));
}

#[test]
fn any_opcode_but_query_is_a_fault_whatever_follows() {
    for opcode in 1..16 {
        for body in [question(6, 1), b"\xC0\x0C".to_vec()] {
            let message = [header([opcode << 3, 0], [1, 0, 0, 0]), body].concat();
            let read = Query::read(&message).unwrap();
            assert_eq!((read.opcode, read.fault), (opcode, Some(Fault::Opcode)));
            assert_eq!(read.question, None, "{opcode}");
        }
    }
}

#[test]
fn a_name_in_a_question_is_written_out() {
    let long_label = [b"\x3F".to_vec(), vec![b'a'; 63]].concat();
    let longest = [long_label.repeat(3), b"\x3D".to_vec(), vec![b'a'; 61]].concat();
    let too_long = [long_label.repeat(3), b"\x3E".to_vec(), vec![b'a'; 62]].concat();
    for (what, name, expected) in [
        ("root", b"\x00".to_vec(), None),
        ("longest label", [&long_label[..], b"\x00"].concat(), None),
        ("255 octets", [&longest[..], b"\x00"].concat(), None),
        (
            "256 octets",
            [&too_long[..], b"\x00"].concat(),
            Some(Fault::Format),
        ),
        (
            "64 octets in a label",
            [&[64][..], &[b'a'; 64], &[0]].concat(),
            Some(Fault::Format),
        ),
        (
            "a pointer to itself",
            b"\xC0\x0C".to_vec(),
            Some(Fault::Format),
        ),
        (
            "a pointer forward",
            b"\xC0\x20".to_vec(),
            Some(Fault::Format),
        ),
        (
            "a pointer into the header",
            b"\xC0\x06".to_vec(),
            Some(Fault::Format),
        ),
        (
            "a pointer after a label",
            b"\x01a\xC0\x0C".to_vec(),
            Some(Fault::Format),
        ),
        (
            "an extended label",
            b"\x41\x00".to_vec(),
            Some(Fault::Format),
        ),
        ("no end", b"\x01a".to_vec(), Some(Fault::Format)),
    ] {
        let body = [&name[..], b"\x00\x01\x00\x01"].concat();
        let message = query([1, 0, 0, 0], &body);
        assert_eq!(fault(&message), expected, "{what}");
        assert_eq!(
            Query::read(&message).unwrap().question.is_some(),
            expected.is_none(),
            "{what}"
        );
    }
}

#[test]
fn a_name_has_one_text_and_policy_takes_only_host_names() {
    for (octets, text, policy) in [
        (
            &b"\x07aLLoWeD\x07eXaMpLe\x00"[..],
            "aLLoWeD.eXaMpLe",
            Some("allowed.example"),
        ),
        (b"\x06_dmarc\x01a\x00", "_dmarc.a", Some("_dmarc.a")),
        (b"\x00", ".", None),
        // Not to be taken for the two labels.
        (b"\x0Fallowed.example\x00", "allowed\\.example", None),
        (b"\x08allowed.\x00", "allowed\\.", None),
        (b"\x01a\x01.\x00", "a.\\.", None),
        (b"\x04a\x00b\xFF\x00", "a\\000b\\255", None),
        (b"\x04\x1B[2J\x00", "\\027[2J", None),
        (b"\x02\r\n\x00", "\\013\\010", None),
        (b"\x03a b\x00", "a\\032b", None),
        (b"\x08\"\\;()@$x\x00", "\\\"\\\\\\;\\(\\)\\@\\$x", None),
        (b"\x01*\x07example\x00", "*.example", None),
        (b"\x01-\x00", "-", None),
        (b"\x03127\x010\x010\x011\x00", "127.0.0.1", None),
    ] {
        let (name, rest) = QueryName::read(octets).unwrap();
        assert!(rest.is_empty(), "{octets:?}");
        assert_eq!(name.to_string(), text);
        let known = name.to_policy().map(|name| name.to_string());
        assert_eq!(known.as_deref(), policy, "{text}");
    }
}

#[test]
fn types_have_their_mnemonics() {
    for (code, text) in [
        (1, "A"),
        (28, "AAAA"),
        (64, "SVCB"),
        (65, "HTTPS"),
        (251, "IXFR"),
        (255, "ANY"),
        (0, "TYPE0"),
        (65305, "TYPE65305"),
        (65399, "TYPE65399"),
    ] {
        assert_eq!(RecordType(code).to_string(), text);
    }
}

mod beside_hickory {
    //! What is read here, a general reader reads the same way.

    use hickory_net::proto::op::{Message, MessageType, OpCode};
    use proptest::prelude::*;

    use super::*;

    /// Messages that are queries up to a few octets.
    fn almost_a_query() -> impl Strategy<Value = Vec<u8>> {
        let label = prop::collection::vec(any::<u8>(), 1..20);
        let edns = prop::option::of((0..2_u8, prop::collection::vec(any::<u8>(), 0..20)));
        let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
        (
            prop::collection::vec(label, 0..6),
            any::<[u8; 2]>(),
            edns,
            changes,
        )
            .prop_map(|(labels, record_type, edns, changes)| {
                let mut body = Vec::new();
                for label in labels {
                    body.push(u8::try_from(label.len()).unwrap());
                    body.extend(label);
                }
                body.push(0);
                body.extend(record_type);
                body.extend([0, 1]);
                let additionals = u8::from(edns.is_some());
                body.extend(
                    edns.into_iter()
                        .flat_map(|(version, rest)| opt(version, &rest)),
                );
                let mut message = query([1, 0, 0, additionals], &body);
                for (index, octet) in changes {
                    *index.get_mut(&mut message) = octet;
                }
                message
            })
    }

    proptest! {
        #[test]
        fn what_is_accepted_reads_the_same(message in almost_a_query()) {
            let Some(read) = Query::read(&message) else {
                return Ok(());
            };
            if matches!(read.fault, Some(Fault::Format | Fault::Opcode)) {
                return Ok(());
            }
            // The type's record of IXFR is not read here.
            let asked = read.question.unwrap();
            if asked.record_type == RecordType::IXFR {
                return Ok(());
            }
            let Ok(theirs) = Message::from_vec(&message) else {
                // It also reads the values of options, which are nothing to us.
                prop_assert!(read.has_edns);
                return Ok(());
            };
            prop_assert_eq!(theirs.id, read.id);
            prop_assert_eq!(theirs.message_type, MessageType::Query);
            prop_assert_eq!(theirs.op_code, OpCode::Query);
            prop_assert_eq!(theirs.queries.len(), 1);
            let question = &theirs.queries[0];
            prop_assert!(question.name().iter().eq(asked.name.labels()));
            prop_assert_eq!(u16::from(question.query_type()), asked.record_type.0);
            prop_assert_eq!(u16::from(question.query_class()), asked.class);
            prop_assert_eq!(theirs.edns.is_some(), read.has_edns);
        }

        #[test]
        fn any_octets_are_read_or_refused(message in prop::collection::vec(any::<u8>(), 0..80)) {
            let answerable = message.len() >= 12 && message[2] & 0x80 == 0;
            prop_assert_eq!(Query::read(&message).is_some(), answerable);
        }
    }
}

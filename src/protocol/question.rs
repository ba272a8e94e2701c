//! One DNS query as it stands on the wire (RFC 1035 section 4.1). Read by hand and strictly: a
//! header, one name without compression and at most one OPT record are all that a stub resolver
//! sends. A general reader follows pointers, takes any record and repairs what is odd.

mod name;
mod record_type;

pub use self::{name::QueryName, record_type::RecordType};

/// The length of a header (RFC 1035 section 4.1.1).
const HEADER: usize = 12;

/// Class IN (RFC 1035 section 3.2.4).
const IN: u16 = 1;

/// A message that asks something of us and so gets an answer, be it only an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// Copied to the answer.
    pub id: u16,
    /// Copied to the answer; 0 is the standard query.
    pub opcode: u8,
    /// The RD bit, copied to the answer.
    pub recursion_desired: bool,
    /// The CD bit, copied to the answer (RFC 6895 section 2).
    pub checking_disabled: bool,
    /// What is asked; none where that cannot be read.
    pub question: Option<Question<'a>>,
    /// Whether an OPT record was read (RFC 6891); only then does the answer carry one.
    pub has_edns: bool,
    /// Why this is no query that we answer by name.
    pub fault: Option<Fault>,
}

/// The question section's one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The whole entry as it stood in the message, for the answer to repeat it byte for byte.
    pub octets: &'a [u8],
    /// The name.
    pub name: QueryName<'a>,
    /// The type.
    pub record_type: RecordType,
    /// The class.
    pub class: u16,
}

/// What is wrong with a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not the shape of a query.
    Format,
    /// Another opcode than QUERY: NOTIFY, UPDATE and the like.
    Opcode,
    /// Another class than IN: CHAOS, ANY and the like.
    Class,
    /// An EDNS version above 0 (RFC 6891 section 6.1.3).
    EdnsVersion,
}

impl<'a> Query<'a> {
    /// Reads a message. None for what is not to be answered at all: it has no whole header, or it
    /// is a response, and two servers that answer responses talk for ever.
    pub fn read(message: &'a [u8]) -> Option<Self> {
        let (header, body) = message.split_first_chunk::<HEADER>()?;
        let [id_0, id_1, flags, more_flags, counts @ ..] = *header;
        if flags & 0x80 != 0 {
            return None;
        }
        let mut query = Self {
            id: u16::from_be_bytes([id_0, id_1]),
            opcode: flags >> 3,
            recursion_desired: flags & 0x01 != 0,
            checking_disabled: more_flags & 0x10 != 0,
            question: None,
            has_edns: false,
            fault: None,
        };
        query.fault = query.read_body(counts, body).err();
        Some(query)
    }

    /// `counts` are those of the four sections, in order.
    fn read_body(&mut self, counts: [u8; 8], body: &'a [u8]) -> Result<(), Fault> {
        if self.opcode != 0 {
            return Err(Fault::Opcode);
        }
        let [qd_0, qd_1, an_0, an_1, ns_0, ns_1, ar_0, ar_1] = counts;
        if [qd_0, qd_1] != [0, 1] {
            return Err(Fault::Format);
        }
        let (question, rest) = Question::read(body).ok_or(Fault::Format)?;
        self.question = Some(question);
        // RFC 1995 section 3: IXFR carries a SOA record. It is refused whatever that says, so
        // nothing more is read.
        if question.record_type == RecordType::IXFR && question.class == IN {
            return Ok(());
        }
        let (version, rest) = match ([an_0, an_1, ns_0, ns_1], [ar_0, ar_1]) {
            ([0, 0, 0, 0], [0, 0]) => (0, rest),
            ([0, 0, 0, 0], [0, 1]) => read_opt(rest).ok_or(Fault::Format)?,
            _ => return Err(Fault::Format),
        };
        self.has_edns = [ar_0, ar_1] == [0, 1];
        if version != 0 {
            return Err(Fault::EdnsVersion);
        }
        if !rest.is_empty() {
            return Err(Fault::Format);
        }
        if question.class != IN {
            return Err(Fault::Class);
        }
        Ok(())
    }
}

impl<'a> Question<'a> {
    fn read(body: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (name, rest) = QueryName::read(body)?;
        let ([type_0, type_1, class_0, class_1], rest) = rest.split_first_chunk::<4>()?;
        let octets = body.get(..body.len() - rest.len())?;
        let question = Self {
            octets,
            name,
            record_type: RecordType(u16::from_be_bytes([*type_0, *type_1])),
            class: u16::from_be_bytes([*class_0, *class_1]),
        };
        Some((question, rest))
    }
}

/// Reads an OPT record (RFC 6891 section 6.1.2): its version, and what follows it. Its options are
/// checked for their shape and else ignored, client subnet and cookies too; so is the payload
/// size, which no answer of ours reaches.
fn read_opt(body: &[u8]) -> Option<(u8, &[u8])> {
    let (fixed, rest) = body.split_first_chunk::<11>()?;
    let [owner, type_0, type_1, _, _, _, version, _, _, length @ ..] = *fixed;
    if owner != 0 || RecordType(u16::from_be_bytes([type_0, type_1])) != RecordType::OPT {
        return None;
    }
    let (mut options, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(length)))?;
    // Another version may shape its options in another way.
    while version == 0 && !options.is_empty() {
        let ([_, _, length @ ..], value) = options.split_first_chunk::<4>()?;
        options = value.get(usize::from(u16::from_be_bytes(*length))..)?;
    }
    Some((version, rest))
}

#[cfg(test)]
mod tests;

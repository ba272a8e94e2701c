//! Record types and their mnemonics.

use std::fmt;

/// The type of a question (RFC 1035 section 3.2.2). Its text is the mnemonic of the IANA registry
/// "Resource Record (RR) TYPEs", else `TYPE65399` (RFC 3597 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordType(pub u16);

macro_rules! record_types {
    ($($mnemonic:ident = $code:literal,)+) => {
        impl RecordType {
            $(
                #[doc = concat!("Type ", $code, ".")]
                pub const $mnemonic: Self = Self($code);
            )+

            fn mnemonic(self) -> Option<&'static str> {
                match self {
                    $(Self::$mnemonic => Some(stringify!($mnemonic)),)+
                    _ => None,
                }
            }
        }
    };
}

record_types! {
    A = 1,
    NS = 2,
    CNAME = 5,
    SOA = 6,
    NULL = 10,
    PTR = 12,
    HINFO = 13,
    MX = 15,
    TXT = 16,
    RP = 17,
    AFSDB = 18,
    SIG = 24,
    KEY = 25,
    AAAA = 28,
    LOC = 29,
    SRV = 33,
    NAPTR = 35,
    KX = 36,
    CERT = 37,
    DNAME = 39,
    OPT = 41,
    APL = 42,
    DS = 43,
    SSHFP = 44,
    IPSECKEY = 45,
    RRSIG = 46,
    NSEC = 47,
    DNSKEY = 48,
    DHCID = 49,
    NSEC3 = 50,
    NSEC3PARAM = 51,
    TLSA = 52,
    SMIMEA = 53,
    HIP = 55,
    CDS = 59,
    CDNSKEY = 60,
    OPENPGPKEY = 61,
    CSYNC = 62,
    ZONEMD = 63,
    SVCB = 64,
    HTTPS = 65,
    SPF = 99,
    EUI48 = 108,
    EUI64 = 109,
    TKEY = 249,
    TSIG = 250,
    IXFR = 251,
    AXFR = 252,
    MAILB = 253,
    MAILA = 254,
    ANY = 255,
    URI = 256,
    CAA = 257,
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mnemonic() {
            Some(mnemonic) => f.write_str(mnemonic),
            None => write!(f, "TYPE{}", self.0),
        }
    }
}

//! The two fields that are set last, and so have a fixed place and width in every line: the time
//! and the link before it.

use jiff::{Timestamp, tz::Offset};

use crate::record::{Digest, Link, SCHEMA};

/// What holds the place of the time until `stamp`.
const NO_TIME: &[u8] = b"0000-00-00T00:00:00.000Z";

const BEFORE_TIME: &[u8] = br#"{"schema":1,"ts":""#;
const BEFORE_LINK: &[u8] = br#"","prev":""#;
const AFTER_LINK: &[u8] = b"\"";

/// The version is written as a literal, whose width the places count on.
const _: () = assert!(SCHEMA == 1, "BEFORE_TIME says which version");

const TIME_AT: usize = BEFORE_TIME.len();
const LINK_AT: usize = TIME_AT + NO_TIME.len() + BEFORE_LINK.len();

/// Up to where a line must be read to see the link that it names.
pub(crate) const HEAD: usize = LINK_AT + Digest::LEN + AFTER_LINK.len();

/// Begins a line, its two places held, up to the comma before the next field.
pub(super) fn begin(line: &mut Vec<u8>) {
    line.extend_from_slice(BEFORE_TIME);
    line.extend_from_slice(NO_TIME);
    line.extend_from_slice(BEFORE_LINK);
    line.extend_from_slice(Link::FIRST.as_bytes());
    line.extend_from_slice(AFTER_LINK);
}

/// Sets the time of an encoded line, under the lock of the log, so that the lines of a file are in
/// the order of their times.
pub(crate) fn stamp(line: &mut [u8], now: Timestamp) {
    let Some(place) = line.get_mut(TIME_AT..TIME_AT + NO_TIME.len()) else {
        return;
    };
    // A year before 0 needs more room, and such a clock is wrong in any case; the place has the
    // width of every later time.
    let now = Offset::UTC.to_datetime(now.max(Timestamp::UNIX_EPOCH));
    let mut set = |at: usize, digits: &[u8]| {
        if let Some(place) = place.get_mut(at..at + digits.len()) {
            place.copy_from_slice(digits);
        }
    };
    set(0, &padded::<4>(now.year()));
    set(5, &padded::<2>(now.month().into()));
    set(8, &padded::<2>(now.day().into()));
    set(11, &padded::<2>(now.hour().into()));
    set(14, &padded::<2>(now.minute().into()));
    set(17, &padded::<2>(now.second().into()));
    set(20, &padded::<3>(now.millisecond()));
}

/// The last `N` decimal digits of a number, zeros before it.
fn padded<const N: usize>(number: i16) -> [u8; N] {
    let mut rest = number.unsigned_abs();
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        let [last, _] = (rest % 10).to_le_bytes();
        *digit += last;
        rest /= 10;
    }
    digits
}

/// Sets the link of the line before; called at the write, because a line may wait for it while
/// others are written. What is no record of ours stays as it is.
pub(crate) fn bind(line: &mut [u8], before: &Link) {
    if named(line).is_some()
        && let Some(place) = line.get_mut(LINK_AT..LINK_AT + Digest::LEN)
    {
        place.copy_from_slice(before.as_bytes());
    }
}

/// The time of a line, where it stands in its place.
pub(crate) fn time(line: &[u8]) -> Option<Timestamp> {
    let (time, _) = line
        .strip_prefix(BEFORE_TIME)?
        .split_at_checked(NO_TIME.len())?;
    str::from_utf8(time).ok()?.parse().ok()
}

/// The text of the link that `line` names, which is not checked yet.
pub(crate) fn named(line: &[u8]) -> Option<&[u8; Digest::LEN]> {
    let (time, rest) = line
        .strip_prefix(BEFORE_TIME)?
        .split_at_checked(NO_TIME.len())?;
    if time.contains(&b'\n') {
        return None;
    }
    let (link, rest) = rest.strip_prefix(BEFORE_LINK)?.split_first_chunk()?;
    rest.starts_with(AFTER_LINK).then_some(link)
}

//! One DNS message in, one out: decode, judge, plan, encode, record.

//! The real binary, driven from outside by raw bytes and real clients: one table a group of cases.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
#![expect(unreachable_pub, reason = "the support modules read like a library")]

mod addresses;
mod admin;
mod chain;
mod check;
mod clients;
mod dns;
mod faults;
mod forward;
mod logs;
mod metrics;
mod parity;
mod policy_table;
mod recorded;
mod report;
mod resolver;
mod support;
mod tunnel;

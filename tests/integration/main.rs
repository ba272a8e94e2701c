//! The real binary, driven from outside by raw bytes and real clients: one table a group of cases.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod admin;
mod resolver;
mod support;

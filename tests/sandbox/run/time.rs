//! The life of a run: what ends it, what is left of it, what it writes and what is recorded of it.

pub(crate) mod end;
mod engine;
mod output;
mod record;

//! One execution of hostile code: `RunSpec`, what was asked, becomes a `Plan`, which says
//! everything about the sandbox, and a `Backend` applies it or fails. Every limit is chosen in
//! pure code; what an engine did not apply is an error, never a weaker sandbox.

pub mod backend;
pub mod capture;
pub mod input;
pub mod output;
pub mod plan;
pub mod spec;

mod escape;

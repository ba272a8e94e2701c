//! Eclusa lets code run without letting data out: an egress-control forward proxy with its own
//! DNS server. `ARCHITECTURE.md` is the map; the groups below are the layers, and
//! `tests/layers.rs` holds that a module uses only the modules before it.

// core: values and decisions; no async, no I/O, no clock.
pub mod destination;
pub mod policy;
pub mod record;

pub mod config;

// protocol: bytes and headers in, values out; no sockets, no clock.
pub mod protocol;

// engine: the only layer that dials, resolves and writes records.
pub mod drain;
pub mod listener;
pub mod workers;

pub mod resolver;

pub mod audit;

pub mod egress;

// servers: what listens; parse, authorise, answer.
pub mod dns;
pub mod proxy;

pub mod admin;
pub mod app;

// launcher: what was asked becomes a plan, and a backend applies it.
pub mod launcher;

// doctor: whether the boundaries hold on this host.
pub mod doctor;

// review: what a log says after the fact.
pub mod review;

// cli: verbs, flags, exit codes.
pub mod cli;

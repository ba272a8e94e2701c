//! Bytes and headers in, values out: no sockets, no clock. Everything a peer sends is judged here
//! on the raw bytes, and everything that we send on is framed anew from the values made here.

pub mod answer;
pub mod body;
pub mod client_hello;
pub mod denial;
pub mod forwarding;
pub mod head;
pub mod question;
pub mod request_target;

pub use self::{
    body::{BodyDecoder, Framing},
    client_hello::{ClientHello, HelloReader},
    denial::Denial,
    head::{Fields, HeadError, RequestHead, ResponseHead, Version},
    request_target::{Route, route_absolute, route_connect, route_origin},
};

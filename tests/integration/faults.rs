//! Faults with real parts: whatever dies, fills up, lies or jumps, nothing passes unrecorded, every
//! record gets its other half, health tells the truth, and what was open is given back.

mod clock;
mod descriptors;
mod disk;
mod killed;
mod origin;
mod reload;
mod resolver;

use std::{
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::support::{
    client::{dial, exchange, read_until, send, status},
    proxy::TestProxy,
    world::World,
};

/// A CONNECT to a host on port 443.
fn connect_head(host: &str) -> String {
    format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n")
}

/// What a CONNECT to `host` is answered, and the connection.
fn connect(proxy: &TestProxy, host: &str) -> (Vec<u8>, TcpStream) {
    let mut stream = dial(proxy.listener("proxy"));
    send(&mut stream, connect_head(host).as_bytes());
    let head = read_until(&mut stream, b"\r\n\r\n");
    (head, stream)
}

/// What a CONNECT to `host` that must be refused is answered.
fn refusal(proxy: &TestProxy, host: &str) -> Vec<u8> {
    exchange(proxy.listener("proxy"), connect_head(host).as_bytes())
}

/// Fails unless the proxy lets one client through and keeps another out, as it always does.
fn assert_serves(world: &World) {
    drop(world.tunnel_from("127.0.0.1", "opaque.example"));
    let answer = refusal(&world.proxy, "denied.example");
    assert_eq!(status(&answer), Some(403));
}

/// Says that it is over, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

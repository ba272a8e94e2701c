//! CONNECT and transparent TLS: what becomes a tunnel, what is cut, and that nothing flows before.

mod checks;
mod lifetime;
mod targets;

use std::{net::TcpStream, sync::Arc};

use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::{
    client::{dial, read_until, send, status},
    world::World,
};

/// A tunnel after its 200.
fn open(world: &World, head: &str) -> TcpStream {
    let mut stream = dial(world.proxy.listener("proxy"));
    send(&mut stream, head.as_bytes());
    let answer = read_until(&mut stream, b"\r\n\r\n");
    let text = String::from_utf8_lossy(&answer);
    assert_eq!(status(&answer), Some(200), "{head:?}: {text}");
    stream
}

/// `CONNECT host:443`, as most clients write it.
fn connect(host: &str) -> String {
    format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n")
}

/// Speaks TLS as `name` on a connection, with the authority of the world.
fn speak_tls(
    world: &World,
    stream: TcpStream,
    name: &str,
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(world.authority.pem.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(client, stream)
}

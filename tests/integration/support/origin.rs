//! Origins: the far side, which counts what reaches it.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::PATIENCE;

/// What an origin does with a connection, after counting it. What it reads goes through `Seen`.
pub type Behaviour = dyn Fn(&mut dyn Stream, &Seen) + Send + Sync;

/// A byte stream, plain or TLS.
pub trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// What reached an origin.
#[derive(Debug, Default)]
pub struct Seen {
    connections: AtomicUsize,
    bytes: AtomicUsize,
    heads: Mutex<Vec<String>>,
}

impl Seen {
    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Bytes received so far, below TLS.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }

    /// Every request head received so far, in order.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Notes a request head.
    pub fn note_head(&self, head: String) {
        self.heads.lock().unwrap().push(head);
    }
}

/// An origin on one address.
pub struct Origin {
    /// Where it listens.
    pub address: SocketAddr,
    /// What reached it.
    pub seen: Arc<Seen>,
}

impl Origin {
    /// A plain TCP origin.
    pub fn plain(address: SocketAddr, behaviour: Arc<Behaviour>) -> Self {
        Self::start(address, None, behaviour)
    }

    /// A TLS origin with a certificate of `authority`.
    pub fn tls(address: SocketAddr, authority: &Authority, behaviour: Arc<Behaviour>) -> Self {
        Self::start(address, Some(authority.server_config()), behaviour)
    }

    fn start(
        address: SocketAddr,
        tls: Option<Arc<rustls::ServerConfig>>,
        behaviour: Arc<Behaviour>,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("an address of the test's own");
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let counted = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                counted.connections.fetch_add(1, Ordering::SeqCst);
                let (seen, tls) = (Arc::clone(&counted), tls.clone());
                let behaviour = Arc::clone(&behaviour);
                thread::spawn(move || serve(stream, tls, &*behaviour, &seen));
            }
        });
        Self { address, seen }
    }
}

fn serve(
    stream: TcpStream,
    tls: Option<Arc<rustls::ServerConfig>>,
    behaviour: &Behaviour,
    seen: &Arc<Seen>,
) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut counted = Counted {
        stream,
        seen: Arc::clone(seen),
    };
    match tls {
        None => behaviour(&mut counted, seen),
        Some(config) => {
            let connection = rustls::ServerConnection::new(config).unwrap();
            let mut tls = rustls::StreamOwned::new(connection, counted);
            behaviour(&mut tls, seen);
            tls.conn.send_close_notify();
            // The peer may be gone already, which is its right.
            drop(tls.flush());
        }
    }
}

struct Counted {
    stream: TcpStream,
    seen: Arc<Seen>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.stream.read(buffer)?;
        self.seen.bytes.fetch_add(n, Ordering::SeqCst);
        Ok(n)
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

/// Answers every request on a connection with 200 and `ok PATH`, noting the heads; bodies with a
/// Content-Length or in chunks are read and echoed behind the path.
pub fn http() -> Arc<Behaviour> {
    Arc::new(|stream, seen| {
        while let Some((head, body)) = read_request(stream) {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let head_only = head.starts_with("HEAD ");
            seen.note_head(head);
            let text = format!("ok {path} {}", String::from_utf8_lossy(&body));
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{}",
                text.len(),
                if head_only { "" } else { &text }
            );
            if stream
                .write_all(answer.as_bytes())
                .and_then(|()| stream.flush())
                .is_err()
            {
                return;
            }
        }
    })
}

/// Notes one request, answers with exactly these bytes, and closes.
pub fn scripted(answer: &'static [u8]) -> Arc<Behaviour> {
    Arc::new(move |stream, seen| {
        if let Some((head, _)) = read_request(stream) {
            seen.note_head(head);
            drop(stream.write_all(answer).and_then(|()| stream.flush()));
        }
    })
}

/// Sends back whatever comes, until the peer ends.
pub fn echo() -> Arc<Behaviour> {
    Arc::new(|stream, _| {
        let mut buffer = [0; 16 * 1024];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(n) if stream.write_all(&buffer[..n]).is_err() => return,
                Ok(_) => {}
            }
        }
    })
}

/// One request: its head with the empty line, and its body unframed. None at the end.
pub fn read_request(stream: &mut dyn Stream) -> Option<(String, Vec<u8>)> {
    let head = read_line_block(stream)?;
    let lower = head.to_ascii_lowercase();
    let mut body = Vec::new();
    if let Some(length) = field(&lower, "content-length") {
        body.resize(length.parse().ok()?, 0);
        stream.read_exact(&mut body).ok()?;
    } else if field(&lower, "transfer-encoding").is_some() {
        loop {
            let size = read_line(stream)?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).ok()?;
            chunk.truncate(size);
            if size == 0 {
                break;
            }
            body.extend(chunk);
        }
    }
    Some((head, body))
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

fn read_line(stream: &mut dyn Stream) -> Option<String> {
    read_up_to(stream, b"\r\n")
}

fn read_line_block(stream: &mut dyn Stream) -> Option<String> {
    read_up_to(stream, b"\r\n\r\n")
}

fn read_up_to(stream: &mut dyn Stream, end: &[u8]) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(end) {
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return None,
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A certificate authority of the test's own, and one certificate for the fixture's names.
pub struct Authority {
    /// The authority's certificate, as clients want it in a file.
    pub pem: String,
    chain: Vec<CertificateDer<'static>>,
    key: rcgen::KeyPair,
}

impl Authority {
    /// Makes the keys and a certificate for `names`.
    pub fn new(names: &[&str]) -> Self {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.key_usages = vec![
            rcgen::KeyUsagePurpose::KeyCertSign,
            rcgen::KeyUsagePurpose::CrlSign,
        ];
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "Eclusa test authority");
        let issuer_key = rcgen::KeyPair::generate().unwrap();
        let authority = params.self_signed(&issuer_key).unwrap();
        let issuer = rcgen::Issuer::new(params, issuer_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut leaf = rcgen::CertificateParams::new(names).unwrap();
        leaf.use_authority_key_identifier_extension = true;
        leaf.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = leaf.signed_by(&key, &issuer).unwrap();
        Self {
            pem: authority.pem(),
            chain: vec![leaf.der().clone()],
            key,
        }
    }

    /// A TLS server with the certificate.
    pub fn server_config(&self) -> Arc<rustls::ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::Pkcs8(self.key.serialize_der().into());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), key)
            .unwrap();
        Arc::new(config)
    }
}

//! How the load reaches the far side: by a proxy's CONNECT or straight, in the clear or in TLS.

use std::{
    error::Error,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        client::Resumption,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to connect: a proxy, a relay or the origin itself.
    #[arg(long)]
    address: SocketAddr,
    /// The HOST:PORT that a proxy is asked for; absent: nobody is asked.
    #[arg(long)]
    target: Option<String>,
    /// Speak TLS, and trust this certificate.
    #[arg(long, requires = "server_name")]
    ca: Option<PathBuf>,
    /// The name that the certificate must bear.
    #[arg(long)]
    server_name: Option<String>,
}

/// Bytes both ways.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The way to the far side.
pub(crate) struct Road {
    address: SocketAddr,
    pub(crate) target: Option<String>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Road {
    pub(crate) fn new(arguments: Arguments) -> Result<Self, Box<dyn Error>> {
        let tls = match (arguments.ca, arguments.server_name) {
            (Some(ca), Some(name)) => Some((connector(&ca)?, ServerName::try_from(name)?)),
            _ => None,
        };
        Ok(Self {
            address: arguments.address,
            target: arguments.target,
            tls,
        })
    }

    /// A connection to the address, on which nothing was said.
    pub(crate) async fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// A tunnel to the far side, with its handshake done where it is TLS.
    pub(crate) async fn open(&self) -> io::Result<Box<dyn Stream>> {
        let mut stream = self.connect().await?;
        if let Some(target) = &self.target {
            ask(&mut stream, target).await?;
        }
        Ok(match &self.tls {
            None => Box::new(stream),
            Some((tls, name)) => Box::new(tls.connect(name.clone(), stream).await?),
        })
    }
}

/// Every handshake is a whole one: no session is taken up again.
fn connector(ca: &Path) -> Result<TlsConnector, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca)?)?;
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn ask(stream: &mut TcpStream, target: &str) -> io::Result<()> {
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::with_capacity(512);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    if head.get(8..12) == Some(b" 200") {
        return Ok(());
    }
    let status = head.split(|byte| *byte == b'\r').next().unwrap_or(&head);
    Err(io::Error::other(String::from_utf8_lossy(status)))
}

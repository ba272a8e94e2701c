//! The far side: plain and TLS listeners, and the name server that knows them.
//!
//! The first byte that a client sends picks what its connection does: `E` echoes, `S` sends zeros
//! until it is closed, `D` discards, `G` (an HTTP GET) answers small keep-alive answers.

use std::{error::Error, fs, future::Future, io, net::Ipv4Addr, path::PathBuf, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

/// Bytes that are read or written at once.
pub(crate) const CHUNK: usize = 64 * 1024;

/// A body of 13 bytes, which ends as no head does.
pub(crate) const BODY: &[u8] = b"Hello, world\n";

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world\n";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where the certificate of the TLS listener is written, to be trusted by the load.
    #[arg(long)]
    ca: PathBuf,
    /// The names it bears.
    #[arg(long = "name", required = true)]
    names: Vec<String>,
}

pub(crate) async fn serve(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let certified = rcgen::generate_simple_self_signed(arguments.names)?;
    fs::write(arguments.ca, certified.cert.pem())?;
    let key = certified.signing_key.serialize_der().try_into()?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));

    let plain = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let tls = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let names = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!(
        "plain={} tls={} names={}",
        plain.local_addr()?,
        tls.local_addr()?,
        names.local_addr()?
    );
    tokio::try_join!(
        accept(plain, answer),
        accept(tls, move |stream| {
            let acceptor = acceptor.clone();
            async move { answer(acceptor.accept(stream).await?).await }
        }),
        answer_names(names),
    )?;
    Ok(())
}

/// Serves each connection; one that fails is the load's to report.
async fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F) -> io::Result<()>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(serve(stream));
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let read = stream.read(&mut buffer).await?;
    match buffer[..read].first() {
        None => Ok(()),
        Some(b'S') => send(stream, &buffer).await,
        Some(b'D') => discard(stream, buffer).await,
        Some(b'G') => answer_requests(stream, buffer, read).await,
        Some(_) => echo(stream, buffer, read).await,
    }
}

async fn send(mut stream: impl AsyncWrite + Unpin, zeros: &[u8]) -> io::Result<()> {
    loop {
        stream.write_all(zeros).await?;
    }
}

async fn discard(mut stream: impl AsyncRead + Unpin, mut buffer: Vec<u8>) -> io::Result<()> {
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

async fn echo(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    mut buffer: Vec<u8>,
    mut read: usize,
) -> io::Result<()> {
    while read > 0 {
        stream.write_all(&buffer[..read]).await?;
        stream.flush().await?;
        read = stream.read(&mut buffer).await?;
    }
    Ok(())
}

async fn answer_requests(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    mut buffer: Vec<u8>,
    mut read: usize,
) -> io::Result<()> {
    let mut seen = Vec::new();
    while read > 0 {
        seen.extend_from_slice(&buffer[..read]);
        while let Some(end) = seen.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            seen.drain(..end + 4);
            stream.write_all(ANSWER).await?;
        }
        read = stream.read(&mut buffer).await?;
    }
    Ok(())
}

/// Answers every A query with loopback, and every other with nothing.
async fn answer_names(socket: UdpSocket) -> io::Result<()> {
    const HEADER: usize = 12;
    /// Of an A record in class IN that points at the question's name, with a TTL of a minute.
    const RECORD: [u8; 16] = [0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1];
    let mut buffer = [0; 512];
    loop {
        let (read, client) = socket.recv_from(&mut buffer).await?;
        let query = &buffer[..read];
        let Some(question) = query.get(HEADER..).and_then(|rest| {
            let name = rest.iter().position(|byte| *byte == 0)?;
            rest.get(..name + 5)
        }) else {
            continue;
        };
        let is_a = question.ends_with(&[0, 1, 0, 1]);
        let mut answer = query[..2].to_vec();
        // An answer, recursion desired and available, no error; one question.
        answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
        answer.extend(question);
        if is_a {
            answer.extend(RECORD);
        }
        socket.send_to(&answer, client).await?;
    }
}

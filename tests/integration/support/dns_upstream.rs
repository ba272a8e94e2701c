//! An upstream DNS server under the test's control: what it answers is scripted by name and type,
//! and what it is asked is counted. UDP and TCP on one port, DNS over TLS and over HTTPS on others.

use std::{
    collections::HashMap,
    future::Future,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hickory_net::proto::{
    op::{Message, MessageType, Query, ResponseCode},
    rr::{
        Name, RData, Record, RecordType,
        rdata::{A, AAAA, CNAME, SOA},
    },
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    runtime::{Handle, Runtime},
    sync::mpsc,
    time,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::origin::Authority;

/// How long a stream on which nothing is asked stays open, unless told otherwise.
const IDLE: Duration = Duration::from_mins(1);

/// What the server does with a question.
#[derive(Clone, Debug)]
pub enum Reply {
    /// NOERROR with records, each an owner, a TTL and an address or the name it is an alias of;
    /// none is NODATA, which comes with a SOA.
    Records(Vec<(String, u32, String)>),
    /// NXDOMAIN with a SOA.
    NxDomain,
    /// Another response code: SERVFAIL, REFUSED.
    Code(ResponseCode),
    /// Nothing at all.
    Silent,
    /// Bytes that are no message, behind the right id.
    Garbage,
    /// The reply after a while.
    Late(Duration, Box<Self>),
    /// Truncated and empty over UDP, the reply over everything else.
    Truncated(Box<Self>),
    /// Over UDP first two forgeries that say `10.6.6.6`, one with another id and one to another
    /// question, then the reply.
    Forged(Box<Self>),
    /// One after the other, the last for ever.
    InTurn(Vec<Self>),
}

impl Reply {
    /// These addresses, for a minute.
    pub fn addresses(owner: &str, addresses: &[&str]) -> Self {
        Self::with_ttl(owner, 60, addresses)
    }

    /// These addresses.
    pub fn with_ttl(owner: &str, ttl: u32, addresses: &[&str]) -> Self {
        let record = |address: &&str| (owner.to_owned(), ttl, (*address).to_owned());
        Self::Records(addresses.iter().map(record).collect())
    }

    /// An alias, and nothing of what it leads to.
    pub fn alias(owner: &str, target: &str) -> Self {
        Self::Records(vec![(owner.to_owned(), 60, target.to_owned())])
    }
}

/// How a question came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram.
    Udp,
    /// A TCP stream.
    Tcp,
    /// RFC 7858.
    Tls,
    /// RFC 8484.
    Https,
}

/// One question, as it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name in lower case, with its final dot.
    pub name: String,
    /// The type.
    pub kind: RecordType,
    /// How it came in.
    pub transport: Transport,
}

/// The server; it stops when it is dropped.
pub struct DnsUpstream {
    /// Where it takes questions over UDP and TCP.
    pub address: SocketAddr,
    /// Where it takes questions over TLS, when it has a certificate.
    pub tls: Option<SocketAddr>,
    /// Where it takes questions over HTTPS, on any path, when it has a certificate.
    pub https: Option<SocketAddr>,
    state: Arc<State>,
    runtime: Option<Runtime>,
}

#[derive(Default)]
struct State {
    script: Mutex<HashMap<(String, RecordType), Reply>>,
    questions: Mutex<Vec<Question>>,
    silent: Mutex<bool>,
    idle: Mutex<Option<Duration>>,
    streams: AtomicUsize,
    streams_ever: AtomicUsize,
}

impl DnsUpstream {
    /// A server on a loopback address, without TLS. It knows no name: all are NXDOMAIN.
    pub fn start() -> Self {
        Self::on(Ipv4Addr::LOCALHOST, None)
    }

    /// A server that also speaks TLS and HTTPS with a certificate of `authority`.
    pub fn with_certificate(authority: &Authority) -> Self {
        Self::on(Ipv4Addr::LOCALHOST, Some(authority))
    }

    /// A server on any port of `address`.
    pub fn on(address: Ipv4Addr, authority: Option<&Authority>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let state = Arc::new(State::default());
        let _inside = runtime.enter();
        let (udp, tcp) = udp_and_tcp(address);
        let local = tcp.local_addr().unwrap();
        runtime.spawn(serve_udp(Arc::new(udp), Arc::clone(&state)));
        runtime.spawn(accept(tcp, Arc::clone(&state), serve_tcp));
        let secured = authority.map(|authority| {
            let plain = authority.server_config();
            let mut h2 = (*plain).clone();
            h2.alpn_protocols = vec![b"h2".to_vec()];
            let tls = listen(SocketAddr::from((address, 0))).unwrap();
            let https = listen(SocketAddr::from((address, 0))).unwrap();
            let addresses = (tls.local_addr().unwrap(), https.local_addr().unwrap());
            let acceptor = TlsAcceptor::from(plain);
            runtime.spawn(accept(tls, Arc::clone(&state), move |stream, state| {
                serve_tls(acceptor.clone(), stream, state)
            }));
            let acceptor = TlsAcceptor::from(Arc::new(h2));
            runtime.spawn(accept(https, Arc::clone(&state), move |stream, state| {
                serve_https(acceptor.clone(), stream, state)
            }));
            addresses
        });
        Self {
            address: local,
            tls: secured.map(|(tls, _)| tls),
            https: secured.map(|(_, https)| https),
            state,
            runtime: Some(runtime),
        }
    }

    /// Scripts the answer to a question; other types of the name are then NODATA.
    pub fn set(&self, name: &str, kind: RecordType, reply: Reply) -> &Self {
        let key = (absolute(name), kind);
        self.state.script.lock().unwrap().insert(key, reply);
        self
    }

    /// Scripts a name's addresses, IPv4 and IPv6 apart, for a minute.
    pub fn set_addresses(&self, name: &str, addresses: &[&str]) -> &Self {
        let (v6, v4): (Vec<&str>, Vec<&str>) =
            addresses.iter().partition(|address| address.contains(':'));
        self.set(name, RecordType::A, Reply::addresses(name, &v4))
            .set(name, RecordType::AAAA, Reply::addresses(name, &v6))
    }

    /// Answers nothing at all from now on, or answers again.
    pub fn set_silent(&self, silent: bool) {
        *self.state.silent.lock().unwrap() = silent;
    }

    /// How long a stream on which nothing is asked stays open.
    pub fn set_idle(&self, idle: Duration) {
        *self.state.idle.lock().unwrap() = Some(idle);
    }

    /// Every question so far, in order.
    pub fn questions(&self) -> Vec<Question> {
        self.state.questions.lock().unwrap().clone()
    }

    /// How many questions were asked for `name`, whatever their type.
    pub fn asked(&self, name: &str) -> usize {
        let name = absolute(name);
        let questions = self.state.questions.lock().unwrap();
        questions
            .iter()
            .filter(|question| question.name == name)
            .count()
    }

    /// How many TCP, TLS and HTTPS connections are open.
    pub fn open_streams(&self) -> usize {
        self.state.streams.load(Ordering::SeqCst)
    }

    /// How many TCP, TLS and HTTPS connections there were.
    pub fn streams_ever(&self) -> usize {
        self.state.streams_ever.load(Ordering::SeqCst)
    }
}

impl Drop for DnsUpstream {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn absolute(name: &str) -> String {
    format!("{}.", name.trim_end_matches('.').to_ascii_lowercase())
}

/// Both on one port, which the kernel chooses for TCP; for UDP it may be taken.
fn udp_and_tcp(address: Ipv4Addr) -> (UdpSocket, TcpListener) {
    (0..100)
        .find_map(|_| {
            let tcp = listen(SocketAddr::from((address, 0))).ok()?;
            let udp = std::net::UdpSocket::bind(tcp.local_addr().ok()?).ok()?;
            udp.set_nonblocking(true).ok()?;
            Some((UdpSocket::from_std(udp).ok()?, tcp))
        })
        .expect("a port that is free for both UDP and TCP")
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn accept(
    listener: TcpListener,
    state: Arc<State>,
    serve: impl Fn(TcpStream, Arc<State>) -> Task + Send,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        let task = serve(stream, Arc::clone(&state));
        Handle::current().spawn(async move {
            state.streams.fetch_add(1, Ordering::SeqCst);
            state.streams_ever.fetch_add(1, Ordering::SeqCst);
            task.await;
            state.streams.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, state: Arc<State>) {
    let mut buffer = [0; 4096];
    while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
        let (socket, state) = (Arc::clone(&socket), Arc::clone(&state));
        let query = buffer.get(..length).unwrap_or_default().to_vec();
        Handle::current().spawn(async move {
            for datagram in state.answer(&query, Transport::Udp).await {
                // The client may be gone already.
                drop(socket.send_to(&datagram, peer).await);
            }
        });
    }
}

fn serve_tcp(stream: TcpStream, state: Arc<State>) -> Task {
    Box::pin(serve_stream(stream, state, Transport::Tcp))
}

fn serve_tls(acceptor: TlsAcceptor, stream: TcpStream, state: Arc<State>) -> Task {
    Box::pin(async move {
        if let Ok(stream) = acceptor.accept(stream).await {
            serve_stream(stream, state, Transport::Tls).await;
        }
    })
}

fn serve_https(acceptor: TlsAcceptor, stream: TcpStream, state: Arc<State>) -> Task {
    Box::pin(async move {
        if let Ok(stream) = acceptor.accept(stream).await {
            serve_h2(stream, state).await;
        }
    })
}

/// RFC 1035 section 4.2.2: each message behind its length; answers as they are ready.
async fn serve_stream<S>(stream: S, state: Arc<State>, transport: Transport)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (answers, mut ready) = mpsc::unbounded_channel::<Vec<u8>>();
    let write = async move {
        while let Some(message) = ready.recv().await {
            let length = u16::try_from(message.len()).unwrap().to_be_bytes();
            let bytes = [&length[..], &message].concat();
            if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                return;
            }
        }
    };
    let read = async move {
        let idle = state.idle.lock().unwrap().unwrap_or(IDLE);
        while let Ok(Ok(length)) = time::timeout(idle, reader.read_u16()).await {
            let mut query = vec![0; usize::from(length)];
            if reader.read_exact(&mut query).await.is_err() {
                return;
            }
            let (state, answers) = (Arc::clone(&state), answers.clone());
            Handle::current().spawn(async move {
                for message in state.answer(&query, transport).await {
                    drop(answers.send(message));
                }
            });
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
}

async fn serve_h2(stream: TlsStream<TcpStream>, state: Arc<State>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    let idle = state.idle.lock().unwrap().unwrap_or(IDLE);
    while let Ok(Some(Ok((mut request, mut respond)))) =
        time::timeout(idle, connection.accept()).await
    {
        let state = Arc::clone(&state);
        Handle::current().spawn(async move {
            let mut query = Vec::new();
            while let Some(Ok(data)) = request.body_mut().data().await {
                query.extend_from_slice(&data);
            }
            let messages = state.answer(&query, Transport::Https).await;
            if messages.is_empty() {
                // The end of the stream would be an answer of a kind.
                std::future::pending::<()>().await;
            }
            for message in messages {
                let head = hyper::http::Response::builder()
                    .header("content-type", "application/dns-message")
                    .body(())
                    .unwrap();
                if let Ok(mut body) = respond.send_response(head, false) {
                    drop(body.send_data(message.into(), true));
                }
            }
        });
    }
}

impl State {
    /// The messages to send for a query, in order; none when the server is silent.
    async fn answer(&self, query: &[u8], transport: Transport) -> Vec<Vec<u8>> {
        let Ok(query) = Message::from_vec(query) else {
            return Vec::new();
        };
        let Some(question) = query.queries.first().cloned() else {
            return Vec::new();
        };
        let name = absolute(&question.name().to_string());
        self.questions.lock().unwrap().push(Question {
            name: name.clone(),
            kind: question.query_type(),
            transport,
        });
        if *self.silent.lock().unwrap() {
            return Vec::new();
        }
        let reply = self.next_reply(&name, question.query_type());
        render(reply, &query, &question, transport).await
    }

    fn next_reply(&self, name: &str, kind: RecordType) -> Reply {
        let mut script = self.script.lock().unwrap();
        let is_known = script.keys().any(|(known, _)| known == name);
        match script.get_mut(&(name.to_owned(), kind)) {
            Some(Reply::InTurn(replies)) if replies.len() > 1 => replies.remove(0),
            Some(Reply::InTurn(replies)) => replies.first().cloned().unwrap_or(Reply::Silent),
            Some(reply) => reply.clone(),
            None if is_known => Reply::Records(Vec::new()),
            None => Reply::NxDomain,
        }
    }
}

async fn render(
    mut reply: Reply,
    query: &Message,
    question: &Query,
    transport: Transport,
) -> Vec<Vec<u8>> {
    let mut before = Vec::new();
    loop {
        reply = match reply {
            Reply::Late(delay, then) => {
                time::sleep(delay).await;
                *then
            }
            Reply::Truncated(_) if transport == Transport::Udp => {
                let mut message = response(query, question, ResponseCode::NoError, &[]);
                message.metadata.truncation = true;
                before.push(message.to_vec().unwrap());
                return before;
            }
            Reply::Forged(then) if transport == Transport::Udp => {
                before.extend(forgeries(query, question));
                *then
            }
            Reply::Truncated(then) | Reply::Forged(then) => *then,
            Reply::InTurn(mut replies) => replies.remove(0),
            Reply::Silent => return before,
            Reply::Garbage => {
                let id = query.metadata.id.to_be_bytes();
                before.push([&id[..], b"\x81\x80\0\x01\xff\xffgarbage"].concat());
                return before;
            }
            Reply::Records(records) => {
                let message = response(query, question, ResponseCode::NoError, &records);
                before.push(message.to_vec().unwrap());
                return before;
            }
            Reply::NxDomain => {
                let message = response(query, question, ResponseCode::NXDomain, &[]);
                before.push(message.to_vec().unwrap());
                return before;
            }
            Reply::Code(code) => {
                let mut message = response(query, question, code, &[]);
                message.authorities.clear();
                before.push(message.to_vec().unwrap());
                return before;
            }
        };
    }
}

fn forgeries(query: &Message, question: &Query) -> [Vec<u8>; 2] {
    let lie = [(question.name().to_string(), 60, "10.6.6.6".to_owned())];
    let mut other_id = response(query, question, ResponseCode::NoError, &lie);
    other_id.metadata.id = query.metadata.id.wrapping_add(1);
    let elsewhere = Query::query(Name::from_ascii("other.example.").unwrap(), RecordType::A);
    let other_question = response(query, &elsewhere, ResponseCode::NoError, &lie);
    [other_id, other_question].map(|message| message.to_vec().unwrap())
}

fn response(
    query: &Message,
    question: &Query,
    code: ResponseCode,
    records: &[(String, u32, String)],
) -> Message {
    let mut message = Message::response(query.metadata.id, query.metadata.op_code);
    message.metadata.message_type = MessageType::Response;
    message.metadata.recursion_desired = query.metadata.recursion_desired;
    message.metadata.recursion_available = true;
    message.metadata.response_code = code;
    message.queries = vec![question.clone()];
    message.answers = records.iter().map(record).collect();
    if records.is_empty() {
        let name = |text| Name::from_ascii(text).unwrap();
        let soa = SOA::new(
            name("ns.example."),
            name("hostmaster.example."),
            1,
            60,
            60,
            60,
            60,
        );
        message.authorities = vec![Record::from_rdata(name("example."), 60, RData::SOA(soa))];
    }
    message
}

fn record((owner, ttl, data): &(String, u32, String)) -> Record {
    let name = |text: &str| Name::from_ascii(absolute(text)).unwrap();
    let data = match data.parse() {
        Ok(IpAddr::V4(address)) => RData::A(A(address)),
        Ok(IpAddr::V6(address)) => RData::AAAA(AAAA(address)),
        Err(_) => RData::CNAME(CNAME(name(data))),
    };
    Record::from_rdata(name(owner), *ttl, data)
}

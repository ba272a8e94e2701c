//! Plain HTTP through the proxy: what is refused, what the origin gets, and how both stream.

mod bodies;
mod connections;
mod heads;
mod refusals;

use std::{
    net::TcpStream,
    sync::{Arc, Mutex, mpsc},
};

use crate::support::{
    PATIENCE,
    client::{dial, send},
    origin::{self, Behaviour, Stream},
    world::{POLICY, World},
};

/// Sends `request` on a new connection to the proxy port.
fn ask(world: &World, request: &str) -> TcpStream {
    let mut stream = dial(world.proxy.listener("proxy"));
    send(&mut stream, request.as_bytes());
    stream
}

/// A GET of `path` at `allowed.example`.
fn get(path: &str) -> String {
    format!("GET http://allowed.example{path} HTTP/1.1\r\nHost: allowed.example\r\n\r\n")
}

/// The fixture with a plain origin of the test's own.
fn world_with(plain: Arc<Behaviour>) -> World {
    World::with_origins(POLICY, origin::http(), plain)
}

/// An origin that reads one request head and then does what the test says, in step with it: each
/// `say` is sent when the test says so, and what the origin reads meanwhile is the test's to hear.
struct Puppet {
    say: mpsc::Sender<Said>,
    heard: mpsc::Receiver<Vec<u8>>,
}

/// What a puppet does next.
enum Said {
    Send(&'static [u8]),
    /// Reads exactly so many bytes and lets the test hear them.
    Read(usize),
    /// Reads to the end; the test hears what came, or a cut as `<reset>`.
    ReadToEnd,
}

impl Puppet {
    fn new() -> (Self, Arc<Behaviour>) {
        let (say, said) = mpsc::channel();
        let (hear, heard) = mpsc::channel();
        let channels = Mutex::new(Some((said, hear)));
        let behaviour = move |stream: &mut dyn Stream, _: &origin::Seen| {
            let Some((said, hear)) = channels.lock().unwrap().take() else {
                return;
            };
            while let Ok(next) = said.recv() {
                obey(stream, &next, &hear);
            }
        };
        (Self { say, heard }, Arc::new(behaviour))
    }

    fn sends(&self, bytes: &'static [u8]) {
        self.say.send(Said::Send(bytes)).unwrap();
    }

    fn reads(&self, count: usize) -> Vec<u8> {
        self.say.send(Said::Read(count)).unwrap();
        self.heard.recv_timeout(PATIENCE).expect("the origin hears")
    }

    /// Everything up to the end of the connection.
    fn reads_to_end(&self) -> Vec<u8> {
        self.say.send(Said::ReadToEnd).unwrap();
        self.heard.recv_timeout(PATIENCE).expect("the origin hears")
    }

    /// A head with its empty line.
    fn reads_head(&self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.reads(1));
        }
        String::from_utf8(head).unwrap()
    }

    fn closes(self) {
        drop(self.say);
    }
}

fn obey(stream: &mut dyn Stream, said: &Said, hear: &mpsc::Sender<Vec<u8>>) {
    match said {
        Said::Send(bytes) => {
            stream.write_all(bytes).unwrap();
            stream.flush().unwrap();
        }
        Said::Read(count) => {
            let mut bytes = vec![0; *count];
            stream.read_exact(&mut bytes).unwrap();
            hear.send(bytes).unwrap();
        }
        Said::ReadToEnd => {
            let mut bytes = Vec::new();
            if stream.read_to_end(&mut bytes).is_err() {
                bytes.extend(b"<reset>");
            }
            hear.send(bytes).unwrap();
        }
    }
}

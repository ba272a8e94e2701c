//! Idle connections to origins of plain HTTP, for reuse by the same client only.

use std::{
    collections::HashMap,
    io::ErrorKind,
    mem::MaybeUninit,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
    time::Duration,
};

use socket2::SockRef;
use tokio::{net::TcpStream, time::Instant};

use crate::{
    destination::Destination,
    egress::{ClientKey, Permit},
    workers,
};

/// The most idle connections for one key, for one client, and in all. Between two requests of a
/// client that sends many at a time most of its connections are idle for a moment.
const MOST_PER_KEY: usize = 32;
const MOST_PER_CLIENT: usize = 64;
const MOST: usize = 1024;

/// How long a connection is kept without use.
const KEPT: Duration = Duration::from_secs(30);

/// For how long a request that cannot be sent twice may take a used connection: the common
/// origins keep them for 2 seconds or more, so it does not meet one that is just being closed.
const FRESH: Duration = Duration::from_secs(1);

/// Idle connections.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Idle>);

#[derive(Debug, Default)]
struct Idle {
    /// Nothing is kept any more.
    closed: bool,
    count: usize,
    clients: HashMap<ClientKey, HashMap<Way, Vec<Kept>>>,
}

/// What a connection may be reused for.
///
/// Security: the whole decision is the key. A connection that was made for one client, under one
/// configuration, to one vetted answer serves exactly that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    client: ClientKey,
    way: Way,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Way {
    generation: u64,
    destination: Destination,
    /// Sorted, because servers rotate their answers.
    addresses: Box<[SocketAddr]>,
}

#[derive(Debug)]
struct Kept {
    stream: TcpStream,
    since: Instant,
    /// The thread whose runtime is told what arrives: each that serves has one of its own.
    worker: ThreadId,
}

impl Key {
    /// What `permit` allows.
    pub(super) fn of(permit: &Permit) -> Self {
        let mut addresses: Box<[SocketAddr]> = permit.addresses().as_slice().into();
        addresses.sort_unstable();
        Self {
            client: permit.client().key.clone(),
            way: Way {
                generation: permit.generation(),
                destination: permit.destination().clone(),
                addresses,
            },
        }
    }
}

impl Pool {
    /// The connection that was used last, on this thread where one was just now, if it still stands.
    /// For a request that cannot be sent a second time it must have been used just now.
    pub(super) fn take(&self, key: &Key, can_be_repeated: bool) -> Option<TcpStream> {
        let worker = thread::current().id();
        loop {
            let kept = self.take_last(key, can_be_repeated, worker)?;
            if kept.since.elapsed() >= KEPT || !is_quiet(&kept.stream) {
                continue;
            }
            if kept.worker == worker {
                return Some(kept.stream);
            }
            match workers::adopted(kept.stream) {
                Ok(stream) => return Some(stream),
                Err(error) => tracing::debug!(%error, "an idle connection is lost"),
            }
        }
    }

    fn take_last(&self, key: &Key, can_be_repeated: bool, worker: ThreadId) -> Option<Kept> {
        let mut idle = self.lock();
        // Whoever asks under a newer configuration shows that the older one is gone.
        idle.outdate(key);
        let streams = idle.clients.get_mut(&key.client)?.get_mut(&key.way)?;
        let is_own = |kept: &Kept| kept.worker == worker && kept.since.elapsed() < FRESH;
        let own = streams.iter().rposition(is_own);
        let at = own.or_else(|| streams.len().checked_sub(1))?;
        if !can_be_repeated && streams.get(at)?.since.elapsed() >= FRESH {
            return None;
        }
        let kept = streams.remove(at);
        idle.count -= 1;
        Some(kept)
    }

    /// Keeps a connection whose last exchange ended in order, when there is room.
    pub(super) fn keep(&self, key: Key, stream: TcpStream) {
        let mut idle = self.lock();
        if idle.closed || idle.count >= MOST {
            return;
        }
        let ways = idle.clients.entry(key.client).or_default();
        let of_client: usize = ways.values().map(Vec::len).sum();
        let streams = ways.entry(key.way).or_default();
        if of_client >= MOST_PER_CLIENT || streams.len() >= MOST_PER_KEY {
            return;
        }
        streams.push(Kept {
            stream,
            since: Instant::now(),
            worker: thread::current().id(),
        });
        idle.count += 1;
    }

    /// Closes what was made for a client and a generation of the configuration that `which` picks.
    pub(super) fn forget(&self, which: impl Fn(&ClientKey, u64) -> bool) {
        self.lock().forget(which);
    }

    /// Closes what was not used for long, and what the origin closed.
    pub(super) fn sweep(&self) {
        let mut idle = self.lock();
        for streams in idle.clients.values_mut().flat_map(HashMap::values_mut) {
            streams.retain(|kept| kept.since.elapsed() < KEPT && is_quiet(&kept.stream));
        }
        idle.tidy();
    }

    /// Closes everything, and keeps nothing more: exchanges that a drain lets finish come later.
    pub(super) fn close(&self) {
        *self.lock() = Idle {
            closed: true,
            ..Idle::default()
        };
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    /// Closes what was made for the client of `key` under an older configuration.
    fn outdate(&mut self, key: &Key) {
        let Some(ways) = self.clients.get_mut(&key.client) else {
            return;
        };
        let before = ways.len();
        ways.retain(|way, _| way.generation >= key.way.generation);
        if ways.len() != before {
            self.tidy();
        }
    }

    fn forget(&mut self, which: impl Fn(&ClientKey, u64) -> bool) {
        let mut some = false;
        for (client, ways) in &mut self.clients {
            let before = ways.len();
            ways.retain(|way, _| !which(client, way.generation));
            some |= ways.len() != before;
        }
        if some {
            self.tidy();
        }
    }

    /// Removes what is empty, and counts anew.
    fn tidy(&mut self) {
        for ways in self.clients.values_mut() {
            ways.retain(|_, streams| !streams.is_empty());
        }
        self.clients.retain(|_, ways| !ways.is_empty());
        let ways = self.clients.values().flat_map(HashMap::values);
        self.count = ways.map(Vec::len).sum();
    }
}

/// Whether the origin neither closed nor sent anything. The kernel is asked: the runtime may not
/// have heard yet of what arrived.
fn is_quiet(stream: &TcpStream) -> bool {
    let mut byte = [MaybeUninit::uninit()];
    SockRef::from(stream)
        .peek(&mut byte)
        .is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests;

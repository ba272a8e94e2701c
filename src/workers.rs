//! Threads that serve connections: one for each core, each with a runtime of its own. A connection
//! stays on one of them to its end, so that what flows on it wakes no other.

use std::{
    io,
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use tokio::{
    net::TcpStream,
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// The threads. Dropping this ends them, with what still runs on them, and waits for that.
#[derive(Debug)]
pub struct Workers {
    all: Arc<[Arc<Worker>]>,
    threads: Vec<Thread>,
}

/// One worker, for those that give it something to do.
#[derive(Debug)]
pub struct Worker {
    runtime: Handle,
    connections: AtomicUsize,
}

/// A connection's place at a worker, which counts it until this is dropped.
#[derive(Debug)]
pub struct Place(Arc<Worker>);

#[derive(Debug)]
struct Thread {
    /// The thread runs until this is dropped.
    running: oneshot::Sender<()>,
    handle: JoinHandle<()>,
}

/// How many workers this process has: one for each core that it may use.
pub fn count() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// The connection, its news told to the runtime that this is called in.
pub fn adopted(stream: TcpStream) -> io::Result<TcpStream> {
    TcpStream::from_std(stream.into_std()?)
}

impl Workers {
    /// Starts `count` of them.
    ///
    /// # Errors
    /// The kernel gives no thread, or no descriptors for its runtime.
    pub fn start(count: usize) -> io::Result<Self> {
        let started: Vec<(Thread, Arc<Worker>)> =
            (0..count).map(Thread::start).collect::<io::Result<_>>()?;
        let (threads, all): (_, Vec<_>) = started.into_iter().unzip();
        Ok(Self {
            all: all.into(),
            threads,
        })
    }

    /// Every worker.
    pub fn all(&self) -> &Arc<[Arc<Worker>]> {
        &self.all
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let (running, handles): (Vec<_>, Vec<_>) = self
            .threads
            .drain(..)
            .map(|thread| (thread.running, thread.handle))
            .unzip();
        // All are told before the first is waited for.
        drop(running);
        for handle in handles {
            if handle.join().is_err() {
                tracing::error!("a thread that serves connections panicked");
            }
        }
    }
}

impl Worker {
    /// Where it runs tasks.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            connections: AtomicUsize::new(0),
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
impl Worker {
    /// The runtime of a test in the place of a thread.
    pub(crate) fn here() -> Self {
        Self::new(Handle::current())
    }
}

impl Place {
    /// A place for what `accepting` accepted, one of `all`: with that one, unless it has half as
    /// many connections again as another. A few that last would otherwise share a core while others
    /// have none.
    pub fn find(accepting: &Arc<Worker>, all: &[Arc<Worker>]) -> Self {
        let least = all.iter().min_by_key(|worker| worker.connections());
        let worker = least
            .filter(|least| {
                let fair = least.connections() + least.connections() / 2;
                accepting.connections() > fair
            })
            .unwrap_or(accepting);
        worker.connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(worker))
    }

    /// Whose it is.
    pub fn worker(&self) -> &Arc<Worker> {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Thread {
    fn start(number: usize) -> io::Result<(Self, Arc<Worker>)> {
        let (running, ended) = oneshot::channel();
        let (made, making) = mpsc::channel();
        let handle = thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || run(&made, ended))?;
        let runtime = making.recv().map_err(io::Error::other)??;
        Ok((Self { running, handle }, Arc::new(Worker::new(runtime))))
    }
}

/// Runs a runtime until the sender of `ended` is dropped; it is made here because a thread that
/// cannot be started would drop it on one of another runtime, which panics.
fn run(made: &mpsc::Sender<io::Result<Handle>>, ended: oneshot::Receiver<()>) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return made.send(Err(error)).unwrap_or_default(),
    };
    made.send(Ok(runtime.handle().clone())).unwrap_or_default();
    runtime.block_on(ended).unwrap_or_default();
    runtime.shutdown_background();
}

#[cfg(test)]
pub(crate) mod tests {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    #[test]
    fn what_runs_on_a_worker_stays_on_its_thread_and_ends_with_it() {
        let workers = Workers::start(3).unwrap();
        let mut running = Vec::new();
        for (number, worker) in workers.all().iter().enumerate() {
            let (send, receive) = mpsc::channel();
            drop(worker.runtime().spawn(async move {
                while send
                    .send(thread::current().name().map(str::to_owned))
                    .is_ok()
                {
                    tokio::task::yield_now().await;
                }
            }));
            let expected = Some(format!("worker-{number}"));
            for _ in 0..3 {
                assert_eq!(receive.recv().unwrap(), expected);
            }
            running.push(receive);
        }
        drop(workers);
        for receive in running {
            // Comes to an end only because the sender did.
            receive.iter().for_each(drop);
        }
    }

    #[tokio::test]
    async fn connections_that_last_are_spread_wherever_they_come_in() {
        let all = [(); 3].map(|()| Arc::new(Worker::here()));
        let counts = || all.each_ref().map(|worker| worker.connections());
        let find = |accepting: usize| Place::find(&all[accepting], &all);
        let mut places: Vec<Place> = (0..6).map(|_| find(0)).collect();
        assert_eq!(counts(), [2, 2, 2]);
        // One that has a few more keeps what it accepts.
        places.push(find(1));
        places.push(find(1));
        assert_eq!(counts(), [2, 4, 2]);
        places.push(find(1));
        assert_eq!(counts(), [3, 4, 2]);
        drop(places);
        assert_eq!(counts(), [0, 0, 0]);
    }

    /// Runs an ignored test in a process of its own, whose limits and descriptors are not those of
    /// the tests beside it.
    pub(crate) fn assert_passes_alone(test: &str) {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&child.stdout);
        let has_run = child.status.success() && told.contains("1 passed");
        assert!(has_run, "{told}{}", String::from_utf8_lossy(&child.stderr));
    }

    #[test]
    fn a_thread_that_cannot_be_started_is_an_error() {
        assert_passes_alone("workers::tests::in_a_process_without_room");
    }

    /// No room for the stack of a thread.
    #[test]
    #[ignore = "run by a_thread_that_cannot_be_started_is_an_error"]
    fn in_a_process_without_room() {
        let limit = Rlimit {
            current: Some(1 << 20),
            ..getrlimit(Resource::As)
        };
        setrlimit(Resource::As, limit).unwrap();
        let error = Workers::start(1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
    }
}

//! Threads that serve connections: one for each core, each with a runtime of its own. A connection
//! stays on the thread that accepted it, so that nothing on its way wakes another one.

use std::{
    io,
    num::NonZero,
    thread::{self, JoinHandle},
};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// The threads; dropping this ends them and what still runs on them.
#[derive(Debug)]
pub struct Workers(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    /// The thread runs until this is dropped.
    running: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Workers {
    /// One for each core that this process may use.
    ///
    /// # Errors
    /// The kernel gives no thread, or no descriptors for its runtime.
    pub fn start() -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        (0..cores)
            .map(Worker::start)
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// The runtime of each.
    pub fn runtimes(&self) -> impl ExactSizeIterator<Item = &Handle> {
        self.0.iter().map(|worker| &worker.runtime)
    }
}

impl Worker {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                // Nothing is ever sent: the sender is dropped.
                runtime.block_on(ended).unwrap_or_default();
                runtime.shutdown_background();
            })?;
        Ok(Self {
            runtime: handle,
            running: Some(running),
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.running.take());
        if self
            .thread
            .take()
            .map(JoinHandle::join)
            .is_some_and(|ended| ended.is_err())
        {
            tracing::error!("a worker thread panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_runs_on_a_worker_stays_on_its_thread_and_ends_with_it() {
        let workers = Workers::start().unwrap();
        let mut running = Vec::new();
        for (number, runtime) in workers.runtimes().enumerate() {
            let (send, receive) = mpsc::channel();
            drop(runtime.spawn(async move {
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
}

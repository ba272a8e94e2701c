//! Moves bytes from one connection to another without bringing them into this process: splice(2)
//! through a pipe. Pipes are borrowed only while they hold bytes.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::{io::Interest, net::TcpStream};

/// What a pipe is to hold, in bytes. The kernel gives a user without privileges 64 MiB in all
/// (`/proc/sys/fs/pipe-user-pages-soft`), which is twice what `MOST` of these are.
const CAPACITY: usize = 256 * 1024;

/// The most pipes at once; who gets none copies.
const MOST: usize = 128;

/// The most unused pipes that are kept.
const KEPT: usize = 16;

/// The pipes of the process, whichever thread uses them.
static PIPES: Pipes = Pipes::new();

#[derive(Debug)]
struct Pipes {
    count: AtomicUsize,
    unused: Mutex<Vec<Ends>>,
}

/// Both ends of an empty pipe.
#[derive(Debug)]
struct Ends {
    read: OwnedFd,
    write: OwnedFd,
}

/// A pipe and how many bytes lie in it. One that is dropped full is closed, an empty one kept.
#[derive(Debug)]
pub(super) struct Pipe {
    ends: Option<Ends>,
    held: usize,
    of: &'static Pipes,
}

impl Pipe {
    /// An empty pipe; none where there are too many, or the kernel gives no more.
    pub(super) fn borrow() -> Option<Self> {
        PIPES.borrow()
    }

    /// Takes in what has arrived and gives its length; 0 is the end of the stream. Nothing has
    /// arrived: `WouldBlock`.
    pub(super) fn fill(&mut self, from: &TcpStream) -> io::Result<usize> {
        let Some(ends) = &self.ends else {
            return Ok(0);
        };
        let taken = from.try_io(Interest::READABLE, || {
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            Ok(splice(from, None, &ends.write, None, CAPACITY, flags)?)
        })?;
        self.held = self.held.saturating_add(taken);
        Ok(taken)
    }

    /// Sends everything on; `sent` hears of each part. It is safe to cancel.
    pub(super) async fn drain(&mut self, to: &TcpStream, sent: impl Fn()) -> io::Result<()> {
        while self.held > 0 {
            let Some(ends) = &self.ends else {
                return Ok(());
            };
            let held = self.held;
            let passed = to
                .async_io(Interest::WRITABLE, || {
                    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
                    Ok(splice(&ends.read, None, to, None, held, flags)?)
                })
                .await?;
            if passed == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.held = held.saturating_sub(passed);
            sent();
        }
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if let Some(ends) = self.ends.take() {
            self.of.take_back(ends, self.held == 0);
        }
    }
}

impl Pipes {
    const fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            unused: Mutex::new(Vec::new()),
        }
    }

    fn borrow(&'static self) -> Option<Pipe> {
        // Taken on its own: making one is no business of those who wait for the list.
        let unused = self.unused().pop();
        Some(Pipe {
            ends: Some(unused.or_else(|| self.make())?),
            held: 0,
            of: self,
        })
    }

    fn make(&self) -> Option<Ends> {
        let made = (self.count.fetch_add(1, Ordering::Relaxed) < MOST)
            .then(|| pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).ok())
            .flatten();
        let Some((read, write)) = made else {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        // A smaller pipe works too.
        if let Err(error) = fcntl_setpipe_size(&write, CAPACITY) {
            tracing::trace!(%error, "pipe stays at the kernel's size");
        }
        Some(Ends { read, write })
    }

    fn take_back(&self, ends: Ends, is_empty: bool) {
        let mut unused = self.unused();
        if is_empty && unused.len() < KEPT {
            unused.push(ends);
            return;
        }
        drop(unused);
        drop(ends);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    fn unused(&self) -> MutexGuard<'_, Vec<Ends>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test is the peer")]
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        let address = listener.local_addr().unwrap();
        let (one, other) = tokio::join!(socket.connect(address), listener.accept());
        (one.unwrap(), other.unwrap().0)
    }

    #[tokio::test]
    async fn bytes_arrive_whole_and_the_pipe_is_kept_when_it_is_empty() {
        static PIPES: Pipes = Pipes::new();
        let ((mut near, from), (to, mut far)) = (pair().await, pair().await);
        near.write_all(b"through").await.unwrap();
        from.readable().await.unwrap();
        let mut pipe = PIPES.borrow().unwrap();
        assert_eq!(pipe.fill(&from).unwrap(), 7);
        pipe.drain(&to, || {}).await.unwrap();
        let mut got = [0; 7];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"through");
        let nothing = pipe.fill(&from).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        drop(pipe);
        assert_eq!(PIPES.unused().len(), 1);
        drop(near);
        from.readable().await.unwrap();
        assert_eq!(PIPES.borrow().unwrap().fill(&from).unwrap(), 0);
        assert_eq!(
            (PIPES.unused().len(), PIPES.count.load(Ordering::Relaxed)),
            (1, 1)
        );
    }

    #[tokio::test]
    async fn a_pipe_that_holds_bytes_goes_to_nobody_else() {
        static PIPES: Pipes = Pipes::new();
        let (mut near, from) = pair().await;
        near.write_all(b"secret").await.unwrap();
        from.readable().await.unwrap();
        let mut pipe = PIPES.borrow().unwrap();
        assert_eq!(pipe.fill(&from).unwrap(), 6);
        drop(pipe);
        assert_eq!(
            (PIPES.unused().len(), PIPES.count.load(Ordering::Relaxed)),
            (0, 0)
        );
    }

    #[test]
    fn there_are_so_many_pipes_at_once_and_few_are_kept() {
        static PIPES: Pipes = Pipes::new();
        let all: Vec<Pipe> = std::iter::from_fn(|| PIPES.borrow()).collect();
        assert_eq!(all.len(), MOST);
        drop(all);
        assert_eq!(
            (PIPES.unused().len(), PIPES.count.load(Ordering::Relaxed)),
            (KEPT, KEPT)
        );
        assert!(PIPES.borrow().is_some());
    }
}

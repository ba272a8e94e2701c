//! Moves bytes from one connection to another without bringing them into this process: splice(2)
//! through a pipe. Pipes are borrowed only while they hold bytes.

use std::{
    cell::RefCell,
    io,
    os::fd::OwnedFd,
    sync::atomic::{AtomicUsize, Ordering},
};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::{io::Interest, net::TcpStream};

/// What a pipe is to hold, in bytes. The kernel gives a user without privileges 64 MiB in all
/// (`/proc/sys/fs/pipe-user-pages-soft`), which is twice what `MOST` of these are.
const CAPACITY: usize = 256 * 1024;

/// The most pipes at once; who gets none copies.
const MOST: usize = 128;

/// The most unused pipes that one worker thread keeps.
const KEPT: usize = 8;

/// Pipes that exist.
static PIPES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static UNUSED: RefCell<Vec<Ends>> = const { RefCell::new(Vec::new()) };
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
}

impl Pipe {
    /// An empty pipe; none where there are too many, or the kernel gives no more.
    pub(super) fn borrow() -> Option<Self> {
        let unused = UNUSED.with_borrow_mut(Vec::pop);
        let ends = unused.or_else(Ends::make)?;
        Some(Self {
            ends: Some(ends),
            held: 0,
        })
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
        let Some(ends) = self.ends.take() else {
            return;
        };
        if self.held > 0 {
            return;
        }
        // A thread that is ending has no list any more; the pipe is closed then.
        let kept = UNUSED.try_with(|unused| {
            let mut unused = unused.borrow_mut();
            if unused.len() < KEPT {
                unused.push(ends);
            }
        });
        if kept.is_err() {
            tracing::trace!("pipe closed by an ending thread");
        }
    }
}

impl Ends {
    fn make() -> Option<Self> {
        if PIPES.fetch_add(1, Ordering::Relaxed) >= MOST {
            PIPES.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let made = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC);
        let Ok((read, write)) = made else {
            PIPES.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        let ends = Self { read, write };
        // A smaller pipe works too.
        if let Err(error) = fcntl_setpipe_size(&ends.write, CAPACITY) {
            tracing::trace!(%error, "pipe stays at the kernel's size");
        }
        Some(ends)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        PIPES.fetch_sub(1, Ordering::Relaxed);
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
        let ((mut near, from), (to, mut far)) = (pair().await, pair().await);
        near.write_all(b"through").await.unwrap();
        from.readable().await.unwrap();
        let mut pipe = Pipe::borrow().unwrap();
        assert_eq!(pipe.fill(&from).unwrap(), 7);
        pipe.drain(&to, || {}).await.unwrap();
        let mut got = [0; 7];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"through");
        let nothing = pipe.fill(&from).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        drop(pipe);
        assert_eq!(UNUSED.with_borrow(Vec::len), 1);
        drop(near);
        from.readable().await.unwrap();
        assert_eq!(Pipe::borrow().unwrap().fill(&from).unwrap(), 0);
    }

    #[tokio::test]
    async fn a_pipe_that_holds_bytes_goes_to_nobody_else() {
        let (mut near, from) = pair().await;
        near.write_all(b"secret").await.unwrap();
        from.readable().await.unwrap();
        let mut pipe = Pipe::borrow().unwrap();
        assert_eq!(pipe.fill(&from).unwrap(), 6);
        let kept = UNUSED.with_borrow(Vec::len);
        drop(pipe);
        assert_eq!(UNUSED.with_borrow(Vec::len), kept);
    }
}

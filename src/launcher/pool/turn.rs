//! One at a time: of the processes of a user that would change a pool one does, and one waits.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
};

use rustix::fs::{FlockOperation, flock};

use crate::launcher::Settings;

/// Nobody else changes the pool while this is held, also when its holder is killed.
#[derive(Debug)]
pub struct Turn {
    _lock: Lock,
}

/// A file that is locked.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    /// Not by its end alone: a process that is just being started has the file open too.
    fn drop(&mut self) {
        if let Err(error) = flock(&self.0, FlockOperation::Unlock) {
            tracing::debug!(%error, "a lock ends with its file");
        }
    }
}

impl Turn {
    /// Waits for whoever is at it, and for all that wait.
    ///
    /// # Errors
    /// The state folder cannot be used.
    pub async fn wait(settings: &Settings) -> io::Result<Self> {
        let path = file(settings, "pool.lock");
        on_a_thread(move || {
            let file = open(path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(Self { _lock: Lock(file) })
        })
        .await
    }

    /// Waits unless another waits already: that one sees all that there is to see now.
    ///
    /// # Errors
    /// As `wait`.
    pub async fn next(settings: &Settings) -> io::Result<Option<Self>> {
        let waiting = open(file(settings, "pool.next.lock"))?;
        match flock(&waiting, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            taken => taken?,
        }
        let waiting = Lock(waiting);
        let turn = Self::wait(settings).await?;
        // Whoever comes from now on may see what this one does not.
        drop(waiting);
        Ok(Some(turn))
    }
}

fn file(settings: &Settings, name: &str) -> PathBuf {
    settings.state.join(name)
}

fn open(path: PathBuf) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.open(path)
}

async fn on_a_thread<T: Send + 'static>(
    task: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(task).await;
    done.map_err(io::Error::from).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher::tests::settings_in;

    #[tokio::test]
    async fn one_is_at_it_one_waits_and_the_rest_go() {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings_in(folder.path());
        let first = Turn::next(&settings).await.unwrap().unwrap();
        let third = async {
            assert!(Turn::next(&settings).await.unwrap().is_none());
            drop(first);
        };
        // The second one, asked first, waits by the time the third asks.
        let (second, ()) = tokio::join!(Turn::next(&settings), third);
        drop(second.unwrap().unwrap());
        let again = Turn::wait(&settings).await.unwrap();
        drop(again);
    }
}

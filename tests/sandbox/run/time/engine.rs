//! An engine that goes away.

use std::{
    io,
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use super::super::{Launcher, Ran, Running, engine_socket, finish, left};

#[test]
#[ignore = "needs Docker"]
fn an_engine_that_goes_away_is_said_and_the_next_start_reaps() {
    let launcher = Launcher::alone();
    let relay = Relay::start(&launcher.path("relay.sock"));
    let mut run = launcher.command(&["--timeout=60s"], &["sleep", "600"]);
    let running = Running::start(run.env("DOCKER_HOST", relay.host()));
    let id = running.sandbox();
    relay.cut();
    let (output, took) = running.finish(b"");
    let ran = Ran::read(&output, took);
    assert_eq!(ran.code, Some(125), "{ran:?}");
    assert!(took < Duration::from_secs(30), "{ran:?}");
    let error = ran.record.error.as_deref().unwrap();
    assert!(error.starts_with("the engine does not answer, "), "{error}");
    let warned = ran.record.warnings.iter();
    let warned = warned.filter(|warning| warning.ends_with("the next run removes it"));
    assert_eq!(warned.count(), 1, "{ran:?}");
    assert_ne!(left(&id), []);

    finish(&mut launcher.command(&[], &["true"])).succeeded();
    assert_eq!(left(&id), []);
}

/// Stands between a launcher and the engine, and can be cut.
struct Relay {
    path: PathBuf,
    open: Arc<Mutex<Option<Vec<UnixStream>>>>,
}

impl Relay {
    fn start(path: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let relay = Self {
            path: path.to_owned(),
            open: Arc::new(Mutex::new(Some(Vec::new()))),
        };
        let open = Arc::clone(&relay.open);
        thread::spawn(move || {
            for client in listener.incoming() {
                connect(client.unwrap(), &open);
            }
        });
        relay
    }

    fn host(&self) -> String {
        format!("unix://{}", self.path.display())
    }

    fn cut(&self) {
        let open = self.open.lock().unwrap().take();
        for stream in open.into_iter().flatten() {
            // One side may have closed it already.
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

/// Joins a client to the engine; once the relay is cut, it finds a closed connection.
fn connect(client: UnixStream, open: &Mutex<Option<Vec<UnixStream>>>) {
    let mut open = open.lock().unwrap();
    let Some(open) = open.as_mut() else { return };
    let engine = UnixStream::connect(engine_socket()).unwrap();
    for (from, to) in [(&client, &engine), (&engine, &client)] {
        pass(from.try_clone().unwrap(), to.try_clone().unwrap());
    }
    open.extend([client, engine]);
}

/// Copies until either side has ended, and passes the end on.
fn pass(mut from: UnixStream, mut to: UnixStream) {
    thread::spawn(move || {
        io::copy(&mut from, &mut to).ok();
        to.shutdown(Shutdown::Write).ok();
    });
}

//! The proxy's admin socket: by its path where that is reachable from here, else by the engine's
//! exec of `eclusa admin` in the container.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use hyper::Method;
use tokio::time::timeout;

use super::{
    super::Docker,
    container::{Found, Stage},
};
use crate::{
    admin::client,
    launcher::backend::{AdminCall, BackendError, Proxy},
};

/// The longest that one call may take: a removal waits for the closing records of its run.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(90);

/// The longest that an answer about health may take.
const HEALTH_LIMIT: Duration = Duration::from_secs(5);

/// How long a socket that is not there yet is waited for before exec is tried too.
const SOCKET_LIMIT: Duration = Duration::from_millis(500);

const HEALTHZ: AdminCall<'_> = AdminCall {
    method: "GET",
    path: "/healthz",
    body: "",
};

/// A proxy that has answered.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) found: Found,
    pub(super) proxy: Proxy,
    pub(super) health: Health,
}

/// What `GET /healthz` says, as far as it is needed; all of it may lack in another version.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub(super) struct Health {
    status: String,
    hostname: String,
    pub(super) version: String,
    pub(super) config: String,
}

/// Why a proxy has not answered.
#[derive(Debug)]
pub(super) enum Silence {
    /// It may yet.
    NotYet(String),
    /// It will not.
    Final(BackendError),
}

/// A proxy that was reached, well or not.
struct Reached {
    status: u16,
    health: Health,
    /// Where its own socket is reached from here.
    socket: Option<PathBuf>,
}

/// What is at a path.
enum AtPath {
    /// The container's own proxy.
    Own(Reached),
    /// Another proxy, of that host name.
    Another(String),
    /// A folder that can be seen, in which nothing answers.
    Nobody,
    /// Nothing that this process may see.
    OutOfReach,
}

impl Reached {
    fn proxy(&self, found: &Found) -> Proxy {
        Proxy {
            id: found.id.clone(),
            name: found.name.clone(),
            image: found.image.clone(),
            hostname: found.hostname.clone(),
            socket: self.socket.clone(),
            config: Some(self.health.config.clone()).filter(|config| !config.is_empty()),
        }
    }
}

impl Docker {
    /// One call of the proxy's admin socket: its status and body.
    pub(in super::super) async fn call_admin(
        &self,
        proxy: &Proxy,
        call: AdminCall<'_>,
    ) -> Result<(u16, Bytes), BackendError> {
        if let Some(socket) = &proxy.socket {
            match by_socket(socket, call, CALL_LIMIT).await {
                // The socket of a proxy that starts again, or that was moved.
                Err(client::CallError::Connect { .. }) => {}
                answer => return answer.map_err(|error| silent(&error)),
            }
        }
        self.by_exec(&proxy.id, call).await
    }

    /// Asks a container that has been running for some time, as far as is known, whether it is well.
    pub(super) async fn ask_health(
        &self,
        found: &Found,
        running_for: Duration,
    ) -> Result<Live, Silence> {
        let reached = self.reach(found, running_for).await?;
        match (reached.status, &*reached.health.status) {
            (200, _) => Ok(Live {
                found: found.clone(),
                proxy: reached.proxy(found),
                health: reached.health,
            }),
            (_, "audit_unavailable") => Err(Silence::Final(BackendError::Proxy(format!(
                "{} cannot write its audit log, and lets nothing through without; is the disk full?",
                found.name
            )))),
            (_, said) => Err(Silence::NotYet(format!("it says {said}"))),
        }
    }

    /// A container's proxy, which need not be well; none where nothing answers.
    pub(super) async fn answering(&self, found: &Found) -> Result<Option<Proxy>, BackendError> {
        if found.stage != Stage::Running {
            return Ok(None);
        }
        match self.reach(found, SOCKET_LIMIT).await {
            Ok(reached) => Ok(Some(reached.proxy(found))),
            Err(Silence::NotYet(_)) => Ok(None),
            Err(Silence::Final(error)) => Err(error),
        }
    }

    /// How a running container's proxy is reached, and how it is.
    async fn reach(&self, found: &Found, running_for: Duration) -> Result<Reached, Silence> {
        if let Some(path) = &self.proxy.admin {
            match at_path(path, found).await {
                AtPath::Own(reached) => return Ok(reached),
                AtPath::Another(hostname) => {
                    return Err(Silence::Final(BackendError::Proxy(format!(
                        "at {} is {hostname}, not the container {}; leave --admin out, or name its \
                         socket",
                        path.display(),
                        found.name
                    ))));
                }
                AtPath::Nobody | AtPath::OutOfReach => {}
            }
        }
        let socket = found.socket.as_ref().filter(|_| self.engine.is_local);
        if let Some(path) = socket {
            match at_path(path, found).await {
                AtPath::Own(reached) => return Ok(reached),
                AtPath::Nobody if running_for < SOCKET_LIMIT => {
                    return Err(Silence::NotYet(
                        "its admin socket is not there yet".to_owned(),
                    ));
                }
                // Another engine's volume may be at the same path.
                AtPath::Another(_) | AtPath::Nobody | AtPath::OutOfReach => {}
            }
        }
        match timeout(HEALTH_LIMIT, self.by_exec(&found.id, HEALTHZ)).await {
            Ok(Ok((status, body))) => Ok(Reached {
                status,
                health: read_health(&body),
                socket: None,
            }),
            Ok(Err(error)) => Err(Silence::NotYet(error.to_string())),
            Err(_elapsed) => Err(Silence::NotYet("its admin socket is silent".to_owned())),
        }
    }

    /// Security: a proxy outside of a container shares no network with a sandbox. That there is one
    /// where the user says so must not have another started behind their back.
    pub(super) async fn refuse_proxy_outside(&self) -> Result<(), BackendError> {
        let Some(path) = &self.proxy.admin else {
            return Ok(());
        };
        match by_socket(path, HEALTHZ, HEALTH_LIMIT).await {
            Ok(_) => Err(BackendError::Proxy(format!(
                "at {} does not run in a container of this engine, and a sandbox can share a \
                 network only with one that does; leave --admin out, and `eclusa up` starts one",
                path.display()
            ))),
            Err(_) => Ok(()),
        }
    }
}

async fn at_path(path: &Path, found: &Found) -> AtPath {
    match by_socket(path, HEALTHZ, HEALTH_LIMIT).await {
        Ok((status, body)) => {
            let health = read_health(&body);
            // Security: the path alone does not say whose socket it is.
            if health.hostname == found.hostname && !found.hostname.is_empty() {
                AtPath::Own(Reached {
                    status,
                    health,
                    socket: Some(path.to_owned()),
                })
            } else {
                AtPath::Another(health.hostname)
            }
        }
        Err(client::CallError::Connect { source, .. }) => match source.kind() {
            io::ErrorKind::ConnectionRefused => AtPath::Nobody,
            io::ErrorKind::NotFound if path.parent().is_some_and(Path::is_dir) => AtPath::Nobody,
            _ => AtPath::OutOfReach,
        },
        Err(_) => AtPath::Nobody,
    }
}

async fn by_socket(
    socket: &Path,
    AdminCall { method, path, body }: AdminCall<'_>,
    limit: Duration,
) -> Result<(u16, Bytes), client::CallError> {
    let method = Method::from_bytes(method.as_bytes()).map_err(hyper::http::Error::from)?;
    let answer = client::call(socket, method, path, body.to_owned());
    match timeout(limit, answer).await {
        Ok(answer) => answer.map(|(status, body)| (status.as_u16(), body)),
        Err(_elapsed) => Err(client::CallError::Silent(limit)),
    }
}

fn read_health(body: &[u8]) -> Health {
    serde_json::from_slice(body).unwrap_or_default()
}

fn silent(error: &client::CallError) -> BackendError {
    BackendError::Proxy(format!("does not answer: {error}"))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixListener,
    };

    use super::*;
    use crate::launcher::backend::docker::proxy::container::tests::found;

    /// Answers one request at `socket` as a proxy of that host name.
    async fn answer_once(socket: UnixListener, hostname: &str) {
        let (mut stream, _) = socket.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let body = format!(r#"{{"status": "ok", "hostname": "{hostname}", "config": "5e77"}}"#);
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn a_socket_is_a_containers_own_by_its_host_name_and_not_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let own = found("eclusa-01");
        for (hostname, is_own) in [("eclusa-01", true), ("eclusa-02", false), ("", false)] {
            let socket = UnixListener::bind(&path).unwrap();
            let (at, ()) = tokio::join!(at_path(&path, &own), answer_once(socket, hostname));
            match at {
                AtPath::Own(reached) => {
                    assert!(is_own, "{hostname}");
                    let proxy = reached.proxy(&own);
                    assert_eq!(proxy.socket.as_deref(), Some(&*path));
                    assert_eq!(proxy.config.as_deref(), Some("5e77"));
                }
                AtPath::Another(other) => assert_eq!((&*other, is_own), (hostname, false)),
                AtPath::Nobody | AtPath::OutOfReach => panic!("{hostname}: nobody answered"),
            }
            std::fs::remove_file(&path).unwrap();
        }
        assert!(matches!(at_path(&path, &own).await, AtPath::Nobody));
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(at_path(&path, &own).await, AtPath::Nobody));
        let elsewhere = folder.path().join("gone/admin.sock");
        assert!(matches!(
            at_path(&elsewhere, &own).await,
            AtPath::OutOfReach
        ));
        // A container without a name of its own is nobody's.
        let socket = UnixListener::bind(folder.path().join("a.sock")).unwrap();
        let (path, nameless) = (folder.path().join("a.sock"), found(""));
        let (at, ()) = tokio::join!(at_path(&path, &nameless), answer_once(socket, ""));
        assert!(matches!(at, AtPath::Another(_)));
    }
}

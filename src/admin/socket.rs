//! The unix socket itself: mode 0600 from the first moment, and never another process's.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use tokio::net::{UnixListener, UnixStream};

/// Why the admin socket cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A live process answers there.
    #[error("{0} is in use by another process")]
    InUse(String),
    /// What is there is not a socket.
    #[error("{0} exists and is not a socket; remove it or choose another path")]
    NotSocket(String),
    /// The file system refused.
    #[error("failed to bind {path}")]
    Io {
        /// The path.
        path: String,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
}

/// Binds `path`. It is bound under another name, closed to others, and then renamed, so that there
/// is no moment at which it is open to all; a socket that a dead process left is replaced.
pub async fn bind(path: &Path) -> Result<UnixListener, SocketError> {
    let shown = path.display().to_string();
    match fs::symlink_metadata(path) {
        Ok(found) if !is_socket(&found) => return Err(SocketError::NotSocket(shown)),
        Ok(_) if UnixStream::connect(path).await.is_ok() => return Err(SocketError::InUse(shown)),
        Ok(_) | Err(_) => {}
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let bound = (|| {
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let socket = UnixListener::bind(&draft)?;
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o600))?;
        fs::rename(&draft, path)?;
        Ok(socket)
    })();
    bound.map_err(|source| SocketError::Io {
        path: shown,
        source,
    })
}

fn is_socket(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.file_type().is_socket()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        drop(bind(&path).await.unwrap());
        let live = bind(&path).await.unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(bind(&path).await, Err(SocketError::InUse(_))));
        drop(live);
        let other = folder.path().join("file");
        fs::write(&other, "").unwrap();
        assert!(matches!(bind(&other).await, Err(SocketError::NotSocket(_))));
    }
}

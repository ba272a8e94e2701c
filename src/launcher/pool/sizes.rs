//! How many slots were asked for, which somebody must remember who outlives `eclusa up`.

use std::{fs, io, path::PathBuf};

use crate::launcher::{Settings, backend::Proxy, state};

/// Whether this user has asked for a pool at whatever proxy.
pub fn is_wanted(settings: &Settings) -> bool {
    let entries = fs::read_dir(sizes(settings));
    entries.is_ok_and(|mut entries| entries.next().is_some())
}

/// Forgets what was asked for.
///
/// # Errors
/// What is kept of it cannot be removed.
pub fn forget(settings: &Settings) -> io::Result<()> {
    match fs::remove_dir_all(sizes(settings)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// How many slots were asked for at a proxy.
pub(in crate::launcher) fn size(settings: &Settings, proxy: &Proxy) -> Option<u32> {
    let text = fs::read_to_string(size_file(settings, proxy)?).ok()?;
    text.trim().parse().ok().filter(|size| *size <= super::MOST)
}

/// Keeps what was asked for at a proxy.
pub(super) fn remember(settings: &Settings, proxy: &Proxy, size: u32) -> io::Result<()> {
    let Some(path) = size_file(settings, proxy) else {
        return Err(io::Error::other(
            "the proxy's host name is no name of a file",
        ));
    };
    // Of a proxy that is gone nobody asks any more.
    forget(settings)?;
    match size {
        0 => Ok(()),
        size => state::place(&path, &format!("{size}\n")),
    }
}

/// Named by the proxy, which has a host name that no other has.
fn size_file(settings: &Settings, proxy: &Proxy) -> Option<PathBuf> {
    let name = &proxy.hostname;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let is_name = !name.is_empty() && name.chars().all(is_plain);
    is_name.then(|| sizes(settings).join(name))
}

fn sizes(settings: &Settings) -> PathBuf {
    settings.state.join("pool")
}

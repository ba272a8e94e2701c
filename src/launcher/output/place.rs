//! Where a file of an archive is written: its name, judged component by component.

use crate::record::escape::{Layout, escaped};

/// Folders above a file and the file itself.
const MAX_DEPTH: usize = 32;
/// The longest name that Linux file systems take.
const MAX_NAME: usize = 255;
/// The longest path, so that whoever reads the files later can open them by it.
const MAX_PATH: usize = 1024;
/// How much of a refused path is told.
const MAX_TOLD: usize = 256;

/// A path below the output folder, each of whose components is a plain name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The folders, from the outermost on.
    pub(super) folders: Vec<String>,
    /// The file in the innermost.
    pub(super) file: String,
}

/// Why nothing is written under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadName {
    #[error("its path is absolute")]
    Absolute,
    #[error("its path does not lie below /output")]
    Outside,
    #[error("its path has a part that is empty, \".\" or \"..\"")]
    Dots,
    #[error("its path holds a control character")]
    Control,
    #[error("its path is not UTF-8")]
    Encoding,
    #[error("its path has a part of more than {MAX_NAME} bytes")]
    LongName,
    #[error("its path has more than {MAX_PATH} bytes")]
    LongPath,
    #[error("its path has more than {MAX_DEPTH} parts")]
    Deep,
}

impl Place {
    /// The place of an entry, whose first component is the folder that was archived.
    pub(super) fn parse(name: &[u8]) -> Result<Self, BadName> {
        let name = str::from_utf8(name).map_err(|_| BadName::Encoding)?;
        if name.starts_with('/') {
            return Err(BadName::Absolute);
        }
        let (root, path) = name.split_once('/').ok_or(BadName::Outside)?;
        // The archived folder itself may be called ".".
        if root == ".." {
            return Err(BadName::Dots);
        }
        if path.len() > MAX_PATH {
            return Err(BadName::LongPath);
        }
        // Security: NUL is among the control characters.
        if path.chars().any(char::is_control) {
            return Err(BadName::Control);
        }
        let mut folders = Vec::new();
        for part in path.split('/') {
            match part {
                "" | "." | ".." => return Err(BadName::Dots),
                _ if part.len() > MAX_NAME => return Err(BadName::LongName),
                _ if folders.len() >= MAX_DEPTH => return Err(BadName::Deep),
                _ => folders.push(part.to_owned()),
            }
        }
        let file = folders.pop().ok_or(BadName::Dots)?;
        Ok(Self { folders, file })
    }

    /// The path below the output folder.
    pub(super) fn path(&self) -> String {
        let mut path = String::new();
        for folder in &self.folders {
            path.push_str(folder);
            path.push('/');
        }
        path + &self.file
    }
}

/// The name of an entry as it is told where nothing was written: escaped, cut, and without the
/// archived folder where it has one.
pub(super) fn told(name: &[u8]) -> String {
    let mut parts = name.splitn(2, |byte| *byte == b'/');
    let path = match (parts.next(), parts.next()) {
        (Some(root), Some(path)) if !matches!(root, b"" | b"..") && !path.is_empty() => path,
        _ => name,
    };
    match path.split_at_checked(MAX_TOLD) {
        Some((head, rest)) if !rest.is_empty() => format!("{}…", escaped(head, Layout::Line)),
        _ => escaped(path, Layout::Line),
    }
}

//! Reads a whole tree without following a link or crossing a mount.

use std::{
    ffi::{CStr, CString, OsStr},
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Statx, StatxAttributes, StatxFlags},
    io::Errno,
};

use super::InputError;

/// Files and folders of an input. Judging so many takes seconds where the kernel has them in memory,
/// and minutes on a cold disk.
pub const MAX_ENTRIES: usize = 1_000_000;

/// Folders of an input one below the other; each is held open while what it holds is read.
pub const MAX_DEPTH: usize = 64;

/// Something in the tree.
pub(super) struct Found<'a> {
    /// Its path below the tree's root.
    pub(super) path: &'a Path,
    /// What holds it.
    pub(super) folder: BorrowedFd<'a>,
    /// Its name in `folder`.
    pub(super) name: &'a CStr,
    /// What it is.
    pub(super) kind: Kind,
    /// More of what it is.
    pub(super) stat: &'a Statx,
}

/// What may stand in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A directory.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
}

/// What is done with each.
pub(super) type Visit<'v> = dyn FnMut(&Found<'_>) -> Result<(), InputError> + 'v;

/// Visits everything below `folder`, which stands at `root`: a folder before what it holds, and the
/// rest in the order of their names.
pub(super) fn walk(
    root: &Path,
    folder: BorrowedFd<'_>,
    visit: &mut Visit<'_>,
) -> Result<(), InputError> {
    let mut walk = Walk {
        root,
        below: PathBuf::new(),
        left: MAX_ENTRIES,
        visit,
    };
    walk.folder(folder, 0)
}

struct Walk<'w> {
    root: &'w Path,
    below: PathBuf,
    left: usize,
    visit: &'w mut Visit<'w>,
}

impl Walk<'_> {
    fn folder(&mut self, folder: BorrowedFd<'_>, depth: usize) -> Result<(), InputError> {
        if depth > MAX_DEPTH {
            return Err(InputError::TooDeep(self.here()));
        }
        for name in self.names(folder)? {
            self.below.push(OsStr::from_bytes(name.to_bytes()));
            self.entry(folder, &name, depth)?;
            self.below.pop();
        }
        Ok(())
    }

    fn names(&mut self, folder: BorrowedFd<'_>) -> Result<Vec<CString>, InputError> {
        let mut names = Vec::new();
        for entry in Dir::read_from(folder).map_err(|error| self.failed(error))? {
            let entry = entry.map_err(|error| self.failed(error))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.left = self
                .left
                .checked_sub(1)
                .ok_or_else(|| InputError::TooMany(self.root.to_owned()))?;
            names.push(name.to_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn entry(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &CStr,
        depth: usize,
    ) -> Result<(), InputError> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let stat = rustix::fs::statx(folder, name, flags, StatxFlags::BASIC_STATS)
            .map_err(|error| self.failed(error))?;
        // What mountinfo said before the walk may have changed since; kernels before 5.8 do not
        // tell here.
        if stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return Err(InputError::Mounted(self.here()));
        }
        let kind = kind(&stat).map_err(|what| InputError::Special {
            path: self.here(),
            what,
        })?;
        (self.visit)(&Found {
            path: &self.below,
            folder,
            name,
            kind,
            stat: &stat,
        })?;
        match kind {
            Kind::Folder => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let inner = rustix::fs::openat(folder, name, flags, Mode::empty())
                    .map_err(|error| self.failed(error))?;
                self.folder(inner.as_fd(), depth.saturating_add(1))
            }
            Kind::File | Kind::Link => Ok(()),
        }
    }

    fn here(&self) -> PathBuf {
        self.root.join(&self.below)
    }

    fn failed(&self, error: Errno) -> InputError {
        InputError::unreadable(&self.here(), error)
    }
}

fn kind(stat: &Statx) -> Result<Kind, &'static str> {
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::Directory => Ok(Kind::Folder),
        FileType::RegularFile => Ok(Kind::File),
        FileType::Symlink => Ok(Kind::Link),
        FileType::Socket => Err("socket"),
        FileType::Fifo => Err("FIFO"),
        FileType::CharacterDevice | FileType::BlockDevice => Err("device"),
        FileType::Unknown => Err("thing of an unknown kind"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn visited(root: &Path, left: usize) -> Result<Vec<PathBuf>, InputError> {
        let mut seen = Vec::new();
        let folder = fs::File::open(root).unwrap();
        let mut walk = Walk {
            root,
            below: PathBuf::new(),
            left,
            visit: &mut |found| {
                seen.push(found.path.to_owned());
                Ok(())
            },
        };
        walk.folder(folder.as_fd(), 0)?;
        Ok(seen)
    }

    #[test]
    fn a_tree_is_read_in_the_order_of_its_names_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        for path in ["b/z", "b/a", "a b", "B"] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink(root.path(), root.path().join("loop")).unwrap();
        let expected = ["B", "a b", "b", "b/a", "b/z", "loop"];
        assert_eq!(
            visited(root.path(), 6).unwrap(),
            expected.map(PathBuf::from)
        );
        assert!(matches!(
            visited(root.path(), 5),
            Err(InputError::TooMany(path)) if path == root.path()
        ));
    }

    #[test]
    fn depth_is_bounded() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join(["d"; MAX_DEPTH].join("/"));
        fs::create_dir_all(&deep).unwrap();
        assert_eq!(visited(root.path(), 100).unwrap().len(), MAX_DEPTH);
        fs::create_dir(deep.join("d")).unwrap();
        assert!(matches!(
            visited(root.path(), 100),
            Err(InputError::TooDeep(path)) if path == deep.join("d")
        ));
    }
}

//! Tar archives made in memory, the same for the same content.

use std::io;

/// What is laid out at the root of an archive.
pub(super) enum Entry<'a> {
    /// A folder.
    Folder {
        /// Where, without a slash in front.
        path: &'a str,
        /// Its mode.
        mode: u32,
        /// User and group.
        owner: u32,
    },
    /// A file of root's.
    File {
        /// Where, without a slash in front.
        path: &'a str,
        /// Its mode.
        mode: u32,
        /// Its bytes.
        content: &'a [u8],
    },
}

/// The archive of `entries` in their order.
pub(super) fn archive(entries: &[Entry<'_>]) -> io::Result<Vec<u8>> {
    const BLOCK: usize = 512;
    let bytes = entries.iter().map(|entry| match entry {
        Entry::Folder { .. } => BLOCK,
        Entry::File { content, .. } => content.len() + 2 * BLOCK,
    });
    // The binary is the greater part by far; growing step by step would copy it several times.
    let mut builder = tar::Builder::new(Vec::with_capacity(bytes.sum::<usize>() + 2 * BLOCK));
    for entry in entries {
        let mut header = tar::Header::new_ustar();
        let (path, mode, owner, content): (_, _, _, &[u8]) = match entry {
            Entry::Folder { path, mode, owner } => {
                header.set_entry_type(tar::EntryType::Directory);
                (path, mode, *owner, &[])
            }
            Entry::File {
                path,
                mode,
                content,
            } => {
                header.set_entry_type(tar::EntryType::Regular);
                (path, mode, 0, content)
            }
        };
        header.set_mode(*mode);
        header.set_uid(u64::from(owner));
        header.set_gid(u64::from(owner));
        header.set_mtime(0);
        header.set_size(u64::try_from(content.len()).unwrap_or(u64::MAX));
        builder.append_data(&mut header, path, content)?;
    }
    builder.into_inner()
}

//! Our own image: one static binary and the folders that it writes, as an archive to import. There
//! is no registry and no build; the image is named by the binary's digest, so that it is imported
//! once and never confused with another build's.

use std::{collections::HashMap, io};

use super::{
    USER,
    archive::{Entry, archive},
    elf::{self, Architecture},
};
use crate::config::fingerprint;

/// Why an image cannot be made from a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// It needs a loader and libraries, which the image would not have.
    #[error(
        "it is dynamically linked; eclusa up needs a statically linked binary; build it with make \
         release"
    )]
    Dynamic,
    /// It is no program of this kind.
    #[error(
        "it is not a 64-bit ELF program; eclusa up needs a statically linked binary; build it with \
         make release"
    )]
    NotElf,
    /// It is for a machine that is not known here.
    #[error("it is for machine {0} of elf(5); x86-64 and AArch64 are known")]
    Machine(u16),
}

/// An image that can be made from a binary.
#[derive(Clone, Copy)]
pub struct OwnImage<'a> {
    binary: &'a [u8],
    architecture: Architecture,
}

/// How the image of a binary is named and known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    digest: String,
}

impl<'a> OwnImage<'a> {
    /// The image of `binary`.
    ///
    /// # Errors
    /// It could not run there.
    pub fn of(binary: &'a [u8]) -> Result<Self, ImageError> {
        let architecture = elf::check_static(binary)?;
        Ok(Self {
            binary,
            architecture,
        })
    }

    /// The machine that it runs on.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Its root file system. The binary is root's, so that the user it runs as cannot replace it;
    /// that user owns the folders it writes to, and volumes take their owner from them.
    ///
    /// # Errors
    /// None in practice: it is made in memory.
    pub fn archive(&self) -> io::Result<Vec<u8>> {
        let folder = |path, mode, owner| Entry::Folder { path, mode, owner };
        archive(&[
            folder("etc", 0o755, 0),
            folder("etc/eclusa", 0o755, 0),
            folder("run", 0o755, 0),
            folder("run/eclusa", 0o700, USER.uid),
            folder("var", 0o755, 0),
            folder("var/log", 0o755, 0),
            folder("var/log/eclusa", 0o750, USER.uid),
            Entry::File {
                path: "eclusa",
                mode: 0o755,
                content: self.binary,
            },
        ])
    }
}

impl ImageName {
    /// Borne by the image: the digest of its binary.
    // Security: never `eclusa.role`, which every container of the image would inherit.
    const LABEL: &'static str = "eclusa.binary";

    /// The name of the image of `binary`.
    pub fn of(binary: &[u8]) -> Self {
        Self {
            digest: fingerprint(binary),
        }
    }

    /// The repository that holds every such image.
    pub const REPOSITORY: &'static str = "eclusa";

    /// The tag: short enough to read, and backed by the label.
    pub fn tag(&self) -> &str {
        self.digest.get(..12).unwrap_or(&self.digest)
    }

    /// Repository and tag.
    pub fn reference(&self) -> String {
        format!("{}:{}", Self::REPOSITORY, self.tag())
    }

    /// Whether an image with these labels is this one.
    pub fn is_borne_by(&self, labels: &HashMap<String, String>) -> bool {
        labels.get(Self::LABEL) == Some(&self.digest)
    }

    /// Whether an image with these labels is that of any binary.
    pub fn is_one(labels: &HashMap<String, String>) -> bool {
        labels.contains_key(Self::LABEL)
    }

    /// The instruction by which the image is known.
    pub fn label(&self) -> String {
        format!("LABEL {}={}", Self::LABEL, self.digest)
    }

    /// The instructions that an import applies.
    pub fn instructions(&self) -> Vec<String> {
        vec![
            self.label(),
            format!("USER {}:{}", USER.uid, USER.gid),
            r#"ENTRYPOINT ["/eclusa"]"#.to_owned(),
        ]
    }
}

//! What is mounted where, as the kernel tells it in /proc/self/mountinfo, and so where a path lies
//! on its file system, by whichever mount point it is reached.

use std::{
    ffi::OsString,
    fs,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::ffi::OsStringExt as _,
    },
    path::{Path, PathBuf},
};

use super::InputError;

/// Every mount of this process's namespace, in the order of their making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounts(Vec<Mount>);

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    id: Vec<u8>,
    /// The file system, as `major:minor`.
    device: Vec<u8>,
    /// Which directory of the file system is mounted.
    root: PathBuf,
    /// Where.
    point: PathBuf,
    /// The file system's type, such as `ext4`.
    pub(super) kind: Vec<u8>,
}

/// A path on its file system, whatever mount it is reached by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    device: Vec<u8>,
    path: PathBuf,
}

impl Mounts {
    /// Asks the kernel.
    pub(super) fn read() -> Result<Self, InputError> {
        let text = read("mountinfo")?;
        Self::parse(&text).ok_or_else(|| unknown("mountinfo", "a line cannot be read".to_owned()))
    }

    fn parse(text: &[u8]) -> Option<Self> {
        text.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(Mount::parse)
            .collect::<Option<Vec<_>>>()
            .map(Self)
    }

    /// The mount that an open directory was reached by. Its path does not tell: a later mount may
    /// hide an earlier one.
    pub(super) fn of_open(&self, folder: &OwnedFd) -> Result<&Mount, InputError> {
        let file = format!("fdinfo/{}", folder.as_raw_fd());
        let text = read(&file)?;
        let id = text
            .split(|byte| *byte == b'\n')
            .find_map(|line| line.strip_prefix(b"mnt_id:"))
            .map(<[u8]>::trim_ascii);
        self.0
            .iter()
            .find(|mount| Some(&*mount.id) == id)
            .ok_or_else(|| unknown(&file, "its mount is not in mountinfo".to_owned()))
    }

    /// The mount that a path leads to, where no mount hides another.
    pub(super) fn of_path(&self, path: &Path) -> Option<&Mount> {
        self.0
            .iter()
            .filter(|mount| path.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.components().count())
    }

    /// A mount point below `path`.
    pub(super) fn below(&self, path: &Path) -> Option<&Path> {
        self.0
            .iter()
            .map(|mount| &*mount.point)
            .find(|point| *point != path && point.starts_with(path))
    }
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let id = fields.next()?.to_vec();
        let device = fields.nth(1)?.to_vec();
        let root = path(fields.next()?)?;
        let point = path(fields.next()?)?;
        // Any number of optional fields end in a dash.
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?.to_vec();
        Some(Self {
            id,
            device,
            root,
            point,
            kind,
        })
    }

    /// Where `path`, which is reached by this mount, lies on its file system.
    pub(super) fn location(&self, path: &Path) -> Option<Location> {
        let below = path.strip_prefix(&self.point).ok()?;
        Some(Location {
            device: self.device.clone(),
            path: self.root.join(below),
        })
    }
}

impl Location {
    /// Whether it is `other`, or lies in it.
    pub(super) fn is_in(&self, other: &Self) -> bool {
        self.device == other.device && self.path.starts_with(&other.path)
    }
}

/// A path of mountinfo, in which blanks, line ends and backslashes are `\ooo`.
fn path(field: &[u8]) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(3)?;
        rest = after;
        bytes.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()?);
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

fn read(file: &str) -> Result<Vec<u8>, InputError> {
    fs::read(Path::new("/proc/self").join(file)).map_err(|error| unknown(file, error.to_string()))
}

fn unknown(file: &str, why: String) -> InputError {
    InputError::Mounts {
        file: file.to_owned(),
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root file system; below it another, a blank in a name; a bind mount of the root, and one
    /// of a directory of it.
    const MOUNTINFO: &[u8] = b"\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 27 0:21 / /proc rw,relatime shared:5 master:1 - proc proc rw
40 27 8:1 / /data\\040disk rw - xfs /dev/sda1 rw
41 27 254:0 / /mnt/all rw - ext4 /dev/vda rw
42 27 254:0 /var/lib /srv/lib rw - ext4 /dev/vda rw
";

    fn location(device: &str, path: &str) -> Location {
        Location {
            device: device.as_bytes().to_vec(),
            path: path.into(),
        }
    }

    #[test]
    fn a_path_lies_where_it_does_by_whichever_mount_it_is_reached() {
        let mounts = Mounts::parse(MOUNTINFO).unwrap();
        for (path, device, expected) in [
            ("/", "254:0", "/"),
            ("/home/x", "254:0", "/home/x"),
            ("/mnt/all", "254:0", "/"),
            ("/mnt/all/home/x", "254:0", "/home/x"),
            ("/mnt/allx", "254:0", "/mnt/allx"),
            ("/srv/lib/docker", "254:0", "/var/lib/docker"),
            ("/data disk/x", "8:1", "/x"),
            ("/proc/self", "0:21", "/self"),
        ] {
            let mount = mounts.of_path(Path::new(path)).unwrap();
            let found = mount.location(Path::new(path)).unwrap();
            assert_eq!(found, location(device, expected), "{path}");
        }
    }

    #[test]
    fn mount_points_below_a_path_are_found() {
        let mounts = Mounts::parse(MOUNTINFO).unwrap();
        for (path, below) in [
            ("/", Some("/proc")),
            ("/mnt", Some("/mnt/all")),
            ("/mnt/all", None),
            ("/data", None),
            ("/data disk", None),
        ] {
            let found = mounts.below(Path::new(path));
            assert_eq!(found, below.map(Path::new), "{path}");
        }
    }

    #[test]
    fn a_location_is_in_another_by_whole_components_of_one_file_system() {
        let docker = location("254:0", "/var/lib/docker");
        for (inner, expected) in [
            (location("254:0", "/var/lib/docker"), true),
            (location("254:0", "/var/lib/docker/volumes"), true),
            (location("254:0", "/var/lib/docker2"), false),
            (location("254:0", "/var/lib"), false),
            (location("8:1", "/var/lib/docker/volumes"), false),
        ] {
            assert_eq!(inner.is_in(&docker), expected, "{inner:?}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_spoils_the_list() {
        for line in [
            &b"27 1 254:0 / /"[..],
            b"27 1 254:0 / / rw,relatime ext4 /dev/vda rw",
            b"27 1 254:0 / /a\\9 rw - ext4 x rw",
            b"27 1 254:0 / /a\\400 rw - ext4 x rw",
            b"garbage",
        ] {
            let text = [MOUNTINFO, line].concat();
            assert_eq!(Mounts::parse(&text), None, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn the_mounts_of_this_process_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let open = fs::File::open(folder.path()).unwrap().into();
        let mounts = Mounts::read().unwrap();
        let real = fs::canonicalize(folder.path()).unwrap();
        assert_eq!(
            mounts.of_open(&open).unwrap(),
            mounts.of_path(&real).unwrap()
        );
    }
}

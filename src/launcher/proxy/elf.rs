//! Whether a binary is whole in itself, as an image that holds nothing else needs it.

use super::ImageError;

/// An architecture that a binary is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// AArch64.
    Arm64,
}

impl Architecture {
    /// Its name where engines and images name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

/// Reads as much of an ELF header (elf(5)) as tells that `binary` needs no loader, and what it is
/// for.
///
/// # Errors
/// It is no such binary.
pub(super) fn check_static(binary: &[u8]) -> Result<Architecture, ImageError> {
    const MAGIC: &[u8] = b"\x7fELF";
    const CLASS_64: u8 = 2;
    const LITTLE_ENDIAN: u8 = 1;
    const PROGRAM_HEADER: u16 = 56;
    const INTERPRETER: u32 = 3;
    let unreadable = ImageError::NotElf;
    if !binary.starts_with(MAGIC)
        || binary.get(4) != Some(&CLASS_64)
        || binary.get(5) != Some(&LITTLE_ENDIAN)
    {
        return Err(unreadable);
    }
    let kind = half(binary, 16).ok_or(unreadable)?;
    if !matches!(kind, 2 | 3) {
        return Err(unreadable);
    }
    let architecture = match half(binary, 18).ok_or(unreadable)? {
        62 => Architecture::Amd64,
        183 => Architecture::Arm64,
        other => return Err(ImageError::Machine(other)),
    };
    let table = double_word(binary, 32).and_then(|at| usize::try_from(at).ok());
    let size = half(binary, 54);
    let count = half(binary, 56).filter(|count| *count > 0);
    let (Some(table), Some(PROGRAM_HEADER), Some(count)) = (table, size, count) else {
        return Err(unreadable);
    };
    for index in 0..usize::from(count) {
        let at = table.checked_add(index * usize::from(PROGRAM_HEADER));
        let header = at.and_then(|at| word(binary, at)).ok_or(unreadable)?;
        if header == INTERPRETER {
            return Err(ImageError::Dynamic);
        }
    }
    Ok(architecture)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    field(bytes, at).map(u16::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

fn double_word(bytes: &[u8], at: usize) -> Option<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A header with one program header of `kind` behind it.
    pub(in super::super) fn elf(machine: u16, kind: u32) -> Vec<u8> {
        let mut binary = vec![0; 64 + 56];
        binary[..6].copy_from_slice(b"\x7fELF\x02\x01");
        binary[16] = 3;
        binary[18..20].copy_from_slice(&machine.to_le_bytes());
        binary[32] = 64;
        binary[54] = 56;
        binary[56] = 1;
        binary[64..68].copy_from_slice(&kind.to_le_bytes());
        binary
    }

    #[test]
    fn only_a_whole_static_binary_is_taken() {
        let changed = |at: usize, to: u8| {
            let mut binary = elf(62, 1);
            binary[at] = to;
            binary
        };
        for (binary, expected) in [
            (elf(62, 1), Ok(Architecture::Amd64)),
            (elf(183, 1), Ok(Architecture::Arm64)),
            (elf(62, 3), Err(ImageError::Dynamic)),
            (elf(40, 1), Err(ImageError::Machine(40))),
            (b"#!/bin/sh\n".to_vec(), Err(ImageError::NotElf)),
            (Vec::new(), Err(ImageError::NotElf)),
            (elf(62, 1)[..100].to_vec(), Ok(Architecture::Amd64)),
            (elf(62, 1)[..66].to_vec(), Err(ImageError::NotElf)),
            // 32 bits; big-endian; an object file; no headers; headers of another size; beyond it.
            (changed(4, 1), Err(ImageError::NotElf)),
            (changed(5, 2), Err(ImageError::NotElf)),
            (changed(16, 1), Err(ImageError::NotElf)),
            (changed(56, 0), Err(ImageError::NotElf)),
            (changed(54, 32), Err(ImageError::NotElf)),
            (changed(39, 0xff), Err(ImageError::NotElf)),
        ] {
            assert_eq!(check_static(&binary), expected, "{binary:02x?}");
        }
    }

    #[test]
    fn this_test_is_a_binary_like_any_other() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let is_static = cfg!(target_feature = "crt-static");
        assert_eq!(check_static(&own).is_ok(), is_static);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for (at, byte) in b"\x7fELF\x02\x01".iter().enumerate() {
                if let Some(own) = bytes.get_mut(at) {
                    *own = *byte;
                }
            }
            let answer = check_static(&bytes);
            prop_assert!(bytes.len() >= 68 || answer.is_err());
        }
    }
}

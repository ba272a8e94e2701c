//! What a write that failed, or a crash in the middle of one, leaves at the end of the file.

use std::{fs::File, io, os::unix::fs::FileExt as _};

use super::{Writer, file::write_whole};

impl Writer {
    /// Takes in what a failed write left in the file, and gives the number of whole lines.
    pub(super) fn take_in(&mut self, written: &[u8]) -> usize {
        let mut whole = 0;
        for line in written.split_inclusive(|byte| *byte == b'\n') {
            match line.strip_suffix(b"\n") {
                Some(text) => {
                    self.grow(line);
                    self.head = self.head.then(text);
                    whole += 1;
                }
                None => line.clone_into(&mut self.torn),
            }
        }
        whole
    }

    /// Removes what stands of a line that could not be written whole, or else ends it.
    pub(super) fn mend(&mut self) -> io::Result<()> {
        if self.torn.is_empty() {
            return Ok(());
        }
        if self.log.is_some() {
            let len = self.file.metadata()?.len();
            let torn = u64::try_from(self.torn.len()).unwrap_or(u64::MAX);
            if self.file.set_len(len.saturating_sub(torn)).is_ok() {
                self.torn.clear();
                return Ok(());
            }
        }
        // A stream, or a file with the append-only attribute.
        write_whole(&self.file, b"\n").map_err(|(_, error)| error)?;
        self.bind_torn();
        Ok(())
    }

    /// Takes what stays of a torn line into the chain.
    pub(super) fn bind_torn(&mut self) {
        if !self.torn.is_empty() {
            self.head = self.head.then(&self.torn);
            self.torn.clear();
        }
    }

    /// A crash in the middle of a write leaves a line without its end.
    pub(super) fn end_torn_line(&mut self) -> io::Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let Some(last_at) = log.len.checked_sub(1) else {
            return Ok(());
        };
        let mut last = [0];
        File::open(&log.path)?.read_exact_at(&mut last, last_at)?;
        if last == *b"\n" {
            return Ok(());
        }
        tracing::warn!(log = self.name, "audit log ends in a torn line");
        write_whole(&self.file, b"\n").map_err(|(_, error)| error)?;
        self.grow(b"\n");
        Ok(())
    }
}

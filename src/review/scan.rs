//! Every event of a log, one after the other.

use std::{fs::File, io::Read};

use super::{
    Extent,
    entry::Entry,
    faults::Faults,
    source::{Source, SourceError},
};
use crate::record::Line;

/// Gives every event of `sources` to `take`, in their order; what is no record is a fault, and runs
/// of the launcher's own record file are passed over and counted. `through` sees the bytes of a file as they
/// are read.
///
/// # Errors
/// A file cannot be read; a log of which a part is missing would be judged falsely.
pub fn events(
    sources: &[Source],
    faults: &mut Faults,
    through: impl Fn(File) -> Box<dyn Read>,
    mut take: impl FnMut(&Line),
) -> Result<u64, SourceError> {
    let mut runs = 0;
    for source in sources {
        let mut lines = source.open_through(&through)?;
        loop {
            let line = lines.next_line();
            let Some(line) = line.map_err(|error| source.unreadable(error))? else {
                break;
            };
            if let Extent::Piece { .. } = line.extent {
                faults.add(source, &line, None);
                continue;
            }
            match Entry::parse(line.bytes) {
                Ok(Entry::Event(event)) => take(&event),
                Ok(Entry::Run(_)) => runs += 1,
                Err(error) => faults.add(source, &line, Some(&error)),
            }
        }
    }
    Ok(runs)
}

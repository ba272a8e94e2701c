//! Proves that no line of a log was changed, removed or moved since it was written, or names the
//! first place where the chain breaks. What a proof cannot tell is whether lines were cut off the
//! end, or written behind it by somebody else; a head that was kept elsewhere can tell the first,
//! and a line that names none before it is told.

mod proof;

use std::{fs::File, io::Read};

pub use self::proof::{At, Beginning, Break, Cause, FileProof, Proof};
use super::{
    Extent, RawLine,
    source::{Source, SourceError},
};
use crate::{
    audit::chain::Chain,
    record::{Line, Link},
};

/// Lines that are named one by one among those that are no records.
const NAMED: usize = 5;

/// Reads `sources`, oldest first, and proves what can be proven of them. With `head`, a link that
/// was noted earlier, a line of that link must be there. `through` sees the bytes of the files as
/// they are read.
///
/// # Errors
/// One of them cannot be read: then nothing is proven.
pub fn verify(
    sources: &[Source],
    head: Option<Link>,
    through: impl Fn(File) -> Box<dyn Read>,
) -> Result<Proof, SourceError> {
    let mut verifier = Verifier::new(sources, head);
    for (file, source) in sources.iter().enumerate() {
        verifier.file = file;
        let mut lines = source.open_through(&through)?;
        while let Some(line) = lines
            .next_line()
            .map_err(|error| source.unreadable(error))?
        {
            if let Err(mut broken) = verifier.take(&line) {
                // A file that cannot be read again does not hide the break.
                if broken.cause == Cause::Lost
                    && let Ok(Some(at)) = standing(sources, broken.found)
                {
                    broken.cause = Cause::Moved(at);
                }
                return Ok(verifier.broken(*broken));
            }
        }
    }
    Ok(verifier.finish())
}

/// Where a line of this link stands; nowhere on what cannot be read again.
fn standing(sources: &[Source], link: Link) -> Result<Option<At>, SourceError> {
    let files = sources.iter().enumerate();
    for (file, source) in files.filter(|(_, source)| source.is_lasting()) {
        let mut lines = source.open()?;
        let mut chain = Chain::after(Link::FIRST);
        while let Some(line) = lines
            .next_line()
            .map_err(|error| source.unreadable(error))?
        {
            chain.take(&line);
            if chain.last() == link {
                return Ok(Some(At::of(file, &line)));
            }
        }
    }
    Ok(None)
}

/// Follows the chain.
#[derive(Debug)]
struct Verifier {
    chain: Chain,
    wanted: Option<Link>,
    is_wanted_seen: bool,
    /// Which of the files is read.
    file: usize,
    /// The last line.
    last: Option<At>,
    proof: Proof,
}

impl Verifier {
    fn new(sources: &[Source], wanted: Option<Link>) -> Self {
        let names = sources.iter().map(ToString::to_string);
        Self {
            chain: Chain::after(Link::FIRST),
            wanted,
            is_wanted_seen: wanted.is_none_or(|wanted| wanted == Link::FIRST),
            file: 0,
            last: None,
            proof: Proof {
                files: names.map(FileProof::of).collect(),
                may_follow: sources.first().is_none_or(Source::may_follow),
                ..Proof::default()
            },
        }
    }

    /// Takes in the next line, or a piece of it.
    fn take(&mut self, line: &RawLine<'_>) -> Result<(), Box<Break>> {
        match line.extent {
            Extent::Piece { first: false } => {}
            Extent::Piece { first: true } | Extent::Whole | Extent::Torn => self.judge(line)?,
        }
        self.chain.take(line);
        self.see(self.chain.last());
        Ok(())
    }

    /// Holds what a line names against what stands before it.
    fn judge(&mut self, line: &RawLine<'_>) -> Result<(), Box<Break>> {
        self.chain.end();
        let at = At::of(self.file, line);
        let before = self.last.replace(at);
        let expected = self.chain.last();
        let lost = |found, cause| {
            Box::new(Break {
                at,
                before,
                expected,
                found,
                cause,
            })
        };
        let begins = &mut self.proof.begins;
        match (Link::named_by(line.bytes), *begins) {
            (Some(Link::FIRST), Beginning::Nowhere) => *begins = Beginning::First,
            (Some(found), Beginning::Nowhere) => {
                *begins = Beginning::After(found);
            }
            (Some(found), Beginning::Unchained) if found == expected => {
                *begins = Beginning::Bound;
            }
            (Some(found), Beginning::Unchained) => return Err(lost(found, Cause::Unbound)),
            (Some(found), _) if found == expected => {}
            (Some(Link::FIRST), _) => return Err(lost(Link::FIRST, Cause::Anew)),
            (Some(found), _) => return Err(lost(found, Cause::Lost)),
            (None, Beginning::Nowhere | Beginning::Unchained) => {
                *begins = Beginning::Unchained;
                // Nothing binds one file of an earlier version to the next.
                if line.number == 1 {
                    self.chain = Chain::after(Link::FIRST);
                }
            }
            // Security: what the proxy writes names the line before it, and what was torn is no
            // whole record.
            (None, Beginning::First | Beginning::After(_) | Beginning::Bound) => {
                if line.extent == Extent::Whole && Line::parse(line.bytes).is_ok() {
                    return Err(lost(expected, Cause::Foreign));
                }
            }
        }
        self.proof.count(at, line);
        Ok(())
    }

    fn see(&mut self, link: Link) {
        self.is_wanted_seen |= self.wanted == Some(link);
    }

    fn broken(mut self, broken: Break) -> Proof {
        self.proof.head = self.chain.last();
        self.proof.broken = Some(broken);
        self.proof
    }

    fn finish(mut self) -> Proof {
        self.proof.head = self.chain.last();
        self.proof.missing = self.wanted.filter(|_| !self.is_wanted_seen);
        self.proof
    }
}

#[cfg(test)]
mod tests;

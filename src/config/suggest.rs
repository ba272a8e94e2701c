//! The nearest thing that could have been meant.

/// Two names this alike are taken for one with a slip (Jaro-Winkler, 0 to 1).
const ALIKE: f64 = 0.8;

/// The candidate that is most like `written`, if any is.
fn nearest<'c>(written: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let scored = candidates.map(|candidate| (strsim::jaro_winkler(written, candidate), candidate));
    scored
        .filter(|(score, _)| *score >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// `did you mean "x"?`, or every candidate where none is near.
pub(crate) fn among<'c>(
    written: &str,
    candidates: impl Iterator<Item = &'c str> + Clone,
) -> String {
    match nearest(written, candidates.clone()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => match &*candidates
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
        {
            [] => "there is none yet".to_owned(),
            names => format!("known: {}", names.join(", ")),
        },
    }
}

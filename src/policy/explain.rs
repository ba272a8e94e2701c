//! The rules considered for a destination and why each did or did not match.

use std::sync::Arc;

/// One rule that was considered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    /// Where the rule stands, e.g. `profiles.default.deny[2]`.
    pub place: Arc<str>,
    /// The rule's pattern as written.
    pub pattern: String,
    /// Whether it matched.
    pub matched: bool,
    /// Why, as a fragment: `the host matches, port 8080 is not in 443, 80`.
    pub why: String,
}

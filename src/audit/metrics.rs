//! Counters derived from records, as Prometheus text; no label is of a client's choice.

/// The counters.
#[derive(Debug, Default)]
pub struct Metrics {}

impl Metrics {
    /// The Prometheus text exposition format, version 0.0.4.
    pub fn render(&self) -> String {
        todo!()
    }
}

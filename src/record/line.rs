//! One line of the log, written and read.
/// A line as read back.
#[derive(Clone, Debug)]
pub struct Line;
/// Why a line cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("not a record")]
pub struct LineError;

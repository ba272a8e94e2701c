//! One line of a log, parsed.

use jiff::Timestamp;

use crate::record::{Line, LineError, RunRecord};

/// What a line records.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// An event of the proxy.
    Event(Box<Line>),
    /// An execution, of the launcher's own record file.
    Run(Box<RunRecord>),
}

/// What a line of a record file begins with, which an event never does.
const RUN: &[u8] = br#"{"schema":1,"run":"#;

impl Entry {
    /// Reads one line, with or without its newline.
    ///
    /// # Errors
    /// It is of another program, torn, or of a version after this one.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        if line.starts_with(RUN) {
            return Ok(Self::Run(serde_json::from_slice(line)?));
        }
        match Line::parse(line) {
            Ok(event) => Ok(Self::Event(Box::new(event))),
            Err(LineError::Newer(schema)) => Err(LineError::Newer(schema)),
            Err(LineError::Foreign(error)) => match serde_json::from_slice::<RunRecord>(line) {
                Ok(run) if run.schema == RunRecord::SCHEMA => Ok(Self::Run(Box::new(run))),
                Ok(run) => Err(LineError::Newer(run.schema)),
                Err(_) => Err(LineError::Foreign(error)),
            },
        }
    }

    /// When it happened; none where a run's record does not say.
    pub fn time(&self) -> Option<Timestamp> {
        match self {
            Self::Event(line) => Some(line.ts),
            Self::Run(record) => record.started.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RunId;

    #[test]
    fn both_kinds_of_log_are_told_apart() {
        let event = br#"{"schema":1,"ts":"2026-01-02T03:04:05.678Z","event":"stop","run":"r"}"#;
        assert!(matches!(Entry::parse(event), Ok(Entry::Event(_))));
        let run = RunId::parse("01JD").unwrap();
        let record = RunRecord::begun(&run, String::new(), String::new(), Vec::new());
        let line = record.line().unwrap();
        assert_eq!(
            Entry::parse(&line).unwrap(),
            Entry::Run(Box::new(record.clone()))
        );
        let spaced = serde_json::to_string_pretty(&record)
            .unwrap()
            .replace('\n', "");
        assert_eq!(
            Entry::parse(spaced.as_bytes()).unwrap(),
            Entry::Run(Box::new(record))
        );
        let later = spaced.replace("\"schema\": 1", "\"schema\": 7");
        let error = Entry::parse(later.as_bytes()).unwrap_err();
        assert!(matches!(error, LineError::Newer(7)), "{error}");
        for foreign in ["", "{}", "hello", "{\"schema\":1,\"run\":\"r\"}"] {
            let error = Entry::parse(foreign.as_bytes()).unwrap_err();
            assert!(matches!(error, LineError::Foreign(_)), "{foreign}");
        }
    }
}

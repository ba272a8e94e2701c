//! The Prometheus text exposition format.

use std::fmt::{Display, Write as _};

/// What a family of samples means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only ever goes up.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bounds.
    Histogram,
}

/// Metric families as text, version 0.0.4: each begins with `family` and goes on with its samples.
#[derive(Debug, Default)]
pub struct Text {
    text: String,
    family: String,
}

impl Text {
    /// Begins the family `name`; `help` is one line.
    pub fn family(&mut self, name: &str, help: &str, kind: Kind) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        self.push(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        name.clone_into(&mut self.family);
    }

    /// Adds one sample to the family.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    /// Adds one sample with `suffix` after the family's name, as histograms have them.
    pub fn part(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let name = std::mem::take(&mut self.family);
        self.push(format_args!("{name}{suffix}"));
        self.family = name;
        let mut before = '{';
        for (label, text) in labels {
            let text = text
                .replace('\\', r"\\")
                .replace('"', r#"\""#)
                .replace('\n', r"\n");
            self.push(format_args!("{before}{label}=\"{text}\""));
            before = ',';
        }
        let after = if labels.is_empty() { "" } else { "}" };
        self.push(format_args!("{after} {value}\n"));
    }

    /// The whole text.
    pub fn into_string(self) -> String {
        self.text
    }

    fn push(&mut self, part: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        self.text.write_fmt(part).unwrap_or_default();
    }
}

//! Suggestions as TOML to paste: every line stands after a comment that says what it rests on.

use std::io::{self, Write};

use super::{Evidence, Finding, Suggestion, Suggestions};
use crate::{
    record::escape::{Layout, escaped},
    review::counted,
};

impl Suggestions {
    /// Writes a configuration of nothing but what is suggested. It parses; to be applied, its
    /// lines are added to the lists of the configuration in force.
    pub fn write_toml(&self, to: &mut dyn Write) -> io::Result<()> {
        let lines = self.profiles.values().map(Vec::len).sum::<usize>() + self.runs.len();
        writeln!(
            to,
            "# From {}: {} suggested, {}.",
            counted(self.refusals, "refusal"),
            counted(lines, "line"),
            counted(
                u64::try_from(self.findings.len()).unwrap_or(u64::MAX),
                "finding"
            ),
        )?;
        if lines > 0 {
            writeln!(
                to,
                "# Add what is meant to the lists of your configuration. What would change:\n\
                 #   eclusa check -c NEW.toml --replay AUDIT_LOG"
            )?;
        }
        if self.profiles.is_empty() {
            writeln!(to, "\n[profiles]")?;
        }
        for (profile, lines) in &self.profiles {
            writeln!(to, "\n[profiles.{profile}]\nallow = [")?;
            for line in lines {
                writeln!(to, "    # {}", told(line))?;
                writeln!(to, "    {},", quoted(&line.pattern))?;
            }
            writeln!(to, "]")?;
        }
        if !self.runs.is_empty() {
            writeln!(to, "\n# Runs without a profile: options of eclusa run.")?;
            for line in &self.runs {
                writeln!(to, "#   --allow {}  # {}", line.pattern, told(line))?;
            }
        }
        self.write_findings(to)?;
        if self.untold > 0 {
            writeln!(
                to,
                "\n# {} of more destinations than are told apart.",
                counted(self.untold, "refusal")
            )?;
        }
        Ok(())
    }

    fn write_findings(&self, to: &mut dyn Write) -> io::Result<()> {
        if self.findings.is_empty() {
            return Ok(());
        }
        writeln!(to, "\n# Findings, for which no line is suggested.")?;
        let mut kind = None;
        for (finding, evidence) in &self.findings {
            if kind != Some(finding.kind) {
                writeln!(to, "#\n# {}:", finding.kind.advice())?;
                kind = Some(finding.kind);
            }
            writeln!(to, "#   {}", told_of(finding, evidence))?;
        }
        Ok(())
    }
}

fn told(line: &Suggestion) -> String {
    let mut told = of(&line.evidence);
    if !line.siblings.is_empty() {
        told = format!("{told}; {}", line.siblings.join(", "));
    }
    if line.by_dns_alone {
        told = format!("{told}; looked up and not asked for, so the port is a guess");
    }
    plain(&told)
}

fn told_of(finding: &Finding, evidence: &Evidence) -> String {
    let detail = match finding.detail.as_str() {
        "" => String::new(),
        detail => format!(" ({detail})"),
    };
    plain(&format!("{}{detail}: {}", finding.about, of(evidence)))
}

/// `14 times, 2026-01-02T03:04:05Z to ...; not_allowlisted; connect, dns; run 01JD`.
fn of(evidence: &Evidence) -> String {
    let mut parts = vec![counted(evidence.count, "time")];
    match (evidence.first, evidence.last) {
        (Some(first), Some(last)) if first != last => {
            parts.push(format!("{first:.0} to {last:.0}"));
        }
        (_, Some(at)) => parts.push(format!("{at:.0}")),
        (_, None) => {}
    }
    let sets = [&evidence.reasons, &evidence.via];
    let words = sets.map(|set| set.iter().cloned().collect::<Vec<_>>().join(", "));
    parts.extend(words.into_iter().filter(|words| !words.is_empty()));
    let who = [("run", &evidence.runs), ("client", &evidence.clients)];
    if let Some((what, who)) = who.into_iter().find(|(_, who)| !who.is_empty()) {
        let who: Vec<_> = who.iter().cloned().collect();
        parts.push(format!("{what} {}", who.join(", ")));
    }
    parts.join("; ")
}

/// Security: a log is read as it is, and a comment must stay one.
fn plain(text: &str) -> String {
    escaped(text.as_bytes(), Layout::Line)
}

/// A TOML basic string, which is written as JSON writes one.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

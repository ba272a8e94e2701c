//! What a reload would change, in words, and which of it needs a restart.

mod setting;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use self::setting::{Effect, list, settings};
use super::Config;
use crate::policy::{EchMode, Mode, Profile, Rule};

/// Entries of one list that are named one by one; more are counted.
const NAMED: usize = 20;

impl Config {
    /// The keys that differ in `new` and that only a restart puts into effect.
    pub fn restart_needed(&self, new: &Self) -> Vec<&'static str> {
        let pairs = settings(self).into_iter().zip(settings(new));
        pairs
            .filter(|(old, new)| old.effect == Effect::Restart && old.text != new.text)
            .map(|(old, _)| old.key)
            .collect()
    }

    /// Every difference, one line each, for the log and the record of a reload.
    pub fn changes(&self, new: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (old, new) in settings(self).into_iter().zip(settings(new)) {
            if old.text != new.text {
                lines.push(format!("{}: {}, was {}", old.key, new.text, old.text));
            }
        }
        self.changed_profiles(new, &mut lines);
        self.changed_clients(new, &mut lines);
        lines
    }

    fn changed_profiles(&self, new: &Self, lines: &mut Vec<String>) {
        let names: BTreeSet<_> = self
            .policies
            .profile_names()
            .chain(new.policies.profile_names())
            .collect();
        let nothing = Profile::default();
        for name in names {
            let old = self.policies.configured(name);
            let new = new.policies.configured(name);
            match (old, new) {
                (None, Some(_)) => lines.push(format!("profiles.{name}: added")),
                (Some(_), None) => {
                    lines.push(format!("profiles.{name}: removed"));
                    continue;
                }
                (Some(_), Some(_)) | (None, None) => {}
            }
            changed_profile(
                name,
                old.unwrap_or(&nothing),
                new.unwrap_or(&nothing),
                lines,
            );
        }
    }

    fn changed_clients(&self, new: &Self, lines: &mut Vec<String>) {
        let by_source = |config: &Self| -> BTreeMap<_, _> {
            let clients = config.policies.clients().iter();
            clients
                .map(|client| (client.source, Arc::clone(&client.profile)))
                .collect()
        };
        let (old, new) = (by_source(self), by_source(new));
        for (source, profile) in &new {
            match old.get(source) {
                None => lines.push(format!("clients: {source} added, under {profile:?}")),
                Some(was) if was != profile => {
                    lines.push(format!(
                        "clients: {source} is under {profile:?}, was {was:?}"
                    ));
                }
                Some(_) => {}
            }
        }
        for (source, profile) in &old {
            if !new.contains_key(source) {
                lines.push(format!("clients: {source} removed, was under {profile:?}"));
            }
        }
    }
}

fn changed_profile(name: &str, old: &Profile, new: &Profile, lines: &mut Vec<String>) {
    if old.mode != new.mode {
        let text = match new.mode {
            Mode::Enforce => "enforce, was report",
            Mode::Report => "report, was enforce",
        };
        lines.push(format!("profiles.{name}.mode: {text}"));
    }
    if old.ech != new.ech {
        let text = match new.ech {
            EchMode::Refuse => "refuse, was allow",
            EchMode::Allow => "allow, was refuse",
        };
        lines.push(format!("profiles.{name}.ech: {text}"));
    }
    let lists = [
        ("allows", &old.allow, &new.allow),
        ("denies", &old.deny, &new.deny),
    ];
    for (verb, old, new) in lists {
        let (old, new) = (written(old), written(new));
        let gone: Vec<_> = old.difference(&new).collect();
        let come: Vec<_> = new.difference(&old).collect();
        name_each(&format!("profiles.{name}: {verb}"), &come, lines);
        name_each(&format!("profiles.{name}: no longer {verb}"), &gone, lines);
    }
}

fn name_each(prefix: &str, entries: &[&String], lines: &mut Vec<String>) {
    for entry in entries.iter().take(NAMED) {
        lines.push(format!("{prefix} {entry}"));
    }
    if let Some(more) = entries.len().checked_sub(NAMED).filter(|more| *more > 0) {
        lines.push(format!("{prefix} {more} more"));
    }
}

/// Rules as text, so that their order and place do not count.
fn written(rules: &[Rule]) -> BTreeSet<String> {
    let written = rules.iter().map(|rule| {
        let mut text = rule.pattern.to_string();
        if !rule.addresses.is_empty() {
            text = format!("{text} at {}", list(&rule.addresses));
        }
        if rule.opaque {
            text.push_str(", opaque");
        }
        text
    });
    written.collect()
}

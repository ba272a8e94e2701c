//! The lists of one profile and what one run adds to them, each judged by itself.

use std::sync::Arc;

use super::{
    EchMode, Grants, Mode, Pattern, Profile, Reason, Rule, RuleConflict,
    index::{Found, Index, Match, Purpose, Sought},
};
use crate::destination::Host;

/// A profile, compiled.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) name: Option<Arc<str>>,
    pub(super) mode: Mode,
    pub(super) ech: EchMode,
    pub(super) allow: Index,
    pub(super) deny: Index,
}

/// What a run adds for itself, and what bounds it.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) allow: Index,
    /// The denies of every profile.
    pub(super) every_deny: Arc<Index>,
    pub(super) ceiling: Option<Arc<Lists>>,
}

/// What lists say, before report mode, and the place of the rule that says it.
#[derive(Debug)]
pub(super) enum Judgement<'a> {
    Allowed(&'a Arc<str>, Arc<Grants>),
    Denied(&'a Arc<str>),
    /// With the rule that names the host and not the port, if there is one.
    Refused(Reason, Option<&'a Arc<str>>),
}

impl Judgement<'_> {
    pub(super) fn is_allowed(&self) -> bool {
        match self {
            Self::Allowed(..) => true,
            Self::Denied(_) | Self::Refused(..) => false,
        }
    }
}

impl Lists {
    /// Compiles a profile.
    pub(super) fn compile(profile: Profile) -> Result<Self, Vec<RuleConflict>> {
        Ok(Self {
            name: profile.name,
            mode: profile.mode,
            ech: profile.ech,
            allow: Index::build(Purpose::Allow, profile.allow)?,
            deny: Index::build(Purpose::Deny, profile.deny)?,
        })
    }

    /// Lists that allow nothing.
    pub(super) fn empty() -> Self {
        Self {
            name: None,
            mode: Mode::default(),
            ech: EchMode::default(),
            allow: Index::empty(Purpose::Allow),
            deny: Index::empty(Purpose::Deny),
        }
    }

    /// Deny beats allow, whatever the order and however specific.
    pub(super) fn judge(&self, sought: &Sought<'_>) -> Judgement<'_> {
        if let Found::Rule(denied) = self.deny.find(sought) {
            return Judgement::Denied(denied.place);
        }
        match allowed(&self.allow, sought) {
            Ok(found) => Judgement::Allowed(found.place, Arc::clone(found.grants)),
            Err((reason, place)) => Judgement::Refused(reason, place),
        }
    }
}

impl Own {
    /// What `patterns` add, in the order in which the run was given them.
    pub(super) fn new(
        patterns: &[Pattern],
        every_deny: Arc<Index>,
        ceiling: Option<Arc<Lists>>,
    ) -> Self {
        let rules = patterns.iter().enumerate().map(|(at, pattern)| Rule {
            place: format!("run.allow[{at}]").into(),
            pattern: pattern.clone(),
            addresses: Vec::new(),
            opaque: false,
        });
        // Rules without `addresses` and `opaque` cannot differ; if they did, none would hold.
        let allow =
            Index::build(Purpose::Allow, rules).unwrap_or_else(|_| Index::empty(Purpose::Allow));
        Self {
            allow,
            every_deny,
            ceiling,
        }
    }

    /// Security: what a run names for itself passes only where no profile denies it and the
    /// ceiling allows it, and opens no more than the ceiling's rule does.
    pub(super) fn judge(&self, sought: &Sought<'_>) -> Judgement<'_> {
        let found = match allowed(&self.allow, sought) {
            Ok(found) => found,
            Err((reason, place)) => return Judgement::Refused(reason, place),
        };
        if let Found::Rule(denied) = self.every_deny.find(sought) {
            return Judgement::Denied(denied.place);
        }
        let Some(ceiling) = &self.ceiling else {
            return Judgement::Allowed(found.place, Arc::clone(found.grants));
        };
        match ceiling.judge(sought) {
            Judgement::Allowed(_, grants) => {
                Judgement::Allowed(found.place, bounded(&found, grants))
            }
            refused @ (Judgement::Denied(_) | Judgement::Refused(..)) => refused,
        }
    }
}

/// The grants of the ceiling's rule. Who chose the labels of the name is for the run's own entry
/// to say.
fn bounded(own: &Match<'_>, ceiling: Arc<Grants>) -> Arc<Grants> {
    let wildcard = own.grants.wildcard;
    if ceiling.wildcard == wildcard {
        return ceiling;
    }
    let grants = Grants {
        wildcard,
        ..Grants::clone(&ceiling)
    };
    if grants == **own.grants {
        return Arc::clone(own.grants);
    }
    Arc::new(grants)
}

fn allowed<'a>(
    allow: &'a Index,
    sought: &Sought<'_>,
) -> Result<Match<'a>, (Reason, Option<&'a Arc<str>>)> {
    match allow.find(sought) {
        Found::Rule(found) => Ok(found),
        Found::OtherPorts(place) => Err((Reason::PortNotAllowed, Some(place))),
        Found::Nothing => match &sought.destination.host {
            Host::Ip(_) => Err((Reason::IpLiteral, None)),
            Host::Name(_) => Err((Reason::NotAllowlisted, None)),
        },
    }
}

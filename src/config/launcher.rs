//! `[launcher]`: defaults of `eclusa run`, held against the profiles and clients.

use std::{collections::BTreeMap, net::Ipv4Addr, ops::RangeInclusive, sync::Arc, time::Duration};

use ipnet::{IpNet, Ipv4Net};

use super::{
    Launcher,
    document::Section,
    policies::{A_RANGE, known_profile},
    scalar,
    settings::{A_PATH, duration},
};
use crate::policy::{ClientRange, Profile};

/// The wall-clock limits that a run may have.
pub(crate) const RUN_TIMES: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_hours(7 * 24);

const DEFAULT_POOL: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 231, 0, 0), 16);

impl Default for Launcher {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            record: None,
            pool: DEFAULT_POOL,
            ceiling: None,
        }
    }
}

pub(super) fn launcher(
    root: &mut Section<'_>,
    profiles: &BTreeMap<Arc<str>, Profile>,
    clients: &[ClientRange],
) -> Launcher {
    let defaults = Launcher::default();
    root.table("launcher", |section| Launcher {
        timeout: duration(section, "timeout", defaults.timeout, &RUN_TIMES),
        record: section.parsed("record", A_PATH, scalar::path),
        pool: pool(section, clients).unwrap_or(defaults.pool),
        ceiling: section
            .take("ceiling")
            .and_then(|item| known_profile(&item, profiles)),
    })
}

fn pool(section: &mut Section<'_>, clients: &[ClientRange]) -> Option<Ipv4Net> {
    let item = section.take("pool")?;
    let pool = item.parsed(A_RANGE, |text| match scalar::range(text)? {
        IpNet::V4(pool) if (8..=29).contains(&pool.prefix_len()) => Ok(pool),
        IpNet::V4(_) => Err(format!(
            "{text:?} is no pool of /29 slices; its prefix length is 8 to 29"
        )),
        IpNet::V6(_) => Err(format!(
            "{text:?} is not IPv4; write for example \"{DEFAULT_POOL}\""
        )),
    })?;
    // Security: a run's address in a client range would be two identities; its registration is
    // refused, so say it before the first run does.
    let overlap = clients.iter().find(|client| match client.source {
        IpNet::V4(source) => source.contains(&pool) || pool.contains(&source),
        IpNet::V6(_) => false,
    });
    if let Some(client) = overlap {
        item.problem(format!(
            "{pool} overlaps the [[clients]] source {}, so no run could be registered from it; \
             write a range that no client has",
            client.source
        ));
    }
    Some(pool)
}

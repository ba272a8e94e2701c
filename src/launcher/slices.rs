//! Ranges for private networks: a /29 of the pool that nothing else uses.

use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};
use ring::digest::{SHA256, digest};

use crate::record::RunId;

/// The prefix length of a slice: eight addresses, of which the gateway, the proxy and the sandbox
/// have one each.
const PREFIX: u8 = 29;

/// The slice for a run's `attempt`th try: from a place in the pool that only depends on the run, so
/// that many launchers at once seldom want the same one, the first that overlaps nothing of `used`.
/// None where the whole pool is in use.
pub(super) fn choose(pool: Ipv4Net, used: &[IpNet], run: &RunId, attempt: u32) -> Option<Ipv4Net> {
    let slices = 1u32.checked_shl(u32::from(PREFIX.checked_sub(pool.prefix_len())?))?;
    let first = u32::from(pool.network());
    let start = place(run, attempt) % slices;
    (0..slices).find_map(|step| {
        let at = start.checked_add(step)? % slices;
        let slice = Ipv4Net::new((first + at * 8).into(), PREFIX).ok()?;
        let is_free = used.iter().all(|other| match other {
            IpNet::V4(other) => !other.contains(&slice) && !slice.contains(other),
            IpNet::V6(_) => true,
        });
        is_free.then_some(slice)
    })
}

/// The slice that an address lies in.
pub(super) fn around(address: Ipv4Addr) -> Option<Ipv4Net> {
    Ipv4Net::new(address, PREFIX).ok().map(|net| net.trunc())
}

/// A number that is spread evenly over runs and attempts.
fn place(run: &RunId, attempt: u32) -> u32 {
    let hash = digest(&SHA256, format!("{run}/{attempt}").as_bytes());
    let first = hash.as_ref().first_chunk::<4>().copied();
    u32::from_be_bytes(first.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn run(text: &str) -> RunId {
        RunId::parse(text).unwrap()
    }

    #[test]
    fn a_slice_overlaps_nothing_that_is_in_use() {
        let pool = "10.231.0.0/27".parse().unwrap();
        let mut used: Vec<IpNet> = vec![
            "10.231.0.9/32".parse().unwrap(),
            "fd00::/8".parse().unwrap(),
            "192.0.2.0/24".parse().unwrap(),
        ];
        let mut given = HashSet::new();
        while let Some(slice) = choose(pool, &used, &run("a"), 0) {
            assert!(given.insert(slice) && pool.contains(&slice));
            used.push(slice.into());
        }
        let expected = ["10.231.0.0/29", "10.231.0.16/29", "10.231.0.24/29"];
        assert_eq!(given, expected.map(|net| net.parse().unwrap()).into());
        let all = ["10.0.0.0/8".parse().unwrap()];
        assert_eq!(choose(pool, &all, &run("a"), 0), None);
        let one = "10.231.0.8/29".parse().unwrap();
        assert_eq!(choose(one, &[], &run("a"), 3), Some(one));
    }

    #[test]
    fn launchers_seldom_want_the_same_slice() {
        let pool = "10.231.0.0/16".parse().unwrap();
        let chosen: HashSet<_> = (0..50)
            .map(|at| choose(pool, &[], &run(&format!("run{at}")), 0).unwrap())
            .collect();
        assert!(chosen.len() >= 48, "{}", chosen.len());
        let again = |attempt| choose(pool, &[], &run("run0"), attempt);
        assert_ne!(again(0), again(1));
    }
}

//! What a run was refused, in one line for the person at the terminal, and how to learn more.

use std::{
    fmt,
    io::{self, Write},
};

use crate::{
    policy::Decision,
    record::{
        DeniedLine, NetworkSummary, RunRecord,
        escape::{Layout, escaped},
    },
};

/// Says what was refused first, how much more, and the command that explains all of it: the log is
/// with the proxy, so it is asked there. Says nothing where nothing was refused.
pub(super) fn tell(record: &RunRecord, host: Option<&str>, err: &mut dyn Write) -> io::Result<()> {
    let (Some(network), Some(proxy)) = (&record.network, &record.proxy) else {
        return Ok(());
    };
    let (mut refused, more) = refused(network);
    let Some(first) = refused.next() else {
        return Ok(());
    };
    let more = u64::try_from(refused.count()).unwrap_or(u64::MAX) + more;
    let and = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    // A proxy is Docker's: Podman is refused networks.
    let at = host.map_or_else(String::new, |host| format!(" --host {host}"));
    let run = &record.run;
    let line = format!(
        "refused {first}{and}; see: docker{at} exec {proxy} /eclusa logs --run {run} --denied"
    );
    // Security: the sandbox chose the names.
    writeln!(err, "eclusa: {}", escaped(line.as_bytes(), Layout::Line))
}

/// What was refused, connections before names, and how many more found no line.
fn refused(network: &NetworkSummary) -> (impl Iterator<Item = Refused<'_>>, u64) {
    let connections = network.denied.iter().map(Refused::Connection);
    let asked = |name: &str| {
        let host = name.trim_end_matches('.');
        let is_host = |line: &DeniedLine| {
            let host_of = line.host.as_deref();
            host_of.is_some_and(|of| of.eq_ignore_ascii_case(host))
        };
        network.denied.iter().any(is_host)
    };
    let mut names: Vec<&str> = network
        .dns
        .iter()
        .filter(|line| line.decision == Decision::Deny && !asked(&line.name))
        .map(|line| &*line.name)
        .collect();
    // Once for all the types that were asked for.
    names.dedup();
    let names = names.into_iter().map(Refused::Name);
    (connections.chain(names), network.more)
}

enum Refused<'n> {
    Connection(&'n DeniedLine),
    Name(&'n str),
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(line) => {
                match (&line.host, line.port) {
                    (Some(host), Some(port)) => write!(f, "{host}:{port}")?,
                    (Some(host), None) => f.write_str(host)?,
                    (None, _) => f.write_str("a request")?,
                }
                write!(f, " ({})", line.reason.code())
            }
            Self::Name(name) => write!(f, "the name {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use super::*;
    use crate::{
        cli::tests::{configured, eclusa},
        policy::Reason,
        record::{DnsLine, RunId},
    };

    fn denied(host: &str) -> DeniedLine {
        DeniedLine {
            host: Some(host.to_owned()),
            port: Some(443),
            reason: Reason::NotAllowlisted,
            count: 3,
        }
    }

    fn asked(name: &str, record_type: &str, decision: Decision) -> DnsLine {
        DnsLine {
            name: name.to_owned(),
            record_type: record_type.to_owned(),
            decision,
            count: 1,
        }
    }

    fn told(network: NetworkSummary, host: Option<&str>) -> String {
        let run = RunId::parse("01JD").unwrap();
        let record = RunRecord {
            proxy: Some("eclusa-proxy".to_owned()),
            network: Some(network),
            ..RunRecord::begun(&run, String::new(), String::new(), Vec::new())
        };
        let mut err = Vec::new();
        tell(&record, host, &mut err).unwrap();
        String::from_utf8(err).unwrap()
    }

    #[test]
    fn what_the_line_tells_to_do_is_a_command_of_ours() {
        let network = NetworkSummary {
            denied: vec![denied("evil.example.net")],
            ..NetworkSummary::default()
        };
        let line = told(network, None);
        let (_, command) = line.trim_end().split_once(" /eclusa ").unwrap();
        let mut words: Vec<&str> = command.split(' ').collect();
        let (_folder, log) = configured("");
        words.push(&log);
        let ran = eclusa(&words);
        assert_eq!((ran.code, ran.err), (ExitCode::SUCCESS, String::new()));
    }

    #[test]
    fn one_line_says_what_was_refused_and_what_explains_it() {
        let network = |denied, dns, more| NetworkSummary {
            denied,
            dns,
            more,
            ..NetworkSummary::default()
        };
        let evil = "evil.example.net";
        let (deny, allow) = (Decision::Deny, Decision::Allow);
        let names = || {
            vec![
                asked("api.example.com.", "A", allow),
                asked("Evil.Example.net.", "A", deny),
                asked("other.example.", "A", deny),
                asked("other.example.", "AAAA", deny),
            ]
        };
        let see = "see: docker exec eclusa-proxy /eclusa logs --run 01JD --denied\n";
        for (network, expected) in [
            (
                network(vec![], vec![asked("a.example.", "A", allow)], 0),
                String::new(),
            ),
            (
                network(vec![denied(evil)], vec![], 0),
                format!("eclusa: refused {evil}:443 (not_allowlisted); {see}"),
            ),
            (
                network(vec![denied(evil), denied("b.example")], names(), 5),
                format!("eclusa: refused {evil}:443 (not_allowlisted) and 7 more; {see}"),
            ),
            (
                network(vec![], names(), 0),
                format!("eclusa: refused the name Evil.Example.net. and 1 more; {see}"),
            ),
            (
                network(vec![denied("\u{1b}[2Jevil")], vec![], 0),
                format!("eclusa: refused \\u{{1b}}[2Jevil:443 (not_allowlisted); {see}"),
            ),
        ] {
            assert_eq!(told(network, None), expected);
        }
        let network = network(vec![denied(evil)], vec![], 0);
        let line = told(network, Some("tcp://192.0.2.1:2375"));
        assert!(
            line.contains("; see: docker --host tcp://192.0.2.1:2375 exec "),
            "{line}"
        );
    }
}

//! The Prometheus text: the counters of the records, and the gauges of this moment.

use super::Admin;
use crate::{
    audit::metrics::{Kind, Text},
    policy::Mode,
};

pub(super) fn render(admin: &Admin) -> String {
    let authorizer = &admin.authorizer;
    let report = admin.health.report(authorizer);
    let mut gauges = Text::default();
    let mut gauge = |name, help, value: u64| {
        gauges.family(name, help, Kind::Gauge);
        gauges.sample(&[], value);
    };
    gauge(
        "eclusa_connections_open",
        "Client connections open now.",
        count(authorizer.open_connections()),
    );
    gauge(
        "eclusa_exchanges_open",
        "Tunnels and requests open now.",
        count(authorizer.open_exchanges()),
    );
    gauge(
        "eclusa_runs",
        "Runs registered now.",
        count(authorizer.runs().all().len()),
    );
    gauge(
        "eclusa_report_mode_profiles",
        "Profiles in report mode, through which data can leave by name.",
        count(authorizer.profiles_in(Mode::Report).len()),
    );
    gauge(
        "eclusa_config_generation",
        "Counts the configurations that were in force since the start.",
        authorizer.generation(),
    );
    gauge(
        "eclusa_healthy",
        "Whether GET /healthz answers 200.",
        u64::from(report.is_ok()),
    );
    gauge(
        "eclusa_reload_failed",
        "Whether the last reload failed.",
        u64::from(report.reload_problem.is_some()),
    );
    authorizer.audit().metrics().render() + &gauges.into_string()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

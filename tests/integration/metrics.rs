//! The listener for Prometheus: it tells counters to the operator's side, and to nobody else
//! anything at all.

use crate::support::{
    client::{exchange, status},
    namespace::{self, Outside, assert_fresh, ip},
    output_of,
    proxy::TestProxy,
};

#[test]
fn no_sandbox_reads_the_counters() {
    namespace::run("metrics::a_sandbox_and_a_scraper_beside_it");
}

#[test]
#[ignore = "runs in namespaces of its own, which the test above makes"]
fn a_sandbox_and_a_scraper_beside_it() {
    assert_fresh();
    let outside = Outside::new();
    outside.cable(
        "sandbox",
        &["172.30.0.2/24"],
        &["172.30.0.3/24", "172.30.0.4/24"],
    );
    let proxy = TestProxy::with_config(|folder| {
        format!(
            "[listen]\nproxy = [\"0.0.0.0:3128\"]\nmetrics = \"172.30.0.2:9464\"\n\
             admin = \"{0}/admin.sock\"\n[audit]\nfile = \"{0}/audit.jsonl\"\n\
             [profiles.default]\nallow = []\n\
             [[clients]]\nsource = \"172.30.0.3/32\"\nprofile = \"default\"\n",
            folder.display()
        )
    });
    let ask = |source: &str, url: &str| {
        let mut curl = outside.command("curl");
        curl.args(["--silent", "--max-time", "10", "--interface", source]);
        let output = curl.arg(url).output().unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let counters = "http://172.30.0.2:9464/metrics";
    assert_eq!(ask("172.30.0.3", counters), (false, String::new()));
    let (answered, text) = ask("172.30.0.4", counters);
    assert!(answered && text.contains("\neclusa_healthy 1\n"), "{text}");
    // Nor does the proxy lead a sandbox there.
    let mut proxied = outside.command("curl");
    proxied.args(["--silent", "--max-time", "10", "--interface", "172.30.0.3"]);
    proxied.args(["--proxy", "http://172.30.0.2:3128", counters]);
    let refusal = output_of(&mut proxied);
    assert!(refusal.contains("ip_literal"), "{refusal}");

    for (request, expected) in [
        ("GET /metrics", 200),
        ("POST /metrics", 405),
        ("POST /v1/reload", 404),
        ("GET /v1/audit", 404),
        ("GET /healthz", 404),
        ("GET /", 404),
    ] {
        let head = format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n");
        let answer = exchange(proxy.listener("metrics"), head.as_bytes());
        assert_eq!(status(&answer), Some(expected), "{request}");
    }
    ip("link del sandbox");
}

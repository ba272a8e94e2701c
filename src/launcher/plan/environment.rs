//! A sandbox's environment: built from nothing, with what clients need to find the proxy. Nothing
//! of the host's is passed on, and of the image's only where its programs lie and how they speak.

use std::{collections::BTreeMap, net::Ipv4Addr};

use super::PlanError;
use crate::launcher::spec::{RunSpec, looks_like_a_credential};

/// Where programs are when the image does not say.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The proxy's port on a slice.
const PROXY_PORT: u16 = 3128;

/// Names of an image's environment that are kept: paths of programs, locale, and where a language's
/// toolchain lies. What changes what a program loads or whom it trusts is not among them.
const KEPT: &[&str] = &[
    "PATH",
    "LANG",
    "LANGUAGE",
    "TZ",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUST_VERSION",
    "GOLANG_VERSION",
    "GOPATH",
    "GOROOT",
    "GOTOOLCHAIN",
    "JAVA_HOME",
    "JAVA_VERSION",
    "NODE_VERSION",
    "PYTHON_VERSION",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "RUBY_VERSION",
    "GEM_HOME",
    "PHP_VERSION",
    "DOTNET_VERSION",
    "DOTNET_RUNNING_IN_CONTAINER",
];

/// Whether a variable of the image is kept.
fn is_kept(name: &str) -> bool {
    KEPT.contains(&name)
        || name
            .strip_prefix("LC_")
            .is_some_and(|rest| !rest.is_empty())
}

/// The whole environment, and the names of the image's that must not reach the sandbox.
pub(super) fn environment(
    spec: &RunSpec,
    image: &[(String, String)],
    hostname: &str,
    proxy: Option<Ipv4Addr>,
) -> Result<(BTreeMap<String, String>, Vec<String>), PlanError> {
    let mut env: BTreeMap<String, String> = [
        ("PATH", PATH),
        ("HOME", "/workspace"),
        ("HOSTNAME", hostname),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", "/tmp"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    for (name, value) in image {
        if is_kept(name) && looks_like_a_credential(name, value).is_none() {
            env.insert(name.clone(), value.clone());
        }
    }
    let proxied: BTreeMap<String, String> = proxy.map(proxied).unwrap_or_default();
    for (name, value) in &spec.env {
        check(name, value, spec.dangerously_allow_secret_env)?;
        // Security: case matters to no client, so it does not here.
        if proxied.keys().any(|ours| ours.eq_ignore_ascii_case(name)) {
            return Err(PlanError::ProxyVariable(name.clone()));
        }
        env.insert(name.clone(), value.clone());
    }
    env.extend(proxied);
    let mut unset: Vec<String> = image
        .iter()
        .map(|(name, _)| name.clone())
        .filter(|name| !env.contains_key(name))
        .collect();
    unset.sort_unstable();
    unset.dedup();
    Ok((env, unset))
}

fn check(name: &str, value: &str, dangerously_allow: bool) -> Result<(), PlanError> {
    let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b'=';
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(PlanError::VariableName(name.to_owned()));
    }
    if value.contains('\0') {
        return Err(PlanError::Nul("the value of an environment variable"));
    }
    match looks_like_a_credential(name, value) {
        Some(why) if !dangerously_allow => Err(PlanError::Credential {
            name: name.to_owned(),
            why,
        }),
        Some(_) | None => Ok(()),
    }
}

/// What makes each client of the compatibility matrix use the proxy. Both cases: curl reads only
/// the lower one for plain HTTP, some read only the upper one.
fn proxied(proxy: Ipv4Addr) -> BTreeMap<String, String> {
    let url = format!("http://{proxy}:{PROXY_PORT}");
    let direct = "localhost,127.0.0.1,::1";
    let java = format!(
        "-Dhttp.proxyHost={proxy} -Dhttp.proxyPort={PROXY_PORT} -Dhttps.proxyHost={proxy} \
         -Dhttps.proxyPort={PROXY_PORT} -Dhttp.nonProxyHosts=localhost|127.*|[::1]"
    );
    let mut env: BTreeMap<String, String> = BTreeMap::new();
    for (lower, value) in [
        ("http_proxy", url.as_str()),
        ("https_proxy", url.as_str()),
        ("all_proxy", url.as_str()),
        ("no_proxy", direct),
    ] {
        env.insert(lower.to_owned(), value.to_owned());
        env.insert(lower.to_ascii_uppercase(), value.to_owned());
    }
    // Node's own fetch reads the variables above from 22.21 and 24 on, and only when told to.
    env.insert("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned());
    // Java reads no variable but this one.
    env.insert("JAVA_TOOL_OPTIONS".to_owned(), java);
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn of_the_image_only_paths_and_languages_are_kept() {
        let spec = RunSpec::new("image", ["true"]);
        let from = image(&[
            ("PATH", "/opt/bin"),
            ("LC_ALL", "de_DE.UTF-8"),
            ("JAVA_HOME", "/opt/java"),
            ("LD_PRELOAD", "/evil.so"),
            ("HTTP_PROXY", "http://user:password@proxy.example.com"),
            ("NODE_OPTIONS", "--require /evil.js"),
            ("API_TOKEN", "x"),
            ("GOPATH", "ghp_0123456789012345678901234567890123456"),
        ]);
        let (env, unset) = environment(&spec, &from, "sandbox", None).unwrap();
        let expected = [
            ("HOME", "/workspace"),
            ("HOSTNAME", "sandbox"),
            ("JAVA_HOME", "/opt/java"),
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "de_DE.UTF-8"),
            ("PATH", "/opt/bin"),
            ("TMPDIR", "/tmp"),
        ];
        assert_eq!(env, image(&expected).into_iter().collect());
        assert_eq!(
            unset,
            [
                "API_TOKEN",
                "GOPATH",
                "HTTP_PROXY",
                "LD_PRELOAD",
                "NODE_OPTIONS"
            ]
        );
    }

    #[test]
    fn every_client_is_led_to_the_proxy_in_both_cases() {
        let spec = RunSpec::new("image", ["true"]);
        let proxy = Some(Ipv4Addr::new(10, 231, 0, 2));
        let (env, _) = environment(&spec, &[], "sandbox", proxy).unwrap();
        for name in ["http_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            assert_eq!(env[name], "http://10.231.0.2:3128", "{name}");
        }
        assert_eq!(env["NO_PROXY"], env["no_proxy"]);
        assert!(env["JAVA_TOOL_OPTIONS"].contains("-Dhttps.proxyHost=10.231.0.2"));
    }

    #[test]
    fn a_variable_that_cannot_be_passed_is_refused() {
        let proxy = Some(Ipv4Addr::new(10, 231, 0, 2));
        for (name, value, expected) in [
            ("", "x", "is not the name of an environment variable"),
            ("A=B", "x", "is not the name of an environment variable"),
            ("A B", "x", "is not the name of an environment variable"),
            ("A", "x\0", "NUL"),
            ("Http_Proxy", "http://a", "is set by the launcher"),
            ("GITHUB_TOKEN", "x", "looks like a credential"),
        ] {
            let mut spec = RunSpec::new("image", ["true"]);
            spec.env = vec![(name.to_owned(), value.to_owned())];
            let error = environment(&spec, &[], "sandbox", proxy).unwrap_err();
            assert!(error.to_string().contains(expected), "{name:?}: {error}");
        }
        let mut spec = RunSpec::new("image", ["true"]);
        spec.env = vec![("GITHUB_TOKEN".to_owned(), "x".to_owned())];
        spec.dangerously_allow_secret_env = true;
        let (env, _) = environment(&spec, &[], "sandbox", None).unwrap();
        assert_eq!(env["GITHUB_TOKEN"], "x");
    }
}

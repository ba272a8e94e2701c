//! The architecture, checked: a module uses only the modules before it, and pure layers stay pure.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Each layer, its modules in dependency order, and the words its code may not contain.
const LAYERS: &[(&str, &str, &str)] = &[
    (
        "core",
        "destination policy record config",
        "tokio hyper hickory async await fs:: TcpStream TcpListener TcpSocket UdpSocket env:: ::now(",
    ),
    (
        "protocol",
        "protocol",
        "tokio async await fs:: TcpStream TcpListener TcpSocket UdpSocket env:: ::now(",
    ),
    (
        "engine",
        "drain workers listener resolver audit intercept egress",
        "",
    ),
    ("servers", "dns proxy admin app", ""),
    (
        "launcher",
        "launcher",
        "crate::resolver crate::intercept crate::egress crate::dns crate::proxy crate::app",
    ),
    (
        "doctor",
        "doctor",
        "crate::intercept crate::egress crate::dns crate::proxy crate::app",
    ),
    (
        "review",
        "review",
        "crate::resolver crate::intercept crate::egress crate::dns crate::proxy crate::admin crate::app \
         TcpStream TcpListener TcpSocket UdpSocket UnixStream",
    ),
    ("cli", "cli main", ""),
];

#[test]
fn modules_use_only_the_modules_before_them() {
    let order: Vec<&str> = LAYERS
        .iter()
        .flat_map(|(_, modules, _)| modules.split(' '))
        .collect();
    let rank = |module: &str| order.iter().position(|m| *m == module);
    let mut violations = Vec::new();
    for file in rust_files(Path::new("src")) {
        let (at, module) = (file.display(), top_level_module(&file));
        let Some(own) = rank(&module) else {
            violations.push(format!("{at}: `{module}` is in no layer"));
            continue;
        };
        let code = production_code(&fs::read_to_string(&file).unwrap());
        for used in crate_modules(&code) {
            if rank(&used).is_none_or(|used| used > own) {
                violations.push(format!("{at}: `{module}` uses `{used}`"));
            }
        }
        let (layer, _, banned) = LAYERS
            .iter()
            .find(|(_, modules, _)| modules.split(' ').any(|m| m == module))
            .unwrap();
        for word in banned.split_whitespace().filter(|word| code.contains(word)) {
            violations.push(format!("{at}: `{word}` in {layer}"));
        }
    }
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

#[test]
fn only_the_engine_backend_knows_the_engine_client() {
    for file in rust_files(Path::new("src")) {
        let code = production_code(&fs::read_to_string(&file).unwrap());
        let at = file.display().to_string();
        assert!(
            !code.contains("bollard") || at.starts_with("src/launcher/backend/docker"),
            "{at} uses bollard, which opens sockets of its own"
        );
    }
}

/// Files of the launcher that decide: values in, values out.
const PURE: &[&str] = &[
    "src/launcher/spec",
    "src/launcher/plan",
    "src/launcher/proxy",
];

#[test]
fn what_decides_on_a_sandbox_is_pure() {
    let banned = "tokio async await fs:: env:: ::now( bollard";
    for file in rust_files(Path::new("src/launcher")) {
        let at = file.display().to_string();
        if PURE.iter().any(|pure| at.starts_with(pure)) {
            let code = production_code(&fs::read_to_string(&file).unwrap());
            for word in banned.split_whitespace() {
                assert!(!code.contains(word), "{at}: `{word}`");
            }
        }
    }
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.file_name().unwrap() != "tests.rs" && path != Path::new("src/lib.rs") {
            files.push(path);
        }
    }
    files
}

/// `src/policy.rs` and `src/policy/rule.rs` are both `policy`.
fn top_level_module(file: &Path) -> String {
    let first = file
        .components()
        .nth(1)
        .unwrap()
        .as_os_str()
        .to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

/// The code without comments and without the test module that ends the file.
fn production_code(source: &str) -> String {
    let code = source.split("#[cfg(test)]").next().unwrap();
    code.lines()
        .map(|line| line.split("//").next().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every `x` in `crate::x` and in `crate::{x, y::z}`.
fn crate_modules(code: &str) -> BTreeSet<String> {
    let ident = |path: &str| {
        path.trim()
            .split(|c: char| !(c == '_' || c.is_alphanumeric()))
            .next()
            .unwrap()
            .to_owned()
    };
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            None => found.extend([ident(rest)]),
            Some(group) => found.extend(outermost(group).split(',').map(ident)),
        }
    }
    found.remove("");
    found
}

/// The text up to the brace that closes this group, without any inner groups.
fn outermost(group: &str) -> String {
    let mut depth = 0;
    let until_close = group.chars().map_while(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        (depth >= 0).then_some((depth, c))
    });
    until_close
        .filter(|(depth, c)| *depth == 0 && *c != '}')
        .map(|(_, c)| c)
        .collect()
}

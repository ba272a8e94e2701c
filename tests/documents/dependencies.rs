//! What each dependency is for and what it costs, held to what cargo resolves.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use super::{read, rows};

/// A crate as cargo resolves it, in one version.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Package {
    name: String,
    version: String,
    licence: String,
    repository: String,
}

/// The direct dependencies of a kind, each with everything that it needs, itself among it.
fn direct(edges: &str) -> BTreeMap<Package, BTreeSet<Package>> {
    let tree = cargo_tree(&[
        "--edges",
        edges,
        "--prefix=depth",
        "--no-dedupe",
        "--format= {p} |{l}|{r}",
    ]);
    let mut found: BTreeMap<Package, BTreeSet<Package>> = BTreeMap::new();
    let mut top = None;
    for line in tree.lines().skip(1) {
        let (depth, package) = line.split_once(' ').unwrap();
        let [named, licence, repository] = package.split('|').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let mut words = named.split(' ');
        let package = Package {
            name: words.next().unwrap().to_owned(),
            version: words.next().unwrap().to_owned(),
            licence: licence.to_owned(),
            repository: repository.to_owned(),
        };
        if depth == "1" {
            top = Some(package.clone());
        }
        found
            .entry(top.clone().unwrap())
            .or_default()
            .insert(package);
    }
    found
}

/// What cargo says of the crates that are locked here.
pub(crate) fn cargo_tree(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split(" | ").map(str::trim).collect()
}

fn owner(package: &Package) -> &str {
    package.repository.split('/').nth(3).unwrap()
}

#[test]
fn each_dependency_has_its_reason_and_its_cost() {
    let page = read("docs/dependencies.md");
    let needed = direct("normal,build");
    let expected: Vec<String> = needed
        .iter()
        .map(|(package, whole)| {
            let by_others: BTreeSet<&Package> = needed
                .iter()
                .filter(|(other, _)| *other != package)
                .flat_map(|(_, whole)| whole)
                .collect();
            let alone = whole.iter().filter(|one| !by_others.contains(one)).count();
            let Package { name, licence, .. } = package;
            let (brings, owner) = (whole.len() - 1, owner(package));
            format!("`{name}` {brings} {alone} {licence} {owner}")
        })
        .collect();
    let told: Vec<String> = rows(&page, "## In the binary")
        .iter()
        .map(|row| {
            let cells = cells(row);
            let [name, purpose, instead, brings, alone, licence, owner] = cells[..] else {
                panic!("{row}");
            };
            assert!(!purpose.is_empty() && !instead.is_empty(), "{row}");
            format!("{name} {brings} {alone} {licence} {owner}")
        })
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn each_dependency_of_the_tests_has_its_reason() {
    let page = read("docs/dependencies.md");
    let expected: Vec<String> = direct("dev")
        .keys()
        .map(|package| format!("`{}` {} {}", package.name, package.licence, owner(package)))
        .collect();
    let told: Vec<String> = rows(&page, "## In the tests")
        .iter()
        .map(|row| {
            let cells = cells(row);
            let [name, purpose, licence, owner] = cells[..] else {
                panic!("{row}");
            };
            assert!(!purpose.is_empty(), "{row}");
            format!("{name} {licence} {owner}")
        })
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn the_crates_are_counted() {
    let count = |edges: &str| {
        let tree = cargo_tree(&["--edges", edges, "--prefix=none", "--format={p}"]);
        let crates: BTreeSet<&str> = tree
            .lines()
            .map(|line| line.trim_end_matches(" (*)"))
            .filter(|line| !line.starts_with("eclusa "))
            .collect();
        crates.len()
    };
    let (compiled, linked) = (count("normal,build"), count("normal,no-proc-macro"));
    let told = format!(
        "{compiled} crates of others are compiled for a release on Linux, {linked} of them are in the binary"
    );
    let page = read("docs/dependencies.md");
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&told), "{told}");
}

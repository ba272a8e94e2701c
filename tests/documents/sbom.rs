//! What a release says that it is made of, held to what cargo links and to `Cargo.lock`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde::Deserialize;

use super::{dependencies::cargo_tree, read};

#[derive(Deserialize)]
struct Bill {
    metadata: Metadata,
    components: Vec<Component>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Metadata {
    component: Component,
}

#[derive(Deserialize)]
struct Component {
    name: String,
    version: String,
    purl: String,
    licenses: Vec<Licence>,
    #[serde(default)]
    hashes: Vec<Hash>,
}

#[derive(Deserialize)]
struct Licence {
    expression: String,
}

#[derive(Deserialize)]
struct Hash {
    content: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dependency {
    r#ref: String,
    depends_on: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// What `scripts/sbom` prints of a binary with the content `release`.
fn printed() -> String {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("binary");
    fs::write(&binary, "release").unwrap();
    let output = Command::new("scripts/sbom")
        .arg(&binary)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_bill_of_materials_names_what_is_linked_and_nothing_else() {
    let bill: Bill = serde_json::from_str(&printed()).unwrap();
    let tree = cargo_tree(&[
        "--edges=normal,no-proc-macro",
        "--prefix=none",
        "--format={p}",
    ]);
    let linked: BTreeSet<(&str, &str)> = tree
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(" v"))
        .map(|(name, version)| (name, version.split(' ').next().unwrap()))
        .filter(|(name, _)| *name != "eclusa")
        .collect();
    let crates: BTreeSet<(&str, &str)> = bill
        .components
        .iter()
        .filter(|one| one.purl.starts_with("pkg:cargo/"))
        .map(|one| (one.name.as_str(), one.version.as_str()))
        .collect();
    assert_eq!(crates, linked);
    // Beside the crates: the standard library, and what is linked statically with it.
    let others = bill
        .components
        .iter()
        .filter(|one| !one.purl.starts_with("pkg:cargo/"));
    let others: BTreeSet<&str> = others.map(|one| one.name.as_str()).collect();
    assert_eq!(others, BTreeSet::from(["glibc", "libgcc", "std"]));
}

#[test]
fn the_bill_of_materials_identifies_every_component() {
    let printed = printed();
    let bill: Bill = serde_json::from_str(&printed).unwrap();
    let lock: Lock = toml::from_str(&read("Cargo.lock")).unwrap();
    let locked: BTreeMap<(&str, &str), &str> = lock
        .package
        .iter()
        .filter_map(|one| Some(((&*one.name, &*one.version), one.checksum.as_deref()?)))
        .collect();
    for component in &bill.components {
        let Component {
            name,
            version,
            purl,
            ..
        } = component;
        assert!(purl.starts_with("pkg:"), "{name}");
        assert!(!component.licenses[0].expression.is_empty(), "{name}");
        assert!(!component.licenses[0].expression.contains('/'), "{name}");
        if purl.starts_with("pkg:cargo/") {
            let digest = locked[&(name.as_str(), version.as_str())];
            assert_eq!(component.hashes[0].content, digest, "{name}");
        }
    }
    let own = &bill.metadata.component;
    assert_eq!(
        (&*own.name, &*own.version),
        ("eclusa", env!("CARGO_PKG_VERSION"))
    );
    // That of the bytes it was given.
    let digest = "a4d451ec23463726f72c43d64c710968f6b602cd653b4de8adee1b556240a829";
    assert_eq!(own.hashes[0].content, digest);
    let refs: BTreeSet<&str> = bill.components.iter().map(|one| &*one.purl).collect();
    let mut reached = BTreeSet::new();
    for dependency in &bill.dependencies {
        assert!(dependency.r#ref == own.purl || refs.contains(&*dependency.r#ref));
        reached.extend(dependency.depends_on.iter().map(String::as_str));
    }
    assert_eq!(reached, refs, "what nothing needs, or is not listed");
    assert_eq!(printed, self::printed(), "not the same twice");
}

//! The demo asserts every row of its table itself.

use std::process::Command;

use crate::docker::{attempt, without_proxy};

fn plays_on(stage: &str, first_line: &str) {
    let output = attempt(
        Command::new("demo/run")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("ECLUSA_DEMO", stage),
    );
    assert!(
        output.ok && output.text.contains(first_line),
        "{}",
        output.text
    );
    assert!(output.text.contains(" 0 did not hold."), "{}", output.text);
}

#[test]
#[ignore = "needs Docker"]
fn the_demo_holds_in_containers() {
    let _alone = without_proxy();
    plays_on("docker", "Stage: Docker.");
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn the_demo_holds_in_network_namespaces() {
    plays_on("netns", "Stage: network namespaces.");
}

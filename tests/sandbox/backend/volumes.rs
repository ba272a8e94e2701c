//! What is put into a sandbox and taken out of it through volumes in memory.

use std::io::Read;

use eclusa::launcher::{
    backend::{Backend, BackendError, ByteStream},
    plan::InputFacts,
};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{Run, shell};
use crate::docker::docker;

/// A tar archive of one file.
fn archive(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_size(u64::try_from(content.len()).unwrap());
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_data(&mut header, name, content).unwrap();
    builder.into_inner().unwrap()
}

fn sent(bytes: &[u8]) -> ByteStream {
    let pieces: Vec<_> = bytes
        .chunks(10_000)
        .map(|piece| Ok(piece.to_vec().into()))
        .collect();
    stream::iter(pieces).boxed()
}

/// The regular files of an archive, by path.
fn files(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .filter(|entry| entry.header().entry_type().is_file())
        .map(|mut entry| {
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (path, content)
        })
        .collect();
    files.sort();
    files
}

async fn collected(run: &Run) -> Vec<u8> {
    let volume = run.plan.volumes.last().unwrap();
    let pieces = run.engine.collect(&run.plan, volume);
    pieces
        .try_fold(Vec::new(), async |mut all, piece| {
            all.extend(piece);
            Ok(all)
        })
        .await
        .unwrap()
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn what_is_filled_in_is_read_and_what_is_left_is_collected() {
    let script = "sha256sum /input/in | cut -c 1-8; touch /input/x || echo read-only; \
                  mkdir /output/folder; cat /input/in /input/in > /output/folder/out; \
                  printf '#!/bin/sh\\n' > /output/program; chmod 755 /output/program; \
                  /output/program || echo no-execution; cd /output; ln -s /etc/passwd link";
    let mut spec = shell(script);
    spec.output = Some("out".into());
    let size = 4 << 20;
    let run = Run::copying("backend-fill", &spec, InputFacts::Copy { size, inodes: 16 }).await;
    run.create().await.unwrap();
    let content: Vec<u8> = (0..3_000_000u32)
        .flat_map(u32::to_le_bytes)
        .take(3_000_000)
        .collect();
    let input = &run.plan.volumes[0];
    let archive = archive("in", &content);
    run.engine
        .fill(&run.plan, input, sent(&archive))
        .await
        .unwrap();
    let ran = run.execute(b"").await;
    let lines: Vec<&str> = ran.stdout.lines().skip(1).collect();
    assert_eq!(lines, ["read-only", "no-execution"], "{ran:#?}");
    let name = run.plan.sandbox.name.as_str();
    assert_eq!(
        docker(&["inspect", "-f", "{{.State.Running}}", name]),
        "false"
    );
    let collected = files(&collected(&run).await);
    let expected = [
        ("./folder/out", [content.clone(), content].concat()),
        ("./program", b"#!/bin/sh\n".to_vec()),
    ];
    let names: Vec<&str> = collected.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, expected.each_ref().map(|(name, _)| *name));
    for ((name, got), (_, expected)) in collected.iter().zip(&expected) {
        assert!(got == expected, "{name}");
    }
    run.remove().await;
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_volume_holds_what_its_plan_says() {
    let script = "df -B1 --output=size /output | tail -1; df --output=itotal /output | tail -1; \
                  dd if=/dev/zero of=/output/big bs=64k 2>&1 | grep -o 'No space left'; \
                  rm /output/big; i=0; while touch /output/$i 2>/dev/null; do i=$((i+1)); done; echo $i";
    let mut spec = shell(script);
    spec.output = Some("out".into());
    spec.limits.output = 1 << 20;
    let run = Run::new("backend-caps", &spec).await;
    let inodes = run.plan.volumes[0].inodes;
    let ran = run.run(b"").await;
    let expected = format!("1048576 {inodes} No space left {}", inodes - 1);
    let seen: Vec<&str> = ran.stdout.split_whitespace().collect();
    assert_eq!(seen.join(" "), expected, "{ran:#?}");
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn an_archive_that_breaks_off_is_an_error() {
    let size = 1 << 20;
    let copy = InputFacts::Copy { size, inodes: 16 };
    let run = Run::copying("backend-broken", &shell("true"), copy).await;
    run.create().await.unwrap();
    let whole = archive("in", &vec![1; 100_000]);
    let broken = BackendError::Unsupported("the file changed meanwhile".to_owned());
    let pieces = [Ok(whole[..50_000].to_vec().into()), Err(broken)];
    let input = &run.plan.volumes[0];
    let outcome = run
        .engine
        .fill(&run.plan, input, stream::iter(pieces).boxed())
        .await;
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("copy files to /input"), "{error}");

    let too_much = sent(&archive("in", &vec![1; 2 << 20]));
    let outcome = run.engine.fill(&run.plan, input, too_much).await;
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("no space left"), "{error}");
    run.remove().await;
}

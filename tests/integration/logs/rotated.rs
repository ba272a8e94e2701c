//! The files of a log in their order, as the proxy rotates them and as others compress them.

use std::{fs, io::Write as _, path::Path};

use super::{printed, stop};
use crate::support::{client::exchange, proxy::TestProxy};

/// A proxy whose log is rotated all the time.
pub(super) fn rotating(keep: u32) -> TestProxy {
    TestProxy::with_config(|folder| {
        format!(
            "[listen]\nproxy = [\"127.0.0.1:0\"]\nadmin = \"{0}/admin.sock\"\n\
             [audit]\nfile = \"{0}/audit.jsonl\"\nmax_size = \"4 KiB\"\nkeep = {keep}\n\
             [profiles.default]\nallow = [\"127.0.0.1:1\"]\n\
             [[clients]]\nsource = \"127.0.0.0/8\"\nprofile = \"default\"\n",
            folder.display(),
        )
    })
}

/// One allowed request, which nobody answers: a decision and a close.
pub(super) fn ask(proxy: &TestProxy) {
    let head = b"GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n";
    exchange(proxy.listener("proxy"), head);
}

fn compress(path: &Path, ending: &str, compressed: &[u8]) {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    fs::write(name, compressed).unwrap();
    fs::remove_file(path).unwrap();
}

#[test]
fn rotated_files_are_read_oldest_first_also_compressed() {
    let mut proxy = rotating(100);
    for _ in 0..30 {
        ask(&proxy);
    }
    stop(&mut proxy);
    let (config, log) = (proxy.config(), proxy.folder().join("audit.jsonl"));
    let at = |number: u32| log.with_extension(format!("jsonl.{number}"));
    let numbers = (1..100).take_while(|number| at(*number).exists());
    let oldest = numbers.last().unwrap();
    assert!(oldest >= 3, "{oldest}");
    let older = (1..=oldest)
        .rev()
        .map(|number| fs::read_to_string(at(number)).unwrap());
    let current = fs::read_to_string(&log).unwrap();
    let all = older.collect::<String>() + &current;
    let by_config = ["--json", "-c", config.to_str().unwrap()];
    let by_name = ["--json", "--rotated", log.to_str().unwrap()];
    let whole = |what: &str| {
        assert_eq!(printed(&by_config), all, "{what}");
        assert_eq!(printed(&by_name), all, "{what}");
    };
    whole("plain");
    assert_eq!(printed(&["--json", log.to_str().unwrap()]), current);

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&fs::read(at(2)).unwrap()).unwrap();
    compress(&at(2), ".gz", &gzip.finish().unwrap());
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let zstd = ruzstd::encoding::compress_to_vec(&*fs::read(at(3)).unwrap(), level);
    compress(&at(3), ".zst", &zstd);
    whole("compressed");

    let dated = log.with_extension("jsonl-20260102");
    fs::rename(at(oldest), &dated).unwrap();
    whole("dated");
    fs::remove_file(&log).unwrap();
    let rest = all.strip_suffix(&current).unwrap();
    assert_eq!(printed(&by_config), rest, "moved away");
}

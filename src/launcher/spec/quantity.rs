//! Sizes, counts and times as a command line writes them. No spelling means "unlimited" by
//! accident: zero, negative, absurd and missing values are errors.

use std::{fmt, time::Duration};

use crate::config;

/// What a number stands for, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Memory, 6 MiB (less is below what engines take) to 1 TiB.
    Memory,
    /// A file system in memory, 4 KiB to 1 TiB.
    Room,
    /// The size of one file, 1 B to 1 TiB.
    File,
    /// What is kept of an output, 0 B to 1 GiB.
    Kept,
}

/// The text is not such a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}; write for example {example}")]
pub struct QuantityError {
    text: String,
    what: String,
    example: &'static str,
}

const TIB: u64 = 1 << 40;

impl Quantity {
    fn bounds(self) -> (u64, u64, &'static str) {
        match self {
            Self::Memory => (6 << 20, TIB, "512m"),
            Self::Room => (4096, TIB, "256m"),
            Self::File => (1, TIB, "50MB"),
            Self::Kept => (0, 1 << 30, "100000"),
        }
    }

    /// Reads a size: digits and a unit. `b`, `k`, `m`, `g`, `t` are binary as Docker's, with or
    /// without `ib`; `kB`, `MB`, `GB`, `TB` are decimal; none is bytes.
    pub fn parse(self, text: &str) -> Result<u64, QuantityError> {
        let (least, most, example) = self.bounds();
        read_size(text)
            .filter(|bytes| (least..=most).contains(bytes))
            .ok_or_else(|| QuantityError {
                text: text.to_owned(),
                what: format!("a size from {}", self.range()),
                example,
            })
    }

    /// The bounds, in words.
    pub fn range(self) -> String {
        let (least, most, _) = self.bounds();
        format!("{} to {}", Bytes(least), Bytes(most))
    }

    /// Whether `bytes` lies within the bounds.
    pub fn holds(self, bytes: u64) -> bool {
        let (least, most, _) = self.bounds();
        (least..=most).contains(&bytes)
    }
}

fn read_size(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let factor: u64 = match unit {
        "" | "b" | "B" => 1,
        "k" | "K" | "kib" | "KiB" => 1 << 10,
        "m" | "M" | "mib" | "MiB" => 1 << 20,
        "g" | "G" | "gib" | "GiB" => 1 << 30,
        "t" | "T" | "tib" | "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    };
    let thousandths = read_thousandths(number)?;
    let bytes = u128::from(thousandths) * u128::from(factor) / 1000;
    u64::try_from(bytes).ok()
}

/// A decimal number with at most three places, in thousandths.
fn read_thousandths(text: &str) -> Option<u64> {
    let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
    let plain = |digits: &str, most: usize| {
        (1..=most).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !plain(whole, 15) || !plain(places, 3) {
        return None;
    }
    format!("{whole}{places:0<3}").parse().ok()
}

/// Reads a number of processors, 0.01 to 1024, in thousand-millionths.
pub fn cpus(text: &str) -> Result<u64, QuantityError> {
    read_thousandths(text)
        .filter(|thousandths| (10..=1_024_000).contains(thousandths))
        .map(|thousandths| thousandths * 1_000_000)
        .ok_or_else(|| QuantityError {
            text: text.to_owned(),
            what: "a number of processors from 0.01 to 1024".to_owned(),
            example: "1 or 0.5",
        })
}

/// Reads a wall-clock limit, 100 ms to 7 days, as the configuration writes it.
pub fn timeout(text: &str) -> Result<Duration, QuantityError> {
    config::duration(text, &config::RUN_TIMES).map_err(|_| QuantityError {
        text: text.to_owned(),
        what: "a time from 100ms to 7d".to_owned(),
        example: "30s, 1m30s or 5m",
    })
}

struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (factor, unit) in [
            (1 << 40, "TiB"),
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
        ] {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return write!(f, "{} {unit}", self.0 / factor);
            }
        }
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_as_dockers_and_decimal_with_a_capital_b() {
        for (text, expected) in [
            ("512m", 512 << 20),
            ("512M", 512 << 20),
            ("1.5g", 3 << 29),
            ("6291456", 6 << 20),
            ("6291456b", 6 << 20),
            ("50MB", 50_000_000),
            ("10000kB", 10_000_000),
            ("64MiB", 64 << 20),
            ("1t", 1 << 40),
        ] {
            assert_eq!(Quantity::Memory.parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn no_spelling_means_unlimited() {
        for text in [
            "",
            "0",
            "-1",
            "-1m",
            "+5m",
            "m",
            "1x",
            "1 g",
            " 1g",
            "1e9",
            "inf",
            "unlimited",
            "max",
            "5m",
            "2t",
            "99999999999999999999",
            "1..5g",
            ".5g",
            "1.g",
            "0x10m",
            "1gb",
            "１g",
        ] {
            let error = Quantity::Memory.parse(text).unwrap_err().to_string();
            assert!(error.contains("a size from 6 MiB to 1 TiB"), "{error}");
        }
        for text in ["0", "0.001", "-1", "", "1025", "1,5", "nan", "one"] {
            assert!(cpus(text).is_err(), "{text}");
        }
        for text in [
            "0", "0s", "-5s", "30", "8d", "", "1e3s", "forever", "99ms", "1m 30s", "PT30S",
        ] {
            assert!(timeout(text).is_err(), "{text}");
        }
        assert_eq!(cpus("0.5"), Ok(500_000_000));
        assert_eq!(timeout("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(Quantity::Kept.parse("0"), Ok(0));
    }
}

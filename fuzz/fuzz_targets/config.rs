//! A configuration is taken whole, or refused with at least one problem that says where.

#![no_main]

use eclusa::config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(problems) = Config::parse(text) {
        assert!(!problems.0.is_empty());
        assert!(problems.0.iter().all(|problem| !problem.message.is_empty()));
        // What is missing at the end is missing on the line after the last newline.
        let lines = text.lines().count() + 1;
        let lies_within = |line: Option<usize>| line.is_none_or(|line| (1..=lines).contains(&line));
        assert!(problems.0.iter().all(|problem| lies_within(problem.line)));
    }
});

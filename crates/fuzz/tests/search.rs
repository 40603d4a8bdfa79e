//! Tests a short search, and that the search finds known faults.

use std::process::{Command, Output};

/// Runs the search. Returns the output of the process, and its standard output as text.
fn search(arguments: &[&str]) -> (Output, String) {
    let program = env!("CARGO_BIN_EXE_fuzz");
    let output = Command::new(program).arg("search").args(arguments).output();
    let output = output.unwrap();
    let reported = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, reported)
}

/// `VMNOISE_FUZZ_SECONDS` sets the time. The tier `fuzz` of `make test` sets a minute.
#[test]
fn every_target_holds_for_a_while() {
    let seconds = std::env::var("VMNOISE_FUZZ_SECONDS").unwrap_or("5".to_owned());
    let (output, reported) = search(&["--seconds", &seconds]);
    println!("{reported}");
    assert!(output.status.success(), "{reported}{output:?}");
    for target in vmnoise_fuzz::TARGETS {
        let line = reported
            .lines()
            .find(|line| line.starts_with(&format!("{} ", target.name)));
        let tried = line
            .and_then(|line| line.split_whitespace().nth(1))
            .unwrap();
        assert_ne!(tried, "0", "nothing was tried: {reported}");
    }
}

#[test]
fn what_breaks_a_property_is_found_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().to_str().unwrap();
    let (output, reported) = search(&[
        "broken",
        "--seconds",
        "5",
        "--seed",
        "7",
        "--corpus",
        corpus,
    ]);
    assert!(!output.status.success(), "{reported}");
    assert!(reported.contains("FOUND broken"), "{reported}");
    assert!(reported.contains("as it is meant to"), "{reported}");
    assert!(
        reported.contains("signal: 6"),
        "memory has an end: {reported}"
    );
    let kept: Vec<_> = std::fs::read_dir(folder.path().join("broken"))
        .unwrap()
        .collect();
    assert_eq!(kept.len(), 2, "each place once: {reported}");
    for file in kept {
        let path = file.unwrap().path();
        assert!(reported.contains(path.to_str().unwrap()), "{reported}");
        let first = std::fs::read(path).unwrap()[0];
        assert!(first < 64, "{first} breaks nothing");
    }
}

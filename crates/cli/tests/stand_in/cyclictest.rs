//! Runs command lines from scripts with cyclictest itself and with a link of that name: the same
//! readers must parse both outputs, and both must have the same shape.

mod root {
    use std::fs;
    use std::path::Path;
    use std::process::Output;

    use serde_json::Value;

    use crate::stand_in::readers::{histogram, tasks, values};
    use crate::stand_in::{linked, run};

    /// Runs both programs, cyclictest first; returns their outputs and their files, which each
    /// writes to a folder of its own.
    fn both<const N: usize>(words: &[&str], files: [&str; N]) -> [(Output, [String; N]); 2] {
        let ask = |program: &str| {
            let folder = linked("cyclictest");
            let output = run(&folder, Path::new(program).to_owned(), words);
            let read = |name| fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(output.status.success(), "{program} {words:?}: {output:?}");
            (output, files.map(read))
        };
        // A name without a folder is looked up in PATH, which has cyclictest itself.
        [ask("cyclictest"), ask("./cyclictest")]
    }

    fn said(output: &Output) -> &str {
        str::from_utf8(&output.stdout).unwrap()
    }

    /// Returns the lines with digits and blanks masked.
    fn shape(text: &str) -> Vec<String> {
        let line = |line: &str| {
            let digits = |char: char| if char.is_ascii_digit() { '0' } else { char };
            let mut line: Vec<char> = line.chars().map(digits).collect();
            line.dedup_by(|one, other| one == other && (*one == '0' || *one == ' '));
            line.into_iter().collect::<String>().replace(": ", ":")
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn scripts_for_lava_find_each_task() {
        for (words, priority) in [
            (&["-q", "-l50"][..], 0),
            (
                &[
                    "-q", "-p", "98", "-i", "500", "-t", "1", "-a", "0", "-l", "50", "-m",
                ],
                98,
            ),
            (&["-q", "-S", "-p80", "-l50", "-d0"], 80),
            (
                &[
                    "--quiet",
                    "--priority=7",
                    "--policy=rr",
                    "--loops=50",
                    "-u",
                    "-M",
                ],
                7,
            ),
            (&["-l50", "-q", "-N", "--laptop"], 0),
        ] {
            let [(theirs, _), (ours, _)] = both(words, []);
            let [theirs, ours] = [&theirs, &ours].map(said);
            assert_eq!(shape(ours), shape(theirs), "{words:?}\n{theirs}\n{ours}");
            let [theirs, ours] = [theirs, ours].map(tasks);
            assert_eq!(ours.len(), theirs.len(), "{words:?}");
            for (theirs, ours) in theirs.iter().zip(&ours) {
                assert_eq!(ours.priority, priority, "{words:?}");
                assert_eq!(ours.interval_us, theirs.interval_us, "{words:?}");
                assert!(ours.min <= ours.avg && ours.avg <= ours.max, "{ours:?}");
            }
            let most = ours.iter().map(|task| task.cycles).max();
            assert_eq!(most, Some(50), "{words:?}");
        }
    }

    #[test]
    fn rteval_and_the_tests_of_cnf_read_the_histogram() {
        for words in [
            &["-i1000", "-qmu", "-h 3500", "-p95", "-t1", "-a0", "-l60"][..],
            &[
                "-l",
                "60",
                "-p",
                "1",
                "-t",
                "1",
                "-a",
                "0",
                "-h",
                "30",
                "-i",
                "1000",
                "-m",
                "-q",
                "--mainaffinity",
                "0",
            ],
            &["-q", "-S", "-p5", "-l60", "-H", "200", "-d0"],
        ] {
            let [theirs, ours] = both(words, []).map(|(output, _)| output);
            let [theirs, ours] = [&theirs, &ours].map(|output| histogram(said(output)));
            let [theirs_rows, our_rows] = [&theirs, &ours].map(|it| it.buckets.len());
            assert_eq!(our_rows, theirs_rows, "{words:?}");
            let columns = theirs.buckets[&0].len();
            assert!(ours.buckets.values().all(|row| row.len() == columns));
            assert_eq!(ours.max.len(), theirs.max.len(), "{words:?}");
            assert_eq!(ours.overflows.len(), theirs.overflows.len(), "{words:?}");
            // Each wake-up is in a bucket, or beyond the last one.
            let first: u64 = ours.buckets.values().map(|row| row[0]).sum();
            let all = first + ours.overflows[0];
            assert!((1..=60).contains(&all), "{words:?}: {ours:?}");
            let top = ours.buckets.iter().rev().find(|(_, row)| row[0] > 0);
            if let Some((bucket, _)) = top
                && ours.overflows[0] == 0
            {
                assert_eq!(*bucket, ours.max[0], "{words:?}");
            }
        }
    }

    #[test]
    fn a_break_says_who_and_how_late() {
        let words = [
            "-q",
            "-m",
            "-h",
            "50",
            "-p95",
            "-t1",
            "-a0",
            "-b1",
            "--tracemark",
            "-D",
            "5",
        ];
        for (output, _) in both(&words, []) {
            let said = said(&output);
            let broke = histogram(said).broke;
            assert!(broke.is_some_and(|us| us >= 1), "{said}");
            let named = |name: &str| {
                let line = said.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_else(|| panic!("{name} in {said}")).trim()
            };
            // cyclictest prints one of them with leading zeros and the other without.
            let number = |name| named(name).parse::<u32>().unwrap();
            assert_eq!(number("# Thread Ids:"), number("# Break thread:"));
        }
    }

    #[test]
    fn each_value_is_a_line() {
        let [theirs, ours] = both(&["-v", "-l20"], []).map(|(output, _)| output);
        let [theirs, ours] = [&theirs, &ours].map(|output| values(said(output)));
        let numbers = |values: &[[u64; 3]]| -> Vec<[u64; 2]> {
            values
                .iter()
                .map(|[task, number, _]| [*task, *number])
                .collect()
        };
        let expected: Vec<[u64; 2]> = (0..20).map(|number| [0, number]).collect();
        assert_eq!(numbers(&ours), expected);
        // cyclictest may lose its last one or two values at its end.
        assert!(expected.starts_with(&numbers(&theirs)), "{theirs:?}");
    }

    #[test]
    fn files_hold_the_histogram_and_the_json() {
        let words = [
            "-q",
            "-l30",
            "-S",
            "-d0",
            "-h20",
            "--histfile=hist",
            "--json=run.json",
        ];
        let [(theirs, their_files), (ours, our_files)] = both(&words, ["hist", "run.json"]);
        assert_eq!(said(&ours), said(&theirs));
        let [theirs, ours] = [&their_files, &our_files].map(|[hist, _]| histogram(hist));
        assert_eq!(
            ours.buckets.keys().collect::<Vec<_>>(),
            theirs.buckets.keys().collect::<Vec<_>>()
        );
        let [theirs, ours] = [&their_files, &our_files];
        let [theirs, ours] = [theirs, ours].map(|[_, json]| serde_json::from_str(json).unwrap());
        let [theirs, ours]: [Value; 2] = [theirs, ours];
        assert_eq!(ours["num_threads"], theirs["num_threads"]);
        assert_eq!(ours["return_code"], 0);
        assert_eq!(ours["resolution_in_ns"], theirs["resolution_in_ns"]);
        for (number, thread) in ours["thread"].as_object().unwrap() {
            assert!(theirs["thread"].get(number).is_some(), "{number}");
            let [min, avg, max] = ["min", "avg", "max"].map(|key| thread[key].as_f64().unwrap());
            assert!(min <= avg && avg <= max, "{thread}");
        }
    }
}

use super::{linked, run};

/// An option that is answered instead of measured, or left out with a message, changes no figure.
#[test]
fn what_is_not_measured_so_is_answered_in_a_line() {
    for option in [
        "-r",
        "-s",
        "-x",
        "--priospread",
        "-F/tmp/fifo",
        "-c1",
        "--policy=idle",
    ] {
        let folder = linked("cyclictest");
        let output = run(&folder, "./cyclictest".into(), &["-q", "-l1", option]);
        let said = str::from_utf8(&output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(129), "{option}: {said}");
        assert_eq!(said.lines().count(), 1, "{option}: {said}");
        assert!(output.stdout.is_empty(), "{option}");
    }
}

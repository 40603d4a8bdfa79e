//! Translates the command line of cyclictest (rt-tests 2.4) into options of `vmnoise timerlat`, if
//! the program is called as `cyclictest`.

use std::ffi::OsString;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use vmnoise_console::say;
use vmnoise_console::status::UsageError;
use vmnoise_host::{Host, cpu_list};
use vmnoise_render::timerlat::cyclictest::CyclictestWords;

use super::TimerlatTopArguments;

/// Command line of cyclictest, as options of `vmnoise timerlat`.
#[derive(Debug)]
pub struct CyclictestArguments {
    /// Options of the run.
    pub top: TimerlatTopArguments,
    /// Options of the output that only cyclictest has.
    pub words: CyclictestWords,
}

/// Number of values of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    One,
    /// The value is optional.
    Maybe,
}

/// Effect of an option in vmnoise.
#[derive(Debug, Clone, Copy)]
enum Meaning {
    /// Translated into options of timerlat.
    Asked,
    /// Always on.
    Always,
    /// Ignored, for this reason. The figures do not change.
    LeftOut(&'static str),
    /// Refused, for this reason: vmnoise cannot measure in this way.
    Refused(&'static str),
}

use Meaning::{Always, Asked, LeftOut, Refused};
use Value::{Maybe, One};

const ABSOLUTE: &str = "the tasks of vmnoise sleep only by clock_nanosleep until an absolute time";

/// Options of cyclictest: letter (empty if none), name, value, meaning and help.
const OPTIONS: [(&str, &str, Value, Meaning, &str); 38] = [
    (
        "a",
        "affinity",
        Maybe,
        Asked,
        "Run one task on each of these CPUs [default: all]",
    ),
    (
        "A",
        "aligned",
        One,
        Asked,
        "Wake tasks this many us apart, CPU by CPU",
    ),
    (
        "b",
        "breaktrace",
        One,
        Asked,
        "Stop when a latency reaches this many us, and say what caused it",
    ),
    (
        "c",
        "clock",
        One,
        Asked,
        "Use this clock; only 0 (CLOCK_MONOTONIC) is supported",
    ),
    (
        "",
        "default-system",
        Value::None,
        Asked,
        "Leave /dev/cpu_dma_latency alone",
    ),
    (
        "d",
        "distance",
        One,
        LeftOut("all tasks have the interval of the first (-d 0)"),
        "Ignored: all tasks have one interval",
    ),
    (
        "D",
        "duration",
        One,
        Asked,
        "Measure for this time: seconds, or a number with m, h or d",
    ),
    (
        "F",
        "fifo",
        One,
        Refused(
            "vmnoise writes no FIFO; `vmnoise timerlat` shows latencies live, and -o records them",
        ),
        "Refused",
    ),
    (
        "h",
        "histogram",
        One,
        Asked,
        "Print a histogram up to this many us",
    ),
    (
        "H",
        "histofall",
        One,
        Asked,
        "Like -h, with a column for all tasks together",
    ),
    (
        "",
        "histfile",
        One,
        Asked,
        "Write the histogram to this file instead",
    ),
    (
        "i",
        "interval",
        One,
        Asked,
        "Wake each task at this interval in us [default: 1000]",
    ),
    (
        "",
        "json",
        One,
        Asked,
        "Write the result to this file as JSON",
    ),
    (
        "",
        "laptop",
        Value::None,
        Asked,
        "Leave /dev/cpu_dma_latency alone",
    ),
    (
        "",
        "latency",
        One,
        Asked,
        "Hold /dev/cpu_dma_latency at this value in us [default: 0]",
    ),
    (
        "l",
        "loops",
        One,
        Asked,
        "End after this many wake-ups of a task [default: never]",
    ),
    (
        "",
        "mainaffinity",
        One,
        Asked,
        "Run the tool's own threads on these CPUs",
    ),
    ("m", "mlockall", Value::None, Always, "Always on"),
    (
        "M",
        "refresh_on_max",
        Value::None,
        Always,
        "Always on: nothing is drawn before the end",
    ),
    ("n", "nanosleep", Value::None, Always, "Always on"),
    ("N", "nsecs", Value::None, Asked, "Print nanoseconds"),
    (
        "o",
        "oscope",
        One,
        LeftOut("-v prints each value"),
        "Ignored",
    ),
    (
        "p",
        "priority",
        One,
        Asked,
        "Set the priority of the tasks [default: 0]",
    ),
    (
        "",
        "policy",
        One,
        Asked,
        "Set the policy: other, normal, fifo or rr",
    ),
    (
        "",
        "priospread",
        Value::None,
        Refused("all tasks of vmnoise have one priority"),
        "Refused",
    ),
    ("q", "quiet", Value::None, Asked, "Print only the result"),
    ("r", "relative", Value::None, Refused(ABSOLUTE), "Refused"),
    (
        "R",
        "resolution",
        Value::None,
        LeftOut("`vmnoise doctor` shows the clocks"),
        "Ignored",
    ),
    (
        "",
        "secaligned",
        Maybe,
        Refused("vmnoise does not wait for a full second; -A aligns tasks with each other"),
        "Refused",
    ),
    ("s", "system", Value::None, Refused(ABSOLUTE), "Refused"),
    ("S", "smp", Value::None, Asked, "Run one task on each CPU"),
    (
        "",
        "spike",
        One,
        Refused("vmnoise lists no spikes; `vmnoise timerlat trace` prints every wake-up"),
        "Refused",
    ),
    (
        "",
        "smi",
        Value::None,
        LeftOut("`vmnoise timerlat` counts SMIs if the CPU has a counter"),
        "Ignored",
    ),
    (
        "t",
        "threads",
        Maybe,
        Asked,
        "Run this many tasks, each on its own CPU [default: 1]",
    ),
    (
        "",
        "tracemark",
        Value::None,
        LeftOut("vmnoise writes no ftrace marks; its result names the cause of the latency"),
        "Ignored",
    ),
    ("u", "unbuffered", Value::None, Always, "Always on"),
    (
        "v",
        "verbose",
        Value::None,
        Asked,
        "Print each value: task, wake-up, us",
    ),
    (
        "x",
        "posix_timers",
        Value::None,
        Refused(ABSOLUTE),
        "Refused",
    ),
];

const AFTER: &str = "\
This is vmnoise, called as cyclictest. `vmnoise timerlat` also says why a task was late.";

/// Parses a command line of cyclictest, whose first word is the program's name.
///
/// # Errors
/// The error of clap, or a [`UsageError`] that says in one line what vmnoise cannot measure.
pub fn parse(line: Vec<OsString>) -> Result<CyclictestArguments> {
    // Scripts pass empty words, which getopt(3) does not take as options.
    let line = line.into_iter().filter(|word| !word.is_empty());
    let matches = command().try_get_matches_from(line)?;
    let asked = OPTIONS
        .iter()
        .filter(|(_, name, ..)| is_set(&matches, name));
    for (letter, name, _, meaning, _) in asked {
        let option = match *letter {
            "" => format!("--{name}"),
            letter => format!("-{letter}/--{name}"),
        };
        match meaning {
            Asked | Always => {}
            LeftOut(_) if *name == "distance" && text(&matches, name) == Some("0") => {}
            LeftOut(why) => say::say(format_args!("{option} is ignored: {why}")),
            Refused(why) => return Err(UsageError(format!("{option}: {why}")).into()),
        }
    }
    let ours = in_our_words(&matches, &Host::here().allowed_cpus()?)?;
    let words = CyclictestWords {
        quiet: matches.get_flag("quiet"),
        verbose: matches.get_flag("verbose"),
        sums: is_set(&matches, "histofall"),
    };
    let timerlat = TimerlatTopArguments::augment_args(Command::new("cyclictest"));
    let matches = timerlat.try_get_matches_from(ours)?;
    let top = TimerlatTopArguments::from_arg_matches(&matches)?;
    Ok(CyclictestArguments { top, words })
}

fn command() -> Command {
    let options = OPTIONS.iter().map(|(letter, name, value, _, help)| {
        let option = Arg::new(*name).long(*name).help(*help);
        let option = match letter.chars().next() {
            Some(letter) => option.short(letter),
            None => option,
        };
        match value {
            Value::None => option.action(ArgAction::SetTrue),
            One => option.num_args(1),
            Maybe => option.num_args(0..=1).default_missing_value(""),
        }
    });
    Command::new("cyclictest")
        .about("Measures how late periodic tasks wake up")
        .after_help(AFTER)
        .disable_help_flag(true)
        .arg(Arg::new("help").long("help").action(ArgAction::Help))
        // Like getopt_long(3): a repeated option replaces the earlier one, and names may be
        // shortened.
        .args_override_self(true)
        .infer_long_args(true)
        .args(options)
}

fn is_set(matches: &ArgMatches, name: &str) -> bool {
    use clap::parser::ValueSource::CommandLine;
    matches.value_source(name) == Some(CommandLine)
}

/// Returns the value of an option without surrounding blanks, which atoi(3) skips too.
fn text<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a str> {
    Some(matches.get_one::<String>(name)?.trim())
}

fn number(matches: &ArgMatches, name: &str) -> Result<Option<u64>, UsageError> {
    let Some(text) = text(matches, name).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(UsageError(format!("--{name}: `{text}` is no number"))),
    }
}

/// Translates the options of a run into options of `vmnoise timerlat top`.
fn in_our_words(matches: &ArgMatches, allowed: &[u32]) -> Result<Vec<String>, UsageError> {
    let mut ours = vec!["cyclictest".to_owned(), "--format=cyclictest".to_owned()];
    let mut ask = |option: &str, value: String| ours.push(format!("--{option}={value}"));
    let cpus = cpus(matches, allowed)?;
    ask("cpus", cpu_list::format(&cpus));
    ask("priority", policy(matches, cpus.len())?);
    let interval_us = number(matches, "interval")?.unwrap_or(1_000);
    ask("period", format!("{interval_us}us"));
    if number(matches, "clock")?.is_some_and(|clock| clock != 0) {
        let why = "-c/--clock: vmnoise measures by CLOCK_MONOTONIC; leave out -c, or use -c 0";
        return Err(UsageError(why.into()));
    }
    if matches.get_flag("default-system") || matches.get_flag("laptop") {
        ask("dma-latency", "off".into());
    } else if let Some(us) = number(matches, "latency")? {
        ask("dma-latency", format!("{us}us"));
    }
    if let Some(time) = text(matches, "duration").filter(|time| *time != "0") {
        ask("duration", time.to_owned());
    }
    if let Some(loops) = number(matches, "loops")?.filter(|loops| *loops > 0) {
        ask("loops", loops.to_string());
    }
    for name in ["histofall", "histogram"] {
        if let Some(buckets) = number(matches, name)? {
            ask("histogram", buckets.to_string());
            break;
        }
    }
    for (theirs, its_name) in [
        ("histfile", "histfile"),
        ("json", "json"),
        ("mainaffinity", "house-keeping"),
    ] {
        if let Some(value) = text(matches, theirs) {
            ask(its_name, value.to_owned());
        }
    }
    if let Some(us) = number(matches, "aligned")? {
        ask("aligned", format!("{us}us"));
    }
    match number(matches, "breaktrace")?.filter(|us| *us > 0) {
        // With -b, vmnoise reports the cause of the latency. This needs probes, so tracing stays
        // on.
        Some(us) => ask("thread", format!("{us}us")),
        None => ours.push("--no-trace".into()),
    }
    if matches.get_flag("nsecs") {
        ours.push("--nano".into());
    }
    Ok(ours)
}

/// Returns the CPU of each task: the first CPUs named by `--affinity`, or else the first allowed
/// CPUs. Each task has its own CPU.
fn cpus(matches: &ArgMatches, allowed: &[u32]) -> Result<Vec<u32>, UsageError> {
    let is_smp = matches.get_flag("smp");
    let named = text(matches, "affinity").filter(|list| !list.is_empty() && !is_smp);
    let mut cpus = match named {
        Some(list) => cpu_list::parse(list).map_err(|error| UsageError(error.to_string()))?,
        None => allowed.to_vec(),
    };
    let tasks = match number(matches, "threads")? {
        _ if is_smp => cpus.len(),
        Some(tasks) => usize::try_from(tasks).unwrap_or(usize::MAX),
        None if is_set(matches, "threads") => cpus.len(),
        None => 1,
    };
    if tasks == 0 || tasks > cpus.len() {
        return Err(UsageError(format!(
            "-t/--threads: {tasks} tasks do not fit: vmnoise runs one on each CPU, and CPUs {} may be used",
            cpu_list::format(&cpus)
        )));
    }
    cpus.truncate(tasks);
    Ok(cpus)
}

/// Returns the scheduling policy in the format of `--priority`, for a run with this number of
/// tasks.
fn policy(matches: &ArgMatches, tasks: usize) -> Result<String, UsageError> {
    let priority = number(matches, "priority")?.unwrap_or(0);
    let letter = match text(matches, "policy") {
        None | Some("fifo") => 'f',
        Some("rr") => 'r',
        Some("other" | "normal") if priority == 0 => 'o',
        // As in cyclictest, a priority implies a real-time policy.
        Some("other" | "normal") => 'f',
        Some(name) => {
            return Err(UsageError(format!(
                "--policy: vmnoise has no policy `{name}`; use other, fifo or rr"
            )));
        }
    };
    Ok(match (letter, priority, is_set(matches, "policy")) {
        ('o', ..) | ('f', 0, false) => "o:0".into(),
        // As in cyclictest, which prints "defaulting realtime priority to 3" for two tasks.
        (letter, 0, true) => format!("{letter}:{}", tasks + 1),
        (letter, priority, _) => format!("{letter}:{priority}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(line: &str) -> Result<String> {
        let words = line.split('|').map(OsString::from);
        let words = ["cyclictest".into()].into_iter().chain(words);
        let matches = command().try_get_matches_from(words.filter(|word| !word.is_empty()))?;
        Ok(in_our_words(&matches, &[0, 1, 2, 3])?[2..].join(" "))
    }

    #[test]
    fn the_table_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_same_run_is_asked_for_in_our_words() {
        for (theirs, expected) in [
            ("", "--cpus=0 --priority=o:0 --period=1000us --no-trace"),
            // From rteval: one word contains a blank, and one is empty.
            (
                "-i100|-qmu|-h 3500|-p95|-t2|-a0-1||-b50|--tracemark",
                "--cpus=0-1 --priority=f:95 --period=100us --histogram=3500 --thread=50us",
            ),
            (
                "-q|-p|98|-i|1000|-t|1|-a|0|-D|1m|-m",
                "--cpus=0 --priority=f:98 --period=1000us --duration=1m --no-trace",
            ),
            (
                "-D|10s|-p|1|-t|3|-a|1-3|-h|30|-i|1000|-m|-q|--mainaffinity|0",
                "--cpus=1-3 --priority=f:1 --period=1000us --duration=10s --histogram=30 --house-keeping=0 --no-trace",
            ),
            (
                "-S|-p99|-l1000|-H400|-N|--policy=rr",
                "--cpus=0-3 --priority=r:99 --period=1000us --loops=1000 --histogram=400 --no-trace --nano",
            ),
            (
                "--histog=20|--histfile=x y|--json|r.json|--laptop|-t|-a|-D0",
                "--cpus=0-3 --priority=o:0 --period=1000us --dma-latency=off --histogram=20 --histfile=x y --json=r.json --no-trace",
            ),
            (
                "--policy=rr",
                "--cpus=0 --priority=r:2 --period=1000us --no-trace",
            ),
            (
                "--latency=20|-t4|-t2|--policy=fifo",
                "--cpus=0-1 --priority=f:3 --period=1000us --dma-latency=20us --no-trace",
            ),
        ] {
            assert_eq!(ours(theirs).unwrap(), expected, "{theirs}");
        }
    }

    #[test]
    fn what_cannot_be_measured_so_is_answered() {
        for (line, word) in [
            ("-t5", "5 tasks do not fit"),
            ("-t3|-a|0,2", "0,2 may be used"),
            ("-c1", "CLOCK_MONOTONIC"),
            ("--policy=batch", "batch"),
            ("-ix", "no number"),
            ("-a|x", "CPU"),
        ] {
            let error = ours(line).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains('\n'), "{error}");
        }
        for line in ["--relative", "-s", "-x", "-F|/tmp/fifo", "--priospread"] {
            let words = ["cyclictest"].into_iter().chain(line.split('|'));
            let error = parse(words.map(OsString::from).collect()).unwrap_err();
            assert!(error.is::<UsageError>(), "{line}");
        }
    }
}

//! Checks the options that command lines from rtla's own unit tests set in vmnoise. These tests are
//! in tools/tracing/rtla/tests/unit of Linux.

use clap::Parser;
use vmnoise_engine::reaction::action::Action;
use vmnoise_events::Policy;
use vmnoise_render::timerlat::at_stop::StackFormat;

use super::{Arguments, Command, OsnoiseArguments, OsnoiseMode, TimerlatArguments, TimerlatMode};
use crate::args::timerlat::DmaLatencyLimit;

fn parsed(line: &str) -> Command {
    let words = ["rtla"].into_iter().chain(line.split_whitespace());
    match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments.command,
        Err(error) => panic!("{line}: {error}"),
    }
}

fn timerlat(line: &str, check: impl Fn(&super::TimerlatCommon) -> bool) {
    for mode in ["top", "hist"] {
        let line = format!("timerlat {mode} {line}");
        let Command::Timerlat(arguments) = parsed(&line) else {
            panic!("{line}");
        };
        let TimerlatArguments { mode, .. } = &*arguments;
        let common = match mode {
            Some(TimerlatMode::Top(top)) => &top.common,
            Some(TimerlatMode::Hist(hist)) => &hist.common,
            _ => panic!("{line}"),
        };
        assert!(check(common), "{line}: {common:?}");
    }
}

fn osnoise(line: &str, check: impl Fn(&super::OsnoiseCommon) -> bool) {
    for mode in ["top", "hist"] {
        let line = format!("osnoise {mode} {line}");
        let Command::Osnoise(arguments) = parsed(&line) else {
            panic!("{line}");
        };
        let OsnoiseArguments { mode, .. } = &*arguments;
        let common = match mode {
            Some(OsnoiseMode::Top(top)) => &top.common,
            Some(OsnoiseMode::Hist(hist)) => &hist.common,
            _ => panic!("{line}"),
        };
        assert!(check(common), "{line}: {common:?}");
    }
}

/// Runs `check` for each way to write an option with an optional value.
fn each_way(short: &str, long: &str, value: &str, check: impl Fn(&str)) {
    check(&format!("{short} {value}"));
    check(&format!("{short}={value}"));
    check(&format!("{long} {value}"));
    check(&format!("{long}={value}"));
}

#[test]
fn both_tools_take_what_they_share() {
    for line in ["-d 1m", "--duration 1m"] {
        timerlat(line, |it| it.shared.duration == Some(60_000_000_000));
        osnoise(line, |it| it.shared.duration == Some(60_000_000_000));
    }
    for line in ["-c 0-1,3", "--cpus 0-1,3"] {
        timerlat(line, |it| it.shared.cpus.as_deref() == Some("0-1,3"));
        osnoise(line, |it| it.shared.cpus.as_deref() == Some("0-1,3"));
    }
    for line in ["-H 0-1,3", "--house-keeping 0-1,3"] {
        timerlat(line, |it| {
            it.shared.house_keeping.as_deref() == Some("0-1,3")
        });
        osnoise(line, |it| {
            it.shared.house_keeping.as_deref() == Some("0-1,3")
        });
    }
    for line in ["-C", "--cgroup"] {
        timerlat(line, |it| it.shared.cgroup == Some(None));
        osnoise(line, |it| it.shared.cgroup == Some(None));
    }
    each_way("-C", "--cgroup", "mine", |line| {
        let mine = Some(Some("mine".to_owned()));
        timerlat(line, |it| it.shared.cgroup == mine);
        osnoise(line, |it| it.shared.cgroup == mine);
    });
    for line in ["-P f:95", "--priority f:95", "-P F:95"] {
        timerlat(line, |it| it.priority == Policy::Fifo(95));
        osnoise(line, |it| it.priority == Some(Policy::Fifo(95)));
    }
    timerlat("--warm-up 5", |it| it.shared.warm_up == 5_000_000_000);
    osnoise("--warm-up 5", |it| it.shared.warm_up == 5_000_000_000);
    let trace = [Action::Trace(None)];
    timerlat("--on-end trace", |it| it.shared.on_end == trace);
    timerlat("--on-threshold trace", |it| it.shared.on_threshold == trace);
    osnoise("--on-end trace", |it| it.shared.on_end == trace);
    osnoise("--on-threshold trace", |it| it.shared.on_threshold == trace);
    for line in ["-D", "--debug"] {
        timerlat(line, |it| it.shared.unsupported.refuse().is_ok());
        osnoise(line, |it| it.shared.unsupported.refuse().is_ok());
    }
}

#[test]
fn a_trace_has_a_name_or_none_and_takes_no_option_for_one() {
    let file = |name: &str| Some(std::path::PathBuf::from(name));
    for line in ["-t", "--trace"] {
        timerlat(line, |it| it.trace == file("timerlat_trace.txt"));
        osnoise(line, |it| it.trace == file("osnoise_trace.txt"));
        let followed = format!("{line} -d 20");
        let lasts = Some(20_000_000_000);
        timerlat(&followed, |it| {
            it.trace == file("timerlat_trace.txt") && it.shared.duration == lasts
        });
        osnoise(&followed, |it| {
            it.trace == file("osnoise_trace.txt") && it.shared.duration == lasts
        });
    }
    each_way("-t", "--trace", "tracefile", |line| {
        timerlat(line, |it| it.trace == file("tracefile"));
        osnoise(line, |it| it.trace == file("tracefile"));
    });
}

#[test]
fn timerlat_takes_its_own() {
    for line in ["-i 20", "--irq 20"] {
        timerlat(line, |it| it.irq == Some(20_000));
    }
    for line in ["-p 200", "--period 200"] {
        timerlat(line, |it| it.period == 200_000);
        timerlat(&format!("{line} --no-period"), |it| it.period == 1_000_000);
    }
    for line in ["-s 20", "--stack 20"] {
        timerlat(line, |it| it.stack == Some(20_000));
    }
    for line in ["-T 20", "--thread 20"] {
        timerlat(line, |it| it.thread == Some(20_000));
    }
    for line in ["-A 500", "--aligned 500"] {
        timerlat(line, |it| it.aligned == Some(500_000));
    }
    for line in ["-n", "--nano"] {
        timerlat(line, |it| it.nano);
    }
    for line in ["-u", "--user-threads"] {
        timerlat(line, |it| it.user_threads);
    }
    timerlat("-a 20", |it| it.auto == Some(20_000));
    timerlat("--deepest-idle-state 1", |it| {
        it.deepest_idle_state == Some(1)
    });
    timerlat("--dma-latency 10", |it| {
        it.dma_latency == DmaLatencyLimit::Us(10)
    });
    timerlat("--dump-tasks", |it| it.dump_tasks);
    timerlat("--no-aa", |it| it.no_aa);
    timerlat("--stack-format truncate", |it| {
        it.stack_format == StackFormat::Truncate
    });
    for line in ["top -q", "top --quiet", "top --aa-only 20"] {
        parsed(&format!("timerlat {line}"));
    }
    for line in [
        "-b 2",
        "--bucket-size 2",
        "-E 512",
        "--entries 512",
        "--no-header",
        "--with-zeros --no-index",
        "--no-irq",
        "--no-summary",
        "--no-thread",
        "--with-zeros",
    ] {
        parsed(&format!("timerlat hist {line}"));
    }
}

#[test]
fn osnoise_takes_its_own() {
    for line in ["-p 100000", "--period 100000"] {
        osnoise(line, |it| it.period == 100_000_000);
        osnoise(&format!("{line} --no-period"), |it| {
            it.period == 1_000_000_000
        });
    }
    for line in ["-r 95000", "--runtime 95000"] {
        osnoise(line, |it| it.runtime == Some(95_000_000));
    }
    for line in ["-s 20", "--stop 20"] {
        osnoise(line, |it| it.stop == Some(20_000));
    }
    for line in ["-S 20", "--stop-total 20"] {
        osnoise(line, |it| it.stop_total == Some(20_000));
    }
    for line in ["-T 5", "--threshold 5"] {
        osnoise(line, |it| it.threshold == 5_000);
    }
    osnoise("-a 20", |it| it.auto == Some(20_000));
    for line in ["top -q", "top --quiet"] {
        parsed(&format!("osnoise {line}"));
    }
    for line in [
        "-b 2",
        "--bucket-size 2",
        "-E 512",
        "--entries 512",
        "--no-header",
        "--with-zeros --no-index",
        "--no-summary",
        "--with-zeros",
    ] {
        parsed(&format!("osnoise hist {line}"));
    }
}

/// The parser accepts these options. The command refuses them before it measures.
#[test]
fn what_only_the_kernels_tracer_can_do_is_answered() {
    for line in [
        "-e system:event",
        "--event system:event",
        "-e system:event --filter filter",
        "-e system:event --trigger trigger",
        "--trace-buffer-size 200",
    ] {
        timerlat(line, |it| it.shared.unsupported.refuse().is_err());
        osnoise(line, |it| it.shared.unsupported.refuse().is_err());
    }
    for line in [
        "-k",
        "--kernel-threads",
        "-U",
        "--user-load",
        "--bpf-action program",
    ] {
        timerlat(line, |it| it.unsupported.refuse().is_err());
    }
}

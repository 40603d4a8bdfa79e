//! Evidence of a stop as text, in rtla's format.

use clap::ValueEnum;
use vmnoise_events::{Occupant, StackFrame};
use vmnoise_views::{AtStop, StopStack};

/// Format of a stack frame without a symbol, with rtla's names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum StackFormat {
    /// End the stack there
    #[default]
    Truncate,
    /// Leave the frame out
    Skip,
    /// Print its address
    Full,
}

/// Kernel function that wakes a task. In the list, the frames before this function belong to the
/// BPF program that kept the stack. The output begins with the frame after this function.
const WAKES: &str = "try_to_wake_up";

/// Returns the stack in rtla's format; empty if the user asked for no stack.
pub fn stack(at_stop: &AtStop, format: StackFormat) -> String {
    let head = "    Blocking thread stack trace\n";
    let frames = match &at_stop.stack {
        None => return String::new(),
        Some(StopStack::Missing) => {
            let why = "(no stack: this wake-up was not traced, or its stack is overwritten)";
            return format!("{head}\t\t{why}\n");
        }
        Some(StopStack::Frames(frames)) => frames,
    };
    let mut out = String::from(head);
    let is_ours = |frame: &StackFrame| frame.function.as_deref() == Some(WAKES);
    let first = frames.iter().position(is_ours).map_or(0, |at| at + 1);
    for frame in &frames[first..] {
        match (&frame.function, format) {
            (Some(function), _) => out += &format!("\t\t-> {function}\n"),
            (None, StackFormat::Truncate) => break,
            (None, StackFormat::Skip) => {}
            (None, StackFormat::Full) => out += &format!("\t\t-> {:#x}\n", frame.address),
        }
    }
    out
}

/// Returns the task on each CPU in rtla's format; empty if the user asked for no tasks.
pub fn tasks(at_stop: &AtStop) -> String {
    let Some(occupants) = &at_stop.occupants else {
        return String::new();
    };
    let mut out = String::from("\nPrinting CPU tasks:\n");
    for (cpu, occupant) in occupants.iter().enumerate() {
        out += &match occupant {
            Some(Occupant { comm, tid }) => format!("    [{cpu:03}] {comm:>24}:{tid}\n"),
            None => format!("    [{cpu:03}] {:>24}:-\n", "-"),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(address: u64, function: &str) -> StackFrame {
        StackFrame {
            address,
            function: Some(function.to_owned()).filter(|name| !name.is_empty()),
        }
    }

    fn at_stop() -> AtStop {
        AtStop {
            wakeup: (0, 0),
            stack: Some(StopStack::Frames(vec![
                frame(1, "bpf_trace_run1"),
                frame(2, "try_to_wake_up"),
                frame(3, "hrtimer_wakeup"),
                frame(0x44, ""),
                frame(5, "do_syscall_64"),
            ])),
            occupants: Some(vec![
                Some(Occupant {
                    comm: "stress".into(),
                    tid: 7,
                }),
                None,
            ]),
        }
    }

    #[test]
    fn a_frame_without_a_name_is_told_as_asked() {
        let head = "    Blocking thread stack trace\n\t\t-> hrtimer_wakeup\n";
        for (format, rest) in [
            (StackFormat::Truncate, ""),
            (StackFormat::Skip, "\t\t-> do_syscall_64\n"),
            (StackFormat::Full, "\t\t-> 0x44\n\t\t-> do_syscall_64\n"),
        ] {
            assert_eq!(stack(&at_stop(), format), format!("{head}{rest}"));
        }
        let lost = AtStop {
            stack: Some(StopStack::Missing),
            ..at_stop()
        };
        assert!(stack(&lost, StackFormat::Full).contains("(no stack: "));
    }

    #[test]
    fn whoever_was_not_seen_is_not_named() {
        let expected = "\nPrinting CPU tasks:\n    [000]                   stress:7\n    [001]                        -:-\n";
        assert_eq!(tasks(&at_stop()), expected);
    }
}

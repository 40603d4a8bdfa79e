//! Evidence kept for the instant at which a limit stopped a run: the stack at the timer's
//! interrupt, and the task on each CPU. The evidence is kept only on request, and no recording
//! contains it.

use clap::ValueEnum;
use vmnoise_tracer::{Occupant, StackFrame, StopAsked, StopWitness};

/// Options for the evidence of a stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AskedAtStop {
    /// Least latency of a wake-up whose stack is kept, in nanoseconds; `None` keeps no stack.
    pub stack_from_ns: Option<u64>,
    /// Format of frames that have no symbol.
    pub format: StackFormat,
    /// Whether the task on each CPU is kept.
    pub tasks: bool,
}

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

/// Evidence of one stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtStop {
    /// Wake-up that was late: its due time (CLOCK_MONOTONIC, nanoseconds) and its CPU.
    pub wakeup: (u64, u32),
    asked: AskedAtStop,
    /// Stack, innermost frame first; `None` if it was not kept or was already overwritten.
    stack: Option<Vec<StackFrame>>,
    /// Task on each CPU, by CPU number; `None` if no switch was seen on this CPU.
    occupants: Vec<Option<Occupant>>,
}

impl AskedAtStop {
    /// Returns the evidence that the BPF programs must keep; `None` if the user asked for none.
    pub fn witness(&self) -> Option<StopAsked> {
        let asked = StopAsked {
            stacks: self.stack_from_ns.is_some(),
            turns: self.tasks,
        };
        (asked != StopAsked::default()).then_some(asked)
    }

    /// Returns the evidence for a wake-up of `cpu` that was due at `start_ns` (CLOCK_MONOTONIC) and
    /// came `late_ns` too late.
    pub fn of(self, witness: &StopWitness, cpu: u32, start_ns: u64, late_ns: u64) -> AtStop {
        let until_ns = start_ns.saturating_add(late_ns);
        let wants_stack = self.stack_from_ns.is_some_and(|from_ns| late_ns >= from_ns);
        AtStop {
            wakeup: (start_ns, cpu),
            stack: match wants_stack {
                true => witness.stack(cpu, start_ns, until_ns),
                false => None,
            },
            asked: AskedAtStop {
                stack_from_ns: self.stack_from_ns.filter(|_| wants_stack),
                ..self
            },
            occupants: match self.tasks {
                true => witness.occupants(until_ns),
                false => Vec::new(),
            },
        }
    }
}

/// Kernel function that wakes a task. In the list, the frames before this function belong to the
/// BPF program that kept the stack. The output begins with the frame after this function.
const WAKES: &str = "try_to_wake_up";

impl AtStop {
    /// Returns the stack in rtla's format; empty if the user asked for no stack.
    pub fn stack(&self) -> String {
        if self.asked.stack_from_ns.is_none() {
            return String::new();
        }
        let mut out = String::from("    Blocking thread stack trace\n");
        let Some(frames) = &self.stack else {
            return out
                + "\t\t(no stack: this wake-up was not traced, or its stack is overwritten)\n";
        };
        let is_ours = |frame: &StackFrame| frame.function.as_deref() == Some(WAKES);
        let first = frames.iter().position(is_ours).map_or(0, |at| at + 1);
        for frame in &frames[first..] {
            match (&frame.function, self.asked.format) {
                (Some(function), _) => out += &format!("\t\t-> {function}\n"),
                (None, StackFormat::Truncate) => break,
                (None, StackFormat::Skip) => {}
                (None, StackFormat::Full) => out += &format!("\t\t-> {:#x}\n", frame.address),
            }
        }
        out
    }

    /// Returns the task on each CPU in rtla's format; empty if the user asked for no tasks.
    pub fn tasks(&self) -> String {
        if !self.asked.tasks {
            return String::new();
        }
        let mut out = String::from("\nPrinting CPU tasks:\n");
        for (cpu, occupant) in self.occupants.iter().enumerate() {
            out += &match occupant {
                Some(Occupant { comm, tid }) => format!("    [{cpu:03}] {comm:>24}:{tid}\n"),
                None => format!("    [{cpu:03}] {:>24}:-\n", "-"),
            };
        }
        out
    }
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

    fn at_stop(format: StackFormat) -> AtStop {
        AtStop {
            wakeup: (0, 0),
            asked: AskedAtStop {
                stack_from_ns: Some(1),
                format,
                tasks: true,
            },
            stack: Some(vec![
                frame(1, "bpf_trace_run1"),
                frame(2, "try_to_wake_up"),
                frame(3, "hrtimer_wakeup"),
                frame(0x44, ""),
                frame(5, "do_syscall_64"),
            ]),
            occupants: vec![
                Some(Occupant {
                    comm: "stress".into(),
                    tid: 7,
                }),
                None,
            ],
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
            assert_eq!(at_stop(format).stack(), format!("{head}{rest}"));
        }
        let lost = AtStop {
            stack: None,
            ..at_stop(StackFormat::Full)
        };
        assert!(lost.stack().contains("(no stack: "));
    }

    #[test]
    fn whoever_was_not_seen_is_not_named() {
        let expected = "\nPrinting CPU tasks:\n    [000]                   stress:7\n    [001]                        -:-\n";
        assert_eq!(at_stop(StackFormat::Full).tasks(), expected);
    }
}

//! What is kept of the instant at which a limit stopped a run: the stack that the timer's interrupt found, and who had
//! each CPU. It is asked for, and is in no recording.

use clap::ValueEnum;
use vmnoise_tracer::{Frame, Occupant, StopAsked, StopWitness};

/// What is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AskedAtStop {
    /// The stack, if the task was so late, nanoseconds.
    pub stack_from_ns: Option<u64>,
    /// How it is printed.
    pub format: StackFormat,
    /// Who had each CPU.
    pub tasks: bool,
}

/// What is printed of a frame that lies in no function known by name, in rtla's words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum StackFormat {
    /// Nothing, nor of those behind it
    #[default]
    Truncate,
    /// Nothing
    Skip,
    /// Its address
    Full,
}

/// What was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtStop {
    /// Of which wake-up: when it was due, CLOCK_MONOTONIC in nanoseconds, and on which CPU.
    pub wakeup: (u64, u32),
    asked: AskedAtStop,
    /// The innermost frame first; `None` where it is not there (any more).
    stack: Option<Vec<Frame>>,
    /// By the number of the CPU; `None` where nobody was seen.
    occupants: Vec<Option<Occupant>>,
}

impl AskedAtStop {
    /// What has to be witnessed for it; `None` if nothing.
    pub fn witness(&self) -> Option<StopAsked> {
        let asked = StopAsked {
            stacks: self.stack_from_ns.is_some(),
            turns: self.tasks,
        };
        (asked != StopAsked::default()).then_some(asked)
    }

    /// What the witness kept of a wake-up of this CPU, that was to be at `start_ns` (CLOCK_MONOTONIC) and was so late.
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

/// What comes before it is the way from the interrupt's handler to the program that kept the stack.
const WAKES: &str = "try_to_wake_up";

impl AtStop {
    /// The stack in rtla's lines; nothing where none is asked for.
    pub fn stack(&self) -> String {
        if self.asked.stack_from_ns.is_none() {
            return String::new();
        }
        let mut out = String::from("    Blocking thread stack trace\n");
        let Some(frames) = &self.stack else {
            return out + "\t\t(it is not kept: this wake-up was not seen, or lies too far back)\n";
        };
        let is_ours = |frame: &Frame| frame.function.as_deref() == Some(WAKES);
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

    /// Who had each CPU in rtla's lines; nothing where that is not asked for.
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

    fn frame(address: u64, function: &str) -> Frame {
        Frame {
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
        assert!(lost.stack().contains("not kept"));
    }

    #[test]
    fn whoever_was_not_seen_is_not_named() {
        let expected = "\nPrinting CPU tasks:\n    [000]                   stress:7\n    [001]                        -:-\n";
        assert_eq!(at_stop(StackFormat::Full).tasks(), expected);
    }
}

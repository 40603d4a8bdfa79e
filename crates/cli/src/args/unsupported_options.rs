//! Options of `rtla osnoise` that steer the kernel's own tracer: known here, so that
//! whoever types them learns where they work.

use clap::Args;

use crate::status::UsageError;

/// What only ftrace can do.
#[derive(Debug, Default, Args)]
pub struct UnsupportedOptions {
    #[arg(short, long, value_name = "SYS:EVENT", hide = true)]
    event: Vec<String>,
    #[arg(long, value_name = "FILTER", hide = true)]
    filter: Vec<String>,
    #[arg(long, value_name = "TRIGGER", hide = true)]
    trigger: Vec<String>,
    #[arg(long, hide = true)]
    panic_on_stop: bool,
    /// Taken: there is no more to print.
    #[arg(short = 'D', long, hide = true)]
    debug: bool,
    #[arg(long, value_name = "KB", hide = true)]
    trace_buffer_size: Option<String>,
}

impl UnsupportedOptions {
    /// Answers the first of them that was given.
    ///
    /// # Errors
    /// A usage error that says which program does it.
    pub fn refuse(&self) -> Result<(), UsageError> {
        let answer = if let Some(event) = self.event.first() {
            format!(
                "-e/--event: vmnoise records no ftrace events; run `trace-cmd record -e {event}` beside it"
            )
        } else if let Some(filter) = self.filter.first() {
            format!(
                "--filter: vmnoise records no ftrace events to filter; run `trace-cmd record -e EVENT -f '{filter}'` beside it"
            )
        } else if let Some(trigger) = self.trigger.first() {
            format!(
                "--trigger: vmnoise sets no ftrace triggers; run `rtla osnoise -t -e EVENT --trigger '{trigger}'`, or `trace-cmd record -e EVENT -R '{trigger}'` beside it"
            )
        } else if self.panic_on_stop {
            "--panic-on-stop: vmnoise does not crash the kernel; `echo PANIC_ON_STOP > /sys/kernel/tracing/osnoise/options` and run `rtla osnoise -s US`".to_owned()
        } else if self.trace_buffer_size.is_some() {
            "--trace-buffer-size: vmnoise keeps no ftrace buffer; -t saves the last 32768 lines, and -o records all".to_owned()
        } else {
            return Ok(());
        };
        Err(UsageError(answer))
    }
}

/// Options of `rtla timerlat` that need the kernel's own tracer, or its buffer.
#[derive(Debug, Default, Args)]
pub struct UnsupportedTimerOptions {
    #[arg(short, long, hide = true)]
    kernel_threads: bool,
    #[arg(short = 'U', long, hide = true)]
    user_load: bool,
    #[arg(long, value_name = "PROGRAM", hide = true)]
    bpf_action: Option<String>,
}

impl UnsupportedTimerOptions {
    /// Answers the first of them that was given.
    ///
    /// # Errors
    /// A usage error that says who does it, or what does instead.
    pub fn refuse(&self) -> Result<(), UsageError> {
        let answer = if self.kernel_threads {
            "-k/--kernel-threads: vmnoise has no code in the kernel to run there; its IRQ and Thread columns are taken in the kernel all the same, or run `rtla timerlat -k`"
        } else if self.user_load {
            "-U/--user-load: only the kernel's timerlat_fd can time a workload of yours; run `rtla timerlat -U`, or `vmnoise osnoise --pid` for what is taken from it"
        } else if self.bpf_action.is_some() {
            "--bpf-action: vmnoise decides in user space when a limit is hit; use --on-threshold, or run `rtla timerlat --bpf-action`"
        } else {
            return Ok(());
        };
        Err(UsageError(answer.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_supported_is_not_refused() {
        assert!(UnsupportedOptions::default().refuse().is_ok());
    }

    #[test]
    fn each_answer_names_the_program_that_can() {
        let given = [
            UnsupportedOptions {
                event: vec!["sched:sched_switch".into()],
                ..UnsupportedOptions::default()
            },
            UnsupportedOptions {
                filter: vec!["prev_pid == 0".into()],
                ..UnsupportedOptions::default()
            },
            UnsupportedOptions {
                trigger: vec!["stacktrace".into()],
                ..UnsupportedOptions::default()
            },
            UnsupportedOptions {
                panic_on_stop: true,
                ..UnsupportedOptions::default()
            },
        ];
        for options in given {
            let answer = options.refuse().unwrap_err().to_string();
            assert!(
                answer.contains("trace-cmd") || answer.contains("rtla"),
                "{answer}"
            );
            assert!(!answer.contains('\n'));
        }
    }
}

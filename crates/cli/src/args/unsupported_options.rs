//! Options of rtla that control the kernel's own tracer. vmnoise refuses them, and names the
//! program that supports them.

use clap::Args;
use vmnoise_console::status::UsageError;

/// Options of `rtla osnoise` and `rtla timerlat` that need ftrace.
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
    /// Accepted without effect.
    #[arg(short = 'D', long, hide = true)]
    debug: bool,
    #[arg(long, value_name = "KB", hide = true)]
    trace_buffer_size: Option<String>,
}

impl UnsupportedOptions {
    /// Refuses the first of these options that was given.
    ///
    /// # Errors
    /// A usage error that names the program that supports it.
    pub fn refuse(&self) -> Result<(), UsageError> {
        let answer = if let Some(event) = self.event.first() {
            format!(
                "-e/--event: vmnoise records no ftrace events; run `trace-cmd record -e {event}` meanwhile"
            )
        } else if let Some(filter) = self.filter.first() {
            format!(
                "--filter: vmnoise records no ftrace events to filter; run `trace-cmd record -e EVENT -f '{filter}'` meanwhile"
            )
        } else if let Some(trigger) = self.trigger.first() {
            format!(
                "--trigger: vmnoise sets no ftrace triggers; run `rtla osnoise -t -e EVENT --trigger '{trigger}'`, or `trace-cmd record -e EVENT -R '{trigger}'` meanwhile"
            )
        } else if self.panic_on_stop {
            "--panic-on-stop: vmnoise does not crash the kernel; run `echo PANIC_ON_STOP > /sys/kernel/tracing/osnoise/options` and `rtla osnoise -s US`".to_owned()
        } else if self.trace_buffer_size.is_some() {
            "--trace-buffer-size: vmnoise keeps no ftrace buffer; -t saves the last 32768 lines, and -o records all".to_owned()
        } else {
            return Ok(());
        };
        Err(UsageError(answer))
    }
}

/// Options of `rtla timerlat` that need the kernel's own tracer.
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
    /// Refuses the first of these options that was given.
    ///
    /// # Errors
    /// A usage error that names the program that supports it, or the option to use instead.
    pub fn refuse(&self) -> Result<(), UsageError> {
        let answer = if self.kernel_threads {
            "-k/--kernel-threads: the tasks of vmnoise cannot run in the kernel, but vmnoise measures the columns IRQ and Thread there; for kernel threads run `rtla timerlat -k`"
        } else if self.user_load {
            "-U/--user-load: only the kernel's timerlat_fd can time your own workload; run `rtla timerlat -U`, or `vmnoise osnoise --pid` to measure the time taken from it"
        } else if self.bpf_action.is_some() {
            "--bpf-action: vmnoise checks limits in user space; use --on-threshold, or run `rtla timerlat --bpf-action`"
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

//! Actions on a limit or at the end of a run, in rtla's syntax.

use std::path::PathBuf;

use rustix::process::{Pid, Signal};

/// Action of `--on-threshold` or `--on-end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Saves the last lines of the trace to this file; `None` is the command's default file.
    Trace(Option<PathBuf>),
    /// Sends a signal.
    Signal {
        /// Signal to send.
        signal: Signal,
        /// Process that receives it.
        to: SignalReceiver,
    },
    /// Runs this command with `/bin/sh -c`.
    Shell(String),
    /// Asks the host for a dump over this port; `None` is the port of the feed.
    Dump(Option<PathBuf>),
    /// Continues the run.
    Continue,
}

/// Receiver of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalReceiver {
    /// Process that started vmnoise.
    Parent,
    /// Process with this id.
    Process(Pid),
}

/// Parses `trace[,file=FILE]`, `signal,num=N,pid=PID|parent`, `shell,command=COMMAND`,
/// `dump[,port=FILE]` or `continue`. A command may contain commas.
///
/// # Errors
/// A sentence that lists the accepted actions.
pub fn parse(text: &str) -> Result<Action, String> {
    let usage = || {
        format!(
            "`{text}` is not an action; write trace[,file=FILE], signal,num=N,pid=PID|parent, shell,command=COMMAND, dump[,port=FILE] or continue"
        )
    };
    let (name, rest) = match text.split_once(',') {
        Some((name, rest)) => (name, Some(rest)),
        None => (text, None),
    };
    let value = |key: &str| {
        let value = rest?.strip_prefix(key)?.strip_prefix('=')?;
        (!value.is_empty()).then_some(value)
    };
    match (name, rest) {
        ("trace", None) => Ok(Action::Trace(None)),
        ("trace", _) => value("file")
            .map(|file| Action::Trace(Some(file.into())))
            .ok_or_else(usage),
        ("shell", _) => value("command")
            .map(|command| Action::Shell(command.to_owned()))
            .ok_or_else(usage),
        ("dump", None) => Ok(Action::Dump(None)),
        ("dump", _) => value("port")
            .map(|port| Action::Dump(Some(port.into())))
            .ok_or_else(usage),
        ("signal", Some(rest)) => signal(rest).ok_or_else(usage),
        ("continue", None) => Ok(Action::Continue),
        _ => Err(usage()),
    }
}

/// Parses the two arguments of `signal`, in either order.
fn signal(arguments: &str) -> Option<Action> {
    let (mut signal, mut to) = (None, None);
    for argument in arguments.split(',') {
        match argument.split_once('=')? {
            ("num", number) => signal = Some(Signal::from_named_raw(number.parse().ok()?)?),
            ("pid", "parent") => to = Some(SignalReceiver::Parent),
            ("pid", pid) => {
                let pid: i32 = pid.parse().ok().filter(|pid| *pid > 0)?;
                to = Some(SignalReceiver::Process(Pid::from_raw(pid)?));
            }
            _ => return None,
        }
    }
    Some(Action::Signal {
        signal: signal?,
        to: to?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_those_of_rtla() {
        assert_eq!(parse("trace"), Ok(Action::Trace(None)));
        assert_eq!(
            parse("trace,file=/x/y.txt"),
            Ok(Action::Trace(Some("/x/y.txt".into())))
        );
        assert_eq!(parse("continue"), Ok(Action::Continue));
        // rtla does not have these two.
        assert_eq!(parse("dump"), Ok(Action::Dump(None)));
        assert_eq!(
            parse("dump,port=/dev/vport0p1"),
            Ok(Action::Dump(Some("/dev/vport0p1".into())))
        );
        assert_eq!(
            parse("shell,command=echo a, b"),
            Ok(Action::Shell("echo a, b".into()))
        );
        let to_parent = Action::Signal {
            signal: Signal::USR1,
            to: SignalReceiver::Parent,
        };
        assert_eq!(parse("signal,num=10,pid=parent"), Ok(to_parent.clone()));
        assert_eq!(parse("signal,pid=parent,num=10"), Ok(to_parent));
        let to_one = Action::Signal {
            signal: Signal::INT,
            to: SignalReceiver::Process(Pid::from_raw(7).unwrap()),
        };
        assert_eq!(parse("signal,num=2,pid=7"), Ok(to_one));
    }

    #[test]
    fn nonsense_is_refused_with_what_is_accepted() {
        for text in [
            "",
            "trace,",
            "trace,file=",
            "trace,name=x",
            "signal",
            "signal,num=2",
            "signal,pid=2",
            "signal,num=0,pid=2",
            "signal,num=2,pid=0",
            "signal,num=2,pid=-3",
            "signal,num=999,pid=2",
            "signal,num=2,pid=3,x=4",
            "shell",
            "shell,command=",
            "shell,echo",
            "dump,now",
            "dump,port=",
            "continue,now",
            "reboot",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("signal,num=N,pid=PID|parent"), "{error}");
        }
    }
}

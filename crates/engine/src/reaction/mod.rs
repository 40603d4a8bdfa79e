//! Carries out actions in order. The loop of the run never waits for a command.

pub mod action;
pub mod saving;
pub mod shell;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, getppid, kill_process};
use vmnoise_console::say;
use vmnoise_feed::AskedHost;
use vmnoise_views::RecentTrace;

use self::action::{Action, SignalReceiver};
use self::saving::Saving;
use self::shell::Shell;

/// Interval between checks whether a command has ended.
const TICK: Duration = Duration::from_millis(5);

/// Result of a list of actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReactionOutcome {
    /// All actions were carried out.
    Done,
    /// The actions before a `continue` were carried out; those after it are skipped, as in rtla.
    Continue,
}

/// Resources that actions need. They must be opened before the process gives up its rights.
#[derive(Debug, Clone, Default)]
pub struct Helpers {
    /// Helper that runs shell commands, if there are any.
    pub shell: Option<Rc<Shell>>,
    /// Hosts to ask for a dump, each with the port that the action names.
    hosts: Vec<(Option<PathBuf>, Rc<AskedHost>)>,
}

impl Helpers {
    /// Starts and opens the resources for these actions.
    ///
    /// # Errors
    /// As [`Shell::begin`], or if a port cannot be opened.
    pub fn for_actions<'a>(actions: impl Iterator<Item = &'a Action>) -> Result<Helpers> {
        let mut commands = Vec::new();
        let mut helpers = Helpers::default();
        for action in actions {
            match action {
                Action::Shell(command) => commands.push(command.clone()),
                Action::Dump(port) if helpers.host(port).is_none() => {
                    let host = Rc::new(AskedHost::open(port.as_deref())?);
                    helpers.hosts.push((port.clone(), host));
                }
                _ => {}
            }
        }
        if !commands.is_empty() {
            helpers.shell = Some(Rc::new(Shell::begin(commands)?));
        }
        Ok(helpers)
    }

    fn host(&self, port: &Option<PathBuf>) -> Option<&AskedHost> {
        let mut hosts = self.hosts.iter();
        Some(&*hosts.find(|(named, _)| named == port)?.1)
    }
}

/// Actions in progress, in order; the first failure ends the list.
#[derive(Debug)]
pub struct Reaction {
    left: std::vec::IntoIter<Action>,
    /// Default file for a trace.
    trace_file: &'static str,
    helpers: Helpers,
    /// Trace that is not yet completely on the disk.
    saving: Option<Saving>,
    /// Command in progress.
    running: Option<String>,
    /// Whether the output of commands is kept in memory, because vmnoise draws on the terminal.
    hears: bool,
    /// Kept output of commands.
    said: Vec<String>,
}

impl Reaction {
    /// Creates a reaction that has done nothing yet. `helpers` hold the resources of all actions.
    pub fn new(actions: Vec<Action>, trace_file: &'static str, helpers: Helpers) -> Reaction {
        Reaction {
            left: actions.into_iter(),
            trace_file,
            helpers,
            saving: None,
            running: None,
            hears: false,
            said: Vec::new(),
        }
    }

    /// Makes the reaction keep the output of commands in memory instead of sending it to the
    /// terminal.
    fn hearing(self) -> Reaction {
        Reaction {
            hears: true,
            ..self
        }
    }

    /// Carries out all actions that are possible now; returns `None` while a command runs or a
    /// trace is being saved. `trace` is the trace that a `trace` action saves.
    ///
    /// # Errors
    /// If an action fails; later actions are not carried out.
    pub fn advance(&mut self, trace: &RecentTrace) -> Result<Option<ReactionOutcome>> {
        loop {
            if let Some(saving) = &mut self.saving {
                if !saving.is_done()? {
                    return Ok(None);
                }
                self.saving = None;
            }
            if let (Some(command), Some(shell)) = (&self.running, &self.helpers.shell) {
                let Some(status) = shell.ended()? else {
                    return Ok(None);
                };
                if self.hears {
                    self.said.extend(shell.said());
                }
                if !status.success() {
                    bail!("the shell command `{command}` ended with {status}");
                }
                self.running = None;
            }
            match self.left.next() {
                None => return Ok(Some(ReactionOutcome::Done)),
                Some(Action::Continue) => return Ok(Some(ReactionOutcome::Continue)),
                Some(Action::Signal { signal, to }) => {
                    let pid = receiver(to)?;
                    kill_process(pid, signal).with_context(|| {
                        format!("sending signal {} to process {pid:?}", signal.as_raw())
                    })?;
                }
                Some(Action::Trace(path)) => {
                    let path = path.as_deref().unwrap_or(Path::new(self.trace_file));
                    self.saving = Some(Saving::begin(trace, path, self.trace_file)?);
                }
                Some(Action::Dump(port)) => {
                    let host = self.helpers.host(&port).context("there is no port")?;
                    // A host that does not listen now must not end the measurement.
                    if let Err(error) = host.ask() {
                        self.note(format!("{:#}", anyhow::Error::from(error)));
                    }
                }
                Some(Action::Shell(command)) => {
                    let shell = self.helpers.shell.as_ref().context("there is no shell")?;
                    shell.start(&command, self.hears)?;
                    self.running = Some(command);
                }
            }
        }
    }

    /// Prints a message, or keeps it in memory while vmnoise draws on the terminal.
    fn note(&mut self, words: String) {
        match self.hears {
            true => self.said.push(words),
            false => say::say(words),
        }
    }

    /// Carries out the actions. Returns `None` before the end if the disk is slow and a trace is
    /// not yet saved.
    fn until_slow(&mut self, trace: &RecentTrace) -> Result<Option<ReactionOutcome>> {
        loop {
            let outcome = self.advance(trace)?;
            if outcome.is_some() || self.saving.as_ref().is_some_and(Saving::is_slow) {
                return Ok(outcome);
            }
            std::thread::sleep(TICK);
        }
    }

    /// Carries out the actions to the end.
    ///
    /// # Errors
    /// As [`Reaction::advance`].
    pub fn finish(&mut self, trace: &RecentTrace) -> Result<ReactionOutcome> {
        loop {
            if let Some(outcome) = self.advance(trace)? {
                return Ok(outcome);
            }
            std::thread::sleep(TICK);
        }
    }
}

/// Actions of `--on-threshold`. If they contain `continue`, they are carried out during the run,
/// otherwise after the run.
#[derive(Debug)]
pub struct OnThreshold {
    actions: Vec<Action>,
    trace_file: &'static str,
    helpers: Helpers,
    under_way: Option<Reaction>,
    /// Output of commands that could not use the terminal.
    said: Vec<String>,
    failure: Option<anyhow::Error>,
}

impl OnThreshold {
    /// Creates the actions for limits; `helpers` as in [`Reaction::new`].
    pub fn new(actions: Vec<Action>, trace_file: &'static str, helpers: Helpers) -> OnThreshold {
        OnThreshold {
            actions,
            trace_file,
            helpers,
            under_way: None,
            said: Vec::new(),
            failure: None,
        }
    }

    /// Continues the actions, and returns whether the run must stop. `hit` says whether a limit was
    /// hit since the last call. A hit while the actions of an earlier hit are in progress starts no
    /// actions. `drawn_on` says whether vmnoise draws on the terminal; if so, commands must not
    /// write there.
    pub fn stops(&mut self, hit: bool, trace: &RecentTrace, drawn_on: bool) -> bool {
        if self.under_way.is_none() {
            if !hit || !self.actions.contains(&Action::Continue) {
                return hit;
            }
            let reaction = self.reaction();
            self.under_way = Some(if drawn_on {
                reaction.hearing()
            } else {
                reaction
            });
        }
        let Some(reaction) = &mut self.under_way else {
            return false;
        };
        let advanced = reaction.advance(trace);
        self.said.append(&mut reaction.said);
        match advanced {
            Ok(None) => false,
            Ok(Some(_)) => {
                self.under_way = None;
                false
            }
            Err(error) => {
                self.failure = Some(error);
                true
            }
        }
    }

    fn reaction(&self) -> Reaction {
        Reaction::new(self.actions.clone(), self.trace_file, self.helpers.clone())
    }

    /// Returns the output, since the last call, of commands that could not use the terminal.
    pub fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    /// Carries out the remaining actions after the end of the run. `by_limit` says whether a limit
    /// stopped the run. A trace that waits for a slow disk is left to [`end`](Self::end), so that
    /// the result is shown first.
    ///
    /// # Errors
    /// The error of the action that failed, now or earlier.
    pub fn act(&mut self, by_limit: bool, trace: &RecentTrace) -> Result<()> {
        if let Some(error) = self.failure.take() {
            self.under_way = None;
            return Err(error);
        }
        let reaction = match self.under_way.take() {
            None if by_limit => Some(self.reaction()),
            under_way => under_way,
        };
        let Some(mut reaction) = reaction else {
            return Ok(());
        };
        let outcome = reaction.until_slow(trace);
        reaction.said.drain(..).for_each(|line| say::print(&line));
        if outcome?.is_none() {
            self.under_way = Some(reaction);
        }
        Ok(())
    }

    /// Waits for the actions in progress. After Ctrl-C (`in_a_hurry`), waits only for a trace that
    /// is being written.
    ///
    /// # Errors
    /// As [`act`](Self::act).
    pub fn end(self, in_a_hurry: bool, trace: &RecentTrace) -> Result<()> {
        let Some(mut reaction) = self.under_way else {
            return Ok(());
        };
        if in_a_hurry {
            return reaction.saving.take().map_or(Ok(()), Saving::wait);
        }
        let outcome = reaction.finish(trace);
        reaction.said.iter().for_each(say::print);
        outcome.map(|_| ())
    }
}

fn receiver(to: SignalReceiver) -> Result<Pid> {
    match to {
        SignalReceiver::Process(pid) => Ok(pid),
        SignalReceiver::Parent => {
            getppid().context("the parent of vmnoise is outside its pid namespace")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::action::parse;
    use super::*;

    fn carry_out(actions: &[&str]) -> Result<ReactionOutcome> {
        let actions: Vec<Action> = actions.iter().map(|text| parse(text).unwrap()).collect();
        let helpers = Helpers::for_actions(actions.iter()).unwrap();
        Reaction::new(actions, "trace.txt", helpers).finish(&RecentTrace::default())
    }

    #[test]
    fn commands_run_in_their_order_up_to_continue() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        let say = |word| {
            format!(
                "shell,command=sleep 0.02; echo {word} >> {}",
                file.display()
            )
        };
        let (one, two, three) = (say("one"), say("two"), say("three"));
        assert_eq!(carry_out(&[&one, &two]).unwrap(), ReactionOutcome::Done);
        let outcome = carry_out(&[&two, "continue", &three]).unwrap();
        assert_eq!(outcome, ReactionOutcome::Continue);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\ntwo\n");
    }

    #[test]
    fn a_trace_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.txt");
        let trace = format!("trace,file={}", path.display());
        assert_eq!(carry_out(&[&trace]).unwrap(), ReactionOutcome::Done);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# tracer:"), "{text}");
        let error = carry_out(&["trace,file=/no/such/folder/x"]).unwrap_err();
        assert!(error.to_string().contains("/no/such/folder/x"), "{error}");
    }

    #[test]
    fn a_failure_ends_the_list_and_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("touched");
        let touch = format!("shell,command=touch {}", file.display());
        let error = carry_out(&["shell,command=exit 7", &touch]).unwrap_err();
        assert!(error.to_string().contains("`exit 7`"), "{error}");
        assert!(!file.exists());
        // This number is larger than any process id (PID_MAX_LIMIT).
        let error = carry_out(&["signal,num=2,pid=2000000000"]).unwrap_err();
        assert!(error.to_string().contains("signal 2"), "{error}");
    }

    #[test]
    fn a_host_is_asked_over_the_port_that_was_named() {
        let folder = tempfile::tempdir().unwrap();
        let port = folder.path().join("port");
        let action = format!("dump,port={}", port.display());
        std::fs::write(&port, "").unwrap();
        assert_eq!(
            carry_out(&[&action, &action]).unwrap(),
            ReactionOutcome::Done
        );
        assert_eq!(std::fs::read_to_string(&port).unwrap(), "dump\ndump\n");
        std::fs::remove_file(&port).unwrap();
        let action = parse(&action).unwrap();
        let error = Helpers::for_actions([&action].into_iter()).unwrap_err();
        assert!(format!("{error:#}").contains("port"), "{error:#}");
    }

    fn on_threshold(actions: &[&str]) -> OnThreshold {
        let actions: Vec<Action> = actions.iter().map(|text| parse(text).unwrap()).collect();
        let helpers = Helpers::for_actions(actions.iter()).unwrap();
        OnThreshold::new(actions, "trace.txt", helpers)
    }

    #[test]
    fn a_limit_stops_unless_it_is_to_go_on() {
        let mut nothing_asked = on_threshold(&[]);
        assert!(!nothing_asked.stops(false, &RecentTrace::default(), false));
        assert!(nothing_asked.stops(true, &RecentTrace::default(), false));

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        let say = format!("shell,command=sleep 0.1; echo hit >> {}", file.display());
        let mut goes_on = on_threshold(&[&say, "continue"]);
        for hit in [true, true, false] {
            assert!(!goes_on.stops(hit, &RecentTrace::default(), false));
        }
        goes_on.act(false, &RecentTrace::default()).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "hit\n");

        let mut stops = on_threshold(&[&say]);
        stops.act(true, &RecentTrace::default()).unwrap();
        on_threshold(&[&say])
            .act(false, &RecentTrace::default())
            .unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "hit\nhit\n");
    }

    #[test]
    fn on_a_terminal_that_is_drawn_on_commands_are_heard_instead() {
        let says = "shell,command=echo one; echo two >&2";
        let mut goes_on = on_threshold(&[says, "shell,command=echo three; exit 7", "continue"]);
        let mut said = Vec::new();
        while !goes_on.stops(said.is_empty(), &RecentTrace::default(), true) {
            said.extend(goes_on.take_said());
            std::thread::sleep(TICK);
        }
        said.extend(goes_on.take_said());
        assert_eq!(said, ["one", "two", "three"]);
    }

    #[test]
    fn a_failed_action_stops_a_run_that_was_to_go_on() {
        let mut fails = on_threshold(&["signal,num=2,pid=2000000000", "continue"]);
        assert!(fails.stops(true, &RecentTrace::default(), false));
        assert!(fails.act(true, &RecentTrace::default()).is_err());
    }

    #[test]
    fn a_command_is_not_waited_for() {
        let sleep = parse("shell,command=sleep 0.3").unwrap();
        let helpers = Helpers::for_actions([&sleep].into_iter()).unwrap();
        let mut reaction = Reaction::new(vec![sleep], "trace.txt", helpers);
        assert_eq!(reaction.advance(&RecentTrace::default()).unwrap(), None);
        assert_eq!(
            reaction.finish(&RecentTrace::default()).unwrap(),
            ReactionOutcome::Done
        );
    }
}

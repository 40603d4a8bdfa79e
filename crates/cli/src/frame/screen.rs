//! The terminal while the frame has it: raw, and on its other screen. However the run ends,
//! it is given back as it was. What is drawn on it waits where it takes nothing, and nobody who drains
//! events waits for that.

use std::io::{ErrorKind, Write};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use ratatui::Terminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Size;
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGTSTP};
use signal_hook::low_level::emulate_default_handler;

use super::write_only::WriteOnly;
use crate::stdout;
use crate::write_behind::WriteBehind;

/// What is written on the terminal while it is the frame's. A panic has to give it back, wherever
/// it comes from.
static TAKEN: Mutex<Option<WriteBehind>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// A terminal that is the frame's until this is dropped.
#[derive(Debug)]
pub struct Screen {
    /// Never dropped: on a terminal that is gone it would tell so on a stderr that is gone,
    /// and panic before the recording is complete.
    terminal: ManuallyDrop<Terminal<WriteOnly<Taken>>>,
    signals: Signals,
    size: Option<Size>,
}

#[derive(Debug, Default)]
struct Signals {
    stop: Arc<AtomicBool>,
    go_on: Arc<AtomicBool>,
    hang_up: Arc<AtomicBool>,
}

impl Screen {
    /// Takes it.
    ///
    /// # Errors
    /// If it refuses.
    pub fn take() -> std::io::Result<Screen> {
        let signals = Signals::default();
        for (signal, flag) in [
            (SIGTSTP, &signals.stop),
            (SIGCONT, &signals.go_on),
            (SIGHUP, &signals.hang_up),
        ] {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
        }
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                let _ = give_back();
                before(panic);
            }));
        });
        let terminal = ManuallyDrop::new(Terminal::new(WriteOnly::new(Taken))?);
        let mut screen = Screen {
            terminal,
            signals,
            size: None,
        };
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&mut self) -> std::io::Result<()> {
        let mut out = taken();
        if out.is_none() {
            *out = Some(stdout::behind()?);
        }
        drop(out);
        enable_raw_mode()?;
        execute!(Taken, EnterAlternateScreen)?;
        self.terminal.clear()
    }

    /// Whether it shows all that was drawn. What it has not taken yet, later drawings cannot replace.
    ///
    /// # Errors
    /// If a thread that panicked gave the terminal back.
    pub fn is_drawn(&self) -> std::io::Result<bool> {
        let out = taken();
        let out = out.as_ref().ok_or(ErrorKind::NotConnected)?;
        Ok(out.is_idle())
    }

    /// No key is read any more: Ctrl-C is a signal again. Nothing is waited for.
    pub fn leave_keys(&self) {
        // A terminal that is gone takes nothing back.
        let _ = disable_raw_mode();
    }

    /// Whether the terminal hung up.
    pub fn hung_up(&self) -> bool {
        self.signals.hang_up.load(Ordering::Relaxed)
    }

    /// Stops this process if it was asked to, and takes the terminal again when it goes on.
    /// Returns whether all has to be drawn again.
    ///
    /// # Errors
    /// If the terminal refuses.
    pub fn stop_if_asked(&mut self) -> std::io::Result<bool> {
        if self.signals.stop.load(Ordering::Relaxed) {
            give_back()?;
            self.stopped()?;
            return Ok(true);
        }
        // Stopped by a signal that nobody can catch: the terminal was others' meanwhile.
        if self.signals.go_on.swap(false, Ordering::Relaxed) {
            disable_raw_mode()?;
            execute!(Taken, LeaveAlternateScreen)?;
            self.enter()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Stops what was started together with this process, and this process, as Ctrl-Z does
    /// where it is no key. The terminal is given back first: in the background nobody may.
    ///
    /// # Errors
    /// If the terminal refuses.
    pub fn stop(&mut self) -> std::io::Result<()> {
        give_back()?;
        kill_current_process_group(Signal::TSTP)?;
        self.stopped()
    }

    /// Stops until somebody says otherwise, and takes the terminal again.
    fn stopped(&mut self) -> std::io::Result<()> {
        emulate_default_handler(SIGTSTP)?;
        for flag in [&self.signals.stop, &self.signals.go_on] {
            flag.store(false, Ordering::Relaxed);
        }
        self.enter()
    }

    /// Whether its size has changed since the last call.
    pub fn resized(&mut self) -> bool {
        let size = self.terminal.size().ok();
        std::mem::replace(&mut self.size, size) != size
    }

    /// Forgets what is on it, so that all is drawn again.
    ///
    /// # Errors
    /// If the terminal refuses.
    pub fn forget(&mut self) -> std::io::Result<()> {
        self.terminal.clear()
    }

    /// Draws.
    ///
    /// # Errors
    /// If the terminal refuses.
    pub fn draw(&mut self, picture: impl FnOnce(&mut ratatui::Frame<'_>)) -> std::io::Result<()> {
        self.terminal.draw(picture)?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = give_back();
    }
}

/// The terminal while it is the frame's.
#[derive(Debug)]
struct Taken;

impl Write for Taken {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut *taken() {
            Some(out) => out.write(bytes),
            None => Err(ErrorKind::NotConnected.into()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// No code panics while it holds the lock.
fn taken() -> MutexGuard<'static, Option<WriteBehind>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the terminal back, once, and waits until it has taken all of it.
///
/// # Errors
/// If it is gone and takes nothing back, or takes nothing and Ctrl-C has ended the wait.
fn give_back() -> std::io::Result<()> {
    let out = taken().take();
    let Some(mut out) = out else {
        return Ok(());
    };
    let _ = execute!(out, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    stdout::end(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

    use std::process::{Command, Stdio};

    use super::*;

    const PANICS: &str = "VMNOISE_TEST_PANICS";
    const THIS: &str =
        "frame::screen::tests::a_panic_gives_the_terminal_back_before_it_is_reported";

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_is_reported() {
        if std::env::var_os(PANICS).is_some() {
            let _screen = Screen::take().unwrap();
            panic!("on purpose");
        }
        // This very test, once more, in a terminal.
        let exe = std::env::current_exe().unwrap();
        let run = format!("'{}' --exact {THIS} --nocapture", exe.display());
        let mut script = Command::new("script");
        script.args(["-qec", &run, "/dev/null"]);
        script.env(PANICS, "1").env("TERM", "xterm");
        let output = script.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let place = |what: &str| {
            text.find(what)
                .unwrap_or_else(|| panic!("{what}: {text:?}"))
        };
        assert!(place("\x1b[?1049h") < place("\x1b[?1049l"));
        assert!(place("\x1b[?1049l") < place("on purpose"));
        assert_eq!(text.matches("\x1b[?1049l").count(), 1, "once");
        assert!(!text.contains("\x1b[6n"), "nobody here would answer");
    }
}

//! The terminal while the frame owns it: in raw mode, on the alternate screen. It is restored at
//! the end of the run, and after a panic. If the terminal is slow, output waits in memory, so the
//! thread that drains events never waits for the terminal.

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
use vmnoise_console::stdout;
use vmnoise_console::write_behind::WriteBehind;

use super::write_only::WriteOnly;

/// Writer of the terminal while the frame owns it. Global, because a panic on any thread must
/// restore the terminal.
static TAKEN: Mutex<Option<WriteBehind>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// Terminal that the frame owns until this value is dropped.
#[derive(Debug)]
pub struct Screen {
    /// Never dropped. If the terminal is gone, the destructor reports an error on stderr. If stderr
    /// is gone, too, the destructor panics before the recording is complete.
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
    /// Takes over the terminal.
    ///
    /// # Errors
    /// If the terminal refuses.
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

    /// Returns whether the terminal has taken all output. A later drawing cannot replace output
    /// that still waits.
    ///
    /// # Errors
    /// If a panicking thread has restored the terminal.
    pub fn is_drawn(&self) -> std::io::Result<bool> {
        let out = taken();
        let out = out.as_ref().ok_or(ErrorKind::NotConnected)?;
        Ok(out.is_idle())
    }

    /// Leaves raw mode, so that Ctrl-C is a signal again. Does not wait.
    pub fn leave_keys(&self) {
        // The terminal may be gone.
        let _ = disable_raw_mode();
    }

    /// Returns whether the terminal hung up.
    pub fn hung_up(&self) -> bool {
        self.signals.hang_up.load(Ordering::Relaxed)
    }

    /// Stops this process after SIGTSTP, and takes over the terminal again when the process
    /// continues. Returns whether everything must be redrawn.
    ///
    /// # Errors
    /// If the terminal refuses.
    pub fn stop_if_asked(&mut self) -> std::io::Result<bool> {
        if self.signals.stop.load(Ordering::Relaxed) {
            give_back()?;
            self.stopped()?;
            return Ok(true);
        }
        // SIGSTOP, which no process can catch, had stopped this process. Meanwhile, other programs
        // used the terminal.
        if self.signals.go_on.swap(false, Ordering::Relaxed) {
            disable_raw_mode()?;
            execute!(Taken, LeaveAlternateScreen)?;
            self.enter()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Stops the whole process group, as Ctrl-Z does in normal mode. Restores the terminal first,
    /// since a stopped process may not use it.
    ///
    /// # Errors
    /// If the terminal refuses.
    pub fn stop(&mut self) -> std::io::Result<()> {
        give_back()?;
        kill_current_process_group(Signal::TSTP)?;
        self.stopped()
    }

    /// Stops this process until SIGCONT, and takes over the terminal again.
    fn stopped(&mut self) -> std::io::Result<()> {
        emulate_default_handler(SIGTSTP)?;
        for flag in [&self.signals.stop, &self.signals.go_on] {
            flag.store(false, Ordering::Relaxed);
        }
        self.enter()
    }

    /// Returns whether the size has changed since the last call.
    pub fn resized(&mut self) -> bool {
        let size = self.terminal.size().ok();
        std::mem::replace(&mut self.size, size) != size
    }

    /// Clears the terminal, so that everything is redrawn.
    ///
    /// # Errors
    /// If the terminal refuses.
    pub fn forget(&mut self) -> std::io::Result<()> {
        self.terminal.clear()
    }

    /// Draws a picture.
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

/// Writer to the terminal that the frame owns.
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

/// Locks the writer. No code panics while it holds the lock.
fn taken() -> MutexGuard<'static, Option<WriteBehind>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Restores the terminal if the frame still owns it, and waits until the terminal has taken all
/// output.
///
/// # Errors
/// If the terminal is gone, or if it takes no output and Ctrl-C ended the wait.
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
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

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
        // Runs this test again in a terminal.
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

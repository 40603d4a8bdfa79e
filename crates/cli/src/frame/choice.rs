//! Whether a live view is a frame: only where somebody sits before a terminal that can show
//! one. Everywhere else what is printed is printed as ever.

use std::io::IsTerminal;

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};

/// Whether a frame can be shown: keys can be read, and the picture is seen.
pub fn can_show() -> bool {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let seen = stdin.is_terminal() && stdout.is_terminal();
    // A background job that reads keys is stopped.
    let in_front = tcgetpgrp(&stdin).is_ok_and(|group| group == getpgrp());
    let has_size = tcgetwinsize(&stdout).is_ok_and(|size| size.ws_col > 0 && size.ws_row > 0);
    seen && in_front && has_size && can_draw_over()
}

/// Whether what is on the terminal can be drawn over.
pub fn can_draw_over() -> bool {
    can_move(std::env::var("TERM").ok().as_deref())
}

/// Whether a terminal of this kind can be drawn over.
fn can_move(term: Option<&str>) -> bool {
    !matches!(term, None | Some("" | "dumb" | "unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_without_a_name_or_a_cursor_gets_lines() {
        for term in [None, Some(""), Some("dumb"), Some("unknown")] {
            assert!(!can_move(term), "{term:?}");
        }
        assert!(can_move(Some("vt100")) && can_move(Some("xterm-256color")));
    }
}

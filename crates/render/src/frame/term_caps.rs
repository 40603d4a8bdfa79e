//! Checks whether a live view may fill the terminal: the terminal must be interactive and able to
//! show a frame. If not, the command prints as usual.

use std::io::IsTerminal;

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use vmnoise_console::progress::can_draw_over;

/// Returns whether keys can be read and the frame would be visible.
pub fn can_show() -> bool {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let seen = stdin.is_terminal() && stdout.is_terminal();
    // The kernel stops a background job that reads keys.
    let in_front = tcgetpgrp(&stdin).is_ok_and(|group| group == getpgrp());
    let has_size = tcgetwinsize(&stdout).is_ok_and(|size| size.ws_col > 0 && size.ws_row > 0);
    seen && in_front && has_size && can_draw_over()
}

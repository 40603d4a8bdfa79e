//! Whether a live view is a frame: only where somebody sits before a terminal that can show
//! one. Everywhere else what is printed is printed as ever.

use std::io::IsTerminal;

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};

use crate::progress::can_draw_over;

/// Whether a frame can be shown: keys can be read, and the picture is seen.
pub fn can_show() -> bool {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let seen = stdin.is_terminal() && stdout.is_terminal();
    // A background job that reads keys is stopped.
    let in_front = tcgetpgrp(&stdin).is_ok_and(|group| group == getpgrp());
    let has_size = tcgetwinsize(&stdout).is_ok_and(|size| size.ws_col > 0 && size.ws_row > 0);
    seen && in_front && has_size && can_draw_over()
}

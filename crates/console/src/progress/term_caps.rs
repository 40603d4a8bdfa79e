//! Abilities of the terminal, according to its name.

/// Returns whether text on the terminal can be overwritten.
pub fn can_draw_over() -> bool {
    can_move(std::env::var("TERM").ok().as_deref())
}

/// Returns whether text on a terminal of this name can be overwritten.
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

//! A terminal that is drawn over, so that what is on it does not flicker.

/// To the first corner of the terminal.
const HOME: &str = "\x1b[H";
/// Clears what an earlier drawing left behind a line, and below the last.
const REST_OF_LINE: &str = "\x1b[K\n";
const REST_OF_SCREEN: &str = "\x1b[J";

/// The text in place of what the terminal showed before.
pub fn redrawn(text: &str) -> String {
    let lines = text.lines().map(|line| line.to_owned() + REST_OF_LINE);
    format!("{HOME}{}{REST_OF_SCREEN}", lines.collect::<String>())
}

//! Control sequences that redraw a terminal without flicker.

/// Moves the cursor to the upper left corner.
const HOME: &str = "\x1b[H";
/// Clears the rest of an earlier line, and ends the line.
const REST_OF_LINE: &str = "\x1b[K\n";
/// Clears the rest of an earlier drawing below the last line.
const REST_OF_SCREEN: &str = "\x1b[J";

/// Returns the text with control sequences that draw it over the terminal's previous content.
pub fn redrawn(text: &str) -> String {
    let lines = text.lines().map(|line| line.to_owned() + REST_OF_LINE);
    format!("{HOME}{}{REST_OF_SCREEN}", lines.collect::<String>())
}

//! All differences if the program was called by the name `rtla`: it then prints the lines of rtla
//! that scripts read. Code with such a difference asks for it by name, so that this list is
//! complete.

use crate::called_as::is_rtla;

/// Returns the name of the program for the head of a histogram.
pub fn title() -> &'static str {
    match is_rtla() {
        true => "RTLA",
        false => "vmnoise",
    }
}

/// Returns whether the command `hwnoise` is refused with a reason, because rtla has it.
pub fn has_hwnoise() -> bool {
    is_rtla()
}

/// Returns whether a line after the table says that a limit ended the run.
pub fn prints_hit() -> bool {
    is_rtla()
}

/// Returns whether the cause of a stop comes after the table. Otherwise it comes first, because it
/// is the main result.
pub fn prints_cause_last() -> bool {
    is_rtla()
}

/// Returns whether the total of an analysis comes before the lines that rtla does not have. Parsers
/// of its output attribute an unknown line before the total to the last part that they know.
pub fn prints_total_first() -> bool {
    is_rtla()
}

/// Returns whether the first line says why culprits have no names.
pub fn says_why_no_names() -> bool {
    !is_rtla()
}

/// Returns whether `timerlat top` prints its table before the actions of a limit, without the last
/// line.
pub fn prints_table_before_actions() -> bool {
    is_rtla()
}

/// Returns whether stdout names the file of a trace before it is saved. Otherwise stderr names it
/// afterwards.
pub fn names_trace_first() -> bool {
    is_rtla()
}

/// Returns whether the run still reports its limit if an action fails.
pub fn reports_limit_after_failure() -> bool {
    is_rtla()
}

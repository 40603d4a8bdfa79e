//! Columns and rows of all tables. `docs/data.md` explains each column, and a test compares it with
//! this code.

pub(crate) mod cpus;
pub(crate) mod exits;
pub(crate) mod gaps;
pub(crate) mod hours;
pub(crate) mod parts;
pub(crate) mod run;
pub(crate) mod wakeups;

pub use run::RunReport;

use vmnoise_events::Share;

use crate::table::Schema;

/// Returns the name of the column for this share's time, which is the same in all tables.
fn share_column(share: Share) -> String {
    format!("{share}_ns")
}

/// Returns the schemas of all tables.
pub fn schemas() -> Vec<Schema> {
    vec![
        run::schema(),
        cpus::schema(),
        gaps::periods(),
        gaps::gaps(),
        gaps::parts(),
        wakeups::wakeups(),
        wakeups::parts(),
        exits::reasons(),
        exits::exits(),
        exits::parts(),
        hours::schema(),
    ]
}

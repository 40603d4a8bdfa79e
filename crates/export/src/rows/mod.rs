//! The columns of every table, and the rows of what was explained. `docs/data.md` says what
//! each column means; a test holds the two together.

pub(crate) mod cpus;
pub(crate) mod exits;
pub(crate) mod gaps;
pub(crate) mod hours;
pub(crate) mod parts;
pub(crate) mod run;
pub(crate) mod wakeups;

pub use run::Reported;

use vmnoise_events::Share;

use crate::table::Schema;

/// The column of a share in every table that has one.
fn share_column(share: Share) -> String {
    format!("{share}_ns")
}

/// Every table there is.
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

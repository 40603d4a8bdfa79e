//! Turns an explained recording into one page with figures, charts and tables. The page needs no
//! network.
//!
//! The crate opens no file and reads no clock. It takes gaps, wake-ups or exits while they are
//! explained ([`Gathering`]), reduces them without losing a maximum, and returns the page as text.

#![forbid(unsafe_code)]

mod beside;
mod charts;
mod compare;
mod figures;
mod findings;
mod fleet;
mod fleet_page;
mod frame;
mod gathering;
mod grid;
mod groups;
mod headline;
mod library;
mod limits;
mod moment;
mod page;
mod phases;
mod run;
mod scenes;
mod shares;
mod spikes;
mod tables;
mod trees;
mod two_groups;
mod windows;

pub use beside::{
    ComparePage, ComparedRecording, ConditionResult, GroupsBeside, RecordingComparison,
};
pub use fleet::{FleetCpu, FleetRun, FleetTaker};
pub use fleet_page::FleetPage;
pub use gathering::{Gathering, ResolvedMoments};
pub use headline::Headline;
pub use moment::Moment;
pub use page::{Page, RefusedFile};
pub use run::{ReportedRun, RunOutcome};
pub use scenes::{Bar, KernelSide, Scenes};
pub use spikes::{LONGEST, Spike};

/// Style sheet of every page.
pub const STYLE: &str = include_str!("../page/page.css");

//! Writes an explained recording in the formats of other programs. These formats are tables (CSV,
//! Parquet), timelines (Perfetto), histograms of lengths (HdrHistogram), folded stacks (flame
//! graphs), and noise for a simulator (LogGOPSim). Also reads the Parquet tables back.

#![forbid(unsafe_code)]

mod data_set;
mod error;
mod folded;
mod hlog;
mod host_hour;
mod loggopsim;
mod owner;
mod partition;
mod perfetto;
mod rows;
mod run_tables;
mod table;
mod wall_clock;
mod whole_file;

pub use data_set::{
    DataSetError, GapRows, StoredCoverage, StoredCpu, StoredCpus, StoredFacts, StoredGap,
    StoredPart, StoredRun, runs,
};
pub use error::ExportError;
pub use folded::FoldedStacks;
pub use hlog::IntervalLog;
pub use host_hour::{CulpritHour, HostHour, VmHour, WaitHour};
pub use loggopsim::NoiseTrace;
pub use owner::{FileOwner, is_ours};
pub use partition::Partition;
pub use perfetto::{Timeline, TrackSide};
pub use rows::{RunReport, schemas};
pub use run_tables::RunTables;
pub use table::{ColumnKind, DATA_VERSION, Encoding, Schema, TableColumn};
pub use whole_file::{Readers, WholeFile, place, write_whole};

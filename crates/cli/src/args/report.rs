//! The options of `vmnoise report`.

use std::path::PathBuf;

use clap::Args;

/// `vmnoise report`: recordings to show on one page.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Recordings made with `-o`, or the folder of one data set
    ///
    /// A guest's and its host's recordings are joined if the data prove that they belong together.
    /// A data set (`export --parquet`) gets a page that compares its hosts.
    #[arg(required = true)]
    pub recordings: Vec<PathBuf>,
    /// Write the page to this file; it needs no network and no other file
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
}

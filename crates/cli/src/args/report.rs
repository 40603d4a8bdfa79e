//! The options of `vmnoise report`.

use std::path::PathBuf;

use clap::Args;

/// `vmnoise report`: recordings as one page.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Recordings of any kind, made with `-o`. A guest's and its host's, named together, are
    /// joined where the data show that they belong together. The folder of a data set (`export --parquet`) by itself:
    /// its hosts beside each other
    #[arg(required = true)]
    pub recordings: Vec<PathBuf>,
    /// Where to write the page; it needs no network and no other file
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
}

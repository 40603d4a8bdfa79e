//! How a result is printed.

use clap::ValueEnum;

/// How a result is printed on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// One JSON object and nothing else
    Json,
}

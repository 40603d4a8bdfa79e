//! Output formats of results.

use clap::{Args, ValueEnum};

/// Output format of a result on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// One JSON object and nothing else
    Json,
}

/// Parts of a histogram around its buckets, with rtla's option names.
#[derive(Debug, Clone, Copy, Args)]
pub struct HistFrame {
    /// Print empty buckets too
    #[arg(long)]
    pub with_zeros: bool,
    /// Leave out the lines before the histogram
    #[arg(long)]
    pub no_header: bool,
    /// Leave out the lines after the histogram
    #[arg(long)]
    pub no_summary: bool,
}

/// Output format of latencies on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LatencyFormat {
    /// For people, in rtla's table
    Text,
    /// One JSON object and nothing else
    Json,
    /// As cyclictest -q prints it
    Cyclictest,
}

/// Output format of a comparison on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// For people
    Text,
    /// One JSON object and nothing else
    Json,
    /// One page for a browser, which needs no network
    Html,
}

/// Output format of a verdict on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// For people
    Text,
    /// One JSON object and nothing else
    Json,
    /// JUnit's XML
    Junit,
    /// Annotations of a GitHub workflow
    Github,
    /// Signals of a LAVA test
    Lava,
    /// A patch of the ConfigMap of KubeVirt's realtime checkup
    ConfigMap,
}

/// Output format of an audit on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuditFormat {
    /// For people
    Text,
    /// One JSON object and nothing else
    Json,
    /// JUnit's XML: a setting that explains noise has failed
    Junit,
    /// A feature file for Node Feature Discovery: a label for each rule
    NodeLabels,
    /// A table for a ticket
    Markdown,
}

/// Output format for the result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RunFormat {
    /// For people
    Text,
    /// One JSON object and nothing else
    Json,
    /// Bencher's metric format
    Bmf,
}

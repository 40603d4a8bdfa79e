//! Which targets the command line asks for.

use anyhow::Result;
use vmnoise_export::{Encoding, RunTables, Timeline};

use super::input::Input;
use super::rt_tests::RtTests;
use super::target::Target;
use crate::args::ExportArguments;

/// Everything that was asked for, for this recording by itself.
pub fn of(arguments: &ExportArguments, input: &Input) -> Result<Vec<Box<dyn Target>>> {
    let mut targets = tables(arguments, input)?;
    if let Some(path) = &arguments.rt_tests {
        targets.push(Box::new(RtTests::new(path, &input.facts)));
    }
    if let Some(path) = &arguments.perfetto {
        let timeline = Timeline::create(path, &input.facts, None)?;
        targets.push(Box::new(timeline));
    }
    Ok(targets)
}

/// Its tables.
pub fn tables(arguments: &ExportArguments, input: &Input) -> Result<Vec<Box<dyn Target>>> {
    let mut targets: Vec<Box<dyn Target>> = Vec::new();
    let folders = [
        (&arguments.parquet, Encoding::Parquet),
        (&arguments.csv, Encoding::Csv),
        (&arguments.spreadsheet_csv, Encoding::SpreadsheetCsv),
    ];
    for (folder, encoding) in folders {
        if let (Some(folder), Some(partition)) = (folder, &input.partition) {
            let tables = RunTables::create(folder, partition, &input.facts, encoding)?;
            targets.push(Box::new(tables));
        }
    }
    Ok(targets)
}

//! Reads the runs of a data set, and the gaps of each run.

mod error;
mod gaps;
mod pages;
mod rows;
mod run;
mod values;

use std::fs;
use std::path::{Path, PathBuf};

pub use error::DataSetError;
pub use gaps::{GapRows, StoredGap, StoredPart};
pub use run::{StoredCoverage, StoredCpu, StoredCpus, StoredFacts};
use vmnoise_events::Name;

/// A run that is stored in a data set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredRun {
    /// Name of the machine that made the recording.
    pub host: String,
    /// Folder that contains the run's tables.
    pub folder: PathBuf,
}

/// Returns the runs in this folder, sorted by host and start. The folder may be a whole data set,
/// the folder of a host (`host=…`), or the folder of a run (`run=…`).
///
/// # Errors
/// If a folder cannot be listed, or there is no run.
pub fn runs(folder: &Path) -> Result<Vec<StoredRun>, DataSetError> {
    let io_error = |path: &Path| {
        let path = path.to_owned();
        move |error| DataSetError::Io { path, error }
    };
    // The canonical path does not depend on how the user typed it.
    let whole = fs::canonicalize(folder).map_err(io_error(folder))?;
    let folders_of = |folder: &Path, key: &str| -> Result<Vec<PathBuf>, DataSetError> {
        let entries = fs::read_dir(folder).map_err(io_error(folder))?;
        let paths = entries.map(|entry| Ok(entry?.path()));
        let mut paths = paths
            .collect::<Result<Vec<_>, _>>()
            .map_err(io_error(folder))?;
        paths.retain(|path| value_of(path, key).is_some());
        paths.sort_unstable();
        Ok(paths)
    };
    let runs = if value_of(&whole, "run").is_some() {
        vec![folder.to_owned()]
    } else if value_of(&whole, "host").is_some() {
        folders_of(folder, "run")?
    } else {
        let mut runs = Vec::new();
        for host in folders_of(folder, "host")? {
            runs.extend(folders_of(&host, "run")?);
        }
        runs
    };
    let runs = runs.into_iter().filter_map(|folder| {
        let whole = fs::canonicalize(&folder).ok()?;
        // A folder's name may contain control characters, which `Name` replaces.
        let host = Name::from(value_of(whole.parent()?, "host")?).into();
        Some(StoredRun { host, folder })
    });
    let runs: Vec<StoredRun> = runs.collect();
    let has = |run: &StoredRun, file| run.folder.join(file).exists();
    let only_csv = |run: &StoredRun| has(run, "run.csv") && !has(run, "run.parquet");
    let holds = match (runs.is_empty(), folder.join("hours").is_dir()) {
        (true, true) => "it has hours of `vmnoise serve`, which have no gaps",
        (true, false) => "there is no folder `host=…/run=…`",
        (false, _) if runs.iter().all(only_csv) => "its tables are CSV",
        (false, _) => return Ok(runs),
    };
    Err(DataSetError::NoRuns {
        path: folder.to_owned(),
        holds,
    })
}

impl StoredRun {
    /// Returns the facts about the run.
    ///
    /// # Errors
    /// If the table `run` cannot be read, or is invalid.
    pub fn facts(&self) -> Result<StoredFacts, DataSetError> {
        run::facts(&self.folder)
    }

    /// Returns the sums of each CPU, by ascending CPU number.
    ///
    /// # Errors
    /// If the table `cpus` cannot be read, or is invalid.
    pub fn cpus(&self) -> Result<StoredCpus, DataSetError> {
        run::cpus(&self.folder)
    }

    /// Calls `on_stored` for each gap in order, and after each gap for its parts. At most a few
    /// thousand rows are in memory at a time.
    ///
    /// # Errors
    /// If the tables `gaps` and `gap_parts` cannot be read, or do not belong together.
    pub fn each_gap(&self, on_stored: &mut dyn FnMut(GapRows<'_>)) -> Result<(), DataSetError> {
        gaps::each(&self.folder, on_stored)
    }
}

/// Returns the value in the name of a partition's folder: `web-1` for `host=web-1`. `None` if the
/// name has another form.
fn value_of(folder: &Path, key: &str) -> Option<String> {
    let name = folder.file_name()?.to_str()?;
    let value = name.strip_prefix(key)?.strip_prefix('=')?;
    Some(unescaped(value))
}

/// Reverses [`crate::partition::escaped`].
fn unescaped(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        let code = match (first, after) {
            (b'%', [high, low, ..]) => std::str::from_utf8(&[*high, *low])
                .ok()
                .and_then(|hex| u8::from_str_radix(hex, 16).ok()),
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = match code {
            Some(_) => &after[2..],
            None => after,
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::unescaped;
    use crate::partition::escaped;

    #[test]
    fn a_name_comes_back_out_of_its_folder() {
        for name in ["rack-7.example_1", "../a=b c", "100%", "%4", "knoten-ä"] {
            assert_eq!(unescaped(&escaped(name)), name);
        }
    }
}

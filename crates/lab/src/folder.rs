//! Folder with the results of a run. It has a subfolder for each finished cell.
//!
//! - `scenario.toml`: text of the scenario
//! - `CELL/cell.json`: result of the cell, with its figures
//! - `CELL/*.vmn`: recordings
//! - `CELL/measured-*.json`: output of cyclictest or of vmnoise's own guest
//! - `CELL/console.txt`: console output of the cell's machines

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::accel::Accel;
use crate::figures::RepetitionFigures;
use crate::machine::BootedMachine;
use crate::scenario::Scenario;

const SCENARIO: &str = "scenario.toml";
const CELL: &str = "cell.json";

/// Result of a cell that has finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellEnd {
    /// Name of the cell.
    pub cell: String,
    /// Environment in which the cell ran.
    pub accel: Accel,
    /// Machine on which the cell ran; `None` for emulated machines.
    pub machine: Option<BootedMachine>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Version of vmnoise, with a digest that distinguishes two builds.
    pub version: String,
    /// Time that the cell took, in ms.
    pub took_ms: u64,
    /// Commands of the cell. Each begins with the name of the machine that ran it.
    pub commands: Vec<String>,
    /// Figures of each repetition; empty if the cell failed.
    pub repetitions: Vec<RepetitionFigures>,
    /// Reason of a failure, with the end of the console; `None` if the cell succeeded.
    pub failure: Option<String>,
}

impl CellEnd {
    /// Describes the environment, the seed and the version in words.
    pub fn made_with(&self) -> String {
        let machine = self.machine.as_ref().map(BootedMachine::words);
        let machine = machine.map_or(String::new(), |machine| format!(" ({machine})"));
        format!(
            "{}{machine}, seed {}, vmnoise {}",
            self.accel, self.seed, self.version
        )
    }
}

/// Folder with the results of a run.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    /// Scenario of the run.
    pub scenario: Scenario,
}

impl Folder {
    /// Creates a folder for this scenario. If the folder exists with the same scenario, opens the
    /// folder.
    ///
    /// # Errors
    /// If the folder has another scenario, or cannot be written.
    pub fn create(path: &Path, text: &str) -> Result<Folder> {
        let place = || path.display().to_string();
        fs::create_dir_all(path).with_context(place)?;
        let file = path.join(SCENARIO);
        match fs::read_to_string(&file) {
            Ok(there) => ensure!(
                Scenario::parse(&there).ok() == Scenario::parse(text).ok(),
                "{} holds another scenario: name another folder with -o, or remove this one",
                place()
            ),
            Err(_) => replace(&file, text.as_bytes())?,
        }
        Folder::open(path)
    }

    /// Opens the folder of an earlier run.
    ///
    /// # Errors
    /// If the folder has no readable scenario.
    pub fn open(path: &Path) -> Result<Folder> {
        let file = path.join(SCENARIO);
        let text = fs::read_to_string(&file).with_context(|| {
            format!(
                "{}: `vmnoise-lab run -o` has not written this folder",
                file.display()
            )
        })?;
        let scenario = Scenario::parse(&text);
        Ok(Folder {
            path: path.to_owned(),
            scenario: scenario.with_context(|| file.display().to_string())?,
        })
    }

    /// Returns the text of the scenario.
    ///
    /// # Errors
    /// If the text cannot be read.
    pub fn text(&self) -> Result<String> {
        let file = self.path.join(SCENARIO);
        fs::read_to_string(&file).with_context(|| file.display().to_string())
    }

    /// Returns the result of a cell; `None` if the cell has not finished.
    ///
    /// # Errors
    /// If the result cannot be read.
    pub fn ended(&self, cell: &str) -> Result<Option<CellEnd>> {
        let file = self.cell(cell).join(CELL);
        let place = || file.display().to_string();
        match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).with_context(place).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(place),
        }
    }

    /// Writes files into a cell's folder, and returns the path of this folder. The cell counts as
    /// finished only after [`end`](Self::end).
    ///
    /// # Errors
    /// If the files cannot be written.
    pub fn keep(&self, cell: &str, files: &[(String, Vec<u8>)]) -> Result<PathBuf> {
        let folder = self.cell(cell);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        for (name, bytes) in files {
            replace(&folder.join(name), bytes)?;
        }
        Ok(folder)
    }

    /// Stores the result of a cell, which marks the cell as finished.
    ///
    /// # Errors
    /// If the result cannot be written.
    pub fn end(&self, ended: &CellEnd) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(ended)?;
        text.push(b'\n');
        self.keep(&ended.cell, &[(CELL.to_owned(), text)]).map(drop)
    }

    /// Copies cells from the folder of another run. Leaves out failed cells, and cells that this
    /// folder already has. Returns the number of copied cells.
    ///
    /// # Errors
    /// If the other folder has another scenario, or if a file cannot be copied.
    pub fn take(&self, other: &Folder) -> Result<usize> {
        if self.scenario != other.scenario {
            bail!(
                "{} and {} hold different scenarios: only runs of the same one can be merged",
                self.path.display(),
                other.path.display()
            );
        }
        let mut taken = 0;
        for cell in other.scenario.cells().iter().map(|cell| cell.name()) {
            let is_measured = |folder: &Folder| {
                let ended = folder.ended(&cell)?;
                anyhow::Ok(ended.is_some_and(|ended| ended.failure.is_none()))
            };
            if is_measured(other)? && !is_measured(self)? {
                self.copy(&cell, other)?;
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// Copies a cell's files. The file with its result is copied last.
    fn copy(&self, cell: &str, other: &Folder) -> Result<()> {
        let from = other.cell(cell);
        let mut files: Vec<PathBuf> = fs::read_dir(&from)?
            .map(|file| Ok(file?.path()))
            .collect::<Result<_>>()?;
        files.sort_by_key(|file| file.ends_with(CELL));
        for file in files {
            let name = file.file_name().context("a file without a name")?;
            let bytes = fs::read(&file).with_context(|| file.display().to_string())?;
            self.keep(cell, &[(name.to_string_lossy().into_owned(), bytes)])?;
        }
        Ok(())
    }

    fn cell(&self, cell: &str) -> PathBuf {
        self.path.join(cell)
    }
}

/// Replaces a file. Other programs see either the old or the new content.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let place = || path.display().to_string();
    let folder = path.parent().context("a file in no folder")?;
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(place)?;
    file.write_all(bytes)
        .and_then(|()| file.as_file().sync_all())
        .with_context(place)?;
    file.persist(path).with_context(place)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;
    use crate::library;

    fn ended(cell: &str, failure: Option<&str>) -> CellEnd {
        CellEnd {
            cell: cell.to_owned(),
            accel: Accel::Tcg,
            machine: None,
            seed: 1,
            version: "0".to_owned(),
            took_ms: 1,
            commands: Vec::new(),
            repetitions: vec![RepetitionFigures::default()],
            failure: failure.map(str::to_owned),
        }
    }

    #[test]
    fn what_has_ended_is_read_again_and_a_folder_keeps_its_scenario() {
        let place = tempfile::tempdir().unwrap();
        let text = library::text("isolation").unwrap();
        let folder = Folder::create(place.path(), text).unwrap();
        assert_eq!(folder.ended("as-is").unwrap(), None);
        folder.end(&ended("as-is", None)).unwrap();
        let said_in_full = crate::scenario::repeated(text, 1).unwrap();
        assert_ne!(said_in_full, text);
        let again = Folder::create(place.path(), &said_in_full).unwrap();
        assert_eq!(again.ended("as-is").unwrap(), Some(ended("as-is", None)));
        let other = library::text("xen-load").unwrap();
        let refused = Folder::create(place.path(), other).unwrap_err().to_string();
        assert!(refused.contains("another scenario"), "{refused}");
    }

    #[test]
    fn merged_is_what_was_measured_and_is_not_there_yet() {
        let [here, there] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let text = library::text("xen-tsc").unwrap();
        let [here, there] = [&here, &there].map(|it| Folder::create(it.path(), text).unwrap());
        let recording = ("measured-1.vmn".to_owned(), vec![1, 2, 3]);
        let from = there.keep("as-is", &[recording]).unwrap();
        there.end(&ended("as-is", None)).unwrap();
        there.end(&ended("tsc-emulated", Some("no"))).unwrap();
        assert_eq!(here.take(&there).unwrap(), 1);
        assert_eq!(here.ended("tsc-emulated").unwrap(), None);
        let copy = here.cell("as-is").join("measured-1.vmn");
        assert_eq!(
            fs::read(copy).unwrap(),
            fs::read(from.join("measured-1.vmn")).unwrap()
        );
        assert_eq!(here.take(&there).unwrap(), 0, "it is there");
    }
}

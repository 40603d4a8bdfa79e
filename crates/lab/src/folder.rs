//! What a run leaves: a folder with its scenario, and in it a folder for each cell that has ended.
//!
//! `scenario.toml` is the text that was run, `CELL/cell.json` how a cell ended and what it measured,
//! `CELL/*.vmn` its recordings, `CELL/measured-*.json` what cyclictest wrote, or what vmnoise's own guest said beside
//! its recording, `CELL/console.txt` what its machines said.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::accel::Accel;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::scenario::Scenario;

const SCENARIO: &str = "scenario.toml";
const CELL: &str = "cell.json";

/// How a cell ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its name.
    pub cell: String,
    /// On what it ran.
    pub accel: Accel,
    /// On which machine, if that was a real one.
    pub machine: Option<Machine>,
    /// What was random came from it.
    pub seed: u64,
    /// Which programs measured: the version, and what tells one `vmnoise` from another.
    pub version: String,
    /// How long it took on this machine, ms.
    pub took_ms: u64,
    /// What was run, on which side.
    pub commands: Vec<String>,
    /// One for each repetition; none if it failed.
    pub repetitions: Vec<Figures>,
    /// Why it failed, with the end of its console.
    pub failure: Option<String>,
}

impl Ended {
    /// In words.
    pub fn made_with(&self) -> String {
        let machine = self.machine.as_ref().map(Machine::words);
        let machine = machine.map_or(String::new(), |machine| format!(" ({machine})"));
        format!(
            "{}{machine}, seed {}, vmnoise {}",
            self.accel, self.seed, self.version
        )
    }
}

/// A run's folder.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    /// What was run.
    pub scenario: Scenario,
}

impl Folder {
    /// One for this scenario, or the one that is there and has the same.
    ///
    /// # Errors
    /// If it holds another scenario, or cannot be written.
    pub fn create(path: &Path, text: &str) -> Result<Folder> {
        let place = || path.display().to_string();
        fs::create_dir_all(path).with_context(place)?;
        let file = path.join(SCENARIO);
        match fs::read_to_string(&file) {
            Ok(there) => ensure!(
                Scenario::parse(&there).ok() == Scenario::parse(text).ok(),
                "{} is of another scenario: name another folder with -o, or remove it",
                place()
            ),
            Err(_) => replace(&file, text.as_bytes())?,
        }
        Folder::open(path)
    }

    /// One that a run has left.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(path: &Path) -> Result<Folder> {
        let file = path.join(SCENARIO);
        let text = fs::read_to_string(&file).with_context(|| {
            format!(
                "{}: no folder of `vmnoise-lab run -o` is here",
                file.display()
            )
        })?;
        let scenario = Scenario::parse(&text);
        Ok(Folder {
            path: path.to_owned(),
            scenario: scenario.with_context(|| file.display().to_string())?,
        })
    }

    /// Its text, as it was run.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn text(&self) -> Result<String> {
        let file = self.path.join(SCENARIO);
        fs::read_to_string(&file).with_context(|| file.display().to_string())
    }

    /// How a cell ended; `None` if it was not run to its end.
    ///
    /// # Errors
    /// If that cannot be read.
    pub fn ended(&self, cell: &str) -> Result<Option<Ended>> {
        let file = self.cell(cell).join(CELL);
        let place = || file.display().to_string();
        match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).with_context(place).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(place),
        }
    }

    /// Puts a cell's files into its folder, recordings first, and gives their folder. It has ended only with
    /// [`end`](Self::end).
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep(&self, cell: &str, files: &[(String, Vec<u8>)]) -> Result<PathBuf> {
        let folder = self.cell(cell);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        for (name, bytes) in files {
            replace(&folder.join(name), bytes)?;
        }
        Ok(folder)
    }

    /// A cell has ended.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn end(&self, ended: &Ended) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(ended)?;
        text.push(b'\n');
        self.keep(&ended.cell, &[(CELL.to_owned(), text)]).map(drop)
    }

    /// Takes over what another run of the same scenario has measured. What failed there, or is measured here
    /// too, is left.
    ///
    /// # Errors
    /// If it is of another scenario, or the files cannot be copied.
    pub fn take(&self, other: &Folder) -> Result<usize> {
        if self.scenario != other.scenario {
            bail!(
                "{} and {} are of two scenarios: only runs of one can be merged",
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

    /// How it ended comes last.
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

/// Whole or not at all.
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
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

    use super::*;
    use crate::library;

    fn ended(cell: &str, failure: Option<&str>) -> Ended {
        Ended {
            cell: cell.to_owned(),
            accel: Accel::Tcg,
            machine: None,
            seed: 1,
            version: "0".to_owned(),
            took_ms: 1,
            commands: Vec::new(),
            repetitions: vec![Figures::default()],
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

//! What works on the host beside what is measured.

use std::path::Path;

use anyhow::Result;
use vmnoise_labs::{Tied, lab_program};

use super::Host;
use crate::scenario::{Cell, Load};

/// The program that makes system calls and interrupts, at ordinary priority.
const PROGRAM: &str = "lab-disturb";

/// It works until it is dropped.
#[derive(Debug)]
pub(super) struct Loaded {
    program: Option<Tied>,
    words: [String; 2],
}

impl Loaded {
    /// Lets what a cell wants work on the CPU that is measured.
    pub(super) fn start(host: &Host, cell: &Cell, folder: &Path) -> Result<Loaded> {
        let words = ["calls".to_owned(), host.cpu.to_string()];
        let is_wanted = cell.load == Load::SystemCalls;
        let start = || Tied::start(&lab_program(PROGRAM)?, &words, &folder.join("load-said"));
        Ok(Loaded {
            program: is_wanted.then(start).transpose()?,
            words,
        })
    }

    /// The command, if there is one.
    pub(super) fn command(&self) -> Option<String> {
        let is_there = self.program.is_some();
        is_there.then(|| format!("{PROGRAM} {}", self.words.join(" ")))
    }
}

//! What works on the host beside what is measured.

use std::path::Path;

use anyhow::{Result, ensure};
use vmnoise_labs::{Tied, installed, lab_program, stress_ng};

use super::Host;
use crate::scenario::{Cell, Kernel, Load, Policy};

/// The program that makes system calls and interrupts, at ordinary priority.
const CALLS: &str = "lab-disturb";
/// The one that sends packets, and what lets it do so in a network namespace of its own, which ends with it
/// (util-linux).
const PACKETS: &str = "lab-network";
const IN_ITS_OWN: [&str; 3] = ["unshare", "--net", "--mount"];
/// As the machine has it.
const STRESS_NG: &str = "stress-ng";

/// It works until it is dropped.
#[derive(Debug)]
pub(super) struct Loaded {
    program: Option<Tied>,
    words: Vec<String>,
}

impl Loaded {
    /// Lets what a cell wants work on the CPU that is measured.
    pub(super) fn start(host: &Host, cell: &Cell, folder: &Path) -> Result<Loaded> {
        let words = words(host.cpu, cell.load)?;
        let start = |words: &[String]| {
            let (program, arguments) = words.split_first()?;
            Some(Tied::start(
                Path::new(program),
                arguments,
                &folder.join("load-said"),
            ))
        };
        Ok(Loaded {
            program: start(&words).transpose()?,
            words,
        })
    }

    /// That it has worked until now, if there is one.
    ///
    /// # Errors
    /// If it has ended, with what it said.
    pub(super) fn has_worked(&mut self) -> Result<()> {
        let Some(program) = &mut self.program else {
            return Ok(());
        };
        let ended = program.ended()?;
        ensure!(
            ended.is_none(),
            "the load `{}` ended before what it was to load: {}",
            self.words.join(" "),
            program.said().trim()
        );
        Ok(())
    }

    /// The command, if there is one.
    pub(super) fn command(&self) -> Option<String> {
        self.program.is_some().then(|| self.words.join(" "))
    }
}

/// What loads this CPU.
fn words(cpu: u32, load: Load) -> Result<Vec<String>> {
    let program = |name| anyhow::Ok(lab_program(name)?.to_string_lossy().into_owned());
    let packets = |place: &str| {
        let in_its_own = IN_ITS_OWN.map(str::to_owned);
        let flood = ["flood".to_owned(), cpu.to_string(), place.to_owned()];
        anyhow::Ok([&in_its_own[..], &[program(PACKETS)?], &flood].concat())
    };
    Ok(match load {
        Load::SystemCalls => vec![program(CALLS)?, "calls".to_owned(), cpu.to_string()],
        Load::Network => packets("here")?,
        Load::NetworkElsewhere => packets("elsewhere")?,
        Load::StressNg => stress_ng(cpu).split(' ').map(str::to_owned).collect(),
        Load::Idle | Load::Bursts => Vec::new(),
    })
}

/// Why there is no such load here, if there is none.
pub(super) fn refusal(cell: &Cell) -> Option<&'static str> {
    let is_packets = matches!(cell.load, Load::Network | Load::NetworkElsewhere);
    let waits = cell.host_kernel == Kernel::Rt && cell.policy == Policy::Fifo1;
    match cell.load {
        Load::Bursts => Some("`system-calls` is the load that there is here"),
        Load::StressNg if !installed::is_here(STRESS_NG) => {
            Some("stress-ng is not here: install the package stress-ng")
        }
        _ if is_packets && waits => Some(
            "PREEMPT_RT receives packets of this load in ksoftirqd at SCHED_OTHER, which waits for ever beside a task at \
             FIFO 1 that polls: take `policy = \"other\"`, or the ordinary kernel",
        ),
        _ => None,
    }
}

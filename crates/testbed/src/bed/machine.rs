//! Runs QEMU until its machine powers off. If the machine hangs, QEMU is ended, and the error
//! reports the states of the machine's CPUs.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::qemu::Qemu;
use crate::schedstat;

/// Time in which the monitor must answer.
const ANSWER: Duration = Duration::from_secs(1);
/// Time without output after which a machine's CPUs are checked.
const SILENCE: Duration = Duration::from_secs(40);

/// Size of a kernel stack in bytes (arch/x86/include/asm/page_64_types.h).
const STACK: u64 = 16 << 10;
/// Number of 64-bit words at the low end of a stack that an error shows.
const WORDS_OF_ITS_END: u32 = 64;

/// QEMU's monitor.
#[derive(Debug)]
pub(super) struct Monitor<'a> {
    /// Pipe from which the monitor reads. One of the machine's serial ports also writes to this
    /// pipe.
    requests: File,
    /// File to which the monitor writes its answers.
    answers: &'a Path,
}

impl<'a> Monitor<'a> {
    /// Creates the pipe `requests`, from which the monitor shall read.
    pub(super) fn new(requests: &Path, answers: &'a Path) -> Result<Monitor<'a>> {
        mknodat(CWD, requests, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .with_context(|| requests.display().to_string())?;
        // This process also opens the pipe for writing, so the pipe has no end of file while the
        // machine runs.
        let requests = File::options().read(true).write(true).open(requests)?;
        Ok(Monitor { requests, answers })
    }

    /// Returns the state of each CPU: instruction pointer, privilege level, and whether the CPU is
    /// halted. Returns an empty text if the monitor does not answer.
    fn cpus(&self) -> Result<String> {
        Ok(states(&self.ask("info registers -a", ANSWER)?))
    }

    /// Takes 20 samples of all CPUs. Returns how often a CPU was at the first instruction of the
    /// handler of the breakpoint exception (INT3). A kernel without this fault executes breakpoints
    /// only rarely, while it patches its own code, so the samples do not hit one.
    fn found_at_breakpoints(&self) -> Result<usize> {
        // INT3 has the fourth gate of the interrupt descriptor table. A gate consists of two 64-bit
        // words (Intel SDM volume 3, 6.14.1).
        let registers = self.ask("info registers", ANSWER)?;
        let table = registers.lines().find_map(|line| line.strip_prefix("IDT="));
        let table = table.and_then(|line| line.split_whitespace().next());
        let Some(table) = table.and_then(|it| u64::from_str_radix(it, 16).ok()) else {
            return Ok(0);
        };
        let gate = self.ask(&format!("x/2xg {:#x}", table + 3 * 16), ANSWER)?;
        let Some(handler) = gate.lines().find_map(handler) else {
            return Ok(0);
        };
        let at = format!("RIP={handler:016x} ");
        let looks = (0..20).map(|_| self.ask("info registers -a", Duration::from_millis(50)));
        let looks = looks.collect::<Result<Vec<_>>>()?;
        Ok(looks.iter().map(|look| look.matches(&at).count()).sum())
    }

    /// Returns the words at the low end of the stack that each CPU uses.
    fn ends_of_stacks(&self) -> Result<String> {
        let registers = self.ask("info registers -a", ANSWER)?;
        let ends = registers.split_whitespace().filter_map(end_of_stack);
        let looks = ends.map(|end| self.ask(&format!("x/{WORDS_OF_ITS_END}xg {end:#x}"), ANSWER));
        let looks = looks.collect::<Result<Vec<_>>>()?.concat();
        // Removes the monitor's echo of the request.
        let words = looks.lines().filter(|line| line.contains(": 0x"));
        Ok(words.collect::<Vec<_>>().join("\n"))
    }

    /// Sends a request to the monitor, waits for `within`, and returns the answer so far.
    fn ask(&self, request: &str, within: Duration) -> Result<String> {
        let before = self.answers().len();
        writeln!(&self.requests, "{request}")?;
        std::thread::sleep(within);
        Ok(self.answers().split_off(before))
    }

    fn answers(&self) -> String {
        let answers = std::fs::read(self.answers).unwrap_or_default();
        String::from_utf8_lossy(&answers).into_owned()
    }
}

/// Returns the address of the handler in a gate of the interrupt descriptor table. `line` looks
/// like `fffffe0000000030: 0x83208e0000100ba0 0x00000000ffffffff`.
fn handler(line: &str) -> Option<u64> {
    let (_, words) = line.split_once(": 0x")?;
    let (low, high) = words.trim_end().split_once(" 0x")?;
    let [low, high] = [low, high].map(|word| u64::from_str_radix(word, 16));
    let (low, high) = (low.ok()?, high.ok()?);
    Some(high << 32 | low >> 48 << 16 | low & 0xffff)
}

/// Returns the low end of the stack into which a register points. The register looks like
/// `RSP=ffffc9000010fd28`.
fn end_of_stack(register: &str) -> Option<u64> {
    let pointer = u64::from_str_radix(register.strip_prefix("RSP=")?, 16).ok()?;
    Some(pointer & !(STACK - 1))
}

/// Joins the lines that name a CPU or show its instruction pointer and state.
fn states(registers: &str) -> String {
    // QEMU prints EIP while the kernel is still in protected mode.
    let report = |line: &&str| {
        ["CPU#", "RIP=", "EIP="]
            .iter()
            .any(|word| line.starts_with(word))
    };
    let lines: Vec<&str> = registers.lines().filter(report).collect();
    lines.join(" ")
}

/// Time for which the emulator's threads had a CPU of this machine, and time for which they waited
/// for a CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CpuTime {
    ran_ns: u64,
    waited_ns: u64,
}

impl CpuTime {
    fn of(pid: u32) -> CpuTime {
        let threads = schedstat::threads(pid).unwrap_or_default().into_iter();
        let times = threads.filter_map(|(tid, _)| schedstat::read(pid, tid).ok());
        times.fold(CpuTime::default(), |sum, times| CpuTime {
            ran_ns: sum.ran_ns + times.on_cpu_ns,
            waited_ns: sum.waited_ns + times.run_delay_ns,
        })
    }
}

impl std::fmt::Display for CpuTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [ran, waited] = [self.ran_ns, self.waited_ns].map(|ns| ns / 1_000_000_000);
        write!(
            f,
            "QEMU ran for {ran} s in all its threads, and waited for a CPU for {waited} s"
        )
    }
}

/// A fault of the emulator, after which the lab boots the machine once more. QEMU before 8.1 with
/// several threads may translate an instruction while another CPU overwrites it, and keep the
/// translation of the old instruction. A CPU of the guest then executes a breakpoint again and
/// again, although the kernel had set this breakpoint only for a moment.
#[derive(Debug, thiserror::Error)]
#[error(
    "the emulator runs an INT3 that is no longer there: {found} samples found a CPU at its handler"
)]
pub(super) struct StaleBreakpoint {
    pub(super) found: usize,
}

/// A panic of a machine's kernel. The lab does not boot the machine again, because the kernel runs
/// our BPF programs, which may be the cause.
#[derive(Debug, thiserror::Error)]
#[error("its kernel panicked: {why}; where its CPUs' stacks end: {ends}")]
pub(super) struct KernelPanic {
    pub(super) why: String,
    pub(super) ends: String,
}

impl KernelPanic {
    /// Start of the message that `vpanic` in kernel/panic.c prints.
    const BEGIN: &str = "Kernel panic - not syncing: ";

    /// Returns the reason of the panic that this console shows. Returns `None` if the console shows
    /// no panic, or its line is not complete yet.
    fn why(console: &str) -> Option<&str> {
        let (_, why) = console.split_once(KernelPanic::BEGIN)?;
        let (why, _) = why.split_once('\n')?;
        Some(why.trim_end())
    }
}

/// Files to which a machine writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'a> {
    /// File with the results. It grows while the machine makes progress.
    pub results: &'a Path,
    pub console: &'a Path,
}

/// Conditions for ending a machine that does not end by itself.
#[derive(Debug)]
pub(super) struct Patience {
    /// Time after which the machine counts as hung. The time that QEMU waited for a CPU is not
    /// counted.
    pub backstop: Duration,
    /// Flag that another thread sets when the result is no longer wanted.
    pub asked_to_end: Arc<AtomicBool>,
}

/// Runs the machine until it powers off, hangs, or is no longer wanted.
pub(super) fn run(
    qemu: &Qemu,
    arguments: &[String],
    monitor: &Monitor<'_>,
    written: Written<'_>,
    patience: &Patience,
) -> Result<()> {
    let mut qemu = qemu
        .command()
        .args(arguments)
        .stdin(monitor.requests.try_clone()?)
        .stdout(File::create(monitor.answers)?)
        .stderr(Stdio::piped())
        .spawn()
        .context("starting QEMU")?;
    let ended = wait(&mut qemu, monitor, written, patience);
    // QEMU has ended already, or must end now.
    qemu.kill()?;
    let output = qemu.wait_with_output()?;
    ended?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("qemu ended with {}: {}", output.status, said.trim());
    }
    Ok(())
}

fn wait(
    qemu: &mut Child,
    monitor: &Monitor<'_>,
    written: Written<'_>,
    patience: &Patience,
) -> Result<()> {
    let size_of = |file: &Path| std::fs::metadata(file).map_or(0, |file| file.len());
    let backstop = patience.backstop;
    let start = Instant::now();
    let (mut size, mut silent_since) = (0, start);
    let mut said = 0;
    loop {
        // Checked before the console is read, because QEMU writes nothing more to the console after
        // its end.
        let has_ended = qemu.try_wait()?.is_some();
        ensure!(
            !patience.asked_to_end.load(Ordering::Relaxed),
            "the machine was ended early"
        );
        let said_now = size_of(written.console);
        if said_now != said {
            said = said_now;
            let console = std::fs::read(written.console)?;
            if let Some(why) = KernelPanic::why(&String::from_utf8_lossy(&console)) {
                let why = why.to_owned();
                let ends = match has_ended {
                    true => "the machine ended before they could be looked at".to_owned(),
                    false => monitor.ends_of_stacks()?,
                };
                return Err(KernelPanic { why, ends }.into());
            }
        }
        if has_ended {
            return Ok(());
        }
        let size_now = size_of(written.results);
        if size_now != size {
            (size, silent_since) = (size_now, Instant::now());
        }
        if silent_since.elapsed() > SILENCE {
            silent_since = Instant::now();
            let found = monitor.found_at_breakpoints()?;
            if found > 1 {
                return Err(StaleBreakpoint { found }.into());
            }
        }
        if start.elapsed() > backstop {
            let got = CpuTime::of(qemu.id());
            // A lab on a busy machine may wait long for a CPU without a hang.
            if start.elapsed() <= backstop + Duration::from_nanos(got.waited_ns) {
                std::thread::sleep(Duration::from_millis(200));
                continue;
            }
            // Two samples show whether a CPU makes progress.
            let (first, then) = (monitor.cpus()?, monitor.cpus()?);
            bail!(
                "the lab did not end within {backstop:?}; {got}; its CPUs: {first}; then: {then}"
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_gate_leads_where_its_three_parts_say() {
        let line = "fffffe0000000030: 0x83208e0000100ba0 0x00000000ffffffff\r";
        assert_eq!(super::handler(line), Some(0xffff_ffff_8320_0ba0));
        assert_eq!(super::handler("(qemu) x/2xg 0xfffffe0000000030"), None);
    }

    #[test]
    fn a_panic_is_told_once_its_line_is_whole() {
        let why = super::KernelPanic::why;
        let line = "[    2.5] Kernel panic - not syncing: Fatal exception in interrupt";
        assert_eq!(why(line), None);
        let console = format!("[    2.4] RIP: 0010:x\r\n{line}\r\n[    2.5] more\r\n");
        assert_eq!(why(&console), Some("Fatal exception in interrupt"));
        assert_eq!(why("all is well\n"), None);
    }

    #[test]
    fn a_stack_ends_below_the_pointer_into_it() {
        let end = super::end_of_stack("RSP=ffffc9000010fd28");
        assert_eq!(end, Some(0xffff_c900_0010_c000));
        assert_eq!(super::end_of_stack("RBP=ffffc9000010fd28"), None);
    }

    mod lab {
        use super::super::*;

        fn run_for(arguments: &[&str], backstop: Duration, is_ended: bool) -> anyhow::Error {
            let folder = tempfile::tempdir().unwrap();
            let answers = folder.path().join("answers");
            let monitor = Monitor::new(&folder.path().join("requests"), &answers).unwrap();
            let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
            let qemu = Qemu::chosen().unwrap();
            let patience = Patience {
                backstop,
                asked_to_end: Arc::new(is_ended.into()),
            };
            let written = Written {
                results: &answers,
                console: &answers,
            };
            run(qemu, &arguments, &monitor, written, &patience).unwrap_err()
        }

        #[test]
        fn a_machine_that_does_not_end_is_ended_and_its_cpus_are_reported() {
            let stopped = "-nodefaults -display none -monitor stdio -smp 2 -S";
            let stopped: Vec<&str> = stopped.split(' ').collect();
            let error = run_for(&stopped, Duration::from_millis(300), false).to_string();
            assert!(error.contains("did not end"), "{error}");
            assert_eq!(error.matches("CPU#1").count(), 2, "{error}");
            assert_eq!(error.matches("HLT=").count(), 4, "{error}");
        }

        #[test]
        fn a_machine_that_nobody_wants_any_more_is_ended() {
            let stopped = ["-nodefaults", "-display", "none", "-monitor", "stdio", "-S"];
            let error = run_for(&stopped, Duration::from_secs(60), true).to_string();
            assert!(error.contains("ended early"), "{error}");
        }

        /// Runs a machine whose console file shows a panic, and returns the error.
        fn panicked(arguments: &[&str]) -> anyhow::Error {
            let folder = tempfile::tempdir().unwrap();
            let file = |name: &str| folder.path().join(name);
            let (answers, console) = (file("answers"), file("console"));
            let line = "[ 1.0] Kernel panic - not syncing: corrupted stack end detected inside scheduler\n";
            std::fs::write(&console, line).unwrap();
            let monitor = Monitor::new(&file("requests"), &answers).unwrap();
            let patience = Patience {
                backstop: Duration::from_secs(60),
                asked_to_end: Arc::default(),
            };
            let written = Written {
                results: &answers,
                console: &console,
            };
            let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
            let qemu = Qemu::chosen().unwrap();
            run(qemu, &arguments, &monitor, written, &patience).unwrap_err()
        }

        #[test]
        fn a_kernel_that_panicked_is_reported_whether_its_machine_is_up_or_gone() {
            let up = ["-nodefaults", "-display", "none", "-monitor", "stdio", "-S"];
            for arguments in [&up[..], &["--version"]] {
                let error = panicked(arguments);
                assert!(error.is::<KernelPanic>(), "{error:#}");
                assert!(
                    error.to_string().contains("corrupted stack end detected"),
                    "{error:#}"
                );
            }
        }

        #[test]
        fn what_qemu_complains_of_is_reported() {
            let error = run_for(&["-no-such-option"], Duration::from_secs(60), false);
            assert!(error.to_string().contains("no-such-option"), "{error:#}");
        }
    }
}

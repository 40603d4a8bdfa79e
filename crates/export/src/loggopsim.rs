//! Writes the gaps of one CPU as a noise trace for LogGOPSim (`--noise-trace`).
//!
//! Source: `src/LogGOPSim/Noise.hpp` of github.com/spcl/LogGOPSim. A line has the begin and the
//! length of a gap in nanoseconds, separated by a tab. Lines that begin with `#` are ignored.
//! LogGOPSim reads the file by these rules:
//!
//! - The begin of the last line is the length of the trace. After this time the trace repeats.
//! - Noise in the first line has an effect only for ranks that start during this noise.
//! - Text after the last newline is also a line. So the file must not end with a newline.
//!
//! Therefore the first and the last line have length 0.

use std::io::{self, Write};
use std::path::Path;

use vmnoise_events::ShownLine;

use crate::error::{ExportError, io_error};
use crate::owner::make_folder;
use crate::whole_file::{Readers, WholeFile};

/// Gaps of one CPU for LogGOPSim.
#[derive(Debug)]
pub struct NoiseTrace {
    /// Number of the CPU on which the gaps occurred.
    pub cpu: u32,
    /// Begin and end of the measured time, CLOCK_MONOTONIC in nanoseconds.
    pub measured_ns: (u64, u64),
    /// Begin (CLOCK_MONOTONIC) and length of each gap in nanoseconds, sorted by begin.
    pub gaps_ns: Vec<(u64, u64)>,
}

impl NoiseTrace {
    /// Writes the file `cpuN.noise` into this folder. `of` names the recording in the file's
    /// comment.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, folder: &Path, of: &str) -> Result<(), ExportError> {
        let path = folder.join(format!("cpu{}.noise", self.cpu));
        let put = || {
            make_folder(folder)?;
            let file = WholeFile::create_here(&path, Readers::Anyone)?;
            let mut out = io::BufWriter::new(file);
            self.write_lines(&mut out, of)?;
            out.into_inner()?.finish()
        };
        put().map_err(io_error(&path))
    }

    fn write_lines(&self, out: &mut impl Write, of: &str) -> io::Result<()> {
        let (from_ns, to_ns) = self.measured_ns;
        writeln!(
            out,
            "# {}, CPU {}: begin and length of gaps, ns",
            ShownLine::from(of),
            self.cpu
        )?;
        write!(out, "0\t0")?;
        // End of the last written gap, in nanoseconds after the begin of the trace.
        let mut told_ns = 0;
        for (begin_ns, length_ns) in &self.gaps_ns {
            let end_ns = begin_ns.saturating_add(*length_ns).saturating_sub(from_ns);
            // Gaps must not overlap or begin at the same time.
            let begin_ns = begin_ns.saturating_sub(from_ns).max(told_ns).max(1);
            if end_ns > begin_ns {
                write!(out, "\n{begin_ns}\t{}", end_ns - begin_ns)?;
                told_ns = end_ns;
            }
        }
        let length_ns = to_ns.saturating_sub(from_ns).max(told_ns).max(1);
        write!(out, "\n{length_ns}\t0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file as LogGOPSim does. Every line, including the last one, must have two numbers.
    fn read(bytes: &[u8]) -> Vec<(u64, u64)> {
        let text = str::from_utf8(bytes).unwrap();
        let lines = text.split('\n').filter(|line| !line.starts_with('#'));
        let lines = lines.map(|line| {
            // LogGOPSim reads lines into a buffer of 1,024 bytes.
            assert!(line.len() < 1_024);
            let (begin, length) = line.split_once('\t').unwrap();
            let number = |text: &str| text.parse::<f64>().unwrap().round() as u64;
            (number(begin), number(length))
        });
        lines.collect()
    }

    /// Returns the noise, in nanoseconds, that LogGOPSim adds to a computation with this begin and
    /// length.
    fn added_ns(trace: &[(u64, u64)], begin_ns: u64, length_ns: u64) -> u64 {
        let mut place = trace.partition_point(|(at_ns, _)| *at_ns <= begin_ns) - 1;
        let (at_ns, ns) = trace[place];
        let mut added_ns = (at_ns + ns).saturating_sub(begin_ns);
        let mut end_ns = begin_ns + length_ns;
        let trace_ns = trace[trace.len() - 1].0;
        while end_ns > trace[place + 1].0 {
            place += 1;
            added_ns += trace[place].1;
            if place == trace.len() - 1 {
                end_ns -= trace_ns;
                place = 0;
            }
        }
        added_ns
    }

    fn written(trace: &NoiseTrace) -> Vec<(u64, u64)> {
        let mut bytes = Vec::new();
        trace.write_lines(&mut bytes, "a.vmn").unwrap();
        assert!(bytes.starts_with(b"# a.vmn, CPU 3: ") && !bytes.ends_with(b"\n"));
        read(&bytes)
    }

    #[test]
    fn its_reader_meets_each_gap_once_and_as_often_as_the_run_is_long() {
        let trace = NoiseTrace {
            cpu: 3,
            measured_ns: (1_000, 2_000),
            gaps_ns: vec![(1_000, 10), (1_100, 50), (1_140, 20), (1_900, 7)],
        };
        let read = written(&trace);
        let expected = [(0, 0), (1, 9), (100, 50), (150, 10), (900, 7), (1_000, 0)];
        assert_eq!(read, expected);
        // A computation of 999 ns meets all gaps of the trace, wherever it begins.
        for begin_ns in [0, 60, 500, 899] {
            assert_eq!(added_ns(&read, begin_ns, 999), 9 + 60 + 7, "{begin_ns}");
        }
        // A computation that begins inside a gap waits for the rest of the gap.
        assert_eq!(added_ns(&read, 120, 5), 30);
    }

    #[test]
    fn a_quiet_cpu_is_a_trace_of_its_length() {
        let trace = NoiseTrace {
            cpu: 3,
            measured_ns: (5, 50),
            gaps_ns: Vec::new(),
        };
        assert_eq!(written(&trace), [(0, 0), (45, 0)]);
    }
}

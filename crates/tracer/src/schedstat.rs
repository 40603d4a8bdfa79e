//! What the scheduler counts for one thread: the independent check on what BPF says.

use std::{fs, io, path::Path};

/// Counters of one thread since it was created. Source: the first two numbers of
/// `/proc/PID/task/TID/schedstat` (Documentation/scheduler/sched-stats.rst), which
/// need CONFIG_SCHED_INFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedStat {
    /// Time spent on a CPU, in nanoseconds.
    pub on_cpu_ns: u64,
    /// Time spent runnable without a CPU, in nanoseconds.
    pub run_delay_ns: u64,
}

impl SchedStat {
    /// Reads the counters of thread `tid` of process `pid`. An error of kind
    /// `NotFound` is a thread that ended or a kernel without CONFIG_SCHED_INFO.
    pub fn of_thread(pid: u32, tid: u32) -> io::Result<SchedStat> {
        Self::read(&Path::new("/proc").join(format!("{pid}/task/{tid}/schedstat")))
    }

    fn read(path: &Path) -> io::Result<SchedStat> {
        let text = fs::read_to_string(path)?;
        parse(&text).ok_or_else(|| {
            let fault = format!(
                "{} holds no schedstat: {:?}",
                path.display(),
                text.trim_end()
            );
            io::Error::new(io::ErrorKind::InvalidData, fault)
        })
    }
}

fn parse(text: &str) -> Option<SchedStat> {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
    Some(SchedStat {
        on_cpu_ns: numbers.next()??,
        run_delay_ns: numbers.next()??,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_first_two_numbers() {
        let stat = SchedStat {
            on_cpu_ns: 3_141_592,
            run_delay_ns: 27_182,
        };
        assert_eq!(parse("3141592 27182 42\n"), Some(stat));
        assert_eq!(parse("3141592\n"), None);
        assert_eq!(parse("a b c\n"), None);
    }

    #[test]
    fn a_thread_that_ran_a_while_has_run() {
        // The counter moves at ticks and switches, not before.
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while SchedStat::of_thread(std::process::id(), tid)
            .unwrap()
            .on_cpu_ns
            == 0
        {
            assert!(
                std::time::Instant::now() < until,
                "on no CPU for 5 s of running"
            );
        }
    }

    #[test]
    fn a_thread_that_is_none_is_not_found() {
        let error = SchedStat::of_thread(std::process::id(), u32::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}

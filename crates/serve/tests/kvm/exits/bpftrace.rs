//! Counts exits by bpftrace, independently of vmnoise.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;

use vmnoise_host::{Host, KVM_PVM};
use vmnoise_testbed::with_debugfs;
use vmnoise_testkit::{TestProcess, wait_until};

/// Counts the exits of two processes' vCPUs by bpftrace. Every 20 ms, `lines` gets the current
/// instant in ns and the two counts so far.
pub struct Bpftrace {
    _process: TestProcess,
    lines: Arc<Mutex<Vec<[u64; 3]>>>,
}

impl Bpftrace {
    pub fn of(pids: [u32; 2]) -> Bpftrace {
        // Of the exits under kvm_pvm, KVM reports only those to the VMM.
        let module = Host::here().kvm_module();
        let event = match module.as_deref() {
            Some(KVM_PVM) => "kvm_userspace_exit",
            _ => "kvm_exit",
        };
        let [first, last] = pids;
        // `nsecs` also advances while a machine is suspended. A machine that runs this test is not
        // suspended.
        let program = format!(
            "BEGIN {{ @first = (uint64)0; @last = (uint64)0; }} \
             tracepoint:kvm:{event} /pid == {first}/ {{ @first++; }} \
             tracepoint:kvm:{event} /pid == {last}/ {{ @last++; }} \
             interval:ms:20 {{ printf(\"%llu %lld %lld\\n\", nsecs, @first, @last); }}"
        );
        // bpftrace finds tracepoints in tracefs, which is in debugfs.
        let mut command = with_debugfs(Path::new("bpftrace"));
        command.args(["-B", "line", "-e", &program]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = TestProcess::start(&mut command);
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let read = Arc::clone(&lines);
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let words = line.split(' ').map_while(|word| word.parse().ok());
                let words: Vec<u64> = words.collect();
                if let Ok(words) = <[u64; 3]>::try_from(words) {
                    read.lock().unwrap().push(words);
                }
            }
        });
        let bpftrace = Bpftrace {
            _process: process,
            lines,
        };
        wait_until("a count", || !bpftrace.lines.lock().unwrap().is_empty());
        bpftrace
    }

    /// Returns the least and the largest possible number of exits of a process between two
    /// instants. `which` is 0 or 1. The instants are CLOCK_MONOTONIC in ns.
    pub fn between(&self, which: usize, from_ns: u64, until_ns: u64) -> (u64, u64) {
        wait_until("the count of the end", || {
            let last = self.lines.lock().unwrap().last().copied();
            last.is_some_and(|[at, ..]| at > until_ns)
        });
        let lines = self.lines.lock().unwrap();
        let before = |ns| {
            let line = lines.iter().rfind(|[at, ..]| *at <= ns);
            line.expect("a count before")[1 + which]
        };
        let after = |ns| {
            let line = lines.iter().find(|[at, ..]| *at >= ns);
            line.expect("a count after")[1 + which]
        };
        let least = before(until_ns).saturating_sub(after(from_ns));
        (least, after(until_ns) - before(from_ns))
    }
}

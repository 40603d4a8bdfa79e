//! VMs that come, run and go, and the counts of their VMMs.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use rustix::process::nice;
use serde_json::Value;

/// Lengths of the VMs' lives, in turn; some are no longer than the time between two looks of
/// `vmnoise exits`.
const RUNS: [&str; 4] = ["10ms", "50ms", "200ms", "1s"];

/// Nice value of `vmnoise exits`: the test does not concern how 200 guests that never rest share a
/// CPU with their host. If the VMs were niced instead, next to other work they would run one at a
/// time.
pub const FIRST: i32 = -20;

/// VM that has ended.
pub struct EndedVm {
    /// Process of its VMM.
    pub pid: u32,
    /// Number of its calls of KVM_RUN; `None` if the VMM gave up because it got no CPU time for
    /// seconds.
    pub kvm_runs: Option<u64>,
}

pub fn vmnoise(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.args(words.split(' '));
    command
}

/// Keeps `at_a_time` VMs running while `more` returns true, and calls `meanwhile` repeatedly.
pub fn come_and_go(
    at_a_time: usize,
    more: impl Fn() -> bool + Sync,
    mut meanwhile: impl FnMut(),
) -> Vec<EndedVm> {
    let gone = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let keep_one = |place: usize| {
            let runs = RUNS.iter().cycle().skip(place);
            for time in runs.take_while(|_| more()) {
                let vm = run(place, time);
                gone.lock().unwrap().push(vm);
            }
        };
        let places = 0..at_a_time;
        let keepers: Vec<_> = places
            .map(|place| scope.spawn(move || keep_one(place)))
            .collect();
        // Set only now, since processes started earlier must not inherit it.
        nice(FIRST).unwrap();
        while keepers.iter().any(|keeper| !keeper.is_finished()) {
            thread::sleep(Duration::from_millis(5));
            meanwhile();
        }
        nice(-FIRST).unwrap();
    });
    gone.into_inner().unwrap()
}

/// Runs one VM to its end.
fn run(place: usize, time: &str) -> EndedVm {
    let cpu = place % thread::available_parallelism().unwrap();
    let mut vmm = vmnoise(&format!(
        "microvm --exercise io -c {cpu} -d {time} --format json"
    ));
    let vmm = vmm
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = vmm.id();
    let output = vmm.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let gave_up = stderr.contains("the CPU had no time for it");
    assert!(output.status.success() || gave_up, "{stderr}");
    let kvm_runs = output.status.success().then(|| {
        let reported: Value = serde_json::from_slice(&output.stdout).unwrap();
        reported["cpus"][0]["kvm_runs"].as_u64().unwrap()
    });
    EndedVm { pid, kvm_runs }
}

//! Settings that a recording keeps of its machine, so that the machine can be audited later or
//! elsewhere.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use vmnoise_events::Settings;

use crate::look::{look, look_at};
use crate::machine::AuditMachine;
use crate::rule::FactSource;
use crate::rules::{all, joint};
use crate::seen::Seen;

/// Longest time that a run waits for the settings. A machine with thousands of interrupts needs
/// about 50 ms. Files that were not read in this time count as not readable.
const PATIENCE: Duration = Duration::from_millis(200);

/// File with the id of the current boot. The id identifies a machine even if its name is not
/// unique.
pub const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

/// Returns all files that the rules read below `root`, for any selection of CPUs.
///
/// # Errors
/// If the online CPUs cannot be read, or a rule cannot be read.
pub fn settings(root: &Path) -> io::Result<Settings> {
    settings_within(root, PATIENCE)
}

pub(crate) fn settings_within(root: &Path, patience: Duration) -> io::Result<Settings> {
    let machine = AuditMachine::heard(root, Instant::now() + patience)?;
    // Read first, because this file identifies the machine, and the time may run out later.
    machine.read(BOOT_ID);
    let kernel = machine.kernel();
    for rule in all().map_err(io::Error::other)? {
        if rule.is_of_kernel(&kernel)
            && let Seen::Bad(bad) = look(&rule, &machine)
        {
            for bad in &bad {
                rule.change(bad, &machine);
            }
        }
    }
    // The machine may later be audited as the guest or the host of a pair.
    for rule in joint().map_err(io::Error::other)? {
        if let FactSource::Joint { guest, host, .. } = &rule.look {
            for condition in guest.iter().chain(host) {
                look_at(&condition.look, &[], &machine);
            }
        }
    }
    Ok(machine.into_settings())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Audit;
    use crate::rule::FileTree;
    use crate::tree::grown;

    /// A recorded machine gives the same findings as the machine itself, for any selection of CPUs.
    #[test]
    fn a_machine_is_judged_as_it_was_recorded() {
        for rule in all().unwrap() {
            // Threads are read from the current machine, not from a recording.
            let is_of_threads = |tree: &FileTree| {
                tree.keys()
                    .any(|path| path.starts_with("task/") || path.starts_with("vm/"))
            };
            if is_of_threads(&rule.trees.good) || is_of_threads(&rule.trees.bad) {
                continue;
            }
            for tree in [&rule.trees.good, &rule.trees.bad] {
                let root = grown(tree);
                // A busy machine may delay this test longer than a run would wait.
                let patience = Duration::from_secs(600);
                let recorded = settings_within(root.path(), patience).unwrap();
                for cpus in [&[2, 3][..], &[0], &[0, 1, 2, 3]] {
                    let here = AuditMachine::under(root.path(), cpus).unwrap();
                    let there = AuditMachine::recorded(recorded.clone(), cpus).unwrap();
                    let audit = |machine| {
                        let audit = Audit::new(vec![rule.clone()], machine, None);
                        format!("{audit:?}")
                    };
                    assert_eq!(audit(&there), audit(&here), "{}", rule.id);
                }
            }
        }
    }

    #[test]
    fn what_is_not_in_the_recording_cannot_be_read() {
        let mut recorded = Settings::default();
        let online = ("sys/devices/system/cpu/online", "0-3");
        recorded.insert(online.0, Some(online.1)).unwrap();
        let machine = AuditMachine::recorded(recorded, &[2]).unwrap();
        let rules: Vec<_> = all().unwrap();
        let of_all_kernels = rules.into_iter().filter(|it| it.is_of_kernel(&[]));
        let of_all_kernels: Vec<_> = of_all_kernels.collect();
        let count = of_all_kernels.len();
        let audit = Audit::new(of_all_kernels, &machine, None);
        assert_eq!(
            (audit.findings.len(), audit.good.len(), audit.absent.len()),
            (count, 0, 0),
            "{:?}",
            audit.absent
        );
        assert!(AuditMachine::recorded(Settings::default(), &[2]).is_err());
    }

    /// Prints how long a run would wait for the settings on this machine. There is no limit,
    /// because the machine's speed is unknown.
    #[test]
    fn here_it_is_read_in_time() {
        let begin = Instant::now();
        let recorded = settings(Path::new("/")).unwrap();
        let (took, count) = (begin.elapsed(), recorded.iter().count());
        println!("{count} files in {took:?}");
        assert!(count > 10, "{recorded:?}");
    }
}

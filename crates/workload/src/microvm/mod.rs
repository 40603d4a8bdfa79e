//! A microVM that measures gaps. It has one vCPU on each measured CPU, and each vCPU polls the TSC.
//!
//! The guest reads the hypervisor's steal clock at each gap. The host's live exit counts are in the
//! guest's memory, as the thesis proposes. The host takes the gaps from a ring, so the guest needs
//! no exit to report a gap.

mod clock;
mod error;
pub mod exercise;
mod guest;
mod histogram;
pub mod lapic_timer;
mod layout;
mod offer;
mod shared_pages;
mod state;
mod stats;
mod vcpu;
mod vm;

use std::sync::Arc;

use vmnoise_events::Policy;

pub use clock::GuestClock;
pub use error::Error;
pub use offer::{KvmOffer, check, offer, poll_steps};
pub use shared_pages::SharedPages;

use crate::worker::RunState;
use crate::workers::Workers;
use guest::GuestCommand;
use state::GuestState;
use stats::EXITS;
use vcpu::{GuestVcpu, Return};
use vm::MicrovmMemory;

/// Settings of the microVM.
#[derive(Debug, Clone)]
pub struct MicrovmConfig {
    /// Host CPUs. One vCPU is pinned to each of them.
    pub cpus: Vec<u32>,
    /// Minimum length of a recorded gap, in TSC cycles.
    pub threshold_tsc: u64,
    /// Policy of the vCPU threads; `None` to inherit the policy of this process.
    pub policy: Option<Policy>,
    /// Live exit counts for the guests. If `None`, the exit counts of all gaps are 0.
    pub exit_counts: Option<SharedPages>,
}

/// A prepared, running or ended microVM.
///
/// The times of its gaps and tallies are readings of the host's TSC. In its tallies, `light_exits`,
/// `heavy_exits` and `outer_steal_ns` are `None`, because only the tracer knows them.
pub type Microvm = Workers<GuestState>;

impl Microvm {
    /// Creates the VM and one pinned thread per vCPU, and determines the offset between the clocks
    /// of the guests and the host. The threads then wait for the start.
    ///
    /// # Errors
    /// If this machine cannot run the microVM. The error contains the remedy, and all threads have
    /// ended.
    pub fn prepare(config: MicrovmConfig) -> Result<Microvm, crate::Error> {
        let MicrovmConfig {
            cpus,
            threshold_tsc,
            policy,
            exit_counts,
        } = config;
        let vm = Arc::new(MicrovmMemory::create(&cpus, exit_counts)?);
        Workers::set_up("vcpu", &cpus, policy, None, |index, cpu| {
            vm.memory.mailbox(index).set_threshold(threshold_tsc);
            let vm = Arc::clone(&vm);
            move || {
                let mut vcpu = GuestVcpu::create(&vm, index, cpu)?;
                let exit_stat = vcpu.stat(EXITS);
                let state = GuestState::new(vm, &vcpu, exit_stat);
                let work = move |run: &RunState| poll(&mut vcpu, run);
                Ok((Arc::new(state), work))
            }
        })
    }

    /// Returns the relation between the guests' clocks and the host's TSC, in the form that is
    /// valid for all vCPUs.
    pub fn clock(&self) -> GuestClock {
        let clocks: Vec<GuestClock> = self.shared().map(|shared| shared.clock).collect();
        clock::weakest(&clocks).unwrap_or(GuestClock::UNKNOWN)
    }
}

/// Lets the guest poll until the run ends.
fn poll(vcpu: &mut GuestVcpu, run: &RunState) -> Result<(), crate::Error> {
    let mut command = GuestCommand::Poll;
    loop {
        let came_back = vcpu.obey(command, &|| run.barrier.is_closed())?;
        if came_back == Return::Abandoned || !run.lease.goes_on() {
            return Ok(());
        }
        command = GuestCommand::GoOn;
    }
}

#[cfg(test)]
mod kvm {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use rustix::fs::{MemfdFlags, memfd_create};
    use vmnoise_events::{Event, exit_counts};
    use vmnoise_testkit::{wait_until, wait_until_every};

    use super::*;
    use crate::shared_state::SharedState;
    use crate::{RunningWorkload, kick};

    fn endless(cpus: &[u32]) -> Microvm {
        let cpus = cpus.to_vec();
        Microvm::prepare(MicrovmConfig {
            cpus,
            threshold_tsc: 2_500,
            policy: None,
            exit_counts: None,
        })
        .unwrap()
    }

    #[test]
    fn a_guest_that_faults_is_named_and_the_others_go_on() {
        let mut microvm = endless(&[0, 1]);
        // No page table maps this address. Without an IDT, the access is a shutdown.
        let guest = microvm.shared().next().unwrap();
        guest
            .mailbox()
            .control
            .exit_counts
            .store(1 << 40, Ordering::Relaxed);
        microvm.start(None).unwrap();
        wait_until("a failure", || microvm.failure().is_some());
        let failure = microvm.failure().unwrap().to_string();
        assert!(failure.contains("KVM_EXIT_SHUTDOWN"), "{failure}");
        wait_until("the other vCPU", || microvm.tallies()[1].first_tsc > 0);
        assert!(microvm.running() && microvm.start(None).is_err());
        microvm.stop();
        assert_eq!(microvm.join().unwrap_err().to_string(), failure);
        assert!(!microvm.running());
    }

    #[test]
    fn a_signal_is_a_gap_and_no_end() {
        let mut microvm = endless(&[1]);
        microvm.start(None).unwrap();
        wait_until("the first reading", || microvm.tallies()[0].first_tsc > 0);
        for _ in 0..20 {
            let seen = microvm.tallies()[0];
            kick::kick(microvm.threads()[0].tid);
            // The host enters the guest again, and KVM updates the guest's steal clock.
            wait_until("readings after the kick", || {
                let now = microvm.tallies()[0];
                now.last_tsc > seen.last_tsc
                    && (now.reloads.is_none() || now.reloads > seen.reloads)
            });
        }
        assert!(microvm.failure().is_none());
        assert!(microvm.running());
    }

    /// The host counts exits all the time. At first, each iteration is too short for a gap, and the
    /// guest must discard the counts. At the end, each iteration is a gap.
    #[test]
    fn what_is_counted_in_a_hole_that_is_no_gap_is_of_no_gap() {
        const COUNTED: u64 = 1_000;
        let memory = memfd_create("counts", MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(memory);
        file.set_len(4096).unwrap();
        let light_at = (exit_counts::SLOT_BYTES + exit_counts::LIGHT_OFFSET) as u64;
        let pages = SharedPages::map(file.as_fd(), 4096).unwrap();
        let mut microvm = Microvm::prepare(MicrovmConfig {
            cpus: vec![1],
            threshold_tsc: u64::MAX >> 1,
            policy: None,
            exit_counts: Some(pages),
        })
        .unwrap();
        let control = &microvm.shared().next().unwrap().mailbox().control;
        control.look_tsc.store(0, Ordering::Relaxed);
        microvm.start(None).unwrap();
        wait_until("the first reading", || microvm.tallies()[0].first_tsc > 0);
        file.write_all_at(&COUNTED.to_ne_bytes(), light_at).unwrap();
        let seen = microvm.tallies()[0].last_tsc;
        wait_until("later readings", || {
            microvm.tallies()[0].last_tsc > seen + 100_000
        });
        let control = &microvm.shared().next().unwrap().mailbox().control;
        control.threshold_tsc.store(0, Ordering::Relaxed);
        let mut light = Vec::new();
        // Each step of the guest is a gap now, so the ring of gaps is soon full.
        wait_until_every(Duration::from_millis(1), "gaps", || {
            microvm.drain(&mut |event| {
                if let Event::Gap(gap) = event {
                    light.push(gap.light_exits);
                }
            });
            !light.is_empty()
        });
        microvm.stop();
        assert!(
            light.iter().all(|count| *count == 0),
            "{:?}",
            light.iter().max()
        );
    }

    #[test]
    fn a_guest_that_ignores_its_deadline_is_called_out() {
        let mut microvm = endless(&[1]);
        microvm.start(None).unwrap();
        wait_until("the end", || {
            microvm.call_away();
            !microvm.running()
        });
        assert_eq!(microvm.join(), Ok(()));
    }
}

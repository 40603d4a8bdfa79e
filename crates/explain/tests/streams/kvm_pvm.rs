//! Recordings of a host with `kvm_pvm`, whose tracepoints `kvm_exit` and `kvm_entry` never fire.

use vmnoise_events::{Event, VcpuInterval, VcpuIntervalKind};

use super::pairs::RecordedPair;

impl RecordedPair {
    /// Returns the pair as if the host did not see KVM's exits. Instead of exits, the host
    /// then reports waits of the vCPUs.
    pub fn under_kvm_pvm(mut self) -> RecordedPair {
        for event in &mut self.host {
            match event {
                Event::Vcpu(vcpu) => vcpu.sees_kvm = false,
                Event::Exit(reported) => {
                    *event = Event::VcpuInterval(VcpuInterval {
                        vcpu: reported.vcpu,
                        kind: VcpuIntervalKind::Waiting,
                        start_mono_ns: reported.exit.start_mono_ns,
                        end_mono_ns: reported.exit.end_mono_ns,
                        cpu: reported.exit.exit_cpu,
                        to_cpu: reported.exit.entry_cpu,
                        source: None,
                    });
                }
                _ => {}
            }
        }
        self
    }
}

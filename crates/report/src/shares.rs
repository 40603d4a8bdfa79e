//! Names and colours of shares on the page.

use vmnoise_events::Share;
use vmnoise_explain::OVERSLEPT;

/// Returns the colour of a share, which is visible on white and on near-black.
pub(crate) const fn colour(share: Share) -> &'static str {
    match share {
        Share::Nmi => "#7a5bd0",
        Share::Irq => "#3f7fd6",
        Share::Softirq => "#5fb0e8",
        Share::Thread => "#1f9e89",
        Share::Preempted => "#e4572e",
        Share::Steal => "#c8375f",
        Share::Throttled => "#d69a00",
        Share::Blocked => "#a9793f",
        Share::HostIrq => "#ef9a5a",
        Share::HostSoftirq => "#f2bd7c",
        Share::HostNmi => "#9c5a2a",
        Share::Kvm => "#8a63c9",
        Share::Vmm => "#c08ae0",
        Share::Halted => "#b4bcc6",
        Share::Hw => "#5c6f82",
        Share::HvOrHw => "#7f8f9f",
        Share::Unexplained => "#a7b0ba",
    }
}

/// Returns the name of a share for a legend.
pub(crate) const fn label(share: Share) -> &'static str {
    match share {
        Share::Nmi => "NMI",
        Share::Irq => "interrupt",
        Share::Softirq => "softirq",
        Share::Thread => "other thread",
        Share::Preempted => "preempted by a host task",
        Share::Steal => "steal",
        Share::Throttled => "throttled",
        Share::Blocked => "blocked",
        Share::HostIrq => "host interrupt",
        Share::HostSoftirq => "host softirq",
        Share::HostNmi => "host NMI",
        Share::Kvm => "KVM",
        Share::Vmm => "VMM",
        Share::Halted => "halted",
        Share::Hw => "hardware",
        Share::HvOrHw => "hypervisor or hardware",
        Share::Unexplained => "unexplained",
    }
}

/// Returns the cause of a share as the end of the sentence "71 % of the noise is ".
pub(crate) fn deed(share: Share, who: Option<&str>) -> String {
    if who == Some(OVERSLEPT) {
        return "sleep of the vCPU that its host ended only after the expiry".to_owned();
    }
    let Some(who) = who else {
        return nobody(share).to_owned();
    };
    match share {
        Share::Nmi => format!("the NMI {who}"),
        Share::Irq => format!("the interrupt {who}"),
        Share::Softirq => format!("the softirq {who}"),
        Share::Thread => format!("{who} running instead"),
        Share::Preempted => format!("{who} preempting the vCPU"),
        Share::Blocked => format!("sleep until {who} woke it"),
        Share::HostIrq => format!("the host’s interrupt {who}"),
        Share::HostSoftirq => format!("the host’s softirq {who}"),
        Share::HostNmi => format!("the host’s NMI {who}"),
        Share::Kvm => format!("KVM handling {who} exits"),
        Share::Vmm => format!("the VMM handling {who} exits"),
        _ => nobody(share).to_owned(),
    }
}

const fn nobody(share: Share) -> &'static str {
    match share {
        Share::Nmi => "NMIs",
        Share::Irq => "interrupts",
        Share::Softirq => "softirqs",
        Share::Thread => "other threads",
        Share::Preempted => "host tasks preempting the vCPU",
        Share::Steal => "steal: the hypervisor ran something else",
        Share::Throttled => "throttling by a quota or the real-time limit",
        Share::Blocked => "involuntary sleep",
        Share::HostIrq => "interrupts of the host",
        Share::HostSoftirq => "softirqs of the host",
        Share::HostNmi => "NMIs of the host",
        Share::Kvm => "KVM handling exits",
        Share::Vmm => "the VMM handling exits",
        Share::Halted => "sleep that the guest asked for",
        Share::Hw => "the hardware or its firmware",
        Share::HvOrHw => {
            "the hypervisor or the hardware below, which cannot be distinguished from here"
        }
        Share::Unexplained => "not explained by any probe",
    }
}

/// Returns the name of a task without its number: `stress-ng` for `stress-ng:4711`. All threads of
/// a program then have the same name.
pub(crate) fn program(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((program, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => program,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_distinguish_shares() {
        for share in Share::ALL {
            let same = Share::ALL.iter().filter(|it| colour(**it) == colour(share));
            assert_eq!(same.count(), 1, "{share}");
        }
    }

    #[test]
    fn a_program_is_its_tasks_without_their_numbers() {
        assert_eq!(program("stress-ng:4711"), "stress-ng");
        assert_eq!(program("kworker/1:6:18391"), "kworker/1:6");
        assert_eq!(program("cpuid"), "cpuid");
        assert_eq!(
            deed(Share::Preempted, Some("stress-ng")),
            "stress-ng preempting the vCPU"
        );
    }
}

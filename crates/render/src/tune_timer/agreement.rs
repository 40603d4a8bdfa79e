//! Comparison of the costs of halts by KVM and by the scheduler.

use vmnoise_workload::microvm::lapic_timer::{Halts, Times};

/// Largest error of /proc/stat in one turn. Each of three counts (`irq`, `softirq`, `steal`) may be
/// wrong by a tick of 10 ms.
const STAT_SLACK_NS: u64 = 3 * 10_000_000;
/// Largest error with which the check makes sense: the wall time, divided by this number. A larger
/// error would hide every disagreement.
const MOST_SLACK: u64 = 10;

/// Returns whether the times of KVM and of the scheduler can both be true. `None` if one of them is
/// unknown, or if the run is too short to show a disagreement.
///
/// Both sets of times describe the same thread. According to the scheduler, the thread slept for
/// its wall time, minus its run time and its run delay. The comparison may be wrong by `stolen_ns`,
/// because some kernels attribute this time to no thread. Within this error:
///
/// - KVM polled only while the thread ran or waited. So KVM's polling time is at most the run time
///   plus the run delay.
/// - The thread slept only while KVM slept. So KVM's sleep time is at least the thread's sleep
///   time.
/// - KVM's sleep time contains the thread's sleep, its wait for the CPU afterwards, and its run
///   time without polling. So KVM's sleep time is at most the sum of these times.
pub fn agree(times: &Times, halts: &Halts, turns: u64) -> Option<bool> {
    let (polled_ns, slept_ns) = (halts.polled_ns?, halts.slept_ns?);
    let (ran_ns, delayed_ns) = (times.ran_ns, times.delayed_ns?);
    let slack_ns = turns * STAT_SLACK_NS;
    if slack_ns > times.wall_ns / MOST_SLACK {
        return None;
    }
    let stolen_ns = times.stolen_ns? + slack_ns;
    let asleep_ns = times.wall_ns.saturating_sub(ran_ns + delayed_ns);
    let ran_without_polling_ns = ran_ns.saturating_sub(polled_ns);
    let polled_as_it_ran = polled_ns <= ran_ns + delayed_ns + stolen_ns;
    let slept_in_kvm = asleep_ns <= slept_ns + stolen_ns;
    let kvm_slept_no_longer =
        slept_ns <= asleep_ns + delayed_ns + ran_without_polling_ns + stolen_ns;
    Some(polled_as_it_ran && slept_in_kvm && kvm_slept_no_longer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const TIMES: Times = Times {
        wall_ns: 10 * S,
        ran_ns: 3 * S,
        delayed_ns: Some(S),
        stolen_ns: Some(0),
    };
    const HALTS: Halts = Halts {
        halts: Some(1000),
        polls: Some(1000),
        polls_in_time: Some(100),
        polled_ns: Some(2 * S),
        slept_ns: Some(6 * S + S / 2),
    };

    #[test]
    fn what_adds_up_agrees() {
        assert_eq!(agree(&TIMES, &HALTS, 10), Some(true));
    }

    #[test]
    fn what_cannot_both_be_true_does_not() {
        let halts = |polled_ns, slept_ns| Halts {
            polled_ns: Some(polled_ns),
            slept_ns: Some(slept_ns),
            ..HALTS
        };
        // KVM polled for 5 s, but the thread ran or waited for only 4 s.
        assert_eq!(agree(&TIMES, &halts(5 * S, 6 * S), 10), Some(false));
        // The thread slept for 6 s, but KVM knows only 5 s.
        assert_eq!(agree(&TIMES, &halts(2 * S, 5 * S), 10), Some(false));
        // KVM slept for 9 s, but the thread's sleep, wait and other run time are only 6 + 1 + 1 s.
        assert_eq!(agree(&TIMES, &halts(2 * S, 9 * S), 10), Some(false));
        // Time taken by the hypervisor below belongs to no thread.
        let stolen = Times {
            stolen_ns: Some(S),
            ..TIMES
        };
        assert_eq!(agree(&stolen, &halts(2 * S, 5 * S), 10), Some(true));
    }

    #[test]
    fn without_one_of_them_nothing_is_said() {
        let unknown = Halts {
            slept_ns: None,
            ..HALTS
        };
        assert_eq!(agree(&TIMES, &unknown, 1), None);
        // In 40 turns, /proc/stat may be wrong by 1.2 s of 10 s.
        assert_eq!(agree(&TIMES, &HALTS, 40), None);
    }
}

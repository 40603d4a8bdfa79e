//! Wake-ups for tests of the output.

use vmnoise_explain::{Detail, Interval, WakeupDetail};

/// Returns a wake-up with a known time for every step. `latency_ns` is the latency in user space.
pub fn wakeup(cpu: u32, irq_ns: u64, thread_ns: u64, latency_ns: u64) -> Interval {
    Interval {
        detail: Detail::Wakeup(WakeupDetail {
            irq_ns: Some(irq_ns),
            thread_ns: Some(thread_ns),
            phases_ns: [
                Some(0),
                Some(irq_ns),
                Some(0),
                Some(thread_ns - irq_ns),
                Some(latency_ns - thread_ns),
            ],
            ..WakeupDetail::default()
        }),
        ..unseen(cpu, latency_ns)
    }
}

/// Returns a wake-up without a known time for any step.
pub fn unseen(cpu: u32, latency_ns: u64) -> Interval {
    Interval {
        cpu,
        start_mono_ns: 1_000_000,
        dur_ns: latency_ns,
        detail: Detail::Wakeup(WakeupDetail {
            unsplit_ns: latency_ns,
            ..WakeupDetail::default()
        }),
        ..Interval::default()
    }
}

//! Wake-ups for tests of what is printed.

use vmnoise_explain::Wakeup;

/// One of which every step was seen; `latency_ns` is that of user space.
pub fn wakeup(cpu: u32, irq_ns: u64, thread_ns: u64, latency_ns: u64) -> Wakeup {
    Wakeup {
        irq_ns: Some(irq_ns),
        thread_ns: Some(thread_ns),
        phases_ns: [
            Some(0),
            Some(irq_ns),
            Some(0),
            Some(thread_ns - irq_ns),
            Some(latency_ns - thread_ns),
        ],
        unsplit_ns: 0,
        ..unseen(cpu, latency_ns)
    }
}

/// One of which no step was seen.
pub fn unseen(cpu: u32, latency_ns: u64) -> Wakeup {
    Wakeup {
        cpu,
        expiry_mono_ns: 1_000_000,
        latency_ns,
        irq_ns: None,
        thread_ns: None,
        phases_ns: [None; 5],
        unsplit_ns: latency_ns,
        witnessed: false,
        missed: 0,
        parts: Vec::new(),
        steal_clamped: false,
        hits_limit: false,
    }
}

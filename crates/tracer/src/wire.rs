//! The Rust types of `bpf/vmnoise.h`, generated from the object's BTF.

use std::mem::offset_of;

use vmnoise_events::{ActivityKind, InterferenceSlot, TimerSlot, exit_counts};

use crate::object::compiled;

compiled!("noise");

pub(crate) use generated::types::{
    vmnoise_cpu as CpuState, vmnoise_exits as ExitCounts, vmnoise_interference as WireInterference,
    vmnoise_mode as Mode, vmnoise_origin as Origin, vmnoise_record as Record,
    vmnoise_source as WireSource, vmnoise_steal as StealQuery, vmnoise_timer as WireTimer,
};

const _: () = {
    use generated::types::vmnoise_kind as Kind;
    assert!(size_of::<Record>() == 64);
    assert!(size_of::<CpuState>().is_multiple_of(128));
    assert!(size_of::<ExitCounts>() == exit_counts::SLOT_BYTES);
    assert!(offset_of!(ExitCounts, light) == exit_counts::LIGHT_OFFSET);
    assert!(offset_of!(ExitCounts, heavy) == exit_counts::HEAVY_OFFSET);
    assert!(size_of::<WireInterference>() == size_of::<InterferenceSlot>());
    assert!(offset_of!(WireInterference, total) == offset_of!(InterferenceSlot, total));
    assert!(offset_of!(WireInterference, nmi) == offset_of!(InterferenceSlot, nmi));
    assert!(offset_of!(WireInterference, irq) == offset_of!(InterferenceSlot, irq));
    assert!(offset_of!(WireInterference, softirq) == offset_of!(InterferenceSlot, softirq));
    assert!(offset_of!(WireInterference, thread) == offset_of!(InterferenceSlot, thread));
    assert!(size_of::<WireTimer>() == size_of::<TimerSlot>());
    assert!(offset_of!(WireTimer, expiry_mono_ns) == offset_of!(TimerSlot, expiry_mono_ns));
    assert!(offset_of!(WireTimer, armed_mono_ns) == offset_of!(TimerSlot, armed_mono_ns));
    assert!(offset_of!(WireTimer, irq_mono_ns) == offset_of!(TimerSlot, irq_mono_ns));
    assert!(offset_of!(WireTimer, waking_mono_ns) == offset_of!(TimerSlot, waking_mono_ns));
    assert!(offset_of!(WireTimer, switch_mono_ns) == offset_of!(TimerSlot, switch_mono_ns));
    assert!(offset_of!(WireTimer, before_steal_ns) == offset_of!(TimerSlot, before_steal_ns));
    assert!(offset_of!(WireTimer, armed_steal_ns) == offset_of!(TimerSlot, armed_steal_ns));
    assert!(offset_of!(WireTimer, irq_steal_ns) == offset_of!(TimerSlot, irq_steal_ns));
    assert!(offset_of!(WireTimer, waking_steal_ns) == offset_of!(TimerSlot, waking_steal_ns));
    assert!(offset_of!(WireTimer, switch_steal_ns) == offset_of!(TimerSlot, switch_steal_ns));
    assert!(Kind::VMNOISE_EXIT.0 == ActivityKind::Exit.number() as u32);
    assert!(Kind::VMNOISE_VMM.0 == ActivityKind::Vmm.number() as u32);
    assert!(Kind::VMNOISE_THROTTLED.0 == ActivityKind::Throttled.number() as u32);
    assert!(Kind::VMNOISE_THREAD.0 == ActivityKind::Thread.number() as u32);
    assert!(Kind::VMNOISE_BLOCKED.0 == ActivityKind::Blocked.number() as u32);
    assert!(Kind::VMNOISE_SOFTIRQ.0 == ActivityKind::Softirq.number() as u32);
    assert!(Kind::VMNOISE_IRQ.0 == ActivityKind::Irq.number() as u32);
    assert!(Kind::VMNOISE_NMI.0 == ActivityKind::Nmi.number() as u32);
    assert!(Kind::VMNOISE_STOPPED.0 == ActivityKind::Stopped.number() as u32);
};

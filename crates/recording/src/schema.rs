//! Columns, keys and numbers of the format. `docs/recording-format.md` explains all of them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::MapFieldNames;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// Version of the format that this crate writes, and the newest version that it can read.
pub const FORMAT_VERSION: u32 = 11;

/// Keys of the schema's metadata.
pub(crate) mod keys {
    pub const VERSION: &str = "vmnoise.format_version";
    pub const FACTS: &str = "vmnoise.facts";
    pub const FACTS_CRC32: &str = "vmnoise.facts_crc32";
}

/// Numbers of the `event` column.
pub(crate) mod event {
    pub const SOURCE: u8 = 0;
    pub const GAP: u8 = 1;
    pub const ACTIVITY: u8 = 2;
    pub const ANCHOR: u8 = 3;
    pub const TALLY: u8 = 4;
    pub const LOSS: u8 = 5;
    pub const OWN_COST: u8 = 6;
    pub const WATERMARK: u8 = 7;
    pub const FINISH: u8 = 8;
    pub const VCPU: u8 = 9;
    pub const EXIT: u8 = 10;
    pub const VCPU_INTERVAL: u8 = 11;
    pub const VCPU_TOTALS: u8 = 12;
    /// Row with one exit reason of the totals in the rows before.
    pub const REASON_TOTALS: u8 = 13;
    /// Row with the longest exit of the totals in the rows before.
    pub const LONGEST_EXIT: u8 = 14;
    pub const VCPU_CLOCK: u8 = 15;
    pub const HOST_FRAME: u8 = 16;
    /// Row with one exit reason of the frame in the rows before.
    pub const HOST_REASON: u8 = 17;
    /// Row with one culprit of the frame in the rows before.
    pub const HOST_CULPRIT: u8 = 18;
    pub const FEED_TOTALS: u8 = 19;
    pub const ACTIVATION: u8 = 20;
    /// Row with one fact about the VM of the vCPU in the rows before.
    pub const VM_FACT: u8 = 21;
    pub const CHECKSUM: u8 = 255;
}

/// Keys of the `counters` column.
pub(crate) mod counter {
    pub const BLIND_TSC: &str = "blind_tsc";
    pub const STEAL_CLOCK_NS: &str = "steal_clock_ns";
    pub const RELOADS: &str = "reloads";
    pub const LIGHT_EXITS: &str = "light_exits";
    pub const HEAVY_EXITS: &str = "heavy_exits";
    pub const KVM_STAT_EXITS: &str = "kvm_stat_exits";
    pub const OUTER_STEAL_NS: &str = "outer_steal_ns";
    pub const SMI_COUNT: &str = "smi_count";
    pub const INTERFERENCE_NMI: &str = "interference_nmi";
    pub const INTERFERENCE_IRQ: &str = "interference_irq";
    pub const INTERFERENCE_SOFTIRQ: &str = "interference_softirq";
    pub const INTERFERENCE_THREAD: &str = "interference_thread";
    pub const POSTED: &str = "posted_interrupts";
    pub const POSTED_FROM_MONO_NS: &str = "posted_from_mono_ns";
    pub const POSTED_UNTIL_MONO_NS: &str = "posted_until_mono_ns";
    pub const RUN_DELAY_NS: &str = "run_delay_ns";
    pub const TID: &str = "tid";
    pub const VMM_PID: &str = "vmm_pid";
    pub const NUMBER: &str = "number";
    pub const VM: &str = "vm";
    pub const SEES_KVM: &str = "sees_kvm";
    /// The value is in two's complement.
    pub const OFFSET_TSC: &str = "offset_tsc";
    pub const RATIO: &str = "ratio";
    pub const RATIO_FRAC_BITS: &str = "ratio_frac_bits";
    pub const CODE: &str = "code";
    pub const EXITS: &str = "exits";
    pub const HEAVY: &str = "heavy";
    pub const MIN_NS: &str = "min_ns";
    pub const MAX_NS: &str = "max_ns";
    /// Prefix of a key. The upper edge of a length in nanoseconds follows, in decimal digits.
    pub const UP_TO: &str = "up_to_";
    pub const ARMED_MONO_NS: &str = "armed_mono_ns";
    pub const IRQ_MONO_NS: &str = "irq_mono_ns";
    pub const WAKING_MONO_NS: &str = "waking_mono_ns";
    pub const SWITCH_MONO_NS: &str = "switch_mono_ns";
    /// One key for each phase of a wake-up.
    pub const STEALS_NS: [&str; 5] = [
        "armed_late_steal_ns",
        "irq_steal_ns",
        "handler_steal_ns",
        "wakeup_steal_ns",
        "return_steal_ns",
    ];
    pub const UNSEEN_NS: &str = "unseen_ns";
    pub const MISSED: &str = "missed";
    pub const LOST: &str = "lost";
    pub const IS_LAST: &str = "is_last";
    pub const DUR_NS: &str = "dur_ns";
    pub const BYTES: &str = "bytes";
    pub const FRAMES: &str = "frames";
    pub const GARBLED: &str = "garbled";
    pub const HANG_UPS: &str = "hang_ups";
    pub const BPF_RUNS: &str = "bpf_runs";
    pub const BPF_NS: &str = "bpf_ns";
    pub const CRC32: &str = "crc32";
}

/// Returns the names inside the `counters` map, as the Arrow specification recommends them.
pub(crate) fn counters_field_names() -> MapFieldNames {
    MapFieldNames {
        entry: "entries".to_owned(),
        key: "key".to_owned(),
        value: "value".to_owned(),
    }
}

/// Returns the field for the value of one counter. The value is never null, because an unknown
/// counter is absent.
pub(crate) fn counter_value_field() -> Field {
    Field::new("value", DataType::UInt64, false)
}

/// Returns the columns of a format version up to [`FORMAT_VERSION`], as a schema with this
/// metadata.
pub(crate) fn schema(version: u32, metadata: HashMap<String, String>) -> SchemaRef {
    let counters = Field::new_map(
        "counters",
        "entries",
        Field::new("key", DataType::Utf8, false),
        counter_value_field(),
        false,
        true,
    );
    let nullable = |name: &str, data_type| Field::new(name, data_type, true);
    let mut fields = vec![
        Field::new("event", DataType::UInt8, false),
        nullable("cpu", DataType::UInt32),
        nullable("kind", DataType::UInt8),
        nullable("source", DataType::UInt32),
        nullable("name", DataType::Utf8),
        nullable("start_tsc", DataType::UInt64),
        nullable("end_tsc", DataType::UInt64),
        nullable("start_mono_ns", DataType::UInt64),
        nullable("end_mono_ns", DataType::UInt64),
        nullable("steal_ns", DataType::UInt64),
        nullable("reloads", DataType::UInt32),
        nullable("light_exits", DataType::UInt32),
        nullable("heavy_exits", DataType::UInt32),
    ];
    if version >= 2 {
        fields.push(nullable("interference", DataType::UInt32));
    }
    if version >= 3 {
        fields.push(nullable("vcpu", DataType::UInt32));
        fields.push(nullable("to_cpu", DataType::UInt32));
    }
    fields.push(counters);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

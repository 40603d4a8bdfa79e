//! Converts columns back to events, one batch at a time.

mod activations;
mod feed;
mod vcpus;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, UInt8Type as U8, UInt32Type as U32, UInt64Type as U64,
};
use arrow_array::{Array, MapArray, RecordBatch, StringArray};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use vmnoise_events::{
    Activity, ActivityKind, Anchor, CpuTally, Event, Finish, FinishReason, Gap, InterferenceCounts,
    Loss, LossKind, OwnCost, PostedInterrupts, Source, SourceId,
};

use crate::schema::{counter, event};

/// Column of a batch, and its name for error messages. The column has no values if this version of
/// the format lacks it.
struct Column<T: ArrowPrimitiveType> {
    name: &'static str,
    values: ScalarBuffer<T::Native>,
    /// Validity of the values; `None` if all values are valid.
    valid: Option<NullBuffer>,
}

impl<T: ArrowPrimitiveType> Column<T> {
    fn of(batch: &RecordBatch, name: &'static str) -> Column<T> {
        let column = batch.column_by_name(name);
        let column = column.map(|column| column.as_primitive::<T>());
        let valid = column.and_then(|column| column.nulls());
        Column {
            name,
            values: column.map_or_else(|| Vec::new().into(), |column| column.values().clone()),
            valid: valid.filter(|valid| valid.null_count() > 0).cloned(),
        }
    }

    /// Returns the value, or an error if there is none. The function is inlined like
    /// [`Self::find`], because each event reads several values.
    #[inline(always)]
    fn get(&self, row: usize) -> Result<T::Native, String> {
        self.find(row).ok_or_else(|| self.lacks(row))
    }

    /// Returns the value; `None` if the value is null, or if there is no such row or column.
    #[inline(always)]
    fn find(&self, row: usize) -> Option<T::Native> {
        let value = *self.values.get(row)?;
        let valid = self.valid.as_ref();
        valid.is_none_or(|it| it.is_valid(row)).then_some(value)
    }

    #[cold]
    fn lacks(&self, row: usize) -> String {
        format!("row {row} lacks `{}`", self.name)
    }
}

/// Columns of one batch whose schema has been checked.
pub(crate) struct Rows {
    len: usize,
    /// First row of the next event.
    next: usize,
    event: Column<U8>,
    cpu: Column<U32>,
    kind: Column<U8>,
    source: Column<U32>,
    name: StringArray,
    start_tsc: Column<U64>,
    end_tsc: Column<U64>,
    start_mono_ns: Column<U64>,
    end_mono_ns: Column<U64>,
    steal_ns: Column<U64>,
    reloads: Column<U32>,
    light_exits: Column<U32>,
    heavy_exits: Column<U32>,
    /// Interferences; the column exists since format version 2.
    interference: Column<U32>,
    /// Id of the vCPU; the column exists since format version 3, like `to_cpu`.
    vcpu: Column<U32>,
    to_cpu: Column<U32>,
    counters: MapArray,
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> &'a dyn Array {
    batch
        .column_by_name(name)
        .expect("the schema was checked to hold this column")
}

impl Rows {
    pub fn new(batch: &RecordBatch) -> Rows {
        Rows {
            len: batch.num_rows(),
            next: 0,
            event: Column::of(batch, "event"),
            cpu: Column::of(batch, "cpu"),
            kind: Column::of(batch, "kind"),
            source: Column::of(batch, "source"),
            name: column(batch, "name").as_string().clone(),
            start_tsc: Column::of(batch, "start_tsc"),
            end_tsc: Column::of(batch, "end_tsc"),
            start_mono_ns: Column::of(batch, "start_mono_ns"),
            end_mono_ns: Column::of(batch, "end_mono_ns"),
            steal_ns: Column::of(batch, "steal_ns"),
            reloads: Column::of(batch, "reloads"),
            light_exits: Column::of(batch, "light_exits"),
            heavy_exits: Column::of(batch, "heavy_exits"),
            interference: Column::of(batch, "interference"),
            vcpu: Column::of(batch, "vcpu"),
            to_cpu: Column::of(batch, "to_cpu"),
            counters: column(batch, "counters").as_map().clone(),
        }
    }

    /// Returns the checksum in the last row of the batch.
    pub fn checksum(&self) -> Result<u64, String> {
        let last = (self.len.checked_sub(1)).ok_or("a batch without rows")?;
        if self.event.get(last)? != event::CHECKSUM {
            return Err("a batch that does not end with its checksum".to_owned());
        }
        self.counter(last, counter::CRC32)
    }

    /// Returns the next event; `None` if only the checksum is left.
    pub fn next_event(&mut self) -> Option<Result<Event, String>> {
        let row = self.next;
        if row + 1 >= self.len {
            return None;
        }
        self.next = row + 1;
        Some(self.event(row))
    }

    /// Returns the event that begins with this row. If the event has several rows, moves `next` to
    /// the first row after the event.
    fn event(&mut self, row: usize) -> Result<Event, String> {
        Ok(match self.event.get(row)? {
            event::ACTIVITY => Event::Activity(Activity {
                cpu: self.cpu.get(row)?,
                kind: self.kind(row, "activity", ActivityKind::from_number)?,
                start_mono_ns: self.start_mono_ns.get(row)?,
                end_mono_ns: self.end_mono_ns.get(row)?,
                source: SourceId(self.source.get(row)?),
                steal_ns: self.steal_ns.get(row)?,
            }),
            event::ACTIVATION => Event::Activation(self.activation(row)?),
            event::GAP => Event::Gap(Gap {
                cpu: self.cpu.get(row)?,
                start_tsc: self.start_tsc.get(row)?,
                end_tsc: self.end_tsc.get(row)?,
                steal_ns: self.steal_ns.get(row)?,
                reloads: self.reloads.get(row)?,
                light_exits: self.light_exits.get(row)?,
                heavy_exits: self.heavy_exits.get(row)?,
                interference: self.interference.find(row),
                // The run delay is left out of the row if it is 0.
                run_delay_ns: self.find_counter(row, counter::RUN_DELAY_NS).unwrap_or(0),
            }),
            event::SOURCE => Event::Source(Source {
                id: SourceId(self.source.get(row)?),
                name: self.name(row)?.into(),
            }),
            event::ANCHOR => Event::Anchor(Anchor {
                before_tsc: self.start_tsc.get(row)?,
                mono_ns: self.start_mono_ns.get(row)?,
                after_tsc: self.end_tsc.get(row)?,
            }),
            event::TALLY => Event::Tally(self.tally(row)?),
            event::LOSS => Event::Loss(Loss {
                kind: self.kind(row, "loss", LossKind::from_number)?,
                count: self.counter(row, counter::LOST)?,
            }),
            event::OWN_COST => Event::OwnCost(OwnCost {
                bpf_runs: self.counter(row, counter::BPF_RUNS)?,
                bpf_ns: self.counter(row, counter::BPF_NS)?,
            }),
            event::WATERMARK => Event::Watermark(self.start_mono_ns.get(row)?),
            event::FINISH => Event::Finish(Finish {
                reason: self.kind(row, "finish", FinishReason::from_number)?,
                mono_ns: self.start_mono_ns.get(row)?,
            }),
            event::VCPU => {
                let (vcpu, next) = self.vcpu(row)?;
                self.next = next;
                Event::Vcpu(vcpu)
            }
            event::VCPU_CLOCK => Event::VcpuClock(self.vcpu_clock(row)?),
            event::EXIT => Event::Exit(self.vcpu_exit(row)?),
            event::VCPU_INTERVAL => Event::VcpuInterval(self.vcpu_interval(row)?),
            event::VCPU_TOTALS => {
                let (totals, next) = self.vcpu_totals(row)?;
                self.next = next;
                Event::VcpuTotals(totals)
            }
            event::HOST_FRAME => {
                let (frame, next) = self.host_frame(row)?;
                self.next = next;
                Event::HostFrame(frame)
            }
            event::FEED_TOTALS => Event::FeedTotals(self.feed_totals(row)?),
            event::HOST_REASON | event::HOST_CULPRIT => {
                return Err(format!(
                    "row {row} is part of a host's frame that does not precede it"
                ));
            }
            event::REASON_TOTALS | event::LONGEST_EXIT => {
                return Err(format!(
                    "row {row} is part of totals that do not precede it"
                ));
            }
            event::VM_FACT => {
                return Err(format!(
                    "row {row} is about the VM of a vCPU that does not precede it"
                ));
            }
            number => return Err(format!("row {row} holds event {number}, which is unknown")),
        })
    }

    fn tally(&self, row: usize) -> Result<CpuTally, String> {
        let mut tally = CpuTally {
            cpu: self.cpu.get(row)?,
            first_tsc: self.start_tsc.get(row)?,
            last_tsc: self.end_tsc.get(row)?,
            interference: self.interference_counts(row)?,
            posted: self.posted_interrupts(row)?,
            ..CpuTally::default()
        };
        for (name, value) in self.counters(row) {
            let field = match name {
                counter::BLIND_TSC => &mut tally.blind_tsc,
                counter::STEAL_CLOCK_NS => &mut tally.steal_clock_ns,
                counter::RELOADS => &mut tally.reloads,
                counter::LIGHT_EXITS => &mut tally.light_exits,
                counter::HEAVY_EXITS => &mut tally.heavy_exits,
                counter::KVM_STAT_EXITS => &mut tally.kvm_stat_exits,
                counter::OUTER_STEAL_NS => &mut tally.outer_steal_ns,
                counter::SMI_COUNT => &mut tally.smi_count,
                counter::INTERFERENCE_NMI
                | counter::INTERFERENCE_IRQ
                | counter::INTERFERENCE_SOFTIRQ
                | counter::INTERFERENCE_THREAD
                | counter::POSTED
                | counter::POSTED_FROM_MONO_NS
                | counter::POSTED_UNTIL_MONO_NS => continue,
                _ => {
                    return Err(format!(
                        "row {row} holds counter {name:?}, which is unknown"
                    ));
                }
            };
            *field = Some(value);
        }
        Ok(tally)
    }

    /// Returns the counts of interferences of all classes; `None` if the row has no such counts.
    fn interference_counts(&self, row: usize) -> Result<Option<InterferenceCounts>, String> {
        let is_known = |(name, _): (&str, u64)| name.starts_with("interference_");
        if !self.counters(row).any(is_known) {
            return Ok(None);
        }
        Ok(Some(InterferenceCounts {
            nmi: self.counter(row, counter::INTERFERENCE_NMI)?,
            irq: self.counter(row, counter::INTERFERENCE_IRQ)?,
            softirq: self.counter(row, counter::INTERFERENCE_SOFTIRQ)?,
            thread: self.counter(row, counter::INTERFERENCE_THREAD)?,
        }))
    }

    /// Returns the count of posted interrupts, and the time at which it was read; `None` if the row
    /// has no such count.
    fn posted_interrupts(&self, row: usize) -> Result<Option<PostedInterrupts>, String> {
        let is_known = |(name, _): (&str, u64)| name.starts_with("posted_");
        if !self.counters(row).any(is_known) {
            return Ok(None);
        }
        Ok(Some(PostedInterrupts {
            count: self.counter(row, counter::POSTED)?,
            from_mono_ns: self.counter(row, counter::POSTED_FROM_MONO_NS)?,
            until_mono_ns: self.counter(row, counter::POSTED_UNTIL_MONO_NS)?,
        }))
    }

    fn kind<K>(
        &self,
        row: usize,
        what: &str,
        from_number: impl Fn(u8) -> Option<K>,
    ) -> Result<K, String> {
        let number = self.kind.get(row)?;
        from_number(number)
            .ok_or_else(|| format!("row {row} holds {what} of kind {number}, which is unknown"))
    }

    fn name(&self, row: usize) -> Result<&str, String> {
        if self.name.is_null(row) {
            return Err(format!("row {row} lacks `name`"));
        }
        Ok(self.name.value(row))
    }

    fn counter(&self, row: usize, wanted: &str) -> Result<u64, String> {
        self.find_counter(row, wanted)
            .ok_or_else(|| format!("row {row} lacks counter `{wanted}`"))
    }

    fn find_counter(&self, row: usize, wanted: &str) -> Option<u64> {
        self.counters(row)
            .find_map(|(name, value)| (name == wanted).then_some(value))
    }

    fn counters(&self, row: usize) -> impl Iterator<Item = (&str, u64)> {
        let names: &StringArray = self.counters.keys().as_string();
        let values = self.counters.values().as_primitive::<U64>();
        let offsets = self.counters.value_offsets();
        let entries = match self.counters.is_null(row) {
            true => 0..0,
            false => offsets[row] as usize..offsets[row + 1] as usize,
        };
        entries.map(|entry| (names.value(entry), values.value(entry)))
    }
}

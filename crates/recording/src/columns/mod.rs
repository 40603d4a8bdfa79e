//! Converts events to columns: one batch that is being built.

mod activations;
mod feed;
mod vcpus;

use arrow_array::RecordBatch;
use arrow_array::builder::{MapBuilder, StringBuilder, UInt8Builder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, MapArray};
use arrow_schema::{ArrowError, SchemaRef};
use std::sync::Arc;
use vmnoise_events::{Event, InterferenceCounts, PostedInterrupts};

use crate::checksum;
use crate::schema::{counter, counter_value_field, counters_field_names, event};

/// One row; values that an event lacks stay null.
#[derive(Default)]
struct Row<'a> {
    event: u8,
    cpu: Option<u32>,
    kind: Option<u8>,
    source: Option<u32>,
    name: Option<&'a str>,
    start_tsc: Option<u64>,
    end_tsc: Option<u64>,
    start_mono_ns: Option<u64>,
    end_mono_ns: Option<u64>,
    steal_ns: Option<u64>,
    reloads: Option<u32>,
    light_exits: Option<u32>,
    heavy_exits: Option<u32>,
    interference: Option<u32>,
    vcpu: Option<u32>,
    to_cpu: Option<u32>,
    counters: Option<&'a [(&'a str, Option<u64>)]>,
}

/// Columns of a batch while it grows.
pub(crate) struct Columns {
    rows: usize,
    event: UInt8Builder,
    cpu: UInt32Builder,
    kind: UInt8Builder,
    source: UInt32Builder,
    name: StringBuilder,
    start_tsc: UInt64Builder,
    end_tsc: UInt64Builder,
    start_mono_ns: UInt64Builder,
    end_mono_ns: UInt64Builder,
    steal_ns: UInt64Builder,
    reloads: UInt32Builder,
    light_exits: UInt32Builder,
    heavy_exits: UInt32Builder,
    interference: UInt32Builder,
    vcpu: UInt32Builder,
    to_cpu: UInt32Builder,
    counters: MapBuilder<StringBuilder, UInt64Builder>,
}

impl Columns {
    pub fn new() -> Columns {
        let counters = MapBuilder::new(
            Some(counters_field_names()),
            StringBuilder::new(),
            UInt64Builder::new(),
        )
        .with_values_field(counter_value_field());
        Columns {
            rows: 0,
            event: UInt8Builder::new(),
            cpu: UInt32Builder::new(),
            kind: UInt8Builder::new(),
            source: UInt32Builder::new(),
            name: StringBuilder::new(),
            start_tsc: UInt64Builder::new(),
            end_tsc: UInt64Builder::new(),
            start_mono_ns: UInt64Builder::new(),
            end_mono_ns: UInt64Builder::new(),
            steal_ns: UInt64Builder::new(),
            reloads: UInt32Builder::new(),
            light_exits: UInt32Builder::new(),
            heavy_exits: UInt32Builder::new(),
            interference: UInt32Builder::new(),
            vcpu: UInt32Builder::new(),
            to_cpu: UInt32Builder::new(),
            counters,
        }
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds one event, which may need more than one row.
    pub fn append(&mut self, event: &Event) {
        match event {
            Event::Activity(activity) => self.push(&Row {
                event: event::ACTIVITY,
                cpu: Some(activity.cpu),
                kind: Some(activity.kind.number()),
                source: Some(activity.source.0),
                start_mono_ns: Some(activity.start_mono_ns),
                end_mono_ns: Some(activity.end_mono_ns),
                steal_ns: Some(activity.steal_ns),
                ..Row::default()
            }),
            Event::Activation(activation) => self.push_activation(activation),
            Event::Gap(gap) => {
                let run_delay = [(counter::RUN_DELAY_NS, Some(gap.run_delay_ns))];
                self.push(&Row {
                    event: event::GAP,
                    cpu: Some(gap.cpu),
                    start_tsc: Some(gap.start_tsc),
                    end_tsc: Some(gap.end_tsc),
                    steal_ns: Some(gap.steal_ns),
                    reloads: Some(gap.reloads),
                    light_exits: Some(gap.light_exits),
                    heavy_exits: Some(gap.heavy_exits),
                    interference: gap.interference,
                    // The run delay is 0 if BPF is in use, and is then left out.
                    counters: (gap.run_delay_ns > 0).then_some(&run_delay),
                    ..Row::default()
                });
            }
            Event::Source(source) => self.push(&Row {
                event: event::SOURCE,
                source: Some(source.id.0),
                name: Some(&source.name),
                ..Row::default()
            }),
            Event::Anchor(anchor) => self.push(&Row {
                event: event::ANCHOR,
                start_tsc: Some(anchor.before_tsc),
                end_tsc: Some(anchor.after_tsc),
                start_mono_ns: Some(anchor.mono_ns),
                ..Row::default()
            }),
            Event::Tally(tally) => {
                let interfered =
                    |class: fn(InterferenceCounts) -> u64| tally.interference.map(class);
                let posted = |part: fn(PostedInterrupts) -> u64| tally.posted.map(part);
                self.push(&Row {
                    event: event::TALLY,
                    cpu: Some(tally.cpu),
                    start_tsc: Some(tally.first_tsc),
                    end_tsc: Some(tally.last_tsc),
                    counters: Some(&[
                        (counter::BLIND_TSC, tally.blind_tsc),
                        (counter::STEAL_CLOCK_NS, tally.steal_clock_ns),
                        (counter::RELOADS, tally.reloads),
                        (counter::LIGHT_EXITS, tally.light_exits),
                        (counter::HEAVY_EXITS, tally.heavy_exits),
                        (counter::KVM_STAT_EXITS, tally.kvm_stat_exits),
                        (counter::OUTER_STEAL_NS, tally.outer_steal_ns),
                        (counter::SMI_COUNT, tally.smi_count),
                        (counter::INTERFERENCE_NMI, interfered(|counts| counts.nmi)),
                        (counter::INTERFERENCE_IRQ, interfered(|counts| counts.irq)),
                        (
                            counter::INTERFERENCE_SOFTIRQ,
                            interfered(|counts| counts.softirq),
                        ),
                        (
                            counter::INTERFERENCE_THREAD,
                            interfered(|counts| counts.thread),
                        ),
                        (counter::POSTED, posted(|posted| posted.count)),
                        (
                            counter::POSTED_FROM_MONO_NS,
                            posted(|posted| posted.from_mono_ns),
                        ),
                        (
                            counter::POSTED_UNTIL_MONO_NS,
                            posted(|posted| posted.until_mono_ns),
                        ),
                    ]),
                    ..Row::default()
                })
            }
            Event::Loss(loss) => self.push(&Row {
                event: event::LOSS,
                kind: Some(loss.kind as u8),
                counters: Some(&[(counter::LOST, Some(loss.count))]),
                ..Row::default()
            }),
            Event::OwnCost(cost) => self.push(&Row {
                event: event::OWN_COST,
                counters: Some(&[
                    (counter::BPF_RUNS, Some(cost.bpf_runs)),
                    (counter::BPF_NS, Some(cost.bpf_ns)),
                ]),
                ..Row::default()
            }),
            Event::Watermark(mono_ns) => self.push(&Row {
                event: event::WATERMARK,
                start_mono_ns: Some(*mono_ns),
                ..Row::default()
            }),
            Event::Vcpu(vcpu) => self.push_vcpu(vcpu),
            Event::VcpuClock(clock) => self.push_clock(clock),
            Event::Exit(exit) => self.push_exit(event::EXIT, exit.vcpu, &exit.exit),
            Event::VcpuInterval(interval) => self.push_interval(interval),
            Event::VcpuTotals(totals) => self.push_totals(totals),
            Event::HostFrame(frame) => self.push_host_frame(frame),
            Event::FeedTotals(totals) => self.push_feed_totals(totals),
            Event::Finish(finish) => self.push(&Row {
                event: event::FINISH,
                kind: Some(finish.reason as u8),
                start_mono_ns: Some(finish.mono_ns),
                ..Row::default()
            }),
        }
    }

    /// Closes the batch with a checksum row and starts the next one. Returns the batch and its
    /// checksum.
    pub fn seal(
        &mut self,
        schema: SchemaRef,
        previous: u32,
    ) -> Result<(RecordBatch, u32), ArrowError> {
        self.push(&Row {
            event: event::CHECKSUM,
            counters: Some(&[(counter::CRC32, Some(0))]),
            ..Row::default()
        });
        self.rows = 0;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.event.finish()),
            Arc::new(self.cpu.finish()),
            Arc::new(self.kind.finish()),
            Arc::new(self.source.finish()),
            Arc::new(self.name.finish()),
            Arc::new(self.start_tsc.finish()),
            Arc::new(self.end_tsc.finish()),
            Arc::new(self.start_mono_ns.finish()),
            Arc::new(self.end_mono_ns.finish()),
            Arc::new(self.steal_ns.finish()),
            Arc::new(self.reloads.finish()),
            Arc::new(self.light_exits.finish()),
            Arc::new(self.heavy_exits.finish()),
            Arc::new(self.interference.finish()),
            Arc::new(self.vcpu.finish()),
            Arc::new(self.to_cpu.finish()),
            Arc::new(self.counters.finish_cloned()),
        ];
        let unsealed = RecordBatch::try_new(Arc::clone(&schema), columns.clone())?;
        let checksum = checksum::of_batch(previous, &unsealed);
        columns.pop();
        columns.push(Arc::new(self.counters_with(checksum)));
        Ok((RecordBatch::try_new(schema, columns)?, checksum))
    }

    /// Returns the counters, with the checksum as the last value.
    fn counters_with(&mut self, checksum: u32) -> MapArray {
        let (_, values) = self.counters.entries();
        if let Some(last) = values.values_slice_mut().last_mut() {
            *last = u64::from(checksum);
        }
        self.counters.finish()
    }

    fn push(&mut self, row: &Row<'_>) {
        self.rows += 1;
        self.event.append_value(row.event);
        self.cpu.append_option(row.cpu);
        self.kind.append_option(row.kind);
        self.source.append_option(row.source);
        self.name.append_option(row.name);
        self.start_tsc.append_option(row.start_tsc);
        self.end_tsc.append_option(row.end_tsc);
        self.start_mono_ns.append_option(row.start_mono_ns);
        self.end_mono_ns.append_option(row.end_mono_ns);
        self.steal_ns.append_option(row.steal_ns);
        self.reloads.append_option(row.reloads);
        self.light_exits.append_option(row.light_exits);
        self.heavy_exits.append_option(row.heavy_exits);
        self.interference.append_option(row.interference);
        self.vcpu.append_option(row.vcpu);
        self.to_cpu.append_option(row.to_cpu);
        let known = row.counters.into_iter().flatten();
        for (name, value) in known.filter_map(|(name, value)| value.map(|value| (name, value))) {
            self.counters.keys().append_value(name);
            self.counters.values().append_value(value);
        }
        self.counters
            .append(row.counters.is_some())
            .expect("each key was appended together with its value");
    }
}

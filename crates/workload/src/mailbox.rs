//! Memory that a measuring thread or a guest shares with the draining thread of the host. It
//! contains the host's settings, the counters that the measuring side publishes, and the indexes of
//! the ring of records.
//!
//! Each side writes only to cache lines of its own. So a store of one side never takes a line that
//! the other side writes. Every field has exactly one writer.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use vmnoise_events::{CpuTally, Gap};

/// Number of records in one ring, a power of two. At the shortest sensible threshold (1 µs), the
/// draining thread may be 30 ms late before a record is dropped.
pub const RING_RECORDS: usize = 1 << 15;
/// Size of one ring in bytes. A ring fills exactly one large page of the guest.
pub const RING_BYTES: usize = RING_RECORDS * size_of::<GapRecord>();
/// Number of 64-bit words in one record.
pub const RECORD_WORDS: usize = size_of::<GapRecord>() / size_of::<u64>();

/// Minimum of the time, in TSC cycles, above which the recording of a gap counts as interrupted.
/// Recording a gap takes a few hundred cycles, or a few thousand if the caches are cold.
const MIN_BLIND_LIMIT_TSC: u64 = 10_000;

/// Shortest time between two readings, in TSC cycles, that may contain steal time or run delay. If
/// a hypervisor or another thread takes the CPU and gives it back, two switches are necessary,
/// which take longer.
const LOOK_TSC: u64 = 4_000;

/// Maximum number of attempts to read consistent values of the blind time and the measured time.
const RUNTIME_TRIES: usize = 100;

/// One gap, as the guest or the polling thread wrote it. Times are readings of the writer's clock.
/// A record fills one cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct GapRecord {
    pub start_tsc: AtomicU64,
    pub end_tsc: AtomicU64,
    /// Advance of the steal clock in the gap, in nanoseconds.
    pub steal_ns: AtomicU64,
    /// Advance of the steal page's version in the gap. Each update of the page advances it by two.
    pub version_moves: AtomicU64,
    pub light_exits: AtomicU64,
    pub heavy_exits: AtomicU64,
    /// Number of interferences that began in the gap. Only a polling thread writes this field.
    pub interference: AtomicU64,
    /// Run delay of the thread in the gap, in nanoseconds. Only a polling thread writes this field.
    pub run_delay_ns: AtomicU64,
}

/// Settings for the guest or the thread. The host writes them before the guest or the thread runs;
/// later it may change only the deadline.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Control {
    pub command: AtomicU32,
    /// Number of the exit that the guest makes for the command `GuestCommand::Exercise`.
    pub exercise: AtomicU32,
    /// Time at which the measurement ends, by the clock of the guest or the thread. The measurement
    /// ends at the first reading at or after this time.
    pub deadline_tsc: AtomicU64,
    /// Minimum length of a recorded gap, in TSC cycles.
    pub threshold_tsc: AtomicU64,
    /// Minimum time between two readings, in TSC cycles, after which the other clocks are read. If
    /// this time is shorter than a gap, the advance of the other clocks is discarded.
    pub look_tsc: AtomicU64,
    /// Longest usual time to record a gap, in TSC cycles. If recording takes longer, the time
    /// counts as another gap.
    pub blind_limit_tsc: AtomicU64,
    /// Guest address of the exit counts of the vCPU's host CPU.
    pub exit_counts: AtomicU64,
    /// Guest address without memory behind it. A read of this address causes an MMIO exit.
    pub unbacked: AtomicU64,
    /// Time between the arming of a timer and its expiry for the timer program, in TSC cycles.
    pub interval_tsc: AtomicU64,
}

/// Latest reading of the clock. The guest or the thread writes it after every reading, and the host
/// reads it now and then.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Heartbeat {
    pub last_tsc: AtomicU64,
}

/// Counters that the guest or the thread writes at the start and at each gap.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Counters {
    pub first_tsc: AtomicU64,
    /// Number of records written since the start.
    pub head: AtomicU64,
    /// Number of records that were dropped because the ring was full.
    pub dropped: AtomicU64,
    /// Time in which nothing was measured, in TSC cycles: while gaps were recorded, and during
    /// pauses.
    pub blind_tsc: AtomicU64,
    /// Number of readings of the clock that were earlier than the previous reading.
    pub steps_back: AtomicU64,
    pub first_steal_ns: AtomicU64,
    pub first_version: AtomicU32,
    pub seen_version: AtomicU32,
    pub seen_steal_ns: AtomicU64,
    pub seen_light: AtomicU64,
    pub seen_heavy: AtomicU64,
    /// Reading of the clock that the guest stored for the stamp command.
    pub stamp_tsc: AtomicU64,
}

/// Counter that the host writes: number of records that it has taken out of the ring.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct DrainedRecords {
    pub tail: AtomicU64,
}

/// Steal page: `struct kvm_steal_time` of the kernel's Documentation/virt/kvm/x86/msr.rst. For a
/// guest, the hypervisor writes the page. A polling thread writes it itself after each reading of
/// its steal clock. The version is odd during an update.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct StealPage {
    pub steal_ns: AtomicU64,
    pub version: AtomicU32,
    rest: [u32; 13],
}

/// Memory that one guest or one thread shares with this process. All of it is 0 before the first
/// command.
#[derive(Debug, Default)]
#[repr(C, align(4096))]
pub struct Mailbox {
    pub control: Control,
    pub heartbeat: Heartbeat,
    pub counters: Counters,
    pub drained: DrainedRecords,
    pub steal: StealPage,
    /// Memory for the writer's record when the ring is full. Nobody reads this record.
    pub spill: GapRecord,
    /// Exit counts for a guest whose host counts no exits. They are always 0.
    pub no_exit_counts: [u64; 16],
}

/// Clocks and counters that a guest or a thread can read, in addition to the TSC.
#[derive(Debug, Clone, Copy, Default)]
pub struct SharedPage {
    pub steal_clock: bool,
    /// Whether the steal clock also counts how often the hypervisor reloaded the vCPU.
    pub reloads: bool,
    pub interference: bool,
    /// Whether the thread can read its run delay.
    pub run_delay: bool,
}

/// Counts that a polling thread reads after a gap, in addition to the TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GapCounts {
    pub stolen: Stolen,
    pub interference: u64,
    pub run_delay_ns: u64,
}

/// Advance of the steal clock since the previous reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stolen {
    pub steal_ns: u64,
    /// Advance of the version, which is two for each update of the page.
    pub version_moves: u32,
}

/// Adds to a counter that only the caller writes. Such an add is cheaper than an atomic add.
pub fn add(counter: &AtomicU64, more: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(more);
    counter.store(sum, Ordering::Relaxed);
}

impl GapRecord {
    /// Returns the memory of the record as words, for data that are not a gap.
    pub fn words(&self) -> [u64; RECORD_WORDS] {
        self.memory().map(|word| word.load(Ordering::Relaxed))
    }

    /// Sets all fields to 0.
    pub fn clear(&self) {
        self.memory()
            .iter()
            .for_each(|word| word.store(0, Ordering::Relaxed));
    }

    fn memory(&self) -> [&AtomicU64; RECORD_WORDS] {
        [
            &self.start_tsc,
            &self.end_tsc,
            &self.steal_ns,
            &self.version_moves,
            &self.light_exits,
            &self.heavy_exits,
            &self.interference,
            &self.run_delay_ns,
        ]
    }

    /// Returns the recorded gap. Its times are readings of the writer's clock.
    pub fn gap(&self, cpu: u32, known: SharedPage) -> Gap {
        let read = |field: &AtomicU64| field.load(Ordering::Relaxed);
        let count = |field| u32::try_from(read(field)).unwrap_or(u32::MAX);
        Gap {
            cpu,
            start_tsc: read(&self.start_tsc),
            end_tsc: read(&self.end_tsc),
            steal_ns: read(&self.steal_ns),
            // Each update of the steal page advances its version by two.
            reloads: count(&self.version_moves) / 2,
            light_exits: count(&self.light_exits),
            heavy_exits: count(&self.heavy_exits),
            interference: known.interference.then(|| count(&self.interference)),
            run_delay_ns: read(&self.run_delay_ns),
        }
    }
}

impl Mailbox {
    /// Sets the minimum length of a recorded gap, in TSC cycles. Call this function before the
    /// start.
    pub fn set_threshold(&self, threshold_tsc: u64) {
        let blind_limit_tsc = threshold_tsc.max(MIN_BLIND_LIMIT_TSC);
        self.control
            .threshold_tsc
            .store(threshold_tsc, Ordering::Relaxed);
        self.control
            .blind_limit_tsc
            .store(blind_limit_tsc, Ordering::Relaxed);
        self.control
            .look_tsc
            .store(threshold_tsc.min(LOOK_TSC), Ordering::Relaxed);
    }

    /// Disables the reading of other clocks after times that are shorter than a gap. Call this
    /// function if the thread has no other clocks.
    pub fn overlook_short_holes(&self) {
        let threshold_tsc = self.control.threshold_tsc.load(Ordering::Relaxed);
        self.control
            .look_tsc
            .store(threshold_tsc, Ordering::Relaxed);
    }

    /// Sets the time at which measuring ends, by the clock of the guest or the thread. The new time
    /// takes effect at the next reading.
    pub fn set_deadline(&self, guest_tsc: u64) {
        self.control
            .deadline_tsc
            .store(guest_tsc, Ordering::Release);
    }

    /// Stores the first reading of a thread that begins to measure. A guest does the same in its
    /// own program.
    pub fn start(&self, now_tsc: u64) {
        self.alive(now_tsc);
        self.counters.first_tsc.store(now_tsc, Ordering::Release);
    }

    /// Stores the latest reading of a thread that measures.
    #[inline(always)]
    pub fn alive(&self, now_tsc: u64) {
        self.heartbeat.last_tsc.store(now_tsc, Ordering::Release);
    }

    /// Stores the first reading of a thread that measures again. The time since the thread's last
    /// reading counts as blind time.
    pub fn go_on(&self, now_tsc: u64) {
        let last_tsc = self.heartbeat.last_tsc.load(Ordering::Relaxed);
        add(&self.counters.blind_tsc, now_tsc.saturating_sub(last_tsc));
        self.alive(now_tsc);
    }

    /// Appends one gap of a polling thread to `ring`, or counts it as dropped if the ring is full.
    /// A guest does the same in its own program.
    pub fn record(&self, ring: &[GapRecord], (start_tsc, end_tsc): (u64, u64), counts: GapCounts) {
        let GapCounts {
            stolen,
            interference,
            run_delay_ns,
        } = counts;
        self.push(ring, |slot| {
            slot.start_tsc.store(start_tsc, Ordering::Relaxed);
            slot.end_tsc.store(end_tsc, Ordering::Relaxed);
            slot.steal_ns.store(stolen.steal_ns, Ordering::Relaxed);
            slot.version_moves
                .store(u64::from(stolen.version_moves), Ordering::Relaxed);
            slot.interference.store(interference, Ordering::Relaxed);
            slot.run_delay_ns.store(run_delay_ns, Ordering::Relaxed);
        });
    }

    /// Fills the next record of `ring` with `fill`, or counts the record as dropped if the ring is
    /// full. The length of `ring` must be a power of two.
    pub fn push<R>(&self, ring: &[R], fill: impl FnOnce(&R)) {
        let counters = &self.counters;
        let head = counters.head.load(Ordering::Relaxed);
        if head.wrapping_sub(self.drained.tail.load(Ordering::Acquire)) >= ring.len() as u64 {
            add(&counters.dropped, 1);
            return;
        }
        fill(&ring[head as usize & (ring.len() - 1)]);
        counters.head.store(head.wrapping_add(1), Ordering::Release);
    }

    /// Takes all records out of `ring` and passes them to `sink`, oldest first.
    pub fn drain<R>(&self, ring: &[R], mut sink: impl FnMut(&R)) {
        let head = self.counters.head.load(Ordering::Acquire);
        let mut tail = self.drained.tail.load(Ordering::Relaxed);
        while tail != head {
            sink(&ring[tail as usize & (ring.len() - 1)]);
            tail = tail.wrapping_add(1);
            // Each record is released separately, so that the guest can reuse it while the others
            // are read.
            self.drained.tail.store(tail, Ordering::Release);
        }
    }

    /// Returns the counter that `of` selects.
    pub fn count(&self, of: impl FnOnce(&Counters) -> &AtomicU64) -> u64 {
        of(&self.counters).load(Ordering::Acquire)
    }

    /// Returns the counters of this CPU so far. Times are readings of the measuring side's clock.
    pub fn tally(&self, cpu: u32, known: SharedPage) -> CpuTally {
        let stolen = known.steal_clock.then(|| self.stolen());
        let (blind_tsc, span_tsc) = self.runtime();
        let (first_tsc, last_tsc) = span_tsc.unwrap_or_default();
        CpuTally {
            cpu,
            first_tsc,
            last_tsc,
            blind_tsc: Some(blind_tsc),
            steal_clock_ns: stolen.map(|(ns, _)| ns),
            reloads: stolen.map(|(_, reloads)| reloads).filter(|_| known.reloads),
            ..CpuTally::default()
        }
    }

    /// Returns the blind time, and the first and the latest reading, from the same moment.
    /// Otherwise a whole pause could lie between these readings.
    ///
    /// If every reading ends a gap, the blind time changes all the time. Then the result of the
    /// last attempt is wrong by at most the time of recording one gap.
    fn runtime(&self) -> (u64, Option<(u64, u64)>) {
        let mut blind_tsc = self.count(|counters| &counters.blind_tsc);
        let mut span_tsc = None;
        for _ in 0..RUNTIME_TRIES {
            span_tsc = self.span_tsc();
            let before_tsc = blind_tsc;
            blind_tsc = self.count(|counters| &counters.blind_tsc);
            if blind_tsc == before_tsc {
                break;
            }
        }
        (blind_tsc, span_tsc)
    }

    /// Returns the first and the latest reading of the clock; `None` before the first reading.
    fn span_tsc(&self) -> Option<(u64, u64)> {
        // The writer stores the first reading after the latest reading.
        let first = self.counters.first_tsc.load(Ordering::Acquire);
        (first != 0).then(|| (first, self.heartbeat.last_tsc.load(Ordering::Acquire)))
    }

    /// Returns the advance of the steal clock in nanoseconds, and the number of reloads, since the
    /// start.
    ///
    /// The host need not check the version for updates in progress. The two values may come from
    /// different updates, and an aligned u64 is always read as a whole.
    fn stolen(&self) -> (u64, u64) {
        if self.span_tsc().is_none() {
            return (0, 0);
        }
        let steal_ns = self.steal.steal_ns.load(Ordering::Relaxed);
        let version = self.steal.version.load(Ordering::Relaxed);
        let moves = version.wrapping_sub(self.counters.first_version.load(Ordering::Relaxed));
        let first_ns = self.counters.first_steal_ns.load(Ordering::Relaxed);
        (steal_ns.saturating_sub(first_ns), u64::from(moves / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(mailbox: &Mailbox, ring: &[GapRecord], start_tsc: u64) {
        let counts = GapCounts {
            stolen: Stolen {
                steal_ns: 7,
                version_moves: 4,
            },
            interference: 3,
            run_delay_ns: 5,
        };
        mailbox.record(ring, (start_tsc, start_tsc + 1), counts);
    }

    fn ring() -> Vec<GapRecord> {
        (0..RING_RECORDS).map(|_| GapRecord::default()).collect()
    }

    fn drained(mailbox: &Mailbox, ring: &[GapRecord]) -> Vec<u64> {
        let mut starts = Vec::new();
        mailbox.drain(ring, |record| {
            starts.push(record.gap(0, SharedPage::default()).start_tsc)
        });
        starts
    }

    #[test]
    fn records_come_out_in_order_across_the_wrap() {
        let (mailbox, ring) = (Mailbox::default(), ring());
        let mut next = 0;
        for burst in [1, 20_000, 0, 20_000, RING_RECORDS as u64, 3] {
            let expected: Vec<u64> = (next..next + burst).collect();
            expected
                .iter()
                .for_each(|&start| record(&mailbox, &ring, start));
            next += burst;
            assert_eq!(drained(&mailbox, &ring), expected);
        }
        assert_eq!(mailbox.counters.dropped.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_full_ring_keeps_the_oldest_and_counts_the_rest() {
        let (mailbox, ring) = (Mailbox::default(), ring());
        for start in 0..RING_RECORDS as u64 + 7 {
            record(&mailbox, &ring, start);
        }
        assert_eq!(mailbox.counters.dropped.load(Ordering::Relaxed), 7);
        let kept = drained(&mailbox, &ring);
        assert_eq!(kept, (0..RING_RECORDS as u64).collect::<Vec<_>>());
        record(&mailbox, &ring, 99);
        assert_eq!(drained(&mailbox, &ring), [99]);
    }

    #[test]
    fn a_writer_on_another_thread_loses_nothing() {
        const GAPS: u64 = 200_000;
        let (mailbox, ring) = (Mailbox::default(), ring());
        let mut starts = Vec::new();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..GAPS).for_each(|start| record(&mailbox, &ring, start)));
            while !writer.is_finished() {
                mailbox.drain(&ring, |record| {
                    starts.push(record.gap(0, SharedPage::default()).start_tsc)
                });
            }
        });
        mailbox.drain(&ring, |record| {
            starts.push(record.gap(0, SharedPage::default()).start_tsc)
        });
        assert!(starts.is_sorted_by(|a, b| a < b));
        let dropped = mailbox.counters.dropped.load(Ordering::Relaxed);
        assert_eq!(starts.len() as u64 + dropped, GAPS);
    }

    #[test]
    fn version_moves_are_halved_and_counts_clamped() {
        let (mailbox, ring) = (Mailbox::default(), ring());
        ring[0].light_exits.store(u64::MAX, Ordering::Relaxed);
        record(&mailbox, &ring, 10);
        let known = SharedPage {
            interference: true,
            ..SharedPage::default()
        };
        let mut gap = None;
        mailbox.drain(&ring, |record| gap = Some(record.gap(3, known)));
        let gap = gap.unwrap();
        assert_eq!((gap.cpu, gap.steal_ns, gap.reloads), (3, 7, 2));
        assert_eq!((gap.interference, gap.run_delay_ns), (Some(3), 5));
        assert_eq!((gap.light_exits, gap.heavy_exits), (u32::MAX, 0));
    }

    #[test]
    fn steal_counts_from_the_start_and_survives_a_version_wrap() {
        let mailbox = Mailbox::default();
        mailbox.steal.steal_ns.store(1_500, Ordering::Relaxed);
        mailbox.steal.version.store(2, Ordering::Relaxed);
        assert_eq!(mailbox.stolen(), (0, 0), "nothing before the guest started");
        mailbox
            .counters
            .first_steal_ns
            .store(1_000, Ordering::Relaxed);
        mailbox
            .counters
            .first_version
            .store(u32::MAX - 3, Ordering::Relaxed);
        mailbox.counters.first_tsc.store(1, Ordering::Relaxed);
        assert_eq!(mailbox.stolen(), (500, 3));
    }

    #[test]
    fn what_passes_before_going_on_is_blind_time() {
        let mailbox = Mailbox::default();
        let tally = || {
            let tally = mailbox.tally(3, SharedPage::default());
            (tally.first_tsc, tally.last_tsc, tally.blind_tsc)
        };
        assert_eq!(tally(), (0, 0, Some(0)));
        mailbox.start(100);
        mailbox.alive(150);
        mailbox.go_on(450);
        mailbox.alive(460);
        assert_eq!(tally(), (100, 460, Some(300)));
    }
}

//! Generated hosts with two CPUs each; a rank on each CPU records it. The rows have the shape of a
//! recording from a busy machine with two CPUs: 250 ticks a second, each an interrupt that is
//! sometimes followed by a softirq, unexplained time, and tasks that run longer between them.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use vmnoise_events::*;
use vmnoise_recording::Writer;

use crate::join_pair::facts;

const BOOT_NS: u64 = 5_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const TICKS: u64 = 250;
const TICK_NS: u64 = SECOND_NS / TICKS;
const NAMES: [&str; 5] = [
    "local_timer:236",
    "TIMER:1",
    "node_exporter:812",
    "ksmd:31",
    "irqbalance:640",
];
const INTERRUPT: u32 = 0;
const SOFTIRQ: u32 = 1;
const EXPORTER: u32 = 2;
const WORST: u32 = 3;
const STRAGGLER: u32 = 4;

/// Fleet with planted culprits.
#[derive(Debug, Clone, Copy)]
pub struct PlantedFleet {
    pub hosts: u64,
    pub seconds: u64,
    /// Host that loses a 25th of its time to ksmd, on both CPUs.
    pub worst: Option<u64>,
    /// Rank that loses a 16th of its time to irqbalance.
    pub straggler: Option<u64>,
    /// Whether node_exporter takes three milliseconds of each second on each host.
    pub has_exporter: bool,
    /// Number of hosts, the last ones, that recorded only longer gaps.
    pub deaf: u64,
    /// Host that lost records, which may have been gaps.
    pub lossy: Option<u64>,
}

impl PlantedFleet {
    /// Creates a fleet of similar hosts.
    pub const fn quiet(hosts: u64, seconds: u64) -> PlantedFleet {
        PlantedFleet {
            hosts,
            seconds,
            worst: None,
            straggler: None,
            has_exporter: false,
            deaf: 0,
            lossy: None,
        }
    }

    /// Creates a fleet with a host, a culprit and a rank that stand out.
    pub const fn planted(hosts: u64, seconds: u64) -> PlantedFleet {
        PlantedFleet {
            worst: Some(hosts / 3),
            straggler: Some(hosts + 1),
            has_exporter: true,
            ..PlantedFleet::quiet(hosts, seconds)
        }
    }

    /// Returns a folder with the fleet's data set in `fleet`.
    pub fn data_set(self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        // A command line cannot hold thousands of names, and the recordings take room.
        for some in (0..self.hosts).collect::<Vec<u64>>().chunks(100) {
            let recordings = some.iter().flat_map(|host| [2 * host, 2 * host + 1]);
            let recordings: Vec<_> = recordings
                .map(|rank| {
                    let path = folder.path().join(format!("rank{rank}.vmn"));
                    self.write(&path, rank);
                    path
                })
                .collect();
            let export = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
                .arg("export")
                .args(&recordings)
                .arg("--parquet")
                .arg(folder.path().join("fleet"))
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&export.stderr);
            assert!(export.status.success() && said.is_empty(), "{said}");
            for path in recordings {
                std::fs::remove_file(path).unwrap();
            }
        }
        folder
    }

    fn write(self, path: &Path, rank: u64) {
        let (host, cpu) = (rank / 2, (rank % 2) as u32);
        let is_deaf = host >= self.hosts - self.deaf;
        let threshold_ns = if is_deaf { 5_000 } else { 1_000 };
        let mut facts = facts(MeasuringCommand::Osnoise);
        facts.options.cpus = vec![cpu];
        facts.options.threshold_ns = threshold_ns;
        facts.rank = Some(rank as u32);
        facts.host.name = Some(host_name(host).into());
        let mut stream = Stream {
            writer: Writer::create(path, &facts).unwrap(),
            cpu,
            // Any number that differs between ranks.
            random: (rank + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        for (id, name) in (0..).zip(NAMES) {
            let id = SourceId(id);
            let name = name.into();
            stream.push(Event::Source(Source { id, name }));
        }
        for tick in 0..self.seconds * TICKS {
            let at_ns = BOOT_NS + tick * TICK_NS;
            if tick % TICKS == 0 {
                stream.time(at_ns);
            }
            let irq_ns = 2_000 + stream.random(3_000);
            let softirq_ns = if tick % 4 == 0 {
                800 + stream.random(2_000)
            } else {
                0
            };
            if irq_ns + softirq_ns > threshold_ns {
                let parts = [
                    (ActivityKind::Irq, INTERRUPT, irq_ns),
                    (ActivityKind::Softirq, SOFTIRQ, softirq_ns),
                ];
                stream.gap(at_ns + 1_000, &parts);
            }
            let mut turn = |source, ns| {
                stream.gap(at_ns + 1_000_000, &[(ActivityKind::Thread, source, ns)]);
            };
            if self.has_exporter && tick % 250 == 130 {
                turn(EXPORTER, 2_900_000);
            } else if self.worst == Some(host) && tick % 10 == 1 {
                turn(WORST, 1_600_000);
            } else if self.straggler == Some(rank) && tick % 10 == 2 {
                turn(STRAGGLER, 2_500_000);
            }
        }
        if self.lossy == Some(host) {
            let (kind, count) = (LossKind::MailboxFull, 7);
            stream.push(Event::Loss(Loss { kind, count }));
        }
        let end_ns = BOOT_NS + self.seconds * SECOND_NS;
        stream.time(end_ns);
        let (reason, mono_ns) = (FinishReason::Duration, end_ns);
        stream.push(Event::Finish(Finish { reason, mono_ns }));
        stream.writer.finish().unwrap();
    }
}

pub fn host_name(host: u64) -> String {
    format!("node-{host:04}")
}

struct Stream {
    writer: Writer<std::fs::File>,
    cpu: u32,
    random: u64,
}

impl Stream {
    fn push(&mut self, event: Event) {
        self.writer.push(&event).unwrap();
    }

    /// Returns a random number below this (Marsaglia's xorshift).
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn time(&mut self, now_ns: u64) {
        self.push(Event::Anchor(Anchor {
            before_tsc: now_ns,
            mono_ns: now_ns,
            after_tsc: now_ns,
        }));
        self.push(Event::Tally(CpuTally {
            cpu: self.cpu,
            first_tsc: BOOT_NS,
            last_tsc: now_ns,
            blind_tsc: Some(0),
            ..CpuTally::default()
        }));
        self.push(Event::Watermark(now_ns));
    }

    /// Writes a gap with these consecutive turns, plus 300 ns for the way in and out.
    fn gap(&mut self, start_ns: u64, turns: &[(ActivityKind, u32, u64)]) {
        let mut now_ns = start_ns + 150;
        for (kind, source, ns) in turns.iter().filter(|(.., ns)| *ns > 0) {
            self.push(Event::Activity(Activity {
                cpu: self.cpu,
                kind: *kind,
                start_mono_ns: now_ns,
                end_mono_ns: now_ns + ns,
                source: SourceId(*source),
                steal_ns: 0,
            }));
            now_ns += ns;
        }
        self.push(Event::Gap(Gap {
            cpu: self.cpu,
            start_tsc: start_ns,
            end_tsc: now_ns + 150,
            steal_ns: 0,
            reloads: 0,
            light_exits: 0,
            heavy_exits: 0,
            interference: None,
            run_delay_ns: 0,
        }));
    }
}

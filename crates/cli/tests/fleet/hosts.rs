//! Recordings of two hundred hosts, and the expected answers about them, computed from the plan and
//! not from files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use vmnoise_events::*;
use vmnoise_recording::Writer;

use crate::join_pair::facts;

pub const HOSTS: u64 = 200;
const MINUTES: u64 = 150;
const CPUS: u64 = 2;
const MINUTE_NS: u64 = 60_000_000_000;
/// CLOCK_MONOTONIC and the TSC, which are equal here, at the first reading.
const BOOT_NS: u64 = 5_000_000_000;
const IRQ_NS: u64 = 2_000;
const RESIDUAL_NS: u64 = 300;
const TASKS: [&str; 5] = [
    "stress-ng",
    "kworker/1:6",
    "ksoftirqd/0",
    "qemu-x86",
    "rcuc/1",
];

/// Losses of one CPU in one minute.
struct Loss {
    start_ns: u64,
    task_ns: u64,
    steal_ns: u64,
}

impl Loss {
    fn of(host: u64, minute: u64, cpu: u64) -> Loss {
        Loss {
            start_ns: BOOT_NS + minute * MINUTE_NS + 1_000_000,
            task_ns: 1_000 * (1 + host * 31 % 997 + (minute * 7 + cpu) % 50),
            steal_ns: 500 * (1 + minute / 60) * (host % 3),
        }
    }

    fn dur_ns(&self) -> u64 {
        IRQ_NS + self.task_ns + self.steal_ns + RESIDUAL_NS
    }
}

fn name(host: u64) -> String {
    format!("node-{host:03}")
}

/// Every second host starts an hour later.
fn started(host: u64) -> Timestamp {
    let base: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
    base + jiff::SignedDuration::from_hours((host % 2) as i64)
}

fn task(host: u64) -> String {
    format!("{}:{}", TASKS[(host % 5) as usize], 1_000 + host)
}

/// Writes the recording of each host into this folder.
pub fn write_all(folder: &Path) -> Vec<PathBuf> {
    let paths = (0..HOSTS).map(|host| {
        let path = folder.join(format!("{host}.vmn"));
        write(&path, host);
        path
    });
    paths.collect()
}

fn write(path: &Path, host: u64) {
    let mut facts = facts(MeasuringCommand::Osnoise);
    facts.options.cpus = (0..CPUS as u32).collect();
    facts.started_at = started(host).to_string().into();
    facts.host.name = Some(name(host).into());
    facts.host.hypervisor = Some("KVM".into());
    let mut writer = Writer::create(path, &facts).unwrap();
    let mut push = |event: Event| writer.push(&event).unwrap();
    for (id, name) in (0..).zip(["local_timer:236".to_owned(), task(host)]) {
        let id = SourceId(id);
        push(Event::Source(Source {
            id,
            name: name.into(),
        }));
    }
    let anchor = |mono_ns| {
        Event::Anchor(Anchor {
            before_tsc: mono_ns,
            mono_ns,
            after_tsc: mono_ns,
        })
    };
    push(anchor(BOOT_NS));
    for minute in 0..MINUTES {
        for cpu in 0..CPUS {
            let loss = Loss::of(host, minute, cpu);
            let irq = (ActivityKind::Irq, 0, loss.start_ns + 100, IRQ_NS);
            let task = (ActivityKind::Thread, 1, irq.2 + IRQ_NS, loss.task_ns);
            for (kind, source, start_mono_ns, ns) in [irq, task] {
                push(Event::Activity(Activity {
                    cpu: cpu as u32,
                    kind,
                    start_mono_ns,
                    end_mono_ns: start_mono_ns + ns,
                    source: SourceId(source),
                    steal_ns: 0,
                }));
            }
            push(Event::Gap(Gap {
                cpu: cpu as u32,
                start_tsc: loss.start_ns,
                end_tsc: loss.start_ns + loss.dur_ns(),
                steal_ns: loss.steal_ns,
                reloads: 0,
                light_exits: 0,
                heavy_exits: 0,
                interference: None,
                run_delay_ns: 0,
            }));
        }
        let now_ns = BOOT_NS + (minute + 1) * MINUTE_NS;
        for cpu in 0..CPUS {
            push(Event::Tally(CpuTally {
                cpu: cpu as u32,
                first_tsc: BOOT_NS,
                last_tsc: now_ns,
                ..CpuTally::default()
            }));
        }
        push(anchor(now_ns));
        push(Event::Watermark(now_ns));
    }
    push(Event::Finish(Finish {
        reason: FinishReason::Duration,
        mono_ns: BOOT_NS + MINUTES * MINUTE_NS,
    }));
    writer.finish().unwrap();
}

/// Expected answers to the three questions.
#[derive(Debug)]
pub struct Answers {
    pub worst_hosts: Vec<(String, f64, u64)>,
    pub culprits: Vec<(String, String, u64, u64)>,
    pub steal_by_hour: Vec<(String, f64)>,
}

pub fn answers() -> Answers {
    let mut worst_hosts = Vec::new();
    let mut culprits: BTreeMap<(&str, &str), (u64, BTreeSet<u64>)> = BTreeMap::new();
    let mut hours: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for host in 0..HOSTS {
        let (mut noise_ns, mut max_ns) = (0, 0);
        for minute in 0..MINUTES {
            let at = started(host) + jiff::SignedDuration::from_mins(minute as i64);
            let hour = hours.entry(at.strftime("%Y-%m-%dT%H:00:00").to_string());
            let hour = hour.or_default();
            for cpu in 0..CPUS {
                let loss = Loss::of(host, minute, cpu);
                noise_ns += loss.dur_ns();
                max_ns = loss.dur_ns().max(max_ns);
                *hour = (hour.0 + loss.steal_ns, hour.1 + MINUTE_NS);
                let task = TASKS[(host % 5) as usize];
                for (who, ns) in [
                    (("irq", "local_timer"), IRQ_NS),
                    (("thread", task), loss.task_ns),
                ] {
                    let culprit = culprits.entry(who).or_default();
                    culprit.0 += ns;
                    culprit.1.insert(host);
                }
            }
        }
        let runtime_ns = MINUTES * CPUS * MINUTE_NS;
        let percent = 100.0 * noise_ns as f64 / runtime_ns as f64;
        worst_hosts.push((name(host), percent, max_ns));
    }
    worst_hosts.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    worst_hosts.truncate(10);
    let culprits = culprits.into_iter().map(|((share, source), (ns, hosts))| {
        (share.to_owned(), source.to_owned(), ns, hosts.len() as u64)
    });
    let mut culprits: Vec<_> = culprits.collect();
    culprits.sort_by_key(|culprit| std::cmp::Reverse(culprit.2));
    let hours = hours.into_iter();
    Answers {
        worst_hosts,
        culprits,
        steal_by_hour: hours
            .map(|(hour, (steal_ns, ns))| (hour, 100.0 * steal_ns as f64 / ns as f64))
            .collect(),
    }
}

//! `vmnoise exits --feed`: reports to each guest, live, the time that its host took, over a socket
//! of the guest's VMM. docs/feed.md describes the content, and which guests are served.

mod culprits;
mod link;
mod note;
mod vm;

use std::time::Duration;

use vmnoise_events::{Anchor, FeedDetail, HostCulprit, Name, RunFacts, Vcpu, VcpuId, VcpuTotals};
use vmnoise_feed::{CountsTime, FeedAddress, FeedFrame, VcpuReading, encode};
use vmnoise_host::{Host, VmProcess};
use vmnoise_tracer::ClockLook;
use vmnoise_views::FeedReport;

pub use culprits::Culprits;
use link::{Link, Parting};
use note::{Note, Notes};
use vm::{FedClocks, Identity, Threads};

/// Time that guests have to read the last frames.
const LINGER: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(5);
/// Largest age of a reading of the guests' clocks. A new reading starts each second, and the feed
/// does not wait for it.
const FRESH_NS: u64 = 5_000_000_000;

/// All feeds of a run.
#[derive(Debug)]
pub struct Feeds {
    feeds: Vec<Feed>,
    frame: FeedFrame,
    tsc_hz: u64,
    clocks: FedClocks,
    threads: Threads,
}

/// State of the host, read each second.
pub struct Second<'a> {
    /// The machine.
    pub host: &'a Host,
    /// VMs of the host.
    pub vms: &'a [VmProcess],
    /// Last reading of the guests' clocks.
    pub clocks: Option<&'a ClockLook>,
    /// Exits of every vCPU.
    pub counted: &'a [(Vcpu, VcpuTotals)],
    /// Time at which the last drain of events began.
    pub anchor: Anchor,
    /// Time until which all exits that ended are counted, CLOCK_MONOTONIC in nanoseconds.
    pub settled_mono_ns: u64,
    /// Number of records lost so far.
    pub lost: u64,
    /// Function that returns the culprits of a vCPU.
    pub culprits: &'a dyn Fn(VcpuId) -> Vec<HostCulprit>,
}

#[derive(Debug)]
struct Feed {
    link: Link,
    /// Process at the other end when the connection was made.
    peer: Option<Identity>,
    /// VM that was served last: process id of its VMM, and name of the VM.
    served: Option<(u32, Name)>,
    notes: Notes,
}

impl Feeds {
    /// Returns the feeds of a run whose count begins at this anchor.
    pub fn new(
        addresses: &[FeedAddress],
        detail: FeedDetail,
        facts: &RunFacts,
        began: Anchor,
    ) -> Feeds {
        let feeds = addresses.iter().map(|address| Feed {
            link: Link::new(address.clone()),
            peer: None,
            served: None,
            notes: Notes::default(),
        });
        Feeds {
            feeds: feeds.collect(),
            frame: FeedFrame {
                detail,
                from_tsc: middle_tsc(&began),
                // Probes need not see interrupts for this: each interrupt causes an exit of the
                // vCPU, which is counted.
                is_last: !facts.layer_below_unwitnessed(),
                knows_kvm: facts.witnesses.see_kernel(),
                lost: 0,
            },
            tsc_hz: facts.clock.tsc_hz,
            clocks: FedClocks::default(),
            threads: Threads::default(),
        }
    }

    /// Writes as much as possible, without waiting.
    pub fn tick(&mut self) {
        self.feeds.iter_mut().for_each(Feed::tick);
    }

    /// Opens missing connections, and prepares the frames of each VM from the last reading.
    pub fn second(&mut self, second: &Second<'_>) {
        let now_ns = second.anchor.mono_ns;
        let is_fresh = |look: &&ClockLook| now_ns < look.at_mono_ns() + FRESH_NS;
        match second.clocks.filter(is_fresh) {
            Some(look) => self.clocks.take(look.seen(), second.vms),
            // A guest's clock may have changed since. With the old clock, the host's times would be
            // wrong.
            None => self.clocks = FedClocks::default(),
        }
        self.threads.see(second.host, second.counted);
        self.frame.lost = second.lost;
        let reading = CountsTime {
            tsc: middle_tsc(&second.anchor),
            mono_ns: second.anchor.mono_ns,
            tsc_hz: self.tsc_hz,
        };
        for feed in &mut self.feeds {
            feed.connect(second.host);
            feed.tick();
            let Some(vm) = feed.vm(second) else {
                continue;
            };
            if !feed.link.reach_guest() {
                continue;
            }
            let mut frames = Vec::new();
            for thread in &vm.vcpus {
                let vcpus = second.counted.iter();
                let is_it = |vcpu: &Vcpu| vcpu.tid == thread.tid && vcpu.vmm_pid == vm.pid;
                // Not counted yet: this vCPU has not left its guest.
                let Some((vcpu, totals)) = vcpus.rev().find(|(vcpu, _)| is_it(vcpu)) else {
                    continue;
                };
                if !self.threads.is_same(second.host, vcpu) {
                    let why = "a vCPU is not served: another thread had the same id before; \
                               restart `vmnoise exits` to count only this vCPU";
                    feed.notes.say(feed.link.address(), Note::OthersCount, why);
                    continue;
                }
                let Some(clock) = self.clocks.of(vcpu.id, thread) else {
                    let why = "a vCPU is not served: its guest's clock is unknown; \
                               `vmnoise doctor` shows how vmnoise reads guests' clocks";
                    feed.notes.say(feed.link.address(), Note::NoClock, why);
                    continue;
                };
                let counted = VcpuReading {
                    vcpu,
                    totals,
                    clock,
                    until_mono_ns: second.settled_mono_ns.max(totals.last_mono_ns),
                    culprits: (second.culprits)(vcpu.id),
                };
                frames.extend(self.frame.of(counted, &reading));
            }
            feed.served = Some((vm.pid, vm.name.clone()));
            feed.link
                .outgoing
                .replace(frames.iter().map(encode).collect());
            feed.tick();
        }
    }

    /// Returns the notes since the last call, for the user on the host.
    pub fn take_notes(&mut self) -> Vec<String> {
        let feeds = self.feeds.iter_mut();
        feeds.flat_map(|feed| feed.notes.take()).collect()
    }

    /// Waits briefly until the last frames are sent.
    pub fn linger(&mut self) {
        let mut left = LINGER;
        let waits = |feeds: &[Feed]| {
            let mut waiting = feeds.iter().filter(|feed| !feed.link.outgoing.is_empty());
            waiting.next().is_some()
        };
        while waits(&self.feeds) && left > Duration::ZERO {
            std::thread::sleep(LOOK);
            left = left.saturating_sub(LOOK);
            self.tick();
        }
    }

    /// Returns the totals of each feed.
    pub fn finish(self) -> Vec<FeedReport> {
        let detail = self.frame.detail;
        let reports = self.feeds.into_iter().map(|feed| feed.report(detail));
        reports.collect()
    }
}

impl Feed {
    fn connect(&mut self, host: &Host) {
        match self.link.connect() {
            Ok(None) => {}
            Ok(Some(pid)) => self.peer = Identity::of(host, pid),
            Err(error) => {
                let why = format!("{error}; trying again each second");
                self.notes.say(self.link.address(), Note::Absent, &why);
            }
        }
    }

    fn tick(&mut self) {
        let (note, why) = match self.link.tick() {
            None => return,
            Some(Parting::Closed) => (
                Note::Closed,
                "the VMM closed the connection; trying again each second".to_owned(),
            ),
            Some(Parting::NotConnected) => (
                Note::NotConnected,
                "no program in the guest listens yet; trying again each second".to_owned(),
            ),
        };
        self.notes.say(self.link.address(), note, &why);
    }

    /// Returns the VM of the process at the other end; `None` if this VM gets no frames.
    fn vm<'v>(&mut self, second: &Second<'v>) -> Option<&'v VmProcess> {
        let pid = self.link.peer_pid()?;
        let is_same = self
            .peer
            .is_some_and(|peer| peer.still_is(second.host, pid));
        let vm = second.vms.iter().find(|vm| vm.pid == pid);
        let Some(vm) = vm.filter(|vm| is_same && !vm.vcpus.is_empty()) else {
            let why = format!(
                "the process at the other end ({pid}) has no VM whose vCPUs run: it gets no frames"
            );
            self.notes.say(self.link.address(), Note::NoVmm, &why);
            // If the process has changed, the waiting frames are for the earlier process.
            self.link.outgoing.forget_unsent();
            if !is_same {
                self.link.hang_up();
            }
            return None;
        };
        if vm::has_several(vm, second.counted) {
            let why = format!(
                "the process at the other end ({pid}) has several VMs: it is unknown which one \
                 this socket is for, so it gets no frames"
            );
            self.notes.say(self.link.address(), Note::SeveralVms, &why);
            return None;
        }
        Some(vm)
    }

    fn report(self, detail: FeedDetail) -> FeedReport {
        let Feed { link, served, .. } = self;
        let (vm, name) = served.unzip();
        FeedReport {
            feed: link.address().to_string(),
            vm,
            name,
            detail,
            frames: link.outgoing.sent,
            skipped: link.outgoing.skipped,
            bytes: link.outgoing.bytes,
            writes: link.outgoing.writes,
            connections: link.connections,
            discarded_bytes: link.discarded_bytes,
        }
    }
}

fn middle_tsc(anchor: &Anchor) -> u64 {
    anchor.before_tsc + anchor.after_tsc.saturating_sub(anchor.before_tsc) / 2
}

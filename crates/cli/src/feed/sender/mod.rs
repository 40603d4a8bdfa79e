//! `vmnoise exits --feed`: reports to each guest, live, what its host took, over a socket of
//! its VMM. `docs/feed.md` says what goes over it and who is served.

mod culprits;
mod link;
mod note;
mod vm;

use std::time::Duration;

use serde::Serialize;
use vmnoise_events::{Anchor, FeedDetail, HostCulprit, Name, RunFacts, Vcpu, VcpuId, VcpuTotals};
use vmnoise_feed::{Counted, FeedAddress, Frame, Reading, encode};
use vmnoise_host::{Host, Vm};
use vmnoise_tracer::ClockLook;

pub use culprits::Culprits;
use link::{Link, Parting};
use note::{Note, Notes};
use vm::{Clocks, Identity, Threads};

/// How long the last frames may take to be read.
const LINGER: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(5);
/// How old a look at the guests' clocks may be. There is one each second, and nobody waits for it.
const FRESH_NS: u64 = 5_000_000_000;

/// All feeds of a run.
#[derive(Debug)]
pub struct Feeds {
    feeds: Vec<Feed>,
    frame: Frame,
    tsc_hz: u64,
    clocks: Clocks,
    threads: Threads,
}

/// One second of the host, as it was read.
pub struct Second<'a> {
    /// The machine.
    pub host: &'a Host,
    /// The VMs there are.
    pub vms: &'a [Vm],
    /// The last look at the clocks of their guests.
    pub clocks: Option<&'a ClockLook>,
    /// Every vCPU's exits.
    pub counted: &'a [(Vcpu, VcpuTotals)],
    /// When reading began.
    pub anchor: Anchor,
    /// Every exit that ended by then is in, CLOCK_MONOTONIC in nanoseconds.
    pub settled_mono_ns: u64,
    /// Records lost so far.
    pub lost: u64,
    /// Who took a vCPU's time.
    pub culprits: &'a dyn Fn(VcpuId) -> Vec<HostCulprit>,
}

#[derive(Debug)]
struct Feed {
    link: Link,
    /// Who was at the other end when the connection was made.
    peer: Option<Identity>,
    /// The VM that was served last: process of its VMM, and name.
    served: Option<(u32, Name)>,
    notes: Notes,
}

/// What became of one feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FeedReport {
    /// As it was named.
    pub feed: String,
    /// The process of the VMM that was served last; `None` if none was.
    pub vm: Option<u32>,
    /// What people call it.
    pub name: Option<Name>,
    /// The detail that it was sent.
    pub detail: FeedDetail,
    /// Frames that went out.
    pub frames: u64,
    /// Frames that were not sent, since a newer one came before they could be.
    pub skipped: u64,
    /// Bytes that went out.
    pub bytes: u64,
    /// In how many writes: what each costs the guest is in docs/feed.md.
    pub writes: u64,
    /// How often the connection was made.
    pub connections: u64,
    /// Bytes that the guest said, and that were thrown away.
    pub discarded_bytes: u64,
}

impl Feeds {
    /// Feeds that begin with the count, at this anchor.
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
            frame: Frame {
                detail,
                from_tsc: middle_tsc(&began),
                // A vCPU leaves its guest for each interrupt, whether it is seen or not: that is an exit, which counts.
                is_last: !facts.layer_below_unwitnessed(),
                knows_kvm: facts.witnesses.see_kernel(),
                lost: 0,
            },
            tsc_hz: facts.clock.tsc_hz,
            clocks: Clocks::default(),
            threads: Threads::default(),
        }
    }

    /// Writes what can be written; never waits.
    pub fn tick(&mut self) {
        self.feeds.iter_mut().for_each(Feed::tick);
    }

    /// Another second was read: makes connections that are missing, and has each VM's own
    /// frames ready for it.
    pub fn second(&mut self, second: &Second<'_>) {
        let now_ns = second.anchor.mono_ns;
        let is_fresh = |look: &&ClockLook| now_ns < look.at_mono_ns() + FRESH_NS;
        match second.clocks.filter(is_fresh) {
            Some(look) => self.clocks.take(look.seen(), second.vms),
            // A guest may have another clock by now, and would look for our instants at its own.
            None => self.clocks = Clocks::default(),
        }
        self.threads.see(second.host, second.counted);
        self.frame.lost = second.lost;
        let reading = Reading {
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
                // Not seen yet: it did not leave its guest.
                let Some((vcpu, totals)) = vcpus.rev().find(|(vcpu, _)| is_it(vcpu)) else {
                    continue;
                };
                if !self.threads.is_same(second.host, vcpu) {
                    let why = "a vCPU is not served: its thread's id was another's before";
                    feed.notes.say(feed.link.address(), Note::OthersCount, why);
                    continue;
                }
                let Some(clock) = self.clocks.of(vcpu.id, thread) else {
                    let why = "a vCPU is not served: KVM has not told its guest's clock for 5 s; \
                               `vmnoise doctor` says how it is read";
                    feed.notes.say(feed.link.address(), Note::NoClock, why);
                    continue;
                };
                let counted = Counted {
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

    /// Notes for the host's owner, since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        let feeds = self.feeds.iter_mut();
        feeds.flat_map(|feed| feed.notes.take()).collect()
    }

    /// Gives the last frames a moment to go out.
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

    /// What became of each feed.
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
                "the VMM closed it; trying again each second".to_owned(),
            ),
            Some(Parting::NotConnected) => (
                Note::NotConnected,
                "nobody in the guest listens yet; trying again each second".to_owned(),
            ),
        };
        self.notes.say(self.link.address(), note, &why);
    }

    /// The VM of the very process at the other end.
    fn vm<'v>(&mut self, second: &Second<'v>) -> Option<&'v Vm> {
        let pid = self.link.peer_pid()?;
        let is_same = self
            .peer
            .is_some_and(|peer| peer.still_is(second.host, pid));
        let vm = second.vms.iter().find(|vm| vm.pid == pid);
        let Some(vm) = vm.filter(|vm| is_same && !vm.vcpus.is_empty()) else {
            let why = format!(
                "the process at the other end ({pid}) has no VM whose vCPUs run: it is told nothing"
            );
            self.notes.say(self.link.address(), Note::NoVmm, &why);
            // What waits was another's, if it is not the same process any more.
            self.link.outgoing.forget_unsent();
            if !is_same {
                self.link.hang_up();
            }
            return None;
        };
        if vm::has_several(vm, second.counted) {
            let why = format!(
                "the process at the other end ({pid}) has several VMs: which one is meant is \
                 not known, and it is told nothing"
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

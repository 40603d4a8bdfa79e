//! Audits a guest and its host, each alone and both together, ranked by the guest's lost time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use vmnoise_audit::{Audit, AuditedPair, NoiseEvidence, VcpuPlace, all, explained_together, joint};
use vmnoise_console::status::{ExitStatus, UsageError};
use vmnoise_events::{Event, MeasuringCommand, VcpuId};
use vmnoise_explain::{JoinOptions, Joiner, Pairs, VmSide};
use vmnoise_host::Host;
use vmnoise_render::audit::{AuditSubject, AuditedMachine, PairAudited};

use super::subject::Subject;
use crate::commands::join::{Both, JoinStep};
use crate::progress;

/// Joins the two recordings, and audits both sides. Also returns the status of reading the
/// recordings.
///
/// # Errors
/// If they cannot be joined, or one lacks the settings of its machine.
pub fn audit(guest: &Path, host: &Path) -> Result<(PairAudited, ExitStatus)> {
    for path in [guest, host] {
        progress::expect(path, 2);
    }
    let mut both = Both::open(guest, host)?;
    if both.guest.facts.workload == MeasuringCommand::Microvm {
        return Err(UsageError(
            "a microVM has no kernel with settings of its own: audit its recording alone".into(),
        )
        .into());
    }
    let pairs = both.pair(None)?;
    let here = Host::here();
    let guest_subject = Subject::of(guest, &both.guest.facts, &here)?;
    let host_subject = Subject::of(host, &both.host.facts, &here)?;

    let mut places = Places::new(&pairs);
    let options = JoinOptions {
        above_ns: both.guest.facts.options.threshold_ns,
        top: 0,
    };
    let mut joiner = Joiner::new(&both.guest.facts, &both.host.facts, pairs, options);
    Both::open(guest, host)?.play(&mut joiner, &mut |step| {
        if let JoinStep::Host(event) = step {
            places.see(event);
        }
        Ok(())
    })?;
    let run = joiner.finish();

    let vcpus = places.placed();
    let guest_cpus = vcpus.iter().map(|it| it.cpu).collect();
    let host_cpus: BTreeSet<u32> = vcpus.iter().flat_map(|it| &it.cpus).copied().collect();
    let (guest, of_guest) = guest_subject.about(guest_cpus);
    let (host, of_host) = host_subject.about(host_cpus.into_iter().collect());
    let priority = both.guest.facts.options.priority;
    let by_guest = NoiseEvidence::of_side(&run, VmSide::Guest, priority);
    let by_host = NoiseEvidence::of_side(&run, VmSide::Host, priority);
    let pair = AuditedPair {
        guest: &guest.machine,
        host: &host.machine,
        vcpus: &vcpus,
    };
    let of_guests_own = guest.audit(all()?, Some(&by_guest));
    let of_hosts_own = host.audit(all()?, Some(&by_host));
    let of_both = Audit::joint(joint()?, pair, &by_host);
    let explained_ns = explained_together(&by_guest, &[&of_guests_own])
        .saturating_add(explained_together(&by_host, &[&of_hosts_own, &of_both]));
    let audited = |of: AuditSubject, audit| AuditedMachine {
        of,
        noise_ns: Some(by_host.noise_ns),
        lost_events: by_host.lost_events,
        coverage: Some(by_host.coverage.clone()),
        audit,
    };
    let audited = PairAudited {
        guest: audited(of_guest, of_guests_own),
        host: audited(of_host, of_hosts_own),
        both: of_both,
        noise_ns: by_host.noise_ns,
        explained_ns,
    };
    Ok((audited, both.report()))
}

/// For each vCPU of the guest: its CPU number in the guest, its thread on the host, and the host's
/// CPUs on which it ran.
struct Places(BTreeMap<VcpuId, (u32, u32, BTreeSet<u32>)>);

impl Places {
    fn new(pairs: &Pairs) -> Places {
        let places = pairs.pairs().iter().filter_map(|pair| {
            let vcpu = pairs.vcpu_of(pair.cpu)?;
            Some((vcpu, (pair.cpu, pair.tid, BTreeSet::new())))
        });
        Places(places.collect())
    }

    fn see(&mut self, event: &Event) {
        if let Event::Exit(reported) = event
            && let Some((.., cpus)) = self.0.get_mut(&reported.vcpu)
        {
            cpus.extend([reported.exit.exit_cpu, reported.exit.entry_cpu]);
        }
    }

    /// Returns the vCPUs, sorted by CPU of the guest.
    fn placed(self) -> Vec<VcpuPlace> {
        let placed = self.0.into_values().map(|(cpu, tid, cpus)| VcpuPlace {
            cpu,
            tid,
            cpus: cpus.into_iter().collect(),
        });
        let mut placed: Vec<VcpuPlace> = placed.collect();
        placed.sort_by_key(|it| it.cpu);
        placed
    }
}

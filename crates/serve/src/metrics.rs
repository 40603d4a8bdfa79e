//! Metrics in base units, as Prometheus recommends (prometheus.io/docs/practices/naming).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, MetricEncoder, NativeHistogram, NativeHistogramBuckets,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use vmnoise_tracer::{CLASSIC_NS, SCHEMA, TakenOfKind, WaitLengths};

use crate::clock::{now_ns, own_cpu, seconds};
use crate::dumps::Dumps;
use crate::exits::Exits;
use crate::ledger::{Told, VmTotals};
use crate::own_cpus::{OwnCpus, Told as ToldCpu};
use crate::watch::Watch;

/// Type of the label set of an exemplar without labels.
type NoLabels = [(&'static str, &'static str); 0];
/// The value "no exemplar", for counters that never have an exemplar.
const NO_EXEMPLAR: Option<&Exemplar<NoLabels, f64>> = None;

/// Returns a registry that reads its metrics from `watch` at each request.
pub(crate) fn registry(watch: Arc<Mutex<Watch>>) -> Registry {
    let mut registry = Registry::with_prefix("vmnoise");
    registry.register_collector(Box::new(Metrics(watch)));
    registry
}

#[derive(Debug)]
struct Metrics(Arc<Mutex<Watch>>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut watch = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watch.take_in_now();
        let vms: Vec<&VmTotals> = watch.vms().collect();
        lost(&mut encoder, &vms, watch.dumps())?;
        culprits(&mut encoder, &vms)?;
        waits(&mut encoder, &vms)?;
        waiting(&mut encoder, &watch)?;
        states(&mut encoder, &vms)?;
        vcpus(&mut encoder, &watch)?;
        identities(&mut encoder, &watch)?;
        if let Some(exits) = watch.exits() {
            sampled(&mut encoder, exits)?;
        }
        if let Some(own_cpus) = watch.own_cpus() {
            taken(&mut encoder, own_cpus, watch.by_vcpu())?;
        }
        of_itself(&mut encoder, &watch)
    }
}

type Vms<'a> = [&'a VmTotals];
type Label<'a> = (&'a str, &'a str);

/// Returns the label set and the values of each VM or vCPU, together with the label of the VM.
fn told<'a>(vms: &'a Vms<'a>) -> impl Iterator<Item = (&'a str, Told<'a>)> {
    let now_ns = now_ns();
    let of_vm = move |vm: &&'a VmTotals| {
        let told = vm.told(now_ns).into_iter();
        told.map(|told| (vm.label.as_str(), told))
    };
    vms.iter().flat_map(of_vm)
}

fn labels<'a>(vm: &'a str, told: &Told<'a>, more: Option<Label<'a>>) -> Vec<Label<'a>> {
    let vcpu = told.vcpu.map(|vcpu| ("vcpu", vcpu));
    [Some(("vm", vm)), vcpu, more]
        .into_iter()
        .flatten()
        .collect()
}

fn lost(
    encoder: &mut DescriptorEncoder<'_>,
    vms: &Vms<'_>,
    dumps: Option<&Dumps>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(
        "vcpu_lost",
        "Time that a VM's vCPUs lost, or that was not observed, by cause",
        Some(&Unit::Seconds),
        MetricType::Counter,
    )?;
    for (vm, told) in told(vms) {
        let exemplar = dumps.and_then(|dumps| dumps.exemplar(&vm.into()));
        for (share, ns) in told.lost.shares() {
            let labels = labels(vm, &told, Some(("share", share)));
            let mut family = family.encode_family(&labels)?;
            // An exemplar does not name the vCPU that waited, so only series of whole VMs have
            // exemplars.
            let is_its = told.vcpu.is_none() && share == "preempted";
            match exemplar.filter(|_| is_its) {
                Some(exemplar) => {
                    let (_, exemplar) = exemplar.get();
                    family.encode_counter(&seconds(ns), exemplar.as_ref())?;
                }
                None => counter(&mut family, ns)?,
            }
        }
    }
    Ok(())
}

fn culprits(encoder: &mut DescriptorEncoder<'_>, vms: &Vms<'_>) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(
        "vcpu_culprit",
        "The preempted share of vmnoise_vcpu_lost_seconds_total, by the task that had the CPU",
        Some(&Unit::Seconds),
        MetricType::Counter,
    )?;
    for totals in vms {
        for (who, ns) in totals.culprits.named() {
            let labels = [
                ("vm", totals.label.as_str()),
                ("kind", who.kind.name()),
                ("culprit", who.name.as_str()),
            ];
            let cgroup = who
                .cgroup
                .as_ref()
                .map(|cgroup| ("cgroup", cgroup.as_str()));
            let labels: Vec<_> = labels.into_iter().chain(cgroup).collect();
            counter(&mut family.encode_family(&labels)?, ns)?;
        }
        let labels = [
            ("vm", totals.label.as_str()),
            ("kind", "unknown"),
            ("culprit", "other"),
        ];
        counter(
            &mut family.encode_family(&labels)?,
            totals.culprits.others_ns(),
        )?;
    }
    Ok(())
}

fn waits(encoder: &mut DescriptorEncoder<'_>, vms: &Vms<'_>) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(
        "vcpu_wait",
        "Single waits of a VM's vCPUs for a CPU, from runnable until running",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    for totals in vms {
        let labels = [("vm", totals.label.as_str())];
        histogram(
            &mut family.encode_family(&labels)?,
            seconds(totals.waited_ns),
            &totals.waits,
        )?;
    }
    Ok(())
}

fn waiting(encoder: &mut DescriptorEncoder<'_>, watch: &Watch) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(
        "vcpu_waiting",
        "Longest current wait of a VM's vCPUs for a CPU, 0 if none waits",
        Some(&Unit::Seconds),
        MetricType::Gauge,
    )?;
    let vms: Vec<&VmTotals> = watch.present().collect();
    for (vm, told) in told(&vms) {
        family
            .encode_family(&labels(vm, &told, None))?
            .encode_gauge(&seconds(told.waiting_ns))?;
    }
    Ok(())
}

fn states(encoder: &mut DescriptorEncoder<'_>, vms: &Vms<'_>) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(
        "vcpu_time",
        "Time of a VM's vCPUs by state: on a CPU (running), asleep because the guest asked for it (halted), asleep in the VMM or for an unknown reason (asleep)",
        Some(&Unit::Seconds),
        MetricType::Counter,
    )?;
    for (vm, told) in told(vms) {
        for (state, ns) in told.states {
            let labels = labels(vm, &told, Some(("state", state)));
            counter(&mut family.encode_family(&labels)?, ns)?;
        }
    }
    Ok(())
}

fn vcpus(encoder: &mut DescriptorEncoder<'_>, watch: &Watch) -> Result<(), fmt::Error> {
    let mut family =
        encoder.encode_descriptor("vcpus", "Number of vCPUs of a VM", None, MetricType::Gauge)?;
    for totals in watch.present() {
        let labels = [("vm", totals.label.as_str())];
        let count = i64::try_from(totals.vcpus()).unwrap_or(i64::MAX);
        family.encode_family(&labels)?.encode_gauge(&count)?;
    }
    Ok(())
}

/// Encodes the identity of each VM. Leaves out unknown labels, which Prometheus treats as empty
/// labels.
fn identities(encoder: &mut DescriptorEncoder<'_>, watch: &Watch) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(
        "vm",
        "Identity of a VM, from its VMM, its cgroup and its container runtime",
        None,
        MetricType::Info,
    )?;
    for totals in watch.present() {
        let known = totals.identity.known();
        let known = known.map(|(fact, word)| (fact.name(), word.as_str()));
        let labels: Vec<_> = [("vm", totals.label.as_str())]
            .into_iter()
            .chain(known)
            .collect();
        family.encode_info(&labels)?;
    }
    Ok(())
}

/// Encodes the number of recorded exits, and the total time in which exits were recorded. This time
/// is always shorter than the elapsed time.
fn sampled(encoder: &mut DescriptorEncoder<'_>, exits: &Exits) -> Result<(), fmt::Error> {
    let sums = exits.sums();
    let mut family = encoder.encode_descriptor(
        "exits_sampled",
        "Exits of a VM's vCPUs by reason, only during vmnoise_exits_sampled_seconds_total",
        None,
        MetricType::Counter,
    )?;
    for (vm, sums) in &sums {
        for (reason, count) in &sums.exits {
            let labels = [("vm", vm.as_str()), ("reason", reason.as_str())];
            family
                .encode_family(&labels)?
                .encode_counter(count, NO_EXEMPLAR)?;
        }
    }
    let mut family = encoder.encode_descriptor(
        "exits_sampled",
        "Time in which the exits of a VM were recorded (--exits-on)",
        Some(&Unit::Seconds),
        MetricType::Counter,
    )?;
    for (vm, sums) in &sums {
        let labels = [("vm", vm.as_str())];
        counter(&mut family.encode_family(&labels)?, sums.looked_ns)?;
    }
    let mut family = encoder.encode_descriptor(
        "exits_probe",
        "CPU time of the programs that record exits, on all CPUs, estimated from one timed run in 251",
        Some(&Unit::Seconds),
        MetricType::Counter,
    )?;
    counter(&mut family, exits.probe_ns())
}

/// Encodes the time that the hypervisor and interrupts took from this machine's own CPUs.
fn taken(
    encoder: &mut DescriptorEncoder<'_>,
    own_cpus: &OwnCpus,
    by_cpu: bool,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(
        "cpu_lost",
        "In a guest: time taken from this machine's own CPUs, by its hypervisor (steal), interrupts (irq) and softirqs (softirq)",
        Some(&Unit::Seconds),
        MetricType::Counter,
    )?;
    for ToldCpu { cpu, shares } in own_cpus.told(by_cpu) {
        for (share, ns) in shares {
            let cpu = cpu.as_ref().map(|cpu| ("cpu", cpu.as_str()));
            let labels: Vec<_> = cpu.into_iter().chain([("share", share)]).collect();
            counter(&mut family.encode_family(&labels)?, ns)?;
        }
    }
    let all = own_cpus.all();
    let family = encoder.encode_descriptor(
        "cpu_steal",
        "In a guest: single losses of a CPU to the hypervisor, each an upper bound",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    of_lengths(family, &all.steal)?;
    let mut family = encoder.encode_descriptor(
        "cpu_interrupt",
        "In a guest: length of single interrupts (irq) and softirqs (softirq)",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    for (share, taken) in [("irq", &all.irq), ("softirq", &all.softirq)] {
        of_lengths(family.encode_family(&[("share", share)])?, taken)?;
    }
    let Some(waits) = &all.waits else {
        return Ok(());
    };
    let family = encoder.encode_descriptor(
        "wakeup_wait",
        "In a guest: single waits of tasks for a CPU, from entering a run queue until running",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    of_lengths(family, waits)
}

fn of_lengths(mut encoder: MetricEncoder<'_>, taken: &TakenOfKind) -> Result<(), fmt::Error> {
    histogram(&mut encoder, seconds(taken.ns), &taken.lengths)
}

/// Encodes the cost of `vmnoise serve`, and the number of events that its programs missed.
fn of_itself(encoder: &mut DescriptorEncoder<'_>, watch: &Watch) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(
        "self_cpu",
        "CPU time of vmnoise serve, without its programs in the kernel",
        Some(&Unit::Seconds),
        MetricType::Counter,
    )?;
    family.encode_counter(&own_cpu().as_secs_f64(), NO_EXEMPLAR)?;
    let mut family = encoder.encode_descriptor(
        "probe",
        "CPU time of the programs that are always on, on all CPUs, estimated from one timed run in 251 or 256",
        Some(&Unit::Seconds),
        MetricType::Counter,
    )?;
    counter(&mut family, watch.probe_ns())?;
    let mut family = encoder.encode_descriptor(
        "events_missed",
        "Events that the programs missed",
        None,
        MetricType::Counter,
    )?;
    let of_own_cpus = watch.own_cpus().map_or(0, OwnCpus::missed);
    family.encode_counter(&(watch.missed() + of_own_cpus), NO_EXEMPLAR)?;
    if let Some(counts) = watch.dumps().map(Dumps::counts) {
        let outcomes = [("written", counts.written()), ("failed", counts.failed())];
        let mut family = encoder.encode_descriptor(
            "dumps",
            "Dumps to the folder of --dumps, by outcome",
            None,
            MetricType::Counter,
        )?;
        for (outcome, count) in outcomes {
            family
                .encode_family(&[("outcome", outcome)])?
                .encode_counter(&count, NO_EXEMPLAR)?;
        }
    }
    if let Some(reasons) = watch.dumps().map(Dumps::reasons) {
        let mut family = encoder.encode_descriptor(
            "dump_reasons",
            "Reasons for the dumps to the folder of --dumps",
            None,
            MetricType::Counter,
        )?;
        for (reason, count) in reasons.counts() {
            family
                .encode_family(&[("reason", reason)])?
                .encode_counter(&count, NO_EXEMPLAR)?;
        }
    }
    let mut family = encoder.encode_descriptor(
        "vcpus_without_room",
        "vCPUs that are not watched, because --vcpus is too small or the kernel has no memory",
        None,
        MetricType::Gauge,
    )?;
    family.encode_gauge(&i64::from(watch.without_room()))?;
    let mut family = encoder.encode_descriptor(
        "pauses",
        "Number of pauses because the cost exceeded --cost-limit",
        None,
        MetricType::Counter,
    )?;
    family.encode_counter(&watch.pauses(), NO_EXEMPLAR)?;
    let mut family = encoder.encode_descriptor(
        "paused",
        "1 while nothing is recorded because the cost exceeded --cost-limit: vCPUs' time is unseen",
        None,
        MetricType::Gauge,
    )?;
    family.encode_gauge(&i64::from(watch.is_paused()))?;
    let mut family =
        encoder.encode_descriptor("build", "Version of vmnoise", None, MetricType::Info)?;
    family.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
}

fn counter(encoder: &mut MetricEncoder<'_>, ns: u64) -> Result<(), fmt::Error> {
    encoder.encode_counter(&seconds(ns), NO_EXEMPLAR)
}

fn histogram(
    encoder: &mut MetricEncoder<'_>,
    sum: f64,
    lengths: &WaitLengths,
) -> Result<(), fmt::Error> {
    let mut below = 0;
    let mut buckets: Vec<(f64, u64)> = CLASSIC_NS
        .iter()
        .map(|bound| {
            let until = lengths.up_to(*bound);
            let count = until - below;
            below = until;
            (seconds(*bound), count)
        })
        .collect();
    buckets.push((f64::INFINITY, lengths.count() - below));
    let (spans, deltas) = spans(&lengths.native());
    let none = NativeHistogramBuckets {
        spans: &[],
        deltas: &[],
    };
    encoder.encode_histogram_with_native::<NoLabels>(
        sum,
        lengths.count(),
        &buckets,
        None,
        NativeHistogram {
            schema: SCHEMA.into(),
            zero_threshold: 0.0,
            zero_count: 0,
            negative: none,
            positive: NativeHistogramBuckets {
                spans: &spans,
                deltas: &deltas,
            },
            created: None,
        },
    )
}

/// Converts native buckets to the spans and deltas of Prometheus' protocol. A span is a row of
/// adjacent buckets. It consists of the distance from the previous span and the number of buckets.
/// A delta is the difference between a count and the previous count. One empty span marks an empty
/// histogram as a native histogram.
fn spans(buckets: &[(i32, u64)]) -> (Vec<(i32, u32)>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<(i32, u32)>::new(), Vec::new());
    let (mut next, mut last) = (0, 0);
    for &(index, count) in buckets {
        match spans.last_mut() {
            Some((_, length)) if index == next => *length += 1,
            _ => spans.push((index - next, 1)),
        }
        next = index + 1;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        deltas.push(count - last);
        last = count;
    }
    if spans.is_empty() {
        spans.push((0, 0));
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_hold_what_has_no_hole() {
        let (spans, deltas) = spans(&[(-3, 5), (-2, 7), (1, 1)]);
        assert_eq!(spans, [(-3, 2), (2, 1)]);
        assert_eq!(deltas, [5, 2, -6]);
        assert_eq!(super::spans(&[]), (vec![(0, 0)], vec![]));
    }
}

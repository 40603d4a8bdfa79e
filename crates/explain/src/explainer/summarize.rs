//! Makes the summary of a run from the sums of its explainer.

use vmnoise_events::coverage::Coverage;
use vmnoise_events::{FinishReason, Share};

use super::Explainer;
use crate::coverage;
use crate::cpu::Cpu;
use crate::interval::Interval;
use crate::ledger::Ledger;
use crate::named::{NamedInterval, NamedPart, SourceSummary};
use crate::names::Names;
use crate::percent::{percent, percent_of_one, round_6};
use crate::periodic::{self, Period};
use crate::summary::{
    ClockJumps, CpuSummary, ExitsOfVcpu, OwnCostSummary, Percentiles, Periodic, Summary,
};
use crate::wakeups::WakeupSummary;

pub(crate) fn summarize(explainer: Explainer) -> Summary {
    let impossible = explainer.cpus.iter().map(Cpu::impossible).sum();
    let losses = explainer.losses.with_undecodable(impossible);
    let late_gaps: u64 = explainer.cpus.iter().map(|cpu| cpu.late_gaps).sum();
    let periodic = explainer.cpus.iter().flat_map(periodic_of).collect();
    let cpus: Vec<CpuSummary> = explainer
        .cpus
        .iter()
        .filter(|cpu| cpu.belongs_to_result(&explainer.facts))
        .map(|cpu| cpu_summary(cpu, &explainer))
        .collect();
    let own_cost = own_cost(&explainer, &cpus);

    let clock_jumps = clock_jumps(&explainer);
    let origin_mono_ns = explainer.origin_mono_ns();
    let origin_ns = origin_mono_ns.unwrap_or_default();
    // A run may continue after a gap reached its limit, or end for another reason before it is
    // stopped.
    let stopped = explainer
        .finish
        .is_none_or(|finish| finish.reason == FinishReason::Stop);
    let (longest, stopped_by) = explainer.worst.into_parts();
    let stopped_by = stopped_by.filter(|_| stopped);
    let is_timer = explainer.visibility.is_timer();
    let named = |interval: &Interval| self::named(interval, origin_ns, &explainer.names);
    let mut worst = longest.iter().map(named).collect();
    let mut stopped_by = stopped_by.as_ref().map(named);
    let wakeups = is_timer.then(|| {
        let cpus = explainer.cpus.iter().filter_map(|cpu| {
            let ledger = cpu.wakeups.as_ref()?;
            Some(ledger.summary(cpu.number, &explainer.visibility, &explainer.names))
        });
        WakeupSummary {
            cpus: cpus.collect(),
            worst: std::mem::take(&mut worst),
            stopped_by: stopped_by.take(),
        }
    });

    let mut summary = Summary {
        coverage: Coverage::of(&explainer.facts),
        residual_percent_of_noise: match &wakeups {
            Some(wakeups) => residual_of_wakeups(wakeups),
            None => residual_percent(&cpus),
        },
        cpus,
        origin_mono_ns,
        worst,
        stopped_by,
        lost_events: losses.total(),
        losses,
        late_events: explainer.late_activities + late_gaps,
        clock_bound_ns: explainer.clock.bound_ns(),
        clock_jumps,
        tsc_went_back_at_ns: explainer
            .clock_lost_ns
            .map(|at_ns| at_ns.saturating_sub(origin_ns)),
        probe_statuses: explainer.facts.probe_statuses,
        periodic,
        feed: explainer.feed.summary(),
        wakeups,
        own_cost,
        complete: explainer.finish.is_some(),
        finish_reason: explainer.finish.map(|finish| finish.reason),
    };
    coverage::state(&mut summary);
    summary
}

fn clock_jumps(explainer: &Explainer) -> ClockJumps {
    if !explainer.visibility.dates_by_tsc() {
        return ClockJumps::default();
    }
    ClockJumps {
        count: explainer.clock.jumps(),
        undated_ns: explainer.clock.jumped_ns((0, u64::MAX)),
        undated_gaps: explainer.cpus.iter().map(|cpu| cpu.undated_gaps).sum(),
    }
}

/// Returns a gap or wake-up with names, for a run that has not ended.
pub(crate) fn named_so_far(explainer: &Explainer, interval: &Interval) -> NamedInterval {
    let origin_ns = explainer.origin_mono_ns();
    let origin_ns = origin_ns.unwrap_or(interval.start_mono_ns);
    named(interval, origin_ns, &explainer.names)
}

fn cpu_summary(cpu: &Cpu, explainer: &Explainer) -> CpuSummary {
    let Ledger {
        run, unattributed, ..
    } = &cpu.ledger;
    let runtime_ns = cpu.runtime_ns(&explainer.visibility, &explainer.clock);
    let noise_percent = runtime_ns.and_then(|ns| percent(run.noise_ns.into(), ns.into()));
    let tally = cpu.tally;
    CpuSummary {
        cpu: cpu.number,
        runtime_ns,
        measured_mono_ns: cpu.measured_ns(&explainer.clock),
        not_measured_ns: cpu.not_measured_ns(&explainer.visibility, &explainer.clock),
        gaps: run.gaps,
        noise_ns: run.noise_ns,
        noise_percent,
        cpu_available_percent: noise_percent.map(|noise| round_6((100.0 - noise).max(0.0))),
        max_gap_ns: (run.gaps > 0).then_some(run.max_gap_ns),
        shares_ns: run.shares(&explainer.visibility),
        unbounded_kvm_ns: run.unbounded_kvm_ns(&explainer.visibility),
        interference: run.interference(&explainer.visibility, cpu.interference_counts()),
        incomplete_gaps: run.incomplete_gaps.or(cpu.interference_counts().map(|_| 0)),
        guest_columns: cpu.columns_so_far(&explainer.visibility, &explainer.clock),
        host: cpu.host.part(&explainer.clock),
        steal_clock_ns: tally.and_then(|tally| tally.steal_clock_ns),
        outer_steal_ns: tally.and_then(|tally| tally.outer_steal_ns),
        smi_count: tally.and_then(|tally| tally.smi_count),
        sources: sources(&cpu.ledger, &explainer.names),
        exits: ExitsOfVcpu {
            light: tally.and_then(|tally| tally.light_exits),
            heavy: tally.and_then(|tally| tally.heavy_exits),
            reloads: tally.and_then(|tally| tally.reloads),
            kvm_stat: tally.and_then(|tally| tally.kvm_stat_exits),
        },
        percentiles_ns: percentiles(&cpu.ledger),
        steal_clamps: cpu.ledger.steal_clamps,
        bare_gaps: unattributed.seen,
        bare_gaps_searched: unattributed.kept.len() as u64,
    }
}

fn sources(ledger: &Ledger, names: &Names) -> Vec<SourceSummary> {
    let mut sources: Vec<SourceSummary> = ledger
        .sources
        .iter()
        .map(|((share, source), total)| SourceSummary {
            share: *share,
            name: names.name(*source).to_string().into(),
            count: total.count,
            total_ns: total.total_ns,
            max_ns: total.max_ns,
        })
        .collect();
    sources.sort_by(|a, b| {
        b.total_ns
            .cmp(&a.total_ns)
            .then_with(|| (a.share, &a.name).cmp(&(b.share, &b.name)))
    });
    sources
}

fn percentiles(ledger: &Ledger) -> Percentiles {
    let observed_any = ledger.run.gaps > 0;
    let max_ns = ledger.run.max_gap_ns;
    // The upper edge of a bucket may lie above the longest gap.
    let [p50, p90, p99, p999] = ledger
        .lengths
        .at_quantiles([0.5, 0.9, 0.99, 0.999])
        .map(|ns| observed_any.then_some(ns.min(max_ns)));
    Percentiles {
        p50,
        p90,
        p99,
        p999,
        max: observed_any.then_some(max_ns),
    }
}

fn periodic_of(cpu: &Cpu) -> impl Iterator<Item = Periodic> {
    let unattributed = &cpu.ledger.unattributed;
    let reported = |period: Period| Periodic {
        cpu: cpu.number,
        period_ns: period.period_ns.round() as u64,
        jitter_ns: period.jitter_ns.round() as u64,
        gaps: period.gaps,
        mean_gap_ns: period.total_ns / period.gaps.max(1),
        share_of_residual: round_6(period.total_ns as f64 / unattributed.residual_ns.max(1) as f64),
        fold: period.fold,
    };
    periodic::find_all(&unattributed.kept)
        .into_iter()
        .map(reported)
}

fn own_cost(explainer: &Explainer, cpus: &[CpuSummary]) -> OwnCostSummary {
    let cost = explainer.own_cost;
    let runtime_ns: u128 = cpus
        .iter()
        .filter_map(|cpu| cpu.runtime_ns)
        .map(u128::from)
        .sum();
    OwnCostSummary {
        bpf_runs: cost.map(|cost| cost.bpf_runs),
        bpf_ns: cost.map(|cost| cost.bpf_ns),
        // BPF also runs on CPUs that are not measured.
        percent_of_runtime: cost.and_then(|cost| percent_of_one(cost.bpf_ns.into(), runtime_ns)),
    }
}

fn residual_percent(cpus: &[CpuSummary]) -> Option<f64> {
    let residual: u128 = cpus
        .iter()
        .map(|cpu| u128::from(cpu.shares_ns.sum(&Share::RESIDUALS)))
        .sum();
    percent(
        residual,
        cpus.iter().map(|cpu| u128::from(cpu.noise_ns)).sum(),
    )
}

fn residual_of_wakeups(wakeups: &WakeupSummary) -> Option<f64> {
    let shares = || wakeups.cpus.iter().map(|cpu| &cpu.shares_ns);
    percent(
        shares()
            .map(|it| u128::from(it.sum(&Share::RESIDUALS)))
            .sum(),
        shares().map(|it| u128::from(it.total())).sum(),
    )
}

fn named(interval: &Interval, origin_ns: u64, names: &Names) -> NamedInterval {
    let mut parts = names.parts(&interval.parts);
    if interval.wakeup().is_some() {
        // An activity may take part in several phases, so activities are not counted.
        parts
            .iter_mut()
            .for_each(|part: &mut NamedPart| part.count = 0);
    }
    NamedInterval {
        cpu: interval.cpu,
        at_ns: interval.start_mono_ns.saturating_sub(origin_ns),
        start_mono_ns: interval.start_mono_ns,
        dur_ns: interval.dur_ns,
        parts,
        detail: interval.detail,
    }
}

#!/usr/bin/env python3
"""Recomputes the summary of a recording without any code of vmnoise.

    python3 summary.py RECORDING SUMMARY.json

RECORDING is read with pyarrow; SUMMARY.json is what `vmnoise explain RECORDING
--format json` printed. Exits with 0 and one line if both agree, otherwise with 1
and the first differences. Every integer must agree exactly, with one exception:
the split of an interrupted exit between `kvm` and the residual depends on the
events that the run had read by then. So if exits were traced, only the sum of the
two must agree, and `kvm` must not exceed the exits' net time. Percentages,
periods, the clock's bound and `stopped_by` are not recomputed.

It works on the whole run at once, and cuts time at every begin and end. So it
shares neither code nor method with the program that it checks.
"""

import json
import math
import sys
from collections import Counter, defaultdict, namedtuple

from agreement import RESIDUALS, differences, merge_exits, normalise
from clock import Clock
from stream import (
    ACTIVITY, ANCHOR, EXIT_OF_VCPU, FINISH, GAP, LOSS, OWN_COST, SOURCE, TALLY, VCPU, VCPU_CLOCK,
    VCPU_INTERVAL, VCPU_TOTALS, WATERMARK, read)

EXIT, VMM, THROTTLED, THREAD, BLOCKED, SOFTIRQ, IRQ, NMI, STOPPED = range(9)
SHARE_OF_KIND = {
    "microvm": ["kvm", "vmm", "throttled", "preempted", "blocked",
                "host_softirq", "host_irq", "host_nmi"],
    "spin": ["kvm", "vmm", "throttled", "thread", "blocked", "softirq", "irq", "nmi"],
}
SHARE_OF_KIND["observed"] = SHARE_OF_KIND["spin"]
LOSS_KINDS = ["ring_full", "recursion", "mailbox_full", "unpaired", "undecodable", "vcpus_full",
              "unrecorded"]
FINISH_REASONS = ["duration", "stop", "interrupt", "failed"]
# The probe that makes a share known. A microVM's guest has no kernel and never halts, so
# the shares of a guest's kernel are known to be 0. For a polling thread, nothing below its
# own kernel is known.
WITNESS = {
    "microvm": {"preempted": "sched", "throttled": "sched", "blocked": "sched",
                "steal": "steal_clock", "host_irq": "irq", "host_softirq": "softirq",
                "host_nmi": "nmi", "kvm": "kvm_exit", "vmm": "kvm_run"},
    "spin": {"nmi": "nmi", "irq": "irq", "softirq": "softirq", "thread": "sched",
             "throttled": "sched", "blocked": "sched", "steal": "steal_clock"},
}
# An observed thread does not measure its own losses: steal is known only inside activities.
WITNESS["observed"] = {"nmi": "nmi", "irq": "irq", "softirq": "softirq", "thread": "sched",
                       "throttled": "sched", "steal": "activity_steal"}
ALWAYS_KNOWN = {"microvm": ["nmi", "irq", "softirq", "thread", "halted"], "spin": [],
                "observed": []}
FROM_BELOW = ["preempted", "host_irq", "host_softirq", "host_nmi", "kvm", "vmm", "halted"]
INTERFERENCE = {"nmi": (NMI, "nmi"), "irq": (IRQ, "irq"), "softirq": (SOFTIRQ, "softirq"),
                "thread": (THREAD, "sched")}
COUNTED = {kind for kind, _ in INTERFERENCE.values()}
VIRT = ["kvm", "vmm", "blocked", "throttled", "host_irq", "host_softirq", "host_nmi"]
# Longest holes between two activities in which an observed thread did not run, in ns.
HOLE, WAY = 1_000, 20_000

Activity = namedtuple("Activity", "start end kind source steal")
Run = namedtuple("Run", "workload witnesses names blind threshold")


def owners(start, end, activities):
    """Returns the net time of each activity inside start..end, and the time without an activity.

    At each instant the highest kind owns the time; among equals the one that
    began later, then the shorter one.
    """
    inside = activities
    cuts = sorted({start, end}
                  | {t for a in inside for t in (a.start, a.end) if start < t < end})
    begins = sorted(range(len(inside)), key=lambda i: inside[i].start)
    ranks = [rank(a) + (i,) for i, a in enumerate(inside)]
    net, nobody, running, begun = Counter(), 0, set(), 0
    for left, right in zip(cuts, cuts[1:]):
        while begun < len(begins) and inside[begins[begun]].start <= left:
            running.add(begins[begun])
            begun += 1
        running = {i for i in running if inside[i].end > left}
        if running:
            net[max(running, key=ranks.__getitem__)] += right - left
        else:
            nobody += right - left
    return net, nobody


def rank(activity):
    return (activity.kind, activity.start, -activity.end, activity.source, activity.steal)


def own_steals(activities):
    """Returns the steal of each activity without that of the activities directly inside it.

    An activity inside two others is directly inside the one of the higher rank.
    """
    if not any(a.steal for a in activities):
        return [0] * len(activities)
    nested = Counter()
    upwards = sorted(range(len(activities)), key=lambda i: (rank(activities[i]), i))
    for place, i in enumerate(upwards):
        inner = activities[i]
        for holder in reversed(upwards[:place]):
            outer = activities[holder]
            if outer.start <= inner.start < outer.end and inner.end <= outer.end:
                nested[holder] += inner.steal
                break
    return [max(0, a.steal - nested[i]) for i, a in enumerate(activities)]


def union_length(intervals):
    total, reached = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def overlapping(gaps, activities):
    """Yields each gap (start, end, row), by start, with the activities that overlap it."""
    activities = sorted(activities)
    reachable, following = [], 0
    for gap in sorted(gaps, key=lambda gap: gap[:2]):
        start, end, _ = gap
        while following < len(activities) and activities[following].start < end:
            reachable.append(activities[following])
            following += 1
        reachable = [a for a in reachable if a.end > start]
        yield gap, [a for a in reachable if a.start < end]


def derived(activities, begun, run, clock):
    """Returns the gaps of an observed thread as rows: runs of activities without a hole."""
    runs = []
    for start, end, kind, *_ in sorted(activities, key=lambda a: (a.start, -a.end, a.kind)):
        if kind in (EXIT, VMM, BLOCKED, STOPPED) or start == end:
            continue
        on = runs and runs[-1][2] in (SOFTIRQ, IRQ, NMI) and kind in (SOFTIRQ, THREAD, THROTTLED)
        if not runs or start >= runs[-1][1] + (WAY if on else HOLE):
            runs.append([start, end, kind])
        elif end > runs[-1][1]:
            runs[-1][1:] = end, kind
    felt = {"steal_ns": 0, "light_exits": 0, "heavy_exits": 0, "reloads": 0}
    return [(start, end, felt | {"start_tsc": clock.tsc_at(start), "end_tsc": clock.tsc_at(end)})
            for start, end, _ in runs if start >= begun and end - start >= run.threshold]


def equivalent(ns):
    """Returns the highest value that an HDR histogram of 3 digits cannot distinguish from ns.

    Such a histogram has 2048 buckets for each doubling, of width 1 below 2048.
    """
    width = 1 << max(0, ns.bit_length() - 11)
    return ns // width * width + width - 1


def percentiles(lengths):
    lengths = sorted(lengths)
    if not lengths:
        return dict.fromkeys(["p50", "p90", "p99", "p999", "max"])

    def at(quantile):
        rank = max(1, math.ceil(quantile * len(lengths)))
        return min(equivalent(lengths[rank - 1]), lengths[-1])

    return {"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999),
            "max": lengths[-1]}


def lost_activities(row, activities):
    """Returns the number of counted interferences without an activity; None without a counter."""
    counted = row.get("interference")
    if counted is None:
        return None
    return max(0, counted - sum(a.kind in COUNTED for a in activities))


def counter(row, name):
    return dict(row["counters"] or []).get(name, 0) if "counters" in row else 0


def budget(gap, activities, run):
    """Returns the parts of one gap, {(share, name): [ns, count]}, and its pieces."""
    start, end, row = gap
    witnesses, names = run.witnesses, run.names
    net, rest = owners(start, end, activities)
    robbed = 0
    if witnesses["activity_steal"]:
        own = own_steals(activities)
        for i in net:
            own[i] = min(own[i], net[i])
            net[i] -= own[i]
            robbed += own[i]
    pieces = [(SHARE_OF_KIND[run.workload][activities[i].kind], activities[i].source, ns)
              for i, ns in net.items() if ns]
    parts = defaultdict(lambda: [0, 0])
    for share, source, ns in pieces:
        parts[share, names[source]][0] += ns
        parts[share, names[source]][1] += 1
    # A polling thread reads the clock that its kernel's activities read.
    stolen = 0 if run.workload == "microvm" else robbed
    # If it is unknown who had the CPU, the scheduler still reports how long the thread waited.
    waited = min(counter(row, "run_delay_ns"), rest) if witnesses.get("run_delay") else 0
    if waited:
        parts["thread", None] = [waited, 1]
        pieces.append(("thread", None, waited))
        rest -= waited
    if witnesses["steal_clock"] and run.workload == "spin":
        more = min(max(0, row["steal_ns"] - robbed), rest)
        stolen += more
        rest -= more
    elif witnesses["steal_clock"]:
        waited = union_length((max(a.start, start), min(a.end, end)) for a in activities
                              if a.kind in (THREAD, THROTTLED))
        stolen = min(max(0, row["steal_ns"] - waited), rest)
        rest -= stolen
    if run.workload == "microvm":
        rest += robbed
    if stolen:
        parts["steal", None] = [stolen, 0]
    held = (activities or row["light_exits"] or row["heavy_exits"] or row["reloads"])
    if rest:
        residual = "hv_or_hw" if run.blind else "unexplained" if held else "hw"
        sees_nothing = not any(witnesses[it] for it in ("irq", "softirq", "nmi", "sched"))
        if run.workload == "observed" or sees_nothing or lost_activities(row, activities):
            residual = "unexplained"
        parts[residual, None] = [rest, 0]
    return dict(parts), pieces


def summarise(facts, rows):
    """Returns the same object as the summary, as far as it is recomputed here."""
    of = defaultdict(list)
    names, activities, late, unpaired, watermark = [], defaultdict(list), 0, 0, 0
    for row in rows:
        of[row["event"]].append(row)
        if row["event"] == SOURCE:
            assert row["source"] == len(names), "sources out of order"
            names.append(row["name"])
        elif row["event"] == WATERMARK:
            watermark = max(watermark, row["start_mono_ns"])
        elif row["event"] == ACTIVITY:
            start, end = row["start_mono_ns"], row["end_mono_ns"]
            if end < start:
                unpaired += 1
            elif end < watermark:
                late += 1
            else:
                activities[row["cpu"]].append(
                    Activity(start, end, row["kind"], row["source"], row["steal_ns"]))

    clock = Clock(of[ANCHOR], facts["clock"]["tsc_hz"])
    witnesses = dict(facts["witnesses"])
    if not clock.tsc:  # nothing joins the two clocks
        activities.clear()
        witnesses = {name: name == "steal_clock" and seen for name, seen in witnesses.items()}
    blind = (facts["host"]["hypervisor"] is not None
             or not witnesses["sched"] or not witnesses["irq"]
             or facts["workload"] != "microvm" and witnesses.get("hides_vectors", False))
    observed = facts["workload"] == "observed"
    run = Run(facts["workload"], witnesses, names, blind, facts["options"]["threshold_ns"])

    gaps, impossible, undated = defaultdict(list), 0, 0
    for row in of[GAP]:
        if row["end_tsc"] < row["start_tsc"]:
            impossible += 1
        elif not observed and clock.jumped_between(row["start_tsc"], row["end_tsc"]):
            undated += 1
        else:
            times = clock.ns_at(row["start_tsc"]), clock.ns_at(row["end_tsc"])
            gaps[row["cpu"]].append((*times, row))
    tallies = defaultdict(list)
    for row in of[TALLY]:
        tallies[row["cpu"]].append(row)

    if observed:
        for cpu, own in tallies.items():
            begun = clock.ns_at(own[0]["start_tsc"])
            gaps[cpu] = derived(activities[cpu], begun, run, clock)

    budgets = []
    cpus = []
    asked_for = [] if observed else facts["options"]["cpus"]
    for cpu in sorted({*asked_for, *gaps, *tallies}):
        result, own = cpu_summary(cpu, gaps[cpu], activities[cpu], tallies[cpu], clock, run)
        cpus.append(result)
        budgets += own

    losses = dict.fromkeys(LOSS_KINDS, 0)
    for row in of[LOSS]:
        kind = LOSS_KINDS[row["kind"]]
        losses[kind] = max(losses[kind], dict(row["counters"])["lost"])
    losses["unpaired"] += unpaired
    of_vcpus = [VCPU, EXIT_OF_VCPU, VCPU_INTERVAL, VCPU_TOTALS, VCPU_CLOCK]
    losses["undecodable"] += clock.refused + impossible + sum(len(of[kind]) for kind in of_vcpus)
    budgets.sort(key=lambda gap: (-gap["dur_ns"], gap["start_mono_ns"], gap["cpu"]))
    cost = dict(of[OWN_COST][-1]["counters"]) if of[OWN_COST] else {}
    return {
        "cpus": cpus,
        "worst": budgets[:facts["options"]["top"]],
        "lost_events": sum(losses.values()),
        "losses": losses,
        "late_events": late,
        "clock_jumps": ({"count": 0, "undated_ns": 0, "undated_gaps": 0} if observed else {
            "count": len(clock.jumps), "undated_ns": clock.jumped_ns(0, math.inf),
            "undated_gaps": undated}),
        "own_cost": {key: cost.get(key) for key in ("bpf_runs", "bpf_ns")},
        "complete": bool(of[FINISH]),
        "finish_reason": FINISH_REASONS[of[FINISH][-1]["kind"]] if of[FINISH] else None,
    }


def guest_columns(known, unexplained_at_exits, counters):
    """Returns the thesis' columns of a guest."""
    def add(shares):
        values = [known[share] for share in shares if known[share] is not None]
        return sum(values) if values else None

    virt = None
    if add(["kvm", "vmm"]) is not None:
        virt = add(VIRT) + unexplained_at_exits
    return {"steal_ns": add(["steal", "preempted"]), "virt_ns": virt,
            "hw_noise_ns": known["hw"], "light_exits": counters.get("light_exits"),
            "heavy_exits": counters.get("heavy_exits", counters.get("reloads"))}


def cpu_summary(cpu, gaps, activities, tallies, clock, run):
    shares, totals, lengths, bare, clamps, budgets = Counter(), {}, [], 0, 0, []
    kinds, untouched, unexplained_at_exits, incomplete = Counter(), 0, 0, []
    witnesses, names = run.witnesses, run.names
    first, last = 0, math.inf
    if tallies:
        first, last = clock.ns_at(tallies[0]["start_tsc"]), clock.ns_at(tallies[-1]["end_tsc"])
    stops = [(a.start, a.end, max(0, min(a.end, last) - max(a.start, first)))
             for a in activities if a.kind == STOPPED]
    not_measured = sum(ns for _, _, ns in stops)
    stopped_in_gaps = set()
    for gap, overlap in overlapping(gaps, activities):
        start, end, row = gap
        inside = sum(min(a.end, end) - max(a.start, start) for a in overlap if a.kind == STOPPED)
        if inside > 0:
            not_measured += end - start - inside
            stopped_in_gaps.update((a.start, a.end) for a in overlap if a.kind == STOPPED)
            continue
        parts, pieces = budget(gap, overlap, run)
        assert sum(ns for ns, _ in parts.values()) == end - start, "a budget that does not add up"
        lengths.append(end - start)
        clamps += witnesses["steal_clock"] and row["steal_ns"] > end - start
        lost = lost_activities(row, overlap)
        incomplete += [lost > 0] if lost is not None else []
        bare += not lost and len(parts) == 1 and not {share for share, _ in parts} - RESIDUALS
        for (share, _), (ns, _) in parts.items():
            shares[share] += ns
        kinds.update(a.kind for a in overlap)
        if row.get("interference") is None:
            untouched += not overlap
        else:
            untouched += not row["interference"] and not {a.kind for a in overlap} - COUNTED
        if (row["light_exits"] or row["heavy_exits"] or row["reloads"]
                or {"kvm", "vmm"} & {share for share, _ in parts}):
            unexplained_at_exits += parts.get(("unexplained", None), (0, 0))[0]
        for share, source, ns in pieces:
            count, total, most = totals.get((share, source), (0, 0, 0))
            totals[share, source] = count + 1, total + ns, max(most, ns)
        budgets.append({
            "cpu": cpu, "start_mono_ns": start, "start_tsc": row["start_tsc"],
            "end_tsc": row["end_tsc"], "dur_ns": end - start, "lost_activities": lost,
            "parts": sorted(({"share": share, "source": name, "ns": ns, "count": count}
                             for (share, name), (ns, count) in parts.items()), key=str)})
    known = {share: shares[share] or None for share in FROM_BELOW}
    known |= {share: shares[share] if shares[share] or witnesses[witness] else None
              for share, witness in WITNESS[run.workload].items()}
    known |= {share: shares[share] for share in ALWAYS_KNOWN[run.workload]}
    sees_nothing = not any(witnesses[it] for it in ("irq", "softirq", "nmi", "sched"))
    if witnesses.get("run_delay"):
        known["thread"] = shares["thread"]
    of_residual = {"unexplained"} if sees_nothing else {"hv_or_hw"}
    of_residual = of_residual if run.blind or sees_nothing else {"hw", "unexplained"}
    known |= {share: shares[share] if shares[share] or share in of_residual else None
              for share in RESIDUALS}
    if run.workload == "observed":
        known |= {"blocked": None, "hw": None, "hv_or_hw": None,
                  "unexplained": shares["unexplained"]}
    counters = dict(tallies[-1]["counters"]) if tallies else {}
    runtime = None
    if tallies:
        blind_ns = counters.get("blind_tsc", 0) * 1_000_000_000 // clock.tsc_hz
        # Time of a stop during a pause is already in the blind time.
        twice = sum(ns for start, end, ns in stops if (start, end) not in stopped_in_gaps)
        blind_ns -= min(twice, blind_ns)
        if run.workload != "observed":
            blind_ns += clock.jumped_ns(first, last)
        runtime = max(0, last - first - blind_ns - not_measured)
    sources = [{"share": share, "name": names[source] if source is not None else "unknown",
                "count": count,
                "total_ns": total, "max_ns": most}
               for (share, source), (count, total, most) in totals.items()]
    counts = "interference_irq" in counters
    return {
        "cpu": cpu,
        "runtime_ns": runtime,
        "not_measured_ns": (not_measured if not_measured
                            or witnesses["sched"] and run.workload != "observed" else None),
        "gaps": len(lengths),
        "noise_ns": sum(lengths),
        "max_gap_ns": max(lengths, default=None),
        "shares_ns": known,
        "interference": {
            "hw": (untouched if witnesses["irq"] and witnesses["sched"]
                   and run.workload != "observed" else None),
            **{name: counters.get(f"interference_{name}") if witnesses[witness] else None
               for name, (_, witness) in INTERFERENCE.items() if counts},
            **{name: kinds[kind] if kinds[kind] or witnesses[witness] else None
               for name, (kind, witness) in INTERFERENCE.items() if not counts}},
        "incomplete_gaps": sum(incomplete) if incomplete or counts else None,
        "guest_columns": guest_columns(known, unexplained_at_exits, counters),
        "steal_clock_ns": counters.get("steal_clock_ns"),
        "outer_steal_ns": counters.get("outer_steal_ns"),
        "smi_count": counters.get("smi_count"),
        "sources": sorted(sources, key=str),
        "exits": {"light": counters.get("light_exits"), "heavy": counters.get("heavy_exits"),
                  "reloads": counters.get("reloads"), "kvm_stat": counters.get("kvm_stat_exits")},
        "percentiles_ns": percentiles(lengths),
        "steal_clamps": clamps,
        "bare_gaps": bare,
    }, budgets


def main(recording, summary_path):
    facts, rows = read(recording)
    expected = normalise(summarise(facts, rows))
    with open(summary_path, encoding="utf-8") as file:
        found = normalise(json.load(file))
    faults = []
    for cpu in found["cpus"]:
        known = sum(ns for ns in cpu["shares_ns"].values() if ns is not None)
        if known != cpu["noise_ns"]:
            faults.append(f"cpu {cpu['cpu']}: shares add up to {known}, not {cpu['noise_ns']}")
    if any(row["event"] == ACTIVITY and row["kind"] == EXIT for row in rows):
        for mine, theirs in zip(expected["cpus"], found["cpus"]):
            if (theirs["shares_ns"]["kvm"] or 0) > (mine["shares_ns"]["kvm"] or 0):
                faults.append(f"cpu {mine['cpu']}: more `kvm` than the exits' net time")
        merge_exits(expected)
        merge_exits(found)
    faults += differences(expected, found)
    if faults:
        print(f"{recording}: {len(faults)} differences", *faults[:20], sep="\n  ")
        return 1
    gaps = sum(cpu["gaps"] for cpu in expected["cpus"])
    print(f"{recording}: {gaps} gaps on {len(expected['cpus'])} CPUs, {len(rows)} events: agrees")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))

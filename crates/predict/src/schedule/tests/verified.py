"""Reads sets of tasks, a line each, and prints the bound of each task by PROSA's verified analyses."""

import sys

from response_time_analysis import edf, fifo, fp
from response_time_analysis.model import (
    WCET,
    Deadline,
    FloatingNonPreemptive,
    FullyNonPreemptive,
    FullyPreemptive,
    IdealProcessor,
    LimitedPreemptive,
    PeriodicWithJitter,
    Priority,
    RateDelayModel,
    Task,
    taskset,
)

LIMIT = int(sys.argv[1])


def preemption(cost, sections):
    if sections == 0:
        return FullyPreemptive(WCET(cost))
    if sections == 1:
        return FullyNonPreemptive(WCET(cost))
    if sections <= 4:
        return FloatingNonPreemptive(WCET(cost), min(sections, cost))
    return LimitedPreemptive(WCET(cost), min(4, cost), min(9 - sections, cost))


def bound(policy, tasks, task, supply):
    if policy == 0:
        found = fp.rta(tasks, task, supply, horizon=LIMIT)
    elif policy == 1:
        found = edf.rta(tasks, task, supply, horizon=LIMIT)
    else:
        found = fifo.rta(tasks, supply, horizon=LIMIT)
    return found.response_time_bound


for line in sys.stdin:
    policy, supply, tasks = line.strip().split(";")
    if supply == "ideal":
        supply = IdealProcessor()
    else:
        supply = RateDelayModel(*map(int, supply.split()))
    read = []
    for task in tasks.split(","):
        cost, period, jitter, deadline, priority, sections = map(int, task.split())
        read.append(
            Task(
                PeriodicWithJitter(period, jitter),
                preemption(cost, sections),
                Deadline(deadline),
                Priority(priority),
            )
        )
    tasks = taskset(read)
    bounds = [bound(int(policy), tasks, task, supply) for task in read]
    print(*("-" if it is None else it for it in bounds))

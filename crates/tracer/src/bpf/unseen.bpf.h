/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rebuilds a switch that fired no tracepoint, from the scheduler's own accounting. */
#ifndef VMNOISE_UNSEEN_BPF_H
#define VMNOISE_UNSEEN_BPF_H

#include "kernel.bpf.h"
#include "sources.bpf.h"
#include "vmnoise.h"

/* Stores how many turns the watched thread has had when it leaves. sched_info_arrive counts a turn
 * after the tracepoint of the switch. */
static __always_inline void note_turns(struct vmnoise_cpu *state, struct task_struct *prev)
{
	if (!bpf_core_field_exists(prev->sched_info.pcount))
		return;
	state->vcpu_task = (u64)prev;
	state->vcpu_turns = prev->sched_info.pcount;
}

static __always_inline bool has_had_no_other_turn(struct vmnoise_cpu *state,
						  struct task_struct *prev)
{
	struct task_struct *vcpu = (void *)state->vcpu_task;

	/* The memory of the task may already be freed. The task still exists if its memory still
	 * has its thread id. */
	if (!vcpu || BPF_CORE_READ(vcpu, pid) != state->vcpu_tid)
		return 0;
	return BPF_CORE_READ(vcpu, sched_info.pcount) == state->vcpu_turns + (vcpu == prev);
}

/* Finds when the task that leaves now came, and when the task before it left. Both times are on the
 * clocks of the run queue. The current switch has just updated these clocks (__schedule of
 * kernel/sched/core.c), so their value corresponds to `now`. sched_info_arrive of
 * kernel/sched/stats.h stores the arrival. The departure is the last time at which update_curr
 * charged the task that the last seen switch brought. It is known only if this task has not arrived
 * again since. */
static __always_inline void look_for_unseen(struct vmnoise_cpu *state, struct vmnoise_moment now,
					    struct task_struct *prev, struct vmnoise_unseen *unseen)
{
	struct task_struct *ran = (void *)state->running_task;
	u64 clock, clock_task, arrival, charged;
	struct rq *run_queue;

	if (!bpf_core_field_exists(prev->sched_info.last_arrival) ||
	    !bpf_core_field_exists(prev->se.cfs_rq))
		return;
	unseen->beside_vcpu = has_had_no_other_turn(state, prev);
	run_queue = BPF_CORE_READ(prev, se.cfs_rq, rq);
	clock = BPF_CORE_READ(run_queue, clock);
	arrival = BPF_CORE_READ(prev, sched_info.last_arrival);
	if (arrival && arrival < clock)
		unseen->came_ns = now.mono_ns - (clock - arrival);

	/* The memory of the task may already be freed. The task still exists if its memory still
	 * has its thread id. The idle task is never charged. */
	if (!state->running_tid || BPF_CORE_READ(ran, pid) != state->running_tid)
		return;
	name_task(&state->running, ran, state->running_tid);
	arrival = now.mono_ns - (clock - BPF_CORE_READ(ran, sched_info.last_arrival));
	if (arrival > state->switched_ns + VMNOISE_HANDOVER_NS)
		return;
	clock_task = BPF_CORE_READ(run_queue, clock_task);
	charged = BPF_CORE_READ(ran, se.exec_start);
	if (charged && charged < clock_task)
		unseen->left_ns = now.mono_ns - (clock_task - charged);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the scheduler's own books tell of a switch that fired no tracepoint. */
#ifndef VMNOISE_UNSEEN_BPF_H
#define VMNOISE_UNSEEN_BPF_H

/* Both times are the run queue's clocks, read at the last update: this switch made one, a moment
 * ago (__schedule of kernel/sched/core.c), so `now` is what they say in CLOCK_MONOTONIC. `came` is
 * sched_info_arrive of kernel/sched/stats.h; `left` is the last time the task that was seen to come
 * was charged (update_curr), as long as its last arrival is the one that was seen. */
static __always_inline void look_for_unseen(struct vmnoise_cpu *state, struct vmnoise_moment now,
					    struct task_struct *prev, struct vmnoise_unseen *unseen)
{
	struct task_struct *ran = (void *)state->running_task;
	u64 clock, clock_task, arrival, charged;
	struct rq *run_queue;

	if (!bpf_core_field_exists(prev->sched_info.last_arrival) ||
	    !bpf_core_field_exists(prev->se.cfs_rq))
		return;
	run_queue = BPF_CORE_READ(prev, se.cfs_rq, rq);
	clock = BPF_CORE_READ(run_queue, clock);
	arrival = BPF_CORE_READ(prev, sched_info.last_arrival);
	if (arrival && arrival < clock)
		unseen->came_ns = now.mono_ns - (clock - arrival);

	/* Tasks are freed: this one is there while its number is. Idle is never charged. */
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

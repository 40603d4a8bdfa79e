/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds out whether a task sleeps, runs or waits. */
#ifndef VMNOISE_TASK_STATE_BPF_H
#define VMNOISE_TASK_STATE_BPF_H

#include "kernel.bpf.h"

/* Returns the state of a task. Before 5.18, sched_switch does not have the state as an argument
 * (commit fa2c3254d7cf added prev_state). */
static __always_inline u32 state_of(struct task_struct *task)
{
	struct task_struct___pre_5_14 *older = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ(older, state);
}

/* Returns whether a task has a CPU. Since 7.3 the field is one byte, next to bytes of other fields.
 */
static __always_inline bool is_on_cpu(struct task_struct *task)
{
	u32 on_cpu = 0;

	bpf_core_read(&on_cpu, bpf_core_field_size(task->on_cpu), &task->on_cpu);
	return on_cpu;
}

/* Returns whether a task is on a run queue, whether it runs or waits. Since 6.12, a sleeping task
 * may stay on its queue for a while. */
static __always_inline bool is_on_queue(struct task_struct *task)
{
	u32 on_rq = 0;

	bpf_core_read(&on_rq, bpf_core_field_size(task->on_rq), &task->on_rq);
	return on_rq;
}

#endif

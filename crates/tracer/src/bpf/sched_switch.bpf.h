/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The two forms of sched_switch; each kernel has one of them. The file that includes this file must
 * first define task_switch. There is no include guard, because these are programs of the object
 * that includes them. */

#include "kernel.bpf.h"
#include <bpf/bpf_tracing.h>
#include "task_state.bpf.h"

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	return task_switch(preempt, prev, next, prev_state);
}

/* Before 5.18 the tracepoint has three arguments. */
SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch_before_5_18, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	return task_switch(preempt, prev, next, state_of(prev));
}

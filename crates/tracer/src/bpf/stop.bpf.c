/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Additional data for a run that stops at a limit. These are the kernel's stack at the timer's
 * interrupt, and the tasks that had each CPU of the machine. The programs are loaded only if at
 * least one of the two is wanted. */
#include "kernel.bpf.h"
#include <bpf/bpf_tracing.h>
#include "stop.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct stop_stacks);
} stop_stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct stop_turns);
} stop_turns SEC(".maps");

/* Stores the stack that a timer's interrupt interrupted. The timer wakes a measured task on the
 * task's own CPU. So this program runs inside the interrupt, on the stack of the interrupted
 * code. */
SEC("tp_btf/sched_waking")
int BPF_PROG(keep_stack, struct task_struct *task)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct stop_stacks *here = bpf_map_lookup_elem(&stop_stacks, &cpu);
	struct stop_stack *stack;
	long bytes;

	if (!here || !here->tid || here->tid != (u64)task->pid)
		return 0;
	stack = &here->last[here->kept & (STOP_STACKS - 1)];
	stack->mono_ns = 0;
	bytes = bpf_get_stack(ctx, stack->frame, sizeof(stack->frame), 0);
	stack->frames = bytes > 0 ? bytes / sizeof(stack->frame[0]) : 0;
	stack->mono_ns = bpf_ktime_get_ns();
	here->kept++;
	return 0;
}

/* Stores a turn. The fourth argument is not needed. Kernels before 5.18 do not have it. */
SEC("tp_btf/sched_switch")
int BPF_PROG(keep_turn, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct stop_turns *here = bpf_map_lookup_elem(&stop_turns, &cpu);
	struct stop_turn *turn;

	if (!here)
		return 0;
	turn = &here->last[here->kept & (STOP_TURNS - 1)];
	turn->mono_ns = bpf_ktime_get_ns();
	turn->tid = next->pid;
	__builtin_memcpy(turn->comm, next->comm, COMM_LEN);
	here->kept++;
	return 0;
}

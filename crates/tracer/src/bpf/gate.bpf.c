/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs of the gate, which are attached to tracepoints for days. Each of them needs only a
 * few loads for a task that is not a vCPU. The walk over all tasks stores a vCPU's index in the
 * task storage of its thread. A task without task storage has no bpf_storage. */
#include "kernel.bpf.h"
#include <bpf/bpf_tracing.h>
#include "gate.h"
#include "gate_handlers.bpf.h"
#include "gate_kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Index of each vCPU, in the task storage of its thread. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 8);
	__type(value, u32);
} free_places SEC(".maps");

/* Makes this type part of the object's BTF. The variable itself is not used. */
struct gate_found wire_found;

/* Number of ids that were given so far. */
u32 ids;

/* Returns the index of the vCPU; 0 if the task is not a vCPU. */
static __always_inline u32 place_of(struct task_struct *task)
{
	u32 *place;

	if (!task->bpf_storage)
		return 0;
	place = bpf_task_storage_get(&places, task, 0, 0);
	return place ? *place : 0;
}

static __always_inline void book_switch(struct gate_cpu *here, u32 cpu, bool preempt,
					struct task_struct *prev, struct task_struct *next,
					u32 prev_state)
{
	u32 leaves, comes;
	struct gate_who who = {};
	struct gate_vcpu *vcpu;
	bool came_unseen;
	u64 now;

	came_unseen = here->tid != (u32)prev->pid;
	here->tid = next->pid;
	comes = place_of(next);
	leaves = came_unseen || !here->vcpu ? place_of(prev) : here->vcpu;
	if (!comes && !leaves && !here->waiting && !here->vcpu)
		return;
	now = bpf_ktime_get_ns();
	vcpu = gate_vcpu(leaves);
	if (here->waiting) {
		/* If a task came without an event, unknown tasks had a part of this turn. */
		if (!came_unseen)
			who_is(&who, prev, vcpu);
		turn_ends(here, cpu, now, &who, came_unseen ? ~0 : prev->pid,
			  !came_unseen && is_ordinary(prev));
	}
	if (vcpu) {
		bool runnable = preempt || !prev_state, throttled = 0;
		u32 state = GATE_WAITING;
		u64 throttles = 0;

		if (runnable) {
			throttled = is_throttled(prev);
			throttles = throttles_of(prev);
		} else {
			state = prev_state & TASK_DEAD ? GATE_ENDED : sleep_of(prev);
		}
		gate_leaves(vcpu, here, cpu, now, switches_of(prev), state, !is_ordinary(prev),
			    throttled, throttles);
	}
	vcpu = gate_vcpu(comes);
	if (vcpu)
		gate_comes(vcpu, here, cpu, now, switches_of(next), throttles_of(next));
	here->vcpu = comes;
}

static __always_inline int task_switch(bool preempt, struct task_struct *prev,
				       struct task_struct *next, u32 prev_state)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct gate_cpu *here = gate_cpu(cpu);
	u64 begin = 0;

	if (!here)
		return 0;
	if (!(here->runs++ % GATE_TIMED_RUN))
		begin = bpf_ktime_get_ns();
	book_switch(here, cpu, preempt, prev, next, prev_state);
	if (begin)
		here->timed_ns += bpf_ktime_get_ns() - begin;
	return 0;
}

#include "sched_switch.bpf.h"

/* Fires while the scheduler holds the lock of the queue on which the task is put (ttwu_do_activate
 * of kernel/sched/core.c). */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	struct gate_vcpu *vcpu = gate_vcpu(place_of(task));
	u32 cpu = vcpu ? cpu_of(task) : 0;
	struct gate_cpu *there = vcpu ? gate_cpu(cpu) : 0;

	if (there)
		gate_wakes(vcpu, there, cpu, bpf_ktime_get_ns(), switches_of(task),
			   !is_ordinary(task), is_throttled(task), throttles_of(task));
	return 0;
}

/* Fires before the task moves. The scheduler holds the lock of the queue that the task leaves
 * (set_task_cpu). */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *task, int to_cpu)
{
	struct gate_vcpu *vcpu = gate_vcpu(place_of(task));
	struct gate_cpu *from, *to;
	struct gate_who who = {};
	u32 tid = ~0, from_cpu;
	bool ordinary = 0;
	u64 now;

	if (!vcpu || vcpu->state != GATE_WAITING || vcpu->waits_for == (u32)to_cpu)
		return 0;
	to = gate_cpu(to_cpu);
	if (!to)
		return 0;
	from_cpu = cpu_of(task);
	from = from_cpu == vcpu->waits_for ? gate_cpu(from_cpu) : 0;
	one_more_waits(to);
	now = bpf_ktime_get_ns();
	if (from && bpf_core_field_exists(task->se.cfs_rq)) {
		struct task_struct *runs = task->se.cfs_rq->rq->curr;
		bool is_known = from->tid == (u32)runs->pid;

		who_is(&who, runs, is_known ? gate_vcpu(from->vcpu) : 0);
		tid = runs->pid;
		ordinary = is_ordinary(runs);
	}
	gate_moves(vcpu, from, to_cpu, now, &who, tid, ordinary, throttles_of(task));
	return 0;
}

/* Confirms the state of a vCPU. The values are read in the order that gate_confirms requires. */
static __always_inline void confirm(struct gate_vcpu *vcpu, struct task_struct *task)
{
	u64 now = bpf_ktime_get_ns();
	bool has_cpu = is_on_cpu(task);
	bool is_ready = has_cpu || is_on_queue(task);

	barrier();
	gate_confirms(vcpu, now, has_cpu, is_ready, switches_of(task));
}

/* Reports the vCPUs in a walk over all tasks. These are the vCPUs that have an index, and threads
 * that run a vCPU, which get an index now. */
SEC("iter/task")
int find_vcpus(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct gate_found found = {};
	struct gate_vcpu *vcpu;
	u32 *place;

	if (!task)
		return 0;
	found.place = place_of(task);
	if (!found.place && !runs_vcpu(task))
		return 0;
	found.tid = task->pid;
	found.tgid = task->tgid;
	found.number = ~0;
	vcpu = gate_vcpu(found.place);
	if (vcpu)
		confirm(vcpu, task);
	if (!found.place && !bpf_map_pop_elem(&free_places, &found.place)) {
		found.number = number_of(task);
		vcpu = gate_vcpu(found.place);
		if (vcpu)
			gate_begins(vcpu, __sync_fetch_and_add(&ids, 1) + 1, found.tgid,
				    bpf_ktime_get_ns(), switches_of(task), is_on_cpu(task));
		/* From now on, the programs at events find the vCPU. */
		place = bpf_task_storage_get(&places, task, &found.place,
					     BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!place) {
			bpf_map_push_elem(&free_places, &found.place, 0);
			found.place = 0;
		}
	}
	vcpu = gate_vcpu(found.place);
	if (vcpu)
		found.id = vcpu->id;
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

/* Confirms the states of the vCPUs that have an index, in a walk over all tasks. This program gives
 * no indexes, because a new index must be reported with the vCPU's number. Only find_vcpus reports
 * to user space. */
SEC("iter/task")
int confirm_vcpus(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct gate_vcpu *vcpu = task ? gate_vcpu(place_of(task)) : 0;

	if (vcpu)
		confirm(vcpu, task);
	return 0;
}

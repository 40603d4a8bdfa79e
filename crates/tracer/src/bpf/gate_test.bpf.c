/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Test only: a raw_tp program that calls the gate's handlers with a stream of events from a map.
 * All values of an event are in the map, including the time. */
#include "kernel.bpf.h"
#include "gate.h"
#include "gate_handlers.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { ROOM = 64 };

enum happens { SWITCH, WAKES, MOVES, BEGINS, CONFIRMS };

/* One event. */
struct happened {
	u64 what;
	u64 cpu;
	u64 now;
	u64 vcpu; /* index of the vCPU that leaves, is woken or moves; 0 if the task is not a vCPU
		   */
	u64 tid;  /* the task that leaves, or that runs on the CPU that the vCPU leaves */
	u64 tgid;
	u64 comm;  /* first letters of the name of this task */
	u64 next;  /* index of the vCPU that comes; 0 if the task is not a vCPU */
	u64 state; /* new state of the vCPU that leaves */
	u64 throttled;
	u64 throttles; /* total throttled time of the groups so far */
	u64 ordinary;  /* whether the task `tid` is not real-time */
	u64 urgent;    /* whether the vCPU is real-time */
	u64 to;	       /* the CPU to which the vCPU moves, or the id that it gets */
	u64 left;      /* how often the thread of `vcpu` has left a CPU */
	u64 came;      /* how often the thread of `next` has left a CPU */
	u64 has_cpu;   /* whether the vCPU that begins or is confirmed has a CPU */
	u64 is_ready;  /* whether the vCPU that is confirmed has a CPU or is on a run queue */
};

struct happenings {
	u64 count;
	struct happened events[ROOM];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct happenings);
} stream SEC(".maps");

/* Handles one event. The function is not static, so that the verifier checks it once, and not for
 * each event. */
__noinline int happens(struct happened *it)
{
	struct gate_cpu *here, *to;
	struct gate_vcpu *vcpu, *next;
	struct gate_who who = {};

	if (!it)
		return 0;
	vcpu = gate_vcpu(it->vcpu);
	next = gate_vcpu(it->next);
	here = gate_cpu(it->cpu);
	to = gate_cpu(it->to);
	who.comm[0] = it->comm;
	who.vcpu = vcpu ? vcpu->id : 0;
	who.tgid = it->tgid;
	if (!here)
		return 0;
	if (it->what == SWITCH) {
		if (here->waiting)
			turn_ends(here, it->cpu, it->now, &who, it->tid, it->ordinary);
		if (vcpu)
			gate_leaves(vcpu, here, it->cpu, it->now, it->left, it->state, it->urgent,
				    it->throttled, it->throttles);
		if (next)
			gate_comes(next, here, it->cpu, it->now, it->came, it->throttles);
	} else if (it->what == WAKES && vcpu) {
		gate_wakes(vcpu, here, it->cpu, it->now, it->left, it->urgent, it->throttled,
			   it->throttles);
	} else if (it->what == MOVES && vcpu && to) {
		who.vcpu = next ? next->id : 0;
		one_more_waits(to);
		gate_moves(vcpu, here, it->to, it->now, &who, it->tid, it->ordinary, it->throttles);
	} else if (it->what == BEGINS && vcpu) {
		gate_begins(vcpu, it->to, it->tgid, it->now, it->left, it->has_cpu);
	} else if (it->what == CONFIRMS && vcpu) {
		gate_confirms(vcpu, it->now, it->has_cpu, it->is_ready, it->left);
	}
	return 0;
}

SEC("raw_tp/test")
int test_stream(void *context)
{
	struct happenings *all;
	u32 zero = 0, i;

	all = bpf_map_lookup_elem(&stream, &zero);
	if (!all)
		return 0;
	for (i = 0; i < ROOM; i++) {
		if (i >= all->count)
			break;
		happens(&all->events[i]);
	}
	return 0;
}

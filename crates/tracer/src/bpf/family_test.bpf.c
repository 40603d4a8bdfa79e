/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Test only: a raw_tp program that calls the handlers of a family. Its context is one event,
 * with the time and the steal clock. Threads are in an array, indexed by numbers that the test
 * chooses. */
#include "kernel.bpf.h"
#include "family.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct family_cpu);
} cpus SEC(".maps");

/* Threads of the family by number. Number 0 is not used. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct family_thread);
} threads SEC(".maps");

#include "family_handlers.bpf.h"

enum happens { SWITCH, WAKES, MOVES, IRQ_ENTRY, IRQ_EXIT, SOFTIRQ_ENTRY, SOFTIRQ_EXIT, NMI };

struct happened {
	u64 what;
	u64 cpu;
	u64 now;
	u64 steal;
	u64 prev; /* threads of the family; other tasks have numbers from 1000 on; 0 is idle */
	u64 next;
	u64 flags;
	u64 to;
	u64 to_steal; /* steal clock of the CPU `to` */
};

enum { SLEEPS = 1, THROTTLED = 2, ON_CPU = 4, DIES = 8 };

static __always_inline struct family_thread *thread_of(u64 number)
{
	u32 key = number;

	return number && number < 16 ? bpf_map_lookup_elem(&threads, &key) : 0;
}

SEC("raw_tp/test")
int test_event(struct happened *given)
{
	struct vmnoise_source who = {};
	struct family_switch what = {};
	struct family_cpu *cpu, *to;
	struct family_thread *prev, *next;
	struct happened event = *given;
	struct family_event it = {.now = event.now, .steal = event.steal, .number = event.cpu};
	u32 number = event.cpu, to_number = event.to;

	cpu = bpf_map_lookup_elem(&cpus, &number);
	to = bpf_map_lookup_elem(&cpus, &to_number);
	prev = thread_of(event.prev);
	next = thread_of(event.next);
	if (!cpu || !to)
		return 0;
	who.id = event.prev;
	if (event.what == SWITCH &&
	    !is_for_family(cpu, event.prev - 1 < 999 || event.next - 1 < 999)) {
		cpu->task = event.next + 1;
		return 0;
	}
	if (event.what == SWITCH) {
		what.prev = event.prev + 1;
		what.next = event.next + 1;
		what.prev_is_idle = !event.prev;
		what.prev_sleeps = event.flags & SLEEPS;
		what.prev_is_throttled = !!(event.flags & THROTTLED);
		u64 blamed = family_switch(cpu, &it, &what, prev, next, &who);

		if (prev && event.flags & DIES)
			family_ends(prev, cpu, 0, 0);
		return blamed;
	}
	if (event.what == WAKES && prev) {
		family_wakes(prev, cpu, &it, !!(event.flags & ON_CPU), !!(event.flags & THROTTLED),
			     0);
	} else if (event.what == MOVES && prev) {
		it.number = to_number;
		it.steal = event.to_steal;
		family_moves(prev, cpu, event.steal, to, &it, 0);
	} else if (!cpu->is_own) {
		return 0;
	} else if (event.what == IRQ_ENTRY) {
		own_irq_entry(&cpu->own, event.now, event.steal, event.prev, 0);
	} else if (event.what == IRQ_EXIT) {
		family_irq_exit(cpu, event.now, event.steal, event.prev, 0);
	} else if (event.what == SOFTIRQ_ENTRY) {
		own_softirq_entry(&cpu->own, event.now, event.steal);
	} else if (event.what == SOFTIRQ_EXIT) {
		family_softirq_exit(cpu, event.now, event.steal);
	} else if (event.what == NMI) {
		cpu->nmi += event.next;
	}
	return 0;
}

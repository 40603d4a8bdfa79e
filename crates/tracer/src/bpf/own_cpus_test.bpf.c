/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Test only: a raw_tp program that calls the handlers of own_cpus. Its context is one event, with
 * the time and the steal clock. */
#include "kernel.bpf.h"
#include "own_cpus.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct own_cpu);
} cpus SEC(".maps");

#include "own_cpus_handlers.bpf.h"

enum happens { IRQ_ENTRY, IRQ_EXIT, SOFTIRQ_ENTRY, SOFTIRQ_EXIT, SWITCH, WAIT };

/* Handles an event. Its words are its kind, the time, the steal clock, and one more value. This
 * value is the id of an interrupt, or the begin of a wait. */
SEC("raw_tp/test")
int test_event(u64 *event)
{
	u64 what = event[0], now = event[1], steal_ns = event[2], id = event[3];
	u32 zero = 0;
	struct own_cpu *here = bpf_map_lookup_elem(&cpus, &zero);

	if (!here)
		return 0;
	if (what == IRQ_ENTRY)
		own_irq_entry(here, now, steal_ns, id, 0);
	else if (what == IRQ_EXIT)
		own_irq_exit(here, now, steal_ns, id, 0);
	else if (what == SOFTIRQ_ENTRY)
		own_softirq_entry(here, now, steal_ns);
	else if (what == SOFTIRQ_EXIT)
		own_softirq_exit(here, now, steal_ns);
	else if (what == SWITCH)
		own_switch(here, now, steal_ns);
	else if (what == WAIT)
		own_wait(here, id, now);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts, for days, the time that is taken from this machine's own CPUs, if the machine is a guest.
 * Time is taken by its hypervisor, by interrupts, and by tasks for whose CPU another task waits. */
#include "kernel.bpf.h"
#include <bpf/bpf_tracing.h>
#include "vmnoise.h"
#include "own_cpus.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* One slot for each CPU. Only this CPU writes its slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct own_cpu);
} cpus SEC(".maps");

typedef struct own_cpu steal_cpu;
#include "steal_clock.bpf.h"
#include "own_cpus_handlers.bpf.h"

/* Returns the current CPU if it is counted; otherwise 0. */
static __always_inline struct own_cpu *counted(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct own_cpu *here = bpf_map_lookup_elem(&cpus, &cpu);

	return here && here->steal_clock ? here : 0;
}

static __always_inline u64 steal_of(const struct own_cpu *here)
{
	return stolen_ns((void *)here->steal_clock, settings.xen);
}

/* Ends a program that began at `begin`. */
static __always_inline int ran(struct own_cpu *here, u64 begin)
{
	if (!(here->runs++ % OWN_TIMED_RUN))
		here->timed_ns += bpf_ktime_get_ns() - begin;
	return 0;
}

static __always_inline int irq_begins(u32 id, u32 origin)
{
	struct own_cpu *here = counted();
	u64 now;

	if (!here)
		return 0;
	now = bpf_ktime_get_ns();
	own_irq_entry(here, now, steal_of(here), id, origin);
	return ran(here, now);
}

static __always_inline int irq_ends(u32 id, u32 origin)
{
	struct own_cpu *here = counted();
	u64 now;

	if (!here)
		return 0;
	now = bpf_ktime_get_ns();
	own_irq_exit(here, now, steal_of(here), id, origin);
	return ran(here, now);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int irq)
{
	return irq_begins(irq, VMNOISE_FROM_LINE);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_exit, int irq)
{
	return irq_ends(irq, VMNOISE_FROM_LINE);
}

#define IRQ_VECTOR(word)                                                                           \
	SEC("tp_btf/" #word "_entry")                                                              \
	int BPF_PROG(word##_entry, int vector)                                                     \
	{                                                                                          \
		return irq_begins(vector, VMNOISE_FROM_VECTOR);                                    \
	}                                                                                          \
	SEC("tp_btf/" #word "_exit")                                                               \
	int BPF_PROG(word##_exit, int vector)                                                      \
	{                                                                                          \
		return irq_ends(vector, VMNOISE_FROM_VECTOR);                                      \
	}

#include "irq_vectors.bpf.h"

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry)
{
	struct own_cpu *here = counted();
	u64 now;

	if (!here)
		return 0;
	now = bpf_ktime_get_ns();
	own_softirq_entry(here, now, steal_of(here));
	return ran(here, now);
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit)
{
	struct own_cpu *here = counted();
	u64 now;

	if (!here)
		return 0;
	now = bpf_ktime_get_ns();
	own_softirq_exit(here, now, steal_of(here));
	return ran(here, now);
}

/* Counts the wait of the task that gets the CPU. The kernel counts this wait just after the
 * tracepoint, by the same clock (sched_info_arrive of kernel/sched/stats.h). So the time at which
 * the task was put on this queue is still stored. This time is not stored for an idle task, or on a
 * kernel without this accounting. */
static __always_inline void waited(struct own_cpu *here, struct task_struct *next)
{
	u64 queued;

	if (!bpf_core_field_exists(next->sched_info.last_queued) ||
	    !bpf_core_field_exists(next->se.cfs_rq) || !next->pid)
		return;
	queued = next->sched_info.last_queued;
	if (queued)
		own_wait(here, queued, next->se.cfs_rq->rq->clock);
}

static __always_inline int task_switch(bool preempt, struct task_struct *prev,
				       struct task_struct *next, u32 prev_state)
{
	struct own_cpu *here = counted();
	u64 now = 0;

	if (!here)
		return 0;
	/* A reading of the clock is rarely needed, and costs as much as the rest of this
	 * program. */
	if (here->softirq_start || !(here->runs % OWN_TIMED_RUN))
		now = bpf_ktime_get_ns();
	own_switch(here, now, steal_of(here));
	waited(here, next);
	return ran(here, now);
}

#include "sched_switch.bpf.h"

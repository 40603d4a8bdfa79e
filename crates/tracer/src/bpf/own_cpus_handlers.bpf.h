/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The handlers of the events of a CPU. All values are arguments, including the time and the steal
 * clock.
 *
 * The programs at switches and interrupts do not interrupt one another. The programs at softirqs
 * may be interrupted anywhere. They share only the steal time with the other programs. So only the
 * steal time is counted by atomic instructions. */
#ifndef VMNOISE_OWN_CPUS_HANDLERS_BPF_H
#define VMNOISE_OWN_CPUS_HANDLERS_BPF_H

#include "kernel.bpf.h"
#include "lengths.bpf.h"
#include "own_cpus.h"

const volatile struct own_settings settings;

typedef struct own_cpu irq_cpu;
typedef struct own_begin irq_begin;

static __always_inline void count_unpaired(struct own_cpu *here, u32 count)
{
	here->unpaired += count;
}

#include "irq_nesting.bpf.h"

static __always_inline u64 minus(u64 from, u64 what)
{
	return from > what ? from - what : 0;
}

static __always_inline void count(struct own_lengths *lengths, u64 ns)
{
	lengths->ns += ns;
	lengths->counts[bucket_of(settings.bounds, ns)]++;
}

/* Handles a reading of the steal clock. The first program that sees an increase counts it. */
static __always_inline void steal_is(struct own_cpu *here, u64 steal_ns)
{
	u64 until = here->steal_until, lost;

	if (until != OWN_UNREAD && steal_ns <= until)
		return;
	if (__sync_val_compare_and_swap(&here->steal_until, until, steal_ns) != until ||
	    until == OWN_UNREAD)
		return;
	lost = steal_ns - until;
	__sync_fetch_and_add(&here->steal.ns, lost);
	__sync_fetch_and_add(&here->steal.counts[bucket_of(settings.bounds, lost)], 1);
}

/* Returns the time that does not count for a softirq, or for an interrupt, during which it
 * passes. */
static __always_inline u64 taken(const struct own_cpu *here)
{
	return here->irq.ns + here->steal.ns;
}

static __always_inline u64 net_of(const struct own_cpu *here, u64 start, u64 now, u64 taken_before)
{
	return minus(minus(now, start), taken(here) - taken_before);
}

static __always_inline void own_irq_entry(struct own_cpu *here, u64 now, u64 steal_ns, u32 id,
					  u32 origin)
{
	struct own_begin *begin;

	steal_is(here, steal_ns);
	here->irq_seen = 1;
	if (here->irq_depth >= OWN_NESTING) {
		count_unpaired(here, 1);
		return;
	}
	begin = &here->irqs[here->irq_depth % OWN_NESTING];
	begin->start = now;
	begin->taken = taken(here);
	begin->source.id = id;
	begin->source.origin = origin;
	here->irq_depth++;
}

static __always_inline void own_irq_exit(struct own_cpu *here, u64 now, u64 steal_ns, u32 id,
					 u32 origin)
{
	struct own_begin *begin;

	steal_is(here, steal_ns);
	/* This end comes before the first begin, so the interrupt began before counting did. This
	 * is not a loss. */
	if (!here->irq_seen)
		return;
	begin = irq_ended(here, id, origin);
	if (begin)
		count(&here->irq, net_of(here, begin->start, now, begin->taken));
}

static __always_inline void own_softirq_entry(struct own_cpu *here, u64 now, u64 steal_ns)
{
	steal_is(here, steal_ns);
	here->softirq_taken = taken(here);
	here->softirq_start = now;
}

/* Ends a softirq. Does nothing if a switch has already ended the softirq, or if the softirq began
 * before counting did. */
static __always_inline void own_softirq_exit(struct own_cpu *here, u64 now, u64 steal_ns)
{
	steal_is(here, steal_ns);
	if (!here->softirq_start)
		return;
	count(&here->softirq, net_of(here, here->softirq_start, now, here->softirq_taken));
	here->softirq_start = 0;
}

/* Ends interrupts at a switch. No interrupt continues over a switch, so the end of an open
 * interrupt was lost. A softirq of PREEMPT_RT may continue as a thread's work. The time after the
 * switch counts for the thread. */
static __always_inline void own_switch(struct own_cpu *here, u64 now, u64 steal_ns)
{
	own_softirq_exit(here, now, steal_ns);
	if (here->irq_depth)
		count_unpaired(here, here->irq_depth);
	here->irq_depth = 0;
}

/* Counts the wait of a task that gets the CPU. Both times are in ns on the run queue's clock. */
static __always_inline void own_wait(struct own_cpu *here, u64 queued, u64 clock)
{
	count(&here->wait, minus(clock, queued));
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Separates the time before a halt from the time in the halt. KVM reports a halt at its end. So its
 * begin must be found within the time that is already charged. */
#ifndef VMNOISE_EXITS_HALTS_BPF_H
#define VMNOISE_EXITS_HALTS_BPF_H

#include "kernel.bpf.h"
#include "exits.h"
#include "exits_state.bpf.h"

/* Notes that no halt that is still to be reported began before now. All time until now must be
 * charged. Sleeps until now were not halts of the guest. */
static __always_inline void no_halt_before(struct exits_vcpu *vcpu)
{
	vcpu->taken_before = vcpu->taken;
	if (!vcpu->interruptions)
		return;
	vcpu->interruptions = 0;
	__builtin_memset(&vcpu->slept, 0, sizeof(vcpu->slept));
}

/* Clears the exit in progress. Its split must be empty. */
static __always_inline void none_taken(struct exits_vcpu *vcpu)
{
	vcpu->now.heavy = 0;
	vcpu->taken = 0;
	vcpu->in_exit = 0;
	no_halt_before(vcpu);
}

/* Notes the end of an interruption of the vCPU. Only the last interruptions are kept. */
static __always_inline void interruption_ends(struct exits_vcpu *vcpu, const struct exits_cpu *here,
					      u64 now)
{
	struct exits_taken_by *by = &vcpu->by[vcpu->interruptions % EXITS_INTERRUPTIONS];

	by->mono_ns = now;
	by->taken = vcpu->taken + interrupts(&here->done) - interrupts(&vcpu->mark);
	by->slept = vcpu->slept;
	vcpu->interruptions++;
}

static __always_inline u64 slept_ns(const struct exits_slept *slept)
{
	return slept->blocked_ns + interrupts(&slept->work);
}

/* Finds the least time that can have been taken until `instant`, which lies before the oldest kept
 * interruption. This is the time taken until that interruption, minus the time between `instant`
 * and the interruption. Sleeps that fit into the time between count for the halt. */
static __always_inline void taken_long_before(const struct exits_vcpu *vcpu, u64 instant,
					      struct exits_taken_by *taken)
{
	const struct exits_taken_by *oldest = &vcpu->by[vcpu->interruptions % EXITS_INTERRUPTIONS];
	u64 between = oldest->mono_ns - instant;
	u64 least = vcpu->taken_before;

	*taken = *oldest;
	if (slept_ns(&oldest->slept) <= between)
		__builtin_memset(&taken->slept, 0, sizeof(taken->slept));
	taken->taken = minus(oldest->taken, between);
	if (taken->taken < least)
		taken->taken = least;
}

/* Finds the time that had been taken until `instant`. Nothing interrupted the vCPU at this
 * instant. */
static __always_inline void taken_by(const struct exits_vcpu *vcpu, u64 instant,
				     struct exits_taken_by *taken)
{
	const struct exits_taken_by *by;
	u32 back;

	for (back = 1; back <= EXITS_INTERRUPTIONS && back <= vcpu->interruptions; back++) {
		by = &vcpu->by[(vcpu->interruptions - back) % EXITS_INTERRUPTIONS];
		if (by->mono_ns <= instant) {
			*taken = *by;
			return;
		}
	}
	if (vcpu->interruptions > EXITS_INTERRUPTIONS) {
		taken_long_before(vcpu, instant, taken);
		return;
	}
	__builtin_memset(taken, 0, sizeof(*taken));
	taken->taken = vcpu->taken_before;
}

/* Undoes the charges of sleeps after `since`. */
static __always_inline void take_back_sleeps(struct exits_vcpu *vcpu,
					     const struct exits_slept *since)
{
	struct exits_split *split = &vcpu->now.split;
	u64 blocked_ns = vcpu->slept.blocked_ns - since->blocked_ns;
	u64 irq_ns = vcpu->slept.work.irq_ns - since->work.irq_ns;
	u64 softirq_ns = vcpu->slept.work.softirq_ns - since->work.softirq_ns;
	u64 nmi_ns = vcpu->slept.work.nmi_ns - since->work.nmi_ns;

	split->blocked_ns -= blocked_ns;
	split->host_irq_ns -= irq_ns;
	split->host_softirq_ns -= softirq_ns;
	split->host_nmi_ns -= nmi_ns;
	vcpu->taken -= blocked_ns + irq_ns + softirq_ns + nmi_ns;
}

#endif

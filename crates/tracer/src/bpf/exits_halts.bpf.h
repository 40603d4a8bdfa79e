/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What came before a halt, and what fell into it: KVM tells of a halt when it is over, so its begin
 * has to be found among what was booked by then. */
#ifndef VMNOISE_EXITS_HALTS_BPF_H
#define VMNOISE_EXITS_HALTS_BPF_H

/* No halt that is still to be told began before this instant, by which all is booked: sleeps until
 * now were nobody's wish. */
static __always_inline void no_halt_before(struct exits_vcpu *vcpu)
{
	vcpu->taken_before = vcpu->taken;
	if (!vcpu->interruptions)
		return;
	vcpu->interruptions = 0;
	__builtin_memset(&vcpu->slept, 0, sizeof(vcpu->slept));
}

/* Something that kept the vCPU is over. Those that find no room count as parts of the next halt:
 * it comes out too short, and KVM has the difference. */
static __always_inline void interruption_ends(struct exits_vcpu *vcpu, const struct exits_cpu *here,
					      u64 now)
{
	u32 place = vcpu->interruptions;
	struct exits_taken_by *by;

	if (place >= EXITS_INTERRUPTIONS)
		return;
	by = &vcpu->by[place];
	by->mono_ns = now;
	by->taken = vcpu->taken + interrupts(&here->done) - interrupts(&vcpu->mark);
	by->slept = vcpu->slept;
	vcpu->interruptions = place + 1;
}

/* What had been taken by an instant at which nothing kept the vCPU. */
static __always_inline void taken_by(const struct exits_vcpu *vcpu, u64 instant,
				     struct exits_taken_by *taken)
{
	u32 place;

	__builtin_memset(taken, 0, sizeof(*taken));
	taken->taken = vcpu->taken_before;
	for (place = 0; place < EXITS_INTERRUPTIONS; place++) {
		if (place >= vcpu->interruptions || vcpu->by[place].mono_ns > instant)
			break;
		*taken = vcpu->by[place];
	}
}

/* What has been booked of sleeps since is none. */
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

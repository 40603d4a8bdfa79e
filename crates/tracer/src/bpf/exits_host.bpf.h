/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Interrupt work of the host: summed up by CPU, net, and booked to the exit that it fell into. */
#ifndef VMNOISE_EXITS_HOST_BPF_H
#define VMNOISE_EXITS_HOST_BPF_H

/* The first sign of host work while the guest is entered: on SVM before 6.12 kvm_exit comes only
 * after the interrupt that caused it, so the exit starts here. */
static __always_inline void host_begins(struct exits_cpu *here, u32 cpu, u64 now)
{
	struct exits_vcpu *vcpu = exits_vcpu(here->vcpu);

	if (vcpu && vcpu->entered && !vcpu->first_host) {
		vcpu->first_host = now;
		vcpu->now.exit_cpu = cpu;
	}
}

static __always_inline void exits_irq_entry(u32 cpu, u64 now)
{
	struct exits_cpu *here = exits_cpu(cpu);

	if (!here)
		return;
	host_begins(here, cpu, now);
	if (here->irq_depth++)
		return;
	here->irq_start = now;
	here->irq_taken = here->done.nmi_ns;
}

static __always_inline void exits_irq_exit(u32 cpu, u64 now)
{
	struct exits_cpu *here = exits_cpu(cpu);

	/* An end without its begin was in progress when tracing began. */
	if (!here || !here->irq_depth || --here->irq_depth)
		return;
	here->done.irq_ns += minus(now - here->irq_start, here->done.nmi_ns - here->irq_taken);
}

static __always_inline void exits_softirq_entry(u32 cpu, u64 now)
{
	struct exits_cpu *here = exits_cpu(cpu);

	if (!here)
		return;
	host_begins(here, cpu, now);
	here->softirq_start = now;
	here->softirq_taken = here->done.irq_ns + here->done.nmi_ns;
}

static __always_inline void softirq_ends(struct exits_cpu *here, u64 now)
{
	u64 taken = here->done.irq_ns + here->done.nmi_ns - here->softirq_taken;

	if (here->softirq_start)
		here->done.softirq_ns += minus(now - here->softirq_start, taken);
	here->softirq_start = 0;
}

static __always_inline void exits_softirq_exit(u32 cpu, u64 now)
{
	struct exits_cpu *here = exits_cpu(cpu);

	if (here)
		softirq_ends(here, now);
}

static __always_inline void exits_nmi(u32 cpu, u64 now, u64 delta_ns)
{
	struct exits_cpu *here = exits_cpu(cpu);

	if (!here)
		return;
	host_begins(here, cpu, now - delta_ns);
	here->done.nmi_ns += delta_ns;
}

static __always_inline u64 interrupts(const struct exits_work *done)
{
	return done->irq_ns + done->softirq_ns + done->nmi_ns;
}

/* Books the interrupts between two states of a CPU; returns how long they were. */
static __always_inline u64 book_interrupts(struct exits_vcpu *vcpu, const struct exits_work *from,
					   const struct exits_work *to)
{
	struct exits_split *split = &vcpu->now.split;
	u64 irq_ns = to->irq_ns - from->irq_ns;
	u64 softirq_ns = to->softirq_ns - from->softirq_ns;
	u64 nmi_ns = to->nmi_ns - from->nmi_ns;

	split->host_irq_ns += irq_ns;
	split->host_softirq_ns += softirq_ns;
	split->host_nmi_ns += nmi_ns;
	vcpu->taken += irq_ns + softirq_ns + nmi_ns;
	return irq_ns + softirq_ns + nmi_ns;
}

/* Brings the books up to this instant, while the vCPU's thread has the CPU. */
static __always_inline void book_here(struct exits_vcpu *vcpu, struct exits_cpu *here)
{
	if (interrupts(&here->done) == interrupts(&vcpu->mark))
		return;
	book_interrupts(vcpu, &vcpu->mark, &here->done);
	vcpu->mark = here->done;
}

#endif

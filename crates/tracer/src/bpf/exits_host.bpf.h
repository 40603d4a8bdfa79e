/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Interrupt work of the host. It is summed for each CPU, and charged to the exit in which it
 * happened. Each sum excludes the work that interrupted it. */
#ifndef VMNOISE_EXITS_HOST_BPF_H
#define VMNOISE_EXITS_HOST_BPF_H

#include "kernel.bpf.h"
#include "exits.h"
#include "exits_halts.bpf.h"
#include "exits_state.bpf.h"
#include "exits_stream.bpf.h"
#include "records.bpf.h"

typedef struct exits_cpu irq_cpu;
typedef struct exits_begin irq_begin;
#include "irq_nesting.bpf.h"

/* Point at which tests insert an NMI, or an event of another CPU. */
#ifndef AMID
#define AMID()
#endif

/* Longest time in ns between an NMI and the host's next work if the guest did not run in between.
 * An NMI may come after kvm_entry, before the hardware has entered the guest (VMLAUNCH, or CLGI of
 * SVM). The guest then runs after this NMI. If an NMI makes the guest leave, or comes after the
 * guest left, the host continues at once. */
#ifndef ENTRY_NS
#define ENTRY_NS 10000
#endif

/* Decides about earlier NMIs at the host's next work. If the guest ran after the NMIs, they are not
 * part of an exit, and are not charged. */
static __always_inline void look_back(struct exits_vcpu *vcpu, struct exits_cpu *here, u64 now)
{
	if (minus(now, vcpu->nmi_until) > ENTRY_NS) {
		look_at_done(here, &vcpu->mark);
		no_halt_before(vcpu);
		vcpu->first_host = 0;
	}
	vcpu->nmi_until = 0;
}

/* Notes the host's first work while the guest is entered. On SVM before 6.12, kvm_exit fires only
 * after the interrupt that caused the exit. So the exit begins here. */
static __always_inline void host_begins(struct exits_cpu *here, u32 cpu, u64 now)
{
	struct exits_vcpu *vcpu = exits_vcpu(here->vcpu);

	if (!vcpu || !vcpu->entered)
		return;
	if (vcpu->nmi_until)
		look_back(vcpu, here, now);
	if (!vcpu->first_host) {
		vcpu->first_host = now;
		vcpu->now.exit_cpu = cpu;
	}
}

/* Does the same for an NMI that ended at `now` and took `delta_ns`. */
static __always_inline void nmi_begins(struct exits_cpu *here, u32 cpu, u64 now, u64 delta_ns)
{
	struct exits_vcpu *vcpu = exits_vcpu(here->vcpu);
	bool alone = vcpu && vcpu->entered && (!vcpu->first_host || vcpu->nmi_until);

	host_begins(here, cpu, now - delta_ns);
	if (alone)
		vcpu->nmi_until = now;
}

/* Notes the end of host work. The work is charged when the time of the vCPU on this CPU is next
 * brought up to date. */
static __always_inline void host_ends(struct exits_cpu *here, u64 now)
{
	struct exits_vcpu *vcpu = exits_vcpu(here->vcpu);

	here->done_until = now;
	here->unbooked = 1;
	if (vcpu)
		interruption_ends(vcpu, here, now);
}

/* Returns where to store the name of the interrupt; 0 if the name is not needed. */
static __always_inline struct vmnoise_source *exits_irq_entry(u32 cpu, u64 now, u32 id, u32 origin)
{
	struct exits_cpu *here = counted_cpu(cpu);
	struct exits_begin *begin;

	if (!here)
		return 0;
	host_begins(here, cpu, now);
	here->irq_seen = 1;
	if (here->irq_depth >= EXITS_NESTING) {
		count_unpaired(here, 1);
		return 0;
	}
	begin = &here->irqs[here->irq_depth % EXITS_NESTING];
	begin->start = now;
	begin->taken = here->done.irq_ns + here->done.nmi_ns;
	begin->source.id = id;
	begin->source.origin = origin;
	barrier(); /* a reader on another CPU never finds a depth without its begin */
	here->irq_depth++;
	return streaming ? &begin->source : 0;
}

static __always_inline void irq_ends(struct exits_cpu *here, u32 cpu, u64 now,
				     const struct exits_begin *begin)
{
	u64 taken = here->done.irq_ns + here->done.nmi_ns - begin->taken;

	here->done.irq_ns += minus(now - begin->start, taken);
	host_ends(here, now);
	tell_activity(here, cpu, VMNOISE_IRQ, begin->start, now, &begin->source);
}

static __always_inline void exits_irq_exit(u32 cpu, u64 now, u32 id, u32 origin)
{
	struct exits_cpu *here = exits_cpu(cpu);
	struct exits_begin *begin;

	/* This end comes before the first begin, so the interrupt began before counting did. This
	 * is not a loss. */
	if (!here || !here->irq_seen)
		return;
	begin = irq_ended(here, id, origin);
	if (!begin)
		return;
	barrier(); /* same order as in softirq_ends */
	irq_ends(here, cpu, now, begin);
}

/* Removes open interrupts when a task has the CPU. Their ends were lost. */
static __always_inline void no_irq_here(struct exits_cpu *here)
{
	if (!here->irq_depth)
		return;
	count_unpaired(here, here->irq_depth);
	here->irq_depth = 0;
}

static __always_inline void exits_softirq_entry(u32 cpu, u64 now, u32 number)
{
	struct exits_cpu *here = counted_cpu(cpu);

	if (!here)
		return;
	host_begins(here, cpu, now);
	if (here->softirq_start)
		count_unpaired(here, 1);
	here->softirq_seen = 1;
	here->softirq = number;
	here->softirq_taken = here->done.irq_ns + here->done.nmi_ns;
	here->softirq_start = now;
}

/* Ends a softirq. A reader on another CPU may find the softirq neither in progress nor done. */
static __always_inline void softirq_ends(struct exits_cpu *here, u32 cpu, u64 now)
{
	u64 taken = here->done.irq_ns + here->done.nmi_ns - here->softirq_taken;
	u64 start = here->softirq_start;

	here->softirq_start = 0;
	barrier();
	AMID();
	here->done.softirq_ns += minus(now - start, taken);
	host_ends(here, now);
	if (streaming) {
		struct vmnoise_source source = source_from(VMNOISE_FROM_SOFTIRQ, here->softirq);

		tell_activity(here, cpu, VMNOISE_SOFTIRQ, start, now, &source);
	}
}

static __always_inline void exits_softirq_exit(u32 cpu, u64 now, u32 number)
{
	struct exits_cpu *here = exits_cpu(cpu);

	if (!here || !here->softirq_seen)
		return;
	if (here->softirq_start && here->softirq == number) {
		softirq_ends(here, cpu, now);
		return;
	}
	if (here->softirqs_cut)
		here->softirqs_cut--;
	else
		count_unpaired(here, 1);
	here->softirq_start = 0;
}

/* Ends a softirq at a switch. Under PREEMPT_RT a softirq is work of a thread, and may continue
 * after the switch. The time after the switch then counts for the thread. Without PREEMPT_RT, the
 * end of the softirq was lost. */
static __always_inline void softirq_leaves(struct exits_cpu *here, u32 cpu, u64 now)
{
	if (!here->softirq_start)
		return;
	if (preempt_rt) {
		softirq_ends(here, cpu, now);
		here->softirqs_cut++;
		return;
	}
	count_unpaired(here, 1);
	here->softirq_start = 0;
}

static __always_inline void exits_nmi(u32 cpu, u64 now, u64 delta_ns)
{
	struct exits_cpu *here = exits_cpu(cpu);

	if (!here)
		return;
	nmi_begins(here, cpu, now, delta_ns);
	here->done.nmi_ns += delta_ns;
	host_ends(here, now);
	if (streaming) {
		struct vmnoise_source source = source_from(VMNOISE_FROM_NMI, 0);

		tell_activity(here, cpu, VMNOISE_NMI, now - delta_ns, now, &source);
	}
}

/* Computes the work of a CPU up to now, including the work in progress. The caller may have
 * interrupted this work, or may run on another CPU. The sums are read first. So work that ends
 * during the call counts late, but never twice. */
static __always_inline void work_by(const struct exits_cpu *there, u64 now, struct exits_work *work)
{
	u64 taken;

	*work = there->done;
	barrier();
	if (there->irq_depth) {
		taken = minus(work->irq_ns + work->nmi_ns, there->irqs[0].taken);
		work->irq_ns += minus(minus(now, there->irqs[0].start), taken);
	}
	if (there->softirq_start) {
		taken = minus(work->irq_ns + work->nmi_ns, there->softirq_taken);
		work->softirq_ns += minus(minus(now, there->softirq_start), taken);
	}
	if (there->idle_start) {
		taken = minus(interrupts(work), there->idle_taken);
		work->idle_ns += minus(minus(now, there->idle_start), taken);
	}
}

/* Computes the interrupt work between two states of a CPU. */
static __always_inline void work_between(const struct exits_work *from, const struct exits_work *to,
					 struct exits_work *work)
{
	work->irq_ns = minus(to->irq_ns, from->irq_ns);
	work->softirq_ns = minus(to->softirq_ns, from->softirq_ns);
	work->nmi_ns = minus(to->nmi_ns, from->nmi_ns);
}

static __always_inline u64 at_most(u64 ns, u64 most)
{
	return ns < most ? ns : most;
}

/* Does the same as work_between, with at most `time`, the time between the two states. An interrupt
 * whose end was lost seems to continue during another interrupt. The other interrupt then excludes
 * this time, although it will not exclude it when it ends. */
static __always_inline void work_within(u64 time, const struct exits_work *from,
					const struct exits_work *to, struct exits_work *work)
{
	work_between(from, to, work);
	work->nmi_ns = at_most(work->nmi_ns, time);
	work->softirq_ns = at_most(work->softirq_ns, time - work->nmi_ns);
	work->irq_ns = at_most(work->irq_ns, time - work->nmi_ns - work->softirq_ns);
}

/* Charges interrupt work. Returns its total length in ns. */
static __always_inline u64 book_interrupts(struct exits_vcpu *vcpu, const struct exits_work *work)
{
	struct exits_split *split = &vcpu->now.split;
	u64 irq_ns = work->irq_ns, softirq_ns = work->softirq_ns, nmi_ns = work->nmi_ns;

	split->host_irq_ns += irq_ns;
	split->host_softirq_ns += softirq_ns;
	split->host_nmi_ns += nmi_ns;
	vcpu->taken += irq_ns + softirq_ns + nmi_ns;
	return irq_ns + softirq_ns + nmi_ns;
}

/* Charges work of the host that is not charged yet. This is rare, so the function is not inlined
 * into each program. */
static __noinline u64 book_done(struct exits_vcpu *vcpu, struct exits_cpu *here, u64 now)
{
	struct exits_work done, work;
	u64 until;

	look_at_done(here, &done);
	until = here->done_until;
	AMID();
	barrier();
	/* The copied work must match the copied end time. Work that happens during the second copy
	 * is charged next time. */
	if (here->unbooked) {
		look_at_done(here, &done);
		until = here->done_until;
	}
	work_between(&vcpu->mark, &done, &work);
	book_interrupts(vcpu, &work);
	vcpu->mark = done;
	return until > now ? until : now;
}

/* Charges all time up to now, while the vCPU's thread has the CPU. This includes interruptions
 * since the clock was read. Returns the instant up to which time is charged: `now`, or the end of
 * these interruptions. */
static __always_inline u64 book_here(struct exits_vcpu *vcpu, struct exits_cpu *here, u64 now)
{
	return here->unbooked ? book_done(vcpu, here, now) : now;
}

#endif

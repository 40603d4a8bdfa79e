/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A vCPU whose thread is off the CPU: who had it instead, whether it slept, and for whom. */
#ifndef VMNOISE_EXITS_WAITING_BPF_H
#define VMNOISE_EXITS_WAITING_BPF_H

/* An interval that others had, of which idle is throttling and the rest a preemption. */
static __always_inline void book_waiting(struct exits_vcpu *vcpu, u64 waited,
					 const struct exits_work *from, const struct exits_work *to)
{
	u64 rest = minus(waited, book_interrupts(vcpu, from, to));
	u64 idle_ns = to->idle_ns - from->idle_ns;

	if (idle_ns > rest)
		idle_ns = rest;
	vcpu->now.split.throttled_ns += idle_ns;
	vcpu->now.split.preempted_ns += rest - idle_ns;
	vcpu->taken += rest;
}

/* Forgets the exit in progress. */
static __always_inline void start_afresh(struct exits_vcpu *vcpu)
{
	__builtin_memset(&vcpu->now.split, 0, sizeof(vcpu->now.split));
	vcpu->now.heavy = 0;
	vcpu->taken = 0;
	vcpu->blocked = 0;
	vcpu->in_exit = 0;
}

/* Where no entry tells, a vCPU is measured from the first sign of it. */
static __always_inline void seen(struct exits_vcpu *vcpu, u64 now)
{
	if (!vcpu->first_mono_ns) {
		vcpu->first_mono_ns = now;
		start_afresh(vcpu);
	}
	vcpu->last_mono_ns = now;
}

static __always_inline void add_split(struct exits_split *to, const struct exits_split *from)
{
	to->vmm_ns += from->vmm_ns;
	to->preempted_ns += from->preempted_ns;
	to->blocked_ns += from->blocked_ns;
	to->throttled_ns += from->throttled_ns;
	to->host_irq_ns += from->host_irq_ns;
	to->host_softirq_ns += from->host_softirq_ns;
	to->host_nmi_ns += from->host_nmi_ns;
	to->halted_ns += from->halted_ns;
}

/* What was taken inside KVM_RUN belongs to no exit that anybody saw. */
static __always_inline void book_inside_run(struct exits_vcpu *vcpu)
{
	add_split(&vcpu->split, &vcpu->now.split);
	vcpu->exit_ns += vcpu->taken;
	start_afresh(vcpu);
}

static __always_inline void switched_out(struct exits_vcpu *vcpu, struct exits_cpu *here, u32 cpu,
					 u64 now, bool runnable)
{
	host_begins(here, cpu, now);
	book_here(vcpu, here);
	vcpu->off_start = now;
	vcpu->off_runnable = runnable;
	vcpu->wake = 0;
}

static __always_inline void switched_in(struct exits_vcpu *vcpu, struct exits_cpu *here, u32 cpu,
					u64 now, bool from_idle)
{
	/* Interrupts of a CPU it did not wait on are none of its business. */
	bool same_cpu = vcpu->cpu == cpu;
	struct exits_work *from = same_cpu ? &vcpu->mark : &here->done;
	struct exits_work *middle = &here->done;
	u64 woken = now;

	if (!vcpu->off_start)
		return;
	if (vcpu->off_runnable) {
		book_waiting(vcpu, now - vcpu->off_start, from, &here->done);
	} else {
		/* Where only idle had the CPU, the latency of the wake-up is the sleep's. */
		if (vcpu->wake && !from_idle) {
			woken = vcpu->wake;
			middle = same_cpu ? &vcpu->wake_mark : middle;
		}
		vcpu->in_sleep.irq_ns = middle->irq_ns - from->irq_ns;
		vcpu->in_sleep.softirq_ns = middle->softirq_ns - from->softirq_ns;
		vcpu->in_sleep.nmi_ns = middle->nmi_ns - from->nmi_ns;
		vcpu->blocked = minus(woken - vcpu->off_start, book_interrupts(vcpu, from, middle));
		vcpu->now.split.blocked_ns += vcpu->blocked;
		vcpu->taken += vcpu->blocked;
		if (woken != now)
			book_waiting(vcpu, now - woken, middle, &here->done);
	}
	vcpu->off_start = 0;
}

static __always_inline void exits_switch(u32 cpu, u64 now, bool preempted, u32 prev_state,
					 u32 prev_tid, u32 next_tid)
{
	struct exits_cpu *here = exits_cpu(cpu);
	struct exits_vcpu *vcpu;
	u32 index = 0;

	if (!here)
		return;
	/* No interrupt survives a switch; a softirq of PREEMPT_RT, a thread's work, may. */
	here->irq_depth = 0;
	softirq_ends(here, now);
	if (here->idle_start) {
		here->done.idle_ns +=
		    now - here->idle_start - (interrupts(&here->done) - here->idle_taken);
		here->idle_start = 0;
	}
	vcpu = exits_vcpu(here->vcpu);
	if (vcpu)
		switched_out(vcpu, here, cpu, now, preempted || !prev_state);
	if (!next_tid) {
		here->idle_start = now;
		here->idle_taken = interrupts(&here->done);
	}
	vcpu = next_tid ? vcpu_of_thread(next_tid, &index) : 0;
	here->vcpu = 0;
	if (vcpu) {
		switched_in(vcpu, here, cpu, now, !prev_tid);
		arrives(vcpu, index, here, cpu);
		if (kvm_run_only && !vcpu->in_exit) {
			seen(vcpu, now);
			book_inside_run(vcpu);
		}
	}
}

static __always_inline void exits_waking(u32 tid, u64 now)
{
	struct exits_cpu *there;
	struct exits_vcpu *vcpu;
	u32 index;

	vcpu = vcpu_of_thread(tid, &index);
	if (!vcpu || vcpu->wake)
		return;
	vcpu->wake = now;
	there = exits_cpu(vcpu->cpu);
	if (there)
		vcpu->wake_mark = there->done;
}

/* KVM tells how long the guest's own sleep was, once it is over: what was booked as blocked by
 * then is none. */
static __always_inline void exits_halted(u32 cpu, u64 halt_ns, bool slept)
{
	struct exits_cpu *here = exits_cpu(cpu);
	struct exits_vcpu *vcpu = here ? exits_vcpu(here->vcpu) : 0;
	struct exits_split *split;

	if (!vcpu)
		return;
	book_here(vcpu, here);
	split = &vcpu->now.split;
	if (slept && vcpu->blocked) {
		split->blocked_ns -= vcpu->blocked;
		split->host_irq_ns -= vcpu->in_sleep.irq_ns;
		split->host_softirq_ns -= vcpu->in_sleep.softirq_ns;
		split->host_nmi_ns -= vcpu->in_sleep.nmi_ns;
		vcpu->taken -= vcpu->blocked + interrupts(&vcpu->in_sleep);
	}
	/* What others had of it after the wake-up, or while it polled, is noise. */
	halt_ns = minus(halt_ns, vcpu->taken);
	split->halted_ns += halt_ns;
	vcpu->taken += halt_ns;
	vcpu->blocked = 0;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Handles the scheduler's events of a vCPU's thread, and KVM's reports of halts. */
#ifndef VMNOISE_EXITS_SCHED_BPF_H
#define VMNOISE_EXITS_SCHED_BPF_H

#include "kernel.bpf.h"
#include "exits.h"
#include "exits_halts.bpf.h"
#include "exits_host.bpf.h"
#include "exits_sight.bpf.h"
#include "exits_state.bpf.h"
#include "exits_stream.bpf.h"
#include "exits_waiting.bpf.h"

/* Notes that the task `tid` has this CPU from now on. */
static __always_inline void comes(struct exits_cpu *here, u32 cpu, u64 now, bool from_idle, u32 tid)
{
	struct exits_vcpu *vcpu;
	struct exits_work done;
	u32 index = 0;

	if (!tid) {
		here->idle_start = now;
		here->idle_taken = interrupts(&here->done);
	}
	here->running_since = now;
	here->running_tid = tid;
	vcpu = tid ? vcpu_of_thread(tid, &index) : 0;
	here->vcpu = 0;
	if (!vcpu)
		return;
	look_at_done(here, &done);
	switched_in(vcpu, index, here, cpu, now, from_idle, &done);
	AMID();
	arrives(vcpu, index, here, cpu, now, &done);
	interruption_ends(vcpu, here, now);
	if (kvm_run_only && !vcpu->left)
		seen(vcpu, now);
}

/* Records a switch that fired no event, at the next event on this CPU. No host work was seen here
 * since the switch, so the work counted so far came before the switch. If a vCPU's thread left, the
 * switch is not recorded, because it is unknown whether the thread was runnable. A loss is counted
 * in one case: the switch begins or ends idle time, and another CPU has read this CPU's work since
 * then. That CPU got a wrong idle state. */
static __noinline int rebuild_switch(struct exits_cpu *here, u32 cpu, u64 now,
				     const struct exits_hidden *it)
{
	struct exits_vcpu *vcpu;
	bool from_idle;
	u32 index = 0;
	u64 came;

	if (!here || !it || !here->running_since || here->vcpu || here->running_tid == it->tid)
		return 0;
	came = it->came_ns;
	from_idle = !here->running_tid;
	if (came <= here->running_since || came > now)
		return 0;
	/* The vCPU that came had waited for another CPU. The work on that CPU until `came` is
	 * unknown. */
	vcpu = it->tid ? vcpu_of_thread(it->tid, &index) : 0;
	if (vcpu && vcpu->off_start && vcpu->cpu != cpu)
		return 0;
	if ((from_idle || !it->tid) && here->looked_at >= came)
		count_unpaired(here, 1);
	softirq_leaves(here, cpu, came);
	if (it->left_ns >= here->running_since && it->left_ns + VMNOISE_HANDOVER_NS < came) {
		tell_run(here, cpu, it->left_ns, &it->left);
		here->running_since = 0; /* unknown tasks had the CPU until `came` */
	}
	tell_run(here, cpu, came, &it->left);
	idle_ends(here, came);
	comes(here, cpu, came, from_idle, it->tid);
	return 0;
}

static __always_inline void exits_switch(struct exits_cpu *here, u32 cpu, u64 now, bool preempted,
					 u32 prev_state, const struct vmnoise_source *prev,
					 u32 next_tid)
{
	struct exits_vcpu *vcpu;

	if (!here->running_since || here->running_tid != prev->id)
		unseen_before(here, cpu, now, prev->id);
	no_irq_here(here);
	softirq_leaves(here, cpu, now);
	tell_run(here, cpu, now, prev);
	idle_ends(here, now);
	vcpu = exits_vcpu(here->vcpu);
	if (vcpu)
		switched_out(vcpu, here->vcpu, here, cpu, now, preempted || !prev_state);
	comes(here, cpu, now, !prev->id, next_tid);
}

/* Returns where to store the task that woke the thread. Returns 0 if the name is not needed, or if
 * an interrupt woke the thread. In that case the interrupted task had no part in the wake-up. */
static __always_inline struct vmnoise_source *exits_waking(u32 waker_cpu, u32 tid, u64 now)
{
	struct exits_cpu *there, *here;
	struct exits_vcpu *vcpu;
	u32 index;

	vcpu = vcpu_of_thread(tid, &index);
	if (!vcpu || vcpu->wake)
		return 0;
	vcpu->wake = now;
	there = exits_cpu(vcpu->cpu);
	if (there) {
		there->looked_at = now;
		work_by(there, now, &vcpu->wake_mark);
	}
	if (!streaming || !there || !vcpu->off_start || vcpu->off_runnable)
		return 0;
	waits(vcpu, there);
	here = exits_cpu(waker_cpu);
	vcpu->waker = source_from(VMNOISE_FROM_NOBODY, 0);
	if (here && here->irq_depth)
		vcpu->waker = here->irqs[(here->irq_depth - 1) % EXITS_NESTING].source;
	else if (here && here->softirq_start)
		vcpu->waker = source_from(VMNOISE_FROM_SOFTIRQ, here->softirq);
	else
		return &vcpu->waker;
	return 0;
}

/* Notes that the vCPU is outside its guest. If its exit was not seen, time that is charged from now
 * on does not belong to a later exit. */
static __always_inline void outside_guest(struct exits_vcpu *vcpu)
{
	vcpu->entered = 0;
}

/* Returns the part of a halt that is counted. A halt may begin before the vCPU was first seen, or
 * in unknown time. The halt shows what happened in the unknown time. */
static __always_inline u64 seen_of_halt(struct exits_vcpu *vcpu, u64 now, u64 halt_ns)
{
	u64 begin = now - halt_ns;

	if (begin < vcpu->lost_mono_ns)
		begin = vcpu->lost_mono_ns;
	if (begin < vcpu->regained_mono_ns) {
		vcpu->unseen_ns -= vcpu->regained_mono_ns - begin;
		vcpu->regained_mono_ns = begin;
	}
	return now - begin;
}

/* Charges a halt. KVM reports a halt with its length at its end. Sleeps in the halt are not noise.
 * Time that others had after a wake-up, or while KVM polled, is noise. */
static __always_inline void exits_halted(u32 cpu, u64 now, u64 halt_ns, bool slept, u32 tid)
{
	struct exits_cpu *here = exits_cpu(cpu);
	struct exits_vcpu *vcpu = here ? exits_vcpu(here->vcpu) : 0;
	struct exits_taken_by before;

	/* The thread came without an event. A halt does not make a thread a vCPU. While only some
	 * programs are attached, at the begin and end of tracing, no program may have seen the
	 * thread come. */
	if (here && (vcpu ? vcpu->tid != tid : counting))
		vcpu = halted_vcpu(here, cpu, now, halt_ns, tid);
	if (!vcpu)
		return;
	if (kvm_run_only) {
		seen(vcpu, now);
		halt_ns = seen_of_halt(vcpu, now, halt_ns);
	}
	book_here(vcpu, here, now);
	outside_guest(vcpu);
	tell_interval(vcpu, here->vcpu, EXITS_HALTED, now - halt_ns, now,
		      slept ? vcpu->off_cpu : cpu, cpu);
	taken_by(vcpu, now - halt_ns, &before);
	if (slept)
		take_back_sleeps(vcpu, &before.slept);
	halt_ns = minus(halt_ns, minus(vcpu->taken, before.taken));
	vcpu->now.split.halted_ns += halt_ns;
	vcpu->taken += halt_ns;
	no_halt_before(vcpu);
}

#endif

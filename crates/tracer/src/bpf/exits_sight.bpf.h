/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds which vCPU is current on a CPU, also on machines that hide switches. On such machines, the
 * state of a vCPU may be unknown for some time. */
#ifndef VMNOISE_EXITS_SIGHT_BPF_H
#define VMNOISE_EXITS_SIGHT_BPF_H

#include "kernel.bpf.h"
#include "exits.h"
#include "exits_halts.bpf.h"
#include "exits_state.bpf.h"
#include "exits_stream.bpf.h"
#include "exits_waiting.bpf.h"

/* Notes that the vCPU's state is unknown since `since`. Does nothing if the state is already
 * unknown. */
static __always_inline void not_seen_since(struct exits_vcpu *vcpu, u64 since)
{
	if (vcpu->unseen || !vcpu->first_mono_ns)
		return;
	vcpu->unseen = 1;
	vcpu->lost_mono_ns = since;
}

/* Notes that the vCPU's state is known again. Its totals now extend up to now. */
static __always_inline void seen_again(struct exits_vcpu *vcpu, u64 now)
{
	vcpu->unseen = 0;
	vcpu->unseen_ns += minus(now, vcpu->lost_mono_ns);
	vcpu->regained_mono_ns = now;
	vcpu->last_mono_ns = now;
}

/* Notes that a switch of the vCPU's thread was not seen. It is unknown how long the thread was
 * away, so the exit in progress is not counted. Time that was taken inside KVM_RUN before is
 * counted. Sleeps are an exception, because they may have been halts. If kvm_run_only, a vCPU
 * outside KVM_RUN stays outside until it enters KVM_RUN. */
static __always_inline void lose_sight(struct exits_vcpu *vcpu)
{
	struct exits_slept none = {};

	if (vcpu->in_exit)
		not_seen_since(vcpu, vcpu->now.start_mono_ns);
	else if (kvm_run_only && vcpu->off_start)
		not_seen_since(vcpu, vcpu->off_start);
	else
		not_seen_since(vcpu, vcpu->last_mono_ns);
	if (kvm_run_only && !vcpu->left && vcpu->first_mono_ns) {
		vcpu->unseen_ns += slept_ns(&vcpu->slept);
		take_back_sleeps(vcpu, &none);
		book_inside_run(vcpu);
	} else {
		start_afresh(vcpu);
	}
	/* A move charges a sleep, although no interruption ends at a move. */
	vcpu->slept = none;
	vcpu->entered = 0;
	if (!kvm_run_only)
		vcpu->left = 0;
	vcpu->off_start = 0;
	vcpu->vmm.entered_mono_ns = 0;
}

/* Makes the vCPU's thread current on this CPU only. Work on this CPU is charged to the vCPU from
 * now on. */
static __always_inline void arrives(struct exits_vcpu *vcpu, u32 index, struct exits_cpu *here,
				    u32 cpu, u64 now, const struct exits_work *done)
{
	struct exits_cpu *before = vcpu->cpu != cpu ? exits_cpu(vcpu->cpu) : 0;

	/* No event showed that the thread left the CPU `before`. It is unknown which task runs
	 * there. */
	if (before && before->vcpu == index) {
		before->vcpu = 0;
		if (before->running_tid == vcpu->tid)
			before->running_since = 0;
		count_unpaired(before, 1);
		lose_sight(vcpu);
	}
	if (kvm_run_only && vcpu->unseen && !vcpu->left)
		seen_again(vcpu, now);
	here->vcpu = index;
	here->hosts = 1;
	vcpu->cpu = cpu;
	vcpu->mark = *done;
}

static __always_inline void idle_ends(struct exits_cpu *here, u64 now)
{
	u64 start = here->idle_start;

	if (!start)
		return;
	here->idle_start = 0;
	barrier(); /* same order as in softirq_ends */
	/* An NMI may have come since the clock was read. It may even be longer than the idle
	 * time. */
	here->done.idle_ns += minus(now - start, interrupts(&here->done) - here->idle_taken);
}

/* Handles a hidden switch: the current thread is not the thread that the last seen switch
 * brought. */
static __always_inline void left_unseen(struct exits_cpu *here, u32 tid)
{
	struct exits_vcpu *vcpu = exits_vcpu(here->vcpu);

	count_unpaired(here, 1);
	if (vcpu && vcpu->tid != tid) {
		lose_sight(vcpu);
		here->vcpu = 0;
	}
}

/* Handles a vCPU that left with an event, and came back without one. In the VMM, or if KVM reports
 * each exit and entry, the vCPU was away until now at most. So it is assumed to have been away
 * until now. In KVM_RUN, if kvm_run_only, its guest may have run for long. An exception is time
 * that was completely in one halt. */
static __always_inline void comes_back(struct exits_vcpu *vcpu, u32 index, struct exits_cpu *here,
				       u32 cpu, u64 now, u64 in_kvm_since, bool idled,
				       const struct exits_work *done)
{
	struct exits_cpu *there;

	if (!kvm_run_only || vcpu->in_exit || vcpu->off_start >= in_kvm_since) {
		switched_in(vcpu, index, here, cpu, now, idled, done);
		return;
	}
	if (!vcpu->off_start)
		return;
	there = exits_cpu(vcpu->cpu);
	if (streaming && there)
		waits_no_more(vcpu, there);
	lose_sight(vcpu);
}

/* Returns the vCPU whose thread is current on this CPU, even if the thread came without an event.
 * The thread has been in KVM since in_kvm_since. If `tgid` is 0, a thread that is not a vCPU yet
 * does not become one. */
static __always_inline struct exits_vcpu *vcpu_of_tid(struct exits_cpu *here, u32 cpu, u64 now,
						      u64 in_kvm_since, u32 tid, u32 tgid)
{
	struct exits_vcpu *vcpu = exits_vcpu(here->vcpu);
	bool idled = here->idle_start;
	struct exits_work done;
	u32 index;

	if (vcpu && vcpu->tid == tid)
		return vcpu;
	vcpu = vcpu_of_thread(tid, &index);
	if (!vcpu && tgid)
		vcpu = new_vcpu(tid, tgid, &index);
	if (vcpu)
		here->hosts = 1;
	if (here->running_since ? here->running_tid != tid : vcpu && vcpu->off_start)
		left_unseen(here, tid);
	if (!here->running_since || here->running_tid != tid) {
		here->running_since = now;
		here->running_tid = tid;
	}
	idle_ends(here, now);
	if (!vcpu)
		return 0;
	look_at_done(here, &done);
	comes_back(vcpu, index, here, cpu, now, in_kvm_since, idled, &done);
	arrives(vcpu, index, here, cpu, now, &done);
	interruption_ends(vcpu, here, now);
	return vcpu;
}

/* This case is rare, so the function is not inlined into each program. */
static __noinline struct exits_vcpu *current_vcpu(struct exits_cpu *here, u32 cpu, u64 now, u32 tid,
						  u32 tgid)
{
	return vcpu_of_tid(here, cpu, now, now, tid, tgid);
}

static __noinline struct exits_vcpu *halted_vcpu(struct exits_cpu *here, u32 cpu, u64 now,
						 u64 halt_ns, u32 tid)
{
	return vcpu_of_tid(here, cpu, now, minus(now, halt_ns), tid, 0);
}

/* Handles a hidden switch: the task that leaves is not the task that the last seen switch brought.
 * No exit in progress of either task is counted. If it is unknown which task ran here, a vCPU that
 * seems to be off the CPU elsewhere may have come here without an event. */
static __noinline void unseen_before(struct exits_cpu *here, u32 cpu, u64 now, u32 tid)
{
	struct exits_vcpu *vcpu;
	struct exits_cpu *there;
	struct exits_work done;
	u32 index;

	vcpu = tid ? vcpu_of_thread(tid, &index) : 0;
	if (here->running_since || (vcpu && vcpu->off_start))
		left_unseen(here, tid);
	here->running_since = 0;
	here->idle_start = 0;
	if (!vcpu || here->vcpu)
		return;
	there = exits_cpu(vcpu->cpu);
	if (streaming && there)
		waits_no_more(vcpu, there);
	lose_sight(vcpu);
	look_at_done(here, &done);
	arrives(vcpu, index, here, cpu, now, &done);
}

#endif

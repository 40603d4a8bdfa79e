/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Handles a vCPU whose thread is off the CPU: the tasks that had the CPU instead, whether the
 * thread slept, and what woke it. */
#ifndef VMNOISE_EXITS_WAITING_BPF_H
#define VMNOISE_EXITS_WAITING_BPF_H

#include "kernel.bpf.h"
#include "exits.h"
#include "exits_halts.bpf.h"
#include "exits_host.bpf.h"
#include "exits_state.bpf.h"
#include "exits_stream.bpf.h"

/* Charges a time in which the vCPU waited for the CPU. Idle time of the CPU counts as throttling,
 * and the rest as preemption. */
static __always_inline void book_waiting(struct exits_vcpu *vcpu, u64 waited,
					 const struct exits_work *from, const struct exits_work *to)
{
	u64 idle_ns = minus(to->idle_ns, from->idle_ns);
	struct exits_work by;
	u64 rest;

	work_within(waited, from, to, &by);
	rest = waited - book_interrupts(vcpu, &by);
	if (idle_ns > rest)
		idle_ns = rest;
	vcpu->now.split.throttled_ns += idle_ns;
	vcpu->now.split.preempted_ns += rest - idle_ns;
	vcpu->taken += rest;
}

/* Clears the exit in progress. */
static __always_inline void start_afresh(struct exits_vcpu *vcpu)
{
	__builtin_memset(&vcpu->now.split, 0, sizeof(vcpu->now.split));
	none_taken(vcpu);
}

/* Notes that an event showed the vCPU. If kvm_run_only, the vCPU's measurement begins at the first
 * such event after counting has begun. */
static __always_inline void seen(struct exits_vcpu *vcpu, u64 now)
{
	if (!vcpu->first_mono_ns) {
		if (!counting)
			return;
		vcpu->first_mono_ns = now;
		vcpu->lost_mono_ns = now;
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
	_Static_assert(sizeof(*to) == 8 * sizeof(u64), "each part is added");
}

/* Charges time that was taken inside KVM_RUN. This time does not belong to an exit that was
 * seen. */
static __always_inline void book_inside_run(struct exits_vcpu *vcpu)
{
	add_split(&vcpu->inside_run, &vcpu->now.split);
	vcpu->inside_run_ns += vcpu->taken;
	start_afresh(vcpu);
}

/* Counts the vCPU in `waiting` of this CPU. */
static __always_inline void waits(struct exits_vcpu *vcpu, struct exits_cpu *here)
{
	if (!__sync_lock_test_and_set(&vcpu->waits, 1))
		waits_here(here, 1);
}

/* Removes the vCPU from `waiting` of this CPU, if it was counted there. */
static __always_inline void waits_no_more(struct exits_vcpu *vcpu, struct exits_cpu *here)
{
	if (vcpu->waits && __sync_lock_test_and_set(&vcpu->waits, 0))
		waits_here(here, -1);
}

/* Returns whether the thread is still this vCPU. User space may have freed the vCPU's entry. */
static __always_inline bool is_vcpu_still(const struct exits_vcpu *vcpu, u32 index)
{
	u32 tid = vcpu->tid;
	u32 *found = bpf_map_lookup_elem(&threads, &tid);

	return found && *found == index;
}

static __always_inline void switched_out(struct exits_vcpu *vcpu, u32 index, struct exits_cpu *here,
					 u32 cpu, u64 now, bool runnable)
{
	host_begins(here, cpu, now);
	now = book_here(vcpu, here, now);
	vcpu->off_runnable = runnable;
	vcpu->wake = 0;
	barrier(); /* another CPU may wake the thread from now on */
	vcpu->off_start = now;
	if (!streaming)
		return;
	vcpu->off_cpu = cpu;
	vcpu->waker.origin = VMNOISE_FROM_NOBODY;
	/* If the thread is no longer a vCPU, no program would see the end of the wait. */
	if (runnable && is_vcpu_still(vcpu, index))
		waits(vcpu, here);
}

/* Charges a sleep. Also charges the host's work during the sleep, on the CPU where the thread
 * slept. */
static __always_inline void book_sleep(struct exits_vcpu *vcpu, u64 slept,
				       const struct exits_work *from, const struct exits_work *to)
{
	struct exits_work by;
	u64 rest;

	work_within(slept, from, to, &by);
	rest = slept - book_interrupts(vcpu, &by);
	vcpu->slept.work.irq_ns += by.irq_ns;
	vcpu->slept.work.softirq_ns += by.softirq_ns;
	vcpu->slept.work.nmi_ns += by.nmi_ns;
	vcpu->slept.blocked_ns += rest;
	vcpu->now.split.blocked_ns += rest;
	vcpu->taken += rest;
}

/* Charges the time off the CPU so far. `by_now` is the work of the CPU on which the thread was. If
 * another task had the CPU after the wake-up, the sleep ends at the wake-up. If the CPU only idled,
 * the sleep includes the latency of the wake-up. A thread that was woken while it was still leaving
 * its CPU never slept. In this case the waker's clock reading is earlier than the begin of the
 * sleep. */
static __always_inline void off_until(struct exits_vcpu *vcpu, u32 index, u64 now, bool idles,
				      const struct exits_work *by_now, u32 to_cpu)
{
	const struct exits_work *middle = &vcpu->mark;
	u64 woken = vcpu->off_start;

	if (!vcpu->off_runnable) {
		if (!vcpu->wake || idles) {
			woken = now;
			middle = by_now;
		} else if (vcpu->wake > woken) {
			woken = vcpu->wake;
			middle = &vcpu->wake_mark;
		}
		book_sleep(vcpu, woken - vcpu->off_start, &vcpu->mark, middle);
		tell_interval(vcpu, index, EXITS_BLOCKED, vcpu->off_start, woken, vcpu->cpu,
			      to_cpu);
	}
	if (woken == now)
		return;
	book_waiting(vcpu, now - woken, middle, by_now);
	tell_interval(vcpu, index, EXITS_WAITING, woken, now, vcpu->cpu, to_cpu);
}

/* Moves a vCPU that is off the CPU from the queue of one CPU to the queue of another CPU. */
static __always_inline void moves(struct exits_vcpu *vcpu, u32 index, struct exits_cpu *there,
				  struct exits_cpu *to, u32 to_cpu, u64 now)
{
	struct exits_work by_now;

	there->looked_at = to->looked_at = now;
	work_by(there, now, &by_now);
	off_until(vcpu, index, now, there->idle_start, &by_now, to_cpu);
	if (streaming && vcpu->waits) {
		waits_no_more(vcpu, there);
		waits(vcpu, to);
		to->hosts = 1;
	}
	vcpu->off_start = now;
	if (vcpu->wake)
		vcpu->wake = now;
	/* If a switch fired no event, the vCPU would otherwise stay current there. */
	if (there->vcpu == index)
		there->vcpu = 0;
	vcpu->cpu = to_cpu;
	work_by(to, now, &vcpu->mark);
	vcpu->wake_mark = vcpu->mark;
}

/* Handles the scheduler's move of a runnable vCPU. The task on the CPU that the vCPU leaves
 * continues to run there. */
static __always_inline void exits_migrate(struct exits_vcpu *vcpu, u32 index,
					  struct exits_cpu *there, u32 to_cpu, u64 now,
					  const struct vmnoise_source *running)
{
	struct exits_cpu *to = exits_cpu(to_cpu);

	if (!to || to == there || !vcpu->off_start || !(vcpu->off_runnable || vcpu->wake))
		return;
	/* Before the first switch, the running task is unknown. */
	if (there->running_since)
		tell_run(there, vcpu->cpu, now, running);
	moves(vcpu, index, there, to, to_cpu, now);
}

static __always_inline void switched_in(struct exits_vcpu *vcpu, u32 index, struct exits_cpu *here,
					u32 cpu, u64 now, bool from_idle,
					const struct exits_work *done)
{
	struct exits_cpu *there;

	if (!vcpu->off_start)
		return;
	/* The thread was moved while it slept, or its move was missed. */
	there = vcpu->cpu != cpu ? exits_cpu(vcpu->cpu) : 0;
	if (there)
		moves(vcpu, index, there, here, cpu, now);
	else
		off_until(vcpu, index, now, from_idle, done, cpu);
	if (streaming)
		waits_no_more(vcpu, here);
	vcpu->off_start = 0;
}

#endif

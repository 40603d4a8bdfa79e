/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The handlers of all events, as functions of plain values: no context, no clock, no current task.
 * Tests call the handlers with given streams, and programs at tracepoints call them with real
 * events. */
#ifndef VMNOISE_HANDLERS_BPF_H
#define VMNOISE_HANDLERS_BPF_H

#include "kernel.bpf.h"
#include "records.bpf.h"
#include "state.bpf.h"
#include "timer.bpf.h"
#include "vmnoise.h"

typedef struct vmnoise_cpu irq_cpu;
typedef struct vmnoise_begin irq_begin;
#include "irq_nesting.bpf.h"

/* Same value as in exits_host.bpf.h. */
#define ENTRY_NS 10000

/* Decides about earlier NMIs at the host's next work. If the guest ran after the NMIs, they are not
 * part of this exit. */
static __always_inline void look_back(struct vmnoise_cpu *state, struct vmnoise_moment now)
{
	if (now.mono_ns > state->nmi_until + ENTRY_NS)
		state->first_host.mono_ns = 0;
	state->nmi_until = 0;
}

/* Notes the host's first work while the guest is entered. On SVM before 6.12, kvm_exit fires only
 * after the interrupt that caused the exit. So the exit begins here. */
static __always_inline void host_runs(struct vmnoise_cpu *state, struct vmnoise_moment now)
{
	if (!state->guest_entered)
		return;
	if (state->nmi_until)
		look_back(state, now);
	if (!state->first_host.mono_ns)
		state->first_host = now;
}

/* Returns where to store the source of the interrupt, or 0 if too many interrupts are in progress.
 */
static __always_inline struct vmnoise_source *on_irq_entry(struct vmnoise_cpu *state,
							   struct vmnoise_moment now)
{
	struct vmnoise_begin *begin;

	count_interference(state, VMNOISE_IRQ);
	before_expiry(state, now);
	host_runs(state, now);
	state->irq_seen = 1;
	if (state->irq_depth >= VMNOISE_IRQ_NESTING) {
		count_unpaired(state, 1);
		return 0;
	}
	begin = &state->irqs[state->irq_depth % VMNOISE_IRQ_NESTING];
	begin->start = now;
	barrier(); /* a reader on another CPU never finds a depth without its begin */
	state->irq_depth++;
	return &begin->source;
}

static __always_inline void on_irq_exit(struct vmnoise_cpu *state, u32 cpu,
					struct vmnoise_moment now, u32 id, u32 origin)
{
	struct vmnoise_begin *begin;

	before_expiry(state, now);
	/* This end comes before the first begin, so the interrupt began before tracing did. This is
	 * not a loss. */
	if (!state->irq_seen)
		return;
	begin = irq_ended(state, id, origin);
	if (begin && state->mode == VMNOISE_MEASURED)
		emit(state, cpu, VMNOISE_IRQ, &begin->start, now, &begin->source);
}

static __always_inline void on_softirq_entry(struct vmnoise_cpu *state, struct vmnoise_moment now,
					     u32 number)
{
	count_interference(state, VMNOISE_SOFTIRQ);
	if (state->softirq.start.mono_ns)
		count_unpaired(state, 1);
	host_runs(state, now);
	state->softirq_seen = 1;
	state->softirq_tid = 0;
	state->softirq.start = now;
	state->softirq.source.id = number;
	state->softirq.source.origin = VMNOISE_FROM_SOFTIRQ;
}

static __always_inline void on_softirq_exit(struct vmnoise_cpu *state, u32 cpu,
					    struct vmnoise_moment now, u32 number)
{
	if (!state->softirq_seen)
		return;
	if (!state->softirq.start.mono_ns || state->softirq.source.id != number)
		count_unpaired(state, 1);
	else if (state->mode == VMNOISE_MEASURED)
		emit(state, cpu, VMNOISE_SOFTIRQ, &state->softirq.start, now,
		     &state->softirq.source);
	state->softirq.start.mono_ns = 0;
}

/* Ends a softirq at a switch away from the task `tid`. If softirqs can be preempted, the softirq is
 * work of this task and continues when the task returns. Otherwise, or after a switch that fired no
 * event, the end of the softirq was lost. */
static __always_inline void softirq_leaves(struct vmnoise_cpu *state, u32 cpu,
					   struct vmnoise_moment now, u32 tid)
{
	if (!state->softirq.start.mono_ns)
		return;
	if (!state->softirq_preemptible || is_unseen(state, tid)) {
		count_unpaired(state, 1);
	} else {
		if (state->mode == VMNOISE_MEASURED)
			emit(state, cpu, VMNOISE_SOFTIRQ, &state->softirq.start, now,
			     &state->softirq.source);
		state->softirq_tid = tid;
	}
	state->softirq.start.mono_ns = 0;
}

/* Begins the rest of a preempted softirq when its task returns. */
static __always_inline void softirq_returns(struct vmnoise_cpu *state, struct vmnoise_moment now,
					    u32 tid)
{
	if (!tid || tid != state->softirq_tid)
		return;
	count_interference(state, VMNOISE_SOFTIRQ);
	state->softirq.start = now;
	state->softirq_tid = 0;
}

/* Handles an NMI. The tracepoint fires after one handler of the NMI. delta_ns excludes the kernel's
 * code around this handler. The steal clock at the handler's begin is unknown, so the record has no
 * steal time. */
static __always_inline void on_nmi(struct vmnoise_cpu *state, u32 cpu, struct vmnoise_moment now,
				   u64 delta_ns)
{
	struct vmnoise_source source = source_from(VMNOISE_FROM_NMI, 0);
	struct vmnoise_moment start = now;
	bool alone = state->guest_entered && (!state->first_host.mono_ns || state->nmi_until);

	count_interference(state, VMNOISE_NMI);
	start.mono_ns -= delta_ns;
	host_runs(state, start);
	if (alone)
		state->nmi_until = now.mono_ns;
	emit(state, cpu, VMNOISE_NMI, &start, now, &source);
}

/* Ends idle time. The idle time was throttling if the vCPU's thread could have run. This is the
 * case if it left while runnable, or if it was woken and another task has run since. */
static __always_inline void idle_ends(struct vmnoise_cpu *state, u32 cpu, struct vmnoise_moment now)
{
	struct vmnoise_source source = source_from(VMNOISE_FROM_IDLE, 0);
	u64 wake_ns = state->wake.start.mono_ns;
	bool woken = wake_ns && state->thread_end_ns > wake_ns;

	if (state->idle_start.mono_ns && state->vcpu_off.mono_ns &&
	    (state->vcpu_was_runnable || woken))
		emit(state, cpu, VMNOISE_THROTTLED, &state->idle_start, now, &source);
	state->idle_start.mono_ns = 0;
}

/* Notes that an observed thread runs or waits on this CPU from now on. A wait begins at the
 * wake-up. */
static __always_inline void comes_here(struct vmnoise_cpu *state, struct vmnoise_moment now)
{
	if (!state->observed || state->here.mono_ns)
		return;
	state->here.steal_ns = now.steal_ns;
	state->here.mono_ns = now.mono_ns;
}

/* Notes that the observed thread sleeps or moves away. The sums are written first. So a reader that
 * finds the thread gone also finds complete sums. */
static __always_inline void leaves_here(struct vmnoise_cpu *state, struct vmnoise_moment now)
{
	if (!state->here.mono_ns)
		return;
	if (now.steal_ns > state->here.steal_ns)
		__sync_fetch_and_add(&state->here_steal_ns, now.steal_ns - state->here.steal_ns);
	if (now.mono_ns > state->here.mono_ns)
		__sync_fetch_and_add(&state->here_ns, now.mono_ns - state->here.mono_ns);
	state->here.mono_ns = 0;
}

/* Notes that the vCPU's thread gets the CPU again, and reports its sleep. A periodic task's sleep
 * is not reported. If another task had the CPU after the wake-up, the sleep ends at the wake-up. If
 * the CPU only idled, the sleep ends now, and so includes the latency of the wake-up. */
static __always_inline void vcpu_returns(struct vmnoise_cpu *state, u32 cpu,
					 struct vmnoise_moment now, bool from_idle)
{
	struct vmnoise_moment end = now;

	comes_here(state, now);
	if (state->vcpu_off.mono_ns && !state->vcpu_was_runnable && !state->observed &&
	    !state->timer.expiry_mono_ns) {
		u64 wake_ns = state->wake.start.mono_ns;

		if (wake_ns && (!from_idle || state->thread_end_ns > wake_ns))
			end = state->wake.start;
		emit(state, cpu, VMNOISE_BLOCKED, &state->vcpu_off, end, &state->wake.source);
	}
	state->vcpu_off.mono_ns = 0;
	state->wake.start.mono_ns = 0;
	state->wake.source.origin = VMNOISE_FROM_NOBODY;
}

/* Rebuilds a switch that was not seen: the task that leaves is not the task that came last. It is
 * unknown how the steal time between the two seen switches is distributed. If the earlier turn was
 * another thread's, the turn that ends now gets all of the steal time. Otherwise it gets none. */
static __always_inline void rebuild(struct vmnoise_cpu *state, u32 cpu, struct vmnoise_moment now,
				    u32 prev_tid, const struct vmnoise_unseen *unseen)
{
	struct vmnoise_moment left = state->thread_start;
	struct vmnoise_moment came = left.mono_ns ? left : now;
	bool has_left = unseen->left_ns > state->switched_ns && unseen->left_ns < now.mono_ns;
	bool has_come = unseen->came_ns > state->switched_ns && unseen->came_ns < now.mono_ns;
	bool was_vcpu = state->running_tid == state->vcpu_tid;

	left.mono_ns = unseen->left_ns;
	if (has_left && has_come && unseen->left_ns > unseen->came_ns)
		left.mono_ns = unseen->came_ns;
	came.mono_ns = unseen->came_ns;
	if (was_vcpu) {
		left.steal_ns = now.steal_ns;
		leaves_here(state, has_left ? left : now);
	} else if (has_left && state->thread_start.mono_ns) {
		emit(state, cpu, VMNOISE_THREAD, &state->thread_start, left, &state->running);
		state->thread_end_ns = left.mono_ns;
	}
	state->thread_start.mono_ns = 0;
	state->idle_start.mono_ns = 0;

	/* Another task may have run in between. If this may have been the vCPU's thread, or if the
	 * vCPU's thread left without an event, the thread's sleep is unknown. */
	if (was_vcpu || !has_left || !has_come ||
	    came.mono_ns - left.mono_ns > VMNOISE_HANDOVER_NS) {
		count_unpaired(state, 1);
		if (was_vcpu || !unseen->beside_vcpu)
			state->vcpu_off.mono_ns = 0;
	}
	if (!has_come)
		return;
	if (prev_tid == state->vcpu_tid)
		vcpu_returns(state, cpu, came, state->running_tid == 0);
	if (!prev_tid || prev_tid == state->vcpu_tid)
		return;
	count_interference(state, VMNOISE_THREAD);
	state->thread_start = came;
}

/* Notes that the watched thread is stopped (SIGSTOP, Ctrl-Z) or held by a debugger. It measures
 * nothing until it continues, perhaps a day later. Until then nothing is reported, because the ring
 * would become full. */
static __always_inline void vcpu_stops(struct vmnoise_cpu *state, struct vmnoise_moment now)
{
	state->vcpu_off = now;
	state->thread_start.mono_ns = 0;
	state->idle_start.mono_ns = 0;
	state->switched_ns = 0;
	state->mode = VMNOISE_HELD;
}

static __always_inline void vcpu_goes_on(struct vmnoise_cpu *state, u32 cpu,
					 struct vmnoise_moment now)
{
	struct vmnoise_source source = source_from(VMNOISE_FROM_NOBODY, 0);

	state->mode = VMNOISE_MEASURED;
	emit(state, cpu, VMNOISE_STOPPED, &state->vcpu_off, now, &source);
	state->vcpu_off.mono_ns = 0;
}

/* Handles that a thread leaves that counts as stopped. It had continued in a switch that fired no
 * event. The end of the stop is unknown, so the stop is not reported. */
static __always_inline void vcpu_went_on_unseen(struct vmnoise_cpu *state)
{
	state->mode = VMNOISE_MEASURED;
	state->vcpu_off.mono_ns = 0;
	count_unpaired(state, 1);
}

static __always_inline void on_switch(struct vmnoise_cpu *state, u32 cpu, struct vmnoise_moment now,
				      bool preempted, u32 prev_state,
				      const struct vmnoise_source *prev, u32 next_tid,
				      const struct vmnoise_unseen *unseen)
{
	if (state->mode == VMNOISE_HELD && prev->id == state->vcpu_tid)
		vcpu_went_on_unseen(state);
	if (next_tid && next_tid != state->vcpu_tid)
		count_interference(state, VMNOISE_THREAD);
	before_expiry(state, now);
	/* No interrupt continues over a switch, so the end of an open interrupt was lost. */
	if (state->irq_depth) {
		count_unpaired(state, state->irq_depth);
		state->irq_depth = 0;
	}
	softirq_leaves(state, cpu, now, prev->id);
	softirq_returns(state, now, next_tid);
	if (state->mode == VMNOISE_HELD && next_tid == state->vcpu_tid)
		vcpu_goes_on(state, cpu, now);
	if (state->mode != VMNOISE_MEASURED)
		return;

	if (is_unseen(state, prev->id))
		rebuild(state, cpu, now, prev->id, unseen);
	state->switched_ns = now.mono_ns;
	state->running_tid = next_tid;

	if (prev->id == 0) {
		idle_ends(state, cpu, now);
	} else if (prev->id == state->vcpu_tid) {
		host_runs(state, now);
		state->vcpu_off = now;
		state->vcpu_was_runnable = preempted || prev_state == 0;
		if (!state->vcpu_was_runnable)
			leaves_here(state, now);
	} else {
		if (state->thread_start.mono_ns)
			emit(state, cpu, VMNOISE_THREAD, &state->thread_start, now, prev);
		state->thread_end_ns = now.mono_ns;
	}

	/* The sleep and the stop of an observed thread are not reported. */
	if (prev->id == state->vcpu_tid && !state->observed && !preempted &&
	    (prev_state & TASK_STOPPED_OR_TRACED)) {
		vcpu_stops(state, now);
		return;
	}
	state->thread_start.mono_ns = 0;
	if (next_tid == 0)
		state->idle_start = now;
	else if (next_tid == state->vcpu_tid)
		vcpu_returns(state, cpu, now, prev->id == 0);
	else
		state->thread_start = now;
	if (next_tid == state->vcpu_tid)
		timer_task_runs(state, now);
}

/* Stores what woke the watched thread. If an interrupt woke the thread, the interrupted task had no
 * part in the wake-up. `state`, and the steal clock in `now`, belong to the CPU of the woken
 * thread. */
static __always_inline void on_waking(struct vmnoise_cpu *state, u32 waker_cpu,
				      struct vmnoise_moment now, const struct vmnoise_source *waker)
{
	struct vmnoise_cpu *here = tracked(waker_cpu);
	u32 depth;

	state->wake.start = now;
	state->wake.source = *waker;
	timer_wakes(state, now);
	if (!here)
		return;
	depth = here->irq_depth;
	if (depth)
		state->wake.source = here->irqs[(depth - 1) % VMNOISE_IRQ_NESTING].source;
	else if (here->softirq.start.mono_ns)
		state->wake.source = here->softirq.source;
}

/* Handles that the watched thread is moved from this CPU while it waits. The activity that kept the
 * thread waiting continues on this CPU. Returns false if the thread sleeps: it is then on no CPU
 * until it wakes up. */
static __always_inline bool on_migrate(struct vmnoise_cpu *state, u32 cpu,
				       struct vmnoise_moment now)
{
	if (!state->here.mono_ns)
		return 0;
	if (state->thread_start.mono_ns)
		emit(state, cpu, VMNOISE_THREAD, &state->thread_start, now, &state->running);
	else
		idle_ends(state, cpu, now);
	leaves_here(state, now);
	state->vcpu_off.mono_ns = 0;
	return 1;
}

static __always_inline void on_kvm_run_leave(struct vmnoise_cpu *state, struct vmnoise_moment now)
{
	if (state->kvm_run == VMNOISE_RUN_OUTSIDE)
		count_unpaired(state, 1);
	state->kvm_run = VMNOISE_RUN_OUTSIDE;
	state->run_left = now;
	state->left_since_exit = 1;
}

static __always_inline void on_kvm_run_enter(struct vmnoise_cpu *state, u32 cpu,
					     struct vmnoise_moment now,
					     const struct vmnoise_source *vmm)
{
	if (state->kvm_run == VMNOISE_RUN_INSIDE)
		count_unpaired(state, 1);
	else if (state->run_left.mono_ns)
		emit(state, cpu, VMNOISE_VMM, &state->run_left, now, vmm);
	state->kvm_run = VMNOISE_RUN_INSIDE;
	state->run_left.mono_ns = 0;
}

static __always_inline void on_userspace_exit(struct vmnoise_cpu *state, u32 cpu)
{
	struct vmnoise_exits *counts;

	state->left_since_exit = 1;
	counts = bpf_map_lookup_elem(&exits, &cpu);
	if (counts)
		counts->heavy++;
}

static __always_inline void on_kvm_exit(struct vmnoise_cpu *state, struct vmnoise_moment now,
					u32 isa, u64 code)
{
	if (state->exit_start.mono_ns)
		count_unpaired(state, 1);
	if (state->nmi_until)
		look_back(state, now);
	state->exit_start = state->first_host.mono_ns ? state->first_host : now;
	state->first_host.mono_ns = 0;
	state->exit_isa = isa;
	state->exit_code = code;
	state->guest_entered = 0;
	state->left_since_exit = 0;
	if (state->kvm_run != VMNOISE_RUN_OUTSIDE)
		state->exits_fire = 1;
}

static __always_inline void on_kvm_entry(struct vmnoise_cpu *state, u32 cpu,
					 struct vmnoise_moment now)
{
	struct vmnoise_source source = source_from(VMNOISE_FROM_VMEXIT, state->exit_isa);
	struct vmnoise_exits *counts;

	if (state->exit_start.mono_ns) {
		*(u64 *)source.name = state->exit_code;
		emit(state, cpu, VMNOISE_EXIT, &state->exit_start, now, &source);
		counts = bpf_map_lookup_elem(&exits, &cpu);
		if (counts && !state->left_since_exit)
			counts->light++;
	} else if (state->guest_entered) {
		count_unpaired(state, 1);
	}
	state->exit_start.mono_ns = 0;
	state->first_host.mono_ns = 0;
	state->nmi_until = 0;
	state->guest_entered = 1;
}

#endif

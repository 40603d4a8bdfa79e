/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A vCPU whose thread is off the CPU: who had it instead, whether it slept, and for whom. */
#ifndef VMNOISE_EXITS_WAITING_BPF_H
#define VMNOISE_EXITS_WAITING_BPF_H

/* An interval that others had, of which idle is throttling and the rest a preemption. */
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

/* Forgets the exit in progress. */
static __always_inline void start_afresh(struct exits_vcpu *vcpu)
{
	__builtin_memset(&vcpu->now.split, 0, sizeof(vcpu->now.split));
	none_taken(vcpu);
}

/* Where no entry tells, a vCPU is measured from the first sign of it, once it counts. */
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
}

/* What was taken inside KVM_RUN belongs to no exit that anybody saw. */
static __always_inline void book_inside_run(struct exits_vcpu *vcpu)
{
	add_split(&vcpu->inside_run, &vcpu->now.split);
	vcpu->inside_run_ns += vcpu->taken;
	start_afresh(vcpu);
}

/* It is among those that wait on this CPU. */
static __always_inline void waits(struct exits_vcpu *vcpu, struct exits_cpu *here)
{
	if (!__sync_lock_test_and_set(&vcpu->waits, 1))
		waits_here(here, 1);
}

/* And no more, if it was. */
static __always_inline void waits_no_more(struct exits_vcpu *vcpu, struct exits_cpu *here)
{
	if (vcpu->waits && __sync_lock_test_and_set(&vcpu->waits, 0))
		waits_here(here, -1);
}

/* Whether its thread is a vCPU still: user space may have given up its place. */
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
	barrier(); /* another CPU that wakes it now looks at the begin first */
	vcpu->off_start = now;
	if (!streaming)
		return;
	vcpu->off_cpu = cpu;
	vcpu->waker.origin = VMNOISE_FROM_NOBODY;
	/* Else nobody would see its wait end. */
	if (runnable && is_vcpu_still(vcpu, index))
		waits(vcpu, here);
}

/* A sleep, and the host work on the CPU where it was. */
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

/* Books what it was off the CPU so far, all of it on the CPU that has done this much by now. A
 * sleep ends at the wake-up where another task had the CPU after it; where only idle had, the
 * latency of the wake-up is the sleep's. One that was woken while it still left its CPU never
 * slept: the waker's reading of the clock is the earlier one. */
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

/* Off the CPU, it goes from one CPU's queue to another's. */
static __always_inline void moves(struct exits_vcpu *vcpu, u32 index, struct exits_cpu *there,
				  struct exits_cpu *to, u32 to_cpu, u64 now)
{
	struct exits_work by_now;

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
	/* A switch that nobody told would leave it there. */
	if (there->vcpu == index)
		there->vcpu = 0;
	vcpu->cpu = to_cpu;
	work_by(to, now, &vcpu->mark);
	vcpu->wake_mark = vcpu->mark;
}

/* The scheduler moves a vCPU that could run; what runs where it waited goes on without it. */
static __always_inline void exits_migrate(struct exits_vcpu *vcpu, u32 index,
					  struct exits_cpu *there, u32 to_cpu, u64 now,
					  const struct vmnoise_source *running)
{
	struct exits_cpu *to = exits_cpu(to_cpu);

	if (!to || to == there || !vcpu->off_start || !(vcpu->off_runnable || vcpu->wake))
		return;
	/* Who was there before the first switch is not known. */
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
	/* Moved in its sleep, or by an event that was missed. */
	there = vcpu->cpu != cpu ? exits_cpu(vcpu->cpu) : 0;
	if (there)
		moves(vcpu, index, there, here, cpu, now);
	else
		off_until(vcpu, index, now, from_idle, done, cpu);
	if (streaming)
		waits_no_more(vcpu, here);
	vcpu->off_start = 0;
}

/* What it was about since then is not known, if that is not so for longer. */
static __always_inline void not_seen_since(struct exits_vcpu *vcpu, u64 since)
{
	if (vcpu->unseen || !vcpu->first_mono_ns)
		return;
	vcpu->unseen = 1;
	vcpu->lost_mono_ns = since;
}

/* And is known from here on. What is told of it reaches until then. */
static __always_inline void seen_again(struct exits_vcpu *vcpu, u64 now)
{
	vcpu->unseen = 0;
	vcpu->unseen_ns += minus(now, vcpu->lost_mono_ns);
	vcpu->regained_mono_ns = now;
	vcpu->last_mono_ns = now;
}

/* A switch of its thread was not seen: how long it was away nobody knows, and the exit in progress
 * is not counted. What was taken inside KVM_RUN before is, but for sleeps, which may have been
 * halts. Where no entry tells, it stays outside KVM_RUN until it enters. */
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
	/* A move books a sleep, and no interruption ends with it. */
	vcpu->slept = none;
	vcpu->entered = 0;
	if (!kvm_run_only)
		vcpu->left = 0;
	vcpu->off_start = 0;
	vcpu->vmm.entered_mono_ns = 0;
}

/* The vCPU's thread is current here, and nowhere else; it is told what is done from here on. */
static __always_inline void arrives(struct exits_vcpu *vcpu, u32 index, struct exits_cpu *here,
				    u32 cpu, u64 now, const struct exits_work *done)
{
	struct exits_cpu *before = vcpu->cpu != cpu ? exits_cpu(vcpu->cpu) : 0;

	/* It was not seen to leave: who runs there is not known. */
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
	barrier(); /* as a soft interrupt ends */
	/* An NMI may have come since the clock was read: longer than the idle time, even. */
	here->done.idle_ns += minus(now - start, interrupts(&here->done) - here->idle_taken);
}

/* Another thread is current than the one that was seen to come. */
static __always_inline void left_unseen(struct exits_cpu *here, u32 tid)
{
	struct exits_vcpu *vcpu = exits_vcpu(here->vcpu);

	count_unpaired(here, 1);
	if (vcpu && vcpu->tid != tid) {
		lose_sight(vcpu);
		here->vcpu = 0;
	}
}

/* One that left as was seen is back unseen. Where KVM tells of each exit and of each entry, and in
 * the VMM, it has been away until now at most, and is taken to have been. In KVM_RUN, where nothing
 * tells, it may have run its guest for long, unless all of it was in one halt. */
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

/* The vCPU whose thread is current on this CPU, were it not seen before, and has been in KVM since
 * then; of no process is one that is none yet and becomes none. */
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

/* Seldom, hence no part of each program. */
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

/* Who leaves is not who was seen to come: no exit of either is counted that is in progress. Where
 * who runs is not known, a vCPU that is off the CPU elsewhere was not seen to come either. */
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

static __always_inline void exits_switch(struct exits_cpu *here, u32 cpu, u64 now, bool preempted,
					 u32 prev_state, const struct vmnoise_source *prev,
					 u32 next_tid)
{
	struct exits_vcpu *vcpu;
	struct exits_work done;
	u32 index = 0;

	if (!here->running_since || here->running_tid != prev->id)
		unseen_before(here, cpu, now, prev->id);
	no_irq_here(here);
	softirq_leaves(here, cpu, now);
	tell_run(here, cpu, now, prev);
	idle_ends(here, now);
	vcpu = exits_vcpu(here->vcpu);
	if (vcpu)
		switched_out(vcpu, here->vcpu, here, cpu, now, preempted || !prev_state);
	if (!next_tid) {
		here->idle_start = now;
		here->idle_taken = interrupts(&here->done);
	}
	here->running_since = now;
	here->running_tid = next_tid;
	vcpu = next_tid ? vcpu_of_thread(next_tid, &index) : 0;
	here->vcpu = 0;
	if (vcpu) {
		look_at_done(here, &done);
		switched_in(vcpu, index, here, cpu, now, !prev->id, &done);
		AMID();
		arrives(vcpu, index, here, cpu, now, &done);
		interruption_ends(vcpu, here, now);
		if (kvm_run_only && !vcpu->left)
			seen(vcpu, now);
	}
}

/* Tells where to say who woke it: nowhere if nobody asks, or an interrupt did. Then the task that
 * it interrupted has no part in it. */
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
	if (there)
		work_by(there, now, &vcpu->wake_mark);
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

/* If its exit was not seen, what is booked from here on is no later exit's. */
static __always_inline void outside_guest(struct exits_vcpu *vcpu)
{
	vcpu->entered = 0;
}

/* It may have begun before anything was seen, or while nothing was: then KVM tells what that was.
 */
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

/* KVM tells how long the guest's own sleep was, once it is over: its sleeps were no noise. What
 * others had of it after a wake-up, or while it polled, is. */
static __always_inline void exits_halted(u32 cpu, u64 now, u64 halt_ns, bool slept, u32 tid)
{
	struct exits_cpu *here = exits_cpu(cpu);
	struct exits_vcpu *vcpu = here ? exits_vcpu(here->vcpu) : 0;
	struct exits_taken_by before;

	/* It came unseen. A halt makes nobody a vCPU. Before all programs are there, and when some
	 * are gone, nobody had to see it come. */
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

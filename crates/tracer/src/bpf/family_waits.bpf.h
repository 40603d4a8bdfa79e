/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who had a CPU while threads of the family waited for it. Nothing is kept of single waits: a CPU
 * sums up how long all threads together have waited in the turn under way, and at its end that goes
 * to whoever had it. So a thousand threads that wait cost no more than one.
 *
 * The scheduler holds the lock of a CPU's run queue at each of these events, but for one: where a
 * waiting thread is moved to the CPU, it holds that of the queue that the thread leaves. */
#ifndef VMNOISE_FAMILY_WAITS_BPF_H
#define VMNOISE_FAMILY_WAITS_BPF_H

/* No static function: the verifier looks at its loop once. */
__noinline int take_lock(struct family_cpu *cpu)
{
	u32 i;

	if (!cpu)
		return 0;
	for (i = 0; i < FAMILY_LOCK_TRIES; i++)
		if (!__sync_val_compare_and_swap(&cpu->lock, 0, 1))
			return 1;
	__sync_fetch_and_add(&cpu->contended, 1);
	return 0;
}

/* Interrupts are off, so whoever has the lock goes on, unless a hypervisor takes its CPU: then the
 * books of this CPU are written without. That is counted, and nobody knows by how much they are
 * off. */
static __always_inline void give_lock(struct family_cpu *cpu, int is_held)
{
	barrier();
	if (is_held)
		*(volatile u32 *)&cpu->lock = 0;
}

/* Brings the books of a CPU up to this instant, which is never before the last one: the clocks of
 * two CPUs may differ by a moment. Tells the instant. Steal that is told late is that of the time
 * since the last instant, as far as there is any. In a turn of the family's own it is taken from
 * the thread that runs. */
static __always_inline u64 bring(struct family_cpu *cpu, u64 now, u64 steal)
{
	u64 passed, stolen;

	if (now <= cpu->until)
		return cpu->until;
	passed = now - cpu->until;
	cpu->until = now;
	stolen = minus(steal, cpu->steal_at);
	if (stolen)
		cpu->steal_at = steal;
	if (!cpu->waiting)
		return now;
	if (stolen > passed)
		stolen = passed;
	if (cpu->is_own)
		stolen = 0;
	cpu->turn_waits += cpu->waiting * (passed - stolen);
	cpu->steal_waits += cpu->waiting * stolen;
	return now;
}

/* How long the family has had this CPU. */
static __always_inline u64 own_ran(const struct family_cpu *cpu, u64 now)
{
	return cpu->own_ran + (cpu->is_own ? minus(now, cpu->turn_since) : 0);
}

/* A thread waits for this CPU from `now` on, which is `until` of that CPU. */
static __always_inline void wait_begins(struct family_thread *thread, struct family_cpu *cpu,
					u32 number, u64 now, u64 throttles)
{
	thread->state = FAMILY_WAITING;
	thread->cpu = number;
	thread->since = now;
	thread->throttles = throttles;
	thread->own_before = own_ran(cpu, now);
	/* Also where the lock could not be had: one that is lost here would be held against whoever
	 * has this CPU from then on. */
	__sync_fetch_and_add(&cpu->waiting, 1);
}

/* It does not any more. A quota that kept it from running meanwhile has gone by: its groups have
 * been throttled for longer then. */
static __always_inline void wait_ends(struct family_thread *thread, struct family_cpu *cpu, u64 now,
				      u64 throttles)
{
	u64 all = minus(now, thread->since), own = minus(own_ran(cpu, now), thread->own_before);

	if (own > all)
		own = all;
	thread->books.waited_own += own;
	thread->books.waited += all - own;
	thread->lost += all - own;
	if (throttles != thread->throttles)
		thread->books.unsure += all - own;
	if (now > thread->since)
		thread->since = now;
	if (cpu->waiting)
		__sync_fetch_and_add(&cpu->waiting, -1);
}

/* It came unseen, and has run for a part of this turn; before the turn it waited. Nobody's is the
 * part of the turn that it was thought to have waited. */
static __always_inline void wait_ended_unseen(struct family_thread *thread, struct family_cpu *cpu,
					      u64 now, u64 throttles)
{
	u64 from = thread->since > cpu->turn_since ? thread->since : cpu->turn_since;

	cpu->turn_waits = minus(cpu->turn_waits, minus(now, from));
	wait_ends(thread, cpu, from, throttles);
	cpu->unpaired++;
}

/* The turn under way ends. Tells how long others waited for whom this is to be held against: 0
 * where it is nobody's, or the family's own. */
static __always_inline u64 turn_ends(struct family_cpu *cpu, u64 now, bool is_seen, bool is_idle)
{
	u64 waits = cpu->turn_waits;

	cpu->turn_waits = 0;
	if (cpu->is_own) {
		cpu->own_ran += minus(now, cpu->turn_since);
		cpu->own_waits += waits;
		if (!is_seen)
			cpu->doubtful_waits += waits;
	} else if (!is_seen) {
		cpu->unnamed_waits += waits;
	} else if (is_idle) {
		cpu->idle_waits += waits;
	} else {
		return waits;
	}
	return 0;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds who had a CPU while threads of the family waited for it. No single wait is kept. A CPU sums
 * how long all threads together have waited in the current turn. At the end of the turn, the sum
 * goes to the task that had the CPU. So a thousand waiting threads cost no more than one.
 *
 * At each of these events the scheduler holds the lock of the CPU's run queue, with one exception:
 * when a waiting thread is moved to the CPU, it holds the lock of the queue that the thread leaves.
 */
#ifndef VMNOISE_FAMILY_WAITS_BPF_H
#define VMNOISE_FAMILY_WAITS_BPF_H

/* Takes the lock of a CPU's counts. Returns whether it has it. Not static, so that the verifier
 * checks the loop once. */
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

/* Releases the lock, if it is held. Interrupts are off, so the holder of the lock continues, unless
 * a hypervisor takes its CPU. Then this CPU's counts are written without the lock. This is counted,
 * and nobody knows how large the error is. */
static __always_inline void give_lock(struct family_cpu *cpu, int is_held)
{
	barrier();
	if (is_held)
		*(volatile u32 *)&cpu->lock = 0;
}

/* Counts a CPU's time up to now, and returns the instant up to which it is counted. This instant
 * never goes back, because the clocks of two CPUs may differ by a moment. Steal time that is seen
 * late counts in the time since the last instant, as far as it fits. In a turn of the family, the
 * thread that runs loses it. */
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

/* Returns how long the family has had this CPU. */
static __always_inline u64 own_ran(const struct family_cpu *cpu, u64 now)
{
	return cpu->own_ran + (cpu->is_own ? minus(now, cpu->turn_since) : 0);
}

/* Begins a thread's wait for this CPU at `now`, which is `until` of this CPU. */
static __always_inline void wait_begins(struct family_thread *thread, struct family_cpu *cpu,
					u32 number, u64 now, u64 throttles)
{
	thread->state = FAMILY_WAITING;
	thread->cpu = number;
	thread->since = now;
	thread->throttles = throttles;
	thread->own_before = own_ran(cpu, now);
	/* Atomic, because the lock may not be held. A lost update would blame every later task on
	 * this CPU. */
	__sync_fetch_and_add(&cpu->waiting, 1);
}

/* Ends a wait. If a quota kept the thread from running meanwhile, the throttled time of its groups
 * has grown. */
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

/* Ends the wait of a thread that came unseen. It waited until this turn began, and has run in a
 * part of the turn. The time in this turn that counted as its wait belongs to nobody. */
static __always_inline void wait_ended_unseen(struct family_thread *thread, struct family_cpu *cpu,
					      u64 now, u64 throttles)
{
	u64 from = thread->since > cpu->turn_since ? thread->since : cpu->turn_since;

	cpu->turn_waits = minus(cpu->turn_waits, minus(now, from));
	wait_ends(thread, cpu, from, throttles);
	cpu->unpaired++;
}

/* Ends the current turn. Returns the waiting time for which its task is blamed: 0 if no task is, or
 * if the task is of the family. */
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

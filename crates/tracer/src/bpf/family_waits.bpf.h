/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Attributes waiting time of the family to the tasks that had the CPU. Single waits are not stored.
 * A CPU adds up how long all threads together have waited in the current turn. At the end of the
 * turn, the sum is attributed to the task that had the CPU. So a thousand waiting threads cost no
 * more than one.
 *
 * At each of these events the scheduler holds the lock of the CPU's run queue, with one
 * exception. When a waiting thread is moved to the CPU, it holds the lock of the queue that the
 * thread leaves. */
#ifndef VMNOISE_FAMILY_WAITS_BPF_H
#define VMNOISE_FAMILY_WAITS_BPF_H

#include "kernel.bpf.h"
#include "family.h"
#include "own_cpus_handlers.bpf.h"

/* Tries to take the lock of a CPU's counts. Returns whether this succeeded. The function is not
 * static, so that the verifier checks the loop once. */
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

/* Releases the lock, if it is held. Interrupts are off, so the holder of the lock usually continues
 * soon. If a hypervisor takes the holder's CPU, the counts are written without the lock. This is
 * counted, and the size of the error is unknown. */
static __always_inline void give_lock(struct family_cpu *cpu, int is_held)
{
	barrier();
	if (is_held)
		*(volatile u32 *)&cpu->lock = 0;
}

/* Counts a CPU's time up to now, and returns the instant up to which time is counted. The clocks of
 * two CPUs may differ slightly, so an earlier instant is ignored. Steal time that is seen late
 * counts in the time since the last instant, at most all of it. In a turn of the family, steal time
 * counts only for the thread that runs. */
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

/* Returns how long threads of the family have had this CPU, in ns. */
static __always_inline u64 own_ran(const struct family_cpu *cpu, u64 now)
{
	return cpu->own_ran + (cpu->is_own ? minus(now, cpu->turn_since) : 0);
}

/* Begins a thread's wait for this CPU at `now`, which must equal `until` of this CPU. */
static __always_inline void wait_begins(struct family_thread *thread, struct family_cpu *cpu,
					u32 number, u64 now, u64 throttles)
{
	thread->state = FAMILY_WAITING;
	thread->cpu = number;
	thread->since = now;
	thread->throttles = throttles;
	thread->own_before = own_ran(cpu, now);
	/* The addition is atomic, because the lock may not be held. A lost addition would blame
	 * every later task on this CPU. */
	__sync_fetch_and_add(&cpu->waiting, 1);
}

/* Ends a wait. If a quota kept the thread from running during the wait, the throttled time of its
 * groups has increased. */
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

/* Ends the wait of a thread that came to the CPU without an event. The thread waited until this
 * turn began, and has run in a part of the turn. The time in this turn that was counted as waiting
 * is removed. */
static __always_inline void wait_ended_unseen(struct family_thread *thread, struct family_cpu *cpu,
					      u64 now, u64 throttles)
{
	u64 from = thread->since > cpu->turn_since ? thread->since : cpu->turn_since;

	cpu->turn_waits = minus(cpu->turn_waits, minus(now, from));
	wait_ends(thread, cpu, from, throttles);
	cpu->unpaired++;
}

/* Ends the current turn. Returns the waiting time for which its task is blamed. It is 0 if the task
 * is unknown, idle or in the family. */
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

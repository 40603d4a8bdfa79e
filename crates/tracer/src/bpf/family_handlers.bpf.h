/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The handlers of all events for the threads of a command. All values are arguments, including the
 * time and the steal clock. A thread's times are written in the order of its own events, which the
 * locks of run queues ensure. */
#ifndef VMNOISE_FAMILY_HANDLERS_BPF_H
#define VMNOISE_FAMILY_HANDLERS_BPF_H

#include "kernel.bpf.h"
#include "family.h"
#include "family_waits.bpf.h"
#include "own_cpus_handlers.bpf.h"

/* One event on a CPU. */
struct family_event {
	u64 now;
	u64 steal; /* the steal clock of this CPU */
	u32 number;
	u32 padding;
};

/* Stores the time that has been taken so far from the threads that run on this CPU. */
static __always_inline void note_taken(struct family_taken *taken, const struct family_cpu *cpu)
{
	taken->steal = cpu->own.steal.ns;
	taken->irq = cpu->own.irq.ns;
	taken->softirq = cpu->own.softirq.ns;
	taken->nmi = cpu->nmi;
}

/* Moves the increase from `before` to `after` from `left` to `book`, but at most all of `left`. */
static __always_inline void cut(u64 *left, u64 *book, u64 before, u64 after)
{
	u64 part = minus(after, before);

	if (part > *left)
		part = *left;
	*left -= part;
	*book += part;
}

static __always_inline void lengthens(struct family_longest *longest, u64 ns, u64 until,
				      const struct vmnoise_source *who)
{
	if (ns <= longest->ns)
		return;
	longest->ns = ns;
	longest->until = until;
	longest->who = *who;
}

/* Notes that others had this CPU from `begin` to `now`. This time continues the last piece if that
 * piece ended at most FAMILY_BREATH before `begin`. Otherwise it begins a new piece. */
static __always_inline void piece_ends(struct family_cpu *cpu, u64 begin, u64 now)
{
	if (begin > cpu->piece_until + FAMILY_BREATH)
		cpu->piece = 0;
	else if (begin < cpu->piece_until)
		begin = cpu->piece_until;
	cpu->piece += minus(now, begin);
	cpu->piece_until = now;
	if (cpu->piece > cpu->longest_piece)
		cpu->longest_piece = cpu->piece;
}

/* Returns the length of the piece that a wait continues if it begins now; 0 if there is none. */
static __always_inline u64 piece_before(const struct family_cpu *cpu, u64 now)
{
	return now > cpu->piece_until + FAMILY_BREATH ? 0 : cpu->piece;
}

/* Notes that a piece ends, because a thread gets this CPU after a wait. */
static __always_inline void wait_was(struct family_thread *thread, struct family_cpu *cpu, u64 now)
{
	cpu->piece = thread->piece + thread->lost;
	cpu->piece_until = now;
	if (cpu->piece > cpu->longest_piece)
		cpu->longest_piece = cpu->piece;
}

static __always_inline void family_irq_exit(struct family_cpu *cpu, u64 now, u64 steal, u32 id,
					    u32 origin)
{
	u64 begin = cpu->own.irq_depth == 1 ? cpu->own.irqs[0].start : 0;

	own_irq_exit(&cpu->own, now, steal, id, origin);
	/* A nested interrupt is part of the outer interrupt. */
	if (begin && !cpu->own.irq_depth)
		piece_ends(cpu, begin, now);
}

static __always_inline void family_softirq_exit(struct family_cpu *cpu, u64 now, u64 steal)
{
	u64 begin = cpu->own.softirq_start;

	own_softirq_exit(&cpu->own, now, steal);
	if (begin)
		piece_ends(cpu, begin, now);
}

/* Adds the time until now to the state of a thread that neither runs nor waits. */
static __always_inline void book(struct family_thread *thread, u64 now)
{
	u64 passed;

	if (!thread->first)
		thread->first = thread->since = now;
	passed = minus(now, thread->since);
	if (thread->state == FAMILY_THROTTLED)
		thread->books.throttled += passed;
	else if (thread->state == FAMILY_ASLEEP)
		thread->books.asleep += passed;
	else
		thread->books.unseen += passed;
	if (passed)
		thread->since = now;
}

/* Adds the time until now to the running time of a thread. */
static __always_inline void book_running(struct family_thread *thread, struct family_cpu *cpu,
					 u64 now)
{
	u64 left = minus(now, thread->since);
	struct family_taken after;

	note_taken(&after, cpu);
	cut(&left, &thread->books.steal, thread->before.steal, after.steal);
	cut(&left, &thread->books.irq, thread->before.irq, after.irq);
	cut(&left, &thread->books.softirq, thread->before.softirq, after.softirq);
	cut(&left, &thread->books.nmi, thread->before.nmi, after.nmi);
	thread->books.ran += left;
	if (now > thread->since)
		thread->since = now;
}

/* Ends a thread's wait for a CPU. Counts the CPU's time up to now, and returns this instant. */
static __always_inline u64 stops_waiting(struct family_thread *thread, struct family_cpu *cpu,
					 u64 now, u64 steal, u64 throttles)
{
	int held = take_lock(cpu);

	now = bring(cpu, now, steal);
	wait_ends(thread, cpu, now, throttles);
	give_lock(cpu, held);
	return now;
}

/* Begins a thread's wait for this CPU. The thread was in another state until now. */
static __always_inline void starts_waiting(struct family_thread *thread, struct family_cpu *cpu,
					   u32 number, u64 now, u64 steal, u64 throttles)
{
	int held = take_lock(cpu);
	bool waits = thread->state == FAMILY_WAITING;

	now = bring(cpu, now > thread->since ? now : thread->since, steal);
	if (waits) {
		/* The clocks of the two CPUs differ by this time. */
		thread->books.waited += now - thread->since;
		cpu->unnamed_waits += now - thread->since;
	} else {
		book(thread, now);
		thread->lost = 0;
		thread->piece = 0;
	}
	wait_begins(thread, cpu, number, now, throttles);
	give_lock(cpu, held);
}

/* Handles the wake-up or the creation of a thread. */
static __always_inline void family_wakes(struct family_thread *thread, struct family_cpu *there,
					 const struct family_event *it, bool is_on_cpu,
					 bool is_throttled, u64 throttles)
{
	if (thread->state == FAMILY_WAITING || thread->state == FAMILY_THROTTLED)
		return;
	if (thread->state == FAMILY_RUNNING) {
		if (is_on_cpu)
			return;
		/* The thread left its CPU without an event. */
		thread->state = FAMILY_UNSEEN;
		there->unpaired++;
	}
	if (is_throttled) {
		book(thread, it->now);
		thread->state = FAMILY_THROTTLED;
		thread->lost = 0;
		thread->piece = 0;
		return;
	}
	starts_waiting(thread, there, it->number, it->now, it->steal, throttles);
}

/* Handles the move of a waiting thread from one CPU to another. */
static __always_inline void family_moves(struct family_thread *thread, struct family_cpu *from,
					 u64 from_steal, struct family_cpu *to,
					 const struct family_event *it, u64 throttles)
{
	if (thread->state != FAMILY_WAITING)
		return;
	stops_waiting(thread, from, it->now, from_steal, throttles);
	starts_waiting(thread, to, it->number, it->now, it->steal, throttles);
}

/* Handles that a thread of the family leaves its CPU. The caller sets the new state. */
static __always_inline void leaves(struct family_thread *thread, struct family_cpu *cpu, u32 number,
				   u64 now, u64 throttles)
{
	struct vmnoise_source nobody = {};

	if (thread->state == FAMILY_RUNNING && thread->cpu == number) {
		book_running(thread, cpu, now);
		thread->lost = 0;
		thread->piece = piece_before(cpu, now);
		return;
	}
	/* The thread came to the CPU without an event, at an unknown time. */
	if (thread->state == FAMILY_WAITING && thread->cpu == number) {
		wait_ended_unseen(thread, cpu, now, throttles);
		lengthens(&cpu->longest[FAMILY_WAIT], thread->lost, thread->since, &nobody);
	} else {
		cpu->unpaired += !!thread->first;
	}
	thread->state = FAMILY_UNSEEN;
	book(thread, now);
	thread->lost = 0;
	thread->piece = 0;
}

/* Handles that a thread of the family gets this CPU. */
static __always_inline void comes(struct family_thread *thread, struct family_cpu *cpu, u32 number,
				  u64 now, u64 steal, u64 throttles,
				  const struct vmnoise_source *before)
{
	if (thread->state == FAMILY_WAITING) {
		wait_ends(thread, cpu, now, throttles);
		lengthens(&cpu->longest[FAMILY_WAIT], thread->lost, now, before);
		wait_was(thread, cpu, now);
	} else if (thread->state != FAMILY_THROTTLED) {
		/* The thread left its CPU, or was woken, without an event. */
		cpu->unpaired += !!thread->first;
		thread->state = FAMILY_UNSEEN;
		book(thread, now);
		cpu->piece = 0;
	} else {
		thread->lost += minus(now, thread->since);
		book(thread, now);
		lengthens(&cpu->longest[FAMILY_WAIT], thread->lost, now, before);
		wait_was(thread, cpu, now);
	}
	thread->state = FAMILY_RUNNING;
	thread->cpu = number;
	cpu->own.irq_depth = 0;
	cpu->own.softirq_start = 0;
	cpu->own.steal_until = steal;
	note_taken(&thread->before, cpu);
}

/* Values of a switch, in addition to its time. */
struct family_switch {
	u64 prev; /* addresses of tasks */
	u64 next;
	bool prev_is_idle;
	bool prev_sleeps; /* the task sleeps, or has ended */
	bool prev_is_throttled;
	u64 prev_throttles; /* total throttled time of its groups so far */
	u64 next_throttles;
};

/* Returns whether a switch on this CPU matters to the family. This is the case if a thread of the
 * family is here or waits. It is also the case if a thread waited in the turn that ends now, and
 * was then moved. */
static __always_inline bool is_for_family(const struct family_cpu *cpu, bool has_member)
{
	return has_member || cpu->waiting || cpu->is_own || cpu->turn_waits;
}

/* Handles a switch. Returns the waiting time for which `before`, the task that leaves, is blamed.
 * `prev` or `next` is 0 if the task does not belong to the family. */
static __always_inline u64 family_switch(struct family_cpu *cpu, const struct family_event *it,
					 const struct family_switch *what,
					 struct family_thread *prev, struct family_thread *next,
					 const struct vmnoise_source *before)
{
	bool is_seen = cpu->task == what->prev;
	u64 now, blamed;
	int held;

	if (cpu->is_own || prev)
		own_switch(&cpu->own, it->now, it->steal);
	held = take_lock(cpu);
	now = bring(cpu, it->now, it->steal);
	if (prev)
		leaves(prev, cpu, it->number, now, what->prev_throttles);
	blamed = turn_ends(cpu, now, is_seen, what->prev_is_idle);
	cpu->task = what->next;
	cpu->turn_since = now;
	cpu->is_own = 0;
	if (prev && what->prev_sleeps) {
		prev->state = FAMILY_ASLEEP;
	} else if (prev && what->prev_is_throttled) {
		prev->state = FAMILY_THROTTLED;
	} else if (prev) {
		wait_begins(prev, cpu, it->number, now, what->prev_throttles);
	}
	if (next) {
		comes(next, cpu, it->number, now, it->steal, what->next_throttles, before);
		cpu->is_own = 1;
	}
	give_lock(cpu, held);
	return blamed;
}

/* Returns by how much the waiting time of the kernel's accounting exceeds that of the events. This
 * is computed for each thread alone, so that an excess of one thread does not hide a lack of
 * another thread. */
static __always_inline u64 unshown(const struct family_books *books)
{
	return minus(books->kernel_waited, books->waited + books->waited_own + books->throttled);
}

/* Returns the time that others took from a thread, in ns. */
static __always_inline u64 taken_of(const struct family_books *books)
{
	return books->irq + books->softirq + books->nmi + books->steal + books->waited +
	       books->throttled;
}

/* Handles the end of a thread. The thread has no later events. */
static __always_inline void family_ends(struct family_thread *thread, struct family_cpu *cpu,
					u64 kernel_ran, u64 kernel_waited)
{
	u64 *from = (u64 *)&thread->books, *to = (u64 *)&cpu->ended;
	u64 taken = taken_of(&thread->books);
	u32 i;

	if (taken > cpu->most_of_one)
		cpu->most_of_one = taken;

	thread->books.wall = minus(thread->since, thread->first);
	thread->books.threads = 1;
	thread->books.kernel_ran = kernel_ran;
	thread->books.kernel_waited = kernel_waited;
	thread->books.unshown = unshown(&thread->books);
	thread->state = FAMILY_ENDED;
#pragma unroll
	for (i = 0; i < FAMILY_BOOKS; i++)
		to[i] += from[i];
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is counted of this machine's own CPUs where it is a guest, in a map that user space has
 * mapped. Instants are CLOCK_MONOTONIC in ns, lengths are ns. */
#ifndef VMNOISE_OWN_CPUS_H
#define VMNOISE_OWN_CPUS_H

#include "lengths.h"

/* Interrupts in progress on one CPU, at most: one in the handler of another is rare. */
#define OWN_NESTING 4
/* One run in so many is timed. A prime: what runs by turns gets its turn each. */
#define OWN_TIMED_RUN 251
/* Of `steal_until`: the clock was not read yet. */
#define OWN_UNREAD (~0ULL)

/* Single ones of a kind: how long they were all together, and how many were how long. counts[i]
 * are longer than bounds[i - 1], and no longer than bounds[i]. */
struct own_lengths {
	unsigned long long ns;
	unsigned long long counts[LENGTH_BOUNDS];
};

/* An interrupt in progress. */
struct own_begin {
	unsigned long long start;
	unsigned long long taken; /* from it and from whatever came before, at its begin */
	struct {
		unsigned int id;
		unsigned int origin;
	} source;
};

struct own_cpu {
	unsigned long long run_queue;	/* its address */
	unsigned long long steal_clock; /* the same; 0: nothing is counted here */
	unsigned long long steal_until; /* the last reading of that clock */
	struct own_lengths steal;
	struct own_lengths irq;	    /* net of steal, and of interrupts inside */
	struct own_lengths softirq; /* the same */
	struct own_lengths wait;
	unsigned long long softirq_start; /* 0: none is in progress */
	unsigned long long softirq_taken;
	unsigned int irq_depth;
	unsigned int irq_seen; /* a begin, and so the end of whatever begins */
	unsigned long long unpaired;
	unsigned long long runs;
	unsigned long long timed_ns;
	struct own_begin irqs[OWN_NESTING];
}
__attribute__((aligned(128))); /* neighbouring CPUs share no cache line, nor its prefetched twin */

/* What the programs are given before they are loaded. */
struct own_settings {
	unsigned long long bounds[LENGTH_BOUNDS];
	unsigned long long xen; /* the clock is a struct vcpu_runstate_info */
};

#endif

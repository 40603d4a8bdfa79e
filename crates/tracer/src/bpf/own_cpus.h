/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts for this machine's own CPUs, if the machine is a guest. They are in a map that user space
 * has mapped. Instants are CLOCK_MONOTONIC in ns, durations are in ns. */
#ifndef VMNOISE_OWN_CPUS_H
#define VMNOISE_OWN_CPUS_H

#include "lengths.h"

/* Largest number of nested interrupts on one CPU. Nesting is rare. */
#define OWN_NESTING 4
/* One run in this number is timed. It is a prime, so that programs that run in a fixed order are
 * all timed. */
#define OWN_TIMED_RUN 251
/* Value of `steal_until` before the first reading of the clock. */
#define OWN_UNREAD (~0ULL)

/* Intervals of one kind: their total length, and their number by length. counts[i] has the
 * intervals longer than bounds[i - 1], and not longer than bounds[i]. */
struct own_lengths {
	unsigned long long ns;
	unsigned long long counts[LENGTH_BOUNDS];
};

/* An interrupt in progress. */
struct own_begin {
	unsigned long long start;
	unsigned long long taken; /* value of taken() at the begin of the interrupt */
	struct {
		unsigned int id;
		unsigned int origin;
	} source;
};

struct own_cpu {
	unsigned long long run_queue;	/* address of the run queue */
	unsigned long long steal_clock; /* address of the steal clock; 0: this CPU is not counted */
	unsigned long long steal_until; /* last reading of the steal clock */
	struct own_lengths steal;
	struct own_lengths irq;	    /* without steal time and nested interrupts */
	struct own_lengths softirq; /* without steal time and interrupts */
	struct own_lengths wait;
	unsigned long long softirq_start; /* 0: no softirq is in progress */
	unsigned long long softirq_taken;
	unsigned int irq_depth;
	unsigned int irq_seen; /* a begin was seen: from now on, an end without a begin is a loss */
	unsigned long long unpaired;
	unsigned long long runs;
	unsigned long long timed_ns;
	struct own_begin irqs[OWN_NESTING];
} __attribute__((aligned(128))); /* no two CPUs share a cache line, or a prefetched pair of lines */

/* Settings that the programs get before they are loaded. */
struct own_settings {
	unsigned long long bounds[LENGTH_BOUNDS];
	unsigned long long xen; /* whether the steal clock is a struct vcpu_runstate_info */
};

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts for the threads of a command, the family, in maps that user space reads. Instants are
 * CLOCK_MONOTONIC in ns, lengths are in ns. */
#ifndef VMNOISE_FAMILY_H
#define VMNOISE_FAMILY_H

#include "own_cpus.h"
#include "vmnoise.h"

/* Longest time in ns between two interruptions that still count as one piece of taken time. */
#define FAMILY_BREATH 5000

/* Number of tries to take a CPU's lock. Another CPU takes it only to move a waiting thread to this
 * CPU. */
#define FAMILY_LOCK_TRIES 512

/* State of a thread. */
enum family_state {
	FAMILY_UNSEEN,	  /* before the first event, or an event was missed */
	FAMILY_RUNNING,	  /* it has a CPU */
	FAMILY_WAITING,	  /* it could run, and has no CPU */
	FAMILY_THROTTLED, /* a quota, or the limit of real-time tasks, keeps it from a CPU */
	FAMILY_ASLEEP,	  /* by its own wish, or stopped */
	FAMILY_ENDED,	  /* it has ended, and its times are final */
};

/* Times of a thread. All but the last five add up to `wall`. */
struct family_books {
	unsigned long long wall;
	unsigned long long ran;	       /* without the next four */
	unsigned long long irq;	       /* while it had the CPU, net of steal time */
	unsigned long long softirq;    /* the same, also net of interrupts */
	unsigned long long nmi;	       /* the same, outside interrupts */
	unsigned long long steal;      /* while it had the CPU, also in interrupts */
	unsigned long long waited;     /* while a task outside the family had the CPU, or none */
	unsigned long long waited_own; /* while another thread of the family had the CPU */
	unsigned long long throttled;
	unsigned long long asleep;
	unsigned long long unseen;
	unsigned long long unsure; /* part of `waited`: the thread may have waited for a quota */
	unsigned long long threads;
	unsigned long long kernel_ran; /* by the kernel's own accounting, with interrupts */
	unsigned long long kernel_waited;
	unsigned long long unshown; /* excess of the kernel's waiting time over that of events */
};
#define FAMILY_BOOKS (sizeof(struct family_books) / sizeof(unsigned long long))

/* Time that was taken on a CPU so far while the family ran there. */
struct family_taken {
	unsigned long long steal;
	unsigned long long irq;
	unsigned long long softirq;
	unsigned long long nmi;
};

struct family_thread {
	enum family_state state;
	unsigned int cpu;	  /* on which it runs, or for which it waits */
	unsigned long long first; /* its first event; 0: none yet */
	unsigned long long since; /* its times are counted up to here */
	unsigned long long
	    throttles; /* how long its groups had been throttled when its wait began */
	unsigned long long own_before; /* `own_ran` of its CPU when its wait began */
	unsigned long long lost;       /* in the current wait, behind others */
	unsigned long long piece;      /* piece of taken time that the current wait continues */
	struct family_taken before;    /* of its CPU, when it began to run */
	struct family_books books;
};

/* The longest interval of a kind. */
struct family_longest {
	unsigned long long ns;
	unsigned long long until;
	struct vmnoise_source who; /* for a wait: who had the CPU at its end */
};

enum family_kind {
	FAMILY_WAIT,
	FAMILY_IRQ,
	FAMILY_SOFTIRQ,
	FAMILY_NMI,
	FAMILY_STEAL,
	FAMILY_KINDS
};

struct family_cpu {
	struct own_cpu own;	      /* counts while the family runs here */
	unsigned long long run_queue; /* its address */
	unsigned int lock;
	unsigned int waiting;	       /* number of threads of the family that wait for it */
	unsigned long long task;       /* address of the task that has it */
	unsigned long long turn_since; /* begin of its turn, if that matters */
	unsigned int is_own;	       /* the task is one of the family */
	unsigned int padding;
	unsigned long long until;      /* the next fields are counted up to here */
	unsigned long long steal_at;   /* the steal clock at this time */
	unsigned long long turn_waits; /* in this turn, of all that waited, net of steal */
	unsigned long long own_ran;    /* how long the family had this CPU in earlier turns */
	/* Waits, by who had the CPU. Waits for other tasks with names are in the map `culprits`. */
	unsigned long long own_waits;
	unsigned long long idle_waits;
	unsigned long long steal_waits;
	unsigned long long unnamed_waits;
	unsigned long long doubtful_waits; /* part of own_waits: the end of the turn was not seen */
	unsigned long long nmi;
	unsigned long long unpaired;	/* events that do not fit the earlier ones */
	unsigned long long contended;	/* the lock could not be taken */
	unsigned long long piece;	/* time taken from the family in the last piece */
	unsigned long long piece_until; /* end of the last piece */
	unsigned long long longest_piece;
	unsigned long long most_of_one; /* largest time taken from one thread that ended here */
	struct family_longest longest[FAMILY_KINDS];
	struct family_books ended; /* times of threads that ended here */
}
__attribute__((aligned(128))); /* neighbouring CPUs share no cache line, nor its prefetched twin */

/* Time that one culprit took from the family. */
struct family_culprit {
	unsigned long long ns;
	unsigned long long count; /* number of turns or interrupts */
	unsigned long long longest;
};

/* A thread that is alive. */
struct family_member {
	unsigned int tid;
	unsigned int tgid;
	struct family_books books; /* up to its last event */
};

/* Losses. */
struct family_losses {
	unsigned long long unfollowed; /* number of threads for which there was no memory */
	unsigned long long unnamed;    /* time of culprits for which there was no place */
};

#endif

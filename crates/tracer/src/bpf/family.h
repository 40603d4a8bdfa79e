/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts for the threads of a command, which are called the family. They are in maps that user
 * space reads. Instants are CLOCK_MONOTONIC in ns, durations are in ns. */
#ifndef VMNOISE_FAMILY_H
#define VMNOISE_FAMILY_H

#include "own_cpus.h"
#include "vmnoise.h"

/* Longest time in ns between two interruptions that still count as one piece of taken time. */
#define FAMILY_BREATH 5000

/* Largest number of attempts to take a CPU's lock. Another CPU takes the lock only to move a
 * waiting thread to this CPU. */
#define FAMILY_LOCK_TRIES 512

/* State of a thread. */
enum family_state {
	FAMILY_UNSEEN,	  /* before the first event, or an event was missed */
	FAMILY_RUNNING,	  /* the thread has a CPU */
	FAMILY_WAITING,	  /* the thread could run, and has no CPU */
	FAMILY_THROTTLED, /* a quota, or the limit of real-time tasks, keeps it from a CPU */
	FAMILY_ASLEEP,	  /* the thread sleeps by its own wish, or is stopped */
	FAMILY_ENDED,	  /* the thread has ended, and its times are final */
};

/* Times of a thread. All fields except the last five add up to `wall`. */
struct family_books {
	unsigned long long wall;
	unsigned long long ran; /* time on a CPU, without irq, softirq, nmi and steal */
	unsigned long long irq; /* while the thread had the CPU, without steal time */
	unsigned long long
	    softirq; /* while the thread had the CPU, without steal time and interrupts */
	unsigned long long nmi;	  /* while the thread had the CPU, outside interrupts */
	unsigned long long steal; /* while the thread had the CPU, also during interrupts */
	unsigned long long
	    waited; /* while a task outside the family had the CPU, or the CPU idled */
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

/* Time that was taken on a CPU so far while threads of the family ran on it. */
struct family_taken {
	unsigned long long steal;
	unsigned long long irq;
	unsigned long long softirq;
	unsigned long long nmi;
};

struct family_thread {
	enum family_state state;
	unsigned int cpu;	       /* CPU on which the thread runs, or for which it waits */
	unsigned long long first;      /* time of its first event; 0: no event yet */
	unsigned long long since;      /* its times are counted up to this instant */
	unsigned long long throttles;  /* throttled time of its groups at the begin of its wait */
	unsigned long long own_before; /* `own_ran` of its CPU at the begin of its wait */
	unsigned long long lost;       /* time lost to others in the current wait */
	unsigned long long piece;      /* piece of taken time that the current wait continues */
	struct family_taken before;    /* of its CPU, at the instant at which it began to run */
	struct family_books books;
};

/* The longest interval of a kind. */
struct family_longest {
	unsigned long long ns;
	unsigned long long until;
	struct vmnoise_source who; /* for a wait: the task that had the CPU at its end */
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
	struct own_cpu own;	      /* counts while the family runs on this CPU */
	unsigned long long run_queue; /* address of the run queue */
	unsigned int lock;
	unsigned int waiting;	       /* number of threads of the family that wait for this CPU */
	unsigned long long task;       /* address of the task that has this CPU */
	unsigned long long turn_since; /* begin of this task's turn, if it is needed */
	unsigned int is_own;	       /* whether this task belongs to the family */
	unsigned int padding;
	unsigned long long until;    /* the next fields are counted up to this instant */
	unsigned long long steal_at; /* the steal clock at this time */
	unsigned long long
	    turn_waits; /* waiting time in this turn, summed over all threads, without steal time */
	unsigned long long own_ran; /* time for which the family had this CPU in earlier turns */
	/* Waiting times by the task that had the CPU. The map `culprits` has the waits for other
	 * tasks with names. */
	unsigned long long own_waits;
	unsigned long long idle_waits;
	unsigned long long steal_waits;
	unsigned long long unnamed_waits;
	unsigned long long doubtful_waits; /* part of own_waits: the end of the turn was not seen */
	unsigned long long nmi;
	unsigned long long unpaired;	/* events that do not match earlier events */
	unsigned long long contended;	/* how often the lock could not be taken */
	unsigned long long piece;	/* time taken from the family in the last piece */
	unsigned long long piece_until; /* end of the last piece */
	unsigned long long longest_piece;
	unsigned long long most_of_one; /* largest time taken from one thread that ended here */
	struct family_longest longest[FAMILY_KINDS];
	struct family_books ended; /* times of threads that ended here */
} __attribute__((aligned(128))); /* no two CPUs share a cache line, or a prefetched pair of lines */

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
	struct family_books books; /* times up to the last event of the thread */
};

/* Losses of the programs. */
struct family_losses {
	unsigned long long unfollowed; /* number of threads for which there was no memory */
	unsigned long long unnamed;    /* time in ns of culprits for which there was no room */
};

#endif

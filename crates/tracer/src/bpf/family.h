/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is counted of a command's threads, in maps that user space reads. Instants are
 * CLOCK_MONOTONIC in ns, lengths are ns. */
#ifndef VMNOISE_FAMILY_H
#define VMNOISE_FAMILY_H

#include "own_cpus.h"
#include "vmnoise.h"

/* A thread that runs for so long has its CPU back. */
#define FAMILY_BREATH 5000

/* A CPU's books are written from another CPU only where a waiting thread is moved to it. */
#define FAMILY_LOCK_TRIES 512

/* What a thread does. */
enum family_state {
	FAMILY_UNSEEN,	  /* before the first event, and where one was missed */
	FAMILY_RUNNING,	  /* it has a CPU */
	FAMILY_WAITING,	  /* it could run, and has none */
	FAMILY_THROTTLED, /* a quota, or the limit of real-time tasks, keeps it from one */
	FAMILY_ASLEEP,	  /* at its own wish, or stopped */
	FAMILY_ENDED,	  /* its books are closed */
};

/* What a thread did. All but the last five add up to `wall`. */
struct family_books {
	unsigned long long wall;
	unsigned long long ran;	       /* net of the next four */
	unsigned long long irq;	       /* inside of its running, net of steal */
	unsigned long long softirq;    /* the same, net of interrupts too */
	unsigned long long nmi;	       /* the same, outside of interrupts */
	unsigned long long steal;      /* inside of its running, interrupts included */
	unsigned long long waited;     /* while somebody else had the CPU, or nobody */
	unsigned long long waited_own; /* while another thread of the family had it */
	unsigned long long throttled;
	unsigned long long asleep;
	unsigned long long unseen;
	unsigned long long unsure; /* of `waited`: a quota may have been what it waited for */
	unsigned long long threads;
	unsigned long long kernel_ran; /* the kernel's own books: interrupts are in it */
	unsigned long long kernel_waited;
	unsigned long long unshown; /* how much longer the kernel has it wait than events do */
};
#define FAMILY_BOOKS (sizeof(struct family_books) / sizeof(unsigned long long))

/* What was taken so far on a CPU while the family ran there. */
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
	unsigned long long since; /* up to here its books are written */
	unsigned long long
	    throttles; /* how long its groups had been throttled as it began to wait */
	unsigned long long own_before; /* `own_ran` of its CPU, as it began to wait */
	unsigned long long lost;       /* of the wait under way, behind others */
	unsigned long long piece; /* taken without a break before the present wait */
	struct family_taken before;    /* of its CPU, as it began to run */
	struct family_books books;
};

/* The longest of a kind. */
struct family_longest {
	unsigned long long ns;
	unsigned long long until;
	struct vmnoise_source who; /* of a wait: who had the CPU at its end */
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
	unsigned int waiting;	       /* threads of the family that wait for it */
	unsigned long long task;       /* who has it: an address */
	unsigned long long turn_since; /* since when, if that matters */
	unsigned int is_own;	       /* it is one of the family */
	unsigned int padding;
	unsigned long long until;      /* up to here the next ones are written */
	unsigned long long steal_at;   /* what the steal clock said then */
	unsigned long long turn_waits; /* in this turn, of all that waited: net of steal */
	unsigned long long own_ran;    /* how long the family had this CPU, in earlier turns */
	/* Waits, by who had the CPU; those of named others are in the map of culprits. */
	unsigned long long own_waits;
	unsigned long long idle_waits;
	unsigned long long steal_waits;
	unsigned long long unnamed_waits;
	unsigned long long doubtful_waits; /* of the own ones: the turn's end was not seen */
	unsigned long long nmi;
	unsigned long long unpaired;  /* events that do not fit what was seen before */
	unsigned long long contended; /* the lock could not be had */
	unsigned long long piece;	/* taken here without a break … */
	unsigned long long piece_until; /* … until this instant */
	unsigned long long longest_piece;
	unsigned long long most_of_one; /* largest time taken from a thread that ended here */
	struct family_longest longest[FAMILY_KINDS];
	struct family_books ended; /* of threads that ended here */
}
__attribute__((aligned(128))); /* neighbouring CPUs share no cache line, nor its prefetched twin */

/* How long somebody took time from the family. */
struct family_culprit {
	unsigned long long ns;
	unsigned long long count; /* turns, interrupts */
	unsigned long long longest;
};

/* A thread that is alive. */
struct family_member {
	unsigned int tid;
	unsigned int tgid;
	struct family_books books; /* until its last event */
};

/* What is lost where. */
struct family_losses {
	unsigned long long unfollowed; /* threads for which there was no memory */
	unsigned long long unnamed;    /* of culprits for which there was no place */
};

#endif

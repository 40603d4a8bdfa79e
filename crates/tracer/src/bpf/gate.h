/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the gate counts of vCPUs, in maps that user space has mapped. Times are CLOCK_MONOTONIC in
 * ns, lengths are ns. */
#ifndef VMNOISE_GATE_H
#define VMNOISE_GATE_H

#include "lengths.h"

/* Names that a vCPU keeps of who had its CPU while it waited; the rest is told without. */
#define GATE_CULPRITS 8
/* Turns that a CPU keeps while a vCPU waits for it; what a wait holds before these has no name. */
#define GATE_TURNS 16
/* One switch in so many is timed: a clock reading costs as much as all else of most of them. */
#define GATE_TIMED_RUN 256

/* What a vCPU's thread does. */
enum gate_state {
	GATE_UNSEEN,  /* before the first event, and where one was missed */
	GATE_RUNNING, /* it has a CPU */
	GATE_WAITING, /* it could run, and has none */
	GATE_HALTED,  /* asleep at its guest's wish */
	GATE_BLOCKED, /* asleep inside of KVM, unasked */
	GATE_IN_VMM,  /* asleep in the VMM */
	GATE_ASLEEP,  /* asleep, and KVM's structures do not tell why */
	GATE_ENDED,   /* it is no more, and no event of it comes */
	GATE_STATES = 8,
};

/* Whether a quota kept a vCPU from running that waits. */
enum gate_throttle {
	GATE_FREE,	/* none did */
	GATE_THROTTLED, /* one did as the wait began */
	GATE_UNSURE,	/* one did meanwhile, from an instant that nobody knows */
};

/* What a piece of a vCPU's lost time was. */
enum gate_lost {
	GATE_LOST_UNKNOWN,
	GATE_LOST_RAN,	     /* somebody else ran */
	GATE_LOST_IDLE,	     /* the CPU idled, and no throttle was seen */
	GATE_LOST_THROTTLED, /* the CPU idled, and the thread was throttled */
	GATE_LOST_UNSURE,    /* it may have been throttled, or have waited for another CPU */
	GATE_LOST_BLOCKED,   /* it slept inside of KVM, unasked */
	GATE_TURN,	     /* no piece: a turn of a CPU, told before another takes its place */
};

/* Who had a turn on a CPU. */
struct gate_who {
	unsigned long long comm[2];
	unsigned long long cgroup; /* its id in the unified hierarchy */
	unsigned int vcpu;	   /* its id, if it is one, else 0 */
	unsigned int tgid;	   /* among culprits: of the vCPU's own VMM, else 0 */
};

struct gate_turn {
	unsigned long long until;
	struct gate_who who;
	unsigned int tid;      /* 0: the CPU idled; ~0: nobody knows who had all of it */
	unsigned int ordinary; /* not real-time: it runs where no real-time task may */
};

struct gate_cpu {
	unsigned int vcpu;    /* the place of the vCPU that has this CPU, else 0 */
	unsigned int tid;     /* of the thread that has it */
	unsigned int waiting; /* vCPUs that wait for it */
	unsigned int turns;   /* written so far */
	/* Pieces written by this CPU so far, of whatever CPU's vCPUs. */
	unsigned long long pieces;
	unsigned int waits_since; /* the turn in which vCPUs began to wait for it */
	unsigned int padding;
	unsigned long long forgot; /* until when those turns were that are kept no more */
	/* What the program at switches costs here: one run in GATE_TIMED_RUN is timed, with one
	 * reading of the clock. */
	unsigned long long runs;
	unsigned long long timed_ns;
	struct gate_turn turn[GATE_TURNS];
};

struct gate_culprit {
	struct gate_who who;
	unsigned long long ns;
	/* Whether it keeps its place: what it had lately, halved with each second, and no less than
	 * what those had who had the place before it. */
	unsigned long long score;
	unsigned long long second; /* of the score */
};

struct gate_vcpu {
	unsigned int writes; /* odd while a program writes here */
	unsigned int id;     /* no other vCPU has it or will have it */
	unsigned int tgid;
	enum gate_state state;
	unsigned long long first; /* the first event */
	unsigned long long since; /* when the state began, or was last booked */
	/* By state; adds up to since - first. */
	unsigned long long spent[GATE_STATES];
	/* How often its thread had left a CPU at the last switch of it that fired an event, and at
	 * the last walk over all tasks. More at the walk: a departure was missed. */
	unsigned long long switches;
	unsigned long long walked_switches;
	/* The last instant at which a walk found it in its state, without a missed departure. */
	unsigned long long confirmed;
	/* Parts of spent[GATE_WAITING]; with those of the culprits they add up to it. */
	unsigned long long idle_ns;	 /* the CPU idled, and no throttle was seen */
	unsigned long long throttled_ns; /* the CPU idled, and the thread was throttled */
	unsigned long long unsure_ns;	 /* it may have been throttled, and may not */
	unsigned long long unnamed_ns;	 /* others ran, who are not among the culprits */
	/* The wait under way. */
	unsigned long long waited;    /* before since */
	unsigned long long throttles; /* how long its groups had been throttled as it began */
	unsigned int waits_for;	      /* the CPU; of one that sleeps, on which it fell asleep */
	enum gate_throttle throttle;
	unsigned int urgent;	/* it is real-time */
	unsigned int preempted; /* it left that CPU: whoever has it since came meanwhile */
	/* Waits that are over, by length: counts[i] are longer than bounds[i - 1], and no longer
	 * than bounds[i]. */
	unsigned long long counts[LENGTH_BOUNDS];
	struct gate_culprit culprits[GATE_CULPRITS];
};

/* What the programs are given before they are loaded. */
struct gate_settings {
	unsigned long long bounds[LENGTH_BOUNDS]; /* of the lengths of waits */
	unsigned long long told_from;		  /* waits and sleeps that are as long are told */
	unsigned long long pieces_each;		  /* that each CPU keeps, a power of two */
};

/* A part of one wait, or a sleep, told by itself: those of a wait one after the other, the last one
 * first. */
struct gate_piece {
	unsigned long long from;
	unsigned long long until;
	struct gate_who who; /* where somebody ran */
	unsigned int tid;    /* of who ran */
	unsigned int vcpu;   /* the id of the one that waited; of a turn 0 */
	unsigned int cpu;    /* the one for which it waited, or on which it fell asleep */
	enum gate_lost lost;
};

/* A vCPU that the walk over all tasks has found. */
struct gate_found {
	unsigned int place; /* 0: there is no room for it */
	unsigned int id;
	unsigned int tid;
	unsigned int tgid;
	unsigned int
	    number; /* of the vCPU in its VM, as it gets its place; ~0: KVM's types are not known */
};

#endif

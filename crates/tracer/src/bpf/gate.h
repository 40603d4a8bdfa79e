/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts of the gate for vCPUs, in maps that user space has mapped. Instants are CLOCK_MONOTONIC in
 * ns, durations are in ns. */
#ifndef VMNOISE_GATE_H
#define VMNOISE_GATE_H

#include "lengths.h"

/* Number of culprits that a vCPU keeps by name. A culprit is a task that had the CPU while the vCPU
 * waited. The time of other tasks is kept as one sum. */
#define GATE_CULPRITS 8
/* Number of turns that a CPU keeps while a vCPU waits for it. In a longer wait, the tasks of
 * earlier turns are unknown here. */
#define GATE_TURNS 16
/* One switch in this number is timed. A reading of the clock costs as much as all else in most
 * switches. */
#define GATE_TIMED_RUN 256

/* State of a vCPU's thread. */
enum gate_state {
	GATE_UNSEEN,  /* before the first event, or an event was missed */
	GATE_RUNNING, /* the thread has a CPU */
	GATE_WAITING, /* the thread could run, and has no CPU */
	GATE_HALTED,  /* asleep because its guest wants to sleep */
	GATE_BLOCKED, /* asleep inside KVM, though its guest does not want to sleep */
	GATE_IN_VMM,  /* asleep in the VMM */
	GATE_ASLEEP,  /* asleep, and KVM's structures do not show why */
	GATE_ENDED,   /* the thread has ended, and has no more events */
	GATE_STATES = 8,
};

/* Whether a quota kept a waiting vCPU from running. */
enum gate_throttle {
	GATE_FREE,	/* no quota kept it from running */
	GATE_THROTTLED, /* a quota kept it from running when the wait began */
	GATE_UNSURE,	/* a quota kept it from running later, from an unknown time on */
};

/* Kind of a piece of a vCPU's lost time. */
enum gate_lost {
	GATE_LOST_UNKNOWN,
	GATE_LOST_RAN,	     /* another task ran */
	GATE_LOST_IDLE,	     /* the CPU idled, and no throttling was seen */
	GATE_LOST_THROTTLED, /* the CPU idled, and the thread was throttled */
	GATE_LOST_UNSURE,    /* the vCPU may have been throttled, or have waited for another CPU */
	GATE_LOST_BLOCKED,   /* the vCPU slept inside KVM, though its guest did not want to sleep */
	GATE_TURN,	     /* not a loss: a turn of a CPU, reported before it is overwritten */
};

/* The task that had a turn on a CPU. */
struct gate_who {
	unsigned long long comm[2];
	unsigned long long cgroup; /* id of its cgroup in the unified hierarchy */
	unsigned int vcpu;	   /* id of the vCPU, if the task is one; else 0 */
	unsigned int
	    tgid; /* in a culprit: the task's process if it is the vCPU's own VMM; else 0 */
};

struct gate_turn {
	unsigned long long until;
	struct gate_who who;
	unsigned int tid;      /* 0: the CPU idled; ~0: it is unknown which tasks had the CPU */
	unsigned int ordinary; /* the task is not real-time, and runs also if real-time tasks are
				  throttled */
};

struct gate_cpu {
	unsigned int vcpu;    /* index of the vCPU that has this CPU; else 0 */
	unsigned int tid;     /* thread id of the task that has this CPU */
	unsigned int waiting; /* number of vCPUs that wait for this CPU */
	unsigned int turns;   /* number of turns written so far */
	/* Number of pieces that this CPU has written, for vCPUs of any CPU. */
	unsigned long long pieces;
	unsigned int waits_since; /* the turn in which vCPUs began to wait for this CPU */
	unsigned int padding;
	unsigned long long forgot; /* end of the last turn that was overwritten */
	/* Cost of the program at switches on this CPU. One run in GATE_TIMED_RUN is timed,
	 * including one reading of the clock. */
	unsigned long long runs;
	unsigned long long timed_ns;
	struct gate_turn turn[GATE_TURNS];
};

struct gate_culprit {
	struct gate_who who;
	unsigned long long ns;
	/* Decides whether the culprit keeps its entry. The score is the culprit's recent time,
	 * halved with each second. The score of the entry's previous culprit is added. */
	unsigned long long score;
	unsigned long long second; /* second to which the score belongs */
};

struct gate_vcpu {
	unsigned int writes; /* odd while a program writes here */
	unsigned int id;     /* unique: no other vCPU ever gets this id */
	unsigned int tgid;
	enum gate_state state;
	unsigned long long first; /* time of the first event */
	unsigned long long since; /* begin of the state, or the instant up to which it is counted */
	/* Time in each state. The sum is `since` minus `first`. */
	unsigned long long spent[GATE_STATES];
	/* Number of times that the vCPU's thread had left a CPU, at its last seen switch.
	 * walked_switches is this number at the last walk over all tasks. If it is larger, a
	 * departure was missed. */
	unsigned long long switches;
	unsigned long long walked_switches;
	/* Last instant at which a walk confirmed the state. */
	unsigned long long confirmed;
	/* Parts of spent[GATE_WAITING]. These parts and the culprits' times add up to it. */
	unsigned long long idle_ns;	 /* the CPU idled, and no throttle was seen */
	unsigned long long throttled_ns; /* the CPU idled, and the thread was throttled */
	unsigned long long unsure_ns;	 /* the vCPU may have been throttled */
	unsigned long long unnamed_ns;	 /* tasks ran that are not among the culprits */
	/* The current wait. */
	unsigned long long waited; /* length of the wait before `since` */
	unsigned long long
	    throttles;		/* throttled time of the vCPU's groups at the begin of the wait */
	unsigned int waits_for; /* CPU for which it waits, or on which it fell asleep */
	enum gate_throttle throttle;
	unsigned int urgent;	/* whether the vCPU is real-time */
	unsigned int preempted; /* whether it was preempted on this CPU, so that later tasks came
				   during its wait */
	/* Number of finished waits by length. counts[i] has the waits longer than bounds[i - 1],
	 * and not longer than bounds[i]. */
	unsigned long long counts[LENGTH_BOUNDS];
	struct gate_culprit culprits[GATE_CULPRITS];
};

/* Settings that the programs get before they are loaded. */
struct gate_settings {
	unsigned long long bounds[LENGTH_BOUNDS]; /* bounds of the lengths of waits */
	unsigned long long told_from;	/* shortest wait or sleep in ns that is reported */
	unsigned long long pieces_each; /* number of pieces that each CPU keeps, a power of two */
};

/* A record for a part of one wait, or for a sleep. The records of a wait are adjacent, in reverse
 * order of time. */
struct gate_piece {
	unsigned long long from;
	unsigned long long until;
	struct gate_who who; /* set if a task had the CPU */
	unsigned int tid;    /* thread id of this task */
	unsigned int vcpu;   /* id of the vCPU that waited; 0 for a turn */
	unsigned int cpu;    /* CPU for which the vCPU waited, or on which it fell asleep */
	enum gate_lost lost;
};

/* A vCPU that the walk over all tasks found. */
struct gate_found {
	unsigned int place; /* index of the vCPU; 0: there is no room */
	unsigned int id;
	unsigned int tid;
	unsigned int tgid;
	unsigned int
	    number; /* of the vCPU in its VM, set with its place; ~0: KVM's types are unknown */
};

#endif

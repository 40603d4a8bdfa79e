/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Data that each CPU keeps for a run that stops at a limit, in maps that user space has mapped.
 * Times are CLOCK_MONOTONIC in ns; 0 means no entry. */
#ifndef VMNOISE_STOP_H
#define VMNOISE_STOP_H

/* Number of wake-ups that a CPU keeps. STOP_TURNS is the number of switches that it keeps. Both are
 * powers of two. */
#define STOP_STACKS 128
#define STOP_TURNS 512
#define STOP_FRAMES 30

/* The kernel's stack that the timer's interrupt of one wake-up interrupted. */
struct stop_stack {
	unsigned long long mono_ns; /* time at which the interrupt woke the task */
	unsigned long long frames;  /* number of valid frames */
	unsigned long long frame[STOP_FRAMES];
};

/* The last stacks of one CPU. Only this CPU writes them. */
struct stop_stacks {
	unsigned long long kept; /* number of stacks kept so far */
	unsigned long long tid;	 /* thread id of the task whose wake-ups are stored; 0: none */
	struct stop_stack last[STOP_STACKS];
};

/* One turn: a task that got the CPU, and the time at which it did. */
struct stop_turn {
	unsigned long long mono_ns;
	unsigned long long tid; /* 0 is the idle task */
	unsigned long long comm[2];
};

/* The last turns of one CPU. Only this CPU writes them. */
struct stop_turns {
	unsigned long long kept;
	unsigned long long padding;
	struct stop_turn last[STOP_TURNS];
};

#endif

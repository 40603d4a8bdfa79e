/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Data that each CPU keeps for a run that stops at a limit, in maps that user space has mapped.
 * Times are CLOCK_MONOTONIC in ns; 0: no entry. */
#ifndef VMNOISE_STOP_H
#define VMNOISE_STOP_H

/* How many of the last wake-ups, and of the last switches, a CPU keeps. Both are powers of two. */
#define STOP_STACKS 128
#define STOP_TURNS 512
#define STOP_FRAMES 30

/* The kernel's stack that the timer's interrupt of one wake-up found. */
struct stop_stack {
	unsigned long long mono_ns; /* when the interrupt woke the task */
	unsigned long long frames;  /* how many are valid */
	unsigned long long frame[STOP_FRAMES];
};

/* Written only by its CPU. */
struct stop_stacks {
	unsigned long long kept; /* number of stacks kept so far */
	unsigned long long tid;	 /* the task whose wake-ups these are; 0: none */
	struct stop_stack last[STOP_STACKS];
};

/* One turn: a task that got the CPU. */
struct stop_turn {
	unsigned long long mono_ns;
	unsigned long long tid; /* 0 is the idle task */
	unsigned long long comm[2];
};

/* Written only by its CPU. */
struct stop_turns {
	unsigned long long kept;
	unsigned long long padding;
	struct stop_turn last[STOP_TURNS];
};

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is kept of each CPU for a run that a limit stops, in maps that user space has mapped. Times
 * are CLOCK_MONOTONIC in ns; 0 is no entry. */
#ifndef VMNOISE_STOP_H
#define VMNOISE_STOP_H

/* Powers of two: how many of the last wake-ups, and of the last switches, a CPU keeps. */
#define STOP_STACKS 128
#define STOP_TURNS 512
#define STOP_FRAMES 30

/* What the timer's interrupt of one wake-up interrupted. */
struct stop_stack {
	unsigned long long mono_ns; /* when it woke the task */
	unsigned long long frames;  /* how many; all further ones are of no meaning */
	unsigned long long frame[STOP_FRAMES];
};

/* Written by its CPU alone. */
struct stop_stacks {
	unsigned long long kept; /* so far */
	unsigned long long tid;	 /* of the task whose wake-ups they are; 0: none */
	struct stop_stack last[STOP_STACKS];
};

/* A task that got the CPU. */
struct stop_turn {
	unsigned long long mono_ns;
	unsigned long long tid; /* 0 is the idle task */
	unsigned long long comm[2];
};

/* Written by its CPU alone. */
struct stop_turns {
	unsigned long long kept;
	unsigned long long padding;
	struct stop_turn last[STOP_TURNS];
};

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types that BPF programs and user space share in memory: the record of an activity, the state of
 * one CPU, and the live exit counters. The Rust types are generated from this file's BTF. */
#ifndef VMNOISE_H
#define VMNOISE_H

#include "kernel.bpf.h"

/* Length of a name in bytes. It has room for a comm (16), and for the longest name in
 * irq_vectors.bpf.h, call_function_single. */
#define VMNOISE_NAME_LEN 24
#define VMNOISE_IRQ_NESTING 8
/* One run in this number is timed. The number is odd: events come in pairs of begin and end, and an
 * odd number times both equally often. */
#define VMNOISE_TIMED_RUN 13

/* Numbers of vmnoise_events::ActivityKind. */
enum vmnoise_kind {
	VMNOISE_EXIT = 0,
	VMNOISE_VMM = 1,
	VMNOISE_THROTTLED = 2,
	VMNOISE_THREAD = 3,
	VMNOISE_BLOCKED = 4,
	VMNOISE_SOFTIRQ = 5,
	VMNOISE_IRQ = 6,
	VMNOISE_NMI = 7,
	VMNOISE_STOPPED = 8,
};

/* Meaning of `id` and `name` of a source. */
enum vmnoise_origin {
	VMNOISE_FROM_NOBODY = 0,  /* unknown */
	VMNOISE_FROM_TASK = 1,	  /* thread id and comm */
	VMNOISE_FROM_VECTOR = 2,  /* x86 vector, and its name in the tracepoint */
	VMNOISE_FROM_LINE = 3,	  /* interrupt line, and the name of its action */
	VMNOISE_FROM_SOFTIRQ = 4, /* number of the soft interrupt, no name */
	VMNOISE_FROM_NMI = 5,	  /* no id, no name */
	VMNOISE_FROM_VMEXIT = 6,  /* `isa` of kvm_exit, and the code of the reason; 0: unknown */
	VMNOISE_FROM_IDLE = 7,	  /* no id, no name: idle */
};

struct vmnoise_source {
	u32 id;
	u32 origin;
	char name[VMNOISE_NAME_LEN];
} __attribute__((aligned(8))); /* copied in whole words */

/* One complete interval. A lost record loses one whole interval. */
struct vmnoise_record {
	u64 start_mono_ns;
	u64 end_mono_ns;
	u64 steal_ns; /* increase of the CPU's steal clock in the interval */
	u32 cpu;
	u32 kind;
	struct vmnoise_source source;
};
_Static_assert(sizeof(struct vmnoise_record) == 64, "no padding, which would leave the kernel");

/* An instant: its CLOCK_MONOTONIC time, and the steal clock of the CPU at this time (0 if the clock
 * is not sampled). A stored instant with time 0 means that nothing is in progress. */
struct vmnoise_moment {
	u64 mono_ns;
	u64 steal_ns;
};

struct vmnoise_begin {
	struct vmnoise_moment start;
	struct vmnoise_source source;
};

/* Facts about at least one missed switch: a task leaves a CPU, and no event showed its arrival.
 * These times are from the scheduler's own accounting, in ns of CLOCK_MONOTONIC; 0 means
 * unknown. */
struct vmnoise_unseen {
	u64 left_ns;	 /* time at which the task left that came at the last event */
	u64 came_ns;	 /* arrival time of the task that leaves now */
	u32 beside_vcpu; /* the watched thread had no turn in between, except perhaps the one that
			    ends now */
};
/* Longest time in ns between a departure and the next arrival in one switch. The scheduler needs
 * this time to choose a task. */
#define VMNOISE_HANDOVER_NS 50000

/* How the events of a CPU are handled. */
enum vmnoise_mode {
	VMNOISE_OFF = 0,     /* ignored, because not all programs are attached yet */
	VMNOISE_TRACKED = 1, /* used only to find what woke a thread */
	VMNOISE_MEASURED = 2,
	VMNOISE_HELD = 3, /* the watched thread is stopped; measured again when it continues */
};

enum vmnoise_kvm_run {
	VMNOISE_RUN_UNKNOWN = 0,
	VMNOISE_RUN_INSIDE = 1,
	VMNOISE_RUN_OUTSIDE = 2,
};

/* Layout of vmnoise_events::InterferenceSlot. The polling thread of the CPU reads the total with
 * each reading of its clock. */
struct vmnoise_interference {
	u64 total;
	u64 nmi;
	u64 irq;
	u64 softirq;
	u64 thread;
	u64 reserved[11];
} __attribute__((aligned(128)));
_Static_assert(sizeof(struct vmnoise_interference) == 128, "one slot is two cache lines");

/* Layout of vmnoise_events::TimerSlot: times of the wake-up that a periodic task waits for. */
struct vmnoise_timer {
	u64 expiry_mono_ns;
	u64 armed_mono_ns;
	u64 irq_mono_ns;
	u64 waking_mono_ns;
	u64 switch_mono_ns;
	u64 before_steal_ns;
	u64 armed_steal_ns;
	u64 irq_steal_ns;
	u64 waking_steal_ns;
	u64 switch_steal_ns;
	u64 reserved[6];
} __attribute__((aligned(128)));
_Static_assert(sizeof(struct vmnoise_timer) == 128, "one slot is two cache lines");

/* Address from which an SVM exit code is read. It is valid for this kvm_vcpu, as long as the vCPU
 * has made more exits than when the address was found. It is also valid only in this mode (hflags),
 * because a nested guest has its own VMCB. */
struct vmnoise_vmcb {
	u64 place;
	u64 kvm_vcpu;
	u64 exits;
	u32 hflags;
	u32 reserved;
};

/* State of one CPU between two events. All times are CLOCK_MONOTONIC in ns; 0 means none. */
struct vmnoise_cpu {
	struct vmnoise_interference interference;
	struct vmnoise_timer timer;

	/* Written by user space. A stop of the watched thread also changes the mode. */
	u32 mode;
	u32 vcpu_tid;
	u32 observed; /* report only what the thread loses while it runs or waits on this CPU */

	/* Interrupts in progress, the innermost last. Then the softirq in progress. */
	u32 irq_depth;
	u32 irq_seen;
	struct vmnoise_begin irqs[VMNOISE_IRQ_NESTING];
	struct vmnoise_begin softirq;
	u32 softirq_seen;
	u32 softirq_preemptible; /* written by user space: the kernel is PREEMPT_RT */
	u32 softirq_tid;	 /* task that was preempted in the softirq */

	/* The running task, and the begin of its turn if the task is not the vCPU's thread. */
	u32 vcpu_was_runnable;
	u32 running_tid;
	u64 switched_ns;  /* time of the last seen switch */
	u64 running_task; /* address of the task that came in this switch */
	struct vmnoise_moment thread_start;
	struct vmnoise_moment idle_start;
	u64 thread_end_ns;
	struct vmnoise_moment vcpu_off;
	u64 vcpu_task;	/* address of the vCPU thread's task_struct when the thread last left */
	u64 vcpu_turns; /* number of the thread's turns before this departure */
	struct vmnoise_begin wake;

	/* The task that came at the last switch. Its name is needed for an observed thread, and
	 * after a switch that fired no event. */
	struct vmnoise_source running;

	/* For an observed thread: when it came to this CPU, and the total time and steal time of
	 * its earlier stays. */
	struct vmnoise_moment here;
	u64 here_ns;
	u64 here_steal_ns;

	/* Place of the vCPU's thread in the life cycle of an exit. */
	struct vmnoise_moment run_left;
	struct vmnoise_moment exit_start;
	struct vmnoise_moment first_host;
	u64 nmi_until; /* end of the last NMI, if the host has only had NMIs since first_host; else
			  0 */
	u32 kvm_run;
	u32 guest_entered;
	u32 left_since_exit;
	u32 exits_fire;

	/* Reason of the last exit, and the address from which the reason is read. */
	u64 exit_code;
	u32 exit_isa;
	struct vmnoise_vmcb vmcb;

	/* Addresses of this CPU's run queue and of its steal clock, which is found by the run
	 * queue. User space writes steal_clock if every measured CPU has a steal clock. 0 means
	 * that the clock is not sampled. */
	u64 run_queue;
	u64 steal_clock;
	u32 xen_clock; /* the clock is a struct vcpu_runstate_info, not a struct kvm_steal_time */

	/* Address of the timer that a periodic task waits for. */
	u64 timer_address;

	/* Results of the program read_own_steal. */
	u64 own_steal_ns;
	u32 own_version;

	/* Cost of the programs on this CPU. One run in VMNOISE_TIMED_RUN is timed. It represents
	 * itself and the untimed runs that follow it. So the number of runs so far is runs -
	 * until_timed. */
	u64 runs;
	u64 timed_runs;
	u64 timed_ns;
	u64 until_timed;

	/* Losses. */
	u64 ring_full;
	u64 unpaired;
} __attribute__((aligned(128))); /* no two CPUs share a cache line, or a prefetched pair of lines */

/* Layout of vmnoise_events::exit_counts. The guest has this memory mapped. */
struct vmnoise_exits {
	u64 light;
	u64 heavy;
	u64 reserved[14];
};
_Static_assert(sizeof(struct vmnoise_exits) == 128, "one slot is two cache lines");

/* A request for the steal clock of a CPU, and the answer. */
struct vmnoise_steal {
	u64 clock_minus_run_queue; /* offset between the two per-CPU variables, modulo 2^64 */
	u64 steal_ns;
	u64 tick_steal_ns;
	u32 cpu;
	u16 xen;   /* as xen_clock of struct vmnoise_cpu */
	u16 alive; /* whether a hypervisor writes this clock */
};

#endif

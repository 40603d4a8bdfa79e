/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What BPF programs and user space share in memory: the wire record, the state of one CPU, and the
 * live exit counters. The Rust side is generated from this file's BTF. */
#ifndef VMNOISE_H
#define VMNOISE_H

/* Holds a comm (16) and the longest word of irq_vectors, call_function_single. */
#define VMNOISE_NAME_LEN 24
#define VMNOISE_IRQ_NESTING 8
/* Begins and ends come in turn: an odd number times both alike. */
#define VMNOISE_TIMED_RUN 13

/* The numbers of vmnoise_events::ActivityKind. */
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

/* What `id` and `name` of a source mean. */
enum vmnoise_origin {
	VMNOISE_FROM_NOBODY = 0,  /* no witness */
	VMNOISE_FROM_TASK = 1,	  /* thread id and comm */
	VMNOISE_FROM_VECTOR = 2,  /* x86 vector and the tracepoint's word for it */
	VMNOISE_FROM_LINE = 3,	  /* interrupt line and its action's name */
	VMNOISE_FROM_SOFTIRQ = 4, /* softirq number, no name */
	VMNOISE_FROM_NMI = 5,	  /* neither */
	VMNOISE_FROM_VMEXIT = 6,  /* `isa` of kvm_exit, and the code of the reason; 0: not told */
	VMNOISE_FROM_IDLE = 7,	  /* neither: nobody ran */
};

struct vmnoise_source {
	u32 id;
	u32 origin;
	char name[VMNOISE_NAME_LEN];
} __attribute__((aligned(8))); /* copied by whole words */

/* One completed interval. A lost record loses one interval and never a pairing. */
struct vmnoise_record {
	u64 start_mono_ns;
	u64 end_mono_ns;
	u64 steal_ns; /* how far the CPU's steal clock advanced meanwhile */
	u32 cpu;
	u32 kind;
	struct vmnoise_source source;
};
_Static_assert(sizeof(struct vmnoise_record) == 64, "no padding, which would leave the kernel");

/* An instant of CLOCK_MONOTONIC, and what the steal clock of the CPU in question says then: 0 where
 * it is not sampled. Where one is remembered, a time of 0 is "nothing is open". */
struct vmnoise_moment {
	u64 mono_ns;
	u64 steal_ns;
};

struct vmnoise_begin {
	struct vmnoise_moment start;
	struct vmnoise_source source;
};

/* A task leaves that no event told to have come: switches are missing between the last one and
 * this. What the scheduler's own books say of them; times are CLOCK_MONOTONIC in ns, 0 is unknown.
 */
struct vmnoise_unseen {
	u64 left_ns;	 /* when the task left that the last event told to come */
	u64 came_ns;	 /* when the task came that leaves now */
	u32 beside_vcpu; /* whether the watched thread has not run meanwhile, but as that task */
};
/* Within this much after one has left, the next one comes: looking for one takes time. */
#define VMNOISE_HANDOVER_NS 50000

/* How much a CPU's events matter. */
enum vmnoise_mode {
	VMNOISE_OFF = 0,     /* not attached completely yet: ignore */
	VMNOISE_TRACKED = 1, /* only what tells who a waker was */
	VMNOISE_MEASURED = 2,
	VMNOISE_HELD = 3, /* measured, once the watched thread is let go: it was stopped */
};

enum vmnoise_kvm_run {
	VMNOISE_RUN_UNKNOWN = 0,
	VMNOISE_RUN_INSIDE = 1,
	VMNOISE_RUN_OUTSIDE = 2,
};

/* The layout of vmnoise_events::InterferenceSlot. The polling thread of the CPU looks at the total
 * with each reading of its clock. */
struct vmnoise_interference {
	u64 total;
	u64 nmi;
	u64 irq;
	u64 softirq;
	u64 thread;
	u64 reserved[11];
} __attribute__((aligned(128)));
_Static_assert(sizeof(struct vmnoise_interference) == 128, "one slot is two cache lines");

/* The layout of vmnoise_events::TimerSlot: the wake-up that a periodic task waits for. */
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

/* Where SVM's codes are read, and for which vCPU: of this kvm_vcpu, which had made this many exits
 * when it was found, in this mode (nested guests have a VMCB of their own). */
struct vmnoise_vmcb {
	u64 place;
	u64 kvm_vcpu;
	u64 exits;
	u32 hflags;
	u32 reserved;
};

/* Everything remembered about one CPU between two events. All times are CLOCK_MONOTONIC in ns,
 * and 0 is "not so". */
struct vmnoise_cpu {
	struct vmnoise_interference interference;
	struct vmnoise_timer timer;

	/* Written by user space; the mode by a stop of the watched thread, too. */
	u32 mode;
	u32 vcpu_tid;
	u32 observed; /* only what is taken from the thread while it is here matters */

	/* Interrupts in progress, innermost last, and the softirq under or over them. */
	u32 irq_depth;
	u32 irq_seen;
	struct vmnoise_begin irqs[VMNOISE_IRQ_NESTING];
	struct vmnoise_begin softirq;
	u32 softirq_seen;

	/* Who runs, and since when if not the vCPU thread. */
	u32 vcpu_was_runnable;
	u32 running_tid;
	u64 switched_ns;  /* the last switch that was seen */
	u64 running_task; /* address of the task that came then */
	struct vmnoise_moment thread_start;
	struct vmnoise_moment idle_start;
	u64 thread_end_ns;
	struct vmnoise_moment vcpu_off;
	u64 vcpu_task;	/* address of the task that left then */
	u64 vcpu_turns; /* how often it had been switched to */
	struct vmnoise_begin wake;

	/* Who came at the last switch: its name is told of an observed thread, and where a switch
	 * was not seen. */
	struct vmnoise_source running;

	/* Of an observed thread: since when it runs or waits on this CPU, and the sums over its
	 * earlier stays. */
	struct vmnoise_moment here;
	u64 here_ns;
	u64 here_steal_ns;

	/* Where the vCPU thread is in KVM. */
	struct vmnoise_moment run_left;
	struct vmnoise_moment exit_start;
	struct vmnoise_moment first_host;
	u64 nmi_until; /* as long as that is NMIs alone: the end of the last one */
	u32 kvm_run;
	u32 guest_entered;
	u32 left_since_exit;
	u32 exits_fire;

	/* Why it left its guest last, and where that is read. */
	u64 exit_code;
	u32 exit_isa;
	struct vmnoise_vmcb vmcb;

	/* Address of this CPU's run queue, from which its steal clock is found; and of that clock,
	 * written by user space where every measured CPU has one: 0 is not to sample it. */
	u64 run_queue;
	u64 steal_clock;
	u32 xen_clock; /* that clock is a struct vcpu_runstate_info, else a struct kvm_steal_time */

	/* Address of the timer that a periodic task waits for. */
	u64 timer_address;

	/* The answer of read_own_steal. */
	u64 own_steal_ns;
	u32 own_version;

	/* What the programs cost here: one run in VMNOISE_TIMED_RUN is timed, and counts itself and
	 * those until the next: less the ones still to come, all runs. */
	u64 runs;
	u64 timed_runs;
	u64 timed_ns;
	u64 until_timed;

	/* Losses. */
	u64 ring_full;
	u64 unpaired;
}
__attribute__((aligned(128))); /* neighbouring CPUs share no cache line, nor its prefetched twin */

/* The layout of vmnoise_events::exit_counts, mapped into the guest as it is. */
struct vmnoise_exits {
	u64 light;
	u64 heavy;
	u64 reserved[14];
};
_Static_assert(sizeof(struct vmnoise_exits) == 128, "one slot is two cache lines");

/* Asks for the steal clock of a CPU and answers with it. */
struct vmnoise_steal {
	u64 clock_minus_run_queue; /* offset between the two per-CPU variables, modulo 2^64 */
	u64 steal_ns;
	u64 tick_steal_ns;
	u32 cpu;
	u16 xen;   /* as xen_clock */
	u16 alive; /* a hypervisor writes it */
};

#endif

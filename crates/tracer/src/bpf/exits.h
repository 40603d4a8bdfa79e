/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types that the programs of `vmnoise exits` and user space share in memory. The Rust types are
 * generated from this file's BTF. All times are in ns. Instants are CLOCK_MONOTONIC; 0 means
 * none. */
#ifndef VMNOISE_EXITS_H
#define VMNOISE_EXITS_H

#include "kernel.bpf.h"
#include "vmnoise.h"

/* Number of reasons for which each vCPU has sums. The last one has the sum of all other codes. */
#define EXITS_REASONS 40
/* Number of buckets of a histogram. There are four buckets for each power of two. */
#define EXITS_BUCKETS 128
/* Number of interruptions of an exit that are kept. Each one is stored with the time that had been
 * taken until its end. This separates the time before a halt from the time in the halt. */
#define EXITS_INTERRUPTIONS 8
/* Largest number of nested interrupts on one CPU. Nesting is rare. */
#define EXITS_NESTING 4

/* One run in this number is timed, if `timed` is set. It is a prime, so that programs that run in a
 * fixed order are all timed. */
#define EXITS_TIMED_RUN 251

/* Work of the host on one CPU. Each part excludes the time of the work that interrupted it. */
struct exits_work {
	u64 irq_ns;
	u64 softirq_ns;
	u64 nmi_ns;
	u64 idle_ns;
};

/* Time of an exit by its owner. The rest of the exit is KVM's own time. */
struct exits_split {
	u64 vmm_ns;
	u64 preempted_ns;
	u64 blocked_ns;
	u64 throttled_ns;
	u64 host_irq_ns;
	u64 host_softirq_ns;
	u64 host_nmi_ns;
	u64 halted_ns;
};

/* An interrupt in progress. */
struct exits_begin {
	u64 start;
	u64 taken; /* sum of the work that can interrupt this interrupt, at its begin */
	struct vmnoise_source source;
};

/* One CPU: the host's work on this CPU so far, and the thread that is current on it. */
struct exits_cpu {
	struct exits_work done;
	u32 vcpu; /* index in `vcpus`; 0: no vCPU */
	u32 irq_depth;
	u32 irq_seen; /* a begin was seen: from now on, an end without a begin is a loss */
	u32 softirq_seen;
	u32 softirq;
	u32 softirqs_cut; /* number of softirqs that switches cut under PREEMPT_RT, and that have
			     not ended yet */
	u64 softirq_start;
	u64 softirq_taken;
	u64 idle_start;
	u64 idle_taken;
	u64 done_until; /* end of the last work, except idle time */
	u64 unbooked;	/* not 0: interrupt work was done and is not yet charged to the vCPU here */
	u32 hosts;	/* a vCPU has been here at least once */
	u32 runs;	/* number of program runs, if they are timed */
	u32 reserved[4];

	/* Interrupts in progress, the outermost first. Names are set only if streaming. */
	struct exits_begin irqs[EXITS_NESTING];

	/* The running task, and the time at which it got the CPU; 0: unknown. */
	u64 running_since;
	u64 running_task;
	u32 running_tid;
	u32 waiting;  /* number of vCPUs that wait for this CPU; set only if streaming */
	u64 timed_ns; /* time of the runs that were timed */
	/* CLOCK_MONOTONIC minus the run queue's clock, at the last switch; 0: unknown. */
	u64 clock_ahead;
	u64 looked_at; /* time of the last wake-up or move of a vCPU whose program read the work of
			  this CPU */
	u64 more_reserved[2];
};
_Static_assert(sizeof(struct exits_cpu) == 384, "pairs of cache lines: no two CPUs share one");

/* A switch that fired no event. 0 means unknown. */
struct exits_hidden {
	struct vmnoise_source left; /* the task that left */
	u64 left_ns;		    /* time at which the task in `left` left */
	u64 came_ns;		    /* time at which the task `tid` came */
	u32 tid;		    /* the task that came */
	u32 reserved;
};

/* Exits of one vCPU for one reason. */
struct exits_reason {
	u64 count;
	u64 heavy;
	u64 total_ns;
	u64 min_ns;
	u64 max_ns;
	struct exits_split split;
	u32 buckets[EXITS_BUCKETS];
};

/* One complete exit. */
struct exits_exit {
	u64 start_mono_ns;
	u64 end_mono_ns;
	u64 code;
	struct exits_split split;
	u32 exit_cpu;
	u32 entry_cpu;
	u32 heavy;
	u32 reserved;
};

/* One time outside KVM_RUN, which is the VMM's time. */
struct exits_stay {
	u64 left_mono_ns;
	u64 entered_mono_ns;
	u32 left_cpu;
	u32 entered_cpu;
};

/* Sleeping time of an exit, and the host's work during the sleep. */
struct exits_slept {
	u64 blocked_ns;
	struct exits_work work;
};

/* Time that had been taken from an exit at the end of an interruption, and the sleeping part of
 * this time. */
struct exits_taken_by {
	u64 mono_ns;
	u64 taken;
	struct exits_slept slept;
};

/* One vCPU. This state stays with the vCPU when the vCPU moves to another CPU. */
struct exits_vcpu {
	/* Identity. */
	u32 tid;
	u32 tgid;
	u32 id;	 /* ~0 if no event has shown the id */
	u32 isa; /* of kvm_exit: 1 VMX, 2 SVM; 0 before the first exit */
	u64 vm;	 /* distinguishes the VMs of one process */
	u64 kvm_vcpu;
	u64 exits; /* number of exits of this kvm_vcpu at its last entry from user space */

	/* The vCPU's place in the life cycle of an exit. */
	u32 entered;
	u32 in_exit;
	struct vmnoise_vmcb vmcb;
	u64 first_host; /* begin of the first work of the host since the guest was entered */
	u64 nmi_until;	/* end of the last NMI, if the host has only had NMIs since first_host; else
			   0 */
	u64 left;	/* time at which KVM_RUN was left */
	u64 taken_at_left; /* value of `taken` at `left` */
	u64 taken;
	struct exits_work mark; /* the work of `cpu` that is already charged */

	/* The current time of the thread off the CPU. */
	u64 off_start;
	u64 wake;
	struct exits_work wake_mark;
	u32 cpu; /* CPU on which the thread was last current */
	u32 off_runnable;

	/* KVM reports a halt at its end. The halt began after `taken` had the value taken_before,
	 * and its begin is found by the interruptions in `by`. Sleeps since then may be part of the
	 * halt. */
	u64 taken_before;
	struct exits_slept slept;
	struct exits_taken_by by[EXITS_INTERRUPTIONS];
	u32 interruptions;

	/* If a switch of the thread was not seen, the state of the vCPU is unknown for some
	 * time. */
	u32 unseen;	      /* the state is unknown now */
	u64 lost_mono_ns;     /* begin of the current or last unknown time */
	u64 regained_mono_ns; /* end of the last unknown time */

	struct exits_exit now;

	/* Totals. */
	u64 first_mono_ns;
	u64 last_mono_ns;
	u64 inside_run_ns; /* time taken inside KVM_RUN, outside any exit that was seen */
	struct exits_split inside_run;
	u64 unseen_ns;
	u64 worst_noise_ns;
	struct exits_exit worst; /* the exit with the most noise, which excludes its halts */

	/* Set only if streaming. */
	struct vmnoise_source waker;
	struct exits_stay vmm; /* the last time in the VMM during this exit */
	u32 off_cpu;	       /* CPU on which the thread was switched out */
	u32 waits;	       /* whether the vCPU is counted in `waiting` of its CPU */
};

/* Numbers of vmnoise_events::VcpuIntervalKind. */
enum exits_interval_kind {
	EXITS_VMM = 0,
	EXITS_WAITING = 1,
	EXITS_BLOCKED = 2,
	EXITS_HALTED = 3,
};

/* Records of the ring in addition to struct vmnoise_record. User space identifies the type of a
 * record by its size. In an interval, `what.kind` is an exits_interval_kind, and `what.source` is
 * the task or interrupt that woke the thread. Time that is in both a halt and a wait counts as
 * wait. Time that is in both a halt and blocked time counts as halt. */
struct exits_interval {
	struct vmnoise_record what;
	u32 vcpu; /* index in `vcpus` */
	u32 to_cpu;
};
_Static_assert(sizeof(struct exits_interval) == 72, "no padding, which would leave the kernel");

/* An exit that is reported. Most exits to the VMM have only one time in the VMM, and so need no
 * other record. */
struct exits_told {
	u32 vcpu; /* index in `vcpus` */
	u32 isa;
	struct exits_exit exit;
	struct exits_stay vmm;
};
_Static_assert(sizeof(struct exits_told) == 136, "no padding, which would leave the kernel");

/* A write of a vCPU's TSC offset, as KVM reports it. */
struct exits_tsc_write {
	u64 mono_ns;
	u64 previous_tsc;
	u64 next_tsc;
	u32 tgid;
	u32 vcpu; /* number of the vCPU in its VM */
};
_Static_assert(sizeof(struct exits_tsc_write) == 32, "no padding, which would leave the kernel");

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs of `vmnoise exits` and user space share in memory. The Rust side is generated
 * from this file's BTF. All times are in ns; instants are of CLOCK_MONOTONIC, and 0 is "not so". */
#ifndef VMNOISE_EXITS_H
#define VMNOISE_EXITS_H

#include "vmnoise.h"

/* Reasons kept apart for each vCPU; the last one takes all further codes. */
#define EXITS_REASONS 40
/* Buckets of a histogram: four for each power of two. */
#define EXITS_BUCKETS 128
/* The last interruptions of an exit, of which is kept what had been taken when they were over: so
 * that what came before a halt is told from what fell into it. */
#define EXITS_INTERRUPTIONS 8
/* Interrupts in progress on one CPU, at most: one in the handler of another is rare. */
#define EXITS_NESTING 4

/* One run in so many is timed, if any is. A prime: what runs by turns gets its turn each. */
#define EXITS_TIMED_RUN 251

/* Host work on one CPU, each net of what interrupted it. */
struct exits_work {
	u64 irq_ns;
	u64 softirq_ns;
	u64 nmi_ns;
	u64 idle_ns;
};

/* Where the time of an exit went. What is not here is KVM's own. */
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
	u64 taken; /* what interrupts the interrupt, at its begin */
	struct vmnoise_source source;
};

/* One CPU: what the host did on it so far, and whose thread is current there. */
struct exits_cpu {
	struct exits_work done;
	u32 vcpu; /* index in `vcpus`; 0 is no vCPU */
	u32 irq_depth;
	u32 irq_seen; /* a begin, and so the end of whatever begins */
	u32 softirq_seen;
	u32 softirq;
	u32 softirqs_cut; /* by switches of PREEMPT_RT, after which nobody told their ends */
	u64 softirq_start;
	u64 softirq_taken;
	u64 idle_start;
	u64 idle_taken;
	u64 done_until; /* the end of the last of it, idle not counted */
	u64 unbooked;	/* interrupt work was done that the vCPU here was not told of */
	u32 hosts;	/* a vCPU ever was here */
	u32 runs;	/* of the programs, where they time themselves */
	u32 reserved[4];

	/* The outermost one first. Their names only where they are told one by one. */
	struct exits_begin irqs[EXITS_NESTING];

	/* Who runs, and since when; 0 is not known. */
	u64 running_since;
	u64 running_task;
	u32 running_tid;
	u32 waiting;  /* the same: how many vCPUs wait for this CPU */
	u64 timed_ns; /* how long the runs took that were timed */
	/* CLOCK_MONOTONIC minus the run queue's clock at the last switch. */
	u64 clock_ahead;
	u64 looked_at; /* when another CPU last read what was done here */
	u64 more_reserved[2];
};
_Static_assert(sizeof(struct exits_cpu) == 384, "pairs of cache lines: no two CPUs share one");

/* A switch that fired no event: the task that left and the end of its turn, the task that came and
 * the begin of its turn. 0 is not known. */
struct exits_hidden {
	struct vmnoise_source left;
	u64 left_ns;
	u64 came_ns;
	u32 tid;
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

/* One exit, whole. */
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

/* One stay outside KVM_RUN: the VMM's time. */
struct exits_stay {
	u64 left_mono_ns;
	u64 entered_mono_ns;
	u32 left_cpu;
	u32 entered_cpu;
};

/* What sleeps took of an exit, with the host work in them. */
struct exits_slept {
	u64 blocked_ns;
	struct exits_work work;
};

/* What had been taken from an exit by the end of an interruption, and what of it by sleeps. */
struct exits_taken_by {
	u64 mono_ns;
	u64 taken;
	struct exits_slept slept;
};

/* One vCPU. Its state follows it from CPU to CPU. */
struct exits_vcpu {
	/* Who it is. */
	u32 tid;
	u32 tgid;
	u32 id;	 /* ~0 where no event named it */
	u32 isa; /* of kvm_exit: 1 VMX, 2 SVM; 0 before the first */
	u64 vm;	 /* tells the VMs of one process apart */
	u64 kvm_vcpu;
	u64 exits; /* that this kvm_vcpu had made when it came from user space last */

	/* Where it is. */
	u32 entered;
	u32 in_exit;
	struct vmnoise_vmcb vmcb;
	u64 first_host;	   /* the first host work since it entered */
	u64 nmi_until;	   /* as long as that is NMIs alone: the end of the last one */
	u64 left;	   /* KVM_RUN left */
	u64 taken_at_left; /* what had been taken from the exit by then */
	u64 taken;
	struct exits_work mark; /* host work booked so far, of `cpu` */

	/* Off the CPU. */
	u64 off_start;
	u64 wake;
	struct exits_work wake_mark;
	u32 cpu; /* where it was last current */
	u32 off_runnable;

	/* A halt is told when it is over: its begin lies somewhere after this much was taken, and
	 * among so many interruptions since. Sleeps since may be its own. */
	u64 taken_before;
	struct exits_slept slept;
	struct exits_taken_by by[EXITS_INTERRUPTIONS];
	u32 interruptions;

	/* Where a switch of its thread was not seen, nobody knows what it was about. */
	u32 unseen;	      /* now */
	u64 lost_mono_ns;     /* since then, or the last time */
	u64 regained_mono_ns; /* until then the last time */

	struct exits_exit now;

	/* Totals. */
	u64 first_mono_ns;
	u64 last_mono_ns;
	u64 inside_run_ns; /* taken inside KVM_RUN, where no exit is seen that it belongs to */
	struct exits_split inside_run;
	u64 unseen_ns;
	u64 worst_noise_ns;
	struct exits_exit worst; /* the longest, halts not counted */

	/* Only where it is told one by one. */
	struct vmnoise_source waker;
	struct exits_stay vmm; /* the last one of this exit */
	u32 off_cpu;	       /* from which it was switched out */
	u32 waits;	       /* it counts among those that wait on its CPU */
};

/* The numbers of vmnoise_events::VcpuIntervalKind. */
enum exits_interval_kind {
	EXITS_VMM = 0,
	EXITS_WAITING = 1,
	EXITS_BLOCKED = 2,
	EXITS_HALTED = 3,
};

/* What the ring carries beside struct vmnoise_record; each is known by its size. Of an interval,
 * `what.kind` is an exits_interval_kind, and `what.source` who woke it. What a halt covers of
 * waiting is waiting's, and what it covers of blocked is the halt's. */
struct exits_interval {
	struct vmnoise_record what;
	u32 vcpu; /* index in `vcpus` */
	u32 to_cpu;
};
_Static_assert(sizeof(struct exits_interval) == 72, "no padding, which would leave the kernel");

/* Most exits to the VMM hold one stay there, and need no other record. */
struct exits_told {
	u32 vcpu; /* index in `vcpus` */
	u32 isa;
	struct exits_exit exit;
	struct exits_stay vmm;
};
_Static_assert(sizeof(struct exits_told) == 136, "no padding, which would leave the kernel");

/* A write of a vCPU's TSC offset, as KVM tells it. */
struct exits_tsc_write {
	u64 mono_ns;
	u64 previous_tsc;
	u64 next_tsc;
	u32 tgid;
	u32 vcpu; /* number in its VM */
};
_Static_assert(sizeof(struct exits_tsc_write) == 32, "no padding, which would leave the kernel");

#endif

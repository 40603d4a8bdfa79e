/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds and reads the steal clock of this machine. Without KALLSYMS_ALL, kallsyms has no address of
 * the per-CPU variables `steal_time` (KVM) and `xen_runstate`. But BTF has their distance from
 * `runqueues`, and each task has the address of its run queue. The file that includes this file
 * must first define two names. These are `steal_cpu`, a type with a CPU's run queue, and the map
 * `cpus`. */
#ifndef VMNOISE_STEAL_CLOCK_BPF_H
#define VMNOISE_STEAL_CLOCK_BPF_H

#include "kernel.bpf.h"
#include "vmnoise.h"

/* Returns the time that the hypervisor has taken so far, in ns. A single aligned word needs no
 * version protocol. KVM writes its word as a whole, and only while the word's vCPU does not run
 * (record_steal_time of arch/x86/kvm/x86.c). So no reader gets half a word, and the vCPU itself
 * never gets an old word. Xen does the same (update_runstate_area of its xen/common/domain.c). Its
 * two words never decrease, so their sum lies between the sums before and after an update.
 * xen_steal_clock (drivers/xen/time.c) uses the same sum. */
static __always_inline u64 stolen_ns(const void *clock, bool xen)
{
	const struct vcpu_runstate_info *runstate = clock;
	const struct kvm_steal_time *steal = clock;
	u64 steal_ns = 0, offline_ns = 0;

	if (!xen) {
		bpf_probe_read_kernel(&steal_ns, sizeof(steal_ns), &steal->steal);
		return steal_ns;
	}
	bpf_probe_read_kernel(&steal_ns, sizeof(steal_ns), &runstate->time[XEN_RUNNABLE]);
	bpf_probe_read_kernel(&offline_ns, sizeof(offline_ns), &runstate->time[XEN_OFFLINE]);
	return steal_ns + offline_ns;
}

/* Finds the run queue of every CPU in one walk over all tasks. Each CPU has threads that are pinned
 * to it. */
SEC("iter/task")
int find_run_queues(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	steal_cpu *state;
	struct rq *run_queue;
	u32 cpu;

	/* The field exists only with CONFIG_FAIR_GROUP_SCHED. */
	if (!task || !bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	run_queue = BPF_CORE_READ(task, se.cfs_rq, rq);
	if (!run_queue || bpf_core_read(&cpu, sizeof(cpu), &run_queue->cpu))
		return 0;
	state = bpf_map_lookup_elem(&cpus, &cpu);
	if (state)
		state->run_queue = (u64)run_queue;
	return 0;
}

/* Returns whether a hypervisor writes this clock. KVM increases `version` with every update. Xen
 * stores when the vCPU entered its state. 0 means that no hypervisor writes the variable. */
static __always_inline bool is_written(const void *clock, bool xen)
{
	const struct vcpu_runstate_info *runstate = clock;
	const struct kvm_steal_time *steal = clock;
	u64 entry_time = 0;
	u32 version = 0;

	if (xen)
		bpf_probe_read_kernel(&entry_time, sizeof(entry_time), &runstate->state_entry_time);
	else
		bpf_probe_read_kernel(&version, sizeof(version), &steal->version);
	return entry_time || version;
}

SEC("syscall")
int read_steal(struct vmnoise_steal *ask)
{
	u32 cpu = ask->cpu;
	steal_cpu *state = bpf_map_lookup_elem(&cpus, &cpu);
	u64 tick_steal_ns = 0;
	struct rq *run_queue;
	void *clock;

	if (!state || !state->run_queue)
		return 1;
	run_queue = (struct rq *)state->run_queue;
	if (ask->clock_minus_run_queue) {
		clock = (void *)run_queue + ask->clock_minus_run_queue;
		ask->steal_ns = stolen_ns(clock, ask->xen);
		ask->alive = is_written(clock, ask->xen);
	}
	if (bpf_core_field_exists(run_queue->prev_steal_time))
		bpf_core_read(&tick_steal_ns, sizeof(tick_steal_ns), &run_queue->prev_steal_time);
	ask->tick_steal_ns = tick_steal_ns;
	return 0;
}

#endif

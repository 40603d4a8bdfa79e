/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The steal clock of this machine itself, read at any instant from any CPU. The per-CPU variables
 * `steal_time` (of KVM) and `xen_runstate` have no address in kallsyms without KALLSYMS_ALL, but
 * BTF knows how far they lie from `runqueues`, and a task knows its run queue. */
#ifndef VMNOISE_STEAL_BPF_H
#define VMNOISE_STEAL_BPF_H

/* What the hypervisor took, at this instant. Aligned words need no version protocol: KVM writes its
 * one whole, and only while the vCPU it belongs to does not run (record_steal_time of
 * arch/x86/kvm/x86.c), so nobody sees half of it, and on its own CPU nobody sees it late. So does
 * Xen (update_runstate_area of its xen/common/domain.c); of its two words that only grow, the sum
 * is never less than before nor more than after. The sum is that of xen_steal_clock
 * (drivers/xen/time.c). */
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

/* This instant on a CPU. */
static __always_inline struct vmnoise_moment now_on(const struct vmnoise_cpu *state)
{
	struct vmnoise_moment now;

	now.mono_ns = bpf_ktime_get_ns();
	now.steal_ns = 0;
	if (state->steal_clock)
		now.steal_ns = stolen_ns((void *)state->steal_clock, state->xen_clock);
	return now;
}

/* One pass over all tasks finds every run queue: each CPU has threads pinned to it. */
SEC("iter/task")
int find_run_queues(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct vmnoise_cpu *state;
	struct rq *run_queue;
	u32 cpu;

	/* The field is not there without CONFIG_FAIR_GROUP_SCHED. */
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

/* KVM raises `version` with every update, and Xen tells since when the vCPU is in its state: 0 is a
 * variable that nobody writes. */
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
	struct vmnoise_cpu *state = bpf_map_lookup_elem(&cpus, &cpu);
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

/* The steal clock of the CPU this runs on, left in its slot; tells which CPU that is. Of KVM these
 * are two words, so its version protocol: odd or moved since, the vCPU was away between them.
 * Preemption is off, and each try again needs another loss of the CPU, so a few suffice. */
SEC("raw_tp")
int read_own_steal(void *ctx)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct vmnoise_cpu *state = bpf_map_lookup_elem(&cpus, &cpu);
	struct kvm_steal_time steal = {};
	const struct kvm_steal_time *clock;
	u32 version, i;

	if (!state || !state->steal_clock)
		return -1;
	if (state->xen_clock) {
		state->own_steal_ns = stolen_ns((void *)state->steal_clock, 1);
		return cpu;
	}
	clock = (void *)state->steal_clock;
	for (i = 0; i < 4; i++) {
		bpf_probe_read_kernel(&version, sizeof(version), &clock->version);
		bpf_probe_read_kernel(&steal, sizeof(steal), clock);
		if (steal.version != version || version & 1)
			continue;
		state->own_steal_ns = steal.steal;
		state->own_version = version;
		return cpu;
	}
	return -1;
}

#endif

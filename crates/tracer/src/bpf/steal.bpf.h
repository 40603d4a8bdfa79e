/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The steal clock of this machine itself, read at any instant from any CPU. The per-CPU variable
 * `steal_time` has no address in kallsyms without KALLSYMS_ALL, but BTF knows how far it lies from
 * `runqueues`, and a task knows its run queue. */
#ifndef VMNOISE_STEAL_BPF_H
#define VMNOISE_STEAL_BPF_H

/* This instant on a CPU. One aligned word needs no version protocol: KVM writes it whole, and only
 * while the vCPU it belongs to does not run (record_steal_time of arch/x86/kvm/x86.c), so nobody
 * sees half of it, and on its own CPU nobody sees it late. */
static __always_inline struct vmnoise_moment now_on(u32 cpu)
{
	struct vmnoise_cpu *state = bpf_map_lookup_elem(&cpus, &cpu);
	struct vmnoise_moment now;

	now.mono_ns = bpf_ktime_get_ns();
	now.steal_ns = 0;
	if (state && state->steal_clock)
		bpf_probe_read_kernel(&now.steal_ns, sizeof(now.steal_ns),
				      (void *)state->steal_clock);
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

	if (!task)
		return 0;
	run_queue = BPF_CORE_READ(task, se.cfs_rq, rq);
	if (!run_queue || bpf_core_read(&cpu, sizeof(cpu), &run_queue->cpu))
		return 0;
	state = bpf_map_lookup_elem(&cpus, &cpu);
	if (state)
		state->run_queue = (u64)run_queue;
	return 0;
}

SEC("syscall")
int read_steal(struct vmnoise_steal *ask)
{
	u32 cpu = ask->cpu;
	struct vmnoise_cpu *state = bpf_map_lookup_elem(&cpus, &cpu);
	struct kvm_steal_time steal = {};
	u64 tick_steal_ns = 0;
	struct rq *run_queue;

	if (!state || !state->run_queue)
		return 1;
	run_queue = (struct rq *)state->run_queue;
	if (ask->steal_minus_run_queue)
		bpf_probe_read_kernel(&steal, sizeof(steal),
				      (void *)run_queue + ask->steal_minus_run_queue);
	if (bpf_core_field_exists(run_queue->prev_steal_time))
		bpf_core_read(&tick_steal_ns, sizeof(tick_steal_ns), &run_queue->prev_steal_time);
	ask->steal_ns = steal.steal;
	ask->version = steal.version;
	ask->tick_steal_ns = tick_steal_ns;
	return 0;
}

/* The steal clock of the CPU this runs on, left in its slot; tells which CPU that is. Two words, so
 * KVM's version protocol: odd or moved since, the vCPU was away between them. Preemption is off,
 * and each try again needs another loss of the CPU, so a few suffice. */
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

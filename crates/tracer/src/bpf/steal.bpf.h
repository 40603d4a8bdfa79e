/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The steal clock of this machine itself, read at any instant from any CPU. The per-CPU variable
 * `steal_time` has no address in kallsyms without KALLSYMS_ALL, but BTF knows how far it lies from
 * `runqueues`, and a task knows its run queue. */
#ifndef VMNOISE_STEAL_BPF_H
#define VMNOISE_STEAL_BPF_H

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

#endif

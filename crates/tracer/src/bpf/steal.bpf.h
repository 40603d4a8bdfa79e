/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads the steal clock of any CPU of this machine, at any time and from any CPU. */
#ifndef VMNOISE_STEAL_BPF_H
#define VMNOISE_STEAL_BPF_H

#include "kernel.bpf.h"
#include "state.bpf.h"
#include "vmnoise.h"

typedef struct vmnoise_cpu steal_cpu;
#include "steal_clock.bpf.h"

/* Returns the current time and the value of a CPU's steal clock. */
static __always_inline struct vmnoise_moment now_on(const struct vmnoise_cpu *state)
{
	struct vmnoise_moment now;

	now.mono_ns = bpf_ktime_get_ns();
	now.steal_ns = 0;
	if (state->steal_clock)
		now.steal_ns = stolen_ns((void *)state->steal_clock, state->xen_clock);
	return now;
}

/* Reads the steal clock of the current CPU into the CPU's slot. Returns the CPU's number, or -1.
 * KVM's clock has a version: if it is odd or has changed between two reads, the vCPU was away in
 * between, and the clock is read again. Preemption is off, and each repetition needs another loss
 * of the CPU. So a few attempts suffice. */
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

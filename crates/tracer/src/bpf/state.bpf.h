/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* State of each CPU, and the functions that report activities. */
#ifndef VMNOISE_STATE_BPF_H
#define VMNOISE_STATE_BPF_H

#include "kernel.bpf.h"
#include "records.bpf.h"
#include "vmnoise.h"

/* One slot per CPU. This is not a per-CPU map, so that events of a test can name any CPU. User
 * space sets the number of slots, and reads the counters through mmap. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct vmnoise_cpu);
} cpus SEC(".maps");

/* One slot of two cache lines per CPU. It is not a per-CPU array, because those do not support
 * BPF_F_MMAPABLE. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct vmnoise_exits);
} exits SEC(".maps");

static __always_inline struct vmnoise_cpu *tracked(u32 cpu)
{
	struct vmnoise_cpu *state = bpf_map_lookup_elem(&cpus, &cpu);

	return state && state->mode != VMNOISE_OFF ? state : 0;
}

static __always_inline struct vmnoise_cpu *measured(u32 cpu)
{
	struct vmnoise_cpu *state = bpf_map_lookup_elem(&cpus, &cpu);

	return state && state->mode == VMNOISE_MEASURED ? state : 0;
}

/* Returns the state of a measured CPU if `tid` is its watched thread; otherwise 0. */
static __always_inline struct vmnoise_cpu *watched(u32 cpu, u32 tid)
{
	struct vmnoise_cpu *state = measured(cpu);

	return state && tid && state->vcpu_tid == tid ? state : 0;
}

static __always_inline void count_unpaired(struct vmnoise_cpu *state, u32 count)
{
	if (state->mode == VMNOISE_MEASURED)
		__sync_fetch_and_add(&state->unpaired, count);
}

/* Returns whether the task that leaves came in a switch that fired no event. */
static __always_inline bool is_unseen(const struct vmnoise_cpu *state, u32 prev_tid)
{
	return state->switched_ns && state->running_tid != prev_tid;
}

/* Counts an interference at its begin. The additions are atomic, because an interference may
 * interrupt the program that counts another one on the same CPU. An atomic addition also needs one
 * instruction less than a plain addition. */
static __always_inline void count_interference(struct vmnoise_cpu *state, enum vmnoise_kind kind)
{
	struct vmnoise_interference *counts = &state->interference;

	if (state->mode != VMNOISE_MEASURED)
		return;
	__sync_fetch_and_add(&counts->total, 1);
	if (kind == VMNOISE_NMI)
		__sync_fetch_and_add(&counts->nmi, 1);
	else if (kind == VMNOISE_IRQ)
		__sync_fetch_and_add(&counts->irq, 1);
	else if (kind == VMNOISE_SOFTIRQ)
		__sync_fetch_and_add(&counts->softirq, 1);
	else
		__sync_fetch_and_add(&counts->thread, 1);
}

static __always_inline void emit(struct vmnoise_cpu *state, u32 cpu, enum vmnoise_kind kind,
				 const struct vmnoise_moment *start, struct vmnoise_moment end,
				 const struct vmnoise_source *source)
{
	u64 start_mono_ns = start->mono_ns, start_steal_ns = start->steal_ns, steal_ns = 0;

	/* An observed thread loses nothing before it came to this CPU, or while it is on another
	 * CPU. */
	if (state->observed) {
		if (!state->here.mono_ns)
			return;
		if (start_mono_ns < state->here.mono_ns) {
			start_mono_ns = state->here.mono_ns;
			start_steal_ns = state->here.steal_ns;
		}
	}
	if (end.mono_ns <= start_mono_ns)
		return;
	if (end.steal_ns > start_steal_ns)
		steal_ns = end.steal_ns - start_steal_ns;
	if (!emit_record(cpu, kind, start_mono_ns, end.mono_ns, steal_ns, source))
		__sync_fetch_and_add(&state->ring_full, 1);
}

#endif

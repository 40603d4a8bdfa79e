/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is remembered of each CPU, and what of it is told. */
#ifndef VMNOISE_STATE_BPF_H
#define VMNOISE_STATE_BPF_H

#include "records.bpf.h"

/* Keyed by the CPU an event names and no per-CPU map, so that a synthetic stream can name any CPU.
 * User space sizes it and reads its counters through mmap. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct vmnoise_cpu);
} cpus SEC(".maps");

/* BPF_F_MMAPABLE does not exist for per-CPU arrays: one slot of two cache lines per CPU instead. */
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

/* Of a measured CPU whose watched thread this is. */
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

/* Whether the task that leaves came by a switch that was not seen. */
static __always_inline bool is_unseen(const struct vmnoise_cpu *state, u32 prev_tid)
{
	return state->switched_ns && state->running_tid != prev_tid;
}

/* Counts an interference where it begins. Atomic: on the same CPU, what is counted here may be
 * interrupted by what is counted there; and one instruction less than a sum. */
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

	/* Nothing is taken from an observed thread where it is not, nor before it came. */
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

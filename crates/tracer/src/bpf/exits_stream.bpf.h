/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reports exits and activities one by one, if user space requests this. The records have the same
 * clock readings as the sums. Lost records are counted, and the sums do not lose anything. */
#ifndef VMNOISE_EXITS_STREAM_BPF_H
#define VMNOISE_EXITS_STREAM_BPF_H

#include "kernel.bpf.h"
#include "exits.h"
#include "records.bpf.h"

/* Whether records are reported. User space writes this before loading. */
const volatile bool streaming;
/* Shortest noise in ns of an exit that is reported. */
const volatile u64 threshold_ns;

/* Number of records for which the ring buffer had no room. */
u64 records_lost;

/* One instance of each type, so that the generator of the Rust types finds it. */
enum exits_interval_kind wire_interval_kind;
struct exits_interval wire_interval;
struct exits_told wire_told;
struct exits_tsc_write wire_tsc_write;

static __always_inline void no_room(void)
{
	__sync_fetch_and_add(&records_lost, 1);
}

/* Reports an activity. On a CPU where no vCPU has been, activities are not needed and not
 * reported. */
static __always_inline void tell_activity(const struct exits_cpu *here, u32 cpu,
					  enum vmnoise_kind kind, u64 start, u64 end,
					  const struct vmnoise_source *source)
{
	if (!streaming || !here->hosts || end <= start)
		return;
	if (!emit_record(cpu, kind, start, end, 0, source))
		no_room();
}

static __always_inline void waits_here(struct exits_cpu *here, int count)
{
	__sync_fetch_and_add(&here->waiting, count);
}

/* Reports the current turn of the running task up to now. The rest of the turn is part of another
 * record. A turn matters only to vCPUs that wait for this CPU. */
static __always_inline void tell_run(struct exits_cpu *here, u32 cpu, u64 now,
				     const struct vmnoise_source *running)
{
	if (!streaming)
		return;
	if (here->waiting && here->running_since && here->running_tid == running->id) {
		if (running->id) {
			tell_activity(here, cpu, VMNOISE_THREAD, here->running_since, now, running);
		} else {
			struct vmnoise_source idle = source_from(VMNOISE_FROM_IDLE, 0);

			tell_activity(here, cpu, VMNOISE_THROTTLED, here->running_since, now,
				      &idle);
		}
	}
	here->running_since = now;
}

static __always_inline void tell_interval(const struct exits_vcpu *vcpu, u32 index,
					  enum exits_interval_kind kind, u64 start, u64 end,
					  u32 cpu, u32 to_cpu)
{
	struct vmnoise_source nobody = {};
	struct exits_interval *interval;

	if (!streaming || end <= start)
		return;
	interval = bpf_ringbuf_reserve(&records, sizeof(*interval), 0);
	if (!interval) {
		no_room();
		return;
	}
	fill_record(&interval->what, cpu, kind, start, end, 0,
		    kind == EXITS_BLOCKED ? &vcpu->waker : &nobody);
	interval->vcpu = index;
	interval->to_cpu = to_cpu;
	submit(interval);
}

/* Begins a time in the VMM. There is room for only one such time, so an earlier time in this exit
 * is reported separately. */
static __always_inline void vmm_begins(struct exits_vcpu *vcpu, u32 index, u32 cpu)
{
	if (vcpu->vmm.entered_mono_ns)
		tell_interval(vcpu, index, EXITS_VMM, vcpu->vmm.left_mono_ns,
			      vcpu->vmm.entered_mono_ns, vcpu->vmm.left_cpu, vcpu->vmm.entered_cpu);
	vcpu->vmm.entered_mono_ns = 0;
	vcpu->vmm.left_cpu = cpu;
}

static __always_inline void vmm_ends(struct exits_vcpu *vcpu, u32 cpu, u64 now)
{
	vcpu->vmm.left_mono_ns = vcpu->left;
	vcpu->vmm.entered_mono_ns = now;
	vcpu->vmm.entered_cpu = cpu;
}

/* Stores the end of an exit. Only few exits need this: the longest ones, and those that are
 * reported. */
static __always_inline void exit_is_told(struct exits_vcpu *vcpu, u32 cpu, u64 now)
{
	vcpu->now.end_mono_ns = now;
	vcpu->now.entry_cpu = cpu;
}

static __always_inline void tell_exit(struct exits_vcpu *vcpu, u32 index, u32 cpu, u64 now,
				      u64 noise_ns)
{
	struct exits_told *told;

	if (!streaming)
		return;
	if (noise_ns >= threshold_ns) {
		exit_is_told(vcpu, cpu, now);
		told = bpf_ringbuf_reserve(&records, sizeof(*told), 0);
		if (told) {
			told->vcpu = index;
			told->isa = vcpu->isa;
			told->exit = vcpu->now;
			told->vmm = vcpu->vmm;
			submit(told);
		} else {
			no_room();
		}
	}
	vcpu->vmm.entered_mono_ns = 0;
}

static __always_inline void tell_tsc_write(u64 now, u32 tgid, u32 vcpu, u64 previous, u64 next)
{
	struct exits_tsc_write *write = bpf_ringbuf_reserve(&records, sizeof(*write), 0);

	if (!write) {
		no_room();
		return;
	}
	write->mono_ns = now;
	write->previous_tsc = previous;
	write->next_tsc = next;
	write->tgid = tgid;
	write->vcpu = vcpu;
	submit(write);
}

#endif

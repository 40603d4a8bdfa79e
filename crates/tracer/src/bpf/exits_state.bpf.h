/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of `exits`, and functions that find the vCPU whose thread a CPU runs. */
#ifndef VMNOISE_EXITS_STATE_BPF_H
#define VMNOISE_EXITS_STATE_BPF_H

#include "kernel.bpf.h"
#include "exits.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct exits_cpu);
} exit_cpus SEC(".maps");

/* vCPUs by index. Index 0 is not used. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct exits_vcpu);
} vcpus SEC(".maps");

/* Sums by reason. Each vCPU has EXITS_REASONS entries. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct exits_reason);
} reasons SEC(".maps");

/* Index in `vcpus` of each thread; 0 if there was no room for the vCPU. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, u32);
} threads SEC(".maps");

/* Queues of indexes in `vcpus`: free entries, vCPUs that came, and vCPUs that have ended. User
 * space frees an entry after its last reading. So each index is in at most one queue, and only
 * once. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 8);
	__type(value, u32);
} free_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 8);
	__type(value, u32);
} newcomers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 8);
	__type(value, u32);
} ended SEC(".maps");

/* Index of each reason, by its code. Indexes are given in the order in which codes first occur. */
u32 reason_of_code[512];
u64 code_of_reason[EXITS_REASONS];
u32 reasons_known;
/* Whether kvm_exit and kvm_entry never fire on this machine (kvm_pvm). User space writes this
 * before loading. An exit is then the time between two KVM_RUN calls. */
const volatile bool kvm_run_only;
/* Whether softirqs can be preempted. User space writes this before loading. */
const volatile bool preempt_rt;
/* Whether the programs measure their own cost. User space writes this before loading. */
const volatile bool timed;
/* Whether begins are counted. User space sets this when all programs are attached. So a begin is
 * counted only if the program that sees its end runs. */
u32 counting SEC(".data");
/* Process id of the only process whose vCPUs are counted; 0: all processes. User space writes this
 * before `counting`. */
u32 followed SEC(".data");
/* Number of vCPUs for which there was no room when they came. */
u64 vcpus_lost;
/* Number of missed events on CPUs where a vCPU has been. It counts ends without a begin, begins
 * without an end, and switches away from a thread whose arrival was not seen. */
u64 unpaired;

static __always_inline struct exits_cpu *exits_cpu(u32 cpu)
{
	return bpf_map_lookup_elem(&exit_cpus, &cpu);
}

/* Returns the state of a CPU if counting has begun; otherwise 0. */
static __always_inline struct exits_cpu *counted_cpu(u32 cpu)
{
	return counting ? exits_cpu(cpu) : 0;
}

/* Counts missed events. After counting has stopped, ends still come but begins do not, so nothing
 * is counted. */
static __always_inline void count_unpaired(const struct exits_cpu *here, u32 count)
{
	if (counting && here->hosts)
		__sync_fetch_and_add(&unpaired, count);
}

static __always_inline struct exits_vcpu *exits_vcpu(u32 index)
{
	return index ? bpf_map_lookup_elem(&vcpus, &index) : 0;
}

static __always_inline struct exits_vcpu *vcpu_of_thread(u32 tid, u32 *index)
{
	u32 *found = bpf_map_lookup_elem(&threads, &tid);

	if (!found)
		return 0;
	*index = *found;
	return exits_vcpu(*index);
}

static __always_inline bool is_followed(u32 tgid)
{
	return !followed || followed == tgid;
}

/* Returns a free entry for a new vCPU; 0 if there is no room. A vCPU without room is counted only
 * once. */
static __always_inline struct exits_vcpu *new_vcpu(u32 tid, u32 tgid, u32 *index)
{
	struct exits_vcpu *vcpu;
	u32 place = 0;

	if (!is_followed(tgid))
		return 0;
	if (bpf_map_pop_elem(&free_places, &place)) {
		if (bpf_map_update_elem(&threads, &tid, &place, BPF_NOEXIST) != -EEXIST)
			__sync_fetch_and_add(&vcpus_lost, 1);
		return 0;
	}
	vcpu = exits_vcpu(place);
	if (!vcpu || bpf_map_update_elem(&threads, &tid, &place, BPF_ANY)) {
		bpf_map_push_elem(&free_places, &place, 0);
		__sync_fetch_and_add(&vcpus_lost, 1);
		return 0;
	}
	vcpu->tid = tid;
	vcpu->tgid = tgid;
	vcpu->id = ~0U;
	*index = place;
	bpf_map_push_elem(&newcomers, &place, 0);
	return vcpu;
}

/* Ends a vCPU because its thread ends or runs another VM. The vCPU's counts are then final. */
static __always_inline void exits_thread_ends(u32 tid)
{
	u32 *found = bpf_map_lookup_elem(&threads, &tid);
	struct exits_vcpu *vcpu;
	struct exits_cpu *there;
	u32 index;

	if (!found)
		return;
	index = *found;
	/* User space has deleted the thread already, and handles the end of the vCPU itself. */
	if (bpf_map_delete_elem(&threads, &tid))
		return;
	vcpu = exits_vcpu(index);
	if (!vcpu)
		return;
	there = exits_cpu(vcpu->cpu);
	if (there && there->vcpu == index)
		there->vcpu = 0;
	bpf_map_push_elem(&ended, &index, 0);
}

/* Returns `from` minus `what`, or 0 if the result would be negative. The asm hides the calculation
 * from clang, whose own form takes twice the instructions. */
static __always_inline u64 minus(u64 from, u64 what)
{
	if (what > from)
		what = from;
	asm("" : "+r"(what));
	return from - what;
}

static __always_inline u64 interrupts(const struct exits_work *done)
{
	return done->irq_ns + done->softirq_ns + done->nmi_ns;
}

/* Copies the work that was done here, so that all of it can be charged. Interrupts may come during
 * the copy: NMIs at any time, and others when KVM_RUN is entered or left, and after a halt. So
 * `unbooked` is cleared first. The next copy then has the work that this copy misses. */
static __always_inline void look_at_done(struct exits_cpu *here, struct exits_work *done)
{
	here->unbooked = 0;
	barrier();
	*done = here->done;
	barrier();
}

#endif

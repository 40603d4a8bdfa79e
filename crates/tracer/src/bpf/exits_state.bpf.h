/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of `exits`, and the search for the vCPU whose thread a CPU runs. */
#ifndef VMNOISE_EXITS_STATE_BPF_H
#define VMNOISE_EXITS_STATE_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct exits_cpu);
} exit_cpus SEC(".maps");

/* Index 0 is no vCPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct exits_vcpu);
} vcpus SEC(".maps");

/* EXITS_REASONS entries for each vCPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct exits_reason);
} reasons SEC(".maps");

/* Index in `vcpus` for each thread; 0 if there was no room. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, u32);
} threads SEC(".maps");

/* Queues of indexes in `vcpus`: free places, vCPUs that came, and vCPUs that have ended. User space
 * frees a place after it has read it for the last time. So each index is in at most one queue,
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

/* Place of each reason, by its code. Places are given out in the order in which codes come. */
u32 reason_of_code[512];
u64 code_of_reason[EXITS_REASONS];
u32 reasons_known;
/* Written by user space before loading: kvm_exit and kvm_entry never fire on this machine
 * (kvm_pvm). An exit is then the time between two KVM_RUN. */
const volatile bool kvm_run_only;
/* Written by user space before loading: soft interrupts can be preempted. */
const volatile bool preempt_rt;
/* Written by user space before loading: the programs time themselves. */
const volatile bool timed;
/* Written by user space when all programs are attached. So no begin counts before the program runs
 * that sees its end. */
u32 counting SEC(".data");
/* Written by user space before `counting`: the only process whose vCPUs are counted. 0: all
 * processes. */
u32 followed SEC(".data");
/* Number of vCPUs that found no room when they came. */
u64 vcpus_lost;
/* Number of events that were missed, on CPUs where a vCPU has been: ends without a begin, begins
 * without an end, and switches away from a thread that was not seen to come. */
u64 unpaired;

static __always_inline struct exits_cpu *exits_cpu(u32 cpu)
{
	return bpf_map_lookup_elem(&exit_cpus, &cpu);
}

/* Returns the state of a CPU, once counting has begun. */
static __always_inline struct exits_cpu *counted_cpu(u32 cpu)
{
	return counting ? exits_cpu(cpu) : 0;
}

/* Counts missed events. When counting has stopped, ends still come and begins do not: not counted.
 */
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

/* Returns the place of a vCPU that was not seen before, or 0. A vCPU without room is counted once.
 */
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

/* Ends a vCPU because its thread ends or runs another VM. The counts of this vCPU are final. */
static __always_inline void exits_thread_ends(u32 tid)
{
	u32 *found = bpf_map_lookup_elem(&threads, &tid);
	struct exits_vcpu *vcpu;
	struct exits_cpu *there;
	u32 index;

	if (!found)
		return;
	index = *found;
	/* User space deleted it first, and will see that the vCPU has ended. */
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

/* Returns `from` minus `what`, or 0 if that is negative. The asm hides this from clang, whose own
 * form takes twice the instructions. */
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

/* Copies the work that was done here, to charge all of it. Interrupts may come in the middle: NMIs
 * at any time, others where KVM_RUN is entered or left, and after a halt. So `unbooked` is cleared
 * first: the next look finds what this one misses. */
static __always_inline void look_at_done(struct exits_cpu *here, struct exits_work *done)
{
	here->unbooked = 0;
	barrier();
	*done = here->done;
	barrier();
}

#endif

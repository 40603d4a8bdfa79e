/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of `exits`, and how a CPU finds the vCPU whose thread it runs. */
#ifndef VMNOISE_EXITS_STATE_BPF_H
#define VMNOISE_EXITS_STATE_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct exits_cpu);
} exit_cpus SEC(".maps");

/* Index 0 is nobody. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct exits_vcpu);
} vcpus SEC(".maps");

/* EXITS_REASONS for each vCPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct exits_reason);
} reasons SEC(".maps");

/* Index in `vcpus` by thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, u32);
} threads SEC(".maps");

/* The reason's place by its code, given out as codes come. */
u32 reason_of_code[512];
u64 code_of_reason[EXITS_REASONS];
u32 reasons_known;
u32 vcpus_known;
/* Written by user space before loading: kvm_exit and kvm_entry never fire here (kvm_pvm), so an
 * exit is the time between two KVM_RUN. */
const volatile bool kvm_run_only;
/* vCPUs that found no room. */
u64 vcpus_lost;

static __always_inline struct exits_cpu *exits_cpu(u32 cpu)
{
	return bpf_map_lookup_elem(&exit_cpus, &cpu);
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

/* A vCPU that was not seen before. */
static __always_inline struct exits_vcpu *new_vcpu(u32 tid, u32 tgid, u32 *index)
{
	struct exits_vcpu *vcpu;

	*index = __sync_fetch_and_add(&vcpus_known, 1) + 1;
	vcpu = exits_vcpu(*index);
	if (!vcpu || bpf_map_update_elem(&threads, &tid, index, BPF_NOEXIST)) {
		__sync_fetch_and_add(&vcpus_lost, 1);
		return 0;
	}
	vcpu->tid = tid;
	vcpu->tgid = tgid;
	vcpu->id = ~0U;
	return vcpu;
}

static __always_inline u64 minus(u64 from, u64 what)
{
	return from > what ? from - what : 0;
}

/* The vCPU's thread is current here, and nowhere else. */
static __always_inline void arrives(struct exits_vcpu *vcpu, u32 index, struct exits_cpu *here,
				    u32 cpu)
{
	struct exits_cpu *before = vcpu->cpu != cpu ? exits_cpu(vcpu->cpu) : 0;

	/* A switch that nobody told would leave it there. */
	if (before && before->vcpu == index)
		before->vcpu = 0;
	here->vcpu = index;
	here->hosts = 1;
	vcpu->cpu = cpu;
	here->unbooked = 0;
	barrier();
	vcpu->mark = here->done;
}

/* The vCPU whose thread is current on this CPU, were it not seen before. */
static __always_inline struct exits_vcpu *current_vcpu(struct exits_cpu *here, u32 cpu, u32 tid,
						       u32 tgid)
{
	struct exits_vcpu *vcpu = exits_vcpu(here->vcpu);
	u32 index;

	if (vcpu)
		return vcpu;
	vcpu = vcpu_of_thread(tid, &index);
	if (!vcpu)
		vcpu = new_vcpu(tid, tgid, &index);
	if (vcpu)
		arrives(vcpu, index, here, cpu);
	return vcpu;
}

#endif

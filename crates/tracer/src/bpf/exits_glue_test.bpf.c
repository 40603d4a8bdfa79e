/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Test only: calls the parts of exits.bpf.c that read structures of the kernel. The test fills
 * these structures itself. It loads only the programs of this file. */
#include "exits.bpf.c"

/* Numbers of the structures in the test's memory. */
enum { OF_VCPU, OF_VMCB, OF_TASK };

struct structure {
	u64 words[8192];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 3);
	__type(key, u32);
	__type(value, struct structure);
} structures SEC(".maps");

static __always_inline void *structure(u32 number)
{
	return bpf_map_lookup_elem(&structures, &number);
}

/* Returns one half of the exit code of the vCPU. Words of the context: the vendor, and whether the
 * upper half is returned. */
SEC("raw_tp/test")
int test_exit_code(u64 *words)
{
	void *vcpu = structure(OF_VCPU), *vmcb = structure(OF_VMCB);
	struct vmnoise_vmcb known = {};
	u64 code;

	if (!vcpu || !vmcb)
		return 0;
	*(u64 *)(vcpu + bpf_core_field_offset(struct vcpu_svm, vmcb)) = (u64)vmcb;
	code = exit_code(&known, vcpu, words[0]);
	return words[1] ? code >> 32 : code;
}

/* Runs the program at kvm_entry for the vCPU. BPF_PROG gives the body of a program this name. */
SEC("raw_tp/test")
int test_entry(u64 *words)
{
	struct kvm_vcpu *vcpu = structure(OF_VCPU);

	return vcpu ? ____kvm_entry(words, vcpu) : 0;
}

/* Runs the program at kvm_exit for the vCPU. The word of the context is the vendor. */
SEC("raw_tp/test")
int test_exit(u64 *words)
{
	struct kvm_vcpu *vcpu = structure(OF_VCPU);

	return vcpu ? ____kvm_exit(words, vcpu, words[0]) : 0;
}

/* Returns the thread id of the task that is named as the running task of CPU 0; 0 if no task is
 * named. Words of the context: the thread id of the task that came to CPU 0, and the task's own
 * thread id, whether the task has a CPU, and which CPU. */
SEC("raw_tp/test")
int test_name_running(u64 *words)
{
	struct vmnoise_source source = source_from(VMNOISE_FROM_NOBODY, 0);
	struct exits_cpu *there = exits_cpu(0);
	void *task = structure(OF_TASK);

	if (!there || !task)
		return 0;
	there->running_tid = words[0];
	there->running_task = (u64)task;
	*(u32 *)(task + bpf_core_field_offset(struct task_struct, pid)) = words[1];
	*(__u8 *)(task + bpf_core_field_offset(struct task_struct, on_cpu)) = words[2];
	*(u32 *)(task + bpf_core_field_offset(struct task_struct, wake_cpu)) = words[3];
	name_running(&source, there, 0);
	return source.id;
}

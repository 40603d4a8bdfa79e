/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Walks over the open files of all processes, and reports the files of KVM. These are the VMs, and
 * all facts about their vCPUs that KVM's debugfs has. */
#include "kernel.bpf.h"
#include "vm_files.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* include/uapi/linux/magic.h */
#define ANON_INODE_FS_MAGIC 0x09041934

union file_name {
	char letters[16];
	u64 words[2];
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct super_block {
	unsigned long s_magic;
};

struct inode {
	struct super_block *i_sb;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
};

struct hlist_node {
	struct hlist_node *next;
};

struct pid_namespace;

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct hlist_head tasks[1];
	struct upid numbers[1];
};

struct mm_struct;

/* Fields that kernel.bpf.h does not need. */
struct task_struct___links {
	struct mm_struct *mm;
	struct hlist_node pid_links[1];
};

struct kvm {
	struct mm_struct *mm;
};

/* `l1_tsc_scaling_ratio` exists since 5.14. Before that, a guest could not scale the counter of its
 * nested guest. If the CPU protects the counter of a confidential guest, KVM does not know its
 * value. */
struct kvm_vcpu_arch {
	u64 l1_tsc_offset;
	u64 l1_tsc_scaling_ratio;
	u64 tsc_scaling_ratio;
	bool guest_tsc_protected;
};

struct kvm_vcpu {
	struct kvm *kvm;
	int vcpu_id;
	struct pid *pid;
	struct kvm_vcpu_arch arch;
};

#pragma clang attribute pop

/* Makes this type part of the object's BTF. The variable itself is not used. */
struct vm_file wire_vm_file;

static __always_inline struct upid *number_at(struct pid *pid, u32 level)
{
	return (void *)pid + bpf_core_field_offset(struct pid, numbers) +
	       level * bpf_core_type_size(struct upid);
}

/* Returns the id of a process or thread in the pid namespace of the reader; 0 if it has no id
 * there. */
static __always_inline u32 number_here(struct pid *pid)
{
	struct task_struct *reader = (void *)bpf_get_current_task();
	struct pid *own = BPF_CORE_READ(reader, thread_pid);
	u32 level = BPF_CORE_READ(own, level);

	if (BPF_CORE_READ(pid, level) < level ||
	    BPF_CORE_READ(number_at(pid, level), ns) != BPF_CORE_READ(number_at(own, level), ns))
		return 0;
	return BPF_CORE_READ(number_at(pid, level), nr);
}

/* Returns whether a file is KVM's. KVM gives its files these names (virt/kvm/kvm_main.c). No other
 * program can create such a name among the anonymous inodes. */
static __always_inline bool is_of_kvm(struct file *file, bool *is_vcpu)
{
	const union file_name vm = {.letters = "kvm-vm"}, vcpu = {.letters = "kvm-vcpu"};
	union file_name name = {};

	if (file->f_inode->i_sb->s_magic != ANON_INODE_FS_MAGIC)
		return 0;
	bpf_probe_read_kernel_str(&name, sizeof(name), file->f_path.dentry->d_name.name);
	/* The vCPU's number follows the colon. The file with the vCPU's statistics has another
	 * name. */
	*is_vcpu = name.words[0] == vcpu.words[0] && name.letters[8] == ':';
	return *is_vcpu || name.words[0] == vm.words[0];
}

/* Stores the thread that last ran the vCPU, if the thread still lives. After the thread's end, its
 * id may be reused. */
static __always_inline void name_thread(struct vm_file *found, struct kvm_vcpu *vcpu)
{
	struct pid *pid = BPF_CORE_READ(vcpu, pid);
	struct hlist_node *link;
	struct task_struct *task;
	u32 tid, tid_here, tgid;

	link = pid ? BPF_CORE_READ(pid, tasks[0].first) : 0;
	if (!link)
		return;
	task = (void *)link - bpf_core_field_offset(struct task_struct___links, pid_links);
	tid = BPF_CORE_READ(number_at(pid, 0), nr);
	tid_here = number_here(pid);
	tgid = BPF_CORE_READ(task, tgid);
	/* The vCPU keeps a reference to its pid. If the pid is still the same, the values that were
	 * read belong to this thread. */
	if (BPF_CORE_READ(vcpu, pid) != pid || BPF_CORE_READ(task, pid) != tid)
		return;
	found->tid = tid;
	found->tid_here = tid_here;
	found->tgid = tgid;
}

static __always_inline void read_clock(struct vm_file *found, struct kvm_vcpu *vcpu)
{
	if (bpf_core_field_exists(vcpu->arch.guest_tsc_protected) &&
	    BPF_CORE_READ(vcpu, arch.guest_tsc_protected))
		return;
	found->offset_tsc = BPF_CORE_READ(vcpu, arch.l1_tsc_offset);
	if (bpf_core_field_exists(vcpu->arch.l1_tsc_scaling_ratio))
		found->ratio = BPF_CORE_READ(vcpu, arch.l1_tsc_scaling_ratio);
	else
		found->ratio = BPF_CORE_READ(vcpu, arch.tsc_scaling_ratio);
	found->knows_tsc = 1;
}

SEC("iter/task_file")
int find_vms(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct vm_file found = {};
	struct kvm_vcpu *vcpu = 0;
	struct kvm *kvm;
	bool is_vcpu;

	if (!task || !file || !is_of_kvm(file, &is_vcpu))
		return 0;
	if (is_vcpu) {
		vcpu = file->private_data;
		kvm = BPF_CORE_READ(vcpu, kvm);
	} else {
		kvm = file->private_data;
	}
	/* KVM accepts calls only from the process that made the VM. Other processes with this file
	 * inherited or received it. */
	if (BPF_CORE_READ((struct task_struct___links *)task, mm) != BPF_CORE_READ(kvm, mm))
		return 0;
	found.kvm = (u64)kvm;
	found.vcpu = (u64)vcpu;
	found.holder = task->tgid;
	/* BPF_CORE_READ makes this a plain number. The verifier allows arithmetic with a variable
	 * offset only on plain numbers. */
	found.holder_here = number_here(BPF_CORE_READ(task, group_leader, thread_pid));
	found.fd = ctx->fd;
	if (is_vcpu) {
		found.number = BPF_CORE_READ(vcpu, vcpu_id);
		name_thread(&found, vcpu);
		read_clock(&found, vcpu);
	}
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

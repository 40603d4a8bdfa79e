/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Facts that the gate reads from a task and from KVM. The tracepoints do not have them as
 * arguments. */
#ifndef VMNOISE_GATE_KERNEL_BPF_H
#define VMNOISE_GATE_KERNEL_BPF_H

#include "kernel.bpf.h"
#include "gate.h"

/* include/uapi/linux/sched.h */
enum { SCHED_FIFO = 1, SCHED_RR = 2 };

/* MAX_RT_PRIO of include/linux/sched/prio.h. Tasks with a smaller value are real-time tasks, or
 * have a deadline. */
#define FIRST_ORDINARY 100
/* include/linux/sched.h */
enum { PF_KTHREAD = 0x00200000 };

/* Largest number of groups above a vCPU that are read. libvirt puts a vCPU at the sixth level. */
#define GROUPS 8

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct preempt_notifier {
	struct hlist_node *link;
};

struct rcuwait {
	struct task_struct *task;
};

struct kvm_vcpu {
	int vcpu_id;
	struct pid *pid;
	struct preempt_notifier preempt_notifier;
	struct rcuwait wait;
};

#pragma clang attribute pop

/* Returns whether a thread has loaded a vCPU. KVM then has a notifier on the thread (vcpu_load of
 * virt/kvm/kvm_main.c). No other code uses such notifiers. The thread is usually in KVM_RUN.
 * Exceptions are short times in which a VMM sets registers. */
static __always_inline bool is_in_kvm_run(struct task_struct *task)
{
	return bpf_core_field_exists(task->preempt_notifiers) && task->preempt_notifiers.first;
}

/* Returns the vCPU of a thread that is in KVM_RUN. The notifier is a part of the vCPU. Returns 0 if
 * KVM's types are unknown. */
static __always_inline struct kvm_vcpu *kvm_vcpu_of(struct task_struct *task)
{
	if (!bpf_core_type_exists(struct kvm_vcpu))
		return 0;
	return (void *)task->preempt_notifiers.first -
	       bpf_core_field_offset(struct kvm_vcpu, preempt_notifier);
}

/* Returns whether a thread that has loaded a vCPU runs this vCPU. Only KVM_RUN stores the thread in
 * the vCPU. */
static __always_inline bool runs_vcpu(struct task_struct *task)
{
	struct kvm_vcpu *vcpu;

	if (!is_in_kvm_run(task))
		return 0;
	vcpu = kvm_vcpu_of(task);
	if (!vcpu || !bpf_core_field_exists(vcpu->pid) || !bpf_core_field_exists(task->thread_pid))
		return 1;
	return (u64)BPF_CORE_READ(vcpu, pid) == (u64)task->thread_pid;
}

/* Returns the VMM's number of the vCPU that a thread runs; ~0 if it is unknown. */
static __always_inline u32 number_of(struct task_struct *task)
{
	struct kvm_vcpu *vcpu = kvm_vcpu_of(task);

	if (!vcpu || !bpf_core_field_exists(vcpu->vcpu_id))
		return ~0;
	return BPF_CORE_READ(vcpu, vcpu_id);
}

/* Returns why a task went to sleep. KVM uses `wait` only to wait for the end of a halt
 * (kvm_vcpu_block). */
static __always_inline u32 sleep_of(struct task_struct *task)
{
	struct kvm_vcpu *vcpu;

	if (!bpf_core_field_exists(task->preempt_notifiers))
		return GATE_ASLEEP;
	if (!is_in_kvm_run(task))
		return GATE_IN_VMM;
	vcpu = kvm_vcpu_of(task);
	if (!vcpu || !bpf_core_field_exists(vcpu->wait.task))
		return GATE_ASLEEP;
	return (u64)BPF_CORE_READ(vcpu, wait.task) == (u64)task ? GATE_HALTED : GATE_BLOCKED;
}

/* Returns whether a quota or the limit of real-time tasks keeps a runnable task from running. Since
 * 6.18 the task itself has this information. Before 6.18 its queue has it. */
static __always_inline bool is_throttled(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	if (task->policy == SCHED_FIFO || task->policy == SCHED_RR)
		return bpf_core_field_exists(task->se.cfs_rq->rq->rt.rt_throttled) &&
		       task->se.cfs_rq->rq->rt.rt_throttled;
	if (bpf_core_field_exists(task->throttled))
		return task->throttled;
	return bpf_core_field_exists(task->se.cfs_rq->throttle_count) &&
	       task->se.cfs_rq->throttle_count;
}

/* Returns whether a task runs only after all real-time tasks, by its current priority. A task that
 * holds a lock for which a real-time task waits has the priority of the real-time task. */
static __always_inline bool is_ordinary(struct task_struct *task)
{
	return task->prio >= FIRST_ORDINARY;
}

/* Returns the total time for which the task's groups have been throttled so far. This time
 * increases when the throttling ends (unthrottle_cfs_rq of kernel/sched/fair.c). Returns 0 since
 * 6.18: the task itself shows that it is throttled, and is switched out then. */
static __always_inline u64 throttles_of(struct task_struct *task)
{
	struct task_group *group;
	u64 all = 0;
	u32 i;

	if (bpf_core_field_exists(task->throttled) ||
	    !bpf_core_field_exists(task->se.cfs_rq->tg->cfs_bandwidth.throttled_time))
		return 0;
	group = task->se.cfs_rq->tg;
#pragma unroll
	for (i = 0; i < GROUPS; i++) {
		if (!group)
			break;
		all += group->cfs_bandwidth.throttled_time;
		group = group->parent;
	}
	return all;
}

/* Returns how often a task has left a CPU. The kernel raises this number before the event of the
 * switch (__schedule of kernel/sched/core.c). */
static __always_inline u64 switches_of(struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

/* Returns the CPU on whose queue a task is. */
static __always_inline u32 cpu_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->se.cfs_rq))
		return task->se.cfs_rq->rq->cpu;
	return task->wake_cpu;
}

/* Clears the bytes after the end of a name. Before 5.17, they may have the rest of an older
 * name. */
static __always_inline void end_name(unsigned long long name[2])
{
	u64 ends = (name[0] - 0x0101010101010101ULL) & ~name[0] & 0x8080808080808080ULL;

	if (ends) {
		name[0] &= ((ends & -ends) >> 7) - 1;
		name[1] = 0;
		return;
	}
	ends = (name[1] - 0x0101010101010101ULL) & ~name[1] & 0x8080808080808080ULL;
	if (ends)
		name[1] &= ((ends & -ends) >> 7) - 1;
}

/* Returns the process for which a task works. A kernel thread is not part of a process, and works
 * for the process whose memory it uses. An example is the worker of vhost (vhost_worker of
 * drivers/vhost/vhost.c). Since 6.4 this worker is a thread of the VMM itself, unless the old way
 * is requested. */
static __always_inline u32 process_of(struct task_struct *task)
{
	struct mm_struct *mm;
	struct task_struct *owner;

	if (!(task->flags & PF_KTHREAD))
		return task->tgid;
	mm = task->mm;
	if (!mm || !bpf_core_field_exists(mm->owner))
		return task->tgid;
	owner = mm->owner;
	return owner ? owner->tgid : task->tgid;
}

/* Names a task by its process, because the threads of a process may all have different names. */
static __always_inline void who_is(struct gate_who *who, struct task_struct *task,
				   struct gate_vcpu *vcpu)
{
	__builtin_memcpy(who->comm, task->group_leader->comm, COMM_LEN);
	end_name(who->comm);
	who->cgroup = task->cgroups->dfl_cgrp->kn->id;
	who->vcpu = vcpu ? vcpu->id : 0;
	who->tgid = process_of(task);
}

#endif

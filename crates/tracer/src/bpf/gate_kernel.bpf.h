/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Facts that the gate reads from a task and from KVM, in addition to the arguments of its
 * tracepoints. */
#ifndef VMNOISE_GATE_KERNEL_BPF_H
#define VMNOISE_GATE_KERNEL_BPF_H

/* include/uapi/linux/sched.h */
enum { SCHED_FIFO = 1, SCHED_RR = 2 };

/* MAX_RT_PRIO of include/linux/sched/prio.h: tasks below it are real-time, or have a deadline. */
#define FIRST_ORDINARY 100
/* include/linux/sched.h */
enum { PF_KTHREAD = 0x00200000 };

/* Number of groups above a vCPU's that are read. libvirt puts a vCPU into the sixth. */
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

/* Returns whether a thread has a vCPU loaded. KVM then keeps a notifier on the thread (vcpu_load of
 * virt/kvm/kvm_main.c), and nobody else does. Such a thread is in KVM_RUN, except for moments in
 * which a VMM sets registers. */
static __always_inline bool is_in_kvm_run(struct task_struct *task)
{
	return bpf_core_field_exists(task->preempt_notifiers) && task->preempt_notifiers.first;
}

/* Returns the vCPU of a thread that is in KVM_RUN: the notifier is a part of it. Returns 0 if KVM's
 * types are unknown. */
static __always_inline struct kvm_vcpu *kvm_vcpu_of(struct task_struct *task)
{
	if (!bpf_core_type_exists(struct kvm_vcpu))
		return 0;
	return (void *)task->preempt_notifiers.first -
	       bpf_core_field_offset(struct kvm_vcpu, preempt_notifier);
}

/* Returns whether a thread that has a vCPU loaded runs it: only KVM_RUN stores whose vCPU it is. */
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

/* Returns the number of the vCPU that a thread runs, as its VMM numbered it; ~0: unknown. */
static __always_inline u32 number_of(struct task_struct *task)
{
	struct kvm_vcpu *vcpu = kvm_vcpu_of(task);

	if (!vcpu || !bpf_core_field_exists(vcpu->vcpu_id))
		return ~0;
	return BPF_CORE_READ(vcpu, vcpu_id);
}

/* Returns why a task that has gone to sleep did so. KVM waits in `wait` for the end of a halt, and
 * for nothing else (kvm_vcpu_block). */
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

/* Returns whether a quota, or the limit of real-time tasks, keeps a runnable task from running.
 * Since 6.18 the task itself has this information; before, its queue has it. */
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

/* Returns whether a task runs after all real-time tasks, by its current priority. If it holds a
 * lock for which a real-time task waits, it has the priority of that task. */
static __always_inline bool is_ordinary(struct task_struct *task)
{
	return task->prio >= FIRST_ORDINARY;
}

/* Returns the time for which its groups have been throttled so far, in total. This time grows when
 * a quota lets the task go (unthrottle_cfs_rq of kernel/sched/fair.c). Since 6.18 it is not needed
 * (0): the task itself shows that it is throttled, and is switched for it. */
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

/* Clears what follows the end of a name. Before 5.17 this may be the rest of an older name. */
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

/* Returns the process for which a task works. A kernel thread has no process, and works for the
 * process whose memory it uses. An example is the worker of vhost (vhost_worker of
 * drivers/vhost/vhost.c). Since 6.4 this worker is a thread of the VMM itself, except where the old
 * way is requested. */
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

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the gate reads of a task and of KVM, beyond what its tracepoints bring. */
#ifndef VMNOISE_GATE_KERNEL_BPF_H
#define VMNOISE_GATE_KERNEL_BPF_H

/* include/uapi/linux/sched.h */
enum { SCHED_FIFO = 1, SCHED_RR = 2 };

/* MAX_RT_PRIO of include/linux/sched/prio.h: what is below is real-time, or has a deadline. */
#define FIRST_ORDINARY 100
/* include/linux/sched.h */
enum { PF_KTHREAD = 0x00200000 };

/* Groups above a vCPU's that are looked at: libvirt has it in the sixth. */
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

/* Whether a thread has a vCPU loaded: KVM hangs a notifier on it meanwhile (vcpu_load of
 * virt/kvm/kvm_main.c), and nobody else does. In KVM_RUN, that is, but for moments in which a VMM
 * sets registers. */
static __always_inline bool is_in_kvm_run(struct task_struct *task)
{
	return bpf_core_field_exists(task->preempt_notifiers) && task->preempt_notifiers.first;
}

/* The vCPU of a thread that is in KVM_RUN, in which that notifier lies; 0 where KVM's types are not
 * known. */
static __always_inline struct kvm_vcpu *kvm_vcpu_of(struct task_struct *task)
{
	if (!bpf_core_type_exists(struct kvm_vcpu))
		return 0;
	return (void *)task->preempt_notifiers.first -
	       bpf_core_field_offset(struct kvm_vcpu, preempt_notifier);
}

/* Whether a thread that has a vCPU loaded runs it: KVM_RUN alone writes down whose it is. */
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

/* The number of the vCPU that a thread runs, as its VMM has numbered it; ~0 where it is not known.
 */
static __always_inline u32 number_of(struct task_struct *task)
{
	struct kvm_vcpu *vcpu = kvm_vcpu_of(task);

	if (!vcpu || !bpf_core_field_exists(vcpu->vcpu_id))
		return ~0;
	return BPF_CORE_READ(vcpu, vcpu_id);
}

/* Why a task that has gone to sleep did. KVM waits in `wait` for what ends a halt, and nowhere else
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

/* Whether a quota, or the share that real-time tasks may have, keeps a task that could run from
 * running. Since 6.18 the task itself says so; before, its queue does. */
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

/* Whether it runs after all real-time tasks, as its priority is now: who holds a lock that one of
 * them waits for has the priority of that. */
static __always_inline bool is_ordinary(struct task_struct *task)
{
	return task->prio >= FIRST_ORDINARY;
}

/* For how long its groups have been throttled until now, all together: more, once a quota has let
 * it go (unthrottle_cfs_rq of kernel/sched/fair.c). Since 6.18 the task says itself that it is
 * throttled, and is switched for that. */
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

/* How often a task has left a CPU, counted before the event of the switch (__schedule of
 * kernel/sched/core.c). */
static __always_inline u64 switches_of(struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

/* The CPU on whose queue a task is. */
static __always_inline u32 cpu_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->se.cfs_rq))
		return task->se.cfs_rq->rq->cpu;
	return task->wake_cpu;
}

/* Before 5.17 a name may have rests of an older one behind its end. */
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

/* The process that a task works for. A thread of the kernel has no process, and works for that
 * whose memory it uses: as the worker of vhost does (vhost_worker of drivers/vhost/vhost.c), which
 * is a thread of the VMM itself since 6.4, where nobody asks for the old way. */
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

/* By the name of its process: threads of one may all have names of their own. */
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

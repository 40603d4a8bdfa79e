/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs of `vmnoise exits`, which are attached to tracepoints. */
#include "kernel.bpf.h"
#include <bpf/bpf_tracing.h>
#include "exits.h"
#include "exits_handlers.bpf.h"
#include "sources.bpf.h"
#include "exit_code.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline u32 here(void)
{
	return bpf_get_smp_processor_id();
}

/* Ends a program that began at `begin`. A program that does not read the clock is short, and is not
 * timed. */
static __always_inline int ran(u32 cpu, u64 begin)
{
	struct exits_cpu *slot = timed ? exits_cpu(cpu) : 0;

	if (slot && !(slot->runs++ % EXITS_TIMED_RUN))
		slot->timed_ns += bpf_ktime_get_ns() - begin;
	return 0;
}

/* Rebuilds the switch to the current task from the scheduler's data, because the switch fired no
 * event. The run queue's clock has the time of its last update, and `clock_ahead` converts this
 * time to CLOCK_MONOTONIC. `came_ns` is the arrival time of the current task (sched_info_arrive of
 * kernel/sched/stats.h). The idle task has no arrival time, so its `came_ns` is `left_ns`.
 * `left_ns` is the time at which the scheduler last charged the task that left (update_curr). It is
 * set only if this task has not arrived again since its last seen switch. Hidden switches are rare,
 * so this function is not inlined into each program. It is global, because the verifier then checks
 * it once per program, instead of once per path. */
__noinline int find_hidden_switch(u32 cpu, u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf(), *ran;
	struct exits_cpu *slot = exits_cpu(cpu);
	struct exits_hidden it = {};
	u64 clock, clock_task, charged, arrival;
	struct rq *run_queue;

	if (!slot || !slot->clock_ahead || !bpf_core_field_exists(task->sched_info.last_arrival) ||
	    !bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	it.tid = task->pid;
	if (it.tid)
		it.came_ns = task->sched_info.last_arrival + slot->clock_ahead;
	/* The memory of the task that left may already be freed. It is read only if it still has
	 * the task's thread id. The scheduler never charges the idle task. */
	ran = (void *)slot->running_task;
	if (slot->running_tid && BPF_CORE_READ(ran, pid) == slot->running_tid) {
		name_task(&it.left, ran, slot->running_tid);
		run_queue = BPF_CORE_READ(task, se.cfs_rq, rq);
		clock = BPF_CORE_READ(run_queue, clock);
		clock_task = BPF_CORE_READ(run_queue, clock_task);
		charged = BPF_CORE_READ(ran, se.exec_start);
		arrival = BPF_CORE_READ(ran, sched_info.last_arrival) + slot->clock_ahead;
		if (charged && charged <= clock_task &&
		    arrival <= slot->running_since + VMNOISE_HANDOVER_NS)
			it.left_ns = clock - (clock_task - charged) + slot->clock_ahead;
	}
	if (!it.tid)
		it.came_ns = it.left_ns;
	return rebuild_switch(slot, cpu, now, &it);
}

/* Rebuilds a hidden switch if the last seen switch went to a task other than the current task. */
static __always_inline void check_who_runs(const struct exits_cpu *slot, u32 cpu, u64 now, u32 tid)
{
	if (slot->running_since && slot->running_tid != tid)
		find_hidden_switch(cpu, now);
}

/* Rebuilds a hidden switch before work of the host begins, on a CPU where a vCPU has been
 * before. */
static __always_inline void check_before_work(u32 cpu, u64 now)
{
	struct exits_cpu *slot = counted_cpu(cpu);

	if (slot && slot->hosts)
		check_who_runs(slot, cpu, now, bpf_get_current_pid_tgid());
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int irq, struct irqaction *action)
{
	u64 now = bpf_ktime_get_ns();
	u32 cpu = here();
	struct vmnoise_source *source;

	check_before_work(cpu, now);
	source = exits_irq_entry(cpu, now, irq, VMNOISE_FROM_LINE);
	if (source)
		name_line(source, irq, action);
	return ran(cpu, now);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_exit, int irq)
{
	u64 now = bpf_ktime_get_ns();
	u32 cpu = here();

	exits_irq_exit(cpu, now, irq, VMNOISE_FROM_LINE);
	return ran(cpu, now);
}

#define IRQ_VECTOR(word)                                                                           \
	SEC("tp_btf/" #word "_entry")                                                              \
	int BPF_PROG(word##_entry, int vector)                                                     \
	{                                                                                          \
		u64 now = bpf_ktime_get_ns();                                                      \
		u32 cpu = here();                                                                  \
		struct vmnoise_source *source;                                                     \
		union vector_name name = {.letters = #word};                                       \
                                                                                                   \
		check_before_work(cpu, now);                                                       \
		source = exits_irq_entry(cpu, now, vector, VMNOISE_FROM_VECTOR);                   \
		if (source)                                                                        \
			name_vector(source, vector, name.words);                                   \
		return ran(cpu, now);                                                              \
	}                                                                                          \
	SEC("tp_btf/" #word "_exit")                                                               \
	int BPF_PROG(word##_exit, int vector)                                                      \
	{                                                                                          \
		u64 now = bpf_ktime_get_ns();                                                      \
		u32 cpu = here();                                                                  \
                                                                                                   \
		exits_irq_exit(cpu, now, vector, VMNOISE_FROM_VECTOR);                             \
		return ran(cpu, now);                                                              \
	}

#include "irq_vectors.bpf.h"

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int number)
{
	u64 now = bpf_ktime_get_ns();
	u32 cpu = here();

	check_before_work(cpu, now);
	exits_softirq_entry(cpu, now, number);
	return ran(cpu, now);
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int number)
{
	u64 now = bpf_ktime_get_ns();
	u32 cpu = here();

	exits_softirq_exit(cpu, now, number);
	return ran(cpu, now);
}

SEC("tp_btf/nmi_handler")
int BPF_PROG(nmi_handler, void *handler, __s64 delta_ns)
{
	if (delta_ns > 0)
		exits_nmi(here(), bpf_ktime_get_ns(), delta_ns);
	return 0;
}

static __always_inline int task_switch(bool preempt, struct task_struct *prev,
				       struct task_struct *next, u32 prev_state)
{
	struct vmnoise_source source = source_from(VMNOISE_FROM_TASK, prev->pid);
	u64 now = bpf_ktime_get_ns();
	u32 cpu = here();
	struct exits_cpu *slot = exits_cpu(cpu);

	if (!slot)
		return 0;
	if (bpf_core_field_exists(prev->se.cfs_rq))
		slot->clock_ahead = now - prev->se.cfs_rq->rq->clock;
	check_who_runs(slot, cpu, now, prev->pid);
	if (streaming && slot->waiting)
		name_task(&source, prev, prev->pid);
	slot->running_task = (u64)next;
	exits_switch(slot, cpu, now, preempt, prev_state, &source, next->pid);
	return ran(cpu, now);
}

#include "sched_switch.bpf.h"

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	exits_thread_ends(task->pid);
	return 0;
}

/* Stores the name of the task that runs on a CPU. The memory of the task may already be freed. The
 * task still exists if its memory still has its thread id. The task may also have left without an
 * event, so its CPU is checked. wake_cpu is also the CPU of a task (__set_task_cpu of
 * kernel/sched/sched.h sets both). */
static __always_inline void name_running(struct vmnoise_source *source,
					 const struct exits_cpu *there, u32 cpu)
{
	struct task_struct *running = (void *)there->running_task;

	if (!there->running_tid || BPF_CORE_READ(running, pid) != there->running_tid)
		return;
	if (is_on_cpu(running) && BPF_CORE_READ(running, wake_cpu) == cpu)
		name_task(source, running, there->running_tid);
}

/* Fires in set_task_cpu of kernel/sched/core.c, just before the task moves. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *task, int to_cpu)
{
	struct vmnoise_source source = source_from(VMNOISE_FROM_NOBODY, 0);
	struct exits_vcpu *vcpu;
	struct exits_cpu *there;
	u32 index;

	vcpu = vcpu_of_thread(task->pid, &index);
	there = vcpu ? exits_cpu(vcpu->cpu) : 0;
	if (!there)
		return 0;
	if (streaming)
		name_running(&source, there, vcpu->cpu);
	exits_migrate(vcpu, index, there, to_cpu, bpf_ktime_get_ns(), &source);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *wakee)
{
	u64 now = bpf_ktime_get_ns();
	u32 cpu = here();
	struct vmnoise_source *waker = exits_waking(cpu, wakee->pid, now);

	if (waker)
		name_current(waker);
	return ran(cpu, now);
}

SEC("tp_btf/kvm_vcpu_wakeup")
int BPF_PROG(kvm_vcpu_wakeup, u64 ns, bool waited)
{
	u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	u32 cpu = here();
	struct exits_cpu *slot = counted_cpu(cpu);

	if (slot)
		check_who_runs(slot, cpu, now, id);
	exits_halted(cpu, now, ns, waited, id);
	return ran(cpu, now);
}

/* Returns the vCPU whose thread runs on this CPU. The vCPU is found by the thread id. */
static __always_inline struct exits_vcpu *vcpu_of_current(struct exits_cpu *slot, u32 cpu, u64 now)
{
	u64 id = bpf_get_current_pid_tgid();
	struct exits_vcpu *vcpu;

	check_who_runs(slot, cpu, now, id);
	vcpu = exits_vcpu(slot->vcpu);
	slot->running_task = bpf_get_current_task();
	if (vcpu && vcpu->tid == (u32)id)
		return vcpu;
	return current_vcpu(slot, cpu, now, id, id >> 32);
}

/* This case is rare, so the function is not inlined into each program. */
static __noinline struct exits_vcpu *vcpu_untold(struct exits_cpu *slot, u32 cpu, u64 now)
{
	if (!is_followed(bpf_get_current_pid_tgid() >> 32))
		return 0;
	return vcpu_of_current(slot, cpu, now);
}

/* Returns the vCPU that came to this CPU at the last seen switch. */
static __always_inline struct exits_vcpu *vcpu_here(struct exits_cpu *slot, u32 cpu, u64 now)
{
	struct exits_vcpu *vcpu = exits_vcpu(slot->vcpu);

	return vcpu ? vcpu : vcpu_untold(slot, cpu, now);
}

/* Handles an entry into KVM_RUN, or its end. */
static __always_inline int kvm_run(bool enter, bool alone)
{
	u64 now = bpf_ktime_get_ns();
	u32 cpu = here();
	struct exits_cpu *slot = counted_cpu(cpu);
	struct exits_vcpu *vcpu;

	if (!slot)
		return 0;
	/* If KVM reports its entries, the programs at entries check which vCPU the thread runs. */
	vcpu = alone ? vcpu_of_current(slot, cpu, now) : vcpu_here(slot, cpu, now);
	if (vcpu && enter)
		exits_run_enter(vcpu, slot, cpu, now, alone);
	else if (vcpu)
		exits_run_leave(vcpu, slot, cpu, now, alone);
	return ran(cpu, now);
}

SEC("tp_btf/kvm_fpu")
int BPF_PROG(kvm_fpu, int load)
{
	return kvm_run(load, 0);
}

/* Loaded instead of `kvm_fpu` if kvm_run_only. Each exit has the cost of this program. */
SEC("tp_btf/kvm_fpu")
int BPF_PROG(kvm_fpu_alone, int load)
{
	return kvm_run(load, 1);
}

/* Stores why KVM_RUN returned. If kvm_exit never fires, this is the only known reason of an
 * exit. */
SEC("tp_btf/kvm_userspace_exit")
int BPF_PROG(kvm_userspace_exit, u32 reason)
{
	struct exits_cpu *slot = exits_cpu(here());
	struct exits_vcpu *vcpu = slot ? exits_vcpu(slot->vcpu) : 0;

	if (vcpu && vcpu->in_exit)
		vcpu->now.code = reason;
	return 0;
}

SEC("tp_btf/kvm_exit")
int BPF_PROG(kvm_exit, struct kvm_vcpu *kvm, u32 isa)
{
	u64 now = bpf_ktime_get_ns();
	u32 cpu = here();
	struct exits_cpu *slot = exits_cpu(cpu);
	struct exits_vcpu *vcpu = slot ? vcpu_here(slot, cpu, now) : 0;

	/* Since 6.12, the verifier requires a check for NULL of each pointer that comes from a
	 * module. */
	if (!vcpu || !kvm)
		return ran(cpu, now);
	if (!vcpu->vm) {
		vcpu->id = kvm->vcpu_id;
		vcpu->vm = (u64)kvm->kvm;
		vcpu->isa = isa;
	}
	exits_exit(vcpu, slot, cpu, now, exit_code(&vcpu->vmcb, kvm, isa));
	return ran(cpu, now);
}

SEC("tp_btf/kvm_entry")
int BPF_PROG(kvm_entry, struct kvm_vcpu *kvm)
{
	u64 now = bpf_ktime_get_ns();
	u32 cpu = here();
	struct exits_cpu *slot = counted_cpu(cpu);
	struct exits_vcpu *vcpu = slot ? vcpu_here(slot, cpu, now) : 0;

	if (vcpu && kvm && may_be_new_to(vcpu, (u64)kvm)) {
		struct exits_entered what = {
		    .kvm_vcpu = (u64)kvm,
		    .vm = (u64)kvm->kvm,
		    .exits = kvm->stat.exits,
		};

		if (is_new_to(vcpu, &what))
			vcpu =
			    exits_vcpu(takes_up(slot, cpu, now, &what, bpf_get_current_pid_tgid()));
	}
	if (vcpu)
		exits_entry(vcpu, slot, cpu, now);
	return ran(cpu, now);
}

/* Loaded only if writes are reported. The writer is the vCPU's thread, or another thread of its
 * process. */
SEC("tp_btf/kvm_write_tsc_offset")
int BPF_PROG(kvm_write_tsc_offset, unsigned int vcpu, u64 previous, u64 next)
{
	tell_tsc_write(bpf_ktime_get_ns(), bpf_get_current_pid_tgid() >> 32, vcpu, previous, next);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs at the tracepoints. They read plain values from the context, and call the
 * handlers. */
#include "kernel.bpf.h"
#include <bpf/bpf_tracing.h>
#include "vmnoise.h"
#include "state.bpf.h"
#include "sources.bpf.h"
#include "steal.bpf.h"
#include "handlers.bpf.h"
#include "unseen.bpf.h"
#include "exit_code.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* One variable of each type, so that the generator of the Rust types finds the type. */
struct vmnoise_record wire_record;
enum vmnoise_kind wire_kind;
enum vmnoise_origin wire_origin;
enum vmnoise_mode wire_mode;

static __always_inline u32 here(void)
{
	return bpf_get_smp_processor_id();
}

/* Ends a program that had work to do, and counts its run. The kernel's own accounting
 * (BPF_ENABLE_STATS) would read the clock twice in each run. This would add a fifth to the cost of
 * these programs. */
static __always_inline int ran(struct vmnoise_cpu *state, struct vmnoise_moment begin)
{
	if (state->until_timed) {
		state->until_timed--;
		return 0;
	}
	state->until_timed = VMNOISE_TIMED_RUN - 1;
	state->runs += VMNOISE_TIMED_RUN;
	state->timed_runs++;
	state->timed_ns += bpf_ktime_get_ns() - begin.mono_ns;
	return 0;
}

/* Does the same as `ran` for a program whose event concerns another CPU. */
static __always_inline int ran_anywhere(struct vmnoise_moment begin)
{
	struct vmnoise_cpu *state = tracked(here());

	return state ? ran(state, begin) : 0;
}

static __always_inline u32 current_tid(void)
{
	return (u32)bpf_get_current_pid_tgid();
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int irq, struct irqaction *action)
{
	struct vmnoise_cpu *state = tracked(here());
	struct vmnoise_source *source;
	struct vmnoise_moment now;

	if (!state)
		return 0;
	now = now_on(state);
	source = on_irq_entry(state, now);
	if (source)
		name_line(source, irq, action);
	return ran(state, now);
}

static __always_inline int irq_ends(u32 id, enum vmnoise_origin origin)
{
	u32 cpu = here();
	struct vmnoise_cpu *state = tracked(cpu);
	struct vmnoise_moment now;

	if (!state)
		return 0;
	now = now_on(state);
	on_irq_exit(state, cpu, now, id, origin);
	return ran(state, now);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_exit, int irq)
{
	return irq_ends(irq, VMNOISE_FROM_LINE);
}

static __always_inline int vector_begins(u32 vector, const u64 *name)
{
	struct vmnoise_cpu *state = tracked(here());
	struct vmnoise_source *source;
	struct vmnoise_moment now;

	if (!state)
		return 0;
	now = now_on(state);
	source = on_irq_entry(state, now);
	if (source)
		name_vector(source, vector, name);
	return ran(state, now);
}

/* Vectors of arch/x86/include/asm/trace/irq_vectors.h. User space loads only the programs for
 * vectors that this kernel has. */
#define IRQ_VECTOR(word)                                                                           \
	SEC("tp_btf/" #word "_entry")                                                              \
	int BPF_PROG(word##_entry, int vector)                                                     \
	{                                                                                          \
		union vector_name name = {.letters = #word};                                       \
                                                                                                   \
		return vector_begins(vector, name.words);                                          \
	}                                                                                          \
	SEC("tp_btf/" #word "_exit")                                                               \
	int BPF_PROG(word##_exit, int vector)                                                      \
	{                                                                                          \
		return irq_ends(vector, VMNOISE_FROM_VECTOR);                                      \
	}

#include "irq_vectors.bpf.h"

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int number)
{
	struct vmnoise_cpu *state = tracked(here());
	struct vmnoise_moment now;

	if (!state)
		return 0;
	now = now_on(state);
	on_softirq_entry(state, now, number);
	return ran(state, now);
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int number)
{
	u32 cpu = here();
	struct vmnoise_cpu *state = tracked(cpu);
	struct vmnoise_moment now;

	if (!state)
		return 0;
	now = now_on(state);
	on_softirq_exit(state, cpu, now, number);
	return ran(state, now);
}

SEC("tp_btf/nmi_handler")
int BPF_PROG(nmi_handler, void *handler, __s64 delta_ns)
{
	u32 cpu = here();
	struct vmnoise_cpu *state = measured(cpu);
	struct vmnoise_moment now;

	if (!state)
		return 0;
	now = now_on(state);
	if (delta_ns > 0)
		on_nmi(state, cpu, now, delta_ns);
	return ran(state, now);
}

static __always_inline int task_switch(bool preempt, struct task_struct *prev,
				       struct task_struct *next, u32 prev_state)
{
	struct vmnoise_source source = source_from(VMNOISE_FROM_TASK, 0);
	u32 cpu = here();
	struct vmnoise_cpu *state = tracked(cpu);
	struct vmnoise_unseen unseen = {};
	struct vmnoise_moment now;

	if (!state)
		return 0;
	now = now_on(state);
	if (state->mode >= VMNOISE_MEASURED) {
		name_task(&source, prev, prev->pid);
		if (is_unseen(state, prev->pid))
			look_for_unseen(state, now, prev, &unseen);
		state->running_task = (u64)next;
		if (prev->pid == state->vcpu_tid)
			note_turns(state, prev);
	}
	on_switch(state, cpu, now, preempt, prev_state, &source, next->pid, &unseen);
	if (state->observed)
		name_task(&state->running, next, next->pid);
	return ran(state, now);
}

#include "sched_switch.bpf.h"

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *wakee)
{
	struct vmnoise_cpu *state = watched(wakee->wake_cpu, wakee->pid);
	struct vmnoise_source waker = {};
	struct vmnoise_moment now;

	if (!state)
		return 0;
	now = now_on(state);
	name_current(&waker);
	on_waking(state, here(), now, &waker);
	return ran_anywhere(now);
}

/* wake_cpu is also the CPU on which the task is, because __set_task_cpu (kernel/sched/sched.h) sets
 * both. */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	struct vmnoise_cpu *state = watched(task->wake_cpu, task->pid);
	struct vmnoise_moment now;

	if (!state)
		return 0;
	now = now_on(state);
	comes_here(state, now);
	return ran_anywhere(now);
}

/* A task that goes to sleep arms its timer itself, so the current task is the owner of the
 * timer. */
SEC("tp_btf/hrtimer_start")
int BPF_PROG(hrtimer_start, struct hrtimer *timer)
{
	struct vmnoise_cpu *state = watched(here(), current_tid());
	struct vmnoise_moment now;

	if (!state)
		return 0;
	now = now_on(state);
	on_timer_start(state, now, (u64)timer, timer->_softexpires);
	return ran(state, now);
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(hrtimer_expire_entry, struct hrtimer *timer)
{
	struct vmnoise_cpu *state = measured(here());
	struct vmnoise_moment now;

	if (!state || !is_awaited(state, (u64)timer))
		return 0;
	now = now_on(state);
	on_timer_expire(state, now);
	return ran(state, now);
}

/* Fires in set_task_cpu of kernel/sched/core.c, just before the task moves. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *task, int to_cpu)
{
	u32 cpu = task->wake_cpu;
	struct vmnoise_cpu *state = watched(cpu, task->pid);
	struct vmnoise_cpu *there = watched(to_cpu, task->pid);
	struct vmnoise_moment now;

	if (!state)
		return 0;
	now = now_on(state);
	if (on_migrate(state, cpu, now) && there)
		comes_here(there, now_on(there));
	return ran_anywhere(now);
}

/* Fires in kvm_load_guest_fpu and kvm_put_guest_fpu of arch/x86/kvm/x86.c, where KVM_RUN begins and
 * ends. */
SEC("tp_btf/kvm_fpu")
int BPF_PROG(kvm_fpu, int load)
{
	u32 cpu = here();
	struct vmnoise_cpu *state = watched(cpu, current_tid());
	struct vmnoise_source vmm = {};
	struct vmnoise_moment now;

	if (!state)
		return 0;
	now = now_on(state);
	if (load) {
		name_current(&vmm);
		on_kvm_run_enter(state, cpu, now, &vmm);
	} else {
		on_kvm_run_leave(state, now);
	}
	return ran(state, now);
}

SEC("tp_btf/kvm_userspace_exit")
int BPF_PROG(kvm_userspace_exit)
{
	u32 cpu = here();
	struct vmnoise_cpu *state = watched(cpu, current_tid());

	if (state)
		on_userspace_exit(state, cpu);
	return 0;
}

SEC("tp_btf/kvm_exit")
int BPF_PROG(kvm_exit, struct kvm_vcpu *vcpu, u32 isa)
{
	struct vmnoise_cpu *state = watched(here(), current_tid());
	struct vmnoise_moment now;
	u64 code;

	/* Since 6.12, the verifier requires a check for NULL of each pointer that comes from a
	 * module. */
	if (!state || !vcpu)
		return 0;
	now = now_on(state);
	code = exit_code(&state->vmcb, vcpu, isa);
	on_kvm_exit(state, now, code == EXIT_CODE_UNREAD ? 0 : isa, code);
	return ran(state, now);
}

SEC("tp_btf/kvm_entry")
int BPF_PROG(kvm_entry)
{
	u32 cpu = here();
	struct vmnoise_cpu *state = watched(cpu, current_tid());
	struct vmnoise_moment now;

	if (!state)
		return 0;
	now = now_on(state);
	on_kvm_entry(state, cpu, now);
	return ran(state, now);
}

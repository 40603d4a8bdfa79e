/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The tracepoints of `vmnoise exits`. */
#include "kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "exits.h"
#include "exits_handlers.bpf.h"
#include "exit_code.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline u32 here(void)
{
	return bpf_get_smp_processor_id();
}

#define ON_ENTRY(word)                                                                             \
	SEC("tp_btf/" #word)                                                                       \
	int BPF_PROG(word)                                                                         \
	{                                                                                          \
		exits_irq_entry(here(), bpf_ktime_get_ns());                                       \
		return 0;                                                                          \
	}
#define ON_EXIT(word)                                                                              \
	SEC("tp_btf/" #word)                                                                       \
	int BPF_PROG(word)                                                                         \
	{                                                                                          \
		exits_irq_exit(here(), bpf_ktime_get_ns());                                        \
		return 0;                                                                          \
	}
#define IRQ_VECTOR(word) ON_ENTRY(word##_entry) ON_EXIT(word##_exit)

ON_ENTRY(irq_handler_entry)
ON_EXIT(irq_handler_exit)
#include "irq_vectors.bpf.h"

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry)
{
	exits_softirq_entry(here(), bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit)
{
	exits_softirq_exit(here(), bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/nmi_handler")
int BPF_PROG(nmi_handler, void *handler, __s64 delta_ns)
{
	if (delta_ns > 0)
		exits_nmi(here(), bpf_ktime_get_ns(), delta_ns);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	exits_switch(here(), bpf_ktime_get_ns(), preempt, prev_state, prev->pid, next->pid);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *wakee)
{
	exits_waking(wakee->pid, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/kvm_vcpu_wakeup")
int BPF_PROG(kvm_vcpu_wakeup, u64 ns, bool waited)
{
	exits_halted(here(), ns, waited);
	return 0;
}

/* The vCPU whose thread runs here. */
static __always_inline struct exits_vcpu *vcpu_here(struct exits_cpu *slot, u32 cpu)
{
	struct exits_vcpu *vcpu = exits_vcpu(slot->vcpu);
	u64 id;

	if (vcpu)
		return vcpu;
	id = bpf_get_current_pid_tgid();
	return current_vcpu(slot, cpu, id, id >> 32);
}

SEC("tp_btf/kvm_fpu")
int BPF_PROG(kvm_fpu, int load)
{
	u64 now = bpf_ktime_get_ns();
	u32 cpu = here();
	struct exits_cpu *slot = exits_cpu(cpu);
	struct exits_vcpu *vcpu = slot ? vcpu_here(slot, cpu) : 0;

	if (!vcpu)
		return 0;
	if (load)
		exits_run_enter(vcpu, slot, cpu, now);
	else
		exits_run_leave(vcpu, slot, cpu, now);
	return 0;
}

/* Why KVM_RUN returned: all that is known of an exit where kvm_exit never fires. */
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
	struct exits_vcpu *vcpu = slot ? vcpu_here(slot, cpu) : 0;

	if (!vcpu)
		return 0;
	if (!vcpu->vm) {
		vcpu->id = kvm->vcpu_id;
		vcpu->vm = (u64)kvm->kvm;
		vcpu->isa = isa;
	}
	exits_exit(vcpu, cpu, now, exit_code(kvm, isa));
	return 0;
}

SEC("tp_btf/kvm_entry")
int BPF_PROG(kvm_entry)
{
	u64 now = bpf_ktime_get_ns();
	u32 cpu = here();
	struct exits_cpu *slot = exits_cpu(cpu);
	struct exits_vcpu *vcpu = slot ? vcpu_here(slot, cpu) : 0;

	if (vcpu)
		exits_entry(vcpu, slot, cpu, now);
	return 0;
}

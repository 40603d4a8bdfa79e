/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Test only: the handlers of `exits` behind raw_tp entries that take every value, time included,
 * from the context. */
#include "kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include "exits.h"
#include "exits_handlers.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct arguments {
	u64 cpu;
	u64 now;
	u64 values[10];
};

#define TEST(name) SEC("raw_tp/test") int test_##name(struct arguments *args)

TEST(irq_entry)
{
	exits_irq_entry(args->cpu, args->now);
	return 0;
}

TEST(irq_exit)
{
	exits_irq_exit(args->cpu, args->now);
	return 0;
}

TEST(softirq_entry)
{
	exits_softirq_entry(args->cpu, args->now);
	return 0;
}

TEST(softirq_exit)
{
	exits_softirq_exit(args->cpu, args->now);
	return 0;
}

TEST(nmi)
{
	exits_nmi(args->cpu, args->now, args->values[0]);
	return 0;
}

TEST(switch)
{
	exits_switch(args->cpu, args->now, args->values[0], args->values[1], args->values[2],
		     args->values[3]);
	return 0;
}

TEST(waking)
{
	exits_waking(args->values[0], args->now);
	return 0;
}

TEST(halted)
{
	exits_halted(args->cpu, args->values[0], args->values[1]);
	return 0;
}

/* KVM's events name their thread, as the tracepoints find it. */
static __always_inline struct exits_vcpu *vcpu_of(struct arguments *args)
{
	struct exits_cpu *cpu = exits_cpu(args->cpu);

	return cpu ? current_vcpu(cpu, args->cpu, args->values[0], args->values[0]) : 0;
}

TEST(run_leave)
{
	struct exits_cpu *cpu = exits_cpu(args->cpu);
	struct exits_vcpu *vcpu = vcpu_of(args);

	if (cpu && vcpu)
		exits_run_leave(vcpu, cpu, args->cpu, args->now);
	return 0;
}

TEST(run_enter)
{
	struct exits_cpu *cpu = exits_cpu(args->cpu);
	struct exits_vcpu *vcpu = vcpu_of(args);

	if (cpu && vcpu)
		exits_run_enter(vcpu, cpu, args->cpu, args->now);
	return 0;
}

TEST(exit)
{
	struct exits_vcpu *vcpu = vcpu_of(args);

	if (vcpu) {
		vcpu->isa = 2;
		exits_exit(vcpu, args->cpu, args->now, args->values[1]);
	}
	return 0;
}

TEST(entry)
{
	struct exits_cpu *cpu = exits_cpu(args->cpu);
	struct exits_vcpu *vcpu = vcpu_of(args);

	if (cpu && vcpu)
		exits_entry(vcpu, cpu, args->cpu, args->now);
	return 0;
}

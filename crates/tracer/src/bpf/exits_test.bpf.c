/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Test only: the handlers of `exits` behind raw_tp entries that take every value, time included,
 * from the context. */
#include "kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "exits.h"
#include "exits_handlers.bpf.h"
#include "sources.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct arguments {
	u64 cpu;
	u64 now;
	u64 values[10];
};

#define TEST(name) SEC("raw_tp/test") int test_##name(struct arguments *args)

/* A task of this number. */
static __always_inline struct vmnoise_source task(u32 tid)
{
	struct vmnoise_source source = source_from(VMNOISE_FROM_TASK, tid);

	__builtin_memcpy(source.name, "task", 4);
	return source;
}

TEST(irq_entry)
{
	struct vmnoise_source *source = exits_irq_entry(args->cpu, args->now);
	union vector_name name = {.letters = "local_timer"};

	if (source)
		name_vector(source, 236, name.words);
	return 0;
}

TEST(irq_exit)
{
	exits_irq_exit(args->cpu, args->now);
	return 0;
}

TEST(softirq_entry)
{
	exits_softirq_entry(args->cpu, args->now, args->values[0]);
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
	struct exits_cpu *here = exits_cpu(args->cpu);
	struct vmnoise_source prev = task(args->values[2]);

	if (here)
		exits_switch(here, args->cpu, args->now, args->values[0], args->values[1], &prev,
			     args->values[3]);
	return 0;
}

TEST(migrate)
{
	struct vmnoise_source running;
	struct exits_vcpu *vcpu;
	struct exits_cpu *there;
	u32 index;

	vcpu = vcpu_of_thread(args->values[0], &index);
	there = vcpu ? exits_cpu(vcpu->cpu) : 0;
	if (!there)
		return 0;
	running = task(there->running_tid);
	exits_migrate(vcpu, index, there, args->cpu, args->now, &running);
	return 0;
}

TEST(waking)
{
	struct vmnoise_source *waker = exits_waking(args->cpu, args->values[0], args->now);

	if (waker)
		*waker = task(args->values[1]);
	return 0;
}

TEST(halted)
{
	exits_halted(args->cpu, args->now, args->values[0], args->values[1]);
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

TEST(tsc_write)
{
	tell_tsc_write(args->now, args->values[0], args->values[1], args->values[2],
		       args->values[3]);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Test only: raw_tp programs that call the handlers. All values come from the context, including
 * the time. BPF_PROG_RUN accepts a context for raw_tp programs, but not for tp_btf programs. */
#include "kernel.bpf.h"
#include "vmnoise.h"
#include "state.bpf.h"
#include "steal.bpf.h"
#include "handlers.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct arguments {
	u64 cpu;
	struct vmnoise_moment now;
	u64 values[9];
};

/* Returns a source from two context values. The first has the id and the origin, and the second has
 * the first eight bytes of the name. */
static __always_inline struct vmnoise_source source_at(const u64 *values)
{
	struct vmnoise_source source = source_from(values[0] >> 32, values[0]);

	*(u32 *)&source.name[0] = values[1];
	*(u32 *)&source.name[4] = values[1] >> 32;
	return source;
}

/* Samples a steal clock in the context. The word before the clock shows whether the clock has Xen's
 * layout. */
SEC("raw_tp/test")
int test_steal_clock(struct arguments *args)
{
	struct vmnoise_cpu *state = measured(args->cpu);
	struct vmnoise_moment now;

	if (!state)
		return 0;
	state->steal_clock = (u64)&args->values[1];
	state->xen_clock = args->values[0];
	now = now_on(state);
	state->own_steal_ns = now.steal_ns;
	state->own_version = is_written(&args->values[1], state->xen_clock);
	return 0;
}

/* Memory of a steal clock that stays where it is between two programs. */
struct kvm_steal_time own_clock;

/* Makes `own_clock` the steal clock of a CPU. The context has the clock's time and version. */
SEC("raw_tp/test")
int test_own_clock(struct arguments *args)
{
	struct vmnoise_cpu *state = measured(args->cpu);

	if (!state)
		return 0;
	own_clock.steal = args->values[0];
	own_clock.version = args->values[1];
	state->steal_clock = (u64)&own_clock;
	state->xen_clock = 0;
	return 0;
}

SEC("raw_tp/test")
int test_irq_entry(struct arguments *args)
{
	struct vmnoise_source whose = source_at(args->values);
	struct vmnoise_cpu *state = tracked(args->cpu);
	struct vmnoise_source *source;

	if (!state)
		return 0;
	source = on_irq_entry(state, args->now);
	if (source)
		*source = whose;
	return 0;
}

SEC("raw_tp/test")
int test_irq_exit(struct arguments *args)
{
	struct vmnoise_cpu *state = tracked(args->cpu);

	if (state)
		on_irq_exit(state, args->cpu, args->now, args->values[0], args->values[0] >> 32);
	return 0;
}

SEC("raw_tp/test")
int test_softirq_entry(struct arguments *args)
{
	struct vmnoise_cpu *state = tracked(args->cpu);

	if (state)
		on_softirq_entry(state, args->now, args->values[0]);
	return 0;
}

SEC("raw_tp/test")
int test_softirq_exit(struct arguments *args)
{
	struct vmnoise_cpu *state = tracked(args->cpu);

	if (state)
		on_softirq_exit(state, args->cpu, args->now, args->values[0]);
	return 0;
}

SEC("raw_tp/test")
int test_nmi(struct arguments *args)
{
	struct vmnoise_cpu *state = measured(args->cpu);

	if (state)
		on_nmi(state, args->cpu, args->now, args->values[0]);
	return 0;
}

SEC("raw_tp/test")
int test_switch(struct arguments *args)
{
	struct vmnoise_source prev = source_at(args->values);
	struct vmnoise_cpu *state = tracked(args->cpu);
	struct vmnoise_unseen unseen;

	if (!state)
		return 0;
	unseen.left_ns = args->values[5];
	unseen.came_ns = args->values[6];
	unseen.beside_vcpu = args->values[7];
	on_switch(state, args->cpu, args->now, args->values[4], args->values[3], &prev,
		  args->values[2], &unseen);
	state->running = prev;
	state->running.id = args->values[2];
	return 0;
}

SEC("raw_tp/test")
int test_wakeup(struct arguments *args)
{
	struct vmnoise_cpu *state = watched(args->cpu, args->values[0]);

	if (state)
		comes_here(state, args->now);
	return 0;
}

SEC("raw_tp/test")
int test_migrate(struct arguments *args)
{
	struct vmnoise_cpu *there = watched(args->values[1], args->values[0]);
	struct vmnoise_cpu *state = watched(args->cpu, args->values[0]);

	if (state && on_migrate(state, args->cpu, args->now) && there)
		comes_here(there, args->now);
	return 0;
}

SEC("raw_tp/test")
int test_waking(struct arguments *args)
{
	struct vmnoise_cpu *state = watched(args->cpu, args->values[2]);
	struct vmnoise_source waker = source_at(args->values);

	if (state)
		on_waking(state, args->values[3], args->now, &waker);
	return 0;
}

SEC("raw_tp/test")
int test_timer_start(struct arguments *args)
{
	struct vmnoise_cpu *state = watched(args->cpu, args->values[0]);

	if (state)
		on_timer_start(state, args->now, args->values[1], args->values[2]);
	return 0;
}

SEC("raw_tp/test")
int test_timer_expire(struct arguments *args)
{
	struct vmnoise_cpu *state = measured(args->cpu);

	if (state && is_awaited(state, args->values[0]))
		on_timer_expire(state, args->now);
	return 0;
}

SEC("raw_tp/test")
int test_kvm_run_leave(struct arguments *args)
{
	struct vmnoise_cpu *state = watched(args->cpu, args->values[0]);

	if (state)
		on_kvm_run_leave(state, args->now);
	return 0;
}

SEC("raw_tp/test")
int test_kvm_run_enter(struct arguments *args)
{
	struct vmnoise_source vmm = source_at(args->values);
	struct vmnoise_cpu *state = watched(args->cpu, vmm.id);

	if (state)
		on_kvm_run_enter(state, args->cpu, args->now, &vmm);
	return 0;
}

SEC("raw_tp/test")
int test_userspace_exit(struct arguments *args)
{
	struct vmnoise_cpu *state = watched(args->cpu, args->values[0]);

	if (state)
		on_userspace_exit(state, args->cpu);
	return 0;
}

SEC("raw_tp/test")
int test_kvm_exit(struct arguments *args)
{
	struct vmnoise_cpu *state = watched(args->cpu, args->values[0]);

	if (state)
		on_kvm_exit(state, args->now, args->values[1], args->values[2]);
	return 0;
}

SEC("raw_tp/test")
int test_kvm_entry(struct arguments *args)
{
	struct vmnoise_cpu *state = watched(args->cpu, args->values[0]);

	if (state)
		on_kvm_entry(state, args->cpu, args->now);
	return 0;
}

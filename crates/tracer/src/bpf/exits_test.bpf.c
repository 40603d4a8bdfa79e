/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Test only: feeds a whole stream to the handlers of `exits`. Each event has all its values, also
 * the time. */
#include "kernel.bpf.h"
#include "exits.h"

/* An event in the middle of a handler: an NMI, or another CPU that wakes a thread. */
struct amid {
	u64 cpu;
	u64 now;
	u64 nmi_ns;
	u64 wakes;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct amid);
} amid SEC(".maps");

static __noinline int comes_amid(void);
#define AMID() comes_amid()
/* Short, because the tests' lives are short: the same as ENTRY_NS of tests/bpf_run/painted.rs. */
#define ENTRY_NS 30

#include "exits_handlers.bpf.h"
#include "sources.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct arguments {
	u64 cpu;
	u64 now;
	u64 values[10];
};

/* `kind` is an index in EVENTS of tests/bpf_run/harness.rs. */
struct event {
	u64 kind;
	struct arguments args;
};

#define EVENTS 128
struct stream {
	u64 count;
	struct event events[EVENTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stream);
} stream SEC(".maps");

#define TEST(name) static __noinline int test_##name(struct arguments *args)

/* Returns a 0 that the compiler cannot know. Otherwise it would leave in the register what is
 * there, and the verifier rejects a pointer to the stack. */
static __always_inline int done(void)
{
	int zero = 0;

	asm volatile("" : "+r"(zero));
	return zero;
}

/* Returns a task with this thread id. */
static __always_inline struct vmnoise_source task(u32 tid)
{
	struct vmnoise_source source = source_from(VMNOISE_FROM_TASK, tid);

	__builtin_memcpy(source.name, "task", 4);
	return source;
}

/* Returns the vector of an event: the timer's, if none is given. */
static __always_inline u32 vector_of(const struct arguments *args)
{
	return args->values[0] ?: 236;
}

TEST(irq_entry)
{
	u32 vector = vector_of(args);
	struct vmnoise_source *source =
	    exits_irq_entry(args->cpu, args->now, vector, VMNOISE_FROM_VECTOR);
	union vector_name name = {.letters = "local_timer"};

	if (source)
		name_vector(source, vector, name.words);
	return done();
}

TEST(irq_exit)
{
	exits_irq_exit(args->cpu, args->now, vector_of(args), VMNOISE_FROM_VECTOR);
	return done();
}

TEST(softirq_entry)
{
	exits_softirq_entry(args->cpu, args->now, args->values[0]);
	return done();
}

TEST(softirq_exit)
{
	exits_softirq_exit(args->cpu, args->now, args->values[0]);
	return done();
}

TEST(nmi)
{
	exits_nmi(args->cpu, args->now, args->values[0]);
	return done();
}

TEST(switch)
{
	struct exits_cpu *here = exits_cpu(args->cpu);
	struct vmnoise_source prev = task(args->values[2]);

	if (here)
		exits_switch(here, args->cpu, args->now, args->values[0], args->values[1], &prev,
			     args->values[3]);
	return done();
}

/* Values: the task that left, its departure time, the other task's arrival time, the other task. */
TEST(hidden_switch)
{
	struct exits_hidden it = {
	    .left = task(args->values[0]),
	    .left_ns = args->values[1],
	    .came_ns = args->values[2],
	    .tid = args->values[3],
	};

	rebuild_switch(exits_cpu(args->cpu), args->cpu, args->now, &it);
	return done();
}

TEST(migrate)
{
	struct vmnoise_source running;
	struct exits_vcpu *vcpu;
	struct exits_cpu *there;
	u32 index, on;

	vcpu = vcpu_of_thread(args->values[0], &index);
	there = vcpu ? exits_cpu(vcpu->cpu) : 0;
	if (!there)
		return 0;
	/* 16 bits for each CPU: the running task plus 1. 0: the task that was seen to come. */
	on = args->values[1] >> 16 * (vcpu->cpu % 3) & 0xffff;
	running = task(on && on - 1 != there->running_tid ? 0 : there->running_tid);
	exits_migrate(vcpu, index, there, args->cpu, args->now, &running);
	return done();
}

TEST(waking)
{
	struct vmnoise_source *waker = exits_waking(args->cpu, args->values[0], args->now);

	if (waker)
		*waker = task(args->values[1]);
	return done();
}

TEST(halted)
{
	struct exits_cpu *cpu = exits_cpu(args->cpu);
	struct exits_vcpu *vcpu = cpu ? exits_vcpu(cpu->vcpu) : 0;
	u32 tid = args->values[2] ?: (vcpu ? vcpu->tid : 0);

	exits_halted(args->cpu, args->now, args->values[0], args->values[1], tid);
	return done();
}

/* Returns the vCPU of an event of KVM, which names its thread. */
static __always_inline struct exits_vcpu *vcpu_of(struct arguments *args)
{
	struct exits_cpu *cpu = exits_cpu(args->cpu);
	u64 tid = args->values[0];

	return cpu ? current_vcpu(cpu, args->cpu, args->now, tid, tid) : 0;
}

/* Returns the vCPU that is here. The thread is looked up only if none is known to be here. */
static __always_inline struct exits_vcpu *vcpu_here(struct arguments *args)
{
	struct exits_cpu *cpu = exits_cpu(args->cpu);
	struct exits_vcpu *vcpu = cpu ? exits_vcpu(cpu->vcpu) : 0;

	return vcpu ? vcpu : vcpu_of(args);
}

TEST(run_leave)
{
	struct exits_cpu *cpu = exits_cpu(args->cpu);
	struct exits_vcpu *vcpu = kvm_run_only ? vcpu_of(args) : vcpu_here(args);

	if (cpu && vcpu)
		exits_run_leave(vcpu, cpu, args->cpu, args->now, kvm_run_only);
	return done();
}

TEST(run_enter)
{
	struct exits_cpu *cpu = exits_cpu(args->cpu);
	struct exits_vcpu *vcpu = kvm_run_only ? vcpu_of(args) : vcpu_here(args);

	if (cpu && vcpu)
		exits_run_enter(vcpu, cpu, args->cpu, args->now, kvm_run_only);
	return done();
}

TEST(exit)
{
	struct exits_cpu *cpu = exits_cpu(args->cpu);
	struct exits_vcpu *vcpu = vcpu_here(args);

	if (vcpu) {
		vcpu->isa = 2;
		vcpu->vm = args->values[2];
		if (cpu)
			exits_exit(vcpu, cpu, args->cpu, args->now, args->values[1]);
	}
	return done();
}

TEST(entry)
{
	struct exits_cpu *cpu = exits_cpu(args->cpu);
	struct exits_vcpu *vcpu = vcpu_here(args);

	if (vcpu && cpu && args->values[1] && may_be_new_to(vcpu, args->values[1])) {
		struct exits_entered what = {
		    .kvm_vcpu = args->values[1],
		    .vm = args->values[2],
		    .exits = args->values[3],
		};

		if (is_new_to(vcpu, &what))
			vcpu = exits_vcpu(takes_up(cpu, args->cpu, args->now, &what,
						   args->values[0] << 32 | (u32)args->values[0]));
	}
	if (cpu && vcpu)
		exits_entry(vcpu, cpu, args->cpu, args->now);
	return done();
}

TEST(thread_ends)
{
	exits_thread_ends(args->values[0]);
	return done();
}

TEST(tsc_write)
{
	tell_tsc_write(args->now, args->values[0], args->values[1], args->values[2],
		       args->values[3]);
	return done();
}

static __noinline int comes_amid(void)
{
	u32 only = 0;
	struct amid *it = bpf_map_lookup_elem(&amid, &only);
	struct amid comes;

	if (!it)
		return done();
	comes = *it;
	it->nmi_ns = it->wakes = 0;
	if (comes.nmi_ns)
		exits_nmi(comes.cpu, comes.now, comes.nmi_ns);
	if (comes.wakes)
		exits_waking(comes.cpu, comes.wakes, comes.now);
	return done();
}

TEST(amid)
{
	struct amid comes = {
	    .cpu = args->cpu,
	    .now = args->now,
	    .nmi_ns = args->values[0],
	    .wakes = args->values[1],
	};
	u32 only = 0;

	bpf_map_update_elem(&amid, &only, &comes, 0);
	return done();
}

static __always_inline void forget(void *value, u32 bytes)
{
	volatile u64 *words = value;
	u32 word;

	for (word = 0; word < bytes / sizeof(*words); word++)
		words[word] = 0;
}

/* Forgets all CPUs, vCPUs and reasons of a test. */
TEST(reset)
{
	u32 index, key;

	for (index = 0; index < 4; index++) {
		struct exits_cpu *cpu = exits_cpu(index);

		if (cpu)
			forget(cpu, sizeof(*cpu));
	}
	for (index = 1; index < 3; index++) {
		struct exits_vcpu *vcpu = exits_vcpu(index);

		if (!vcpu)
			return 0;
		bpf_map_delete_elem(&threads, &vcpu->tid);
		forget(vcpu, sizeof(*vcpu));
		for (key = 0; key < 6; key++) {
			u32 place = index * EXITS_REASONS + key;
			struct exits_reason *reason = bpf_map_lookup_elem(&reasons, &place);

			if (reason)
				forget(reason, sizeof(*reason));
		}
	}
	for (index = 0; index < 8; index++) {
		u32 place;

		bpf_map_pop_elem(&free_places, &place);
		bpf_map_pop_elem(&newcomers, &place);
		bpf_map_pop_elem(&ended, &place);
	}
	return 0;
}

static long happens(u32 index, void *unused)
{
	struct stream *all;
	struct event *event;
	u32 key = 0;

	all = bpf_map_lookup_elem(&stream, &key);
	if (!all || index >= EVENTS || index >= all->count)
		return 1;
	event = &all->events[index];
	switch (event->kind) {
	case 0:
		return test_irq_entry(&event->args);
	case 1:
		return test_irq_exit(&event->args);
	case 2:
		return test_softirq_entry(&event->args);
	case 3:
		return test_softirq_exit(&event->args);
	case 4:
		return test_nmi(&event->args);
	case 5:
		return test_switch(&event->args);
	case 6:
		return test_migrate(&event->args);
	case 7:
		return test_waking(&event->args);
	case 8:
		return test_halted(&event->args);
	case 9:
		return test_run_leave(&event->args);
	case 10:
		return test_run_enter(&event->args);
	case 11:
		return test_exit(&event->args);
	case 12:
		return test_entry(&event->args);
	case 13:
		return test_tsc_write(&event->args);
	case 14:
		return test_reset(&event->args);
	case 15:
		return test_thread_ends(&event->args);
	case 16:
		return test_amid(&event->args);
	case 17:
		return test_hidden_switch(&event->args);
	}
	return 1;
}

SEC("raw_tp/test") int test_stream(void *unused)
{
	bpf_loop(EVENTS, happens, 0, 0);
	return 0;
}

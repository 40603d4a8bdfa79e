/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What each event means to a vCPU, as functions of plain values: no context, no clock, no current
 * task. Everything is counted here, in the kernel: user space only reads. */
#ifndef VMNOISE_EXITS_HANDLERS_BPF_H
#define VMNOISE_EXITS_HANDLERS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct exits_cpu);
} exit_cpus SEC(".maps");

/* Index 0 is nobody. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct exits_vcpu);
} vcpus SEC(".maps");

/* EXITS_REASONS for each vCPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct exits_reason);
} reasons SEC(".maps");

/* Index in `vcpus` by thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, u32);
} threads SEC(".maps");

/* The reason's place by its code, given out as codes come. */
u32 reason_of_code[512];
u64 code_of_reason[EXITS_REASONS];
u32 reasons_known;
u32 vcpus_known;
/* Written by user space before loading: kvm_exit and kvm_entry never fire here (kvm_pvm), so an
 * exit is the time between two KVM_RUN. */
const volatile bool kvm_run_only;
/* vCPUs that found no room. */
u64 vcpus_lost;

static __always_inline struct exits_cpu *exits_cpu(u32 cpu)
{
	return bpf_map_lookup_elem(&exit_cpus, &cpu);
}

static __always_inline struct exits_vcpu *exits_vcpu(u32 index)
{
	return index ? bpf_map_lookup_elem(&vcpus, &index) : 0;
}

static __always_inline struct exits_vcpu *vcpu_of_thread(u32 tid, u32 *index)
{
	u32 *found = bpf_map_lookup_elem(&threads, &tid);

	if (!found)
		return 0;
	*index = *found;
	return exits_vcpu(*index);
}

/* A vCPU that was not seen before. */
static __always_inline struct exits_vcpu *new_vcpu(u32 tid, u32 tgid, u32 *index)
{
	struct exits_vcpu *vcpu;

	*index = __sync_fetch_and_add(&vcpus_known, 1) + 1;
	vcpu = exits_vcpu(*index);
	if (!vcpu || bpf_map_update_elem(&threads, &tid, index, BPF_NOEXIST)) {
		__sync_fetch_and_add(&vcpus_lost, 1);
		return 0;
	}
	vcpu->tid = tid;
	vcpu->tgid = tgid;
	vcpu->id = ~0U;
	return vcpu;
}

static __always_inline u64 minus(u64 from, u64 what)
{
	return from > what ? from - what : 0;
}

/* The vCPU's thread is current here, and nowhere else. */
static __always_inline void arrives(struct exits_vcpu *vcpu, u32 index, struct exits_cpu *here,
				    u32 cpu)
{
	struct exits_cpu *before = vcpu->cpu != cpu ? exits_cpu(vcpu->cpu) : 0;

	/* A switch that nobody told would leave it there. */
	if (before && before->vcpu == index)
		before->vcpu = 0;
	here->vcpu = index;
	vcpu->cpu = cpu;
	vcpu->mark = here->done;
}

/* The vCPU whose thread is current on this CPU, were it not seen before. */
static __always_inline struct exits_vcpu *current_vcpu(struct exits_cpu *here, u32 cpu, u32 tid,
						       u32 tgid)
{
	struct exits_vcpu *vcpu = exits_vcpu(here->vcpu);
	u32 index;

	if (vcpu)
		return vcpu;
	vcpu = vcpu_of_thread(tid, &index);
	if (!vcpu)
		vcpu = new_vcpu(tid, tgid, &index);
	if (vcpu)
		arrives(vcpu, index, here, cpu);
	return vcpu;
}

/* The first sign of host work while the guest is entered: on SVM before 6.12 kvm_exit comes only
 * after the interrupt that caused it, so the exit starts here. */
static __always_inline void host_begins(struct exits_cpu *here, u32 cpu, u64 now)
{
	struct exits_vcpu *vcpu = exits_vcpu(here->vcpu);

	if (vcpu && vcpu->entered && !vcpu->first_host) {
		vcpu->first_host = now;
		vcpu->now.exit_cpu = cpu;
	}
}

static __always_inline void exits_irq_entry(u32 cpu, u64 now)
{
	struct exits_cpu *here = exits_cpu(cpu);

	if (!here)
		return;
	host_begins(here, cpu, now);
	if (here->irq_depth++)
		return;
	here->irq_start = now;
	here->irq_taken = here->done.nmi_ns;
}

static __always_inline void exits_irq_exit(u32 cpu, u64 now)
{
	struct exits_cpu *here = exits_cpu(cpu);

	/* An end without its begin was in progress when tracing began. */
	if (!here || !here->irq_depth || --here->irq_depth)
		return;
	here->done.irq_ns += minus(now - here->irq_start, here->done.nmi_ns - here->irq_taken);
}

static __always_inline void exits_softirq_entry(u32 cpu, u64 now)
{
	struct exits_cpu *here = exits_cpu(cpu);

	if (!here)
		return;
	host_begins(here, cpu, now);
	here->softirq_start = now;
	here->softirq_taken = here->done.irq_ns + here->done.nmi_ns;
}

static __always_inline void softirq_ends(struct exits_cpu *here, u64 now)
{
	u64 taken = here->done.irq_ns + here->done.nmi_ns - here->softirq_taken;

	if (here->softirq_start)
		here->done.softirq_ns += minus(now - here->softirq_start, taken);
	here->softirq_start = 0;
}

static __always_inline void exits_softirq_exit(u32 cpu, u64 now)
{
	struct exits_cpu *here = exits_cpu(cpu);

	if (here)
		softirq_ends(here, now);
}

static __always_inline void exits_nmi(u32 cpu, u64 now, u64 delta_ns)
{
	struct exits_cpu *here = exits_cpu(cpu);

	if (!here)
		return;
	host_begins(here, cpu, now - delta_ns);
	here->done.nmi_ns += delta_ns;
}

static __always_inline u64 interrupts(const struct exits_work *done)
{
	return done->irq_ns + done->softirq_ns + done->nmi_ns;
}

/* Books the interrupts between two states of a CPU; returns how long they were. */
static __always_inline u64 book_interrupts(struct exits_vcpu *vcpu, const struct exits_work *from,
					   const struct exits_work *to)
{
	struct exits_split *split = &vcpu->now.split;
	u64 irq_ns = to->irq_ns - from->irq_ns;
	u64 softirq_ns = to->softirq_ns - from->softirq_ns;
	u64 nmi_ns = to->nmi_ns - from->nmi_ns;

	split->host_irq_ns += irq_ns;
	split->host_softirq_ns += softirq_ns;
	split->host_nmi_ns += nmi_ns;
	vcpu->taken += irq_ns + softirq_ns + nmi_ns;
	return irq_ns + softirq_ns + nmi_ns;
}

/* Brings the books up to this instant, while the vCPU's thread has the CPU. */
static __always_inline void book_here(struct exits_vcpu *vcpu, struct exits_cpu *here)
{
	if (interrupts(&here->done) == interrupts(&vcpu->mark))
		return;
	book_interrupts(vcpu, &vcpu->mark, &here->done);
	vcpu->mark = here->done;
}

/* An interval that others had, of which idle is throttling and the rest a preemption. */
static __always_inline void book_waiting(struct exits_vcpu *vcpu, u64 waited,
					 const struct exits_work *from, const struct exits_work *to)
{
	u64 rest = minus(waited, book_interrupts(vcpu, from, to));
	u64 idle_ns = to->idle_ns - from->idle_ns;

	if (idle_ns > rest)
		idle_ns = rest;
	vcpu->now.split.throttled_ns += idle_ns;
	vcpu->now.split.preempted_ns += rest - idle_ns;
	vcpu->taken += rest;
}

/* Forgets the exit in progress. */
static __always_inline void start_afresh(struct exits_vcpu *vcpu)
{
	__builtin_memset(&vcpu->now.split, 0, sizeof(vcpu->now.split));
	vcpu->now.heavy = 0;
	vcpu->taken = 0;
	vcpu->blocked = 0;
	vcpu->in_exit = 0;
}

/* Where no entry tells, a vCPU is measured from the first sign of it. */
static __always_inline void seen(struct exits_vcpu *vcpu, u64 now)
{
	if (!vcpu->first_mono_ns) {
		vcpu->first_mono_ns = now;
		start_afresh(vcpu);
	}
	vcpu->last_mono_ns = now;
}

static __always_inline void add_split(struct exits_split *to, const struct exits_split *from)
{
	to->vmm_ns += from->vmm_ns;
	to->preempted_ns += from->preempted_ns;
	to->blocked_ns += from->blocked_ns;
	to->throttled_ns += from->throttled_ns;
	to->host_irq_ns += from->host_irq_ns;
	to->host_softirq_ns += from->host_softirq_ns;
	to->host_nmi_ns += from->host_nmi_ns;
	to->halted_ns += from->halted_ns;
}

/* What was taken inside KVM_RUN belongs to no exit that anybody saw. */
static __always_inline void book_inside_run(struct exits_vcpu *vcpu)
{
	add_split(&vcpu->split, &vcpu->now.split);
	vcpu->exit_ns += vcpu->taken;
	start_afresh(vcpu);
}

static __always_inline void switched_out(struct exits_vcpu *vcpu, struct exits_cpu *here, u32 cpu,
					 u64 now, bool runnable)
{
	host_begins(here, cpu, now);
	book_here(vcpu, here);
	vcpu->off_start = now;
	vcpu->off_runnable = runnable;
	vcpu->wake = 0;
}

static __always_inline void switched_in(struct exits_vcpu *vcpu, struct exits_cpu *here, u32 cpu,
					u64 now, bool from_idle)
{
	/* Interrupts of a CPU it did not wait on are none of its business. */
	bool same_cpu = vcpu->cpu == cpu;
	struct exits_work *from = same_cpu ? &vcpu->mark : &here->done;
	struct exits_work *middle = &here->done;
	u64 woken = now;

	if (!vcpu->off_start)
		return;
	if (vcpu->off_runnable) {
		book_waiting(vcpu, now - vcpu->off_start, from, &here->done);
	} else {
		/* Where only idle had the CPU, the latency of the wake-up is the sleep's. */
		if (vcpu->wake && !from_idle) {
			woken = vcpu->wake;
			middle = same_cpu ? &vcpu->wake_mark : middle;
		}
		vcpu->in_sleep.irq_ns = middle->irq_ns - from->irq_ns;
		vcpu->in_sleep.softirq_ns = middle->softirq_ns - from->softirq_ns;
		vcpu->in_sleep.nmi_ns = middle->nmi_ns - from->nmi_ns;
		vcpu->blocked = minus(woken - vcpu->off_start, book_interrupts(vcpu, from, middle));
		vcpu->now.split.blocked_ns += vcpu->blocked;
		vcpu->taken += vcpu->blocked;
		if (woken != now)
			book_waiting(vcpu, now - woken, middle, &here->done);
	}
	vcpu->off_start = 0;
}

static __always_inline void exits_switch(u32 cpu, u64 now, bool preempted, u32 prev_state,
					 u32 prev_tid, u32 next_tid)
{
	struct exits_cpu *here = exits_cpu(cpu);
	struct exits_vcpu *vcpu;
	u32 index = 0;

	if (!here)
		return;
	/* No interrupt survives a switch; a softirq of PREEMPT_RT, a thread's work, may. */
	here->irq_depth = 0;
	softirq_ends(here, now);
	if (here->idle_start) {
		here->done.idle_ns +=
		    now - here->idle_start - (interrupts(&here->done) - here->idle_taken);
		here->idle_start = 0;
	}
	vcpu = exits_vcpu(here->vcpu);
	if (vcpu)
		switched_out(vcpu, here, cpu, now, preempted || !prev_state);
	if (!next_tid) {
		here->idle_start = now;
		here->idle_taken = interrupts(&here->done);
	}
	vcpu = next_tid ? vcpu_of_thread(next_tid, &index) : 0;
	here->vcpu = 0;
	if (vcpu) {
		vcpu->now.preempted_by = prev_tid;
		switched_in(vcpu, here, cpu, now, !prev_tid);
		arrives(vcpu, index, here, cpu);
		if (kvm_run_only && !vcpu->in_exit) {
			seen(vcpu, now);
			book_inside_run(vcpu);
		}
	}
}

static __always_inline void exits_waking(u32 tid, u64 now)
{
	struct exits_cpu *there;
	struct exits_vcpu *vcpu;
	u32 index;

	vcpu = vcpu_of_thread(tid, &index);
	if (!vcpu || vcpu->wake)
		return;
	vcpu->wake = now;
	there = exits_cpu(vcpu->cpu);
	if (there)
		vcpu->wake_mark = there->done;
}

/* KVM tells how long the guest's own sleep was, once it is over: what was booked as blocked by
 * then is none. */
static __always_inline void exits_halted(u32 cpu, u64 halt_ns, bool slept)
{
	struct exits_cpu *here = exits_cpu(cpu);
	struct exits_vcpu *vcpu = here ? exits_vcpu(here->vcpu) : 0;
	struct exits_split *split;

	if (!vcpu)
		return;
	book_here(vcpu, here);
	split = &vcpu->now.split;
	if (slept && vcpu->blocked) {
		split->blocked_ns -= vcpu->blocked;
		split->host_irq_ns -= vcpu->in_sleep.irq_ns;
		split->host_softirq_ns -= vcpu->in_sleep.softirq_ns;
		split->host_nmi_ns -= vcpu->in_sleep.nmi_ns;
		vcpu->taken -= vcpu->blocked + interrupts(&vcpu->in_sleep);
	}
	/* What others had of it after the wake-up, or while it polled, is noise. */
	halt_ns = minus(halt_ns, vcpu->taken);
	split->halted_ns += halt_ns;
	vcpu->taken += halt_ns;
	vcpu->blocked = 0;
}

/* Codes fit in 9 bits, but for those above 0x3ff that SVM made up and for failures. */
static __always_inline u32 reason_index(u64 code)
{
	u32 short_code = code < 0x100 ? code : 0x100 | (code & 0xff);
	u32 place = reason_of_code[short_code & 511];

	if (place)
		return place - 1;
	place = __sync_fetch_and_add(&reasons_known, 1);
	if (place >= EXITS_REASONS)
		place = EXITS_REASONS - 1;
	code_of_reason[place] = code;
	reason_of_code[short_code & 511] = place + 1;
	return place;
}

static __always_inline void exits_exit(struct exits_vcpu *vcpu, u32 cpu, u64 now, u64 code)
{
	vcpu->now.start_mono_ns = vcpu->first_host ?: now;
	if (!vcpu->first_host)
		vcpu->now.exit_cpu = cpu;
	vcpu->now.code = code;
	vcpu->in_exit = 1;
	vcpu->entered = 0;
}

/* Four buckets for each power of two: the two bits below the highest one. */
static __always_inline u32 bucket_of(u64 ns)
{
	u64 rest = ns;
	u32 log = 0;

	if (rest >> 32)
		return EXITS_BUCKETS - 1;
	if (rest >> 16) {
		rest >>= 16;
		log += 16;
	}
	if (rest >> 8) {
		rest >>= 8;
		log += 8;
	}
	if (rest >> 4) {
		rest >>= 4;
		log += 4;
	}
	if (rest >> 2) {
		rest >>= 2;
		log += 2;
	}
	log += rest >> 1;
	if (log < 2)
		return ns;
	return log * 4 + ((ns >> (log - 2)) & 3);
}

static __always_inline void exit_ends(struct exits_vcpu *vcpu, u32 index, u32 cpu, u64 now)
{
	u64 dur_ns = now - vcpu->now.start_mono_ns;
	u32 key = index * EXITS_REASONS + reason_index(vcpu->now.code);
	struct exits_reason *reason = bpf_map_lookup_elem(&reasons, &key);
	u32 bucket = bucket_of(dur_ns);

	vcpu->now.end_mono_ns = now;
	vcpu->now.entry_cpu = cpu;
	vcpu->exits++;
	vcpu->exit_ns += dur_ns;
	if (dur_ns - vcpu->now.split.halted_ns >
	    vcpu->worst.end_mono_ns - vcpu->worst.start_mono_ns - vcpu->worst.split.halted_ns)
		vcpu->worst = vcpu->now;
	if (reason) {
		reason->count++;
		reason->total_ns += dur_ns;
		if (dur_ns > reason->max_ns)
			reason->max_ns = dur_ns;
		if (dur_ns < reason->min_ns || !reason->min_ns)
			reason->min_ns = dur_ns;
		if (bucket < EXITS_BUCKETS)
			reason->buckets[bucket]++;
	}
	/* Most exits never left KVM, and nobody took anything from them. */
	if (vcpu->taken || vcpu->now.heavy) {
		add_split(&vcpu->split, &vcpu->now.split);
		vcpu->heavy += vcpu->now.heavy;
		if (reason) {
			add_split(&reason->split, &vcpu->now.split);
			reason->heavy += vcpu->now.heavy;
		}
		start_afresh(vcpu);
	}
	vcpu->in_exit = 0;
}

static __always_inline void exits_run_leave(struct exits_vcpu *vcpu, struct exits_cpu *here,
					    u32 cpu, u64 now)
{
	book_here(vcpu, here);
	if (kvm_run_only) {
		book_inside_run(vcpu);
		vcpu->now.start_mono_ns = now;
		vcpu->now.exit_cpu = cpu;
		vcpu->now.code = 0;
		vcpu->in_exit = 1;
	}
	vcpu->left = now;
	vcpu->taken_at_left = vcpu->taken;
	vcpu->now.heavy = 1;
}

static __always_inline void exits_run_enter(struct exits_vcpu *vcpu, struct exits_cpu *here,
					    u32 cpu, u64 now)
{
	u64 vmm_ns;

	if (kvm_run_only)
		seen(vcpu, now);
	if (!vcpu->left)
		return;
	book_here(vcpu, here);
	vmm_ns = minus(now - vcpu->left, minus(vcpu->taken, vcpu->taken_at_left));
	vcpu->now.split.vmm_ns += vmm_ns;
	vcpu->taken += vmm_ns;
	vcpu->left = 0;
	if (kvm_run_only && vcpu->in_exit)
		exit_ends(vcpu, here->vcpu, cpu, now);
}

static __always_inline void exits_entry(struct exits_vcpu *vcpu, struct exits_cpu *here, u32 cpu,
					u64 now)
{
	if (vcpu->in_exit) {
		book_here(vcpu, here);
		exit_ends(vcpu, here->vcpu, cpu, now);
	} else {
		/* Tracing began inside this exit, or its begin was lost. */
		start_afresh(vcpu);
		vcpu->mark = here->done;
		if (!vcpu->first_mono_ns)
			vcpu->first_mono_ns = now;
	}
	vcpu->first_host = 0;
	vcpu->left = 0;
	vcpu->entered = 1;
	vcpu->last_mono_ns = now;
}

#endif

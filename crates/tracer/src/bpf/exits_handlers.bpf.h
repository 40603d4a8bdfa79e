/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The handlers of a vCPU's events, as functions of plain values: no context, no clock, no current
 * task. All counting happens here, in the kernel. User space only reads the counts. */
#ifndef VMNOISE_EXITS_HANDLERS_BPF_H
#define VMNOISE_EXITS_HANDLERS_BPF_H

#include "kernel.bpf.h"
#include "exits.h"
#include "exits_buckets.bpf.h"
#include "exits_halts.bpf.h"
#include "exits_host.bpf.h"
#include "exits_sched.bpf.h"
#include "exits_sight.bpf.h"
#include "exits_state.bpf.h"
#include "exits_stream.bpf.h"
#include "exits_waiting.bpf.h"

/* Returns the index of a reason. Codes fit into 9 bits, except failures, and SVM's own codes above
 * 0x3ff. */
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

static __always_inline void exits_exit(struct exits_vcpu *vcpu, struct exits_cpu *here, u32 cpu,
				       u64 now, u64 code)
{
	/* The entry was not seen, so the charged time may be older than this exit. */
	if (!vcpu->entered) {
		if (vcpu->in_exit)
			not_seen_since(vcpu, vcpu->now.start_mono_ns);
		vcpu->in_exit = 0;
		return;
	}
	if (vcpu->nmi_until)
		look_back(vcpu, here, now);
	if (vcpu->first_host) {
		vcpu->now.start_mono_ns = vcpu->first_host;
	} else {
		vcpu->now.start_mono_ns = now;
		vcpu->now.exit_cpu = cpu;
	}
	vcpu->now.code = code;
	vcpu->in_exit = 1;
	vcpu->entered = 0;
}

static __always_inline void exit_ends(struct exits_vcpu *vcpu, u32 index, u32 cpu, u64 now)
{
	u64 dur_ns = now - vcpu->now.start_mono_ns;
	u64 noise_ns = dur_ns - vcpu->now.split.halted_ns;
	u32 key = index * EXITS_REASONS + reason_index(vcpu->now.code);
	struct exits_reason *reason = bpf_map_lookup_elem(&reasons, &key);
	u32 bucket = bucket_of(dur_ns);

	if (noise_ns > vcpu->worst_noise_ns) {
		vcpu->worst_noise_ns = noise_ns;
		exit_is_told(vcpu, cpu, now);
		vcpu->worst = vcpu->now;
	}
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
	tell_exit(vcpu, index, cpu, now, noise_ns);
	/* Most exits did not leave KVM, and lost no time to others. */
	if (vcpu->taken || vcpu->now.heavy) {
		if (reason)
			reason->heavy += vcpu->now.heavy;
		/* Usually the VMM had all the taken time. */
		if (vcpu->taken == vcpu->now.split.vmm_ns) {
			if (reason)
				reason->split.vmm_ns += vcpu->taken;
			vcpu->now.split.vmm_ns = 0;
			none_taken(vcpu);
		} else {
			if (reason)
				add_split(&reason->split, &vcpu->now.split);
			start_afresh(vcpu);
		}
	}
	vcpu->in_exit = 0;
}

/* Ends the unknown state of a vCPU outside KVM_RUN. The time since KVM_RUN was left stays
 * unknown. */
static __always_inline void was_not_seen(struct exits_vcpu *vcpu, u64 now)
{
	vcpu->left = 0;
	seen_again(vcpu, now);
	start_afresh(vcpu);
}

/* Handles the end of KVM_RUN. `alone` has the value of kvm_run_only, as a constant for the
 * compiler. */
static __always_inline void exits_run_leave(struct exits_vcpu *vcpu, struct exits_cpu *here,
					    u32 cpu, u64 now, bool alone)
{
	if (alone)
		no_irq_here(
		    here); /* an interrupt without its end would seem to continue into the exit */
	now = book_here(vcpu, here, now);
	outside_guest(vcpu);
	if (alone) {
		seen(vcpu, now);
		if (vcpu->unseen)
			was_not_seen(vcpu, now);
		book_inside_run(vcpu);
		vcpu->now.start_mono_ns = now;
		vcpu->now.exit_cpu = cpu;
		vcpu->now.code = 0;
		vcpu->in_exit = 1;
	}
	vcpu->left = now;
	vcpu->taken_at_left = vcpu->taken;
	vcpu->now.heavy = 1;
	if (streaming)
		vmm_begins(vcpu, here->vcpu, cpu);
}

static __always_inline void vmm_had_it(struct exits_vcpu *vcpu, u32 cpu, u64 now)
{
	u64 vmm_ns = minus(now - vcpu->left, minus(vcpu->taken, vcpu->taken_at_left));

	vcpu->now.split.vmm_ns += vmm_ns;
	vcpu->taken += vmm_ns;
	if (streaming)
		vmm_ends(vcpu, cpu, now);
	vcpu->left = 0;
}

static __always_inline void exits_run_enter(struct exits_vcpu *vcpu, struct exits_cpu *here,
					    u32 cpu, u64 now, bool alone)
{
	now = book_here(vcpu, here, now);
	outside_guest(vcpu);
	if (alone) {
		no_irq_here(here);
		seen(vcpu, now);
		if (vcpu->unseen)
			was_not_seen(vcpu, now);
	}
	if (vcpu->left)
		vmm_had_it(vcpu, cpu, now);
	no_halt_before(vcpu);
	if (alone && vcpu->in_exit)
		exit_ends(vcpu, here->vcpu, cpu, now);
}

/* Facts about the vCPU that KVM enters: its address, its VM, and the number of exits that it has
 * made. */
struct exits_entered {
	u64 kvm_vcpu;
	u64 vm;
	u64 exits;
};

/* Returns whether the thread may enter another vCPU than before. This is possible only after it was
 * in user space. */
static __always_inline bool may_be_new_to(const struct exits_vcpu *vcpu, u64 kvm_vcpu)
{
	return vcpu->kvm_vcpu != kvm_vcpu || !vcpu->in_exit || vcpu->now.heavy;
}

/* Returns whether the thread last entered another vCPU. Usually the vCPU is the same as before. */
static __always_inline bool is_new_to(struct exits_vcpu *vcpu, const struct exits_entered *what)
{
	if (vcpu->kvm_vcpu != what->kvm_vcpu || vcpu->vm != what->vm || vcpu->exits > what->exits)
		return 1;
	vcpu->exits = what->exits;
	return 0;
}

/* Returns whether the thread enters another VM than before. A new VM or vCPU may use the memory of
 * an old one. If VM and vCPU both do, the new vCPU has made fewer exits. */
static __always_inline bool is_another_vm(const struct exits_vcpu *vcpu,
					  const struct exits_entered *what)
{
	if (!vcpu->vm)
		return 0;
	return vcpu->vm != what->vm ||
	       (vcpu->kvm_vcpu == what->kvm_vcpu && vcpu->exits > what->exits);
}

/* Returns the index of the vCPU that a thread enters; 0 if there is no room. A thread that enters
 * another VM than before becomes another vCPU. Several vCPUs of the same VM on one thread are
 * counted together. If a switch was not seen, the thread may not be the one that was current
 * before. `id` is the result of bpf_get_current_pid_tgid(). The function is not static, so that the
 * verifier checks it once, and not at each call. */
__noinline int takes_up(struct exits_cpu *here, u32 cpu, u64 now, const struct exits_entered *what,
			u64 id)
{
	u32 tid = id, tgid = id >> 32;
	struct exits_vcpu *vcpu;

	if (!here || !what)
		return 0;
	vcpu = current_vcpu(here, cpu, now, tid, tgid);
	if (vcpu && is_another_vm(vcpu, what)) {
		exits_thread_ends(tid);
		vcpu = current_vcpu(here, cpu, now, tid, tgid);
	}
	if (!vcpu)
		return 0;
	vcpu->kvm_vcpu = what->kvm_vcpu;
	vcpu->exits = what->exits;
	return here->vcpu;
}

static __always_inline void exits_entry(struct exits_vcpu *vcpu, struct exits_cpu *here, u32 cpu,
					u64 now)
{
	no_irq_here(here);
	if (vcpu->in_exit) {
		now = book_here(vcpu, here, now);
		exit_ends(vcpu, here->vcpu, cpu, now);
	} else {
		/* Tracing began during this exit, or the begin of this exit was lost. */
		start_afresh(vcpu);
		vcpu->mark = here->done;
		vcpu->vmm.entered_mono_ns = 0;
		if (vcpu->first_mono_ns) {
			not_seen_since(vcpu, vcpu->last_mono_ns);
			seen_again(vcpu, now);
		} else {
			vcpu->first_mono_ns = now;
		}
	}
	vcpu->first_host = 0;
	vcpu->nmi_until = 0;
	vcpu->left = 0;
	vcpu->entered = 1;
	vcpu->in_exit = 0; /* already 0: the compiler makes one store for both fields */
	vcpu->last_mono_ns = now;
}

#endif

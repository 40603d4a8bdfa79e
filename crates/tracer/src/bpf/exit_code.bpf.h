/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads the exit code of a vCPU, which is not an argument of kvm_exit. The vendor's module
 * stores the code, and the BTF of this module shows where. Without this BTF, the code is
 * EXIT_CODE_UNREAD. */
#ifndef VMNOISE_EXIT_CODE_BPF_H
#define VMNOISE_EXIT_CODE_BPF_H

#include "kernel.bpf.h"
#include "vmnoise.h"

#define EXIT_CODE_UNREAD (~0ULL - 1)
/* KVM_ISA_VMX and KVM_ISA_SVM of arch/x86/kvm/trace.h. */
#define ISA_VMX 1
#define ISA_SVM 2

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kvm;

struct kvm_vcpu_arch {
	u32 hflags;
};

struct kvm_vcpu_stat {
	u64 exits;
};

struct kvm_vcpu {
	struct kvm *kvm;
	int vcpu_id;
	struct kvm_vcpu_arch arch;
	struct kvm_vcpu_stat stat;
};

struct vmcb_control_area {
	u32 exit_code;
	u32 exit_code_hi;
};

/* In newer kernels the code is one field. */
struct vmcb_control_area___whole {
	u64 exit_code;
};

struct vmcb {
	struct vmcb_control_area control;
};

struct vcpu_svm {
	struct vmcb *vmcb;
};

union vmx_exit_reason {
	u32 full;
};

/* In newer kernels, the structure vcpu_vt has the fields that VMX and TDX share. */
struct vcpu_vmx {
	union vmx_exit_reason exit_reason;
};

struct vcpu_vt {
	union vmx_exit_reason exit_reason;
};

struct vcpu_vmx___vt {
	struct vcpu_vt vt;
};

/* Only used as a type of the core kernel that begins with a 64-bit number. */
struct timespec64 {
	__s64 tv_sec;
};

#pragma clang attribute pop

/* Since 6.2, programs can read any kernel memory without a helper. The load gives 0 at an invalid
 * address. The cast accepts only types of the core kernel, and no types of a module. */
#define READS_WITHOUT_HELPER() bpf_ksym_exists(bpf_rdonly_cast)

static __always_inline u64 word_at(const void *place)
{
	struct timespec64 *word =
	    bpf_rdonly_cast(place, bpf_core_type_id_kernel(struct timespec64));

	return word->tv_sec;
}

/* Returns the VMCB of a vCPU before 6.2. It is read once for each mode, because a read costs as
 * much as a reading of the clock. If a new vCPU uses the memory of an old vCPU, its number of exits
 * is at first not larger than the stored number. In this case the VMCB is read again. */
static __always_inline struct vmcb *vmcb_of(struct vmnoise_vmcb *known, struct kvm_vcpu *vcpu)
{
	struct vcpu_svm *svm = (void *)vcpu;
	u64 exits = vcpu->stat.exits;
	u32 hflags = vcpu->arch.hflags;
	struct vmcb *vmcb;

	if (known->kvm_vcpu == (u64)vcpu && known->hflags == hflags && known->exits < exits)
		return (void *)known->place;
	if (bpf_core_read(&vmcb, sizeof(vmcb), &svm->vmcb))
		return 0;
	known->place = (u64)vmcb;
	known->kvm_vcpu = (u64)vcpu;
	known->hflags = hflags;
	known->exits = exits;
	return vmcb;
}

static __always_inline u64 svm_exit_code(struct vmnoise_vmcb *known, struct kvm_vcpu *vcpu)
{
	struct vmcb *vmcb;
	u64 code;

	if (READS_WITHOUT_HELPER()) {
		u64 place = word_at((void *)vcpu + bpf_core_field_offset(struct vcpu_svm, vmcb));

		/* The two halves of the code are adjacent, or are one field. */
		return word_at((void *)place +
			       bpf_core_field_offset(struct vmcb, control.exit_code));
	}
	vmcb = vmcb_of(known, vcpu);
	if (!vmcb)
		return EXIT_CODE_UNREAD;
	if (bpf_core_field_size(vmcb->control.exit_code) == 8) {
		struct vmcb_control_area___whole *control = (void *)&vmcb->control;

		bpf_core_read(&code, sizeof(code), &control->exit_code);
	} else {
		/* The two halves of the code are adjacent. */
		bpf_probe_read_kernel(&code, sizeof(code), &vmcb->control.exit_code);
	}
	return code;
}

static __always_inline u64 vmx_exit_code(struct kvm_vcpu *vcpu)
{
	struct vcpu_vmx___vt *with_vt = (void *)vcpu;
	struct vcpu_vmx *vmx = (void *)vcpu;
	u32 code = 0;

	if (READS_WITHOUT_HELPER() && bpf_core_field_exists(vmx->exit_reason))
		return (u32)word_at((void *)vcpu +
				    bpf_core_field_offset(struct vcpu_vmx, exit_reason));
	if (READS_WITHOUT_HELPER() && bpf_core_field_exists(with_vt->vt))
		return (u32)word_at((void *)vcpu +
				    bpf_core_field_offset(struct vcpu_vmx___vt, vt.exit_reason));
	if (bpf_core_field_exists(vmx->exit_reason))
		bpf_core_read(&code, sizeof(code), &vmx->exit_reason);
	else if (bpf_core_field_exists(with_vt->vt))
		bpf_core_read(&code, sizeof(code), &with_vt->vt.exit_reason);
	else
		return EXIT_CODE_UNREAD;
	return code;
}

static __always_inline u64 exit_code(struct vmnoise_vmcb *known, struct kvm_vcpu *vcpu, u32 isa)
{
	if (isa == ISA_SVM && bpf_core_type_exists(struct vcpu_svm))
		return svm_exit_code(known, vcpu);
	if (isa == ISA_VMX && bpf_core_type_exists(struct vcpu_vmx))
		return vmx_exit_code(vcpu);
	return EXIT_CODE_UNREAD;
}

#endif

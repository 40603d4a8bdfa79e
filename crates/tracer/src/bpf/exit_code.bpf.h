/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The exit code of a vCPU, which is no argument of kvm_exit: read where the vendor's module keeps
 * it, found by the BTF of that module. Where no BTF tells, the code is ~0 - 1. */
#ifndef VMNOISE_EXIT_CODE_BPF_H
#define VMNOISE_EXIT_CODE_BPF_H

#define EXIT_CODE_UNREAD (~0ULL - 1)
/* arch/x86/include/uapi/asm/kvm.h: KVM_ISA_VMX and KVM_ISA_SVM of arch/x86/kvm/trace.h. */
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

/* One field in newer kernels. */
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

/* Newer kernels keep what VMX and TDX share in a structure of its own, vcpu_vt. */
struct vcpu_vmx {
	union vmx_exit_reason exit_reason;
};

struct vcpu_vt {
	union vmx_exit_reason exit_reason;
};

struct vcpu_vmx___vt {
	struct vcpu_vt vt;
};

#pragma clang attribute pop

/* The VMCB of a vCPU, which is read once for each mode: a read costs as much as a clock. A vCPU
 * that took the memory of another has made no more exits than the other had at its first. */
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
	struct vmcb *vmcb = vmcb_of(known, vcpu);
	u64 code;

	if (!vmcb)
		return EXIT_CODE_UNREAD;
	if (bpf_core_field_size(vmcb->control.exit_code) == 8) {
		struct vmcb_control_area___whole *control = (void *)&vmcb->control;

		bpf_core_read(&code, sizeof(code), &control->exit_code);
	} else {
		/* The two halves lie side by side. */
		bpf_probe_read_kernel(&code, sizeof(code), &vmcb->control.exit_code);
	}
	return code;
}

static __always_inline u64 vmx_exit_code(struct kvm_vcpu *vcpu)
{
	struct vcpu_vmx___vt *with_vt = (void *)vcpu;
	struct vcpu_vmx *vmx = (void *)vcpu;
	u32 code = 0;

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

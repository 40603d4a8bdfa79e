/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a walk over all files reports to user space. */
#ifndef VMNOISE_VM_FILES_H
#define VMNOISE_VM_FILES_H

/* A file of KVM that its VMM holds: a VM, or a vCPU. Processes and threads have the kernel's own
 * numbers, which BPF programs report, and those of the reader's pid namespace, by which its /proc
 * knows them. */
struct vm_file {
	/* Nothing but identities. */
	unsigned long long kvm;
	unsigned long long vcpu; /* 0: the VM's own file */
	/* Of the guest's time-stamp counter, whatever its guest does. */
	unsigned long long offset_tsc;
	unsigned long long ratio;
	unsigned int knows_tsc;
	unsigned int holder;
	unsigned int holder_here;
	unsigned int fd;
	/* The thread that ran the vCPU last; 0 if none has, or it has ended. */
	unsigned int tid;
	unsigned int tid_here;
	unsigned int tgid;
	unsigned int number;
};

#endif

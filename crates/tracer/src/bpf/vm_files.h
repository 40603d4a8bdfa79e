/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The record of a walk over all files, for user space. */
#ifndef VMNOISE_VM_FILES_H
#define VMNOISE_VM_FILES_H

/* A file of KVM that its VMM holds: a VM or a vCPU. Each process and thread has two numbers: the
 * kernel's own, which BPF programs report, and the number (`_here`) in the reader's pid namespace,
 * which the reader's /proc uses. */
struct vm_file {
	/* Addresses, used only as identities. */
	unsigned long long kvm;
	unsigned long long vcpu; /* 0: the file is the VM's own */
	/* Of the guest's time-stamp counter. Guests of this guest do not change them. */
	unsigned long long offset_tsc;
	unsigned long long ratio;
	unsigned int knows_tsc;
	unsigned int holder;
	unsigned int holder_here;
	unsigned int fd;
	/* The thread that last ran the vCPU; 0 if none has, or if this thread has ended. */
	unsigned int tid;
	unsigned int tid_here;
	unsigned int tgid;
	unsigned int number;
};

#endif

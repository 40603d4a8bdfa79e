/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The record of a walk over all open files, for user space. */
#ifndef VMNOISE_VM_FILES_H
#define VMNOISE_VM_FILES_H

/* A file of KVM that its VMM has open: a VM or a vCPU. Each process and thread has two ids. One is
 * the kernel's own id, which BPF programs report. The other one (`_here`) is the id in the reader's
 * pid namespace, which the reader's /proc uses. */
struct vm_file {
	/* Addresses of the VM and the vCPU. They are used only to distinguish VMs and vCPUs. */
	unsigned long long kvm;
	unsigned long long vcpu; /* 0: the file is the VM's own */
	/* Offset and ratio of the guest's time-stamp counter. A nested guest does not change
	 * them. */
	unsigned long long offset_tsc;
	unsigned long long ratio;
	unsigned int knows_tsc;
	unsigned int holder;
	unsigned int holder_here;
	unsigned int fd;
	/* The thread that last ran the vCPU; 0 if no thread has run it, or if this thread has
	 * ended. */
	unsigned int tid;
	unsigned int tid_here;
	unsigned int tgid;
	unsigned int number;
};

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Test only: a program whose event fires again while the program runs. The kernel does not run the
 * program a second time, and counts this as a miss (since 6.2). */
#include "kernel.bpf.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Address in the first page, which the test does not map. */
#define NOWHERE 0x10UL

/* Whether the next fault at NOWHERE causes another fault there. Before 6.2, the kernel runs the
 * program again at each fault, so there must be an end. */
u32 armed;

static __always_inline void fault(void)
{
	u64 word;

	bpf_probe_read_user(&word, sizeof(word), (void *)NOWHERE);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(page_fault_kernel, unsigned long address)
{
	if (address != NOWHERE || !armed)
		return 0;
	armed = 0;
	fault();
	return 0;
}

SEC("raw_tp/test")
int test_fault(void *unused)
{
	armed = 1;
	fault();
	armed = 0;
	return 0;
}

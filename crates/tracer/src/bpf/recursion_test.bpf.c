/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Test only: a program that calls the function at which it is attached. The kernel does not run it
 * once more for that, and counts a run that was missed. */
#include "kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct bpf_map;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} entries SEC(".maps");

u32 runs;

SEC("fentry/htab_map_delete_elem")
int BPF_PROG(on_delete, struct bpf_map *map)
{
	u32 key = 0;

	if (map != (void *)&entries)
		return 0;
	runs++;
	bpf_map_delete_elem(&entries, &key);
	return 0;
}

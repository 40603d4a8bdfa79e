/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef VMNOISE_LENGTHS_BPF_H
#define VMNOISE_LENGTHS_BPF_H

#include "kernel.bpf.h"
#include "lengths.h"

/* Returns how many of the LENGTH_BOUNDS bounds are smaller than `ns`. */
static __always_inline u32 bucket_of(const volatile unsigned long long *bounds, u64 ns)
{
	u32 below = 0, step;

#pragma unroll
	for (step = LENGTH_BOUNDS / 2; step; step /= 2)
		if (bounds[(below + step - 1) & (LENGTH_BOUNDS - 1)] < ns)
			below += step;
	return below & (LENGTH_BOUNDS - 1);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds the bucket of a length, which each exit needs. A table takes a third of the instructions
 * that a search for the highest bit takes. */
#ifndef VMNOISE_EXITS_BUCKETS_BPF_H
#define VMNOISE_EXITS_BUCKETS_BPF_H

#include "kernel.bpf.h"
#include "exits.h"

#define TIMES_1(bucket) bucket
#define TIMES_2(bucket) bucket, bucket
#define TIMES_4(bucket) TIMES_2(bucket), TIMES_2(bucket)
#define TIMES_8(bucket) TIMES_4(bucket), TIMES_4(bucket)
#define TIMES_16(bucket) TIMES_8(bucket), TIMES_8(bucket)
#define TIMES_32(bucket) TIMES_16(bucket), TIMES_16(bucket)
/* The entries for one power of two: four buckets of `width` lengths each. */
#define POWER(width, bucket)                                                                       \
	TIMES_##width(bucket), TIMES_##width(bucket + 1), TIMES_##width(bucket + 2),               \
	    TIMES_##width(bucket + 3)

/* Buckets of the lengths below 256. The table has its own section, because the other constants are
 * settings that user space writes as a whole. */
static const __u8 bucket_of_byte[256] SEC(".rodata.bucket") = {
    0, 1, 2, 3, POWER(1, 8), POWER(2, 12), POWER(4, 16), POWER(8, 20), POWER(16, 24), POWER(32, 28),
};

/* Returns the bucket of a length. There are four buckets for each power of two. The two bits below
 * the highest bit select one of them. Each step removes six powers of two. A length of 256 or more
 * keeps these three bits after a step. */
static __always_inline u32 bucket_of(u64 ns)
{
	u32 below = 0;
	u32 step;

#pragma unroll
	for (step = 0; step < 4; step++) {
		if (ns < 256)
			return below + bucket_of_byte[ns];
		ns >>= 6;
		/* Without the asm, clang compares the value before the shift. The verifier then
		 * does not know the bounds of the shifted value. */
		asm("" : "+r"(ns));
		below += 4 * 6;
	}
	return ns < 256 ? below + bucket_of_byte[ns] : EXITS_BUCKETS - 1;
}

#endif

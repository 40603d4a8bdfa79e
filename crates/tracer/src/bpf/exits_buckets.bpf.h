/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The bucket of a length. Every exit asks for its own, and to look it up takes a third of the
 * instructions that it takes to find the highest bit. */
#ifndef VMNOISE_EXITS_BUCKETS_BPF_H
#define VMNOISE_EXITS_BUCKETS_BPF_H

#define TIMES_1(bucket) bucket
#define TIMES_2(bucket) bucket, bucket
#define TIMES_4(bucket) TIMES_2(bucket), TIMES_2(bucket)
#define TIMES_8(bucket) TIMES_4(bucket), TIMES_4(bucket)
#define TIMES_16(bucket) TIMES_8(bucket), TIMES_8(bucket)
#define TIMES_32(bucket) TIMES_16(bucket), TIMES_16(bucket)
/* A power of two: four buckets of so many lengths each. */
#define POWER(width, bucket)                                                                       \
	TIMES_##width(bucket), TIMES_##width(bucket + 1), TIMES_##width(bucket + 2),               \
	    TIMES_##width(bucket + 3)

/* The buckets of lengths below 256. A section of its own: the other constants are settings, which
 * user space writes as a whole. */
static const __u8 bucket_of_byte[256] SEC(".rodata.bucket") = {
    0, 1, 2, 3, POWER(1, 8), POWER(2, 12), POWER(4, 16), POWER(8, 20), POWER(16, 24), POWER(32, 28),
};

/* Four buckets for each power of two: the two bits below the highest one. Six powers are taken off
 * at a time, which leaves these three bits of what is 256 or more. */
static __always_inline u32 bucket_of(u64 ns)
{
	u32 below = 0;
	u32 step;

#pragma unroll
	for (step = 0; step < 4; step++) {
		if (ns < 256)
			return below + bucket_of_byte[ns];
		ns >>= 6;
		/* Else clang compares what it was before, which says nothing to the verifier. */
		asm("" : "+r"(ns));
		below += 4 * 6;
	}
	return ns < 256 ? below + bucket_of_byte[ns] : EXITS_BUCKETS - 1;
}

#endif

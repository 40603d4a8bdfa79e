/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ring buffer. All activities leave the kernel through it. */
#ifndef VMNOISE_RECORDS_BPF_H
#define VMNOISE_RECORDS_BPF_H

#include "kernel.bpf.h"
#include "vmnoise.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} records SEC(".maps");

/* Returns a source, which is built field by field. clang 14 loses the stores before a copy from a
 * constant structure, which an initializer with designators creates
 * (BPFDAGToDAGISel::PreprocessLoad drops their chain). */
static __always_inline struct vmnoise_source source_from(enum vmnoise_origin origin, u32 id)
{
	struct vmnoise_source source = {};

	source.origin = origin;
	source.id = id;
	return source;
}

static __always_inline void fill_record(struct vmnoise_record *record, u32 cpu, u32 kind,
					u64 start_mono_ns, u64 end_mono_ns, u64 steal_ns,
					const struct vmnoise_source *source)
{
	record->start_mono_ns = start_mono_ns;
	record->end_mono_ns = end_mono_ns;
	record->steal_ns = steal_ns;
	record->cpu = cpu;
	record->kind = kind;
	record->source = *source;
}

/* Submits a record without waking the reader, because a wake-up would itself be noise. The reader
 * drains the ring at fixed times. */
static __always_inline void submit(void *record)
{
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Writes a record into the ring. Returns false if the ring is full. */
static __always_inline bool emit_record(u32 cpu, enum vmnoise_kind kind, u64 start_mono_ns,
					u64 end_mono_ns, u64 steal_ns,
					const struct vmnoise_source *source)
{
	struct vmnoise_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record)
		return 0;
	fill_record(record, cpu, kind, start_mono_ns, end_mono_ns, steal_ns, source);
	submit(record);
	return 1;
}

#endif

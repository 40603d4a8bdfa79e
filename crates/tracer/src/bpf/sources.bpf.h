/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names of sources, from the arguments of the tracepoints. */
#ifndef VMNOISE_SOURCES_BPF_H
#define VMNOISE_SOURCES_BPF_H

#include "kernel.bpf.h"
#include "records.bpf.h"
#include "vmnoise.h"

/* A name, as letters and as words. The words are constants by which the name is copied. */
union vector_name {
	char letters[VMNOISE_NAME_LEN];
	u64 words[VMNOISE_NAME_LEN / sizeof(u64)];
};

static __always_inline void name_vector(struct vmnoise_source *source, u32 vector, const u64 *name)
{
	u64 *words = (u64 *)source->name;
	u32 i;

	source->id = vector;
	source->origin = VMNOISE_FROM_VECTOR;
#pragma unroll
	for (i = 0; i < VMNOISE_NAME_LEN / sizeof(u64); i++)
		words[i] = name[i];
}

static __always_inline void name_line(struct vmnoise_source *source, int irq,
				      struct irqaction *action)
{
	*source = source_from(VMNOISE_FROM_LINE, irq);
	bpf_probe_read_kernel_str(source->name, sizeof(source->name), action->name);
}

static __always_inline void name_task(struct vmnoise_source *source, struct task_struct *task,
				      u32 tid)
{
	source->id = tid;
	source->origin = VMNOISE_FROM_TASK;
	bpf_probe_read_kernel(source->name, COMM_LEN, task->comm);
}

static __always_inline void name_current(struct vmnoise_source *source)
{
	source->id = (u32)bpf_get_current_pid_tgid();
	source->origin = VMNOISE_FROM_TASK;
	bpf_get_current_comm(source->name, COMM_LEN);
}

#endif

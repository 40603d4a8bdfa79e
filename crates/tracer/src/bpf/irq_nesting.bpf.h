/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds the begin of an interrupt that ends. Interrupts may be nested. The file that includes
 * this file must first define three names. These are `irq_cpu`, a type with a depth and an array
 * of begins; `irq_begin`, the type of a begin; and count_unpaired, a function that counts lost
 * events. */
#ifndef VMNOISE_IRQ_NESTING_BPF_H
#define VMNOISE_IRQ_NESTING_BPF_H

#include "kernel.bpf.h"

/* Returns the matching begin; 0 if there is none. The ends of begins above it were lost. */
static __always_inline irq_begin *irq_ended(irq_cpu *here, u32 id, u32 origin)
{
	const u32 room = sizeof(here->irqs) / sizeof(here->irqs[0]);
	u32 depth = here->irq_depth;
	u32 above;

	for (above = 0; above < room && depth; above++) {
		irq_begin *begin = &here->irqs[--depth % room];

		if (begin->source.id != id || begin->source.origin != origin)
			continue;
		if (above)
			count_unpaired(here, above);
		here->irq_depth = depth;
		return begin;
	}
	count_unpaired(here, 1);
	return 0;
}

#endif

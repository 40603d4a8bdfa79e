/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds the begin of an interrupt that ends, where interrupts are nested. The file that includes
 * this one first defines the types `irq_cpu` (a CPU: a depth, and an array of begins) and
 * `irq_begin`, and the function count_unpaired, which counts lost events. */
#ifndef VMNOISE_IRQ_NESTING_BPF_H
#define VMNOISE_IRQ_NESTING_BPF_H

/* Returns the matching begin, or 0 if there is none. Begins above it have lost their ends. */
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

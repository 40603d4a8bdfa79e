/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Interrupts in progress on one CPU, one in the handler of another: whose end it is. Who includes
 * this has said what a CPU is to it (`irq_cpu`: a depth, and that many begins), what a begin is
 * (`irq_begin`), and how lost events are counted. */
#ifndef VMNOISE_IRQ_NESTING_BPF_H
#define VMNOISE_IRQ_NESTING_BPF_H

/* The begin that matches; 0 if none does. Those above it have lost their ends. */
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

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Vectors of arch/x86/include/asm/trace/irq_vectors.h. The file that includes this file defines
 * IRQ_VECTOR before each inclusion, so there is no include guard. User space loads only the
 * programs for vectors that this kernel has. */
IRQ_VECTOR(local_timer)
IRQ_VECTOR(x86_platform_ipi)
IRQ_VECTOR(call_function)
IRQ_VECTOR(call_function_single)
IRQ_VECTOR(reschedule)
IRQ_VECTOR(error_apic)
IRQ_VECTOR(spurious_apic)
IRQ_VECTOR(thermal_apic)
IRQ_VECTOR(threshold_apic)
IRQ_VECTOR(deferred_error_apic)
IRQ_VECTOR(irq_work)

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records the times of the wake-up that a periodic task waits for, as functions of plain values.
 * The task clears the times before it sleeps, and reads them when it runs again on the same CPU. */
#ifndef VMNOISE_TIMER_BPF_H
#define VMNOISE_TIMER_BPF_H

#include "kernel.bpf.h"
#include "vmnoise.h"

/* Stores the steal clock at each event of the CPU until the timer expires. It is unknown when the
 * clock increased between two readings. So the last reading before the expiry limits how much of a
 * later delay may be steal time. */
static __always_inline void before_expiry(struct vmnoise_cpu *state, struct vmnoise_moment now)
{
	if (now.mono_ns <= state->timer.expiry_mono_ns)
		state->timer.before_steal_ns = now.steal_ns;
}

/* Handles that the watched task arms a timer. The task waits for this timer if it has the planned
 * expiry. */
static __always_inline void on_timer_start(struct vmnoise_cpu *state, struct vmnoise_moment now,
					   u64 address, u64 expires_ns)
{
	struct vmnoise_timer *timer = &state->timer;

	if (!expires_ns || expires_ns != timer->expiry_mono_ns || timer->irq_mono_ns)
		return;
	before_expiry(state, now);
	state->timer_address = address;
	timer->armed_steal_ns = now.steal_ns;
	timer->armed_mono_ns = now.mono_ns;
}

static __always_inline bool is_awaited(const struct vmnoise_cpu *state, u64 address)
{
	return state->timer_address == address && state->timer.armed_mono_ns &&
	       !state->timer.irq_mono_ns;
}

/* Handles the expiry of the timer that the task waits for. */
static __always_inline void on_timer_expire(struct vmnoise_cpu *state, struct vmnoise_moment now)
{
	struct vmnoise_timer *timer = &state->timer;

	state->timer_address = 0;
	timer->irq_steal_ns = now.steal_ns;
	timer->irq_mono_ns = now.mono_ns;
}

static __always_inline void timer_wakes(struct vmnoise_cpu *state, struct vmnoise_moment now)
{
	struct vmnoise_timer *timer = &state->timer;

	if (!timer->irq_mono_ns || timer->waking_mono_ns)
		return;
	timer->waking_steal_ns = now.steal_ns;
	timer->waking_mono_ns = now.mono_ns;
}

static __always_inline void timer_task_runs(struct vmnoise_cpu *state, struct vmnoise_moment now)
{
	struct vmnoise_timer *timer = &state->timer;

	if (!timer->waking_mono_ns || timer->switch_mono_ns)
		return;
	timer->switch_steal_ns = now.steal_ns;
	timer->switch_mono_ns = now.mono_ns;
}

#endif

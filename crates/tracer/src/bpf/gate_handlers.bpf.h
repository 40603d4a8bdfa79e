/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the gate books at each event. All that an event brings comes as an argument, time included.
 *
 * Who writes where: a CPU's turns under the lock of its run queue, which the scheduler holds at
 * each of these events (a migration: that of the queue it leaves); a vCPU's books in the order of
 * its own events, which the same locks make. `waiting` is raised before the clock is read, so a
 * turn that ends later is written down. */
#ifndef VMNOISE_GATE_HANDLERS_BPF_H
#define VMNOISE_GATE_HANDLERS_BPF_H

#include "lengths.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct gate_cpu);
} gate_cpus SEC(".maps");

/* Place 0 is nobody's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct gate_vcpu);
} gate_vcpus SEC(".maps");

/* For each CPU a ring of pieces, which it alone writes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct gate_piece);
} gate_pieces SEC(".maps");

const volatile struct gate_settings settings;

static __always_inline struct gate_cpu *gate_cpu(u32 cpu)
{
	return bpf_map_lookup_elem(&gate_cpus, &cpu);
}

static __always_inline struct gate_vcpu *gate_vcpu(u32 place)
{
	return place ? bpf_map_lookup_elem(&gate_vcpus, &place) : 0;
}

static __always_inline void begin_writing(struct gate_vcpu *vcpu)
{
	vcpu->writes++;
	barrier();
}

static __always_inline void end_writing(struct gate_vcpu *vcpu)
{
	barrier();
	vcpu->writes++;
}

/* What it did until now is booked; since then it does this. The clocks of two CPUs may differ by a
 * moment. User space may have exported its state until it was last confirmed. */
static __always_inline void becomes(struct gate_vcpu *vcpu, u32 state, u64 now)
{
	if (!vcpu->first)
		vcpu->first = vcpu->since = now;
	if (now < vcpu->confirmed)
		now = vcpu->confirmed;
	if (now > vcpu->since) {
		vcpu->spent[vcpu->state & (GATE_STATES - 1)] += now - vcpu->since;
		vcpu->since = now;
	}
	vcpu->state = state;
}

/* An event was missed: its state is known until it was last confirmed, and unseen from then on. */
static __always_inline void forget_unconfirmed(struct gate_vcpu *vcpu)
{
	if (vcpu->state != GATE_WAITING && vcpu->confirmed > vcpu->since)
		becomes(vcpu, vcpu->state, vcpu->confirmed);
	vcpu->state = GATE_UNSEEN;
}

static __always_inline bool is_the_same(const struct gate_who *one, const struct gate_who *other)
{
	return one->comm[0] == other->comm[0] && one->comm[1] == other->comm[1] &&
	       one->cgroup == other->cgroup && one->vcpu == other->vcpu && one->tgid == other->tgid;
}

/* What is left of its score by now: of a turn before, that is all. */
static __always_inline u64 score_in(const struct gate_culprit *culprit, u64 second)
{
	u64 seconds;

	if (second <= culprit->second)
		return culprit->score;
	seconds = second - culprit->second;
	return seconds < 64 ? culprit->score >> seconds : 0;
}

/* Where there is no room, who had least lately loses its name: whoever had most for hours says
 * nothing of who does now. The score is left to whoever comes, so that several who come in turns
 * do not cost one another their places for ever (Metwally and others, Efficient computation of
 * frequent and top-k elements in data streams, 2005: nobody with more than an eighth is without a
 * place). No static function: the verifier looks at it once, and not for each turn. */
__noinline int blame(struct gate_vcpu *vcpu, const struct gate_turn *turn, u64 ns)
{
	u64 second, score, least_score = ~0ULL;
	struct gate_culprit *least;
	struct gate_who who;
	u32 i;

	if (!vcpu || !turn)
		return 0;
	least = &vcpu->culprits[0];
	/* About one. */
	second = turn->until >> 30;
	who = turn->who;
	if (who.tgid != vcpu->tgid)
		who.tgid = 0;
	for (i = 0; i < GATE_CULPRITS; i++) {
		struct gate_culprit *culprit = &vcpu->culprits[i];

		score = score_in(culprit, second);
		if (is_the_same(&culprit->who, &who)) {
			culprit->ns += ns;
			culprit->score = score + ns;
			if (culprit->second < second)
				culprit->second = second;
			return 0;
		}
		if (score < least_score) {
			least_score = score;
			least = culprit;
		}
	}
	vcpu->unnamed_ns += least->ns;
	least->who = who;
	least->ns = ns;
	least->score = least_score + ns;
	least->second = second;
	return 0;
}

/* The next piece that this CPU writes; it is one more after end_piece. */
static __always_inline struct gate_piece *begin_piece(struct gate_cpu *here, u32 cpu)
{
	u32 index = cpu * settings.pieces_each + (here->pieces & (settings.pieces_each - 1));

	return bpf_map_lookup_elem(&gate_pieces, &index);
}

static __always_inline void end_piece(struct gate_cpu *here)
{
	barrier();
	here->pieces++;
}

/* Writes down a piece of its lost time; `turn` is 0 where nobody ran. */
__noinline int tell(struct gate_vcpu *vcpu, const struct gate_turn *turn, u64 from, u64 until,
		    u32 lost)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct gate_cpu *here = gate_cpu(cpu);
	struct gate_piece *piece;

	if (!vcpu || !here || until <= from)
		return 0;
	piece = begin_piece(here, cpu);
	if (!piece)
		return 0;
	piece->from = from;
	piece->until = until;
	if (turn) {
		piece->who = turn->who;
		piece->tid = turn->tid;
	}
	piece->vcpu = vcpu->id;
	piece->cpu = vcpu->waits_for;
	piece->lost = lost;
	end_piece(here);
	return 0;
}

/* A turn of this CPU is kept no more, and some vCPU waits since before it: for longer than the
 * turns go back that are kept. */
__noinline int tell_turn(const struct gate_turn *turn, u64 from, u32 of_cpu)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct gate_cpu *here = gate_cpu(cpu);
	struct gate_piece *piece;

	if (!turn || !here || turn->until < from + settings.told_from)
		return 0;
	piece = begin_piece(here, cpu);
	if (!piece)
		return 0;
	piece->from = from;
	piece->until = turn->until;
	piece->who = turn->who;
	piece->tid = turn->tid;
	piece->vcpu = 0;
	piece->cpu = of_cpu;
	piece->lost = GATE_TURN;
	end_piece(here);
	return 0;
}

/* A part of its wait, of which nobody knows who had the CPU: a limit may have let him in. */
static __always_inline void book_unknown(struct gate_vcpu *vcpu, u64 from, u64 until, bool told)
{
	bool is_free = vcpu->throttle == GATE_FREE && !vcpu->urgent;

	if (is_free)
		vcpu->unnamed_ns += until - from;
	else
		vcpu->unsure_ns += until - from;
	if (told)
		tell(vcpu, 0, from, until, is_free ? GATE_LOST_UNKNOWN : GATE_LOST_UNSURE);
}

/* A wait until now, which was for another CPU when it ended than the one that is known, and since
 * when is not: nobody's turns there are to be held against it. */
static __always_inline void book_elsewhere(struct gate_vcpu *vcpu, u64 now, bool told)
{
	book_unknown(vcpu, vcpu->since, now, 0);
	if (told)
		tell(vcpu, 0, vcpu->since, now, GATE_LOST_UNSURE);
}

/* What book_turn is told of a turn. */
enum { TURN_IS_TOLD = 1, TURN_CAME_MEANWHILE = 2 };

/* A part of its wait, in which this was on the CPU. Who is not real-time and came while a real-time
 * task waited was let in by the limit of these (sched_rt_runtime_us, or the server for ordinary
 * tasks that there is since 6.12). No static function either: before 6.8 the verifier refuses a
 * loop whose body ends in several places. */
__noinline int book_turn(struct gate_vcpu *vcpu, const struct gate_turn *turn, u64 from, u64 until,
			 u32 flags)
{
	u64 ns = until - from;
	u32 lost;
	bool let_in;

	if (!vcpu || !turn)
		return 0;
	let_in = flags & TURN_CAME_MEANWHILE && vcpu->urgent && turn->ordinary;
	if (!turn->tid && (vcpu->throttle == GATE_THROTTLED || let_in)) {
		vcpu->throttled_ns += ns;
		lost = GATE_LOST_THROTTLED;
	} else if (!turn->tid && vcpu->throttle == GATE_FREE) {
		vcpu->idle_ns += ns;
		lost = GATE_LOST_IDLE;
	} else if (let_in) {
		vcpu->unsure_ns += ns;
		lost = GATE_LOST_UNSURE;
	} else if (vcpu->throttle != GATE_FREE || !turn->who.comm[0]) {
		book_unknown(vcpu, from, until, flags & TURN_IS_TOLD);
		return 0;
	} else {
		if (ns)
			blame(vcpu, turn, ns);
		lost = GATE_LOST_RAN;
	}
	if (flags & TURN_IS_TOLD)
		tell(vcpu, lost == GATE_LOST_RAN ? turn : 0, from, until, lost);
	return 0;
}

/* A quota that kept it from running meanwhile has gone by now, or it would not come: its groups
 * have been throttled for longer then. */
static __always_inline void wait_ends(struct gate_vcpu *vcpu, u64 throttles)
{
	if (vcpu->throttle == GATE_FREE && vcpu->throttles != throttles)
		vcpu->throttle = GATE_UNSURE;
	vcpu->throttles = throttles;
}

/* Books its wait for this CPU, whose last turn ended now. A turn began where the one before ended:
 * while a vCPU waits, each is written down. */
static __always_inline void book_wait(struct gate_vcpu *vcpu, struct gate_cpu *cpu, u64 now,
				      bool told)
{
	u32 turns = cpu->turns, i;
	u64 from = vcpu->since, until = cpu->turn[(turns - 1) % GATE_TURNS].until;

	/* Its last turn, where that was missed. */
	if (until < from)
		until = from;
	if (until < now)
		book_unknown(vcpu, until, now, told);
	for (i = 1; i <= GATE_TURNS && until > from; i++) {
		struct gate_turn *turn = &cpu->turn[(turns - i) % GATE_TURNS];
		u64 begin = cpu->forgot;
		u32 flags = told ? TURN_IS_TOLD : 0;

		if (i < GATE_TURNS)
			begin = cpu->turn[(turns - i - 1) % GATE_TURNS].until;
		if (begin > from || vcpu->preempted)
			flags |= TURN_CAME_MEANWHILE;
		if (begin < from)
			begin = from;
		if (begin > until)
			begin = until;
		book_turn(vcpu, turn, begin, until, flags);
		until = begin;
	}
	if (until > from)
		book_unknown(vcpu, from, until, told);
}

/* Who had this CPU until now. */
static __always_inline void turn_ends(struct gate_cpu *cpu, u32 number, u64 now,
				      const struct gate_who *who, u32 tid, bool ordinary)
{
	struct gate_turn *turn = &cpu->turn[cpu->turns % GATE_TURNS];

	if (cpu->turns - cpu->waits_since >= GATE_TURNS)
		tell_turn(turn, cpu->forgot, number);
	cpu->forgot = turn->until;
	turn->until = now;
	turn->who = *who;
	turn->tid = tid;
	turn->ordinary = ordinary;
	cpu->turns++;
}

/* `throttles` says for how long its groups have been throttled so far. */
static __always_inline void waits_for(struct gate_vcpu *vcpu, u32 cpu, bool preempted, bool urgent,
				      bool throttled, u64 throttles)
{
	vcpu->preempted = preempted;
	vcpu->urgent = urgent;
	vcpu->waits_for = cpu;
	vcpu->throttle = throttled ? GATE_THROTTLED : GATE_FREE;
	vcpu->throttles = throttles;
	vcpu->waited = 0;
}

static __always_inline void one_more_waits(struct gate_cpu *cpu)
{
	if (!cpu->waiting)
		cpu->waits_since = cpu->turns;
	__sync_fetch_and_add(&cpu->waiting, 1);
}

static __always_inline void one_less_waits(u32 number)
{
	struct gate_cpu *cpu = gate_cpu(number);

	if (cpu)
		__sync_fetch_and_add(&cpu->waiting, -1);
}

/* It is found, and has its place; no event of it comes before that. */
static __always_inline void gate_begins(struct gate_vcpu *vcpu, u32 id, u32 tgid, u64 now,
					u64 switches, bool has_cpu)
{
	vcpu->id = id;
	vcpu->tgid = tgid;
	vcpu->switches = vcpu->walked_switches = switches;
	vcpu->first = vcpu->since = now;
	vcpu->state = has_cpu ? GATE_RUNNING : GATE_UNSEEN;
}

/* A walk finds it. The walk reads first the time, then whether the thread has a CPU, whether it has
 * or could have one, and last how often it has left one. If that number is the one of its last
 * event, the thread has been in its state until `now`. An event that is booked meanwhile makes
 * `since` later than `now`. Handlers on other CPUs may run meanwhile: a walk writes only what no
 * handler writes. */
static __always_inline void gate_confirms(struct gate_vcpu *vcpu, u64 now, bool has_cpu,
					  bool is_ready, u64 switches)
{
	bool sleeps = vcpu->state >= GATE_HALTED && vcpu->state <= GATE_ASLEEP;
	bool is_so = vcpu->state == GATE_RUNNING ? has_cpu : sleeps && !is_ready;

	if (is_so && vcpu->switches == switches && vcpu->confirmed < now)
		vcpu->confirmed = now;
	vcpu->walked_switches = switches;
}

/* It leaves its CPU, to wait for it, to sleep or for good. */
static __always_inline void gate_leaves(struct gate_vcpu *vcpu, struct gate_cpu *here, u32 cpu,
					u64 now, u64 switches, u32 state, bool urgent,
					bool throttled, u64 throttles)
{
	begin_writing(vcpu);
	/* It came unseen, at an instant that nobody knows, or left unseen and came back. A walk
	 * that counted this departure already may have made user space export it as missed. */
	if (vcpu->state != GATE_RUNNING || switches != vcpu->switches + 1 ||
	    vcpu->walked_switches == switches) {
		if (vcpu->state == GATE_WAITING)
			one_less_waits(vcpu->waits_for);
		forget_unconfirmed(vcpu);
	}
	becomes(vcpu, state, now);
	vcpu->switches = switches;
	vcpu->waits_for = cpu;
	if (state == GATE_WAITING) {
		waits_for(vcpu, cpu, 1, urgent, throttled, throttles);
		one_more_waits(here);
	}
	end_writing(vcpu);
}

/* It gets this CPU, whose last turn ended now if anybody waited. */
static __always_inline void gate_comes(struct gate_vcpu *vcpu, struct gate_cpu *here, u32 cpu,
				       u64 now, u64 switches, u64 throttles)
{
	begin_writing(vcpu);
	if (vcpu->state == GATE_WAITING) {
		u64 waited = now > vcpu->since ? now - vcpu->since : 0;
		bool told = vcpu->waited + waited >= settings.told_from;

		wait_ends(vcpu, throttles);
		/* Else it was moved by an event that was missed. */
		if (vcpu->waits_for == cpu)
			book_wait(vcpu, here, now, told);
		else
			book_elsewhere(vcpu, vcpu->since + waited, told);
		one_less_waits(vcpu->waits_for);
		vcpu->counts[bucket_of(settings.bounds, vcpu->waited + waited)]++;
	} else {
		forget_unconfirmed(vcpu); /* it left, or was woken, unseen */
	}
	becomes(vcpu, GATE_RUNNING, now);
	vcpu->switches = switches;
	end_writing(vcpu);
}

/* It is woken, if it was asleep, and waits for this CPU. */
static __always_inline void gate_wakes(struct gate_vcpu *vcpu, struct gate_cpu *there, u32 cpu,
				       u64 now, u64 switches, bool urgent, bool throttled,
				       u64 throttles)
{
	if (vcpu->state == GATE_RUNNING || vcpu->state == GATE_WAITING)
		return;
	begin_writing(vcpu);
	/* It was awake meanwhile, unseen. */
	if (switches != vcpu->switches)
		forget_unconfirmed(vcpu);
	if (vcpu->state == GATE_BLOCKED && now >= vcpu->since + settings.told_from)
		tell(vcpu, 0, vcpu->since, now, GATE_LOST_BLOCKED);
	becomes(vcpu, GATE_WAITING, now);
	waits_for(vcpu, cpu, 0, urgent, throttled, throttles);
	one_more_waits(there);
	end_writing(vcpu);
}

/* It waits for another CPU from now on. The one that it leaves has this on it: 0 if that is not the
 * one for which it waited. `to` is raised already. */
static __always_inline void gate_moves(struct gate_vcpu *vcpu, struct gate_cpu *from, u32 to_cpu,
				       u64 now, const struct gate_who *runs, u32 runs_tid,
				       bool runs_ordinary, u64 throttles)
{
	u32 from_cpu = vcpu->waits_for;
	u64 waited = now > vcpu->since ? now - vcpu->since : 0;

	if (from)
		turn_ends(from, from_cpu, now, runs, runs_tid, runs_ordinary);
	begin_writing(vcpu);
	wait_ends(vcpu, throttles);
	/* How long it will be in the end is not known yet. */
	if (from)
		book_wait(vcpu, from, now, 1);
	else
		book_elsewhere(vcpu, vcpu->since + waited, 1);
	one_less_waits(vcpu->waits_for);
	vcpu->waited += waited;
	becomes(vcpu, GATE_WAITING, now);
	vcpu->waits_for = to_cpu;
	vcpu->preempted = 0;
	end_writing(vcpu);
}

#endif

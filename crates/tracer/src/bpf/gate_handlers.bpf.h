/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The handlers of the gate's events. All values of an event are arguments, including the time.
 *
 * Locking: a CPU's turns are written under the lock of its run queue. The scheduler holds this lock
 * at each of these events. In a migration, it holds the lock of the queue that the task leaves. A
 * vCPU's counts are written in the order of its own events, which the same locks ensure. `waiting`
 * is increased before the clock is read, so each turn that ends later is stored. */
#ifndef VMNOISE_GATE_HANDLERS_BPF_H
#define VMNOISE_GATE_HANDLERS_BPF_H

#include "kernel.bpf.h"
#include "gate.h"
#include "lengths.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct gate_cpu);
} gate_cpus SEC(".maps");

/* vCPUs by index. Index 0 is not used. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct gate_vcpu);
} gate_vcpus SEC(".maps");

/* A ring of pieces for each CPU. Only this CPU writes its ring. */
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

/* Counts the time until now in the old state, and begins a new state. The clocks of two CPUs may
 * differ slightly. The old state does not end before its last confirmation, because user space may
 * have exported its time until then. */
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

/* Handles a missed event. The vCPU's state is known until its last confirmation, and unseen
 * afterwards. A current wait becomes unseen from `since` on. */
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

/* Returns the culprit's score, reduced for the time until `second`. For an earlier second, returns
 * the whole score. */
static __always_inline u64 score_in(const struct gate_culprit *culprit, u64 second)
{
	u64 seconds;

	if (second <= culprit->second)
		return culprit->score;
	seconds = second - culprit->second;
	return seconds < 64 ? culprit->score >> seconds : 0;
}

/* Blames the task of a turn. If there is no room, the culprit with the least recent time loses its
 * name. A culprit with much time in the past may have little time now. The new culprit inherits the
 * score. So several culprits that come in turns do not replace each other for ever (Metwally and
 * others, Efficient computation of frequent and top-k elements in data streams, 2005). Every
 * culprit with more than an eighth of the time has an entry. The function is not static, so that
 * the verifier checks it once, and not for each turn. */
__noinline int blame(struct gate_vcpu *vcpu, const struct gate_turn *turn, u64 ns)
{
	u64 second, score, least_score = ~0ULL;
	struct gate_culprit *least;
	struct gate_who who;
	u32 i;

	if (!vcpu || !turn)
		return 0;
	least = &vcpu->culprits[0];
	/* The unit is 2^30 ns, about one second. */
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

/* Returns the entry for the next piece that this CPU writes. end_piece counts the piece after it is
 * written. */
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

/* Stores a piece of the vCPU's lost time. `turn` is 0 if no task had the CPU. */
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

/* Stores a turn that is about to be overwritten. Some vCPU has waited since before this turn, which
 * is longer than the kept turns reach back. */
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

/* Counts a part of a wait in which it is unknown which task had the CPU. This part is unsure if a
 * quota or limit may have let that task run. */
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

/* Counts a wait until now that ended on another CPU than the known one. The time of the move is
 * unknown, so no task is blamed. */
static __always_inline void book_elsewhere(struct gate_vcpu *vcpu, u64 now, bool told)
{
	book_unknown(vcpu, vcpu->since, now, 0);
	if (told)
		tell(vcpu, 0, vcpu->since, now, GATE_LOST_UNSURE);
}

/* Flags of book_turn. */
enum { TURN_IS_TOLD = 1, TURN_CAME_MEANWHILE = 2 };

/* Counts a part of a wait in which the task of this turn had the CPU. If an ordinary task comes
 * while a real-time vCPU waits, the limit of real-time tasks let it in (sched_rt_runtime_us, or the
 * server for ordinary tasks since 6.12). The function is not static, because before 6.8 the
 * verifier rejects a loop whose body ends in several places. */
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

/* Notes whether a quota kept the vCPU from running during its wait. The quota does not do so any
 * more, because the vCPU comes now. But the throttled time of the vCPU's groups has increased. */
static __always_inline void wait_ends(struct gate_vcpu *vcpu, u64 throttles)
{
	if (vcpu->throttle == GATE_FREE && vcpu->throttles != throttles)
		vcpu->throttle = GATE_UNSURE;
	vcpu->throttles = throttles;
}

/* Counts the vCPU's wait for this CPU, whose last turn ended now. Each turn begins at the end of
 * the turn before, because every turn is stored while a vCPU waits. */
static __always_inline void book_wait(struct gate_vcpu *vcpu, struct gate_cpu *cpu, u64 now,
				      bool told)
{
	u32 turns = cpu->turns, i;
	u64 from = vcpu->since, until = cpu->turn[(turns - 1) % GATE_TURNS].until;

	/* The last turn ended before the wait, so its true end was missed. */
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

/* Stores the task that had this CPU until now. */
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

/* Begins a wait. `throttles` is the total throttled time of the vCPU's groups so far. */
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

/* Begins the counts of a vCPU that was found and has its index. The vCPU has no earlier events. */
static __always_inline void gate_begins(struct gate_vcpu *vcpu, u32 id, u32 tgid, u64 now,
					u64 switches, bool has_cpu)
{
	vcpu->id = id;
	vcpu->tgid = tgid;
	vcpu->switches = vcpu->walked_switches = switches;
	vcpu->first = vcpu->since = now;
	vcpu->state = has_cpu ? GATE_RUNNING : GATE_UNSEEN;
}

/* Confirms the state of a vCPU that a walk found. The walk reads four values in this order: the
 * time; whether the thread has a CPU; whether the thread is on a run queue; and how often the
 * thread has left a CPU. If the last number is the same as at the last seen switch, the thread has
 * been in its state until `now`. An event that is counted during these reads makes `since` later
 * than `now`. Handlers may run on other CPUs at the same time, so a walk writes only fields that no
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

/* Handles that the vCPU leaves its CPU. It may then wait for the CPU, sleep or have ended. */
static __always_inline void gate_leaves(struct gate_vcpu *vcpu, struct gate_cpu *here, u32 cpu,
					u64 now, u64 switches, u32 state, bool urgent,
					bool throttled, u64 throttles)
{
	begin_writing(vcpu);
	/* Events were missed if the vCPU came without an event, or left without an event and came
	 * back. The same applies if a walk has already read this departure, because user space may
	 * have exported it as missed. */
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

/* Handles that the vCPU gets this CPU. If a vCPU waited, the CPU's last turn ends now. */
static __always_inline void gate_comes(struct gate_vcpu *vcpu, struct gate_cpu *here, u32 cpu,
				       u64 now, u64 switches, u64 throttles)
{
	begin_writing(vcpu);
	if (vcpu->state == GATE_WAITING) {
		u64 waited = now > vcpu->since ? now - vcpu->since : 0;
		bool told = vcpu->waited + waited >= settings.told_from;

		wait_ends(vcpu, throttles);
		/* If the CPUs differ, the vCPU's move was missed. */
		if (vcpu->waits_for == cpu)
			book_wait(vcpu, here, now, told);
		else
			book_elsewhere(vcpu, vcpu->since + waited, told);
		one_less_waits(vcpu->waits_for);
		vcpu->counts[bucket_of(settings.bounds, vcpu->waited + waited)]++;
	} else {
		forget_unconfirmed(vcpu); /* it left its CPU, or was woken, without an event */
	}
	becomes(vcpu, GATE_RUNNING, now);
	vcpu->switches = switches;
	end_writing(vcpu);
}

/* Handles a wake-up. If the vCPU was asleep, it waits for this CPU from now on. */
static __always_inline void gate_wakes(struct gate_vcpu *vcpu, struct gate_cpu *there, u32 cpu,
				       u64 now, u64 switches, bool urgent, bool throttled,
				       u64 throttles)
{
	if (vcpu->state == GATE_RUNNING || vcpu->state == GATE_WAITING)
		return;
	begin_writing(vcpu);
	/* The vCPU has been awake since its last seen switch, and these events were missed. */
	if (switches != vcpu->switches)
		forget_unconfirmed(vcpu);
	if (vcpu->state == GATE_BLOCKED && now >= vcpu->since + settings.told_from)
		tell(vcpu, 0, vcpu->since, now, GATE_LOST_BLOCKED);
	becomes(vcpu, GATE_WAITING, now);
	waits_for(vcpu, cpu, 0, urgent, throttled, throttles);
	one_more_waits(there);
	end_writing(vcpu);
}

/* Handles that the vCPU waits for another CPU from now on. The task `runs` has the CPU that the
 * vCPU leaves. `from` is 0 if the vCPU waited for a third CPU. `waiting` of the new CPU is already
 * increased. */
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
	/* The final length of the wait is not known yet, so each part is reported. */
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

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts the time that is taken from the threads of one command and of its children. Each of these
 * threads has task storage from its fork on. A task without task storage has no bpf_storage, and
 * costs only a few loads at a switch. */
#include "kernel.bpf.h"
#include <bpf/bpf_tracing.h>
#include "family.h"
#include "gate.h"
#include "gate_kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct family_cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct family_thread);
} threads SEC(".maps");

/* Time that each culprit took. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct vmnoise_source);
	__type(value, struct family_culprit);
} culprits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct family_losses);
} losses SEC(".maps");

/* The thread that will start the command; 0 after it has started the command. */
u32 starter;

/* Makes this type part of the object's BTF. The variable itself is not used. */
struct family_member wire_member;

#include "records.bpf.h"
#include "sources.bpf.h"
typedef struct family_cpu steal_cpu;
#include "steal_clock.bpf.h"
#include "family_handlers.bpf.h"

static __always_inline struct family_cpu *cpu_at(u32 number)
{
	return bpf_map_lookup_elem(&cpus, &number);
}

/* Returns the current CPU if a thread of the family has it; otherwise 0. */
static __always_inline struct family_cpu *own_here(void)
{
	struct family_cpu *cpu = cpu_at(bpf_get_smp_processor_id());

	return cpu && cpu->is_own ? cpu : 0;
}

static __always_inline struct family_thread *member(struct task_struct *task)
{
	return task->bpf_storage ? bpf_task_storage_get(&threads, task, 0, 0) : 0;
}

/* Returns whether the thread belongs to the family. Without the asm, the compiler would combine the
 * bits of two pointers, which the verifier rejects. */
static __always_inline bool is_one(const struct family_thread *thread)
{
	u32 is = thread != 0;

	asm volatile("" : "+r"(is));
	return is;
}

static __always_inline u64 steal_of(const struct family_cpu *cpu)
{
	return cpu->own.steal_clock ? stolen_ns((void *)cpu->own.steal_clock, settings.xen) : 0;
}

/* Ends a program that began at `begin`. */
static __always_inline int ran(struct family_cpu *cpu, u64 begin)
{
	if (!(cpu->own.runs++ % OWN_TIMED_RUN))
		cpu->own.timed_ns += bpf_ktime_get_ns() - begin;
	return 0;
}

static __always_inline void count_loss(u64 unfollowed, u64 unnamed)
{
	u32 zero = 0;
	struct family_losses *all = bpf_map_lookup_elem(&losses, &zero);

	if (!all)
		return;
	if (unfollowed)
		__sync_fetch_and_add(&all->unfollowed, unfollowed);
	if (unnamed)
		__sync_fetch_and_add(&all->unnamed, unnamed);
}

static __always_inline void blame(const struct vmnoise_source *who, u64 ns)
{
	struct family_culprit *culprit, fresh = {};

	culprit = bpf_map_lookup_elem(&culprits, who);
	if (!culprit) {
		bpf_map_update_elem(&culprits, who, &fresh, BPF_NOEXIST);
		culprit = bpf_map_lookup_elem(&culprits, who);
	}
	if (!culprit) {
		count_loss(0, ns);
		return;
	}
	__sync_fetch_and_add(&culprit->ns, ns);
	__sync_fetch_and_add(&culprit->count, 1);
	if (ns > culprit->longest)
		culprit->longest = ns;
}

static __always_inline void note_steal(struct family_cpu *cpu, u64 before, u64 now)
{
	struct vmnoise_source nobody = {};

	lengthens(&cpu->longest[FAMILY_STEAL], minus(cpu->own.steal.ns, before), now, &nobody);
}

static __always_inline int irq_begins(u32 id, u32 origin)
{
	struct family_cpu *cpu = own_here();
	u64 now, stolen;

	if (!cpu)
		return 0;
	now = bpf_ktime_get_ns();
	stolen = cpu->own.steal.ns;
	own_irq_entry(&cpu->own, now, steal_of(cpu), id, origin);
	note_steal(cpu, stolen, now);
	return ran(cpu, now);
}

/* Ends an interrupt. Only the event at its end has the name of the source. */
static __always_inline int irq_ends(struct family_cpu *cpu, const struct vmnoise_source *who)
{
	u64 now = bpf_ktime_get_ns(), stolen = cpu->own.steal.ns, before = cpu->own.irq.ns, net;

	family_irq_exit(cpu, now, steal_of(cpu), who->id, who->origin);
	note_steal(cpu, stolen, now);
	net = cpu->own.irq.ns - before;
	if (net) {
		blame(who, net);
		lengthens(&cpu->longest[FAMILY_IRQ], net, now, who);
	}
	return ran(cpu, now);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int irq)
{
	return irq_begins(irq, VMNOISE_FROM_LINE);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_exit, int irq, struct irqaction *action)
{
	struct family_cpu *cpu = own_here();
	struct vmnoise_source who = {};

	if (!cpu)
		return 0;
	name_line(&who, irq, action);
	return irq_ends(cpu, &who);
}

static __always_inline int vector_ends(u32 vector, const u64 *name)
{
	struct family_cpu *cpu = own_here();
	struct vmnoise_source who = {};

	if (!cpu)
		return 0;
	name_vector(&who, vector, name);
	return irq_ends(cpu, &who);
}

#define IRQ_VECTOR(word)                                                                           \
	SEC("tp_btf/" #word "_entry")                                                              \
	int BPF_PROG(word##_entry, int vector)                                                     \
	{                                                                                          \
		return irq_begins(vector, VMNOISE_FROM_VECTOR);                                    \
	}                                                                                          \
	SEC("tp_btf/" #word "_exit")                                                               \
	int BPF_PROG(word##_exit, int vector)                                                      \
	{                                                                                          \
		union vector_name name = {.letters = #word};                                       \
                                                                                                   \
		return vector_ends(vector, name.words);                                            \
	}

#include "irq_vectors.bpf.h"

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry)
{
	struct family_cpu *cpu = own_here();
	u64 now, stolen;

	if (!cpu)
		return 0;
	now = bpf_ktime_get_ns();
	stolen = cpu->own.steal.ns;
	own_softirq_entry(&cpu->own, now, steal_of(cpu));
	note_steal(cpu, stolen, now);
	return ran(cpu, now);
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int number)
{
	struct vmnoise_source who = {};
	struct family_cpu *cpu = own_here();
	u64 now, stolen, before, net;

	if (!cpu)
		return 0;
	now = bpf_ktime_get_ns();
	stolen = cpu->own.steal.ns;
	before = cpu->own.softirq.ns;
	family_softirq_exit(cpu, now, steal_of(cpu));
	note_steal(cpu, stolen, now);
	net = cpu->own.softirq.ns - before;
	if (net) {
		who.id = number;
		who.origin = VMNOISE_FROM_SOFTIRQ;
		blame(&who, net);
		lengthens(&cpu->longest[FAMILY_SOFTIRQ], net, now, &who);
	}
	return ran(cpu, now);
}

/* Fires after each handler of an NMI. An NMI inside an interrupt is part of the interrupt. An NMI
 * may interrupt any other program. So this program does not write fields that other programs write,
 * and names no culprit. */
SEC("tp_btf/nmi_handler")
int BPF_PROG(nmi_handler, void *handler, __s64 delta_ns)
{
	struct family_cpu *cpu = own_here();

	if (!cpu || delta_ns <= 0 || cpu->own.irq_depth || cpu->own.softirq_start)
		return 0;
	cpu->nmi += delta_ns;
	if ((u64)delta_ns > cpu->longest[FAMILY_NMI].ns) {
		cpu->longest[FAMILY_NMI].ns = delta_ns;
		cpu->longest[FAMILY_NMI].until = bpf_ktime_get_ns();
	}
	return 0;
}

/* Names a task by its process, because the threads of a process may all have different names. */
static __always_inline void name_process(struct vmnoise_source *who, struct task_struct *task)
{
	who->id = task->tgid;
	who->origin = VMNOISE_FROM_TASK;
	bpf_probe_read_kernel(who->name, COMM_LEN, task->group_leader->comm);
	end_name((unsigned long long *)who->name);
}

static __always_inline u64 kernel_waited(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

/* Ends the wait of a thread that waited for another CPU than the one on which it is now. Its move
 * was missed. */
static __always_inline void strays(struct family_thread *thread, u32 here, u64 now)
{
	struct vmnoise_source nobody = {};
	struct family_cpu *cpu, *own;

	if (!thread || thread->state != FAMILY_WAITING || thread->cpu == here)
		return;
	cpu = cpu_at(thread->cpu);
	if (cpu)
		stops_waiting(thread, cpu, now, steal_of(cpu), thread->throttles);
	own = cpu_at(here);
	if (own)
		lengthens(&own->longest[FAMILY_WAIT], thread->lost, now, &nobody);
	thread->state = FAMILY_UNSEEN;
}

static __always_inline int task_switch(bool preempt, struct task_struct *prev,
				       struct task_struct *next, u32 prev_state)
{
	u32 number = bpf_get_smp_processor_id();
	struct family_cpu *cpu = cpu_at(number);
	struct family_thread *leaves, *comes;
	struct family_switch what = {};
	struct vmnoise_source who = {};
	struct family_event it = {};
	u64 blamed, stolen;

	if (!cpu)
		return 0;
	leaves = member(prev);
	comes = member(next);
	if (!is_for_family(cpu, is_one(leaves) || is_one(comes))) {
		cpu->task = (u64)next;
		return 0;
	}
	it.now = bpf_ktime_get_ns();
	it.steal = steal_of(cpu);
	it.number = number;
	what.prev = (u64)prev;
	what.next = (u64)next;
	what.prev_is_idle = !prev->pid;
	if (leaves) {
		what.prev_sleeps = !preempt && prev_state;
		what.prev_is_throttled = !what.prev_sleeps && is_throttled(prev);
		what.prev_throttles = throttles_of(prev);
	}
	if (comes)
		what.next_throttles = throttles_of(next);
	strays(leaves, number, it.now);
	strays(comes, number, it.now);
	name_process(&who, prev);
	stolen = cpu->own.steal.ns;
	blamed = family_switch(cpu, &it, &what, leaves, comes, &who);
	note_steal(cpu, stolen, it.now);
	if (blamed)
		blame(&who, blamed);
	if (leaves && prev_state & TASK_DEAD)
		family_ends(leaves, cpu, prev->se.sum_exec_runtime, kernel_waited(prev));
	return ran(cpu, it.now);
}

#include "sched_switch.bpf.h"

/* Handles a wake-up. The scheduler holds the lock of the queue on which the task is put. */
static __always_inline int wakes(struct task_struct *task)
{
	struct family_thread *thread = member(task);
	struct family_event it = {};
	struct family_cpu *cpu;

	if (!thread)
		return 0;
	it.number = cpu_of(task);
	cpu = cpu_at(it.number);
	if (!cpu)
		return 0;
	it.now = bpf_ktime_get_ns();
	it.steal = steal_of(cpu);
	family_wakes(thread, cpu, &it, is_on_cpu(task), is_throttled(task), throttles_of(task));
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	return wakes(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *task)
{
	return wakes(task);
}

/* Fires before the task moves. The scheduler holds the lock of the queue that the task leaves
 * (set_task_cpu). */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *task, int to_cpu)
{
	struct family_thread *thread = member(task);
	struct family_event it = {};
	struct family_cpu *from, *to;

	if (!thread || thread->state != FAMILY_WAITING || thread->cpu == (u32)to_cpu)
		return 0;
	it.number = to_cpu;
	from = cpu_at(thread->cpu);
	to = cpu_at(to_cpu);
	if (!from || !to)
		return 0;
	it.now = bpf_ktime_get_ns();
	it.steal = steal_of(to);
	family_moves(thread, from, steal_of(from), to, &it, throttles_of(task));
	return 0;
}

/* Fires before the child is woken for the first time. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	bool is_first = starter && (u32)parent->pid == starter && child->tgid != parent->tgid;

	if (!is_first && !member(parent))
		return 0;
	if (is_first)
		starter = 0;
	if (!bpf_task_storage_get(&threads, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
		count_loss(1, 0);
	return 0;
}

/* Stores the current thread as the one that next starts the command. */
SEC("raw_tp")
int will_start(void *ctx)
{
	starter = (u32)bpf_get_current_pid_tgid();
	return 0;
}

/* Reports the living threads of the family in one walk over all tasks. */
SEC("iter/task")
int find_members(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct family_member found = {};
	struct family_thread *thread;
	u64 under_way;

	thread = task ? member(task) : 0;
	if (!thread || !thread->first || thread->state == FAMILY_ENDED)
		return 0;
	found.tid = task->pid;
	found.tgid = task->tgid;
	found.books = thread->books;
	found.books.wall = minus(thread->since, thread->first);
	/* The time since the thread's last event is not counted yet. */
	under_way = thread->state == FAMILY_ASLEEP ? 0 : minus(bpf_ktime_get_ns(), thread->since);
	found.books.unseen += under_way;
	found.books.wall += under_way;
	found.books.threads = 1;
	found.books.kernel_ran = task->se.sum_exec_runtime;
	found.books.kernel_waited = kernel_waited(task);
	found.books.unshown = unshown(&found.books);
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

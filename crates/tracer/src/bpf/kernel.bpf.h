/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The types, constants and kernel structures that the programs need, and libbpf's helpers. CO-RE
 * finds fields by name, so only the names matter here. This file needs neither vmlinux.h nor a
 * system header. */
#ifndef VMNOISE_KERNEL_BPF_H
#define VMNOISE_KERNEL_BPF_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef _Bool bool;

/* include/uapi/linux/bpf.h */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2 };
enum { BPF_MAP_TYPE_QUEUE = 22, BPF_MAP_TYPE_RINGBUF = 27, BPF_MAP_TYPE_TASK_STORAGE = 29 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };

#define EEXIST 17

/* include/linux/sched.h. TASK_STOPPED_OR_TRACED: stopped by a signal, or held by ptrace(2). */
enum { TASK_STOPPED_OR_TRACED = 0x4 | 0x8, TASK_DEAD = 0x80 };

#define COMM_LEN 16 /* TASK_COMM_LEN of include/linux/sched.h */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Queue of real-time tasks. Since 6.12, rt_throttled is set only with CONFIG_RT_GROUP_SCHED. */
struct rt_rq {
	int rt_throttled;
};

struct rq {
	int cpu;
	struct task_struct *curr;
	struct rt_rq rt;
	u64 clock;
	u64 clock_task;
	u64 prev_steal_time;
};

/* `throttle_count` exists with CONFIG_CFS_BANDWIDTH. */
struct cfs_rq {
	struct rq *rq;
	int throttle_count;
	struct task_group *tg;
};

/* Exists with CONFIG_CFS_BANDWIDTH. */
struct cfs_bandwidth {
	u64 throttled_time;
};

struct task_group {
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
};

struct sched_entity {
	u64 exec_start;
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

/* Empty without CONFIG_SCHED_INFO. */
struct sched_info {
	unsigned long pcount;
	u64 run_delay;
	u64 last_arrival;
	u64 last_queued;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct hlist_node;

struct hlist_head {
	struct hlist_node *first;
};

struct bpf_local_storage;

/* `owner` exists with CONFIG_MEMCG. */
struct mm_struct {
	struct task_struct *owner;
};

/* `throttled` exists since 6.18, `preempt_notifiers` with CONFIG_PREEMPT_NOTIFIERS. */
struct task_struct {
	unsigned int __state;
	unsigned int flags;
	struct mm_struct *mm;
	int pid;
	int tgid;
	int on_cpu;
	int on_rq;
	int wake_cpu;
	unsigned int policy;
	int prio;
	bool throttled;
	char comm[16];
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned long nvcsw;
	unsigned long nivcsw;
	struct hlist_head preempt_notifiers;
	struct css_set *cgroups;
	struct bpf_local_storage *bpf_storage;
};

/* The field `state` before 5.14 (commit 2f064a59a11f). */
struct task_struct___pre_5_14 {
	long state;
};

struct irqaction {
	const char *name;
};

/* `_softexpires` excludes the slack by which an ordinary task's timer may be late. */
struct hrtimer {
	__s64 _softexpires;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

/* arch/x86/include/uapi/asm/kvm_para.h. The layout is fixed, because it is an interface with the
 * hypervisor. */
struct kvm_steal_time {
	u64 steal;
	u32 version;
};

/* include/xen/interface/vcpu.h. The layout is fixed, and is that of 64-bit kernels here. `time` has
 * the ns in each state. Linux counts the two states XEN_RUNNABLE and XEN_OFFLINE as steal time. */
enum { XEN_RUNNABLE = 1, XEN_OFFLINE = 3 };
struct vcpu_runstate_info {
	int state;
	u64 state_entry_time;
	u64 time[4];
};

/* The helpers need the types above. */
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#endif

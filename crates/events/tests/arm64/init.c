/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The only program of an arm64 machine, without a C library. It traces KVM while a guest of a few
 * instructions makes one exit after another, prints the output of tracefs, and powers off. */
#include <linux/kvm.h>

/* arch/arm64/include/uapi/asm/kvm.h, which an x86 machine does not have. */
struct vcpu_init {
	__u32 target, features[7];
};
#define ARM_VCPU_INIT _IOW(KVMIO, 0xae, struct vcpu_init)
#define ARM_PREFERRED_TARGET _IOR(KVMIO, 0xaf, struct vcpu_init)
#define REG_PC (0x6030000000100000ULL | 64)

#define TRACEFS "/sys/kernel/tracing/"
#define MEMORY 0x80000000UL
#define SIZE 0x10000UL

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 asm("x8") = number;
	register long x0 asm("x0") = a, x1 asm("x1") = b, x2 asm("x2") = c;
	register long x3 asm("x3") = d, x4 asm("x4") = e, x5 asm("x5") = f;

	asm volatile("svc #0"
		     : "+r"(x0)
		     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
		     : "memory");
	return x0;
}

/* include/uapi/asm-generic/unistd.h and fcntl.h */
enum {
	IOCTL = 29,
	MKDIRAT = 34,
	MOUNT = 40,
	OPENAT = 56,
	READ = 63,
	WRITE = 64,
	REBOOT = 142,
	MMAP = 222
};
enum { CWD = -100, READ_ONLY = 0, WRITE_ONLY = 1, READ_WRITE = 2 };
enum { EINTR = 4 };

static long length(const char *text)
{
	long n = 0;

	while (text[n])
		n++;
	return n;
}

static void say(const char *text)
{
	call(WRITE, 1, (long)text, length(text), 0, 0, 0);
}

static void power_off(void)
{
	call(REBOOT, 0xfee1dead, 672274793, 0x4321fedc, 0, 0, 0);
}

static long must(long result, const char *what)
{
	if (result < 0) {
		say(what);
		say(" failed\n");
		power_off();
	}
	return result;
}

static long opened(const char *path, int flags)
{
	return must(call(OPENAT, CWD, (long)path, flags, 0, 0, 0), path);
}

static void put(const char *path, const char *text)
{
	must(call(WRITE, opened(path, WRITE_ONLY), (long)text, length(text), 0, 0, 0), path);
}

static void show(const char *path)
{
	static char buffer[4096];
	long file = opened(path, READ_ONLY), n;

	while ((n = call(READ, file, (long)buffer, sizeof(buffer), 0, 0, 0)) > 0)
		call(WRITE, 1, (long)buffer, n, 0, 0, 0);
}

static void mounted(const char *kind, const char *place)
{
	call(MKDIRAT, CWD, (long)place, 0755, 0, 0, 0);
	must(call(MOUNT, (long)kind, (long)place, (long)kind, 0, 0, 0), place);
}

/* Code of the guest. Its first instruction causes an IABT_LOW, because nothing is mapped yet. */
asm(".global guest, guest_end\n"
    "guest:\n"
    "	mov	x19, #3\n"
    "again:	mov	w0, #0x84000000\n" /* PSCI_VERSION */
    "	hvc	#0\n"
    "	mov	w0, #0x84000000\n"
    "	smc	#0\n"
    "	mrs	x1, id_aa64pfr0_el1\n" /* SYS64: KVM answers */
    "	mov	x2, #0x10000000\n"
    "	str	w1, [x2]\n" /* DABT_LOW: no memory there, so KVM asks the VMM */
    "	ldr	w1, [x2, #8]\n"
    "	mrs	x3, cntvct_el0\n"
    "	add	x3, x3, #0x10000\n" /* about a millisecond */
    "	msr	cntv_cval_el0, x3\n"
    "	mov	x4, #1\n"
    "	msr	cntv_ctl_el0, x4\n"
    "	wfi\n" /* WFx, until the timer */
    "	msr	cntv_ctl_el0, xzr\n"
    "	mov	x5, #0x400000\n"
    "spin:	subs	x5, x5, #1\n" /* IRQ: the host's own */
    "	b.ne	spin\n"
    "	subs	x19, x19, #1\n"
    "	b.ne	again\n"
    "	mov	w0, #0x84000000\n"
    "	add	w0, w0, #8\n" /* PSCI_SYSTEM_OFF */
    "	hvc	#0\n"
    "guest_end:\n");
extern const unsigned char guest[], guest_end[];

static void run(void)
{
	long kvm = opened("/dev/kvm", READ_WRITE);
	long vm = must(call(IOCTL, kvm, KVM_CREATE_VM, 0, 0, 0, 0), "KVM_CREATE_VM");
	char *memory = (char *)must(call(MMAP, 0, SIZE, 3, 0x21, -1, 0), "mmap");
	struct kvm_userspace_memory_region region = {0, 0, MEMORY, SIZE, (__u64)memory};
	long size = must(call(IOCTL, kvm, KVM_GET_VCPU_MMAP_SIZE, 0, 0, 0, 0), "size");
	__u64 pc = MEMORY;
	struct kvm_one_reg reg = {REG_PC, (__u64)&pc};
	struct vcpu_init init = {0};
	struct kvm_run *run;
	long vcpu, result;

	for (long i = 0; i < guest_end - guest; i++)
		memory[i] = guest[i];
	must(call(IOCTL, vm, KVM_SET_USER_MEMORY_REGION, (long)&region, 0, 0, 0), "memory");
	vcpu = must(call(IOCTL, vm, KVM_CREATE_VCPU, 0, 0, 0, 0), "KVM_CREATE_VCPU");
	must(call(IOCTL, vm, ARM_PREFERRED_TARGET, (long)&init, 0, 0, 0), "target");
	init.features[0] |= 1 << 2; /* PSCI 0.2 and later */
	must(call(IOCTL, vcpu, ARM_VCPU_INIT, (long)&init, 0, 0, 0), "KVM_ARM_VCPU_INIT");
	must(call(IOCTL, vcpu, KVM_SET_ONE_REG, (long)&reg, 0, 0, 0), "KVM_SET_ONE_REG");
	run = (void *)must(call(MMAP, 0, size, 3, 1, vcpu, 0), "kvm_run");
	do {
		result = call(IOCTL, vcpu, KVM_RUN, 0, 0, 0, 0);
		/* EINTR: without a GIC in KVM, the VMM must handle the guest's timer. */
		if (result != -EINTR)
			must(result, "KVM_RUN");
	} while (run->exit_reason != KVM_EXIT_SYSTEM_EVENT);
}

void _start(void)
{
	mounted("devtmpfs", "/dev");
	mounted("sysfs", "/sys");
	mounted("tracefs", "/sys/kernel/tracing");
	put(TRACEFS "events/kvm/kvm_exit/enable", "1");
	put(TRACEFS "events/kvm/kvm_entry/enable", "1");
	put(TRACEFS "events/kvm/kvm_userspace_exit/enable", "1");
	run();
	put(TRACEFS "tracing_on", "0");
	show(TRACEFS "events/kvm/kvm_exit/format");
	show(TRACEFS "trace");
	power_off();
}

//! The machine: guest memory, its page tables and the VM that they belong to.
//!
//! | guest address | what |
//! |---|---|
//! | 0x1000 | page tables: identity, 2 MiB pages, all for CPL3 |
//! | 0x8000 | for guests that take interrupts: segments, handlers, a stack, a page each |
//! | 0x10000 | the guest program, that of the exercises a page later, and that of the timers behind it |
//! | 2 MiB | one [`Mailbox`] page per vCPU |
//! | next 2 MiB boundary | one ring per vCPU, 2 MiB each |
//! | after the rings | the host's exit counts, if shared |
//! | next 2 MiB boundary | mapped, with no memory behind it |

use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kvm_bindings::{
    KVM_API_VERSION, KVM_CAP_HALT_POLL, KVM_CAP_SPLIT_IRQCHIP, KVM_CAP_TSC_DEADLINE_TIMER,
    KVM_MEM_READONLY, kvm_enable_cap, kvm_userspace_memory_region,
};
use kvm_ioctls::{Cap, Kvm, VmFd};
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous, munmap};
use vmnoise_events::exit_counts;

use super::Error;
use super::exercise::program as exercises;
use super::guest;
use super::lapic_timer::program as timers;
use super::layout::{EXERCISES, GDT, IDT, PAGE_TABLE, PROGRAM, TIMERS};
use super::shared_pages::SharedPages;
use crate::mailbox::{GapRecord, Mailbox, RECORD_WORDS, RING_BYTES, RING_RECORDS};
use crate::thread;

/// Largest number of vCPUs whose memory does not reach the APIC's addresses below 4 GiB.
pub const MAX_VCPUS: usize = 1024;

const LARGE_PAGE: usize = 2 << 20;
const TABLE_BYTES: usize = 4096;
const GIB: usize = 1 << 30;
const MAILBOXES: usize = LARGE_PAGE;
/// Present, writable, for CPL3.
const TABLE_ENTRY: u64 = 0x07;
/// A large page: present, writable, for CPL3, accessed and dirty.
const PAGE_ENTRY: u64 = 0xe7;
/// Address of three pages outside guest memory that VMX without unrestricted guests needs for real
/// mode. This guest never enters real mode.
const TSS_ADDRESS: usize = 0xfffb_d000;

/// Opens /dev/kvm and checks its API version.
pub fn open_kvm() -> Result<Kvm, Error> {
    let kvm = Kvm::new().map_err(Error::open)?;
    let version = kvm.get_api_version();
    if version.cast_unsigned() != KVM_API_VERSION {
        return Err(Error::ApiVersion(version));
    }
    Ok(kvm)
}

/// One VM with its memory in place, and without vCPUs yet.
#[derive(Debug)]
pub struct MicrovmMemory {
    pub kvm: Kvm,
    pub fd: VmFd,
    pub memory: Arc<GuestMemory>,
    /// Whether the vCPUs of the VM have an interrupt controller in KVM, whose timer supports a TSC
    /// deadline.
    pub has_lapic: bool,
}

impl MicrovmMemory {
    /// Creates the VM for vCPUs that will run on `cpus`.
    pub fn create(cpus: &[u32], shared: Option<SharedPages>) -> Result<MicrovmMemory, Error> {
        if cpus.is_empty() {
            return Err(thread::Error::NoCpu.into());
        }
        if cpus.len() > MAX_VCPUS {
            return Err(Error::TooManyCpus(cpus.len(), MAX_VCPUS));
        }
        let kvm = open_kvm()?;
        let fd = kvm.create_vm().map_err(Error::create_vm)?;
        // Only VMX without unrestricted guests needs it. Others may refuse it.
        let _ = fd.set_tss_address(TSS_ADDRESS);

        let memory = Arc::new(GuestMemory::new(cpus, shared)?);
        let slot = |slot, flags, guest: usize, len: usize, host: usize| {
            let region = kvm_userspace_memory_region {
                slot,
                flags,
                guest_phys_addr: guest as u64,
                memory_size: len as u64,
                userspace_addr: host as u64,
            };
            // SAFETY: the memory lives in an Arc<GuestMemory> that every vCPU holds as long as it
            // exists, and KVM runs no other code on it.
            unsafe { fd.set_user_memory_region(region) }
                .map_err(Error::kvm("KVM_SET_USER_MEMORY_REGION"))
        };
        slot(0, 0, 0, memory.len, memory.base.as_ptr() as usize)?;
        if let Some(shared) = &memory.shared {
            let read_only = if has_readonly_memory(&fd) {
                KVM_MEM_READONLY
            } else {
                0
            };
            slot(1, read_only, memory.len, shared.len(), shared.address())?;
        }
        Ok(MicrovmMemory {
            kvm,
            fd,
            memory,
            has_lapic: false,
        })
    }

    /// Gives each vCPU that is created later an interrupt controller in KVM. The VM must have no
    /// other controller, and no vCPU yet.
    pub fn add_lapics(&mut self) -> Result<(), Error> {
        if self
            .fd
            .check_extension_raw(u64::from(KVM_CAP_TSC_DEADLINE_TIMER))
            <= 0
        {
            return Err(Error::NoDeadlineTimer);
        }
        // Number of pins of an I/O APIC that no VMM emulates here.
        self.enable(
            KVM_CAP_SPLIT_IRQCHIP,
            24,
            "KVM_ENABLE_CAP(KVM_CAP_SPLIT_IRQCHIP)",
        )?;
        self.has_lapic = true;
        Ok(())
    }

    /// Returns whether KVM lets a VM have its own limit for halt polling (Linux 5.8).
    pub fn has_halt_poll_limit(&self) -> bool {
        self.fd.check_extension_raw(u64::from(KVM_CAP_HALT_POLL)) > 0
    }

    /// Makes KVM poll no longer than this when a vCPU of this VM halts.
    pub fn limit_halt_poll(&self, limit_ns: u32) -> Result<(), Error> {
        self.enable(
            KVM_CAP_HALT_POLL,
            u64::from(limit_ns),
            "KVM_ENABLE_CAP(KVM_CAP_HALT_POLL)",
        )
    }

    fn enable(&self, cap: u32, argument: u64, call: &'static str) -> Result<(), Error> {
        let cap = kvm_enable_cap {
            cap,
            args: [argument, 0, 0, 0],
            ..Default::default()
        };
        self.fd.enable_cap(&cap).map_err(Error::kvm(call))
    }

    /// Returns whether memory can be shared with the guest without write access.
    pub fn has_readonly_memory(&self) -> bool {
        has_readonly_memory(&self.fd)
    }
}

fn has_readonly_memory(fd: &VmFd) -> bool {
    fd.check_extension(Cap::ReadonlyMem)
}

/// Everything the guests see, mapped once and never moved.
#[derive(Debug)]
pub struct GuestMemory {
    base: NonNull<u8>,
    len: usize,
    vcpus: usize,
    shared: Option<SharedPages>,
}

// SAFETY: `base` is owned memory at a fixed address. After `new` it is accessed only through
// `&Mailbox` and `&[Record]`, which consist of atomics.
unsafe impl Send for GuestMemory {}
// SAFETY: as above.
unsafe impl Sync for GuestMemory {}

impl GuestMemory {
    fn new(cpus: &[u32], shared: Option<SharedPages>) -> Result<GuestMemory, Error> {
        if let Some(len) = shared.as_ref().map(SharedPages::len)
            && let Some(&cpu) = cpus
                .iter()
                .find(|&&cpu| slot_of(cpu) + exit_counts::SLOT_BYTES > len)
        {
            return Err(Error::ExitCountsTooSmall { cpu, len });
        }
        let vcpus = cpus.len();
        let len = ring_at(vcpus, vcpus);
        // Populated and locked, because the guest must not wait for a page.
        // SAFETY: a new anonymous mapping touches no memory that exists.
        let map = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
            )
        };
        let base = map
            .ok()
            .and_then(|base| NonNull::new(base.cast::<u8>()))
            .ok_or(Error::Memory {
                len,
                errno: map.err().map_or(0, |errno| errno.raw_os_error()),
            })?;
        // A refusal (RLIMIT_MEMLOCK) only costs what swapping would take.
        // SAFETY: the range is the mapping just made.
        let _ = unsafe { mlock(base.as_ptr().cast(), len) };
        let memory = GuestMemory {
            base,
            len,
            vcpus,
            shared,
        };
        memory.write_page_tables();
        memory.write(PROGRAM as usize, guest::program());
        memory.write(EXERCISES as usize, exercises::program());
        memory.write(TIMERS as usize, timers::program());
        memory.write(GDT as usize, &timers::segments());
        memory.write(IDT as usize, &timers::handlers());
        for (index, &cpu) in cpus.iter().enumerate() {
            let counts = match memory.shared {
                Some(_) => memory.len + slot_of(cpu),
                None => mailbox_at(index) + std::mem::offset_of!(Mailbox, no_exit_counts),
            };
            memory
                .mailbox(index)
                .control
                .exit_counts
                .store(counts as u64, Ordering::Relaxed);
        }
        Ok(memory)
    }

    /// Returns the mailbox of the vCPU with this index.
    pub fn mailbox(&self, index: usize) -> &Mailbox {
        assert!(index < self.vcpus, "no vCPU {index}");
        // SAFETY: the layout puts whole, page-aligned mailboxes below `len` for every index below
        // `vcpus`. Zeros are a valid Mailbox, and it is shared with the guest only by atomics.
        unsafe { self.base.add(mailbox_at(index)).cast().as_ref() }
    }

    /// Returns the ring of the vCPU with this index.
    pub fn ring(&self, index: usize) -> &[GapRecord] {
        assert!(index < self.vcpus, "no vCPU {index}");
        // SAFETY: as for the mailbox; a ring is RING_BYTES of records.
        unsafe {
            let ring = self
                .base
                .add(ring_at(self.vcpus, index))
                .cast::<GapRecord>();
            slice::from_raw_parts(ring.as_ptr(), RING_RECORDS)
        }
    }

    /// Returns the ring of the vCPU with this index after `Command::Sample`.
    pub fn samples(&self, index: usize) -> Vec<u64> {
        self.ring(index).iter().flat_map(GapRecord::words).collect()
    }

    /// Clears the first `words` words of what `samples` reads. Not while the vCPU runs.
    pub fn clear_samples(&self, index: usize, words: usize) {
        let records = words.div_ceil(RECORD_WORDS);
        self.ring(index)[..records]
            .iter()
            .for_each(GapRecord::clear);
    }

    /// Returns the guest addresses of the mailbox and the ring of the vCPU with this index.
    pub fn guest_addresses(&self, index: usize) -> (u64, u64) {
        (mailbox_at(index) as u64, ring_at(self.vcpus, index) as u64)
    }

    /// Returns the first guest address that the page tables map, and that has no memory.
    pub fn unbacked(&self) -> u64 {
        let backed = self.len + self.shared.as_ref().map_or(0, |shared| shared.len());
        backed.next_multiple_of(LARGE_PAGE) as u64
    }

    fn write_page_tables(&self) {
        let mapped = self.unbacked() as usize + LARGE_PAGE;
        let table = |index: usize| PAGE_TABLE as usize + index * TABLE_BYTES;
        let entry = |table: usize, index: usize, value: u64| {
            self.write(table + index * 8, &value.to_ne_bytes());
        };
        entry(table(0), 0, table(1) as u64 | TABLE_ENTRY);
        for gib in 0..mapped.div_ceil(GIB) {
            let directory = table(2 + gib);
            entry(table(1), gib, directory as u64 | TABLE_ENTRY);
            for page in 0..TABLE_BYTES / 8 {
                entry(
                    directory,
                    page,
                    (gib * GIB + page * LARGE_PAGE) as u64 | PAGE_ENTRY,
                );
            }
        }
    }

    /// Writes guest memory. Only before any vCPU exists.
    fn write(&self, at: usize, bytes: &[u8]) {
        assert!(
            at + bytes.len() <= self.len,
            "the layout keeps inside guest memory"
        );
        // SAFETY: inside the mapping, which nobody else uses yet.
        unsafe {
            self.base
                .add(at)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
        }
    }
}

impl Drop for GuestMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`; every reference into it borrowed `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

const fn mailbox_at(index: usize) -> usize {
    MAILBOXES + index * size_of::<Mailbox>()
}

const fn ring_at(vcpus: usize, index: usize) -> usize {
    mailbox_at(vcpus).next_multiple_of(LARGE_PAGE) + index * RING_BYTES
}

fn slot_of(cpu: u32) -> usize {
    cpu as usize * exit_counts::SLOT_BYTES
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    #[test]
    fn rings_are_large_pages_behind_the_mailboxes() {
        for vcpus in [1, 512, 513, MAX_VCPUS] {
            assert!(ring_at(vcpus, 0) >= mailbox_at(vcpus));
            assert_eq!(ring_at(vcpus, 1) % LARGE_PAGE, 0);
        }
        assert!(ring_at(MAX_VCPUS, MAX_VCPUS) < 3 * GIB, "clear of the APIC");
        assert!(PAGE_TABLE as usize + (2 + 4) * TABLE_BYTES <= PROGRAM as usize);
    }

    #[test]
    fn mailboxes_and_rings_do_not_overlap() {
        let memory = GuestMemory::new(&[0, 3], None).unwrap();
        memory.mailbox(1).counters.head.store(7, Ordering::Relaxed);
        memory.ring(0)[RING_RECORDS - 1]
            .end_tsc
            .store(8, Ordering::Relaxed);
        assert_eq!(memory.mailbox(0).counters.head.load(Ordering::Relaxed), 0);
        assert_eq!(memory.ring(1)[0].start_tsc.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn exit_counts_must_reach_the_measured_cpus() {
        let file = memfd_create("exits", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        let pages = || SharedPages::map(file.as_fd(), 4096).unwrap();
        assert!(GuestMemory::new(&[31], Some(pages())).is_ok());
        let error = GuestMemory::new(&[0, 32], Some(pages())).unwrap_err();
        assert_eq!(error, Error::ExitCountsTooSmall { cpu: 32, len: 4096 });
    }
}

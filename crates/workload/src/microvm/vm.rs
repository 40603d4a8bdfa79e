//! The VM with its guest memory and page tables.
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

/// Maximum number of vCPUs. The memory of more vCPUs would reach the addresses of the APIC below 4
/// GiB.
pub const MAX_VCPUS: usize = 1024;

const LARGE_PAGE: usize = 2 << 20;
const TABLE_BYTES: usize = 4096;
const GIB: usize = 1 << 30;
const MAILBOXES: usize = LARGE_PAGE;
/// Flags of an entry that points to a page table: present, writable, accessible at CPL3.
const TABLE_ENTRY: u64 = 0x07;
/// Flags of an entry for a large page: present, writable, accessible at CPL3, accessed, dirty.
const PAGE_ENTRY: u64 = 0xe7;
/// Address of three pages outside of guest memory. VMX without support for unrestricted guests
/// needs these pages for real mode, which this guest never enters.
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

/// One VM with its memory, but without vCPUs.
#[derive(Debug)]
pub struct MicrovmMemory {
    pub kvm: Kvm,
    pub fd: VmFd,
    pub memory: Arc<GuestMemory>,
    /// Whether the vCPUs of the VM have an interrupt controller in KVM whose timer supports TSC
    /// deadlines.
    pub has_lapic: bool,
}

impl MicrovmMemory {
    /// Creates the VM, with memory for one vCPU on each of `cpus`.
    pub fn create(cpus: &[u32], shared: Option<SharedPages>) -> Result<MicrovmMemory, Error> {
        if cpus.is_empty() {
            return Err(thread::Error::NoCpu.into());
        }
        if cpus.len() > MAX_VCPUS {
            return Err(Error::TooManyCpus(cpus.len(), MAX_VCPUS));
        }
        let kvm = open_kvm()?;
        let fd = kvm.create_vm().map_err(Error::create_vm)?;
        // Only VMX without support for unrestricted guests needs this address. Other KVMs may
        // refuse it.
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
            // SAFETY: each vCPU holds an Arc of the memory as long as the vCPU exists. KVM accesses
            // this memory only for the guest.
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
    /// other interrupt controller and no vCPUs.
    pub fn add_lapics(&mut self) -> Result<(), Error> {
        if self
            .fd
            .check_extension_raw(u64::from(KVM_CAP_TSC_DEADLINE_TIMER))
            <= 0
        {
            return Err(Error::NoDeadlineTimer);
        }
        // Number of pins of the I/O APIC. The VMM does not emulate the I/O APIC.
        self.enable(
            KVM_CAP_SPLIT_IRQCHIP,
            24,
            "KVM_ENABLE_CAP(KVM_CAP_SPLIT_IRQCHIP)",
        )?;
        self.has_lapic = true;
        Ok(())
    }

    /// Returns whether KVM accepts a limit of halt polling for each VM (Linux 5.8).
    pub fn has_halt_poll_limit(&self) -> bool {
        self.fd.check_extension_raw(u64::from(KVM_CAP_HALT_POLL)) > 0
    }

    /// Limits the time for which KVM polls when a vCPU of this VM halts, to `limit_ns`.
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

    /// Returns whether KVM can share memory with the guest read-only.
    pub fn has_readonly_memory(&self) -> bool {
        has_readonly_memory(&self.fd)
    }
}

fn has_readonly_memory(fd: &VmFd) -> bool {
    fd.check_extension(Cap::ReadonlyMem)
}

/// Memory of the guest. It is mapped once, and its address never changes.
#[derive(Debug)]
pub struct GuestMemory {
    base: NonNull<u8>,
    len: usize,
    vcpus: usize,
    shared: Option<SharedPages>,
}

// SAFETY: this value owns the memory at `base`, whose address never changes. After `new`, the
// memory is accessed only through `&Mailbox` and `&[GapRecord]`, which consist of atomics.
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
        // The pages are populated and locked, because the guest must not wait for a page.
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
        // If the kernel refuses to lock the memory (RLIMIT_MEMLOCK), swapping may cause gaps.
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
        // SAFETY: for every index below `vcpus`, the layout has a whole, page-aligned mailbox below
        // `len`. Zeros are a valid Mailbox, and the guest and this process share it only by
        // atomics.
        unsafe { self.base.add(mailbox_at(index)).cast().as_ref() }
    }

    /// Returns the ring of the vCPU with this index.
    pub fn ring(&self, index: usize) -> &[GapRecord] {
        assert!(index < self.vcpus, "no vCPU {index}");
        // SAFETY: as for the mailbox. A ring has RING_BYTES bytes of records.
        unsafe {
            let ring = self
                .base
                .add(ring_at(self.vcpus, index))
                .cast::<GapRecord>();
            slice::from_raw_parts(ring.as_ptr(), RING_RECORDS)
        }
    }

    /// Returns the values that `GuestCommand::Sample` stored in the ring of the vCPU with this
    /// index.
    pub fn samples(&self, index: usize) -> Vec<u64> {
        self.ring(index).iter().flat_map(GapRecord::words).collect()
    }

    /// Sets the first `words` words of the ring to 0. Do not call this function while the vCPU
    /// runs.
    pub fn clear_samples(&self, index: usize, words: usize) {
        let records = words.div_ceil(RECORD_WORDS);
        self.ring(index)[..records]
            .iter()
            .for_each(GapRecord::clear);
    }

    /// Returns the guest addresses of the mailbox and of the ring of the vCPU with this index.
    pub fn guest_addresses(&self, index: usize) -> (u64, u64) {
        (mailbox_at(index) as u64, ring_at(self.vcpus, index) as u64)
    }

    /// Returns the first guest address that the page tables map but that has no memory.
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

    /// Writes guest memory. Call this function only before a vCPU exists.
    fn write(&self, at: usize, bytes: &[u8]) {
        assert!(
            at + bytes.len() <= self.len,
            "the layout keeps inside guest memory"
        );
        // SAFETY: the range is inside the mapping, which nothing else uses yet.
        unsafe {
            self.base
                .add(at)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
        }
    }
}

impl Drop for GuestMemory {
    fn drop(&mut self) {
        // SAFETY: `new` created the mapping. Every reference into the mapping borrowed `self`.
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

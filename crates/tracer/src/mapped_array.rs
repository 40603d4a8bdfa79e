//! A BPF array that is mapped into this process.

use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapped `BPF_F_MMAPABLE` array.
#[derive(Debug)]
pub(crate) struct MappedArray<Slot> {
    addr: NonNull<u8>,
    len: usize,
    slots: usize,
    slot: PhantomData<Slot>,
}

// SAFETY: the mapping belongs to this value alone, and every access is atomic.
unsafe impl<Slot> Send for MappedArray<Slot> {}
// SAFETY: as above.
unsafe impl<Slot> Sync for MappedArray<Slot> {}

impl<Slot> MappedArray<Slot> {
    /// Maps an array with `slots` entries.
    pub(crate) fn map(fd: BorrowedFd<'_>, slots: usize) -> std::io::Result<Self> {
        let len = (slots * size_of::<Slot>()).next_multiple_of(rustix::param::page_size());
        // SAFETY: a new shared mapping at an address the kernel chooses.
        let addr = unsafe {
            mmap(
                null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                fd,
                0,
            )
        }?;
        let addr = NonNull::new(addr.cast()).expect("mmap never returns the null page");
        Ok(MappedArray {
            addr,
            len,
            slots,
            slot: PhantomData,
        })
    }

    /// Returns the number of mapped bytes, a whole number of pages.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the address of a field of a slot; `None` if there is no such slot.
    pub(crate) fn field<Word>(&self, index: u32, offset: usize) -> Option<NonNull<Word>> {
        let index = usize::try_from(index)
            .ok()
            .filter(|&index| index < self.slots)?;
        assert!(offset + size_of::<Word>() <= size_of::<Slot>());
        let at = index * size_of::<Slot>() + offset;
        assert!(at.is_multiple_of(align_of::<Word>()));
        // SAFETY: `at` lies inside the mapping by the two bounds above.
        Some(unsafe { self.addr.add(at) }.cast())
    }

    pub(crate) fn u64(&self, index: u32, offset: usize) -> Option<&AtomicU64> {
        let field = self.field::<AtomicU64>(index, offset)?;
        // SAFETY: the field is aligned and inside the mapping, which lives as long as `self`. BPF
        // and guests access it in whole words too.
        Some(unsafe { field.as_ref() })
    }

    /// Returns the sum of a field over all slots.
    pub(crate) fn sum(&self, offset: usize) -> u64 {
        let slots = 0..u32::try_from(self.slots).unwrap_or(u32::MAX);
        let words = slots.filter_map(|slot| self.u64(slot, offset));
        words.map(|word| word.load(Relaxed)).sum()
    }

    /// Sets a field of all slots.
    pub(crate) fn store(&self, offset: usize, value: u32) {
        for slot in 0..u32::try_from(self.slots).unwrap_or(u32::MAX) {
            if let Some(word) = self.u32(slot, offset) {
                word.store(value, Relaxed);
            }
        }
    }

    /// Returns the words of a slot; `None` if there is no such slot. If a program writes at the
    /// same time, the words are from different instants.
    pub(crate) fn words(&self, index: u32) -> Option<Vec<u64>> {
        let mut words = Vec::new();
        self.copy_words(index, &mut words);
        (!words.is_empty()).then_some(words)
    }

    /// Appends the words of a slot to `words`. Appends nothing if there is no such slot.
    pub(crate) fn copy_words(&self, index: u32, words: &mut Vec<u64>) {
        const { assert!(size_of::<Slot>().is_multiple_of(size_of::<u64>())) };
        let offsets = (0..size_of::<Slot>()).step_by(size_of::<u64>());
        let fields = offsets.map_while(|offset| self.u64(index, offset));
        words.extend(fields.map(|word| word.load(Relaxed)));
    }

    pub(crate) fn u32(&self, index: u32, offset: usize) -> Option<&AtomicU32> {
        let field = self.field::<AtomicU32>(index, offset)?;
        // SAFETY: as in `u64`.
        Some(unsafe { field.as_ref() })
    }
}

impl<Slot> Drop for MappedArray<Slot> {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no reference into the mapping outlives `self`.
        // munmap fails only for an address that is not mapped, and nothing has to be done in that
        // case.
        let _ = unsafe { munmap(self.addr.as_ptr().cast(), self.len) };
    }
}

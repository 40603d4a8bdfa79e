//! Memory that others write and a guest reads: the live exit counts.

use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::Error;

/// Memory of the host that a guest reads live, in the layout of
/// [`vmnoise_events::exit_counts`].
#[derive(Clone)]
pub struct SharedPages(Arc<Mapping>);

struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

impl SharedPages {
    /// Maps `len` bytes of `file`, such as a BPF array with `BPF_F_MMAPABLE`, as long as a guest
    /// may read them. `len` is a multiple of the page size. Others may write it at any time, by
    /// aligned u64 stores.
    ///
    /// # Errors
    /// [`Error::Memory`] if it cannot be mapped.
    pub fn map(file: BorrowedFd<'_>, len: usize) -> Result<SharedPages, Error> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0) };
        let base = base.map_err(|errno| Error::Memory {
            len,
            errno: errno.raw_os_error(),
        })?;
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address 0 unasked");
        Ok(SharedPages(Arc::new(Mapping { base, len })))
    }

    /// Returns the address of the mapping in this process.
    pub(super) fn address(&self) -> usize {
        self.0.base.as_ptr() as usize
    }

    /// Returns the number of mapped bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len
    }
}

// SAFETY: the mapping is only passed to KVM, by its address.
unsafe impl Send for Mapping {}
// SAFETY: as above. Nothing dereferences it here.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: only ours, and no guest that could read it is left. munmap fails only for an
        // address that is not mapped, and then there is nothing to undo.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl std::fmt::Debug for SharedPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedPages")
            .field("address", &self.address())
            .field("len", &self.len())
            .finish()
    }
}

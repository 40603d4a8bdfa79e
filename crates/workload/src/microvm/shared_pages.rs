//! Memory of the host that a guest can read: the live exit counts.

use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::Error;

/// Memory of the host that a guest reads while the host writes it. Its layout is that of
/// [`vmnoise_events::exit_counts`].
#[derive(Clone)]
pub struct SharedPages(Arc<Mapping>);

struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

impl SharedPages {
    /// Maps the first `len` bytes of `file`, for instance of a BPF array with `BPF_F_MMAPABLE`. The
    /// mapping lives as long as a guest may read it. `len` must be a multiple of the page size.
    /// Other programs may write the memory at any time, by aligned u64 stores.
    ///
    /// # Errors
    /// [`Error::Memory`] if the file cannot be mapped.
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
// SAFETY: as above. Nothing in this process dereferences the address.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: only this value owns the mapping, and no guest that could read it exists any
        // more. munmap fails only if the address is not mapped, and then there is nothing to undo.
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

//! The types of the kernel and of KVM's module in one file. libbpf itself finds a module's types
//! only with CAP_SYS_ADMIN, because only then the kernel lists modules. Every process may read the
//! files with the types.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};

const KERNEL: &str = "/sys/kernel/btf/vmlinux";
const KVM: &str = "/sys/kernel/btf/kvm";
/// Size of `struct btf_header` of include/uapi/linux/btf.h.
const HEADER: usize = 24;

/// A file in memory that has the types of the kernel and of KVM's module.
#[derive(Debug)]
pub(crate) struct JoinedBtf(File);

impl JoinedBtf {
    /// Joins the types. Returns `None` if KVM is not a module, or is not loaded. The kernel's own
    /// types are then complete.
    ///
    /// # Errors
    /// If the types cannot be read, or are not in BTF format.
    pub(crate) fn of_kvm() -> std::io::Result<Option<JoinedBtf>> {
        let Ok(module) = fs::read(KVM) else {
            return Ok(None);
        };
        let joined = join(&fs::read(KERNEL)?, &module);
        let joined = joined.ok_or_else(|| std::io::Error::other(format!("{KVM} has no types")))?;
        let mut file = File::from(memfd_create("vmnoise-btf", MemfdFlags::CLOEXEC)?);
        file.write_all(&joined)?;
        Ok(Some(JoinedBtf(file)))
    }

    /// Returns a path by which the file can be opened while this value lives.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// Appends a module's types and strings to those of the kernel; `None` if one of the files is not
/// in BTF format. In a module, the numbers of types and the offsets of strings continue after those
/// of the kernel.
fn join(kernel: &[u8], module: &[u8]) -> Option<Vec<u8>> {
    let (kernel, module) = (Sections::of(kernel)?, Sections::of(module)?);
    let types = [kernel.types, module.types].concat();
    let strings = [kernel.strings, module.strings].concat();
    let mut joined = kernel.head.to_vec();
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).ok();
    let words = [
        u32::try_from(HEADER).ok()?,
        0,
        length(&types)?,
        length(&types)?,
        length(&strings)?,
    ];
    joined.extend(words.into_iter().flat_map(u32::to_ne_bytes));
    joined.extend(types);
    joined.extend(strings);
    Some(joined)
}

/// Sections of a BTF file.
#[derive(Debug)]
pub(crate) struct Sections<'a> {
    /// Magic, version and flags.
    head: &'a [u8],
    types: &'a [u8],
    pub(crate) strings: &'a [u8],
}

impl Sections<'_> {
    /// Returns the sections; `None` if the bytes are not in BTF format, or are cut off.
    pub(crate) fn of(bytes: &[u8]) -> Option<Sections<'_>> {
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_ne_bytes(bytes)).ok()
        };
        let section = |at: usize| {
            let start = word(4)?.checked_add(word(at)?)?;
            bytes.get(start..start.checked_add(word(at + 4)?)?)
        };
        Some(Sections {
            head: bytes.get(..4)?,
            types: section(8)?,
            strings: section(16)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::HasSize;
    use libbpf_rs::btf::types::Struct;
    use libbpf_rs::btf::{Btf, BtfKind};

    use super::*;

    /// Returns a module's BTF with one structure of 40 bytes. It continues the types in `kernel`.
    fn module(kernel: &[u8]) -> Vec<u8> {
        let name = u32::try_from(Sections::of(kernel).unwrap().strings.len()).unwrap();
        let kind = u32::from(BtfKind::Struct as u8) << 24;
        let strings = b"vmnoise_of_a_module\0";
        let words = [24, 0, 12, 12, strings.len() as u32, name, kind, 40];
        let mut module = kernel[..4].to_vec();
        module.extend(words.into_iter().flat_map(u32::to_ne_bytes));
        module.extend(strings);
        module
    }

    #[test]
    fn what_only_the_module_has_is_found_beside_the_kernel() {
        let kernel = fs::read(KERNEL).unwrap();
        let joined = join(&kernel, &module(&kernel)).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), joined).unwrap();
        let btf = Btf::from_path(file.path()).unwrap();
        let found = btf
            .type_by_name::<Struct<'_>>("vmnoise_of_a_module")
            .unwrap();
        assert_eq!(found.size(), 40);
        assert!(btf.type_by_name::<Struct<'_>>("task_struct").is_some());
    }

    #[test]
    fn what_is_cut_is_refused() {
        let kernel = fs::read(KERNEL).unwrap();
        for cut in [&[][..], &[255; 24], &kernel[..kernel.len() - 1]] {
            assert!(join(&kernel, cut).is_none());
        }
    }
}

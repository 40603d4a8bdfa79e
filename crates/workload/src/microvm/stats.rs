//! Counts that KVM itself keeps for each vCPU, for instance its exits. They are values of the
//! binary statistics file (Linux 5.14; Documentation/virt/kvm/api.rst, KVM_GET_STATS_FD).

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

use kvm_ioctls::VcpuFd;

/// Number of the ioctl KVM_GET_STATS_FD: `_IO(KVMIO, 0xce)`.
const KVM_GET_STATS_FD: libc::Ioctl = 0xaece;
/// Size of the header. It has six u32: flags, name_size, num_desc, id_offset, desc_offset,
/// data_offset.
const HEADER_BYTES: usize = 24;
/// Size of a descriptor without the name that follows. It has u32 flags, s16 exponent, u16 size,
/// u32 offset and u32 bucket_size.
const DESCRIPTOR_BYTES: usize = 16;

/// Name of the counter of all exits of a guest, including exits that the VMM handled.
pub const EXITS: &str = "exits";

/// One counter of one vCPU.
#[derive(Debug)]
pub struct VcpuStat {
    file: File,
    offset: u64,
    /// Value when the counter was opened. Exits during the set-up are not noise.
    before: u64,
}

impl VcpuStat {
    /// Opens the counter; `None` if this kernel has no statistics file, or the file has no such
    /// name.
    pub fn open(vcpu: &VcpuFd, name: &str) -> Option<VcpuStat> {
        // SAFETY: KVM_GET_STATS_FD takes no argument and returns a new descriptor.
        let fd = unsafe { libc::ioctl(vcpu.as_raw_fd(), KVM_GET_STATS_FD) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
        let file = unsafe { File::from_raw_fd(fd) };
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).ok()?;
        let mut schema = vec![0; Layout::of(&header)?.schema_end()?];
        file.read_exact_at(&mut schema, 0).ok()?;
        let offset = position(&schema, name)?;
        let before = u64_at(&file, offset)?;
        Some(VcpuStat {
            file,
            offset,
            before,
        })
    }

    /// Returns the count since the counter was opened; `None` if it can no longer be read.
    pub fn read(&self) -> Option<u64> {
        Some(u64_at(&self.file, self.offset)?.wrapping_sub(self.before))
    }
}

fn u64_at(file: &File, offset: u64) -> Option<u64> {
    let mut value = [0; 8];
    file.read_exact_at(&mut value, offset).ok()?;
    Some(u64::from_ne_bytes(value))
}

/// Layout of the statistics file, as its header describes it.
struct Layout {
    name_bytes: usize,
    descriptors: usize,
    descriptors_start: usize,
    data_start: usize,
}

impl Layout {
    fn of(header: &[u8]) -> Option<Layout> {
        let field = |index: usize| u32_at(header, index * 4);
        Some(Layout {
            name_bytes: field(1)?,
            descriptors: field(2)?,
            descriptors_start: field(4)?,
            data_start: field(5)?,
        })
    }

    fn stride(&self) -> usize {
        DESCRIPTOR_BYTES + self.name_bytes
    }

    /// Returns the end of the descriptors in the file; `None` if the header is implausible.
    fn schema_end(&self) -> Option<usize> {
        let bytes = self.stride().checked_mul(self.descriptors)?;
        let end = self.descriptors_start.checked_add(bytes)?;
        (end <= 1 << 20).then_some(end)
    }
}

/// Returns the offset in the file of the statistic `name`. `schema` is the begin of the file, up to
/// the end of the last descriptor.
fn position(schema: &[u8], name: &str) -> Option<u64> {
    let layout = Layout::of(schema)?;
    let descriptors = schema.get(layout.descriptors_start..layout.schema_end()?)?;
    let descriptor = descriptors
        .chunks_exact(layout.stride())
        .find(|descriptor| {
            let field = &descriptor[DESCRIPTOR_BYTES..];
            field.split(|&byte| byte == 0).next() == Some(name.as_bytes())
        })?;
    Some((layout.data_start + u32_at(descriptor, 8)?) as u64)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..at + 4)?;
    usize::try_from(u32::from_ne_bytes(field.try_into().ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file with the kernel's layout: header, id, descriptors, but no values.
    fn schema(names: &[&str]) -> Vec<u8> {
        let (name_bytes, id_offset, desc_offset) = (48u32, 24u32, 72u32);
        let data_offset = desc_offset + names.len() as u32 * (16 + name_bytes);
        let mut file = Vec::new();
        for field in [
            0,
            name_bytes,
            names.len() as u32,
            id_offset,
            desc_offset,
            data_offset,
        ] {
            file.extend(field.to_ne_bytes());
        }
        file.resize(desc_offset as usize, b'x');
        for (index, name) in names.iter().enumerate() {
            file.extend([0; 4]); // flags
            file.extend([0, 0, 1, 0]); // exponent 0, one value
            file.extend((index as u32 * 8).to_ne_bytes());
            file.extend([0; 4]); // bucket size
            let mut field = name.as_bytes().to_vec();
            field.resize(name_bytes as usize, 0);
            file.extend(field);
        }
        file
    }

    #[test]
    fn a_statistic_is_found_by_its_whole_name() {
        let file = schema(&["irq_exits", "exits", "exits_x"]);
        assert_eq!(position(&file, "exits"), Some(72 + 3 * 64 + 8));
        assert_eq!(position(&file, "exit"), None);
    }

    #[test]
    fn a_cut_or_absurd_file_has_no_statistic() {
        let file = schema(&["exits"]);
        for end in 0..file.len() {
            assert_eq!(position(&file[..end], "exits"), None, "cut at {end}");
        }
        let mut absurd = file;
        absurd[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(position(&absurd, "exits"), None);
    }
}

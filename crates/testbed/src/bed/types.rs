//! Reads the types (BTF) of a kernel from the files of the kernel and of a module. The kernel need
//! not run.

use anyhow::{Context, Result, ensure};
use object::{File, Object, ObjectSection};

use super::apt::DebianSuite;
use super::bzimage::word;
use super::compressed::decompressed;
use super::kernel::{self, DebianKernel};

/// All types that a module knows, including the types of its kernel.
#[derive(Debug, Clone)]
pub struct ModuleTypes {
    /// Version of the kernel as `uname -r` prints it.
    pub kernel_version: String,
    /// BTF of the kernel and the module in one piece, as if the module were built in.
    pub btf: Vec<u8>,
}

/// Reads the types of a module (such as `kvm-intel`) of a Debian kernel. Fetches the kernel if
/// necessary.
///
/// # Errors
/// If the kernel cannot be fetched, or has no BTF.
pub fn types_of_module(
    kernel: DebianKernel,
    suite: DebianSuite,
    module: &str,
) -> Result<ModuleTypes> {
    let image = kernel::install(kernel, suite)?;
    let vmlinux = std::fs::read(image.vmlinux()?)?;
    let path = image.module(module)?;
    let module = decompressed(&std::fs::read(&path)?)?;
    let of_module = section(&module).with_context(|| path.display().to_string())?;
    let of_kernel = section(&vmlinux).with_context(|| image.vmlinuz.display().to_string())?;
    Ok(ModuleTypes {
        btf: merged(of_kernel, of_module)?,
        kernel_version: image.version,
    })
}

fn section(elf: &[u8]) -> Result<&[u8]> {
    let file = File::parse(elf).context("no ELF file")?;
    let section = file.section_by_name(".BTF").context("no BTF in it")?;
    Ok(section.data()?)
}

/// Joins the BTF of the kernel and of the module. A module's type numbers and name offsets continue
/// those of its kernel, so it suffices to concatenate the types and the names
/// (Documentation/bpf/btf.rst).
fn merged(of_kernel: &[u8], of_module: &[u8]) -> Result<Vec<u8>> {
    const HEADER: usize = 24;
    let [(types, names), (more_types, more_names)] = [parts(of_kernel)?, parts(of_module)?];
    let types = [types, more_types].concat();
    let names = [names, more_names].concat();
    let [types_len, names_len] = [&types, &names].map(|part| part.len() as u32);
    let mut whole = of_kernel[..8].to_vec();
    for word in [0, types_len, types_len, names_len] {
        whole.extend(word.to_le_bytes());
    }
    ensure!(
        word(of_kernel, 4)? == HEADER && whole.len() == HEADER,
        "another header of BTF"
    );
    whole.extend(types);
    whole.extend(names);
    Ok(whole)
}

/// Returns the types section and the names section of BTF (`struct btf_header` of
/// include/uapi/linux/btf.h).
fn parts(btf: &[u8]) -> Result<(&[u8], &[u8])> {
    let part = |offset, length| {
        let start = word(btf, 4)? + word(btf, offset)?;
        let end = start + word(btf, length)?;
        btf.get(start..end).context("BTF cut short")
    };
    Ok((part(8, 12)?, part(16, 20)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn btf(types: &[u8], names: &[u8]) -> Vec<u8> {
        let mut btf = vec![0x9f, 0xeb, 1, 0];
        let lengths = [types.len() as u32, names.len() as u32];
        for word in [24, 0, lengths[0], lengths[0], lengths[1]] {
            btf.extend(word.to_le_bytes());
        }
        [&btf, types, names].concat()
    }

    #[test]
    fn the_types_of_a_module_go_on_where_those_of_its_kernel_end() {
        let kernel = btf(b"kernel's types", b"\0names\0");
        let module = btf(b"module's", b"more\0");
        let both = btf(b"kernel's typesmodule's", b"\0names\0more\0");
        assert_eq!(merged(&kernel, &module).unwrap(), both);
        assert!(merged(&kernel[..30], &module).is_err());
    }
}

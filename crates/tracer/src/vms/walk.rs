//! Scans the open files of processes by a BPF program.

use std::mem::{size_of, zeroed};
use std::ptr::NonNull;

use libbpf_rs::libbpf_sys::{bpf_iter_attach_opts, bpf_iter_link_info, bpf_program__attach_iter};
use libbpf_rs::{AsRawLibbpf, Link};

use super::wire::{OBJECT, WireFile};
use crate::btf::KernelBtf;
use crate::error::LoadError;
use crate::log::quietly;
use crate::object::{ObjectPlan, Programs, walk};
use crate::plain;

/// The loaded program. It runs only while its result is read.
#[derive(Debug)]
pub(super) struct Walk(Programs);

impl Walk {
    /// Loads the program.
    ///
    /// # Errors
    /// [`LoadError::Refused`] if this machine does not allow BPF, or this process has no right to
    /// use it. [`LoadError::Broken`] if BPF is allowed, but the programs do not load.
    pub(super) fn load() -> Result<Walk, LoadError> {
        let btf = KernelBtf::read()?;
        if !btf.has_vcpu_structure("kvm_vcpu") {
            return Err(LoadError::Refused {
                why: "this kernel has no BTF of KVM's structures, or KVM is not loaded".to_owned(),
                remedy: "load KVM; use a kernel with the BTF of its modules (CONFIG_DEBUG_INFO_BTF_MODULES)"
                    .to_owned(),
            });
        }
        let plan = ObjectPlan {
            name: "vmnoise_vms",
            compiled: OBJECT,
            reads_kvm: true,
            wants: &|_, _| true,
            entries: &|_, _| None,
            settings: &[],
        };
        let loaded = Walk(plan.load()?);
        // Only a first scan shows whether this process may read the result.
        match loaded.over(Some(std::process::id())) {
            Ok(_) => Ok(loaded),
            Err(error) => Err(LoadError::Broken(format!("the walk over files: {error}"))),
        }
    }

    /// Returns the files of VMs and vCPUs that processes of this pid namespace hold. If `process`
    /// is given, returns only the files of the process with this id in the namespace. Kernels
    /// before 6.1 ignore `process`.
    ///
    /// # Errors
    /// If the kernel refuses. A process that does not exist gives an empty result.
    pub(super) fn over(&self, process: Option<u32>) -> std::io::Result<Vec<WireFile>> {
        let (link, _) = quietly(|| self.attach(process));
        let link = match link {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(Vec::new()),
            link => link?,
        };
        Ok(plain::read_all(&walk(&link)?).collect())
    }

    /// Attaches the iterator to `process`, or to all processes. It calls libbpf directly, because
    /// libbpf-rs cannot select a process.
    fn attach(&self, process: Option<u32>) -> std::io::Result<Link> {
        let mut programs = self.0.progs();
        let program = programs.next().ok_or(std::io::ErrorKind::NotFound)?;
        // SAFETY: plain numbers, and 0 is valid for all of them.
        let (mut which, mut options): (bpf_iter_link_info, bpf_iter_attach_opts) =
            unsafe { (zeroed(), zeroed()) };
        which.task.pid = process.unwrap_or(0);
        options.sz = size_of::<bpf_iter_attach_opts>() as _;
        options.link_info = &raw mut which;
        options.link_info_len = size_of::<bpf_iter_link_info>() as _;
        // SAFETY: the program is loaded, and both structures live longer than the call.
        let link = unsafe {
            bpf_program__attach_iter(program.as_libbpf_object().as_ptr(), &raw const options)
        };
        match NonNull::new(link) {
            // SAFETY: libbpf made this link, and no other code owns it.
            Some(link) => Ok(unsafe { Link::from_ptr(link) }),
            None => Err(std::io::Error::last_os_error()),
        }
    }
}

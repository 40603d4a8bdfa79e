//! The Rust types of `bpf/vm_files.h`, generated from the object's BTF.

use crate::object::compiled;
use crate::plain::Plain;

compiled!("vm_files");

pub(super) use generated::types::vm_file as WireFile;

impl Plain for WireFile {}

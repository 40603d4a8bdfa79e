//! Unique names of vCPUs on the page.

use std::collections::HashMap;

use vmnoise_events::Vcpu;

/// Returns a name for each of these vCPUs. Equal names get the thread id, and a number if this
/// thread ran another vCPU before.
pub fn vcpu_names<'v>(vcpus: impl Iterator<Item = &'v Vcpu> + Clone) -> Vec<String> {
    let mut of_name: HashMap<String, usize> = HashMap::new();
    for vcpu in vcpus.clone() {
        *of_name.entry(short(vcpu)).or_default() += 1;
    }
    let mut of_thread: HashMap<String, usize> = HashMap::new();
    let named = vcpus.map(|vcpu| {
        let name = short(vcpu);
        if of_name[&name] == 1 {
            return name;
        }
        let name = match vcpu.number {
            Some(_) => format!("{name} (thread {})", vcpu.tid),
            None => name,
        };
        let nth = of_thread.entry(name.clone()).or_default();
        *nth += 1;
        match *nth {
            1 => name,
            nth => format!("{name}, {nth}"),
        }
    });
    named.collect()
}

fn short(vcpu: &Vcpu) -> String {
    let vm = &vcpu.vm_name;
    match vcpu.number {
        Some(number) => format!("vCPU {number} of {vm}"),
        None => format!("thread {} of {vm}", vcpu.tid),
    }
}

#[cfg(test)]
mod tests {
    use vmnoise_events::VcpuId;

    use super::*;

    fn vcpu(id: u32, tid: u32, number: Option<u32>, vm: &str) -> Vcpu {
        Vcpu {
            id: VcpuId(id),
            tid,
            vmm_pid: 7,
            number,
            vm: 1,
            vm_name: vm.into(),
            identity: Default::default(),
            sees_kvm: true,
        }
    }

    #[test]
    fn no_two_have_one_name() {
        let vcpus = [
            vcpu(0, 10, Some(0), "web"),
            vcpu(1, 11, Some(1), "web"),
            vcpu(2, 20, Some(1), "web"),
            vcpu(3, 20, Some(1), "web"),
            vcpu(4, 30, None, "web"),
            vcpu(5, 30, None, "web"),
        ];
        assert_eq!(
            vcpu_names(vcpus.iter()),
            [
                "vCPU 0 of web",
                "vCPU 1 of web (thread 11)",
                "vCPU 1 of web (thread 20)",
                "vCPU 1 of web (thread 20), 2",
                "thread 30 of web",
                "thread 30 of web, 2",
            ]
        );
    }
}

//! Identity of a VM, from its VMM's command line, its cgroup and the data of its container runtime.
//! The functions read no files.

use vmnoise_events::{VmFact, VmIdentity};

use super::super::cgroups::{Labels, Occupant};
use super::command::Told;

/// Prefix of the names that Kata gives to VMs of QEMU. The id of the pod's sandbox follows.
const KATA: &str = "sandbox-";

/// Returns the id of the container whose runtime knows the pod of a VM.
pub(super) fn container<'a>(told: &'a Told, occupant: &'a Occupant) -> Option<&'a str> {
    let container = occupant.container.as_ref().map(|it| it.id.as_str());
    container.or_else(|| sandbox(told))
}

/// Returns the name that people use for the VM, and all other facts that are known about the VM.
pub(super) fn of(
    told: &Told,
    occupant: &Occupant,
    labels: Option<&Labels>,
) -> (Option<String>, VmIdentity) {
    let name = told.name.as_ref().or(occupant.machine.as_ref());
    let is_in_pod = occupant.pod_uid.is_some() || labels.is_some();
    let of_kubevirt = name
        .filter(|_| is_in_pod)
        .and_then(|name| namespace_and_vmi(name));
    let namespace = of_kubevirt.map(|(namespace, _)| namespace);
    let label = |of: fn(&Labels) -> &String| labels.map(|it| of(it).as_str());
    let namespace = label(|it| &it.namespace).or(namespace);
    let pod = label(|it| &it.pod);
    let container = occupant.container.as_ref().map(|it| it.id.as_str());
    let facts = [
        (VmFact::Vmm, told.vmm),
        (VmFact::Uuid, told.uuid.as_deref()),
        (
            VmFact::Vmid,
            told.vmid.as_deref().or(occupant.vmid.as_deref()),
        ),
        (VmFact::Namespace, namespace),
        (VmFact::Vmi, of_kubevirt.map(|(_, vmi)| vmi)),
        (VmFact::Pod, pod),
        (VmFact::PodUid, occupant.pod_uid.as_deref()),
        (VmFact::Container, container),
        (VmFact::Unit, occupant.unit.as_deref()),
    ];
    let known = facts
        .into_iter()
        .filter_map(|(fact, word)| Some((fact, word?)));
    let in_namespace = |name: &str| Some(format!("{}/{name}", namespace?));
    let is_nameless = name.is_none() || sandbox(told).is_some();
    let called = match of_kubevirt {
        Some((_, vmi)) => in_namespace(vmi),
        None if is_nameless => pod.and_then(in_namespace),
        None => None,
    };
    (called.or(name.cloned()), known.collect())
}

fn sandbox(told: &Told) -> Option<&str> {
    let id = told.name.as_deref()?.strip_prefix(KATA)?;
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some(id)
}

/// Splits the name of a libvirt domain that KubeVirt created into namespace and VM. The domain's
/// name is `NAMESPACE_NAME` (pkg/virt-launcher/virtwrap/util, `DomainFromNamespaceName`). Names in
/// Kubernetes contain no underscore.
fn namespace_and_vmi(domain: &str) -> Option<(&str, &str)> {
    let (namespace, vmi) = domain.split_once('_')?;
    let is_name = |name: &str| {
        let is_fit = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.'
        };
        !name.is_empty() && name.bytes().all(is_fit)
    };
    (is_name(namespace) && is_name(vmi)).then_some((namespace, vmi))
}

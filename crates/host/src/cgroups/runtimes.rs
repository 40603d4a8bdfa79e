//! The pod of a container, from the files of container runtimes. Only root may read these files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Parts of the path of a container's configuration (the OCI bundle) before and after the
/// container's id.
const BUNDLES: [(&str, &str); 3] = [
    (
        "run/containerd/io.containerd.runtime.v2.task/k8s.io",
        "config.json",
    ),
    // k3s and RKE2.
    (
        "run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io",
        "config.json",
    ),
    // CRI-O.
    (
        "run/containers/storage/overlay-containers",
        "userdata/config.json",
    ),
];
/// Names of namespace and pod in it: containerd (internal/cri/annotations), and CRI-O, which has
/// kubelet's labels (internal/factory/container).
const KEYS: [(&str, &str); 2] = [
    (
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.cri.sandbox-name",
    ),
    ("io.kubernetes.pod.namespace", "io.kubernetes.pod.name"),
];
/// Largest size of a configuration: real ones have some ten thousand bytes.
const MOST_BYTES: u64 = 1 << 20;

/// The pod of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) namespace: String,
    pub(crate) pod: String,
}

/// The container runtimes of a machine.
#[derive(Debug, Clone)]
pub(crate) struct Runtimes(PathBuf);

#[derive(Debug, Deserialize)]
struct Config {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Runtimes {
    pub(crate) fn under(root: &Path) -> Runtimes {
        Runtimes(root.to_owned())
    }

    /// Returns the pod of this container; `None` if no runtime has the container, or this process
    /// may not read the runtime's file.
    pub(crate) fn labels(&self, container: &str) -> Option<Labels> {
        BUNDLES.iter().find_map(|(folder, file)| {
            let path = self.0.join(folder).join(container).join(file);
            let mut text = Vec::new();
            let file = File::open(path).ok()?;
            file.take(MOST_BYTES).read_to_end(&mut text).ok()?;
            labels(&text)
        })
    }
}

fn labels(config: &[u8]) -> Option<Labels> {
    let config: Config = serde_json::from_slice(config).ok()?;
    KEYS.iter().find_map(|(namespace, pod)| {
        Some(Labels {
            namespace: config.annotations.get(*namespace)?.clone(),
            pod: config.annotations.get(*pod)?.clone(),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_runtime_says_so_in_its_own_words_and_in_its_own_place() {
        let namespace_and_pod = |(namespace, pod): (&str, &str)| {
            format!(
                r#"{{"ociVersion":"1.1.0","annotations":{{"x":"","{namespace}":"vms","{pod}":"virt-launcher-web-x"}}}}"#
            )
        };
        for (place, keys) in [(0, 0), (1, 0), (2, 1)] {
            let root = tempfile::tempdir().unwrap();
            let (folder, file) = BUNDLES[place];
            let path = root.path().join(folder).join("4f2a").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, namespace_and_pod(KEYS[keys])).unwrap();
            let runtimes = Runtimes::under(root.path());
            let labels = Labels {
                namespace: "vms".to_owned(),
                pod: "virt-launcher-web-x".to_owned(),
            };
            assert_eq!(runtimes.labels("4f2a"), Some(labels));
            assert_eq!(runtimes.labels("4f2b"), None);
        }
    }

    #[test]
    fn what_is_not_said_is_unknown() {
        for config in [
            "",
            "[]",
            "{}",
            r#"{"annotations":{"io.kubernetes.pod.name":"a"}}"#,
        ] {
            assert_eq!(labels(config.as_bytes()), None, "{config}");
        }
    }
}

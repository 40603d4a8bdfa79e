//! Finds the pod of a container in the files of container runtimes. Only root may read these files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Path of a container's configuration (the OCI bundle). The container's id is between the two
/// parts.
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
/// Keys of the namespace and the name of the pod in the configuration. containerd defines the first
/// pair (internal/cri/annotations). CRI-O uses kubelet's labels (internal/factory/container).
const KEYS: [(&str, &str); 2] = [
    (
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.cri.sandbox-name",
    ),
    ("io.kubernetes.pod.namespace", "io.kubernetes.pod.name"),
];
/// Maximum number of bytes to read of a configuration. Real configurations have some ten thousand
/// bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Namespace and name of the pod of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) namespace: String,
    pub(crate) pod: String,
}

/// Container runtimes of a machine, whose files are below this root.
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

    /// Returns the pod of this container. Returns `None` if no runtime knows the container, or if
    /// this process may not read the runtime's file.
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

//! The objects for Kubernetes, as Kustomize renders them.

use std::process::{Command, Output};

use serde_json::{Value, json};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The schemas that they are held against.
const KUBERNETES: &str = "1.37";
/// As Python sees all documents of a YAML file.
const AS_JSON: &str =
    "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";

fn python(arguments: &[&str]) -> Output {
    let mut python = Command::new("python3");
    python.args(arguments);
    python.env("PYTHONPATH", format!("{REPOSITORY}/target/python"));
    let output = python.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn documents(file: &str) -> Vec<Value> {
    serde_json::from_slice(&python(&["-c", AS_JSON, file]).stdout).unwrap()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|it| it["kind"] == kind).unwrap()
}

#[test]
fn kustomize_renders_what_kubernetes_takes() {
    let mut kustomize = Command::new(format!("{REPOSITORY}/target/go/kustomize"));
    kustomize.args(["build", "packaging/kubernetes"]);
    let output = kustomize.current_dir(REPOSITORY).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let folder = tempfile::tempdir().unwrap();
    let rendered = folder.path().join("rendered.yaml");
    std::fs::write(&rendered, output.stdout).unwrap();
    let rendered = rendered.to_str().unwrap();

    let version = format!("--kubernetes-version={KUBERNETES}");
    let validated = python(&["-m", "kubernetes_validate", "--strict", &version, rendered]);
    let said = String::from_utf8_lossy(&validated.stdout);
    for object in ["namespace", "priorityclass", "daemonset"] {
        let passed = format!("passed for resource {object}/vmnoise");
        assert!(said.contains(&passed), "{said}");
    }

    let objects = documents(rendered);
    let rules = documents(&format!(
        "{REPOSITORY}/packaging/prometheus/vmnoise.rules.yml"
    ));
    assert_eq!(of_kind(&objects, "PrometheusRule")["spec"], rules[0]);
    let pod = &of_kind(&objects, "DaemonSet")["spec"]["template"]["spec"];
    let rights = json!({
        "privileged": false,
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "runAsUser": 0,
        "capabilities": {"drop": ["ALL"], "add": ["BPF", "PERFMON"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    assert_eq!(pod["containers"][0]["securityContext"], rights);
    // Nothing of the node is mounted.
    let volumes = pod["volumes"].as_array().unwrap();
    assert!(
        volumes.iter().all(|it| it["secret"].is_object()),
        "{volumes:?}"
    );
}

//! Tests the objects for Kubernetes, as Kustomize and Helm render them.

use std::process::{Command, Output};

use serde_json::{Value, json};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Version of Kubernetes whose schemas the objects must match.
const KUBERNETES: &str = "1.37";
/// Python program that prints all documents of a YAML file as JSON.
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

/// Returns the stdout of a program in `target/go`.
fn printed(program: &str, arguments: &[&str]) -> Vec<u8> {
    let mut program = Command::new(format!("{REPOSITORY}/target/go/{program}"));
    let output = program.args(arguments).current_dir(REPOSITORY).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn by_kustomize() -> Vec<u8> {
    printed("kustomize", &["build", "packaging/kubernetes"])
}

/// Returns the YAML that Helm renders with these arguments.
fn by_helm(arguments: &[&str]) -> Vec<u8> {
    let chart = ["template", "vmnoise", "packaging/kubernetes"];
    let namespace = ["--namespace", "vmnoise"];
    printed("helm", &[&chart[..], &namespace, arguments].concat())
}

/// Returns the objects in a YAML text.
fn objects(yaml: &[u8]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rendered.yaml");
    std::fs::write(&file, yaml).unwrap();
    documents(file.to_str().unwrap())
}

fn documents(file: &str) -> Vec<Value> {
    serde_json::from_slice(&python(&["-c", AS_JSON, file]).stdout).unwrap()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|it| it["kind"] == kind).unwrap()
}

#[test]
fn kustomize_renders_what_kubernetes_takes() {
    let folder = tempfile::tempdir().unwrap();
    let rendered = folder.path().join("rendered.yaml");
    std::fs::write(&rendered, by_kustomize()).unwrap();
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
    // The pod mounts no folder of the node.
    let volumes = pod["volumes"].as_array().unwrap();
    assert!(
        volumes.iter().all(|it| it["secret"].is_object()),
        "{volumes:?}"
    );
}

#[test]
fn helm_renders_the_same_but_for_the_namespace() {
    let by_kind = |objects: Vec<Value>| {
        let of_kind = |object: Value| (object["kind"].to_string(), object);
        let objects = objects.into_iter().map(of_kind);
        objects.collect::<std::collections::BTreeMap<_, _>>()
    };
    let mut kustomized = by_kind(objects(&by_kustomize()));
    assert!(kustomized.remove("\"Namespace\"").is_some());
    let helmed = by_kind(objects(&by_helm(&[])));
    assert_eq!(helmed, kustomized);
    assert_eq!(helmed.len(), 4);
}

#[test]
fn values_of_the_chart_take_their_places() {
    let set = [
        "--set=image.repository=registry/vmnoise,image.tag=1",
        "--set=args={--per-vcpu}",
        "--set=nodeSelector.kvm=yes",
        "--set=resources.limits.memory=1Gi",
        "--set=prometheusOperator=false",
    ];
    let objects = objects(&by_helm(&set));
    let kinds: Vec<&str> = objects
        .iter()
        .filter_map(|it| it["kind"].as_str())
        .collect();
    assert_eq!(kinds, ["PriorityClass", "DaemonSet"]);
    let pod = &of_kind(&objects, "DaemonSet")["spec"]["template"]["spec"];
    let serve = &pod["containers"][0];
    assert_eq!(serve["image"], "registry/vmnoise:1");
    let arguments = serve["args"].as_array().unwrap();
    assert_eq!(arguments.len(), 5);
    assert_eq!(arguments[4], "--per-vcpu");
    assert_eq!(serve["resources"], json!({"limits": {"memory": "1Gi"}}));
    assert_eq!(pod["nodeSelector"], json!({"kvm": "yes"}));
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
}

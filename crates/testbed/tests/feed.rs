//! Tests `vmnoise exits --feed`: which guest receives which events, which rights are needed, and
//! how much a guest that misbehaves can cost others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use vmnoise_events::{HostFrame, Share};
use vmnoise_feed::FrameDecoder;
use vmnoise_testbed::{FeedVmm, binary, with_debugfs};
use vmnoise_testkit::{wait_for, wait_until};

/// Starts a microVM that causes no exits.
fn quiet(manners: &str) -> FeedVmm {
    FeedVmm::microvm(manners, 1, &["--no-trace"]).unwrap()
}

/// Starts a microVM that causes exits all the time.
fn busy(manners: &str) -> FeedVmm {
    FeedVmm::microvm(manners, 1, &["--exercise", "io"]).unwrap()
}

/// Starts a process that is not a VMM.
fn nobody() -> FeedVmm {
    FeedVmm::start("reads", &["sleep", "60"]).unwrap()
}

/// Returns all frames that the guest received. Waits until they have as many bytes as the host
/// reports.
fn frames_of(vmm: &FeedVmm, report: &Value) -> Vec<HostFrame> {
    let bytes = report["bytes"].as_u64().unwrap() as usize;
    let received = wait_for("the last frame", || {
        let received = vmm.received();
        (received.len() >= bytes).then_some(received)
    });
    let mut frames = Vec::new();
    FrameDecoder::new().push(&received, &mut |frame| frames.push(frame.unwrap()));
    frames
}

/// Returns a command that runs `vmnoise exits` with KVM's debugfs, which is mounted if necessary.
fn exits(wrapper: &[&str], program: &Path, vmms: &[&FeedVmm], options: &[&str]) -> Command {
    let all: Vec<&Path> = wrapper.iter().map(Path::new).chain([program]).collect();
    let mut command = with_debugfs(all[0]);
    command.args(&all[1..]).args(["exits", "-q"]);
    for vmm in vmms {
        command.args(["--feed", &vmm.address("unix")]);
    }
    command.args(options);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the result of `vmnoise exits` and its stderr.
fn measure(vmms: &[&FeedVmm], options: &[&str]) -> (Value, String) {
    let all = [options, &["--format", "json"]].concat();
    let output = exits(&[], &binary(), vmms, &all).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    (serde_json::from_slice(&output.stdout).unwrap(), stderr)
}

mod root {
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Capabilities for finding VMs, each with its bit (capabilities(7)).
    const FINDS_VMS: [(u8, &str); 2] = [(1, "dac_override"), (19, "sys_ptrace")];
    const BPF: u64 = 1 << 39;

    /// Returns the capabilities that docs/feed.md lists.
    fn needed() -> Vec<&'static str> {
        let mut needed = vec!["bpf", "perfmon", "sys_ptrace", "dac_override"];
        if Path::new("/sys/kernel/btf/kvm").exists() {
            needed.push("sys_admin");
        }
        needed
    }

    /// Returns a command that runs as user nobody with only these capabilities.
    fn run_with(capabilities: &[&str], program: &Path, vmm: &FeedVmm) -> Command {
        let list: Vec<String> = capabilities.iter().map(|name| format!("+{name}")).collect();
        let list = format!("-all,{}", list.join(","));
        let wrapper = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--no-new-privs",
            "--bounding-set",
            &list,
            "--inh-caps",
            &list,
            "--ambient-caps",
            &list,
        ];
        exits(&wrapper, program, &[vmm], &["-d", "3s"])
    }

    /// Copies the program to a folder where user nobody can execute it.
    fn program() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open.clone()).unwrap();
        let program = folder.path().join("vmnoise");
        fs::copy(binary(), &program).unwrap();
        fs::set_permissions(&program, open).unwrap();
        (folder, program)
    }

    /// Returns the permitted capabilities of each thread, as bits.
    fn permitted(pid: u32) -> Vec<u64> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
        let of = |status: String| {
            let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
            line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok())
        };
        threads
            .flatten()
            .flatten()
            .filter_map(|thread| of(fs::read_to_string(thread.path().join("status")).ok()?))
            .collect()
    }

    #[test]
    fn the_capabilities_that_are_listed_do_and_are_given_up() {
        let vmm = nobody();
        let (_folder, program) = program();
        let mut child = run_with(&needed(), &program, &vmm).spawn().unwrap();
        let finds: u64 = FINDS_VMS.iter().map(|(bit, _)| 1 << bit).sum();
        // The first thread and the thread that finds VMs keep these capabilities. The other threads
        // need none.
        let each = BTreeSet::from([0, finds | BPF]);
        wait_until("the end of other rights", || {
            assert_eq!(child.try_wait().unwrap(), None, "it has ended");
            BTreeSet::from_iter(permitted(child.id())) == each
        });
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn one_capability_fewer_is_refused_by_its_name() {
        let vmm = nobody();
        let (_folder, program) = program();
        for missing in needed() {
            let mut others = needed();
            others.retain(|name| *name != missing);
            let output = run_with(&others, &program, &vmm).output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(3), "{missing}: {stderr}");
            let name = format!("--feed needs CAP_{} ", missing.to_uppercase());
            assert!(stderr.contains(&name), "{missing}: {stderr}");
        }
    }

    #[test]
    fn a_process_that_is_no_vmm_learns_nothing() {
        for way in ["unix", "vsock"] {
            let nobody = nobody();
            let feed = nobody.address(way);
            let (result, stderr) = measure(&[], &["--feed", &feed, "-d", "3s"]);
            let report = &result["feeds"][0];
            assert_eq!(report["vm"], Value::Null);
            assert_eq!(
                (&report["frames"], &report["connections"]),
                (&0.into(), &1.into())
            );
            // The helper process receives not a single byte, not even a question for its guest.
            let received = nobody.received();
            assert_eq!(String::from_utf8_lossy(&received), "", "{way}");
            assert_eq!(stderr.matches("has no VM").count(), 1, "{stderr}");
        }
    }
}

mod kvm {
    use vmnoise_testbed::footprint::resident_kb;
    use vmnoise_workload::tsc;

    use super::*;

    /// Returns the entry of this VMM's vCPU in a result.
    fn vcpu<'a>(result: &'a Value, vmm: &FeedVmm) -> &'a Value {
        let vms = result["vms"].as_array().unwrap();
        let vm = vms.iter().find(|vm| vm["vm"] == vmm.pid());
        &vm.unwrap_or_else(|| panic!("{result}"))["vcpus"][0]
    }

    #[test]
    fn each_vm_gets_its_own_exits_and_no_others() {
        let busy = busy("reads");
        let quiet = quiet("reads");
        let before_tsc = tsc::now();
        let (result, _) = measure(&[&busy, &quiet], &["-d", "3s", "--feed-detail", "reasons"]);
        let after_tsc = tsc::now();
        for (vmm, report) in [&busy, &quiet]
            .into_iter()
            .zip(result["feeds"].as_array().unwrap())
        {
            assert_eq!(report["vm"], vmm.pid(), "{report}");
            assert_eq!(report["feed"], vmm.address("unix").as_str());
            let frames = frames_of(vmm, report);
            assert_eq!(report["frames"], frames.len());
            assert!(frames.len() >= 3, "{report}");
            // The clock of a microVM is equal to its host's clock.
            let mut until_tsc = before_tsc;
            for frame in &frames {
                assert!(until_tsc <= frame.until_tsc && frame.until_tsc <= after_tsc);
                assert!(frame.from_tsc >= before_tsc && frame.from_tsc == frames[0].from_tsc);
                until_tsc = frame.until_tsc;
                assert_eq!((frame.vcpu, frame.culprits.len()), (0, 0));
            }
            assert!(frames.is_sorted_by_key(|frame| (frame.exits, frame.split.total())));
            let (last, vcpu) = (frames.last().unwrap(), vcpu(&result, vmm));
            assert_eq!(vcpu["exits"], last.exits);
            assert_eq!(vcpu["heavy"], last.heavy);
            for (share, ns) in last.split.iter() {
                let expected = vcpu["time_ns"][share.name()].as_u64().unwrap_or(0);
                // Time for which the vCPU was not observed is `unexplained` in a result, and is in
                // no frame. An example is a thread that waited for a CPU when the programs were
                // attached.
                let is_whole = share != Share::Unexplained;
                assert!(
                    expected == ns || (!is_whole && ns < expected),
                    "{share}: {ns} of {expected}"
                );
            }
            let reasons = vcpu["reasons"].as_array().unwrap();
            for (reported, row) in last.reasons.iter().zip(reasons) {
                assert_eq!(row["name"], reported.name.as_str());
                assert_eq!(row["count"], reported.exits);
            }
        }
        assert!(vcpu(&result, &busy)["heavy"].as_u64().unwrap() > 1000);
    }

    #[test]
    fn names_are_reported_where_the_host_allows_it() {
        let vmm = busy("reads");
        // Other VMs sometimes preempt this VM within its exits.
        let _others: Vec<FeedVmm> = (0..2).map(|_| quiet("stalls")).collect();
        let (result, _) = measure(&[&vmm], &["-d", "3s", "--feed-detail", "full"]);
        let frames = frames_of(&vmm, &result["feeds"][0]);
        let last = frames.last().unwrap();
        assert!(!last.culprits.is_empty(), "{last:?}");
        for (share, ns) in last.split.iter() {
            let named = last.culprits.iter().filter(|it| it.share == share);
            assert!(
                named.map(|it| it.dur_ns).sum::<u64>() <= ns,
                "{share}: {last:?}"
            );
        }
    }

    #[test]
    fn bad_manners_cost_others_nothing() {
        let hostile: Vec<FeedVmm> = ["floods", "stalls", "leaves"].map(quiet).into();
        let good = busy("reads");
        let vmms: Vec<&FeedVmm> = hostile.iter().chain([&good]).collect();
        let options = ["-d", "8s", "--feed-detail", "full", "--format", "json"];
        let child = exits(&[], &binary(), &vmms, &options).spawn().unwrap();
        let mut resident = Vec::new();
        for _ in 0..6 {
            std::thread::sleep(Duration::from_secs(1));
            resident.push(resident_kb(child.id()).unwrap());
        }
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        println!(
            "resident KiB, by the second: {resident:?}; {}",
            result["feeds"]
        );

        // Records lost from a full ring would be a fault of the tracing. A switch that fires no
        // event (docs/design.md) is allowed here.
        for kind in ["ring_full", "recursion", "undecodable", "vcpus_full"] {
            assert_eq!(result["losses"][kind], 0, "{kind}");
        }
        let [floods, stalls, leaves, reads] = &result["feeds"].as_array().unwrap()[..] else {
            panic!("{result}");
        };
        // The host reads at most 4 KiB per 20 ms, whatever the guest sends.
        let discarded = floods["discarded_bytes"].as_u64().unwrap();
        assert!(discarded > 4096 && discarded <= 4096 * 50 * 9, "{floods}");
        assert_eq!(stalls["connections"], 1);
        assert!(leaves["connections"].as_u64().unwrap() <= 9, "{leaves}");
        assert!(stderr.lines().count() < 10, "{stderr}");
        let frames = frames_of(&good, reads);
        assert!(frames.len() >= 8, "{reads}");
        assert_eq!(frames.last().unwrap().exits, vcpu(&result, &good)["exits"]);
        let grown = resident.iter().max().unwrap() - resident[1];
        assert!(grown <= 2048, "{resident:?}");
    }
}

mod lab {
    use vmnoise_testbed::bed::{DebianKernel, Lab};
    use vmnoise_testbed::installed::{LOADER, with_libraries};

    /// If KVM is a module, tracing KVM needs one more capability.
    #[test]
    fn the_capabilities_that_are_listed_do_where_kvm_is_a_module() {
        let mut lab = Lab::kernel(DebianKernel::Cloud);
        for file in with_libraries("setpriv", "util-linux").unwrap() {
            lab = lab.program(&file);
        }
        let run = |capabilities: &str, command: &str| {
            format!(
                "{LOADER} /bin/setpriv --reuid=65534 --clear-groups --no-new-privs \
                 --bounding-set={capabilities} --inh-caps={capabilities} \
                 --ambient-caps={capabilities} /bin/vmnoise exits -q -d 1s {command}"
            )
        };
        let fewer = "-all,+bpf,+perfmon,+sys_ptrace,+dac_override";
        let all = format!("{fewer},+sys_admin");
        let feed = "--feed unix:/tmp/nobody.sock";
        let report = lab
            .run(&[&run(&all, feed), &run(fewer, feed), &run(fewer, "--vm all")])
            .unwrap();
        let [served, refused, without] = &report.outputs[..] else {
            panic!("{:?}", report.outputs)
        };
        assert_eq!(served.status, Some(0), "{}", served.stderr);
        assert_eq!(refused.status, Some(3), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("CAP_SYS_ADMIN"),
            "{}",
            refused.stderr
        );
        // The capability is also required without a feed.
        assert_eq!(without.status, Some(3), "{}", without.stderr);
        assert!(
            without.stderr.contains("CAP_SYS_ADMIN"),
            "{}",
            without.stderr
        );
    }
}

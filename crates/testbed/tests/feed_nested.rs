//! Tests a host that feeds its guest, and the guest that shows the feed, in one lab. Both run stock
//! kernels, and a virtio-serial port connects them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use vmnoise_testbed::bed::CommandOutput;
use vmnoise_testbed::bed::{DebianKernel, Lab};
use vmnoise_testbed::vmm_steps::Treatment;
use vmnoise_testbed::{binary, lab_program};

/// Returns the arguments that any user adds to the QEMU command of a guest, for a socket of this
/// name.
fn port(socket: &str) -> String {
    format!(
        "-device virtio-serial-pci -chardev socket,id=feed,path=/tmp/{socket},server=on,wait=off \
         -device virtserialport,chardev=feed,name=org.vmnoise.feed.0"
    )
}

const SHARES: [&str; 9] = [
    "kvm",
    "vmm",
    "preempted",
    "blocked",
    "throttled",
    "host_irq",
    "host_softirq",
    "host_nmi",
    "halted",
];

fn number(value: &Value) -> u64 {
    let number = value.as_u64();
    number.unwrap_or_else(|| panic!("{value} is no number"))
}

/// Results of the guest and of the host.
struct Fed {
    /// Result of `vmnoise exits`. It started after the guest's measurement had begun, and ended
    /// before the end of the guest's measurement.
    host: Value,
    /// Periods that the guest printed.
    periods: Vec<Value>,
    guest: Value,
    /// Join of the guest's and the host's recording.
    joined: Value,
    /// Name (`comm:pid`) of the task that took half of the guest's time for a while.
    hog: String,
}

impl Fed {
    /// Runs the lab. The guest starts to measure before its host, and ends after its host. The lab
    /// waits for 1.2 s before the host starts, an emulated host needs 1.3 s to start, and the host
    /// measures for 2.5 s. The rest of the 8 s is a reserve for a slower start.
    fn run() -> Fed {
        let in_guest = [
            "vmnoise --version",
            "vmnoise osnoise -d 8s -p 500ms --json-lines -o /tmp/guest.rec",
            "lab-guest save /tmp/guest.rec",
        ];
        let boot = format!(
            "& lab-guest boot -name l2,debug-threads=on {}",
            port("feed")
        );
        let report = lab_with(&in_guest).run(&[
            &boot,
            "lab-guest told 1",
            "lab-vmm run:1200 --",
            "&& lab-vmm run:1500 hog:0 run:500 unhog --",
            "vmnoise exits -d 2500ms -o /tmp/host.rec --feed unix:/tmp/feed --feed-detail full --format json",
            "lab-guest told 3",
            "lab-guest results",
            "lab-guest load /tmp/guest.rec",
            "lab-guest print /tmp/guest.rec",
            "lab-guest print /tmp/host.rec",
        ]);
        let report = report.unwrap();
        println!("{}", report.kernel_version);
        let [_, _, host, _, results, _, guest_file, host_file, hog] = &report.outputs[..] else {
            panic!("{:?}", report.outputs);
        };
        let mut periods = documents(results.text().unwrap());
        let treatment: Treatment = serde_json::from_str(hog.text().unwrap()).unwrap();
        let mut hogs = treatment.steps.into_iter().filter_map(|step| step.hog);
        Fed {
            host: host.json().unwrap(),
            guest: periods.pop().unwrap(),
            periods,
            joined: joined(&guest_file.file().unwrap(), &host_file.file().unwrap()),
            hog: hogs.next().unwrap(),
        }
    }

    /// Returns the sums over the whole run that the guest received from the host.
    fn reported(&self) -> &Value {
        &self.guest["cpus"][0]["host"]
    }

    /// Returns the entry of the vCPU in the host's result.
    fn printed(&self) -> &Value {
        let vms = self.host["vms"].as_array().unwrap();
        assert_eq!(vms.len(), 1, "{}", self.host);
        &vms[0]["vcpus"][0]
    }

    /// Returns the sum over the periods that the guest printed.
    fn in_periods(&self, what: impl Fn(&Value) -> &Value) -> u64 {
        let reported = self.periods.iter().map(|period| &period["cpus"][0]["host"]);
        let reported = reported.filter(|reported| !reported.is_null());
        reported.map(|reported| number(what(reported))).sum()
    }
}

fn lab_with(in_guest: &[&str]) -> Lab {
    let lab = Lab::kernel(DebianKernel::Cloud)
        .virtual_time(0)
        .guest(in_guest);
    let programs = ["lab-guest", "lab-vmm", "lab-disturb"];
    programs
        .into_iter()
        .fold(lab, |lab, name| lab.program(&lab_program(name).unwrap()))
}

/// Returns the output of a guest's second command as JSON: its periods, if the command prints
/// periods, and its summary.
fn documents(results: &str) -> Vec<Value> {
    let mut said = results.lines();
    let measured: CommandOutput = serde_json::from_str(said.nth(1).unwrap()).unwrap();
    let documents = serde_json::Deserializer::from_str(measured.text().unwrap());
    documents.into_iter().map(Result::unwrap).collect()
}

fn joined(guest: &[u8], host: &[u8]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let [guest, host] = [file("guest.rec", guest), file("host.rec", host)];
    explain(&[&guest, &host])
}

fn explain(recordings: &[&Path]) -> Value {
    let mut explain = Command::new(binary());
    let output = explain
        .args(["explain", "--format", "json"])
        .args(recordings);
    let output = output.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

mod virtual_time {
    use super::*;

    #[test]
    fn a_guest_shows_in_its_periods_what_its_host_prints_to_the_last_exit() {
        let fed = Fed::run();
        let (reported, printed) = (fed.reported(), fed.printed());
        println!("reported {reported}\nprinted {}", printed["time_ns"]);
        for key in ["exits", "light", "heavy"] {
            assert_eq!(reported[key], printed[key], "{key}");
            assert_eq!(
                fed.in_periods(|reported| &reported[key]),
                number(&printed[key]),
                "{key}"
            );
        }
        assert!(number(&reported["exits"]) > 500, "{reported}");
        for share in SHARES {
            let expected = &printed["time_ns"][share];
            assert_eq!(reported["shares_ns"][share], *expected, "{share}");
            let in_periods = fed.in_periods(|reported| &reported["shares_ns"][share]);
            assert_eq!(in_periods, number(expected), "{share}");
        }
        let reported_of = fed
            .periods
            .iter()
            .filter(|it| !it["cpus"][0]["host"].is_null());
        assert!(
            reported_of.count() >= 2,
            "frames come in more than one period"
        );
        assert_same_reasons(reported, printed);
        let columns = &fed.guest["cpus"][0]["guest_columns"];
        assert_eq!(columns["light_exits"], printed["light"]);
        assert_eq!(columns["heavy_exits"], printed["heavy"]);
        assert_eq!(columns["virt_ns"], reported["virt_ns"]);
        // This host is itself a guest of the emulator.
        assert_eq!(reported["hw_at_least_ns"], 0);

        let first = &reported["culprits"][0];
        println!("first {first}, hog {}", fed.hog);
        assert_eq!(
            (&first["share"], &first["name"]),
            (&"preempted".into(), &(*fed.hog).into())
        );
        let feed = &fed.guest["feed"];
        let served = &fed.host["feeds"][0];
        println!("feed {feed}, served {served}");
        assert_eq!((&feed["refused"], &feed["garbled"]), (&0.into(), &0.into()));
        assert_eq!(
            (&feed["frames"], &feed["bytes"]),
            (&served["frames"], &served["bytes"])
        );

        let alone = |document: &Value| {
            let columns = &document["cpus"][0]["guest_columns"];
            println!("{columns}");
            number(&columns["steal_ns"]) + number(&columns["virt_ns"])
        };
        let (live_ns, joined_ns) = (alone(&fed.guest), alone(&fed.joined));
        println!("VIRT + STEAL: {live_ns} ns live, {joined_ns} ns by the join");
        assert!(live_ns.abs_diff(joined_ns) * 100 <= joined_ns);
    }

    fn assert_same_reasons(reported: &Value, printed: &Value) {
        let reported = reported["reasons"].as_array().unwrap();
        let printed = printed["reasons"].as_array().unwrap();
        assert_eq!(reported.len(), printed.len());
        for reason in printed {
            let same = reported
                .iter()
                .find(|reported| reported["name"] == reason["name"]);
            assert_eq!(same.unwrap()["exits"], reason["count"], "{reason}");
        }
    }
}

mod lab_full {
    mod own_suite {
        use super::super::*;

        #[test]
        fn two_guests_that_measure_their_timers_are_reported_each_its_own() {
            let in_guest = ["vmnoise --version", "vmnoise timerlat -d 8s --format json"];
            let first = format!(
                "& lab-guest boot -name first,debug-threads=on {}",
                port("one")
            );
            let second = format!(
                "& lab-guest 1 boot -name second,debug-threads=on {}",
                port("two")
            );
            let report = lab_with(&in_guest).run(&[
                &first,
                &second,
                "lab-guest told 1",
                "lab-vmm run:4000 --",
                "vmnoise exits -d 2s --feed unix:/tmp/one --feed unix:/tmp/two --format json",
                "lab-guest told 2",
                "lab-vmm run:3000 --",
                "lab-guest results",
                "lab-guest 1 results",
            ]);
            let report = report.unwrap();
            let [_, _, host, _, _, results, second_results] = &report.outputs[..] else {
                panic!("{:?}", report.outputs);
            };
            let guests = [results.text().unwrap(), second_results.text().unwrap()];
            let host = host.json().unwrap();
            let mut reported_all = Vec::new();
            for (name, results) in ["first", "second"].into_iter().zip(guests) {
                let vms = host["vms"].as_array().unwrap();
                let vm = vms.iter().find(|vm| vm["name"] == name).unwrap();
                let printed = &vm["vcpus"][0];
                let guest = documents(results).pop().unwrap();
                let reported = &guest["cpus"][0]["host"];
                println!("{name}: {reported}");
                assert_eq!(reported["exits"], printed["exits"], "{name}");
                for share in SHARES {
                    assert_eq!(
                        reported["shares_ns"][share], printed["time_ns"][share],
                        "{name} {share}"
                    );
                }
                assert_eq!(reported["culprits"], Value::Null, "{reported}");
                // The feed ended before the guest's measurement ended.
                assert!(guest["feed"]["frames"].as_u64() > Some(0), "{guest}");
                reported_all.push(reported["shares_ns"].clone());
            }
            assert_ne!(reported_all[0], reported_all[1]);
        }
    }
}

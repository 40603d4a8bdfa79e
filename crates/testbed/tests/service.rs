//! Tests the unit of `vmnoise serve` on a machine whose first process is systemd.

mod lab_full {
    mod service {
        use std::collections::BTreeMap;
        use std::fs;

        use vmnoise_testbed::bed::{CommandOutput, Debian};
        use vmnoise_testbed::lab_program;

        use crate::newcomer::system::{System, package};

        /// Script that prints the unit's state, and the kernel's status of the unit's process.
        const STATE: &str = "systemctl show --property=ActiveState,MainPID,NRestarts vmnoise-serve.service\n\
             pid=$(systemctl show --property=MainPID --value vmnoise-serve.service)\n\
             grep -E '^(Uid|CapEff|CapPrm|CapBnd|CapInh|CapAmb):' /proc/$pid/status | sed 's/:[[:space:]]*/=/'\n";
        const UNIT: &str = "vmnoise-serve.service";
        const SCRAPE: &str = "lab-scrape 127.0.0.1:9752";

        /// Sets of capabilities, with CAP_BPF (capabilities(7)). The bounding set still contains
        /// the initial capabilities, but the process cannot use it to get these back.
        const CAPABILITIES: [(&str, &str); 5] = [
            ("CapEff", "0000008000000000"),
            ("CapPrm", "0000008000000000"),
            ("CapBnd", "000000c000000000"),
            ("CapInh", "0000000000000000"),
            ("CapAmb", "0000000000000000"),
        ];
        /// User IDs that systemd gives to dynamic users (systemd.exec(5)).
        const DYNAMIC: std::ops::RangeInclusive<u32> = 61184..=65519;

        /// Returns the values that [`STATE`] printed, by name.
        fn state(output: &CommandOutput) -> BTreeMap<&str, &str> {
            let lines = output.stdout.lines();
            lines.filter_map(|line| line.split_once('=')).collect()
        }

        /// Asserts that the unit works as expected, and returns its process ID.
        fn process_at_work(output: &CommandOutput) -> u32 {
            let state = state(output);
            assert_eq!(state["ActiveState"], "active", "{output:?}");
            assert_eq!(state["NRestarts"], "0", "{output:?}");
            for (set, held) in CAPABILITIES {
                assert_eq!(state[set], held, "{output:?}");
            }
            let uid = state["Uid"].split_whitespace().next().unwrap();
            assert!(DYNAMIC.contains(&uid.parse().unwrap()), "{output:?}");
            state["MainPID"].parse().unwrap()
        }

        #[test]
        fn the_unit_starts_lives_comes_by_its_socket_and_goes_with_the_package() {
            let system = System::bare(&["linux-image-cloud-amd64", "systemd-sysv"]);
            system.bring(&package(), "vmnoise.deb");
            system.bring(&lab_program("lab-scrape").unwrap(), "bin/lab-scrape");
            fs::write(system.root().join("state"), STATE).unwrap();
            // This sleep is longer than the watchdog's time of 30 s.
            let enable = format!("systemctl enable --now vmnoise-serve.socket {UNIT}");
            let security = format!("systemd-analyze security --no-pager --threshold=25 {UNIT}");
            let stop = format!("systemctl stop {UNIT}");
            let unit = format!("systemctl cat {UNIT}");
            let report = Debian::of(&system.root())
                .run(&[
                    "dpkg --install /vmnoise.deb",
                    &enable,
                    "sh /state",
                    &security,
                    "sleep 40",
                    "sh /state",
                    "& vmnoise microvm --duration 600s",
                    "sleep 3",
                    SCRAPE,
                    &stop,
                    "sh /state",
                    SCRAPE,
                    "sh /state",
                    "dpkg --install /vmnoise.deb",
                    "sh /state",
                    "dpkg --purge vmnoise",
                    &unit,
                    SCRAPE,
                ])
                .unwrap();
            println!("Linux {}", report.kernel_version);
            let mut outputs = report.outputs.iter();
            let mut next = || outputs.next().unwrap();
            next().text().unwrap();
            next().text().unwrap();
            let begun = process_at_work(next());
            let security = next().text().unwrap();
            println!("{}", security.lines().last().unwrap());
            next().text().unwrap();
            assert_eq!(process_at_work(next()), begun);
            next().text().unwrap();
            let metrics = next().text().unwrap();
            let vm = "vmnoise_vcpus{vm=\"vmnoise:";
            assert!(metrics.contains(vm), "{metrics}\n{}", report.console);
            next().text().unwrap();
            assert_eq!(state(next())["ActiveState"], "inactive");
            // The unit answers a connection to its socket.
            assert!(next().text().unwrap().contains(vm));
            let again = process_at_work(next());
            assert_ne!(again, begun);
            // After an upgrade, the unit continues with the newly installed version.
            next().text().unwrap();
            assert_ne!(process_at_work(next()), again);
            next().text().unwrap();
            let (unit, answer) = (next(), next());
            assert_ne!(unit.status, Some(0), "{unit:?}");
            assert!(answer.stderr.contains("refused"), "{answer:?}");
        }
    }
}

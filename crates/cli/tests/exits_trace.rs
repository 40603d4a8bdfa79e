//! Test of `vmnoise exits trace` with a real VM: its lines, its timelines, and its recording.

mod kvm {
    use std::process::Command;

    use vmnoise_host::Host;
    use vmnoise_testkit::TestProcess;

    use crate::guest_vm;

    const VMNOISE: &str = env!("CARGO_BIN_EXE_vmnoise");

    /// Shares that a line may have; no name looks like one of them with its number.
    const SHARES: [&str; 9] = [
        "kvm:",
        "vmm:",
        "preempted:",
        "blocked:",
        "throttled:",
        "host_irq:",
        "host_softirq:",
        "host_nmi:",
        "halted:",
    ];

    fn last_cpu() -> u32 {
        *Host::here().allowed_cpus().unwrap().last().unwrap()
    }

    fn vmnoise(arguments: &[&str]) -> String {
        let output = Command::new(VMNOISE).args(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the numbers after this word, wherever it occurs.
    fn numbers<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = u64> + 'a {
        line.split(' ')
            .filter_map(move |field| field.strip_prefix(word)?.parse().ok())
    }

    #[test]
    fn each_line_adds_up_names_who_preempted_and_replays() {
        let cpu = last_cpu();
        let vm = guest_vm::start("io", "60s", cpu);
        guest_vm::found(&vm);
        let hog = TestProcess::busy(cpu);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("host.rec");
        let file = file.to_str().unwrap();
        let pid = vm.id().to_string();
        let options = ["--vm", &pid, "-d", "2s", "--timeline", "1", "-o", file];
        let live = vmnoise(&[&["exits", "trace"], &options[..]].concat());
        let exits: Vec<&str> = live
            .lines()
            .filter(|line| line.contains(": vm_noise: "))
            .collect();
        assert!(exits.len() > 10, "{live}");
        for line in &exits {
            let (reported, shares) = line.split_once(" | ").unwrap();
            let [dur_ns] = numbers(reported, "duration:").collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let of_shares = SHARES.iter().flat_map(|share| numbers(shares, share));
            let shares_ns: u64 = of_shares.sum();
            assert_eq!(shares_ns, dur_ns, "{line}");
            assert!(numbers(shares, "vmm:").sum::<u64>() > 0, "{line}");
        }
        let by = format!(" by:sh:{}", hog.id());
        let preempted = exits.iter().any(|line| line.contains(&by));
        assert!(preempted, "nobody was preempted{by}");
        assert_eq!(live.matches("\n         sum ").count(), 1, "{live}");

        assert_eq!(vmnoise(&["explain", "--trace", file]), live);
    }

    #[test]
    fn a_vm_that_ends_ends_the_run() {
        let vm = guest_vm::start("hlt", "3s", last_cpu());
        guest_vm::found(&vm);
        let pid = vm.id().to_string();
        let json = vmnoise(&["exits", "--vm", &pid, "--format", "json"]);
        assert!(json.contains("\"schema\": \"vmnoise.exits/1\""), "{json}");
    }
}

//! Test of `vmnoise exits trace` with a real VM: its lines, its timelines, and its recording.

mod kvm {
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use vmnoise_host::{Host, VmProcess};

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

    /// Program that runs until it is killed.
    struct Beside(Child);

    impl Beside {
        fn start(program: &str, arguments: &[&str]) -> Beside {
            let mut command = Command::new(program);
            command.args(arguments).stdout(Stdio::null());
            Beside(command.spawn().unwrap())
        }
    }

    impl Drop for Beside {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    /// Starts a VM that makes this exit; returns when it runs.
    fn vm(exercise: &str, duration: &str, cpu: &str) -> Beside {
        let arguments = ["microvm", "--exercise", exercise, "-d", duration, "-c", cpu];
        let vm = Beside::start(VMNOISE, &arguments);
        let is_it = |known: &VmProcess| known.pid == vm.0.id() && !known.vcpus.is_empty();
        while !Host::here().vms().iter().any(is_it) {
            std::thread::sleep(Duration::from_millis(10));
        }
        vm
    }

    fn last_cpu() -> String {
        let cpus = Host::here().allowed_cpus().unwrap();
        cpus.last().unwrap().to_string()
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
        let vm = vm("io", "60s", &cpu);
        let hog = Beside::start("taskset", &["-c", &cpu, "sh", "-c", "while :; do :; done"]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("host.rec");
        let file = file.to_str().unwrap();
        let pid = vm.0.id().to_string();
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
        let by = format!(" by:sh:{}", hog.0.id());
        let preempted = exits.iter().any(|line| line.contains(&by));
        assert!(preempted, "nobody was preempted{by}");
        assert_eq!(live.matches("\n         sum ").count(), 1, "{live}");

        assert_eq!(vmnoise(&["explain", "--trace", file]), live);
    }

    #[test]
    fn a_vm_that_ends_ends_the_run() {
        let vm = vm("hlt", "3s", &last_cpu());
        let pid = vm.0.id().to_string();
        let json = vmnoise(&["exits", "--vm", &pid, "--format", "json"]);
        assert!(json.contains("\"schema\": \"vmnoise.exits/1\""), "{json}");
    }
}

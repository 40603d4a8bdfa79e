//! Tests that `vmnoise exits` counts deliberate exits while they happen, on a stock kernel's own
//! kvm_amd.

mod virtual_time {
    use serde_json::Value;
    use vmnoise_testbed::bed::{DebianKernel, Lab};

    /// Name of an exercise, and SVM's name of the exit that it causes.
    const EXERCISES: [(&str, &str); 5] = [
        ("cpuid", "cpuid"),
        ("io", "io"),
        ("mmio", "npf"),
        ("hypercall", "hypercall"),
        ("hlt", "hlt"),
    ];
    /// Number of exits with the same reason before and after an exercise. They start and stop the
    /// exercise's program.
    const EDGE: u64 = 2;

    fn number(value: &Value) -> u64 {
        value
            .as_u64()
            .unwrap_or_else(|| panic!("no number: {value}"))
    }

    fn list(value: &Value) -> &[Value] {
        value.as_array().unwrap()
    }

    /// Returns how many exits of a vCPU had this reason.
    fn count(vcpu: &Value, reason: &str) -> u64 {
        let rows = list(&vcpu["reasons"]).iter();
        rows.filter(|row| row["name"] == reason)
            .map(|row| number(&row["count"]))
            .sum()
    }

    /// Returns the sum of all known values in an object of times.
    fn sum(times: &Value) -> u64 {
        let parts = times.as_object().unwrap().values();
        parts.filter_map(Value::as_u64).sum()
    }

    #[test]
    fn each_exit_is_counted_once_under_its_reason_and_its_time_adds_up() {
        let mut commands = vec![
            "&& vmnoise exits -d 5m --format json".to_owned(),
            // When this command ends, `exits` counts.
            "lab-vmm traced --".to_owned(),
        ];
        commands.extend(EXERCISES.iter().map(|(name, _)| {
            format!("vmnoise microvm --exercise {name} --duration 20ms --format json")
        }));
        commands.push("lab-vmm untrace --".to_owned());
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        let report = Lab::kernel(DebianKernel::Cloud)
            .program(&vmnoise_testbed::lab_program("lab-vmm").unwrap())
            .virtual_time(0)
            .run(&commands)
            .unwrap();
        let exits = report.outputs.last().unwrap().json().unwrap();
        assert_eq!(exits["schema"], "vmnoise.exits/1");
        assert_eq!(exits["lost_events"], 0);
        // The VMs are sorted by process ID, which is the order in which they ran.
        let vms = list(&exits["vms"]);
        assert_eq!(vms.len(), EXERCISES.len(), "{exits}");
        // Before each exercise, the guest compares its clock with the host's by `out`, and gets its
        // memory by page faults.
        let before = |reason| match reason {
            "io" => count(&vms[0]["vcpus"][0], "io"),
            "npf" => count(&vms[0]["vcpus"][0], "npf"),
            _ => 0,
        };
        for (((name, reason), output), vm) in EXERCISES.iter().zip(&report.outputs[1..]).zip(vms) {
            let exercise = &output.json().unwrap()["cpus"][0];
            let made = number(&exercise["count"]);
            let vcpu = &vm["vcpus"][0];
            let reasons = list(&vcpu["reasons"]);
            let counted = count(vcpu, reason);
            let expected = made + before(*reason);
            assert!(counted.abs_diff(expected) <= EDGE, "{name}: {made}, {vcpu}");
            let heavy = if exercise["handled"] == "heavy" {
                made
            } else {
                0
            };
            let expected = heavy + number(&vms[0]["vcpus"][0]["heavy"]);
            assert!(
                number(&vcpu["heavy"]).abs_diff(expected) <= EDGE,
                "{name}: {vcpu}"
            );
            for row in reasons {
                assert_eq!(sum(&row["shares_ns"]), number(&row["total_ns"]), "{row}");
                let lengths: u64 = list(&row["histogram"])
                    .iter()
                    .map(|it| number(&it[1]))
                    .sum();
                assert_eq!(lengths, number(&row["count"]), "{row}");
            }
            let all: u64 = reasons.iter().map(|row| number(&row["count"])).sum();
            assert_eq!(all, number(&vcpu["exits"]));
            let total: u64 = reasons.iter().map(|row| number(&row["total_ns"])).sum();
            let times = &vcpu["time_ns"];
            assert_eq!(sum(times) - number(&times["guest"]), total);
            // KVM's count covers only the exercise, and our count covers the whole life of the
            // vCPU.
            let kvm = number(&exercise["kvm_stat"]["exits"]);
            assert!(number(&vcpu["exits"]) >= kvm, "{name}: {kvm}, {vcpu}");
            let [min, mean] = ["min", "mean"].map(|key| &exercise["exit_tsc"][key]);
            println!(
                "{name}: made {made}, counted {counted}, of {} exits; {min} instructions at least, mean {mean}, seen from outside",
                vcpu["exits"]
            );
        }
    }
}

mod lab {
    use vmnoise_testbed::bed::{DebianKernel, Lab};

    /// Returns the times of lines for CPU 1 in a trace for which `is_one` returns true, in
    /// microseconds of CLOCK_MONOTONIC.
    fn instants(trace: &str, is_one: impl Fn(&str) -> bool) -> Vec<u64> {
        let lines = trace
            .lines()
            .filter(|line| line.contains("[001]") && is_one(line));
        let mut times: Vec<u64> = lines
            .filter_map(|line| {
                let words = line.split_once("[001]")?.1.split_whitespace();
                // The time is the only number before a colon. It is in seconds.
                let mut seconds =
                    words.filter_map(|word| word.strip_suffix(':')?.parse::<f64>().ok());
                Some((seconds.next()? * 1e6) as u64)
            })
            .collect();
        times.sort_unstable();
        times
    }

    /// BPF programs are attached and detached one by one, which takes seconds here, and interrupts
    /// all CPUs. While exits are counted, all interrupts in them must be counted too.
    #[test]
    fn every_interrupt_of_a_vcpu_that_never_switches_is_seen() {
        let lab = Lab::kernel(DebianKernel::Cloud).cpus(2);
        let lab = lab.program(&vmnoise_testbed::lab_program("lab-tracefs").unwrap());
        let report = lab
            .run(&[
                "& vmnoise microvm --exercise spin -c 1 -d 5m",
                // When this command ends, the guest runs.
                "lab-tracefs for 2",
                "lab-tracefs while trace_clock=mono \
                 events/irq_vectors/local_timer_entry/enable=1 \
                 -- vmnoise exits trace -d 3s -o /x.rec",
                "lab-tracefs show",
                "vmnoise explain --trace /x.rec",
                "vmnoise explain --format json /x.rec",
            ])
            .unwrap();
        let output = |place: usize| report.outputs[place].text().unwrap();
        let exits = instants(output(3), |line| line.contains("vm_noise:"));
        let (first, last) = (exits[0], exits[exits.len() - 1]);
        let within = |trace: &str, event: &str| {
            let all = instants(trace, |line| line.contains(event));
            all.iter().filter(|&&at| at > first && at < last).count()
        };
        let reported = within(output(3), "irq_noise: local_timer:");
        let between = within(output(2), "local_timer_entry:");
        println!("{between} timer interrupts by the kernel's own events, {reported} reported");
        // Our timestamps are the ends of interrupts and of exits, so the counts may differ by one
        // interrupt at each edge.
        assert!(
            reported.abs_diff(between) <= 2,
            "{reported} reported, {between} happened"
        );
        // The number of interrupts must be high, so that the two interrupts at the edges do not
        // matter.
        assert!(between > 10, "{between}");
        let exits = report.outputs[4].json().unwrap();
        assert_eq!(exits["losses"]["unpaired"], 0, "{exits}");
    }

    #[test]
    fn a_terminal_inside_shows_the_exits_while_they_happen() {
        let lab = Lab::kernel(DebianKernel::Cloud).cpus(2);
        let lab = lab.program(&vmnoise_testbed::lab_program("lab-tty").unwrap());
        let report = lab.run(&[
            "& vmnoise microvm --exercise io -c 1 -d 5m",
            "lab-tty 100 30 10 vmnoise exits top -d 5m",
        ]);
        let report = report.unwrap();
        // Only changes are drawn, so single words are complete, but not the text between them.
        let drawn = report.outputs[0].text().unwrap();
        for word in ["longest:", "vmnoise:", "io", "(all)", "vmm"] {
            assert!(drawn.contains(word), "{word}: {drawn:?}");
        }
    }
}

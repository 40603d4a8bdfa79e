//! Tests deliberate exits on a stock kernel's own kvm_amd. Each exit is counted once, is handled by
//! KVM or by the VMM as expected, and takes the same time on each repetition.

mod virtual_time {
    use serde_json::Value;
    use vmnoise_testbed::bed::{DebianKernel, Lab};

    /// Name of an exercise, side that handles its exits, and name of KVM's own counter for them.
    const EXERCISES: [(&str, &str, Option<&str>); 6] = [
        ("cpuid", "light", None),
        ("io", "heavy", Some("io_exits")),
        ("mmio", "heavy", Some("mmio_exits")),
        ("hypercall", "light", None),
        ("hlt", "heavy", Some("halt_exits")),
        ("spin", "none", None),
    ];
    /// Number of exits that start and stop an exercise: its last `out`, and the first access to the
    /// page of its program.
    const EDGE: u64 = 2;

    #[test]
    fn every_exit_is_made_once_and_takes_the_same_each_time() {
        let lab = Lab::kernel(DebianKernel::Cloud).virtual_time(0);
        let commands: Vec<String> = EXERCISES
            .iter()
            .map(|(name, ..)| {
                format!("vmnoise microvm --exercise {name} --duration 20ms --format json")
            })
            .collect();
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        let [first, second] = [0, 1].map(|_| lab.run(&commands).unwrap());
        assert_eq!(first, second);

        let mut least = Vec::new();
        for ((name, kind, own_count), output) in EXERCISES.iter().zip(&first.outputs) {
            let document = output.json().unwrap();
            assert_eq!(document["schema"], "vmnoise.exercise/1");
            assert_eq!(document["expected"], *kind, "{name}");
            let row = &document["cpus"][0];
            assert_eq!(row["handled"], *kind, "{row}");
            let number = |value: &Value| value.as_u64().unwrap();
            let (count, stat) = (number(&row["count"]), &row["kvm_stat"]);
            assert!(count > 100, "{row}");
            let to_vmm = if *kind == "heavy" { count } else { 0 };
            assert_eq!(number(&row["vmm_exits"]), to_vmm, "{row}");
            let made = if *kind == "none" { 0 } else { count };
            let exits = number(&stat["exits"]) - number(&stat["irq_exits"]);
            assert!((made..=made + EDGE).contains(&exits), "{row}");
            if let Some(own_count) = own_count {
                let counted = number(&stat[own_count]);
                assert!((count..=count + EDGE).contains(&counted), "{row}");
            }
            let [min, p99] = ["min", "p99"].map(|key| number(&row["exit_tsc"][key]));
            println!("{name}: {count} in 20 ms, {min} cycles at least, p99 {p99}");
            least.push(min);
        }
        let [cpuid, io, .., spin] = least[..] else {
            panic!("{least:?}")
        };
        assert!(spin < cpuid && cpuid < io, "{least:?}");
    }
}

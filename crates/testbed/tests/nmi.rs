//! Tests that NMIs from outside the machine are reported as `nmi` noise. Without NMIs, none may be
//! reported.

mod lab {
    use vmnoise_testbed::bed::{DebianKernel, Lab};
    use vmnoise_testbed::judge::{assert_budgets_add_up, sources};
    use vmnoise_testbed::lab_program;

    const INJECTED: u64 = 5;
    /// QEMU's command `nmi` signals LINT1 of each CPU. Linux accepts this signal only on CPU 0
    /// (setup_local_APIC of arch/x86/kernel/apic/apic.c).
    const OSNOISE: &str = "vmnoise osnoise --cpus 0 --duration 3s --format json";

    /// The recording is much longer than the 0.5 s in which the NMIs are sent, because an emulator
    /// may get little CPU time.
    const RECORDED: &str =
        "vmnoise osnoise --cpus 0 --duration 10s --format json --output /tmp/run.vmn";
    const LINES: &str = "vmnoise explain --trace /tmp/run.vmn";

    #[test]
    fn nmis_from_outside_are_reported_and_silence_has_none() {
        let inject = format!("& lab-disturb monitor vmnoise-spin {INJECTED} 100 nmi");
        let report = Lab::kernel(DebianKernel::Cloud)
            .program(&lab_program("lab-disturb").unwrap())
            .run(&[OSNOISE, &inject, RECORDED, LINES])
            .unwrap();
        // The kernel logs these NMIs as NMIs without a known reason. An emulator with little CPU
        // time may merge two NMIs into one.
        let unknown = report.console.matches("NMI received for unknown reason");
        let unknown = unknown.count() as u64;
        assert!((1..=INJECTED).contains(&unknown), "{}", report.console);

        let [quiet, disturbed] = [0, 1].map(|which| report.outputs[which].json().unwrap());
        let nmi = |summary| {
            assert_budgets_add_up(summary);
            sources(summary).find(|source| source.share == "nmi")
        };
        let reported = nmi(&disturbed).unwrap();
        let lines = report.outputs[2].text().unwrap();
        let seen = lines.matches(" nmi_noise: ").count() as u64;
        let lost = disturbed["lost_events"].as_u64().unwrap();
        println!(
            "{INJECTED} injected, {unknown} in the kernel's log, {seen} seen, {lost} lost, {reported:?}; {}",
            disturbed["losses"]
        );
        // Each handler that runs for an NMI has a line in the trace, or is counted as lost. If a
        // handler runs while the poller writes a record, the handler is in no gap.
        assert!(seen + lost >= unknown, "{unknown}, {lost}, {lines}");
        assert!((1..=seen).contains(&reported.count), "{reported:?}");
        assert!(reported.total_ns > 0, "{reported:?}");
        assert_eq!(disturbed["cpus"][0]["shares_ns"]["nmi"], reported.total_ns);
        assert_eq!(nmi(&quiet), None);
        assert_eq!(quiet["cpus"][0]["shares_ns"]["nmi"], 0);
    }
}

//! Test of the order of events in a recording of `vmnoise exits`. Explanations and joins rely on
//! this order: everything that ended before the time of a watermark comes before the watermark.

mod kvm {
    use std::path::Path;
    use std::process::{Command, Stdio};

    use vmnoise_events::{Event, LossKind};
    use vmnoise_host::Host;
    use vmnoise_recording::{RecordingEnd, RecordingReader};

    use crate::guest_vm;

    /// Longest time between the end of an exit and the submission of its record.
    const SLACK_NS: u64 = 1_000_000;

    /// Records the exits of a VM for some seconds.
    fn record(path: &Path) {
        let cpu = Host::here().allowed_cpus().unwrap()[0];
        let guest = guest_vm::start("io", "60s", cpu);
        guest_vm::found(&guest);
        let mut exits = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
        exits.args(["exits", "-q", "-d", "2s", "-o"]).arg(path);
        let exits = exits.stdout(Stdio::null()).stderr(Stdio::null());
        let status = exits.status().unwrap();
        assert!(status.success(), "{status}");
    }

    #[test]
    fn a_watermark_comes_after_all_that_it_covers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.vmn");
        record(&path);
        let (mut anchor_ns, mut is_read, mut has_losses) = (0, false, false);
        let (mut after_anchor, mut before_anchor, mut watermarks) = (0, 0, 0);
        let mut reader = RecordingReader::open(&path).unwrap();
        let end = reader.for_each(&mut |event| match event {
            Event::Anchor(anchor) => (anchor_ns, is_read) = (anchor.mono_ns, true),
            Event::Exit(_) if is_read => after_anchor += 1,
            Event::Exit(_) => before_anchor += 1,
            // The first count of each kind is recorded even if it is 0.
            Event::Loss(loss) => has_losses |= loss.kind == LossKind::RingFull,
            Event::Watermark(mono_ns) => {
                assert!(has_losses, "the first watermark comes before the losses");
                let covers = *mono_ns + SLACK_NS;
                assert!(
                    covers <= anchor_ns,
                    "{mono_ns}, and the clock was {anchor_ns}"
                );
                (watermarks, is_read) = (watermarks + 1, false);
            }
            _ => {}
        });
        assert!(matches!(end, Ok(RecordingEnd::Complete)), "{end:?}");
        println!("{after_anchor} and {before_anchor} exits, {watermarks} watermarks");
        // A look at the guests' clocks, once a second, also takes exits from the ring.
        assert!(after_anchor > 100 && before_anchor < after_anchor);
        assert!(watermarks > 10);
    }
}

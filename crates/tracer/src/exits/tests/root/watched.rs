//! Tests on kernels without some tracepoint. The tracepoints that can be attached determine which
//! events `exits` observes.

use vmnoise_events::Witnesses;

use crate::LoadError;
use crate::btf::KernelBtf;
use crate::exits::{ExitTracer, Streaming};

fn without(tracepoint: &str) -> Result<ExitTracer, LoadError> {
    let btf = KernelBtf::read().unwrap().without(tracepoint);
    let mut tracer = ExitTracer::load_on(&btf, 8, Streaming::Off)?;
    tracer.attach().unwrap();
    Ok(tracer)
}

#[test]
fn a_witness_is_what_is_attached() {
    let all = without("nobody").unwrap();
    assert!(
        all.probe_statuses()
            .iter()
            .all(|probe_status| probe_status.best),
        "{:?}",
        all.probe_statuses()
    );
    let all = all.witnesses();
    assert!(all.irq && all.softirq && all.nmi && all.sched && all.kvm_run);
    let cases: [(&str, &str, Witnesses); 4] = [
        (
            "irq_handler_exit",
            "host interrupts",
            Witnesses { irq: false, ..all },
        ),
        (
            "softirq_entry",
            "host soft interrupts",
            Witnesses {
                softirq: false,
                ..all
            },
        ),
        ("nmi_handler", "host NMIs", Witnesses { nmi: false, ..all }),
        ("sched_migrate_task", "moves of the thread", all),
    ];
    for (tracepoint, probe, witnesses) in cases {
        let tracer = without(tracepoint).unwrap();
        assert_eq!(tracer.witnesses(), witnesses, "{tracepoint}");
        let probe_statuses = tracer.probe_statuses();
        let lacking: Vec<_> = probe_statuses
            .iter()
            .filter(|probe_status| !probe_status.best)
            .collect();
        assert_eq!(lacking.len(), 1, "{probe_statuses:?}");
        assert_eq!(
            (lacking[0].probe.as_str(), lacking[0].in_use.as_str()),
            (probe, "none")
        );
        assert!(lacking[0].limit.contains(tracepoint), "{lacking:?}");
    }
}

#[test]
fn without_events_of_kvm_and_of_the_scheduler_there_is_nothing_to_count() {
    for (tracepoint, what_to_do) in [("kvm_fpu", "load the KVM module"), ("sched_switch", "")] {
        let Err(LoadError::Refused { why, remedy }) = without(tracepoint) else {
            panic!("exits without {tracepoint}");
        };
        assert!(
            why.contains(tracepoint) && why.contains("exits cannot be counted"),
            "{why}"
        );
        assert!(remedy.contains(what_to_do), "{remedy}");
    }
}

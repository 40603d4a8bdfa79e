//! Tests recordings of a Linux guest and its host, made at the same time in one lab. Their join
//! must name the disturber on the host as the cause of the guest's gaps.

use crate::join_judge::{JoinedPair, assert_covers, assert_explains};
use vmnoise_testbed::bed::{DebianKernel, DebianSuite};
use vmnoise_testbed::pair::PairPlan;

fn assert_names_the_disturber(suite: DebianSuite) -> JoinedPair {
    let pair = PairPlan::of(DebianKernel::Cloud, suite)
        .unwrap()
        .virtual_time(0);
    let joined = JoinedPair::of(pair.duration("200ms").record().unwrap());
    joined.assert_disturber_is_first();
    joined.assert_steal_is_run_delay();
    assert_covers(&joined.quiet);
    assert_covers(&joined.disturbed);
    joined.assert_explains_all_but_the_ways();
    assert_explains(&joined.disturbed);
    joined
}

mod virtual_time {
    use vmnoise_testbed::oracle::{busiest_exit, report};

    use super::*;

    #[test]
    fn a_disturber_on_the_host_is_named_for_the_guests_gaps_to_the_last_bit() {
        let boot = || assert_names_the_disturber(DebianSuite::Own);
        let [first, second] = std::thread::scope(|scope| {
            let boots = [scope.spawn(boot), scope.spawn(boot)];
            boots.map(|boot| boot.join().unwrap())
        });
        assert_eq!(first.quiet, second.quiet);
        assert_eq!(first.disturbed, second.disturbed);
        assert_eq!(first.alone, second.alone);
        first.assert_another_clock_is_refused();
    }

    /// Prints an exit like the one in Figure 25 of the thesis on VM noise.
    #[test]
    fn an_exit_is_reported_with_all_the_work_of_a_real_time_host() {
        let found = busiest_exit().unwrap();
        println!("{}", report::busiest_exit(&found));
        let sum: u64 = found.parts.iter().map(|(.., ns)| ns).sum();
        assert_eq!(sum, found.dur_ns, "{found}");
        for (share, name) in [
            ("host_irq", "local_timer:"),
            ("preempted", "rcuc/0:"),
            ("preempted", "irq_work/0:"),
            ("preempted", "ktimers/0:"),
            ("kvm", "interrupt"),
        ] {
            let mut parts = found.parts.iter();
            let is_it = |part: &(String, String, u64)| part.0 == share && part.1.starts_with(name);
            assert!(parts.any(is_it), "{share} {name}: {found}");
        }
    }
}

mod lab_full {
    use super::*;

    mod own_suite {
        use vmnoise_testbed::oracle::{flagship, report};

        use super::*;

        /// The guest's kernel attributes the time that a task of its host took to interrupts and to
        /// hardware.
        #[test]
        fn a_real_time_guest_sees_the_task_that_takes_its_cpu() {
            let found = flagship().unwrap();
            println!("{}", report::flagship(&found));
            // The bursts alone take this part of the tracer's second. One burst may extend into the
            // next second. The tracer attributes the bursts only to the interrupts that follow
            // them.
            const BURSTS_PERCENT: f64 = 100.0 * (3_000.0 / 10_007.0 - 3_000.0 / 1e6);
            let [_, _, irqs, ..] = found.kernel.counts;
            let noise_percent = found.kernel.noise_percent;
            assert!(irqs > 0 && noise_percent >= BURSTS_PERCENT, "{found:?}");
            // KVM copies the scheduler's run delay into the steal clock. Both differ only in the
            // first and the last gap.
            let waited = found.waited;
            let booked_ns = waited.least_ns..=waited.most_ns;
            assert!(booked_ns.contains(&waited.run_delay_ns), "{found:?}");
            let (share, name, _) = &found.culprits[0];
            assert_eq!(
                (&**share, name),
                ("preempted", &found.disturber),
                "{found:?}"
            );
        }

        /// Under virtual time, QEMU emulates the host's two CPUs one after the other. While one
        /// runs, the other stands still, which no event shows. The lab's scheduler counts this time
        /// as usual, and so do we.
        #[test]
        fn a_guest_that_moves_between_cpus_of_its_host_is_joined() {
            let pair = PairPlan::of(DebianKernel::Cloud, DebianSuite::Own).unwrap();
            let pair = pair.virtual_time(0).cpus(2).moves_every_us(7_000);
            let pair = pair.duration("500ms");
            // Between two moves, the moving program sleeps on CPUs that stand still for half of the
            // time.
            const LEAST_MOVES: u64 = 500_000 / (2 * 7_000);
            let recorded = pair.record().unwrap();
            let [before, after] = recorded.treatment.readings()[..] else {
                panic!("{:?}", recorded.treatment)
            };
            let moved = after.vcpus[0].migrations - before.vcpus[0].migrations;
            println!("moved {moved} times");
            assert!(moved >= LEAST_MOVES, "{moved}");
            let joined = JoinedPair::of(recorded);
            joined.assert_disturber_is_named();
            joined.assert_waits_are_booked();
            let cpus = joined.cpus_of_culprits();
            assert_eq!(cpus, [0, 1].into(), "{}", joined.disturbed["culprits"]);
        }
    }

    mod trixie {
        use super::*;

        #[test]
        fn a_disturber_is_named() {
            assert_names_the_disturber(DebianSuite::Trixie);
        }
    }

    mod trixie_backports {
        use super::*;

        #[test]
        fn a_disturber_is_named() {
            assert_names_the_disturber(DebianSuite::TrixieBackports);
        }
    }
}

mod kvm {
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process};
    use serde_json::Value;
    use vmnoise_testbed::{Disturber, binary};
    use vmnoise_testkit::wait_until;

    use crate::join_judge::{assert_adds_up, number};

    /// Joins recordings without a lab: the host is this machine, and the guest is vmnoise's own.
    #[test]
    fn a_microvm_and_its_host_are_joined_by_the_same_path() {
        let folder = tempfile::tempdir().unwrap();
        let [host, guest] = ["host.rec", "guest.rec"].map(|name| folder.path().join(name));
        let vmnoise = |words: &str| {
            let mut command = Command::new(binary());
            command.args(words.split(' ')).stdout(Stdio::null());
            command
        };
        let mut exits = vmnoise("exits -d 1m -T 1 -o").arg(&host).spawn().unwrap();
        // The header is written first, so later bytes are records of the trace.
        let len = || std::fs::metadata(&host).map_or(0, |file| file.len());
        wait_until("the header of a recording", || len() > 0);
        let head = len();
        wait_until("records of the trace", || len() > head);
        // Without this load, an idle host might have no events.
        let _busy = Disturber::busy(1).unwrap();
        let mut microvm = vmnoise("microvm -c 1 -d 3s -o")
            .arg(&guest)
            .spawn()
            .unwrap();
        let pid = microvm.id();
        assert!(microvm.wait().unwrap().success());
        let recorder = Pid::from_raw(exits.id().cast_signed()).unwrap();
        kill_process(recorder, Signal::INT).unwrap();
        assert!(exits.wait().unwrap().success());
        let mut explain = vmnoise("explain --format json");
        let explain = explain.args([&guest, &host]);
        let explain = explain.stdout(Stdio::piped()).stderr(Stdio::piped());
        let joined = explain.output().unwrap();
        let said = String::from_utf8_lossy(&joined.stderr);
        assert!(joined.status.success(), "{said}");
        let joined: Value = serde_json::from_slice(&joined.stdout).unwrap();
        assert_adds_up(&joined);
        let pair = &joined["pairs"][0];
        println!("{pair}, {}", joined["joined"]);
        assert_eq!((&pair["vmm_pid"], &pair["cpu"]), (&pid.into(), &1.into()));
        let [tested, inside] = ["exits_tested", "exits_inside"].map(|key| number(&pair[key]));
        assert!(tested > 0 && inside * 20 >= tested * 19, "{pair}");
        assert!(number(&joined["joined"]["witnessed"]) > 0, "{joined}");
    }
}

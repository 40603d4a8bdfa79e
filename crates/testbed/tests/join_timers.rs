//! Tests recordings of a Linux guest with late timers and of its host in one lab. The join must
//! name the causes on both sides with the right times.

mod virtual_time {
    use serde_json::Value;
    use vmnoise_events::{Activation, Event};
    use vmnoise_explain::{Matcher, Pairs};
    use vmnoise_recording::RecordingReader;
    use vmnoise_testbed::bed::{DebianKernel, DebianSuite};
    use vmnoise_testbed::pair::{DISTURBED, HOST, PairPlan, PairRecordings, QUIET};

    use crate::altered;

    /// Time for which the disturber takes the CPU without a pause, nanoseconds.
    const BURST_NS: u64 = 3_000_000;

    fn number(value: &Value) -> u64 {
        value.as_u64().unwrap_or_else(|| panic!("{value}"))
    }

    fn list(value: &Value) -> impl Iterator<Item = &Value> {
        value.as_array().unwrap().iter()
    }

    fn sum<'a>(values: impl Iterator<Item = &'a Value>) -> u64 {
        values.map(number).sum()
    }

    fn events(recorded: &PairRecordings, name: &str) -> Vec<Event> {
        altered::events(&recorded.file(name))
    }

    /// Asserts that all budgets of a joined result add up, on every level.
    fn assert_adds_up(joined: &Value) {
        assert_eq!(joined["schema"], "vmnoise.latency_join/1");
        let cpu = &joined["cpus"][0];
        let latencies = cpu["phases_ns"].as_object().unwrap().values();
        let latencies_ns = sum(latencies.filter(|ns| !ns.is_null()));
        for context in list(&cpu["contexts"]) {
            let sides = ["guest_ns", "host_ns", "unknown_ns"].map(|side| &context[side]);
            assert_eq!(
                sum(sides.into_iter()),
                number(&context["total_ns"]),
                "{context}"
            );
            let shares = context["shares_ns"].as_object().unwrap().values();
            let shares = shares.filter(|ns| !ns.is_null());
            assert_eq!(sum(shares), number(&context["total_ns"]), "{context}");
        }
        assert_eq!(
            number(&cpu["contexts"][2]["total_ns"]),
            latencies_ns,
            "{cpu}"
        );
        for tree in list(&joined["trees"]) {
            let latency_ns = number(&tree["wakeup"]["latency_ns"]);
            assert_eq!(
                sum(list(&tree["wakeup"]["parts"]).map(|it| &it["ns"])),
                latency_ns
            );
            assert_eq!(
                sum(list(&tree["phases"]).map(|it| &it["dur_ns"])),
                latency_ns
            );
            for phase in list(&tree["phases"]) {
                let guest = list(&phase["guest"]).map(|part| &part["ns"]);
                let exits = list(&phase["exits"]).map(|exit| &exit["dur_ns"]);
                let rest = [&phase["steal_ns"], &phase["residual_ns"]];
                let all = sum(guest.chain(exits).chain(rest));
                assert_eq!(all, number(&phase["dur_ns"]), "{tree}");
                for exit in list(&phase["exits"]) {
                    let parts = list(&exit["parts"]).map(|part| &part["ns"]);
                    assert_eq!(sum(parts), number(&exit["dur_ns"]), "{tree}");
                }
            }
        }
    }

    /// Returns the time within a wake-up in which this task of the host ran instead of the vCPU,
    /// nanoseconds.
    fn preempted_ns(tree: &Value, name: &str) -> u64 {
        let exits = list(&tree["phases"]).flat_map(|phase| list(&phase["exits"]));
        let parts = exits.flat_map(|exit| list(&exit["parts"]));
        let is_it = |part: &&Value| part["share"] == "preempted" && part["name"] == name;
        sum(parts.filter(is_it).map(|part| &part["ns"]))
    }

    /// Returns which vCPU belongs to which CPU of the guest, with the conversion between the clocks
    /// of both machines.
    fn pairs(recorded: &PairRecordings) -> Pairs {
        let facts = |name| {
            RecordingReader::open(&recorded.file(name))
                .unwrap()
                .facts()
                .clone()
        };
        let mut matcher = Matcher::new(&facts(DISTURBED), &facts(HOST)).unwrap();
        events(recorded, DISTURBED)
            .iter()
            .for_each(|event| matcher.guest(event));
        events(recorded, HOST)
            .iter()
            .for_each(|event| matcher.host(event));
        matcher.finish().unwrap()
    }

    /// Returns how much of this wake-up's latency lies in the bursts that the disturber logged,
    /// nanoseconds.
    fn logged_ns(late: &Activation, pairs: &Pairs, bursts: &[(u64, u64)]) -> u64 {
        let at = |guest_mono_ns| pairs.host_mono_ns(0, guest_mono_ns).unwrap();
        let (from_ns, to_ns) = (at(late.expiry_mono_ns), at(late.woke_mono_ns));
        let overlaps = bursts
            .iter()
            .map(|(begin_ns, end_ns)| to_ns.min(*end_ns).saturating_sub(from_ns.max(*begin_ns)));
        overlaps.sum()
    }

    /// Asserts that a wrong clock is refused, because it would assign other exits to each wake-up.
    /// The error is not a multiple of the period: a task with one period could not detect such an
    /// error.
    fn assert_another_clock_is_refused(recorded: &PairRecordings) {
        const WRONG_BY_TSC: i64 = 400_000;
        let wrong = recorded.file("wrong.rec");
        altered::clocks_ahead(&recorded.file(HOST), &wrong, WRONG_BY_TSC);
        let refusal = recorded.explain(&[DISTURBED, "wrong.rec"], &[]);
        let refusal = refusal.unwrap_err().to_string();
        println!("{refusal}");
        assert!(refusal.contains("does not agree"), "{refusal}");
    }

    #[test]
    fn a_task_of_the_host_is_named_for_a_guests_late_timers_with_its_length() {
        let pair = PairPlan::of(DebianKernel::Cloud, DebianSuite::Own).unwrap();
        let pair = pair.virtual_time(0).timerlat().duration("200ms");
        let recorded = pair.record().unwrap();
        let disturber = recorded.disturber().unwrap();
        let all = ["--top", "1000"];
        let join = |guest| recorded.explain(&[guest, HOST], &all).unwrap();
        let (quiet, disturbed) = (join(QUIET), join(DISTURBED));
        for joined in [&quiet, &disturbed] {
            assert_adds_up(joined);
            println!("{}\n{}", joined["pairs"][0], joined["joined"]);
            println!("{}", joined["cpus"][0]["contexts"][2]);
            let totals = &joined["joined"];
            assert_eq!(totals["wakeups"], totals["witnessed"], "{totals}");
            // Each wake-up ends a sleep of its vCPU. All of its time is attributed, except for a
            // phase, or an exit's part of a phase, that is at most twice the clock error.
            assert_eq!(totals["wakeups"], totals["joined"], "{totals}");
            let unknown_ns = number(&joined["cpus"][0]["contexts"][2]["unknown_ns"]);
            let unsure = &totals["unsure"];
            let short = number(&unsure["count"]) + number(&unsure["exits"]);
            let bound_ns = number(&joined["pairs"][0]["bound_ns"]);
            assert!(unknown_ns <= number(&unsure["ns"]), "{totals}");
            assert!(
                number(&unsure["ns"]) <= short * 2 * bound_ns,
                "{bound_ns}: {totals}"
            );
        }
        let named = |joined: &Value| list(&joined["culprits"]).any(|it| it["name"] == disturber);
        assert!(!named(&quiet), "{}", quiet["culprits"]);
        let first = &disturbed["culprits"][0];
        let (side, share, name) = (&first["side"], &first["share"], &first["name"]);
        assert_eq!(
            (side, share, name),
            (&"host".into(), &"preempted".into(), &disturber.into())
        );

        let (pairs, bursts) = (pairs(&recorded), recorded.turns().unwrap());
        let activations = events(&recorded, DISTURBED).into_iter();
        let activations: Vec<Activation> = activations
            .filter_map(|event| match event {
                Event::Activation(activation) => Some(activation),
                _ => None,
            })
            .collect();
        let mut hit = 0;
        assert_eq!(list(&disturbed["trees"]).count(), activations.len());
        for tree in list(&disturbed["trees"]) {
            let expiry_ns = number(&tree["wakeup"]["expiry_mono_ns"]);
            let is_it = |it: &&Activation| it.expiry_mono_ns == expiry_ns;
            let activation = activations.iter().find(is_it).unwrap();
            let logged_ns = logged_ns(activation, &pairs, &bursts);
            let reported_ns = preempted_ns(tree, disturber);
            if logged_ns > 0 {
                println!("logged {logged_ns} ns, reported {reported_ns} ns");
                hit += 1;
            }
            assert!(
                reported_ns.abs_diff(logged_ns) * 20 <= BURST_NS,
                "{logged_ns}: {tree}"
            );
        }
        assert!(hit >= 10, "{hit} of {} bursts", bursts.len());
        assert_another_clock_is_refused(&recorded);
    }
}

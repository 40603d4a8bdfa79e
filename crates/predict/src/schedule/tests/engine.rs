//! Compares our bounds with the bounds that the package `response-time-analysis` of PyPI computes.
//! PROSA has verified the analyses of this package.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use response_time_analysis::arrival::Sporadic;
use response_time_analysis::supply::{Dedicated, SupplyBound};
use response_time_analysis::time::{Duration, Service};

use super::super::{PeriodicTask, Preemption, ScheduleOrder, response};

const SETS: usize = 1_500;
/// Limit of the bounds. If neither analysis finds a bound below this limit, the set is not
/// compared.
const LIMIT: u64 = 20_000;

/// Supply that leaves `allocation` in each `period` of a window after the first `delay`, in whole
/// nanoseconds.
#[derive(Debug, Clone, Copy)]
struct RateDelay {
    period: u64,
    allocation: u64,
    delay: u64,
}

impl SupplyBound for RateDelay {
    fn provided_service(&self, delta: Duration) -> Service {
        let beyond = u64::from(delta).saturating_sub(self.delay);
        Service::from(beyond * self.allocation / self.period)
    }
}

/// Tasks, policy and supply. A task is a tuple of cost, period, jitter, deadline, priority and
/// preemption.
///
/// The values of preemption are: 0 for full preemption, 1 for none, and 2 to 4 for sections of this
/// length. Larger values mean points between sections of length 4, and a last section of length 9
/// minus the value.
type Set = (Vec<(u64, u64, u64, u64, u32, u64)>, u8, Option<RateDelay>);

fn sets() -> impl Strategy<Value = Set> {
    let task = (
        1_u64..12,
        12_u64..90,
        0_u64..20,
        5_u64..120,
        0_u32..5,
        0_u64..9,
    );
    let supply = (2_u64..12, 0_u64..30).prop_flat_map(|(period, delay)| {
        (1..=period).prop_map(move |allocation| RateDelay {
            period,
            allocation,
            delay,
        })
    });
    (
        proptest::collection::vec(task, 1..5),
        0_u8..3,
        proptest::option::of(supply),
    )
}

fn line((tasks, policy, supply): &Set) -> String {
    let supply = supply.map_or("ideal".into(), |it| {
        format!("{} {} {}", it.period, it.allocation, it.delay)
    });
    let tasks = tasks
        .iter()
        .map(|(cost, period, jitter, deadline, priority, sections)| {
            format!("{cost} {period} {jitter} {deadline} {priority} {sections}")
        });
    format!(
        "{policy};{supply};{}\n",
        tasks.collect::<Vec<_>>().join(",")
    )
}

/// Returns the bounds that the package computes: for each set, one bound per task.
fn asked(sets: &[Set]) -> Vec<Vec<Option<u64>>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut asked = Command::new("python3")
        .arg(root.join("src/schedule/tests/verified.py"))
        .arg(LIMIT.to_string())
        .env("PYTHONPATH", root.join("../../target/python"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = sets.iter().map(line).collect();
    let mut stdin = asked.stdin.take().unwrap();
    let writes = std::thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
    let said = asked.wait_with_output().unwrap();
    writes.join().unwrap();
    assert!(said.status.success());
    let said = String::from_utf8(said.stdout).unwrap();
    let bounds = |line: &str| line.split(' ').map(|it| it.parse().ok()).collect();
    said.lines().map(bounds).collect()
}

fn ours((tasks, policy, supply): &Set) -> Vec<Option<u64>> {
    let policy = [
        ScheduleOrder::FixedPriority,
        ScheduleOrder::Edf,
        ScheduleOrder::Fifo,
    ][usize::from(*policy)];
    let task =
        |(cost, period, jitter, deadline, priority, sections): &(u64, u64, u64, u64, u32, u64)| {
            PeriodicTask {
                name: String::new(),
                cost_ns: *cost,
                arrivals: Rc::new(Sporadic::new(
                    Duration::from(*period),
                    Duration::from(*jitter),
                )),
                period_ns: *period,
                deadline_ns: *deadline,
                priority: *priority,
                preemption: match sections {
                    0 => Preemption::Full,
                    1 => Preemption::None,
                    2..=4 => Preemption::Sections(*sections.min(cost)),
                    more => Preemption::Points {
                        longest_ns: *cost.min(&4),
                        last_ns: *cost.min(&(9 - more)),
                    },
                },
            }
        };
    let tasks: Vec<PeriodicTask> = tasks.iter().map(task).collect();
    let dedicated: &dyn SupplyBound = &Dedicated::new();
    let supply = supply.as_ref().map_or(dedicated, |it| it);
    let bounds = (0..tasks.len()).map(|of| {
        let found = response(policy, &tasks, of, supply, 0, LIMIT);
        found.ok().map(|it| it.bound_ns)
    });
    bounds.collect()
}

#[test]
fn bounds_are_those_of_the_verified_analyses() {
    let mut runner = TestRunner::deterministic();
    let strategy = sets();
    let sets: Vec<Set> = (0..SETS)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect();
    let theirs = asked(&sets);
    assert_eq!(theirs.len(), SETS);
    let mut bounded = 0;
    for (set, theirs) in sets.iter().zip(&theirs) {
        assert_eq!(&ours(set), theirs, "{set:?}");
        bounded += theirs.iter().flatten().count();
    }
    assert!(bounded > SETS / 2, "only {bounded} tasks have a bound");
}

//! Writes a description of tasks that ran, in the format of `--tasks`.

use std::fmt::Write;

use vmnoise_testbed::periodic::PlayedTask;

/// Values of a task that its log of jobs does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetCost {
    /// Upper bound of a job's cost, nanoseconds.
    pub cost_ns: u64,
    /// Deadline of a job, nanoseconds.
    pub deadline_ns: u64,
    /// Time by which a job may arrive later than the recorded timers, nanoseconds.
    pub jitter_ns: u64,
}

/// Returns the text of the file. Tasks that all have the same priority are described as `fifo`,
/// which serves them in order of arrival.
pub fn describe(tasks: &[PlayedTask], costs: &[SetCost]) -> String {
    let first = tasks.first().and_then(|it| it.priority);
    let is_one = tasks.len() > 1 && tasks.iter().all(|it| it.priority == first);
    let policy = match first {
        None => "edf",
        Some(_) if is_one => "fifo",
        Some(_) => "fp",
    };
    let mut text = format!("policy = \"{policy}\"\n");
    for (task, cost) in tasks.iter().zip(costs) {
        let SetCost {
            cost_ns,
            deadline_ns,
            jitter_ns,
        } = cost;
        write!(
            text,
            "\n[[task]]\nname = \"{}\"\ncost = \"{cost_ns}ns\"\nperiod = \"{}ns\"\ndeadline = \"{deadline_ns}ns\"\n\
             jitter = \"{jitter_ns}ns\"\n",
            task.name, task.period_ns
        )
        .unwrap();
        if policy == "fp" {
            writeln!(text, "priority = {}", task.priority.unwrap()).unwrap();
        }
    }
    text
}

#[test]
fn each_policy_is_told_by_the_priorities() {
    let cost = SetCost {
        cost_ns: 41_001,
        deadline_ns: 400_000,
        jitter_ns: 7,
    };
    let task = |priority| PlayedTask {
        name: "job-fast".into(),
        tid: 1,
        priority,
        work_ns: 40_000,
        period_ns: 500_000,
        charged_ns: 0,
        start_ns: 0,
        done_ns: Vec::new(),
    };
    let expected = "policy = \"fp\"\n\n[[task]]\nname = \"job-fast\"\ncost = \"41001ns\"\nperiod = \"500000ns\"\n\
                    deadline = \"400000ns\"\njitter = \"7ns\"\npriority = 40\n";
    assert_eq!(describe(&[task(Some(40))], &[cost]), expected);
    let of = |priorities: [Option<i32>; 2]| describe(&priorities.map(task), &[cost; 2]);
    assert!(of([None; 2]).starts_with("policy = \"edf\""));
    assert!(of([Some(40); 2]).starts_with("policy = \"fifo\""));
    assert!(of([Some(40), Some(30)]).starts_with("policy = \"fp\""));
}

//! Models that LiME extracted (<https://github.com/LiME-org/lime-rtw>): one `PID-VERSION.models.json`
//! for each task, with what it is called and how it is scheduled in `PID-VERSION.infos.json` beside
//! it, and the machine in `sysinfo.json`. Times are nanoseconds.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use response_time_analysis::arrival::{ArrivalBound, Curve, ExtrapolatingCurve, Sporadic};
use response_time_analysis::time::Duration;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use vmnoise_events::Name;
use vmnoise_predict::schedule::{Policy, Preemption, Task, TaskSet};

use super::Described;
use crate::say;

const MODELS: &str = ".models.json";

#[derive(Deserialize)]
struct Models {
    by_job_separator: Vec<Jobs>,
}

/// What was found of the jobs that end in one way.
#[derive(Deserialize)]
struct Jobs {
    count: u64,
    wcet_n: Vec<u64>,
    dynamic_self_suspension: u64,
    arrival_models: Vec<Arrivals>,
}

#[derive(Deserialize)]
#[serde(tag = "model", rename_all = "snake_case")]
enum Arrivals {
    ArrivalCurve { dmins: Vec<u64> },
    Sporadic { mit: u64 },
    Periodic { period: u64, max_jitter: u64 },
}

#[derive(Deserialize)]
struct Infos {
    comm: Option<String>,
    policy: Scheduling,
}

#[derive(Deserialize)]
enum Scheduling {
    #[serde(rename = "SCHED_FIFO", alias = "SCHED_RR")]
    Priority { prio: u32 },
    #[serde(rename = "SCHED_DEADLINE")]
    Deadline { deadline: u64 },
    #[serde(rename = "SCHED_OTHER", alias = "UNKNOWN")]
    Other,
}

#[derive(Deserialize)]
struct SysInfo {
    system: System,
}

#[derive(Deserialize)]
struct System {
    kernel_version: String,
}

/// Whether a file is named as one.
pub(super) fn is_model(path: &Path) -> bool {
    path.to_string_lossy().ends_with(MODELS)
}

/// The tasks of these files.
pub(super) fn set(models: &[PathBuf]) -> Result<Described, String> {
    let mut notes = Vec::new();
    let mut tasks = Vec::new();
    let mut policies = Vec::new();
    for path in models {
        let (task, policy) = task(path, &mut notes)?;
        tasks.push(task);
        policies.push(policy);
    }
    let Some(policy) = policies.first().copied() else {
        return Err("it has no task".into());
    };
    if policies.iter().any(|it| *it != policy) {
        return Err(
            "some tasks have priorities and others deadlines: who goes first of both is not \
                    analysed; take a folder with those of one policy"
                .into(),
        );
    }
    let beside = models[0].with_file_name("sysinfo.json");
    let system: Option<SysInfo> = beside.exists().then(|| json(&beside)).transpose()?;
    Ok(Described {
        set: TaskSet { policy, tasks },
        observed_under: system.map(|it| it.system.kernel_version),
        notes,
    })
}

fn task(path: &Path, notes: &mut Vec<String>) -> Result<(Task, Policy), String> {
    let of = say::name_of(path);
    let models: Models = json(path)?;
    let infos = path.to_string_lossy().replace(MODELS, ".infos.json");
    let infos: Infos = json(Path::new(&infos))
        .map_err(|error| format!("{error}: how {of} is scheduled is written there"))?;
    let known = models.by_job_separator.into_iter();
    let known = known.filter(|it| !it.wcet_n.is_empty() && !it.arrival_models.is_empty());
    let jobs = known.max_by_key(|it| it.count);
    let jobs = jobs.ok_or_else(|| format!("{of} has no jobs: trace the task for longer"))?;
    let name = infos
        .comm
        .map_or(of.clone(), |comm| Name::new(&comm).to_string());
    let separation_ns = separation_ns(&jobs.arrival_models).ok_or_else(|| {
        format!("{of}: how far apart its jobs are is not known: trace it for longer")
    })?;
    let (policy, priority, deadline_ns) = match infos.policy {
        Scheduling::Priority { prio } => (Policy::FixedPriority, prio, separation_ns),
        Scheduling::Deadline { deadline } => (Policy::Edf, 0, deadline),
        Scheduling::Other => {
            return Err(format!(
                "{of} is of an ordinary task: who goes first is not known; extract without --best-effort"
            ));
        }
    };
    if let Policy::FixedPriority = policy {
        notes.push(format!(
            "{name} has no deadline of its own: its jobs are to be done before the next may come"
        ));
    }
    let suspended_ns = jobs.dynamic_self_suspension;
    if suspended_ns > 0 {
        notes.push(format!(
            "{name} sleeps in its jobs: that time is taken for work, which is safe"
        ));
    }
    let cost_ns = jobs.wcet_n[0].saturating_add(suspended_ns).max(1);
    let (arrivals, period_ns) = arrivals(jobs.arrival_models, separation_ns);
    let task = Task {
        name,
        cost_ns,
        arrivals,
        period_ns,
        deadline_ns: deadline_ns.max(1),
        priority,
        preemption: Preemption::Full,
    };
    Ok((task, policy))
}

/// How far apart two jobs are at least, or in the period if they come in one.
fn separation_ns(models: &[Arrivals]) -> Option<u64> {
    let of_model = |model: &Arrivals| match model {
        Arrivals::Periodic { period, .. } => Some((2, *period)),
        Arrivals::Sporadic { mit } => Some((1, *mit)),
        Arrivals::ArrivalCurve { .. } => None,
    };
    let known = models.iter().filter_map(of_model);
    known.filter(|(_, ns)| *ns > 0).max().map(|(_, ns)| ns)
}

/// The tightest of the models, and how far apart jobs are by it in the long run.
fn arrivals(models: Vec<Arrivals>, separation_ns: u64) -> (Rc<dyn ArrivalBound>, u64) {
    let mut jitter_ns = 0;
    for model in models {
        match model {
            // A curve that ends in a burst says nothing of what comes after it.
            Arrivals::ArrivalCurve { dmins } if dmins.last().is_some_and(|last| *last > 0) => {
                // Of n + 1 jobs; the curve goes on as its best stretch does.
                let apart = (1..).zip(&dmins).map(|(n, distance_ns)| distance_ns / n);
                let period_ns = apart.max().unwrap_or(0).max(1);
                let dmins = dmins.into_iter().map(Duration::from).collect();
                return (
                    Rc::new(ExtrapolatingCurve::new(Curve::new(dmins))),
                    period_ns,
                );
            }
            Arrivals::Periodic { max_jitter, .. } => jitter_ns = max_jitter,
            Arrivals::ArrivalCurve { .. } | Arrivals::Sporadic { .. } => {}
        }
    }
    let (period, jitter) = (Duration::from(separation_ns), Duration::from(jitter_ns));
    (Rc::new(Sporadic::new(period, jitter)), separation_ns)
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let name = say::name_of(path);
    let text = fs::read(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("{name} is none of LiME's: {error}"))
}

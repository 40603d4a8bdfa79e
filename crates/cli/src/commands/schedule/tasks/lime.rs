//! Reads models that LiME extracted (<https://github.com/LiME-org/lime-rtw>). Each task has a file
//! `PID-VERSION.models.json`, and a file `PID-VERSION.infos.json` with its name and scheduling
//! policy. `sysinfo.json` describes the machine. Times are in nanoseconds.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use response_time_analysis::arrival::{ArrivalBound, Curve, ExtrapolatingCurve, Sporadic};
use response_time_analysis::time::Duration;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use vmnoise_console::say;
use vmnoise_events::{Name, human};
use vmnoise_predict::schedule::{PeriodicTask, Preemption, ScheduleOrder, TaskSet};

use super::{Described, MOST_PERIODS_LATE};

const MODELS: &str = ".models.json";
/// Upper bound of all times; no run is longer.
const MOST_NS: u64 = u64::MAX / 4;

#[derive(Deserialize)]
struct Models {
    by_job_separator: Vec<Jobs>,
}

/// Model of the jobs that end in the same way.
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
    ArrivalCurve {
        dmins: Vec<u64>,
    },
    Sporadic {
        mit: u64,
    },
    Periodic {
        period: u64,
        max_jitter: u64,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Infos {
    comm: Option<String>,
    policy: Scheduling,
    affinity_mask: Option<Affinity>,
}

#[derive(Deserialize)]
struct Affinity {
    cpu_set: Vec<u32>,
}

#[derive(Deserialize)]
enum Scheduling {
    #[serde(rename = "SCHED_FIFO", alias = "SCHED_RR")]
    Priority { prio: u32 },
    #[serde(rename = "SCHED_DEADLINE")]
    Deadline {
        runtime: u64,
        period: u64,
        deadline: u64,
    },
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

/// Returns whether a file has the name of a model.
pub(super) fn is_model(path: &Path) -> bool {
    path.to_string_lossy().ends_with(MODELS)
}

/// Returns the tasks of these files.
pub(super) fn set(models: &[PathBuf]) -> Result<Described, String> {
    let mut found = Found::default();
    for path in models {
        found.add(path)?;
    }
    let Some(policy) = found.policies.first().copied() else {
        return Err("it has no task".into());
    };
    if found.policies.iter().any(|it| *it != policy) {
        return Err(
            "some tasks have priorities and others deadlines, which vmnoise cannot analyse \
                    together: name a folder with tasks of one policy"
                .into(),
        );
    }
    let beside = models[0].with_file_name("sysinfo.json");
    let system: Option<SysInfo> = beside.exists().then(|| json(&beside)).transpose()?;
    if system.is_none() {
        let note = "the kernel under which the tasks were observed is unknown, because there is no sysinfo.json";
        found.notes.push(note.into());
    }
    Ok(Described {
        set: TaskSet {
            policy,
            tasks: found.tasks,
        },
        observed_under: system.map(|it| it.system.kernel_version),
        bound_to: found.bound_to,
        notes: found.notes,
    })
}

/// Content of the files read so far.
#[derive(Default)]
struct Found {
    tasks: Vec<PeriodicTask>,
    policies: Vec<ScheduleOrder>,
    bound_to: Vec<(String, Vec<u32>)>,
    notes: Vec<String>,
}

impl Found {
    fn add(&mut self, path: &Path) -> Result<(), String> {
        let of = say::name_of(path);
        let models: Models = json(path)?;
        let infos = path.to_string_lossy().replace(MODELS, ".infos.json");
        let infos: Infos = json(Path::new(&infos))
            .map_err(|error| format!("{error}: it has the scheduling policy of {of}"))?;
        let known = models.by_job_separator.into_iter();
        let known = known.filter(|it| !it.wcet_n.is_empty() && !it.arrival_models.is_empty());
        let jobs = known.max_by_key(|it| it.count);
        let jobs = jobs.ok_or_else(|| format!("{of} has no jobs: trace the task for longer"))?;
        let name = infos
            .comm
            .map_or(of.clone(), |comm| Name::new(&comm).to_string());
        let suspended_ns = jobs.dynamic_self_suspension;
        if suspended_ns > 0 {
            self.notes.push(format!(
                "{name} sleeps in its jobs: that time counts as work, which is safe"
            ));
        }
        let cost_ns = jobs.wcet_n[0]
            .saturating_add(suspended_ns)
            .clamp(1, MOST_NS);
        let (arrivals, period_ns) = arrivals(&jobs.arrival_models)
            .ok_or_else(|| format!("{of}: the rate of its jobs is unknown: trace it for longer"))?;
        let (policy, priority, deadline_ns) = match infos.policy {
            Scheduling::Priority { prio } => {
                self.notes.push(format!(
                    "{name} has no deadline of its own: each job must end before the next may come"
                ));
                let apart_ns = least_apart_ns(&jobs.arrival_models).ok_or_else(|| {
                    format!(
                        "{of}: two of its jobs may come at once, and it has no deadline of its own: describe it in a \
                         file of tasks (docs/schedule.md)"
                    )
                })?;
                (ScheduleOrder::FixedPriority, prio, apart_ns)
            }
            Scheduling::Deadline {
                runtime, period, ..
            } if cost_ns > runtime => {
                return Err(format!(
                    "{of}: its jobs take up to {}, and SCHED_DEADLINE limits it to {} in each {}: raise its runtime",
                    human(cost_ns),
                    human(runtime),
                    human(period)
                ));
            }
            Scheduling::Deadline { deadline, .. } => (ScheduleOrder::Edf, 0, deadline),
            Scheduling::Other => {
                return Err(format!(
                    "{of} is of a task without a real-time policy, whose order is unknown: extract without --best-effort"
                ));
            }
        };
        if let Some(affinity) = infos.affinity_mask {
            self.bound_to.push((name.clone(), affinity.cpu_set));
        }
        self.policies.push(policy);
        self.tasks.push(PeriodicTask {
            name,
            cost_ns,
            arrivals,
            period_ns,
            deadline_ns: deadline_ns.clamp(1, MOST_NS),
            priority,
            preemption: Preemption::Full,
        });
        Ok(())
    }
}

/// Returns the least time between two jobs; `None` if two jobs may come at the same time.
fn least_apart_ns(models: &[Arrivals]) -> Option<u64> {
    let of_model = |model: &Arrivals| match model {
        Arrivals::Periodic { period, max_jitter } => Some(period.saturating_sub(*max_jitter)),
        Arrivals::Sporadic { mit } => Some(*mit),
        Arrivals::ArrivalCurve { dmins } => dmins.first().copied(),
        Arrivals::Unknown => None,
    };
    let apart = models.iter().filter_map(of_model);
    apart.min().filter(|ns| *ns > 0)
}

/// Returns the tightest model that bounds the rate of jobs, and its mean time between jobs in the
/// long run. Returns `None` if no model bounds the rate.
fn arrivals(models: &[Arrivals]) -> Option<(Rc<dyn ArrivalBound>, u64)> {
    let curve = models.iter().find_map(|it| match it {
        // A curve that ends in a burst does not bound later jobs.
        Arrivals::ArrivalCurve { dmins } if dmins.last().is_some_and(|last| *last > 0) => {
            Some(dmins)
        }
        _ => None,
    });
    if let Some(dmins) = curve {
        // Entry n bounds n + 1 jobs. Beyond its end, the curve repeats its best entry.
        let apart = (1..).zip(dmins).map(|(n, distance_ns)| distance_ns / n);
        let period_ns = apart.max().unwrap_or(0).max(1);
        let dmins = dmins.iter().map(|it| Duration::from((*it).min(MOST_NS)));
        let curve = ExtrapolatingCurve::new(Curve::new(dmins.collect()));
        return Some((Rc::new(curve), period_ns));
    }
    let sporadic = |period_ns: u64, jitter_ns: u64| -> (Rc<dyn ArrivalBound>, u64) {
        let (period_ns, jitter_ns) = (period_ns.min(MOST_NS), jitter_ns.min(MOST_NS));
        let (period, jitter) = (Duration::from(period_ns), Duration::from(jitter_ns));
        (Rc::new(Sporadic::new(period, jitter)), period_ns)
    };
    let of_kind = |is_periodic: bool| {
        models.iter().find_map(|it| match it {
            Arrivals::Periodic { period, max_jitter }
                if is_periodic && *period > 0 && max_jitter / period <= MOST_PERIODS_LATE =>
            {
                Some(sporadic(*period, *max_jitter))
            }
            Arrivals::Sporadic { mit } if !is_periodic && *mit > 0 => Some(sporadic(*mit, 0)),
            _ => None,
        })
    };
    of_kind(true).or_else(|| of_kind(false))
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let name = say::name_of(path);
    let text = fs::read(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("{name} is no file of LiME: {error}"))
}

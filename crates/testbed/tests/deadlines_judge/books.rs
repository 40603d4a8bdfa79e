//! Reads the threads of tasks from a recording: the times for which they had the CPU, without
//! interrupts and steal, and the gaps around these times.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;

use vmnoise_events::{Activity, ActivityKind, Event, Share, SourceId};
use vmnoise_explain::{Explainer, Interval};
use vmnoise_recording::RecordingReader;

use super::interrupts::Interrupts;

/// One turn of a thread: the time from its switch onto the CPU to its switch off the CPU.
#[derive(Debug, Clone, Copy)]
struct Turn {
    begin_ns: u64,
    end_ns: u64,
    /// Time that the hypervisor took during the turn, without its part of interrupts, nanoseconds.
    stolen_ns: u64,
}

/// A gap, and the time in it that `vmnoise explain` attributes to threads of tasks.
#[derive(Debug, Clone, Copy)]
struct Gap {
    begin_ns: u64,
    end_ns: u64,
    tasks_ns: u64,
}

/// Turns and gaps on one CPU. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Debug)]
pub struct Books {
    /// Turns of each thread in order, by the thread's ID.
    turns: HashMap<u32, Vec<Turn>>,
    interrupts: Interrupts,
    gaps: Vec<Gap>,
    /// Ends of the turns of threads that run only if no task wants the CPU, in order.
    behind_ended_ns: Vec<u64>,
    /// Names (`comm:tid`) of such threads that took time in gaps.
    pub behind: Vec<String>,
    /// Clock error of the gaps' times, nanoseconds.
    pub clock_bound_ns: u64,
}

impl Books {
    /// Reads a recording. `tasks` contains the IDs of the tasks' threads. `is_behind` returns
    /// whether another thread, by its name, runs only if no task wants the CPU.
    pub fn read(path: &Path, cpu: u32, tasks: &[u32], is_behind: &dyn Fn(&str) -> bool) -> Books {
        let mut reader = RecordingReader::open(path).unwrap();
        let facts = reader.facts().clone();
        let mut explainer = Explainer::new(&facts);
        let mut intervals: Vec<Interval> = Vec::new();
        let mut threads: HashMap<SourceId, u32> = HashMap::new();
        let mut behind: HashMap<SourceId, String> = HashMap::new();
        let (mut turns, mut interrupts) = (Vec::new(), Vec::new());
        while let ControlFlow::Continue(event) = reader.next_event().unwrap() {
            match &event {
                // The name is `comm:tid`.
                Event::Source(source) => {
                    let name = source.name.as_str();
                    let tid = name.rsplit_once(':').and_then(|(_, tid)| tid.parse().ok());
                    if let Some(tid) = tid.filter(|tid| tasks.contains(tid)) {
                        threads.insert(source.id, tid);
                    } else if is_behind(name) {
                        behind.insert(source.id, name.to_owned());
                    }
                }
                Event::Activity(activity) if activity.cpu == cpu => match activity.kind {
                    ActivityKind::Thread => turns.push(*activity),
                    kind if kind > ActivityKind::Thread => interrupts.push(*activity),
                    _ => {}
                },
                _ => {}
            }
            explainer.push(&event, &mut |gap| intervals.push(gap.clone()));
        }
        explainer.run_out(&mut |gap| intervals.push(gap.clone()));
        let of_cpu = intervals.iter().filter(|gap| gap.cpu == cpu);
        let gaps = of_cpu.map(|gap| gap_of(gap, &threads)).collect();
        let of_behind = turns.iter().filter(|it| behind.contains_key(&it.source));
        let mut behind_ended_ns: Vec<u64> = of_behind.map(|it| it.end_mono_ns).collect();
        behind_ended_ns.sort_unstable();
        let took = intervals.iter().flat_map(|gap| &gap.parts);
        let took = took.filter(|it| it.share == Share::Thread);
        let took: HashSet<SourceId> = took.filter_map(|it| it.source).collect();
        behind.retain(|id, _| took.contains(id));
        turns.retain(|turn| threads.contains_key(&turn.source));
        if !facts.witnesses.activity_steal {
            let all = turns.iter_mut().chain(&mut interrupts);
            all.for_each(|it| it.steal_ns = 0);
        }
        interrupts.sort_unstable_by_key(|it| it.start_mono_ns);
        let books = Books {
            turns: of_threads(&turns, &interrupts, &threads),
            interrupts: Interrupts::new(&interrupts),
            gaps,
            behind_ended_ns,
            behind: behind.into_values().collect(),
            clock_bound_ns: explainer.finish().clock_bound_ns.unwrap(),
        };
        books.assert_whole();
        books
    }

    /// Returns the largest CPU time of a thread between two consecutive times in `times_ns`,
    /// without interrupts and steal. If a time lies within a turn, steal is not subtracted from
    /// this turn, because the position of the steal is unknown.
    pub fn most_between_ns(&self, tid: u32, times_ns: &[u64]) -> u64 {
        let mut had_ns = vec![0; times_ns.len() + 1];
        for turn in &self.turns[&tid] {
            let first = times_ns.partition_point(|it| *it <= turn.begin_ns);
            let past = times_ns.partition_point(|it| *it < turn.end_ns);
            if first == past {
                had_ns[first] += self.net_ns(turn);
                continue;
            }
            let mut from_ns = turn.begin_ns;
            for (nth, to_ns) in (first..).zip(&times_ns[first..past]) {
                had_ns[nth] += self.interrupts.without_ns(from_ns, *to_ns);
                from_ns = *to_ns;
            }
            had_ns[past] += self.interrupts.without_ns(from_ns, turn.end_ns);
        }
        // Turns before the first time and after the last time do not count.
        let between = &had_ns[1..times_ns.len()];
        between.iter().copied().max().unwrap()
    }

    /// Returns the CPU time of a turn without interrupts and steal, nanoseconds.
    fn net_ns(&self, turn: &Turn) -> u64 {
        let without_ns = self.interrupts.without_ns(turn.begin_ns, turn.end_ns);
        without_ns.saturating_sub(turn.stolen_ns)
    }

    /// Returns how many turns a thread began between these times, and the thread's CPU time in
    /// these turns without interrupts and steal.
    pub fn between(&self, tid: u32, from_ns: u64, to_ns: u64) -> (u64, u64) {
        let turns = self.turns[&tid].iter();
        let turns = turns.filter(|turn| (from_ns..to_ns).contains(&turn.begin_ns));
        turns.fold((0, 0), |(turns, ns), turn| {
            (turns + 1, ns + self.net_ns(turn))
        })
    }

    /// Returns for how long after `from_ns` the recorder still polled, or another thread of lower
    /// rank than the tasks still ran. Only times before `to_ns` count. Returns `None` if nothing
    /// was recorded at `to_ns`.
    pub fn late_ns(&self, from_ns: u64, to_ns: u64) -> Option<u64> {
        let past = self.gaps.partition_point(|gap| gap.begin_ns <= to_ns);
        let gap = self.gaps[..past].last()?;
        let past = self.behind_ended_ns.partition_point(|it| *it <= to_ns);
        let behind_ns = self.behind_ended_ns[..past].last().copied();
        let last_ns = gap.begin_ns.max(behind_ns.unwrap_or(0));
        (to_ns <= gap.end_ns).then(|| last_ns.saturating_sub(from_ns))
    }

    /// Asserts that `vmnoise explain` attributes to the tasks' threads at most the time of the
    /// turns that overlap each gap. Otherwise, more of a gap would count as left for the tasks than
    /// their jobs had.
    fn assert_whole(&self) {
        let mut turns: Vec<Turn> = self.turns.values().flatten().copied().collect();
        turns.sort_unstable_by_key(|turn| turn.begin_ns);
        for gap in &self.gaps {
            let past = turns.partition_point(|turn| turn.begin_ns < gap.end_ns);
            let reach = turns[..past].iter().rev();
            // Turns do not overlap, so their ends are in the same order as their starts.
            let reach = reach.take_while(|turn| turn.end_ns > gap.begin_ns);
            let net_ns: u64 = reach.map(|turn| self.net_ns(turn)).sum();
            assert!(gap.tasks_ns <= net_ns, "{gap:?}: {net_ns}");
        }
    }
}

fn gap_of(gap: &Interval, threads: &HashMap<SourceId, u32>) -> Gap {
    let is_task = |source: SourceId| threads.contains_key(&source);
    let parts = gap.parts.iter();
    let parts = parts.filter(|it| it.share == Share::Thread && it.source.is_some_and(is_task));
    Gap {
        begin_ns: gap.start_mono_ns,
        end_ns: gap.start_mono_ns + gap.dur_ns,
        tasks_ns: parts.map(|it| it.ns).sum(),
    }
}

/// Returns the turns of each thread in order. The steal time of a turn does not include steal time
/// of interrupts in the turn.
fn of_threads(
    turns: &[Activity],
    interrupts: &[Activity],
    threads: &HashMap<SourceId, u32>,
) -> HashMap<u32, Vec<Turn>> {
    let mut of_threads: HashMap<u32, Vec<Turn>> = HashMap::new();
    for turn in turns {
        let (begin_ns, end_ns) = (turn.start_mono_ns, turn.end_mono_ns);
        let first = interrupts.partition_point(|it| it.start_mono_ns < begin_ns);
        let inside = interrupts[first..].iter();
        let inside = inside.take_while(|it| it.start_mono_ns < end_ns);
        let inside = inside.filter(|it| it.end_mono_ns <= end_ns);
        // The steal of a nested interrupt is subtracted twice, so the turn may keep too much time.
        let theirs_ns: u64 = inside.map(|it| it.steal_ns).sum();
        of_threads
            .entry(threads[&turn.source])
            .or_default()
            .push(Turn {
                begin_ns,
                end_ns,
                stolen_ns: turn.steal_ns.saturating_sub(theirs_ns),
            });
    }
    for turns in of_threads.values_mut() {
        turns.sort_unstable_by_key(|turn| turn.begin_ns);
    }
    of_threads
}

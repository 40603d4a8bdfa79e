//! The chart of the longest gaps, wake-ups or exits. The page's own script draws it, and a click on
//! a point shows the causes.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::json;
use vmnoise_events::Share;
use vmnoise_explain::Most;

use super::harmless;
use crate::figures::{duration, times};
use crate::run::ReportedRun;
use crate::scenes::{Bar, KernelSide, few};
use crate::shares::{colour, label};
use crate::trees::trees;

/// Limits on the number of lines of a tree.
const MOST: Most = Most {
    exits: 12,
    parts: 8,
    evenly: false,
};

/// Data of the chart that the page's own script draws.
#[derive(Debug)]
pub(crate) struct Spikes {
    pub(crate) title: &'static str,
    pub(crate) note: String,
    pub(crate) json: String,
}

/// Data for the script that draws the chart.
#[derive(Serialize)]
struct SpikesData<'a> {
    length: &'static str,
    victim: &'static str,
    /// Label for all CPUs or vCPUs together.
    all: String,
    lanes: Vec<&'a str>,
    shares: Vec<ShareData>,
    names: Vec<String>,
    spikes: Vec<SpikeData>,
    scenes: Vec<Vec<BarData>>,
    trees: Vec<(String, Vec<LineData>)>,
    /// Whether the branches of a tree follow each other in time.
    phases: bool,
}

/// A gap, wake-up or exit: index of its CPU or vCPU, begin after the start of the run, length,
/// parts, index of its scene, index of its tree. A part has three numbers: share, name and length.
/// Scene and tree may be missing. Times are in nanoseconds.
type SpikeData = (usize, u64, u64, Vec<i64>, Option<usize>, Option<usize>);

/// A line of a tree: depth, share (-1 for a phase or an exit), text, length in nanoseconds.
type LineData = (u8, i64, i64, u64);

/// A bar of a scene: 1 for the host's activity and 0 for the guest's, begin after the begin of the
/// spike, length, share, name. Times are in nanoseconds.
type BarData = (u8, u64, u64, usize, i64);

#[derive(Serialize)]
struct ShareData {
    key: &'static str,
    label: &'static str,
    colour: &'static str,
}

/// Returns the chart; `None` if nothing was recorded.
pub(crate) fn spikes(run: &ReportedRun) -> Option<Spikes> {
    let words = run.words();
    let gathered = &run.gathered;
    (gathered.count() > 0).then(|| Spikes {
        title: words.over_time,
        note: format!(
            "The longest {} of each {} on each {}, and the longest of all {}. No maximum is left out. \
             A point has the colour of its largest part.",
            words.one,
            duration(gathered.stretch_ns),
            words.lane,
            times(gathered.count(), words.one, words.many),
        ),
        json: harmless(&json!(data(run))),
    })
}

fn data(run: &ReportedRun) -> SpikesData<'_> {
    let words = run.words();
    let mut names = Names::default();
    let (mut scenes, mut drawn) = (Vec::new(), Vec::new());
    let trees = trees(run, MOST);
    let found: HashMap<(usize, u64), &Vec<Bar>> = run
        .scenes
        .iter()
        .map(|(spike, bars)| (*spike, bars))
        .collect();
    let mut spikes = Vec::new();
    for spike in &run.gathered.spikes {
        let parts = spike.parts.iter().flat_map(|part| {
            let name = names.place(run.gathered.name(part).unwrap_or(""));
            [part.share as i64, name, part.ns as i64]
        });
        let parts = parts.collect();
        let scene = found.get(&(spike.lane, spike.start_mono_ns)).map(|bars| {
            let bars = few(bars).into_iter().map(|bar| {
                (
                    u8::from(bar.side == KernelSide::Host),
                    bar.start_mono_ns.saturating_sub(spike.start_mono_ns),
                    bar.dur_ns,
                    bar.share as usize,
                    names.place(&bar.name),
                )
            });
            scenes.push(bars.collect());
            scenes.len() - 1
        });
        let at_ns = run.at_ns(spike.start_mono_ns);
        let number = run.gathered.lanes[spike.lane];
        let tree = trees.get(&(number, spike.start_mono_ns)).map(|tree| {
            let lines = tree.lines.iter().map(|line| {
                let share = line.share.map_or(-1, |share| share as i64);
                (line.depth, share, names.place(&line.words), line.ns)
            });
            drawn.push((tree.flaw.clone(), lines.collect()));
            drawn.len() - 1
        });
        spikes.push((spike.lane, at_ns, spike.dur_ns, parts, scene, tree));
    }
    SpikesData {
        length: words.length,
        victim: words.victim,
        all: format!("all {}s", words.lane),
        lanes: (0..run.gathered.lanes.len())
            .map(|lane| run.lane_name(lane))
            .collect(),
        shares: Share::ALL
            .iter()
            .map(|share| ShareData {
                key: share.name(),
                label: label(*share),
                colour: colour(*share),
            })
            .collect(),
        names: names.names,
        spikes,
        scenes,
        trees: drawn,
        phases: run.is_of_tasks(),
    }
}

/// Names, each with an index. Index 0 means unknown.
struct Names {
    places: HashMap<String, i64>,
    names: Vec<String>,
}

impl Default for Names {
    fn default() -> Self {
        Names {
            places: HashMap::from([(String::new(), 0)]),
            names: vec![String::new()],
        }
    }
}

impl Names {
    fn place(&mut self, name: &str) -> i64 {
        let next = self.names.len() as i64;
        match self.places.get(name) {
            Some(place) => *place,
            None => {
                self.places.insert(name.to_owned(), next);
                self.names.push(name.to_owned());
                next
            }
        }
    }
}

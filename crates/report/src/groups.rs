//! Groups the culprits of lost time: all tasks of a program form one group, over all CPUs or vCPUs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use vmnoise_events::{Name, Share};

use crate::figures::sum;
use crate::gathering::Taker;
use crate::shares::program;

/// Time that one program or one kind of work took, over all CPUs or vCPUs.
pub(crate) struct Group {
    pub(crate) share: Share,
    pub(crate) who: Option<Name>,
    pub(crate) moments: u64,
    pub(crate) total_ns: u64,
    pub(crate) max_ns: Option<u64>,
    /// Time in nanoseconds, by the index of the CPU or vCPU.
    pub(crate) lanes_ns: BTreeMap<usize, u64>,
}

/// Returns the groups, the largest first.
pub(crate) fn grouped(takers: &[Taker]) -> Vec<Group> {
    let mut groups: BTreeMap<(Share, Option<&str>), Group> = BTreeMap::new();
    for taker in takers {
        let who = taker.name.as_deref().map(program);
        let group = groups.entry((taker.share, who)).or_insert_with(|| Group {
            share: taker.share,
            who: who.map(str::to_owned).map(Into::into),
            moments: 0,
            total_ns: 0,
            max_ns: None,
            lanes_ns: BTreeMap::new(),
        });
        group.moments = sum([group.moments, taker.moments]);
        group.total_ns = sum([group.total_ns, taker.total_ns]);
        group.max_ns = group.max_ns.max(taker.max_ns);
        let lane_ns = group.lanes_ns.entry(taker.lane).or_default();
        *lane_ns = sum([*lane_ns, taker.total_ns]);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.total_ns));
    groups
}

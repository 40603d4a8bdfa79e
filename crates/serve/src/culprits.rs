//! Tasks that had a CPU while a vCPU of a VM waited for it. At most [`NAMED`] of them have their
//! own series in the metrics. The time of all others is exported as `other`. No sum falls, and all
//! sums together equal the preempted time.

use std::collections::BTreeMap;

use crate::who::Who;

/// Largest number of culprits with their own series.
pub(crate) const NAMED: usize = 16;
/// Largest number of further culprits whose time is counted. Each of them may overtake a culprit
/// that has its own series.
const WATCHED: usize = 64;

/// Culprits of one VM, in ns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Culprits {
    named: BTreeMap<Who, Named>,
    /// Time of each culprit since counting began for it. `others_ns` contains this time too.
    watched: BTreeMap<Who, u64>,
    others_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Named {
    /// Time in ns of the culprit since counting began for it.
    all_ns: u64,
    /// Time in ns of the culprit since it has its own series. Earlier time stays in `other`.
    named_ns: u64,
}

impl Culprits {
    /// Returns the culprits with their own series, each with the time in ns of this series.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&Who, u64)> {
        self.named.iter().map(|(who, named)| (who, named.named_ns))
    }

    /// Returns the time in ns of the culprits without their own series.
    pub(crate) fn others_ns(&self) -> u64 {
        self.others_ns
    }

    /// Adds the preempted time since the last call, in ns. `known` lists culprits with their parts
    /// of this time.
    pub(crate) fn add(&mut self, preempted_ns: u64, known: impl IntoIterator<Item = (Who, u64)>) {
        let mut left = preempted_ns;
        for (who, ns) in known {
            // The sum of `known` may exceed the total, because its parts are read one after the
            // other.
            let ns = ns.min(left);
            if self.is_told_by_name(who, ns) {
                left -= ns;
            }
        }
        self.others_ns += left;
        self.promote();
    }

    fn is_told_by_name(&mut self, who: Who, ns: u64) -> bool {
        if ns == 0 {
            return true;
        }
        let has_room = self.named.len() < NAMED;
        match self.named.get_mut(&who) {
            Some(named) => {
                named.all_ns += ns;
                named.named_ns += ns;
                true
            }
            None if has_room => {
                let (all_ns, named_ns) = (ns, ns);
                self.named.insert(who, Named { all_ns, named_ns });
                true
            }
            None => {
                *self.watched.entry(who).or_insert(0) += ns;
                false
            }
        }
    }

    /// Gives the series of the named culprit with the least time to a watched culprit with more
    /// time. Repeats this until no watched culprit has more time.
    fn promote(&mut self) {
        loop {
            let most = self.watched.iter().max_by_key(|(_, ns)| **ns);
            let least = self.named.iter().min_by_key(|(_, named)| named.all_ns);
            let (Some((comer, &all_ns)), Some((goer, named))) = (most, least) else {
                break;
            };
            if all_ns <= named.all_ns {
                break;
            }
            let (comer, goer, left_ns) = (comer.clone(), goer.clone(), named.all_ns);
            self.watched.remove(&comer);
            self.named.remove(&goer);
            self.watched.insert(goer, left_ns);
            let named_ns = 0;
            self.named.insert(comer, Named { all_ns, named_ns });
        }
        while self.watched.len() > WATCHED {
            let least = self.watched.iter().min_by_key(|(_, ns)| **ns);
            let Some(least) = least.map(|(who, _)| who.clone()) else {
                break;
            };
            self.watched.remove(&least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::who::Kind;

    fn who(number: u64) -> Who {
        Who {
            kind: Kind::Foreign,
            name: format!("task-{number}").into(),
            cgroup: None,
        }
    }

    fn told(culprits: &Culprits) -> BTreeMap<Who, u64> {
        let named = culprits.named();
        named.map(|(who, ns)| (who.clone(), ns)).collect()
    }

    #[test]
    fn one_that_comes_late_and_takes_most_gets_a_name() {
        let mut culprits = Culprits::default();
        culprits.add(1_600, (0..16).map(|number| (who(number), 100)));
        assert_eq!(culprits.others_ns(), 0);
        culprits.add(5_000, [(who(99), 5_000)]);
        // The earlier time of this culprit was counted before it had its own series.
        assert_eq!(
            (culprits.others_ns(), told(&culprits)[&who(99)]),
            (5_000, 0)
        );
        culprits.add(700, [(who(99), 600)]);
        assert_eq!(
            (culprits.others_ns(), told(&culprits)[&who(99)]),
            (5_100, 600)
        );
    }

    #[test]
    fn nobody_is_told_of_more_than_there_was() {
        let mut culprits = Culprits::default();
        // The parts are read after the sum, so they may exceed it.
        culprits.add(100, [(who(1), 70), (who(2), 50)]);
        let all = BTreeMap::from([(who(1), 70), (who(2), 30)]);
        assert_eq!((told(&culprits), culprits.others_ns()), (all, 0));
    }

    #[test]
    fn whatever_comes_all_is_told_once_and_no_sum_of_a_name_that_stays_shrinks() {
        let mut random = fastrand::Rng::with_seed(18);
        let (mut culprits, mut preempted) = (Culprits::default(), 0);
        let mut had = BTreeMap::<Who, u64>::new();
        let mut gone = 0;
        for _ in 0..2_000 {
            let before = told(&culprits);
            let others_before = culprits.others_ns();
            let known: Vec<(Who, u64)> = (0..random.u64(0..6))
                .map(|_| (who(random.u64(0..200)), random.u64(0..1_000)))
                .collect();
            for (who, ns) in &known {
                *had.entry(who.clone()).or_insert(0) += ns;
            }
            let sum: u64 = known.iter().map(|(_, ns)| ns).sum();
            let more = sum + random.u64(0..100);
            preempted += more;
            culprits.add(more, known);
            let now = told(&culprits);
            assert!(now.len() <= NAMED && culprits.watched.len() <= WATCHED);
            assert!(culprits.others_ns() >= others_before);
            for (who, ns) in &before {
                match now.get(who) {
                    Some(now) => assert!(now >= ns, "{who:?}"),
                    None => gone += ns,
                }
            }
            for (who, ns) in &now {
                assert!(ns <= &had[who], "{who:?} has more than it had");
            }
            let told: u64 = now.values().sum::<u64>() + culprits.others_ns();
            assert_eq!(told + gone, preempted);
        }
        assert!(gone > 0, "somebody has lost a name");
    }
}

//! Endless sequence of inputs, each with a number. An input is invented, or derived from an input
//! of the corpus.

use std::fs;
use std::path::Path;

use fastrand::Rng;

/// Maximum length of an invented input in bytes: a stream with some hundred events.
const MOST_BYTES: usize = 8 << 10;
/// Maximum number of changes of one input.
const MOST_CHANGES: u32 = 12;
/// Numbers at which arithmetic breaks.
const EDGES: [u64; 8] = [
    0,
    1,
    u32::MAX as u64,
    1 << 32,
    i64::MAX as u64,
    i64::MAX as u64 + 1,
    u64::MAX - 1,
    u64::MAX,
];

/// The inputs of one target for a seed.
#[derive(Debug)]
pub struct Inputs {
    seed: u64,
    corpus: Vec<Vec<u8>>,
}

impl Inputs {
    /// Creates the inputs for this seed, with the files of a folder as corpus.
    pub fn of(seed: u64, corpus: &Path) -> Inputs {
        let entries = fs::read_dir(corpus).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        // Sorts the files, so that their order is the same on every machine.
        paths.sort();
        let files = paths.iter().filter_map(|path| fs::read(path).ok());
        Inputs {
            seed,
            corpus: files.filter(|file| !file.is_empty()).collect(),
        }
    }

    /// Returns the input with this number.
    pub fn input(&self, case: u64) -> Vec<u8> {
        let mut dice = Rng::with_seed(self.seed);
        let mut dice = Rng::with_seed(dice.u64(..) ^ case);
        match dice.choice(&self.corpus) {
            Some(known) if dice.bool() => self.changed(known, &mut dice),
            _ => new(&mut dice),
        }
    }

    fn changed(&self, known: &[u8], dice: &mut Rng) -> Vec<u8> {
        let mut bytes = known.to_vec();
        for _ in 0..dice.u32(0..=MOST_CHANGES) {
            if bytes.is_empty() {
                return new(dice);
            }
            self.change(&mut bytes, dice);
        }
        bytes
    }

    /// Changes some bytes. Half of the changes keep the length. Without them, a reader would get to
    /// see little of a changed recording.
    fn change(&self, bytes: &mut Vec<u8>, dice: &mut Rng) {
        let (from, to) = span(bytes.len(), dice);
        match dice.u8(0..12) {
            0 | 1 => bytes[from] ^= 1 << dice.u8(0..8),
            2 | 3 => bytes[from] = dice.u8(..),
            4..=6 => {
                // Numbers in a recording are aligned.
                let width = dice.choice([1, 4, 8, 8]).unwrap_or(8);
                let number = dice.choice(EDGES).unwrap_or(0).to_le_bytes();
                let from = from / width * width;
                let to = bytes.len().min(from + width);
                bytes[from..to].copy_from_slice(&number[..to - from]);
            }
            7 | 8 => {
                let place = dice.usize(0..=bytes.len() - (to - from));
                bytes.copy_within(from..to, place);
            }
            9 => {
                bytes.drain(from..to);
            }
            10 => {
                let again = bytes[from..to].to_vec();
                bytes.splice(to..to, again);
            }
            _ => {
                let other = dice.choice(&self.corpus).map_or(&[][..], |other| other);
                let (begin, end) = span(other.len(), dice);
                bytes.splice(from..to, other[begin..end].iter().copied());
            }
        }
    }
}

/// Invents an input; most inputs are short.
fn new(dice: &mut Rng) -> Vec<u8> {
    let most = MOST_BYTES >> dice.u32(0..8);
    let mut bytes = vec![0; dice.usize(0..=most)];
    dice.fill(&mut bytes);
    bytes
}

/// Returns a short range of indices within `len` bytes.
fn span(len: usize, dice: &mut Rng) -> (usize, usize) {
    let from = dice.usize(0..len.max(1));
    let most = 1_usize << dice.u32(0..8);
    (from.min(len), len.min(from + 1 + dice.usize(0..most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_follows_from_its_seed_and_its_number() {
        let inputs = |seed| Inputs {
            seed,
            corpus: vec![b"one".to_vec(), vec![7; 1000]],
        };
        let of = |seed| Vec::from_iter((0..500).map(|case| inputs(seed).input(case)));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let (kept, other): (Vec<_>, Vec<_>) = of(1)
            .into_iter()
            .partition(|input| input.starts_with(&[7; 100]));
        assert!(kept.len() > 50 && other.len() > 200, "{}", kept.len());
    }
}

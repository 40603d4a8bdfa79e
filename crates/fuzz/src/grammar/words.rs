//! Makes choices from bytes. After the last byte, each choice is the first option.

use arbitrary::Unstructured;

/// Numbers at which arithmetic breaks.
const EDGES: [u64; 12] = [
    0,
    1,
    2,
    999_999_999,
    1_000_000_000,
    u32::MAX as u64,
    1 << 32,
    1 << 42,
    i64::MAX as u64,
    i64::MAX as u64 + 1,
    u64::MAX - 1,
    u64::MAX,
];

/// Hostile names: formulas, tags, escapes, and control characters.
const NAMES: [&str; 12] = [
    "stress:4711",
    "local_timer:236",
    "NET_RX:3",
    "",
    "=HYPERLINK(\"http://x\")",
    "<a href='//x'>x</a></script>",
    "\u{1b}[2J\u{7}\n\r\t\0",
    "\u{202e}live\u{2066}",
    "a,b;\"c\"\\",
    "{{7*7}}%s%n",
    "../../../tmp/x",
    "\u{fdfa}\u{1f468}\u{200d}\u{1f469}",
];

/// Bytes of one input, from which choices are made.
pub(crate) struct Words<'a> {
    bytes: Unstructured<'a>,
    /// On average, one of this many numbers is impossible in a run; `None` if all numbers are
    /// possible.
    wild: Option<u8>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Words<'a> {
        let mut words = Words {
            bytes: Unstructured::new(bytes),
            wild: None,
        };
        words.wild = words.one_of(&[None, Some(100), Some(20), Some(3)]);
        words
    }

    /// Splits the remaining bytes into two halves.
    pub(crate) fn halves(self) -> (Words<'a>, Words<'a>) {
        let Words { bytes, wild } = self;
        let rest = bytes.take_rest();
        let (first, second) = rest.split_at(rest.len() / 2);
        let of = |bytes| Words {
            bytes: Unstructured::new(bytes),
            wild,
        };
        (of(first), of(second))
    }

    pub(crate) fn have_ended(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.bytes.arbitrary().unwrap_or_default()
    }

    pub(crate) fn below(&mut self, end: u8) -> u8 {
        self.byte() % end
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Returns true once in `many` calls, on average.
    pub(crate) fn once_in(&mut self, many: u8) -> bool {
        self.byte() % many == many - 1
    }

    pub(crate) fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()].clone()
    }

    /// Returns a list with up to `most` elements.
    pub(crate) fn list<T>(&mut self, most: u8, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| one(self)).collect()
    }

    pub(crate) fn maybe<T>(&mut self, one: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| one(self))
    }

    /// Returns whether the next number may be impossible in a run.
    pub(crate) fn is_wild(&mut self) -> bool {
        self.wild.is_some_and(|many| self.once_in(many))
    }

    /// Returns any number.
    pub(crate) fn any(&mut self) -> u64 {
        match self.below(4) {
            0 => self.bytes.arbitrary().unwrap_or_default(),
            1 => 1_u64.rotate_left(u32::from(self.byte())) - 1,
            2 => EDGES[usize::from(self.byte()) % EDGES.len()].wrapping_add(u64::from(self.flag())),
            _ => self.one_of(&EDGES),
        }
    }

    /// Returns a length in nanoseconds, from some nanoseconds to some seconds.
    pub(crate) fn length(&mut self) -> u64 {
        if self.is_wild() {
            return self.any();
        }
        let shift = self.one_of(&[0, 0, 4, 8, 12, 16]);
        u64::from(self.bytes.arbitrary::<u16>().unwrap_or_default()) << shift
    }

    /// Returns a small count.
    pub(crate) fn count(&mut self) -> u64 {
        match self.is_wild() {
            true => self.any(),
            false => self.byte().into(),
        }
    }

    pub(crate) fn count_u32(&mut self) -> u32 {
        // An impossible number is cut instead of limited, because any of its bits may matter.
        self.count() as u32
    }

    pub(crate) fn name(&mut self) -> String {
        match self.below(16) {
            0 => NAMES[3].to_owned(),
            1 => "long ".repeat(usize::from(self.byte())),
            2 => {
                let length = usize::from(self.below(40)).min(self.bytes.len());
                let letters = self.bytes.bytes(length).unwrap_or_default();
                String::from_utf8_lossy(letters).into_owned()
            }
            3 => format!("task:{}", self.byte()),
            _ => self.one_of(&NAMES).to_owned(),
        }
    }
}

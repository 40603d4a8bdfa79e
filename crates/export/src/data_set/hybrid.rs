//! Small numbers as Parquet packs them: runs of one number, and groups of numbers that are so many bits wide each
//! (`Encodings.md` of parquet-format, "Run Length Encoding / Bit-Packing Hybrid").

/// Numbers of one width, to be taken one after the other.
#[derive(Debug, Default)]
pub(super) struct Hybrid {
    bytes: Vec<u8>,
    /// Where the next run begins, bytes.
    at: usize,
    /// Bits of a number.
    width: usize,
    run: Run,
}

#[derive(Debug, Clone, Copy)]
enum Run {
    Same {
        left: u64,
        number: u32,
    },
    /// Packed from this bit on.
    Packed {
        left: u64,
        bit: usize,
    },
}

impl Default for Run {
    fn default() -> Run {
        Run::Same { left: 0, number: 0 }
    }
}

impl Hybrid {
    /// Numbers of so many bits, 32 at most.
    pub(super) fn new(bytes: Vec<u8>, width: u8) -> Option<Hybrid> {
        (width <= 32).then(|| Hybrid {
            bytes,
            at: 0,
            width: width.into(),
            run: Run::default(),
        })
    }

    /// Single bits without a head, as plain truths are.
    pub(super) fn of_bits(bytes: Vec<u8>) -> Hybrid {
        let left = 8 * bytes.len() as u64;
        Hybrid {
            at: bytes.len(),
            bytes,
            width: 1,
            run: Run::Packed { left, bit: 0 },
        }
    }

    /// The next number; `None` where the bytes end.
    pub(super) fn next(&mut self) -> Option<u32> {
        loop {
            match &mut self.run {
                Run::Same { left, number } if *left > 0 => {
                    *left -= 1;
                    return Some(*number);
                }
                Run::Packed { left, bit } if *left > 0 => {
                    let from = *bit;
                    *left -= 1;
                    *bit += self.width;
                    return self.packed(from);
                }
                _ => self.run = self.next_run()?,
            }
        }
    }

    fn next_run(&mut self) -> Option<Run> {
        let (mut head, mut shift) = (0_u64, 0);
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            head |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
            // Heads are of 32 bits.
            if shift > 28 {
                return None;
            }
        }
        let count = head >> 1;
        if head & 1 == 1 {
            let bit = 8 * self.at;
            let length = usize::try_from(count).ok()?.checked_mul(self.width)?;
            self.at = self.at.checked_add(length)?;
            return Some(Run::Packed {
                left: 8 * count,
                bit,
            });
        }
        let end = self.at + self.width.div_ceil(8);
        let mut number = [0; 4];
        let bytes = self.bytes.get(self.at..end)?;
        number[..bytes.len()].copy_from_slice(bytes);
        self.at = end;
        let number = u32::from_le_bytes(number);
        Some(Run::Same {
            left: count,
            number,
        })
    }

    /// The number that begins at this bit.
    fn packed(&self, bit: usize) -> Option<u32> {
        let end = (bit + self.width).div_ceil(8);
        let bytes = self.bytes.get(bit / 8..end)?;
        let mut window = [0; 8];
        window[..bytes.len()].copy_from_slice(bytes);
        let number = u64::from_le_bytes(window) >> (bit % 8);
        Some((number & ((1 << self.width) - 1)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::Hybrid;

    fn all(bytes: &[u8], width: u8) -> Vec<u32> {
        let mut hybrid = Hybrid::new(bytes.to_vec(), width).unwrap();
        std::iter::from_fn(|| hybrid.next()).collect()
    }

    /// The example of `Encodings.md`: 0 to 7, three bits each.
    #[test]
    fn groups_are_unpacked_as_the_format_says() {
        let packed = [0b0000_0011, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(all(&packed, 3), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn runs_and_groups_follow_one_another() {
        // 300 times 5, in two bytes of head; then a group of single bits is another width.
        assert_eq!(all(&[0xd8, 0x04, 5], 3), [5; 300]);
        assert_eq!(
            all(&[6, 1, 3, 0b0101_0101], 1),
            [1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 0]
        );
        // Numbers of no bits are all 0.
        assert_eq!(all(&[8], 0), [0; 4]);
    }

    #[test]
    fn what_is_cut_off_ends() {
        assert_eq!(all(&[], 3), []);
        assert_eq!(all(&[0xd8], 3), []);
        assert_eq!(all(&[4], 3), []);
        assert_eq!(all(&[3, 0b0000_0011], 3), [3, 0]);
        assert_eq!(all(&[0xff; 9], 3), []);
        assert!(Hybrid::new(vec![], 33).is_none());
    }
}

//! Searches sorted slices from one end. The result is usually near this end, because gaps come one
//! after another.

/// Returns the same result as [`slice::partition_point`], and is fast if the result is near the
/// front.
pub(crate) fn near_front<T>(all: &[T], is_before: impl Fn(&T) -> bool) -> usize {
    let mut reach = 1;
    while all.get(reach - 1).is_some_and(&is_before) {
        reach *= 2;
    }
    let known = reach / 2;
    let end = reach.min(all.len());
    known + all[known..end].partition_point(is_before)
}

/// Returns the same result as [`slice::partition_point`], and is fast if the result is near the
/// back.
pub(crate) fn near_back<T>(all: &[T], is_before: impl Fn(&T) -> bool) -> usize {
    let len = all.len();
    let mut reach = 1;
    while reach <= len && !is_before(&all[len - reach]) {
        reach *= 2;
    }
    let start = len.saturating_sub(reach);
    start + all[start..len - reach / 2].partition_point(is_before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_find_what_a_search_of_all_finds() {
        for len in 0..40 {
            let all: Vec<usize> = (0..len).collect();
            for point in 0..=len {
                let is_before = |it: &usize| *it < point;
                assert_eq!(near_front(&all, is_before), point, "of {len}");
                assert_eq!(near_back(&all, is_before), point, "of {len}");
            }
        }
    }
}

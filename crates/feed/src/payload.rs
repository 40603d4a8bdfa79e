//! Decodes a frame from its payload, which is complete but may contain anything.

use vmnoise_events::{FeedDetail, HostCulprit, HostFrame, HostReason, Share, ShareMap};

use crate::error::FrameError;
use crate::layout::{IS_LAST, MAX_CULPRITS, MAX_NAME_BYTES, MAX_REASONS, SEES_KVM};

/// Returns the number of a share: its index in [`Share::OF_EXITS`]. Shares that are not in this
/// list have no number.
pub(crate) fn share_number(share: Share) -> Option<u8> {
    let place = Share::OF_EXITS.iter().position(|it| *it == share)?;
    u8::try_from(place).ok()
}

fn share_of(number: u8) -> Option<Share> {
    Share::OF_EXITS.get(usize::from(number)).copied()
}

/// Decodes a payload of this version, and requires that no bytes are left.
pub(crate) fn decode(payload: &[u8]) -> Result<HostFrame, FrameError> {
    let mut rest = Rest(payload);
    let vcpu = rest.u32()?;
    let detail = FeedDetail::from_number(rest.u8()?).ok_or(FrameError::Content("its detail"))?;
    let flags = rest.u8()?;
    let (reason_count, culprit_count) = (usize::from(rest.u8()?), usize::from(rest.u8()?));
    let most_reasons = if detail >= FeedDetail::Reasons {
        MAX_REASONS
    } else {
        0
    };
    let most_culprits = if detail >= FeedDetail::Full {
        MAX_CULPRITS
    } else {
        0
    };
    check(flags & !(SEES_KVM | IS_LAST) == 0, "its flags")?;
    check(reason_count <= most_reasons, "its number of reasons")?;
    check(culprit_count <= most_culprits, "its number of culprits")?;

    let [from_tsc, until_tsc, exits, heavy, lost] = rest.numbers()?;
    check(from_tsc <= until_tsc, "it ends before it begins")?;
    check(heavy <= exits, "more heavy exits than exits")?;
    let mut parts = rest.numbers::<{ Share::OF_EXITS.len() }>()?.into_iter();
    let split = ShareMap::only(Share::OF_EXITS, |_| parts.next().unwrap_or_default());

    let mut reasons = Vec::with_capacity(reason_count);
    for _ in 0..reason_count {
        let name = rest.name()?;
        let [exits, dur_ns] = rest.numbers()?;
        reasons.push(HostReason {
            name: name.into(),
            exits,
            dur_ns,
        });
    }
    let mut culprits = Vec::with_capacity(culprit_count);
    for _ in 0..culprit_count {
        let share = share_of(rest.u8()?).ok_or(FrameError::Content("its share"))?;
        let name = rest.name()?;
        let [dur_ns] = rest.numbers()?;
        culprits.push(HostCulprit {
            share,
            name: name.into(),
            dur_ns,
        });
    }
    check(rest.0.is_empty(), "bytes behind its end")?;
    Ok(HostFrame {
        vcpu,
        from_tsc,
        until_tsc,
        detail,
        sees_kvm: flags & SEES_KVM != 0,
        is_last: flags & IS_LAST != 0,
        exits,
        heavy,
        split,
        lost,
        reasons,
        culprits,
    })
}

fn check(holds: bool, what: &'static str) -> Result<(), FrameError> {
    if holds {
        Ok(())
    } else {
        Err(FrameError::Content(what))
    }
}

/// Bytes that are not yet read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take(&mut self, length: usize) -> Result<&[u8], FrameError> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(FrameError::Content("it ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u8(&mut self) -> Result<u8, FrameError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, FrameError> {
        self.array().map(u32::from_le_bytes)
    }

    fn numbers<const N: usize>(&mut self) -> Result<[u64; N], FrameError> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = u64::from_le_bytes(self.array()?);
        }
        Ok(numbers)
    }

    /// Returns a name that is safe to print.
    fn name(&mut self) -> Result<String, FrameError> {
        let length = usize::from(self.u8()?);
        check(length <= MAX_NAME_BYTES, "the length of a name")?;
        let name = std::str::from_utf8(self.take(length)?)
            .map_err(|_| FrameError::Content("a name that is no UTF-8"))?;
        let shows = !name.contains(char::is_control);
        check(shows, "a name with control characters")?;
        Ok(name.to_owned())
    }
}

//! Plain values, which are copied byte by byte from and to maps and records.

/// Reads a value from the kernel's bytes; `None` if there are too few bytes.
pub(crate) fn read<Value: Plain>(bytes: &[u8]) -> Option<Value> {
    if bytes.len() < size_of::<Value>() {
        return None;
    }
    // SAFETY: there are enough bytes, and any bytes are a valid value, because `Plain` types
    // consist of numbers only.
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// Reads all values that the bytes contain one after the other.
pub(crate) fn read_all<Value: Plain>(bytes: &[u8]) -> impl Iterator<Item = Value> {
    bytes.chunks_exact(size_of::<Value>()).filter_map(read)
}

/// Returns the bytes of a value, to be passed to the kernel.
pub(crate) fn bytes<Value: Plain>(value: &Value) -> &[u8] {
    // SAFETY: `Plain` types consist of numbers without padding between them, so every byte is
    // initialized.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<Value>()) }
}

/// Types that consist of numbers, without padding.
pub(crate) trait Plain: Copy {}

impl Plain for u32 {}

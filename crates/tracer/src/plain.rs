//! Plain values in maps and records.

/// Reads a value of a map from the kernel's bytes.
pub(crate) fn read<Value: Plain>(bytes: &[u8]) -> Option<Value> {
    if bytes.len() < size_of::<Value>() {
        return None;
    }
    // SAFETY: long enough, and any bytes are a valid value: `Plain` types consist of numbers only.
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// Returns the bytes of a value for the kernel.
pub(crate) fn bytes<Value: Plain>(value: &Value) -> &[u8] {
    // SAFETY: `Plain` types consist of numbers without padding between them, so every byte is
    // initialized.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<Value>()) }
}

/// Structures that consist of numbers, without padding.
pub(crate) trait Plain: Copy {}

impl Plain for u32 {}
